"""Errors and their envelopes: docs/service.md, Authentication and Errors."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Arrival, Behaviour
from slashtag.sandbox.generate import fill
from slashtag.sandbox.routes import Service
from slashtag.sandbox.store import Store

from .serve import Caller, serving

STATISTICS = ("stats", "stats/yearly", "stats/alltime", "stats/country/geo")
DAY = "2024-01-01T00:00:00+00:00"
COMPLETE: dict[str, dict[str, object]] = {
    "stats": {"date": DAY},
    "stats/yearly": {"year": 2024},
    "stats/alltime": {},
    "stats/country/geo": {"iso_code": "us", "start_date": "2024-01-01", "end_date": "2024-01-31"},
}
MEMBERS = ("destination", "slashtag", "redirect_code", "password", "domain_id", "name", "description")
BEHAVIOURS = [
    Behaviour(),
    Behaviour(range_end="exclusive", zero_days=True, paths="both"),
    Behaviour(day_clicks=True, zero_days=True, empty_maps="array", unknown_keys="error", paths="samples"),
]
values = st.one_of(st.text(max_size=20), st.integers(), st.none(), st.booleans(), st.floats(), st.just([1]))
DATE_FORMAT = "Date format is incorrect. Please provide date in ISO 8601 format."


async def refused(call: Caller, path: str, **query: object) -> str:
    """Return the detail of a 400 of the statistics, whose data is an empty array."""
    answer = await call.get(path, **query)
    assert (answer.status, answer.body["status"], answer.body["data"]) == (400, 400, [])
    message: str = answer.body["message"]
    assert message.startswith("Bad request. ")
    return message.removeprefix("Bad request. ")


@pytest.mark.parametrize("path", ["urls", "tags", *STATISTICS])
@pytest.mark.parametrize("headers", [{"apikey": "wrong"}, {"apisecret": "wrong"}, {"apikey": ""}])
async def test_wrong_credentials_are_the_documented_401_without_data(
    path: str, headers: dict[str, str]
) -> None:
    async with serving() as call:
        answer = await call("GET", f"/api/v1/{path}", headers=headers)
        assert answer.status == 401
        assert answer.body == {"status": 401, "message": "Api key and secret is not valid or missing."}


@pytest.mark.parametrize("path", ["urls", "tags"])
@pytest.mark.parametrize(
    "query",
    [
        {"page": 0},
        {"page": "x"},
        {"page": -1},
        {"page": ""},
        {"pagesize": 0},
        {"pagesize": 501},
        {"orderby": "id"},
    ],
)
async def test_a_listing_against_the_rules_is_a_400_with_null(path: str, query: dict[str, Any]) -> None:
    async with serving() as call:
        answer = await call.get(path, **query)
        assert (answer.status, answer.body["status"], answer.body["data"]) == (400, 400, None)
        assert answer.body["message"].startswith("Bad request. ")


@pytest.mark.parametrize("path", STATISTICS)
async def test_statistics_need_exactly_one_selector(path: str) -> None:
    async with serving() as call:
        call.box.add_tag("t")
        empty = "Tag and URL keys both can not be empty."
        assert await refused(call, path) == empty
        assert await refused(call, path, tag="", url_keys=",", **COMPLETE[path]) == empty
        assert "not both" in await refused(call, path, tag="t", url_keys="a", **COMPLETE[path])
        assert (await call.get(path, tag="t", **COMPLETE[path])).status == 200


@pytest.mark.parametrize("path", STATISTICS)
async def test_an_unknown_tag_is_told_in_the_documented_words(path: str) -> None:
    async with serving() as call:
        assert await refused(call, path, tag="nobody", **COMPLETE[path]) == "Tag does not exists."


@pytest.mark.parametrize("path", STATISTICS)
async def test_at_most_100_keys_are_taken(path: str) -> None:
    async with serving() as call:
        keys = [f"k{n}" for n in range(101)]
        assert "100" in await refused(call, path, url_keys=",".join(keys), **COMPLETE[path])
        assert (await call.get(path, url_keys=",".join(keys[1:]), **COMPLETE[path])).status == 200


@pytest.mark.unmeasured
@pytest.mark.parametrize("path", STATISTICS)
@pytest.mark.parametrize("offset", ["02:00", "+2:00", "+0200", "UTC", "", "+24:00", "+01:60"])
async def test_a_timezone_is_an_offset(path: str, offset: str) -> None:
    async with serving() as call:
        assert "imezone" in await refused(call, path, url_keys="a", timezone=offset, **COMPLETE[path])
        assert (await call.get(path, url_keys="a", timezone="-03:30", **COMPLETE[path])).status == 200


async def test_a_range_needs_a_date() -> None:
    async with serving() as call:
        assert await refused(call, "stats", url_keys="a") == "Date is required."
        assert await refused(call, "stats", url_keys="a", year=2024) == "Date is required."
        assert await refused(call, "stats", url_keys="a", date="") == "Date is required."
        assert "not both" in await refused(call, "stats", url_keys="a", date=DAY, date_range=f"{DAY},{DAY}")


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00Z",
        "2024-01-01 00:00:00+00:00",
        "2024-02-30T00:00:00+00:00",
        "2024-01-01T24:00:00+00:00",
        "2024-01-01T00:00:00.5+00:00",
        "2024-01-01T00:00:00+25:00",
        "yesterday",
    ],
)
async def test_a_date_is_iso_8601_with_an_offset(text: str) -> None:
    async with serving() as call:
        assert await refused(call, "stats", url_keys="a", date=text) == DATE_FORMAT
        assert await refused(call, "stats", url_keys="a", date_range=f"{DAY},{text}") == DATE_FORMAT


async def test_a_range_is_two_dates_in_order_at_most_32_days_apart() -> None:
    async with serving() as call:

        async def asked(text: str) -> str:
            return await refused(call, "stats", url_keys="a", date_range=text)

        assert "two dates" in await asked(DAY)
        assert "two dates" in await asked(f"{DAY},{DAY},{DAY}")
        assert "before it starts" in await asked(f"{DAY},2023-12-31T23:59:59+00:00")
        assert "32 days" in await asked(f"{DAY},2024-02-02T00:00:01+00:00")
        longest = f"{DAY},2024-02-02T00:00:00+00:00"
        assert (await call.get("stats", url_keys="a", date_range=longest)).status == 200
        assert (await call.get("stats", url_keys="a", date_range=f"{DAY},{DAY}")).status == 200


@pytest.mark.parametrize("year", ["", "24", "02024", "20x4", "0000"])
async def test_a_year_has_4_digits(year: str) -> None:
    async with serving() as call:
        assert "year" in await refused(call, "stats/yearly", url_keys="a", year=year)


@pytest.mark.parametrize("code", ["", "U", "USA", "U1", "üß"])
async def test_a_country_has_2_letters(code: str) -> None:
    async with serving() as call:
        days = {"start_date": "2024-01-01", "end_date": "2024-01-02"}
        assert "iso_code" in await refused(call, "stats/country/geo", url_keys="a", iso_code=code, **days)


async def test_a_country_needs_two_dates_in_order() -> None:
    async with serving() as call:

        async def asked(**days: str) -> str:
            return await refused(call, "stats/country/geo", url_keys="a", iso_code="US", **days)

        assert await asked(start_date="2024-01-01") == "Date is required."
        assert await asked(start_date="2024-01-01", end_date="2024-02-30") == DATE_FORMAT
        assert await asked(start_date="20240101", end_date="2024-02-20") == DATE_FORMAT
        assert "before" in await asked(start_date="2024-01-02", end_date="2024-01-01")


async def test_an_unknown_slashtag_counts_nothing_unless_it_is_an_error() -> None:
    async with serving() as call:
        call.box.add_url("a")
        assert (await call.range(url_keys="a,nobody", date=DAY))["total_clicks"] == 0
    async with serving(unknown_keys="error") as call:
        call.box.add_url("a")
        assert "nobody" in await refused(call, "stats", url_keys="a,nobody", date=DAY)
        assert (await call.range(url_keys="a", date=DAY))["total_clicks"] == 0


texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "0", "1", "500", "a", "a,b", "t", "date", "US", "2024", "9999", "0001", "+14:00", "-12:00"]
    ),
    st.sampled_from(["2024-01-01", "9999-12-31", "0001-01-01", DAY, f"{DAY},{DAY}"]),
    st.sampled_from(["9999-12-31T23:59:59+00:00,9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+00:00"]),
)
NAMES = ("tag", "url_keys", "date", "date_range", "timezone", "year", "iso_code", "start_date", "end_date")
queries = st.dictionaries(st.sampled_from([*NAMES, "page", "pagesize", "orderby"]), texts)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = Store(None, partial(fill, urls=3, clicks=20, tags=2, seed=1, since=0, until=2**31))
    yield store
    store.close()


@given(
    st.sampled_from(["GET", "PUT", "POST"]),
    st.sampled_from([*(f"/api/v1/{path}" for path in ("urls", "tags", *STATISTICS)), "/api/v1/urls/a%00%ff"]),
    queries,
    st.one_of(
        st.binary(max_size=20), st.dictionaries(st.sampled_from(MEMBERS), values).map(msgspec.json.encode)
    ),
    st.sampled_from(BEHAVIOURS),
)
def test_whatever_is_sent_is_answered_in_an_envelope(
    store: Store, method: str, path: str, query: dict[str, str], body: bytes, behaviour: Behaviour
) -> None:
    headers = {"apikey": "k", "apisecret": "s", "content-type": "application/json"}
    envelope = Service(store, behaviour, "k", "s").answer(Arrival(method, path, query, body=body), headers)
    assert envelope.status in (200, 400, 404, 405, 429)
    assert msgspec.json.decode(msgspec.json.encode(envelope))["status"] == envelope.status
