"""Laws of the endpoints that no example can show."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Arrival, Behaviour
from slashtag.sandbox.routes import Service
from slashtag.sandbox.store import Store

from .serve import serving


@pytest.mark.parametrize(("orderby", "step"), [("date", 1), ("-date", -1)])
async def test_pages_concatenate_to_the_account_in_order(orderby: str, step: int) -> None:
    async with serving(urls=60, tags=30, max_pagesize=7) as call:
        for n in range(9):  # all of one second
            call.box.add_url(f"k{n}", created_at="2024-01-01")
        for path, records in (("urls", call.box.truth.urls()), ("tags", call.box.truth.tags())):
            pages = [
                (await call.get(path, page=n, pagesize=500, orderby=orderby)).data["items"]
                for n in range(1, 12)
            ]
            assert [item["id"] for page in pages for item in page] == [each.id for each in records][::step]


async def test_an_update_keeps_what_it_does_not_name() -> None:
    async with serving() as call:
        call.box.add_url("a", created_at="2024-01-01", password="old", redirect_code=302, domain_id=1)
        before = call.box.truth.urls()[0]
        await call("PUT", "/api/v1/urls/a", json={"destination": "https://n.example"})
        after = call.box.truth.urls()[0]
        assert after.updated_at > before.updated_at
        assert after == before._replace(destination="https://n.example", updated_at=after.updated_at)
        await call("PUT", "/api/v1/urls/a", json={"password": "new"})
        assert call.box.truth.urls()[0].password == "new"


async def test_a_slashtag_is_decoded_exactly_once() -> None:
    async with serving() as call:
        for slashtag in (
            "a/b",
            "what?",
            "no#1",
            "100%",
            "two words",
            "c++",
            "50%25",
            "%2F",
            "..",
            "été-夏",
            "a&b=c",
        ):
            call.box.add_url(slashtag)
            call.box.add_click(slashtag, "2024-01-01")
            segment = quote(slashtag, safe="")
            reply = await call("PUT", f"/api/v1/urls/{segment}", json={"redirect_code": 302})
            assert (reply.data, call.box.requests[-1].path) == (
                {"rows_updated": 1},
                f"/api/v1/urls/{segment}",
            )
            for keys in (f"x,{segment}%2Cy", segment.replace("%20", "+")):
                reply = await call("GET", f"/api/v1/stats/alltime?url_keys={keys}")
                assert reply.data["clicks_total"] == 1


VALUES = st.one_of(st.text(max_size=20), st.integers(), st.none(), st.booleans(), st.floats(), st.just([1]))
TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "0", "1", "500", "a,b", "t", "date", "US", "2024", "9999", "0001", "+14:00", "-12:00"]
    ),
    st.sampled_from(["9999-12-31", "0001-01-01", "0001-01-01T00:00:00+00:00"]),
    st.sampled_from(["9999-12-31T23:59:59+00:00,9999-12-31T23:59:59-10:00"]),
)
NAMES = "tag url_keys date date_range timezone year iso_code start_date end_date page pagesize orderby"
MEMBERS = "destination slashtag redirect_code password domain_id name description"


@given(
    st.sampled_from(["GET", "PUT", "POST"]),
    st.sampled_from(
        ["urls", "tags", "stats", "stats/yearly", "stats/alltime", "stats/country/geo", "urls/a%00%ff"]
    ),
    st.dictionaries(st.sampled_from(NAMES.split()), TEXTS),
    st.one_of(
        st.binary(max_size=20),
        st.dictionaries(st.sampled_from(MEMBERS.split()), VALUES).map(msgspec.json.encode),
    ),
)
def test_whatever_is_sent_is_answered_in_an_envelope(
    method: str, path: str, query: dict[str, str], body: bytes
) -> None:
    store = Store(None, lambda _: None)
    try:
        arrival = Arrival(method, f"/api/v1/{path}", query, body=body)
        headers = {"apikey": "k", "apisecret": "s", "content-type": "application/json"}
        envelope = Service(store, Behaviour(paths="both"), "k", "s").answer(arrival, headers)
    finally:
        store.close()
    assert envelope.status in (200, 400, 404)
    assert msgspec.json.decode(msgspec.json.encode(envelope))["status"] == envelope.status
