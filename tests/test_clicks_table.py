"""Clicks of many links as one table: its rows, what data frames get of it, and what it refuses."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from contextlib import nullcontext
from datetime import date
from typing import Any

import msgspec
import pytest

from slashtag import (
    AllTime,
    AsyncSession,
    ClicksTable,
    CountryGeo,
    DateRange,
    Day,
    ExportError,
    Failure,
    InvalidRequestError,
    RangeStats,
    Year,
)
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import altered, refused_links

arrow: Any = pytest.importorskip("pyarrow")
ACCOUNT = {"urls": 30, "clicks": 2_000, "tags": 3}
YEAR = DateRange("2024-01-01", "2024-12-31")
TWO_DAYS = DateRange("2024-05-01", "2024-05-02")


def read(frame: Any) -> list[tuple[Any, ...]]:
    """Read a stream as data frames do."""
    return [tuple(row.values()) for row in arrow.table(frame).to_pylist()]


def test_a_frame_has_types_also_without_rows() -> None:
    for names, middle in (
        (("tag", "month", "clicks"), ["date32[day]"]),
        (("slashtag", "dimension", "label", "clicks"), ["string", "string"]),
    ):
        schema = arrow.table(ClicksTable(names)).schema
        assert schema.names == list(names)
        assert [str(kind) for kind in schema.types] == ["string", *middle, "int64"]


# --- tables of an account ------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [YEAR, Day("2024-05-01"), DateRange("2024-03-01", "2024-03-31")], ids=repr)
async def test_a_table_has_every_day_of_every_link(
    box: Sandbox, session: AsyncSession, query: DateRange | Day
) -> None:
    found = await session.stats.table(query, keys=session.urls.list())
    first, last = query.bounds
    truth = box.truth.per_key(first, last)
    wanted = [(key, day, n) for key, stats in sorted(truth.items()) for day, n in stats.clicks.items()]
    assert read(found) == wanted == list(found.rows())
    assert sum(n for _, _, n in wanted) == box.truth.range(first, last).total_clicks > 0


async def test_a_table_by_label_has_the_labels_of_every_link(box: Sandbox, session: AsyncSession) -> None:
    found = await session.stats.table(YEAR, keys=session.urls.list(), dimensions=True)
    each = await session.stats.collect_each(YEAR, keys=session.urls.list()).to_dict()
    wanted = [(key, *row) for key, stats in sorted(each.items()) for row in stats.rows() if row[0] != "day"]
    assert read(found) == wanted
    sums = Counter[str]()
    for row in found.rows():
        sums[row.label] += row.clicks * (row.dimension == "country")
    assert +sums == box.truth.range("2024-01-01", "2024-12-31").country


async def test_a_table_of_tags_by_month_has_every_month_of_the_year(
    box: Sandbox, session: AsyncSession
) -> None:
    tags = [tag.name for tag in box.truth.tags()]
    found = list((await session.stats.table(Year(2024), tags=tags)).rows())
    assert [row.month for row in found] == [date(2024, n, 1) for n in range(1, 13)] * len(tags)
    for tag in tags:
        months = {row.month.month: row.clicks for row in found if row.tag == tag and row.clicks}
        assert months == box.truth.year(2024, tag=tag).clicks_breakdown.get(2024, {})
    ever = await session.stats.table(AllTime(), tags=tags)
    assert sum(row.clicks for row in ever.rows()) == sum(
        box.truth.alltime(tag=tag).clicks_total for tag in tags
    )
    assert all(row.clicks for row in ever.rows())


async def test_a_table_of_a_country_has_labels_only(box: Sandbox, session: AsyncSession) -> None:
    places = CountryGeo("DE", "2024-01-01", "2024-12-31")
    with pytest.raises(InvalidRequestError):
        await session.stats.table(places, tag="x")
    assert box.requests == []
    found = await session.stats.table(places, keys=session.urls.list(), dimensions=True)
    assert {row.dimension for row in found.rows()} == {"state", "city", "postalcode"}
    assert all(row.clicks for row in found.rows())


# --- what is not whole ---------------------------------------------------------------------------------


#: What an answer about two days has instead, the form of the table, and whether it is whole.
ANSWERS = [
    ({"country": {}}, False, True),
    ({"country": {}}, True, False),
    ({"total_clicks": 99}, False, False),
    ({"total_clicks": 99}, True, False),
]


@pytest.mark.parametrize(("data", "dimensions", "is_whole"), ANSWERS)
async def test_no_frame_is_made_of_a_partial_table_unless_asked_for(
    box: Sandbox, session: AsyncSession, data: dict[str, Any], dimensions: bool, is_whole: bool
) -> None:
    key = box.truth.urls()[0].slashtag
    box.add_click(key, "2024-05-01T00:00:00")
    with altered(box, lambda _, found: msgspec.structs.replace(found, data={**found.data, **data})):
        table = await session.stats.table(TWO_DAYS, keys=[key], dimensions=dimensions)
    assert (table.complete, table.incomplete) == (is_whole, [key][is_whole:])
    with nullcontext() if is_whole else pytest.raises(ExportError):
        arrow.table(table)
    assert len(table.to_arrow(partial=True)) == len(list(table.rows())) > 1


async def test_a_table_counts_what_failed(box: Sandbox, session: AsyncSession) -> None:
    links = box.truth.urls()
    box.add_url("a,b")
    wrong, shared = links[3].slashtag, links[0].slashtag
    box.add_url(shared, domain_id=1)
    failures = list[Failure[RangeStats]]()
    keys = session.urls.list()
    with refused_links(box, {wrong}, 400):
        found = await session.stats.table(Day("2024-05-01"), keys=keys, on_error=failures.append)
    assert (found.complete, found.missing, found.shared, len(failures)) == (False, 2, [shared], 2)
    with pytest.raises(ExportError):
        arrow.table(found)
    there = {row[0] for row in read(found.to_arrow(partial=True))}
    assert there == {link.slashtag for link in links} - {wrong}
    assert pickle.loads(pickle.dumps(found)).missing == 2


async def test_a_count_over_int64_is_refused(box: Sandbox, session: AsyncSession) -> None:
    data = {"total_clicks": 2**63, "clicks": {"2024-05-01": 2**63, "2024-05-02": 0}}
    with altered(box, lambda _, found: msgspec.structs.replace(found, data=data)):
        table = await session.stats.table(TWO_DAYS, keys=["a"])
    with pytest.raises(ExportError, match="rows"):
        arrow.table(table)
    assert max(row.clicks for row in table.rows()) == 2**63


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r"slashtag\[parquet\]"):
        ClicksTable(("slashtag", "date", "clicks")).__arrow_c_stream__()


async def test_duckdb_takes_tables_as_they_are(box: Sandbox, session: AsyncSession) -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    clicks = await session.stats.table(YEAR, keys=session.urls.list())  # noqa: F841
    found = duckdb.connect().sql("SELECT sum(clicks), max(date) FROM clicks").fetchall()
    assert found == [(box.truth.range(*YEAR.bounds).total_clicks, YEAR.bounds[1])]
