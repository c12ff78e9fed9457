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

from slashtag import DateRange, InvalidRequestError
from slashtag.report import Report, build
from slashtag.report._figures import page_of
from slashtag.sandbox import Sandbox, TrueCounts
from tests.support.sending import connect

LABELS = ("country", "referrer", "device", "browser", "platform")
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
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_figure_is_that_of_the_click_log(
    serve: Callable[..., Sandbox], first: date, days: int, zone: str | None, compare: str, what: str
) -> None:
    last = first + timedelta(days=days - 1)
    async with serve() as box, connect(box) as session:
        keys = [url.slashtag for url in box.truth.urls()]
        tag = box.truth.tags()[0].name
        selected: dict[str, Any] = {"all": {}, "tag": {"tags": [tag]}, "keys": {"keys": keys[:60]}}[what]
        found = await build(session, DateRange(first, last), timezone=zone, compare=compare, **selected)
        spans = found.spans

        def count(first: date, last: date, **of: Any) -> TrueCounts:
            chosen = of or {"all": {}, "tag": {"tag": tag}, "keys": {"keys": keys[:60]}}[what]
            return box.truth.range(
                first, last, **chosen, timezone=zone and (zone if ":" in zone else ZoneInfo(zone))
            )

        both = [count(spans.first, spans.last), count(spans.first_before, spans.last_before)]
        assert (spans.first, spans.last) == (first, last)
        assert [found.stats.total, found.before.total] == [each.total_clicks for each in both]
        assert found.is_complete
        for name in LABELS:
            assert now_and_before(found, name) == without_single([getattr(each, name) for each in both])
        assert sum(row.clicks for row in found.steps) == found.stats.total
        assert sum(row.before or 0 for row in found.steps) == found.before.total
        if found.unit == "day":
            by_day = {row.labels[0]: row.clicks for row in found.steps if row.labels[0]}
            assert by_day == {str(day): n for day, n in both[0].clicks.items()}
        names = [link.slashtag for link in found.top]
        of_keys = box.truth.per_key(
            first,
            last,
            {link.slashtag for link in box.truth.urls()},
            timezone=zone and (zone if ":" in zone else ZoneInfo(zone)),
        )
        assert [link.clicks for link in found.top] == [of_keys[name].total_clicks for name in names]
        if what == "all":
            best = sorted((each.total_clicks for each in of_keys.values()), reverse=True)
            assert [link.clicks for link in found.top] == [n for n in best[:10] if n]
            for n, each in enumerate(both):
                of_tags = {
                    named.name: count(
                        *[(first, last), (spans.first_before, spans.last_before)][n], tag=named.name
                    ).total_clicks
                    for named in box.truth.tags()
                }
                of_tags["No tag"] = each.total_clicks - sum(of_tags.values())
                assert now_and_before(found, "tag")[n] == {name: n for name, n in of_tags.items() if n}
            pages = Counter[str]()
            for url in {url.slashtag: url for url in box.truth.urls()}.values():
                same = {
                    page_of(each.destination) for each in box.truth.urls() if each.slashtag == url.slashtag
                }
                pages[", ".join(sorted(same))] += of_keys[url.slashtag].total_clicks
            assert now_and_before(found, "destination")[0] == +pages


async def test_links_are_not_counted_one_by_one_where_none_is_listed(serve: Callable[..., Sandbox]) -> None:
    async with serve() as box, connect(box) as session:
        found = await build(session, DateRange("2024-05-01", "2024-05-31"), top=0, tags=["newsletter"])
        assert (found.top, found.tables.keys() & {"tag", "destination"}) == ((), set())
        assert found.requests == len(box.requests) <= 6


async def test_links_without_a_tag_have_what_all_tags_leave(serve: Callable[..., Sandbox]) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box, connect(box) as session:
        box.add_tag("autumn")
        of = [box.add_url("a", tag="autumn"), box.add_url("a", domain_id=1), box.add_url("b")]
        for times, link in enumerate(of, 1):
            box.add_click(link, "2024-05-05", times=times)
        found = await build(session, DateRange("2024-05-01", "2024-05-31"), untagged=True)
        assert (found.stats.total, found.shared, found.links) == (5, ("a",), 2)
        found = await build(session, DateRange("2024-05-01", "2024-05-31"), tags=["autumn"])
        assert (found.stats.total, found.shared) == (1, ("a",))


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (DateRange("2999-01-01", "2999-01-31"), {}),
        (DateRange("2024-01-01", "2024-01-31"), {"top": -1}),
        (DateRange("2024-01-01", "2024-01-31"), {"compare": "nonsense"}),
        (DateRange("2024-01-01T00:00:00+00:00", "2024-01-02T12:00:00+00:00"), {}),
    ],
)
async def test_what_a_report_cannot_be_about_is_refused_unsent(
    serve: Callable[..., Sandbox], query: DateRange, options: dict[str, Any]
) -> None:
    async with serve() as box, connect(box) as session:
        with pytest.raises(InvalidRequestError):
            await build(session, query, **options)
        assert box.requests == []
