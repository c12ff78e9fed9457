"""The figures of a report are those of the click log, for any links, days, zone and comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import DateRange, InvalidRequestError, RangeStats
from slashtag.report import Report, build
from slashtag.report._figures import page_of
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import altered
from tests.support.sending import connect

MAY = DateRange.parse("2024-05")
ZONES = (None, "+05:30", "Europe/Berlin", "America/St_Johns")


def now_and_before(found: Report, name: str) -> list[dict[str, int]]:
    rows = found.tables.get(name, [])
    now = {str(row.labels[0]): row.clicks for row in rows if row.clicks}
    return [now, {str(row.labels[0]): row.before or 0 for row in rows if row.before}]


def without_single(both: list[dict[str, int]]) -> list[dict[str, int]]:
    """A table of a single label is not shown: it would repeat the total."""
    return both if len({**both[0], **both[1]}) > 1 else [{}, {}]


@given(
    st.dates(date(2023, 2, 1), date(2025, 9, 1)),
    st.integers(1, 100),
    st.sampled_from(ZONES),
    st.sampled_from(["previous", "last-year", "2024-02-01..2024-03-10"]),
    st.sampled_from(["all", "tag", "keys"]),
)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_figure_is_that_of_the_click_log(
    serve: Callable[..., Sandbox], first: date, days: int, zone: str | None, compare: str, what: str
) -> None:
    last = first + timedelta(days - 1)
    offset = zone and (zone if ":" in zone else ZoneInfo(zone))
    async with serve() as box, connect(box) as session:
        urls, tags = box.truth.urls(), [tag.name for tag in box.truth.tags()]
        keys = [url.slashtag for url in urls]
        selected: dict[str, Any] = {"all": {}, "tag": {"tags": tags[:1]}, "keys": {"keys": keys[:60]}}[what]
        found = await build(session, DateRange(first, last), timezone=zone, compare=compare, **selected)
        spans = [found.spans[:2], found.spans[2:4]]
        chosen: dict[str, Any] = {"tag": tags[0]} if what == "tag" else selected
        both = [box.truth.range(*span, **chosen, timezone=offset) for span in spans]
        assert (spans[0], found.complete) == ((first, last), True)
        for name, rows in found.tables.items():
            clicks = [row.clicks for row in rows]
            assert clicks == sorted(clicks, reverse=True) or name == "weekday"
        assert [found.stats.total, found.before.total] == [each.total_clicks for each in both]
        for name in RangeStats.SUMS:
            assert now_and_before(found, name) == without_single([getattr(each, name) for each in both])
        assert sum(row.clicks for row in found.steps) == found.stats.total
        assert sum(row.before or 0 for row in found.steps) == found.before.total
        if found.unit == "day":
            by_day = {row.labels[0]: row.clicks for row in found.steps if row.labels[0]}
            assert by_day == {str(day): n for day, n in both[0].clicks.items()}
        of_keys = [
            {
                key: each.total_clicks
                for key, each in box.truth.per_key(*span, keys={*keys}, timezone=offset).items()
            }
            for span in spans
        ]
        for link in found.top:
            assert [link.clicks, link.before] == [of[link.slashtag] for of in of_keys]
        if what == "all":
            best = sorted(of_keys[0].values(), reverse=True)[:10]
            assert [link.clicks for link in found.top] == [n for n in best if n]
            of_tags = list[dict[str, int]]()
            for span, each in zip(spans, both, strict=True):
                found_of = {
                    tag: box.truth.range(*span, tag=tag, timezone=offset).total_clicks for tag in tags
                }
                found_of["no tag"] = each.total_clicks - sum(found_of.values())
                of_tags.append(+Counter(found_of))
            assert now_and_before(found, "tag") == without_single(of_tags)
            pages = Counter[str]()
            for key, n in of_keys[0].items():
                same = {page_of(url.destination) for url in urls if url.slashtag == key}
                pages[", ".join(sorted(same))] += n
            assert now_and_before(found, "destination")[0] == +pages or len(+pages) < 2


async def test_links_that_contradict_themselves_make_it_not_complete(serve: Callable[..., Sandbox]) -> None:
    def contradict(asked: Any, answered: Any) -> Any:
        is_meant = "url_keys" in asked.query
        return replace(answered, data=answered.data | {"total_clicks": 99}) if is_meant else answered

    async with serve() as box, connect(box) as session:
        with altered(box, contradict):
            found = await build(session, MAY, tags=["newsletter"])
        assert not found.complete


async def test_longer_spans_are_shown_by_week_and_by_month_and_links_not_counted_where_none_is_listed(
    serve: Callable[..., Sandbox],
) -> None:
    first = date(2023, 1, 1)
    async with serve() as box, connect(box) as session:
        for days, unit in ((92, "day"), (93, "week"), (420, "week"), (421, "month")):
            query = DateRange(first, first + timedelta(days - 1))
            found = await build(session, query, top=0, tags=["newsletter"])
            assert (found.unit, found.top, found.tables.keys() & {"tag", "destination"}) == (unit, (), set())
        assert all("tag" in arrival.query or "page" in arrival.query for arrival in box.requests)


async def test_links_without_a_tag_have_what_all_tags_leave_also_one_of_that_name() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box, connect(box) as session:
        box.add_tag("no tag")
        of = [box.add_url("a", tag="no tag"), box.add_url("a", domain_id=1), box.add_url("b")]
        for times, link in enumerate(of, 1):
            box.add_click(link, "2024-05-05", times=times)
        found = await build(session, MAY, untagged=True)
        assert (found.stats.total, found.shared) == (5, ("a",))
        assert [row.clicks for row in (await build(session, MAY)).tables["tag"]] == [5, 1]
        found = await build(session, MAY, tags=["no tag"])
        # A table of one label would repeat the total.
        assert (found.stats.total, found.shared, found.tables) == (1, ("a",), {})


@pytest.mark.parametrize(
    ("span", "options"),
    [
        ("2999-01", {}),
        ("2024-01", {"top": -1}),
        ("2024-01-01T00:00:00+00:00..2024-01-02T12:00:00+00:00", {}),
        ("2024-01", {"keys": ["a"], "tags": ["newsletter"]}),
        ("2024-01", {"keys": ["a"], "untagged": True}),
    ],
)
async def test_what_a_report_cannot_be_about_is_refused_unsent(
    serve: Callable[..., Sandbox], span: str, options: dict[str, Any]
) -> None:
    async with serve() as box, connect(box) as session:
        with pytest.raises((InvalidRequestError, TypeError)):
            await build(session, DateRange.parse(span), **options)
        assert box.requests == []
