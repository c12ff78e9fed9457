"""Records in other libraries: json, pydantic and FastAPI."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Annotated, Any

import pydantic
import pytest

import slashtag
from slashtag import (
    AllTime,
    Change,
    CountryGeo,
    DateRange,
    Day,
    GeoStats,
    Page,
    PeriodStats,
    RangeStats,
    ShortUrl,
    Tag,
    Year,
)
from tests.asgi import get, request

LINK = ShortUrl(id=1, slashtag="ä", created_at=datetime(2024, 3, 5, 10), redirect_code=301)
DAYS = RangeStats(total_clicks=3, clicks={date(2024, 1, 1): 3}, country={"DE": 3}, reconciles=False)
MONTHS = PeriodStats(clicks_total=5, clicks_breakdown={2024: {1: 5}}, languages={"de": 5})
PLACES = GeoStats(state={"Ohio": 1, "Other": 2})
RECORDS: list[Any] = [
    LINK,
    Tag(id=1, name="t"),
    Page(page=1, page_size=50, items=[LINK]),
    DAYS,
    MONTHS,
    PLACES,
]
YEAR = RangeStats(
    total_clicks=366,
    clicks={date(2024, 1, 1) + timedelta(n): 1 for n in range(366)},
    country={f"country {n}": n for n in range(100)},
)


def test_records_become_values_that_json_takes() -> None:
    assert LINK.to_dict() == {
        "id": 1,
        "destination": None,
        "hits": None,
        "redirect_code": 301,
        "short_url": None,
        "slashtag": "ä",
        "created_at": "2024-03-05T10:00:00",
        "updated_at": None,
        "tag_id": None,
    }
    assert DAYS.to_dict()["clicks"] == {"2024-01-01": 3}
    assert MONTHS.to_dict()["clicks_breakdown"] == {"2024": {"1": 5}}
    assert slashtag.to_builtins({date(2024, 1, 1): (LINK, {"x"})}) == {"2024-01-01": [LINK.to_dict(), ["x"]]}
    with pytest.raises(TypeError, match="object"):
        slashtag.to_builtins([object()])


# --- pydantic ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_pydantic_reads_and_writes_records(record: Any) -> None:
    kind = Page[ShortUrl] if isinstance(record, Page) else type(record)
    adapter: Any = pydantic.TypeAdapter(list[kind])
    assert adapter.validate_python([record])[0] is record
    assert json.loads(adapter.dump_json([record])) == [record.to_dict()]
    assert adapter.validate_json(adapter.dump_json([record])) == [record]
    assert adapter.validate_python(adapter.dump_python([record])) == [record]
    for mode in ("validation", "serialization"):
        schema = adapter.json_schema(mode=mode)
        component = schema["items"]["$ref"].rpartition("/")[2]
        assert list(schema["$defs"][component]["properties"]) == list(record.__struct_fields__)


def test_pydantic_accepts_the_service_s_names() -> None:
    adapter = pydantic.TypeAdapter(ShortUrl)
    found = adapter.validate_json(
        '{"id": 1, "slashtag": "a", "createdAt": "2024-01-01 00:00:00", "tagId": 3}'
    )
    assert found == ShortUrl(id=1, slashtag="a", created_at=datetime(2024, 1, 1), tag_id=3)


QUERIES = [
    DateRange("2024-01-01", "2024-02-01"),
    DateRange.last(30),
    Day("2024-02-29"),
    Year(2024),
    AllTime(),
    CountryGeo("US", "2024-01-01", "2024-06-30"),
]
CHANGES = [Change("spring", password="not to be shown"), Change(1000001, redirect_code=302)]


@pytest.mark.parametrize("query", [*QUERIES, *CHANGES], ids=repr)
def test_pydantic_reads_and_writes_queries_and_changes(query: Any) -> None:
    adapter: Any = pydantic.TypeAdapter(type(query))
    assert adapter.validate_json(adapter.dump_json(query)) == query
    assert adapter.validate_python(query) is query


def test_pydantic_refuses_an_invalid_query() -> None:
    with pytest.raises(pydantic.ValidationError, match="ends"):
        pydantic.TypeAdapter(DateRange).validate_python({"start": "2024-05-01", "end": "2024-01-31"})


@pytest.mark.parametrize("body", [{"start": "2024-05-01"}, {"yaer": 2024}, {"relative": "gibberish"}])
def test_pydantic_makes_no_other_query_of_a_misspelt_one(body: dict[str, Any]) -> None:
    adapter: Any = pydantic.TypeAdapter(DateRange | Year | AllTime)
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python(body)
    assert adapter.validate_json(b"{}") == AllTime()


def test_pydantic_refuses_what_is_no_record() -> None:
    adapter = pydantic.TypeAdapter(ShortUrl)
    for wrong in ({"slashtag": "a"}, {"id": "x", "slashtag": "a"}, DAYS):
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_python(wrong)


def application() -> Any:
    # Imported where it is used, as that takes a second in each process that collects tests.
    from fastapi import FastAPI

    return FastAPI()


async def test_endpoints_of_fastapi_return_records() -> None:
    app = application()

    async def clicks() -> dict[str, RangeStats]:
        return {"spring": DAYS}

    async def links() -> list[ShortUrl]:
        return [LINK]

    app.get("/clicks")(clicks)
    app.get("/links")(links)
    assert await get(app, "/clicks") == (200, {"spring": DAYS.to_dict()})
    assert await get(app, "/links") == (200, [LINK.to_dict()])
    status, document = await get(app, "/openapi.json")
    shown = document["paths"]["/links"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert (status, shown["items"]) == (200, {"$ref": "#/components/schemas/ShortUrl"})
    assert {"RangeStats", "ShortUrl"} <= document["components"]["schemas"].keys()


async def _echo(kind: Any, body: Any) -> tuple[int, Any]:
    """Post a body to an endpoint; return the repr of what it got, or place and message of each error."""
    from fastapi import Body

    app = application()

    async def endpoint(value: Any) -> str:
        return repr(value)

    endpoint.__annotations__["value"] = Annotated[kind, Body()]
    app.post("/")(endpoint)
    status, answer = await request(app, "POST", "/", body)
    return status, answer if status == 200 else [(each["loc"], each["msg"]) for each in answer["detail"]]


@pytest.mark.parametrize(
    "body",
    [
        {"password": "not to be shown"},
        {"key": "spring", "pasword": "not to be shown"},
        {"key": ["spring"], "password": "not to be shown"},
        ["not to be shown"],
        "not to be shown",
    ],
)
async def test_errors_about_a_change_do_not_show_its_password(body: Any) -> None:
    with pytest.raises(pydantic.ValidationError) as raised:
        pydantic.TypeAdapter(list[Change]).validate_python([body])
    assert "not to be shown" not in str(raised.value) + repr(raised.value.errors())
    assert "not to be shown" not in json.dumps(await _echo(list[Change], [body]))


@pytest.mark.parametrize("value", [*RECORDS, *QUERIES, *CHANGES], ids=repr)
async def test_fastapi_reads_records_and_queries_from_the_body(value: Any) -> None:
    kind = Page[ShortUrl] if isinstance(value, Page) else type(value)
    body = json.loads(pydantic.TypeAdapter(kind).dump_json(value))
    assert await _echo(kind, body) == (200, repr(value))


@pytest.mark.parametrize(
    ("kind", "body", "place"),
    [
        (DateRange, {"start": "01/02/2024", "end": "2024-02-01"}, ["body", "start"]),
        (DateRange, {"start": 5, "end": "2024-02-01"}, ["body", "start"]),
        (DateRange, {"start": "2024-01-01", "end": "2024-02-30"}, ["body", "end"]),
        (DateRange, {"start": "2024-01-01", "end": True}, ["body", "end"]),
        (DateRange, {"start": "2024-01-01", "ende": "2024-02-01"}, ["body", "ende"]),
        (DateRange, {"relative": 7}, ["body", "relative"]),
        (Day, {"date": "2024-02-29T00:00:00"}, ["body", "date"]),
        (Day, {}, ["body", "date"]),
        (CountryGeo, {"iso_code": "US", "start": 0, "end": "2024-02-01"}, ["body", "start"]),
        (ShortUrl, {"id": 1, "hits": "many"}, ["body", "hits"]),
        (Change, {"key": True, "redirect_code": 302}, ["body", "key"]),
        (Change, {"key": 1.5, "redirect_code": 302}, ["body", "key"]),
        (Change, {"redirect_code": 302}, ["body", "key"]),
        (Change, {"key": "spring", "redirect_code": 309}, ["body", "redirect_code"]),
        (Change, {"key": "spring", "redirect_code": "302"}, ["body", "redirect_code"]),
        (Change, {"key": "spring", "domain_id": True}, ["body", "domain_id"]),
    ],
)
async def test_fastapi_names_the_member_that_is_wrong_once(kind: Any, body: Any, place: list[str]) -> None:
    status, problems = await _echo(kind, body)
    assert (status, [loc for loc, _ in problems]) == (422, [place])


@pytest.mark.parametrize(
    ("kind", "body", "named"),
    [
        (DateRange, {"start": "2024-01-01"}, "end"),
        (CountryGeo, {"iso_code": "USA", "start": "2024-01-01", "end": "2024-02-01"}, "iso_code"),
        (Year, {"year": 24}, "year"),
    ],
)
async def test_fastapi_says_which_rule_a_query_breaks(kind: Any, body: Any, named: str) -> None:
    status, problems = await _echo(kind, body)
    assert (status, len(problems)) == (422, 1)
    assert named in problems[0][1]


def test_the_schema_of_a_query_has_dates() -> None:
    found: Any = pydantic.TypeAdapter(CountryGeo).json_schema()
    formats = {name: member.get("format") for name, member in found["properties"].items()}
    assert formats == {"iso_code": None, "start": "date", "end": "date"}
    assert found["required"] == ["iso_code", "start", "end"]


# --- notebooks and consoles ----------------------------------------------------------------------------


def test_the_repr_of_a_year_is_short() -> None:
    assert len(repr(YEAR)) < 1_000
    assert "clicks={datetime.date(2024, 1, 1): 1, datetime.date(2024, 1, 2): 1, " in repr(YEAR)
    assert eval(repr(MONTHS), vars(slashtag)) == MONTHS
