"""Records in other libraries: json, pydantic and FastAPI."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

import pydantic
import pytest
from fastapi import FastAPI

import slashtag
from slashtag import (
    AllTime,
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
from tests.asgi import get

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


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_pydantic_reads_and_writes_queries(query: Any) -> None:
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


async def test_endpoints_of_fastapi_return_records() -> None:
    app = FastAPI()

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


# --- notebooks and consoles ----------------------------------------------------------------------------


def test_the_repr_of_a_year_is_short() -> None:
    assert len(repr(YEAR)) < 1_000
    assert "clicks={datetime.date(2024, 1, 1): 1, datetime.date(2024, 1, 2): 1, " in repr(YEAR)
    assert eval(repr(MONTHS), vars(slashtag)) == MONTHS
