"""List and update short URLs: docs/service.md, endpoints 1 and 2."""

from itertools import count
from typing import Any

import pytest

from .serve import Caller, serving


async def listed(call: Caller, **query: object) -> list[Any]:
    items: list[Any] = []
    for page in count(1):
        answer = (await call.get("urls", page=page, **query)).data
        items += answer["items"]
        if len(answer["items"]) < answer["pageSize"]:
            return items
    raise AssertionError


@pytest.mark.parametrize(("orderby", "step"), [("date", 1), ("-date", -1)])
async def test_pages_concatenate_to_the_account_in_order(orderby: str, step: int) -> None:
    async with serving(urls=120) as call:
        found = await listed(call, orderby=orderby, pagesize=7)
        assert [item["id"] for item in found] == [url.id for url in call.box.truth.urls()][::step]


@pytest.mark.parametrize(("orderby", "step"), [("date", 1), ("-date", -1)])
async def test_links_of_one_second_keep_their_order_over_pages(orderby: str, step: int) -> None:
    async with serving() as call:
        ids = [call.box.add_url(f"k{n}", created_at="2024-01-01") for n in range(7)]
        found = await listed(call, orderby=orderby, pagesize=2)
        assert [item["id"] for item in found] == ids[::step]


async def test_a_removed_link_is_gone_with_its_clicks() -> None:
    async with serving() as call:
        call.box.add_url("a")
        call.box.add_click("a", "2024-01-01")
        call.box.remove_url("a")
        assert (await call.get("urls")).data["items"] == []
        assert (await call.get("stats/alltime", url_keys="a")).data["clicks_total"] == 0
        with pytest.raises(LookupError):
            call.box.remove_url("a")


async def test_an_update_changes_what_it_names() -> None:
    async with serving() as call:
        call.box.add_url("a", created_at="2024-01-01", password="old", redirect_code=302)
        answer = await call.put(
            "a",
            destination="https://n.example",
            slashtag="b",
            redirect_code=308,
            password="p" * 50,
            domain_id=2,
        )
        assert answer.data == {"rows_updated": 1}
        url = call.box.truth.urls()[0]
        assert (url.destination, url.slashtag, url.redirect_code) == ("https://n.example", "b", 308)
        assert (url.password, url.domain_id, url.short_url) == ("p" * 50, 2, "https://link.example/b")
        assert url.updated_at > url.created_at == "2024-01-01 00:00:00"


async def test_what_an_update_omits_is_kept() -> None:
    async with serving() as call:
        call.box.add_url("a", redirect_code=302, password="pw", domain_id=1)
        await call.put("a", destination="https://n.example")
        url = call.box.truth.urls()[0]
        assert (url.redirect_code, url.password, url.domain_id) == (302, "pw", 1)
        assert (url.slashtag, url.destination) == ("a", "https://n.example")


@pytest.mark.parametrize(
    "body",
    [
        {"slashtag": "x" * 101},
        {"slashtag": ""},
        {"slashtag": 7},
        {"redirect_code": 305},
        {"redirect_code": "301"},
        {"redirect_code": True},
        {"password": "x" * 51},
        {"password": None},
        {"domain_id": "1"},
        {"domain_id": 99},
        {"destination": ""},
        {"destination": "no url"},
        {"slashtag": "taken"},
    ],
)
async def test_an_update_against_the_rules_is_refused_and_changes_nothing(body: dict[str, object]) -> None:
    async with serving() as call:
        call.box.add_url("a")
        call.box.add_url("taken")
        before = call.box.truth.urls()
        answer = await call.put("a", **body)
        assert (answer.status, answer.body["status"], answer.body["data"]) == (400, 400, None)
        assert answer.body["message"].startswith("Bad request. ")
        assert call.box.truth.urls() == before


@pytest.mark.parametrize("code", [301, 302, 303, 304, 307, 308])
async def test_every_documented_redirect_code_is_taken(code: int) -> None:
    async with serving() as call:
        call.box.add_url("a", redirect_code=301)
        await call.put("a", redirect_code=code, slashtag="x" * 100)
        assert call.box.truth.urls()[0].redirect_code == code


async def test_a_slashtag_on_several_domains_must_be_updated_by_id() -> None:
    async with serving() as call:
        ids = [call.box.add_url("a", domain_id=domain) for domain in (0, 1)]
        assert (await call.put("a", redirect_code=302)).status == 400
        assert (await call.put(str(ids[1]), redirect_code=302)).data == {"rows_updated": 1}
        assert [url.redirect_code for url in call.box.truth.urls()] == [301, 302]


async def test_digits_are_an_id_first_and_else_a_slashtag() -> None:
    async with serving() as call:
        first = call.box.add_url("a")
        call.box.add_url(str(first), domain_id=1)
        call.box.add_url("2024")
        call.box.add_url("9" * 40)
        await call.put(str(first), redirect_code=302)
        await call.put("2024", redirect_code=303)
        await call.put("9" * 40, redirect_code=307)
        assert [url.redirect_code for url in call.box.truth.urls()] == [302, 301, 303, 307]
