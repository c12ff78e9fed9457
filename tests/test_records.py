"""Records in other libraries: json, pydantic and FastAPI, Arrow, notebooks."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pydantic
import pytest
from fastapi import FastAPI

import slashtag
from slashtag import (
    AllTime,
    AsyncSession,
    ConfigurationError,
    CountryGeo,
    DateRange,
    Day,
    ExportError,
    GeoStats,
    Page,
    PeriodStats,
    RangeStats,
    ShortUrl,
    Tag,
    Year,
)
from slashtag.sandbox import Sandbox
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


def read(table: Any) -> pa.Table:
    return pa.table(table)


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


# --- Arrow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stats", [DAYS, MONTHS, PLACES, RangeStats()], ids=repr)
def test_statistics_become_an_arrow_table_of_their_rows(stats: Any) -> None:
    table = read(stats.to_arrow())
    assert table.schema.names == ["dimension", "label", "clicks"]
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "int64"]
    assert [tuple(row.values()) for row in table.to_pylist()] == list(stats.rows())


async def test_listings_become_arrow_tables() -> None:
    async with (
        Sandbox(urls=30, clicks=9, tags=3) as box,
        AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session,
    ):
        for listing in (session.urls.list(), session.tags.list()):
            records = await listing.to_list()
            table = read(await listing.to_arrow())
            assert [type(records[0])(**row) for row in table.to_pylist()] == records
        table = read(await session.urls.list().to_arrow(limit=0))
    assert (table.num_rows, table.schema.names) == (0, list(ShortUrl.__struct_fields__))
    assert [str(kind) for kind in table.schema.types][-3:] == ["timestamp[us]", "timestamp[us]", "int64"]


@pytest.mark.parametrize("clicks", [2**63 - 1, 2**63, 2**200])
def test_a_count_over_int64_is_refused(clicks: int) -> None:
    stats = RangeStats(device={"Mobile": clicks})
    if clicks < 2**63:
        assert read(stats.to_arrow())["clicks"].to_pylist() == [clicks]
        return
    with pytest.raises(ExportError, match=f"{clicks} does not fit"):
        stats.to_arrow()


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoarrow", None)
    with pytest.raises(ConfigurationError, match=r"slashtag\[arrow\]"):
        DAYS.to_arrow()


# --- notebooks and consoles ----------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags of a page, and its text; fails if a tag is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_statistics_show_a_chart_and_their_first_labels() -> None:
    page = Tags(YEAR._repr_html_())
    assert page.seen.count("svg") == 1
    assert "366 clicks, 2024-01-01 to 2024-12-31" in page.text
    assert "country 99" in page.text
    assert "country 1" not in page.text
    assert "reconciles is False" in Tags(DAYS._repr_html_()).text
    assert Tags(MONTHS._repr_html_()).seen.count("svg") == 1
    for without_days in (PLACES, RangeStats(), RangeStats(clicks={date(2024, 1, 1): 0})):
        assert "svg" not in Tags(without_days._repr_html_()).seen


def test_no_label_becomes_markup() -> None:
    label = "<script>alert(1)</script>&"
    for record in (
        RangeStats(referrer={label: 2}),
        Page(page=1, page_size=50, items=[ShortUrl(id=1, slashtag=label)]),
    ):
        page = Tags(record._repr_html_())
        assert "script" not in page.seen
        assert label in page.text


def test_a_page_shows_its_first_items() -> None:
    items = [Tag(id=n, name=f"tag {n}.") for n in range(500)]
    page = Tags(Page(page=3, page_size=500, items=items)._repr_html_())
    assert page.seen.count("tr") == 21
    assert "Page 3: 500 items" in page.text
    assert "items" in Tags(Page(page=1, page_size=50, items=[])._repr_html_()).text


async def test_a_plan_shows_its_query_and_requests() -> None:
    async with AsyncSession("http://localhost", apikey="k" * 20, apisecret="s" * 12) as session:
        keys = [f"slashtag-{n}" for n in range(5_000)]
        year = session.stats.plan(DateRange("2024-01-01", "2024-12-31"), keys=keys)
        assert f"{len(year):,} requests" in repr(year)
        assert len(repr(year)) < 200
        text = Tags(year._repr_html_()).text
        assert f"requests{len(year):,}" in text
        assert "2024-01-01 to 2024-12-31" in text
        assert "AllTime" in Tags(session.stats.plan(AllTime(), tag="spring")._repr_html_()).text


def test_the_repr_of_a_year_is_short() -> None:
    assert len(repr(YEAR)) < 1_000
    assert "... 361 more" in repr(YEAR)
    assert "'country 99': 99, 'country 98': 98" in repr(YEAR)
    assert eval(repr(MONTHS), vars(slashtag)) == MONTHS
