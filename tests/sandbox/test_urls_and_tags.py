"""Lists of links and tags, and their changes: docs/service.md, endpoints 1 to 4."""

from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from .serve import Caller, serving

AWKWARD = [
    "a/b",
    "what?",
    "no#1",
    "100%",
    "two words",
    "c++",
    "50%25",
    "%2F",
    "../up",
    "..",
    "été-夏",
    "a&b=c",
]


async def listed(call: Caller, path: str, **query: object) -> list[Any]:
    items: list[Any] = []
    for page in count(1):
        answer = (await call.get(path, page=page, **query)).data
        items += answer["items"]
        if len(answer["items"]) < answer["pageSize"]:
            return items
    raise AssertionError


@pytest.mark.parametrize(("orderby", "step"), [("date", 1), ("-date", -1)])
async def test_pages_concatenate_to_the_account_in_order(orderby: str, step: int) -> None:
    async with serving(urls=60, tags=30) as call:
        # Of one second.
        for n in range(7):
            call.box.add_url(f"k{n}", created_at="2024-01-01")
        for path, records in (("urls", call.box.truth.urls()), ("tags", call.box.truth.tags())):
            found = await listed(call, path, orderby=orderby, pagesize=2)
            assert [item["id"] for item in found] == [record.id for record in records][::step]
        usual = (await call.get("urls")).data
        assert (usual["page"], usual["pageSize"], len(usual["items"])) == (1, 50, 50)
        assert usual["items"] == (await listed(call, "urls", orderby="-date", pagesize=500))[:50]


@pytest.mark.parametrize(("asked", "given"), [(500, 30), (31, 30), (30, 30), (7, 7)])
@pytest.mark.parametrize("path", ["urls", "tags"])
async def test_a_page_size_above_the_servers_is_lowered_and_told(path: str, asked: int, given: int) -> None:
    async with serving(urls=100, tags=100, max_pagesize=30) as call:
        pages = [(await call.get(path, pagesize=asked, page=n)).data for n in (1, 2)]
        assert [page["pageSize"] for page in pages] == [len(page["items"]) for page in pages] == [given] * 2
        assert len({item["id"] for page in pages for item in page["items"]}) == 2 * given


async def test_a_removed_link_is_gone_with_its_clicks() -> None:
    async with serving() as call:
        call.box.add_url("a")
        call.box.add_click("a", "2024-01-01")
        call.box.remove_url("a")
        assert (await call.get("urls")).data["items"] == []
        assert (await call.get("stats/alltime", url_keys="a")).data["clicks_total"] == 0


async def test_an_update_changes_what_it_names_and_keeps_the_rest() -> None:
    async with serving() as call:
        call.box.add_url("a", created_at="2024-01-01", password="old", redirect_code=302, domain_id=1)
        await call.put("a", destination="https://n.example")
        url = call.box.truth.urls()[0]
        assert (url.slashtag, url.destination, url.redirect_code) == ("a", "https://n.example", 302)
        assert (url.password, url.domain_id) == ("old", 1)
        answer = await call.put("a", slashtag="b", redirect_code=308, password="p" * 50, domain_id=2)
        assert answer.data == {"rows_updated": 1}
        url = call.box.truth.urls()[0]
        assert (url.slashtag, url.destination, url.redirect_code) == ("b", "https://n.example", 308)
        assert (url.password, url.short_url) == ("p" * 50, "https://link.example/b")
        assert url.updated_at > url.created_at == "2024-01-01 00:00:00"


@pytest.mark.parametrize("code", [301, 302, 303, 304, 307, 308])
async def test_every_documented_redirect_code_is_taken(code: int) -> None:
    async with serving() as call:
        call.box.add_url("a", redirect_code=302 if code == 301 else 301)
        await call.put("a", redirect_code=code, slashtag="x" * 100)
        assert call.box.truth.urls()[0].redirect_code == code


async def test_a_slashtag_that_a_link_of_the_domain_has_is_refused() -> None:
    async with serving() as call:
        for slashtag in "ab":
            call.box.add_url(slashtag)
        assert (await call.put("a", slashtag="b")).status == 400
        assert [url.slashtag for url in call.box.truth.urls()] == ["a", "b"]


async def test_a_slashtag_on_several_domains_must_be_updated_by_id() -> None:
    async with serving() as call:
        ids = [call.box.add_url("a", domain_id=domain) for domain in (0, 1)]
        assert (await call.put("a", redirect_code=302)).status == 400
        assert (await call.put(str(ids[1]), redirect_code=302)).data == {"rows_updated": 1}
        assert [url.redirect_code for url in call.box.truth.urls()] == [301, 302]
        assert (await call.put("nobody", redirect_code=302)).status == 404


async def test_digits_are_an_id_first_and_else_a_slashtag() -> None:
    async with serving() as call:
        first = call.box.add_url("a")
        for slashtag in (str(first), "2024", "9" * 40):
            call.box.add_url(slashtag, domain_id=1)
        for key, code in ((str(first), 302), ("2024", 303), ("9" * 40, 307)):
            await call.put(key, redirect_code=code)
        assert [url.redirect_code for url in call.box.truth.urls()] == [302, 301, 303, 307]


@pytest.mark.parametrize("slashtag", AWKWARD)
async def test_a_slashtag_is_decoded_exactly_once(slashtag: str) -> None:
    async with serving() as call:
        call.box.add_url(slashtag)
        call.box.add_click(slashtag, "2024-01-01")
        segment = quote(slashtag, safe="")
        assert (await call.put(segment, redirect_code=302)).data == {"rows_updated": 1}
        assert call.box.requests[-1].path == f"/api/v1/urls/{segment}"
        target = f"/api/v1/stats/alltime?url_keys=x,{segment}%2Cy"
        assert (await call("GET", target)).data["clicks_total"] == 1
        plus = segment.replace("%20", "+")
        assert (await call("GET", f"/api/v1/stats/alltime?url_keys={plus}")).data["clicks_total"] == 1


async def test_a_created_tag_is_answered_and_listed() -> None:
    async with serving() as call:
        created = (await call.post(name="é" * 25, description="d" * 255)).data
        assert created.keys() == {"id", "name", "description", "createdAt"}
        assert (created["name"], created["description"]) == ("é" * 25, "d" * 255)
        assert (await call.get("tags")).data["items"] == [created]
