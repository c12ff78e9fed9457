"""Laws of the questions: what they refuse, what they ask with, what they give; plans, whose parts add up."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import AllTime, CountryGeo, DateRange, Day, InvalidRequestError, Plan, Query, Year
from slashtag._core.batches import Selector
from slashtag._core.windows import windows

from . import clicklog
from .clicklog import KEYS, Click, Service

NOW = datetime(2024, 5, 31, 12, tzinfo=UTC)
INDIA = timezone(timedelta(hours=5, minutes=30))
NEW_YORK = ZoneInfo("America/New_York")

bounds = st.dates(date(2001, 1, 1), date(2030, 1, 1)) | clicklog.instants(clicklog.near_turns())


def asked(query: Query[Any], zone: tzinfo = UTC, range_end: str = "inclusive") -> list[dict[str, str]]:
    """Give the parameters of each piece."""
    return [dict(piece.params) for piece in query.resolve(zone, NOW)._time_slices(zone, NOW, range_end)]


# --- what is refused -----------------------------------------------------------------------------------


REVERSED = [
    ("2024-01-02", "2024-01-01"),
    ("2024-01-01T10:00:00+00:00", "2024-01-01T09:59:59+00:00"),
    ("2024-01-01T10:00:00+00:00", "2024-01-01T11:00:00+02:00"),
]
NO_DATES = ["", "soon", "2024-13-01", "24-01-01", "20240101", "2024-W01-1", "２０２４-01-01", None, 1.5]
NO_OFFSETS = [datetime(2024, 1, 1), "2024-01-01T00:00:00", "2024-01-01 00:00"]
NO_DAYS = [datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00Z", None, 5]
REFUSED: list[tuple[str, Any, list[Any]]] = [
    ("before it starts", lambda span: DateRange(*span), REVERSED),
    ("before it starts", lambda end: asked(DateRange("2024-01-02", end)), ["2024-01-01T10:00:00Z"]),
    ("before it starts", lambda span: CountryGeo("US", *span), REVERSED[:1]),
    ("date", lambda bound: DateRange(bound, "2024-01-01"), NO_DATES),
    ("date", lambda bound: DateRange("2024-01-01", bound), NO_DATES),
    ("without an offset", lambda bound: DateRange(bound, "2024-02-01"), NO_OFFSETS),
    ("date", Day, NO_DAYS),
    ("start", lambda bound: CountryGeo("US", bound, "2024-01-01"), NO_DAYS),
    ("iso_code", lambda code: CountryGeo(code, "2024-01-01", "2024-01-31"), ["", "UK", "USA", 49, None]),
    ("year", Year, [24, 999, 9_999, "2024", 2024.0, True]),
    ("days", DateRange.last, [0, 10_000, 1.0, True, "30"]),
]


@pytest.mark.parametrize(("why", "ask", "given"), [(*row[:2], each) for row in REFUSED for each in row[2]])
def test_what_cannot_be_asked_is_refused(why: str, ask: Any, given: Any) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        ask(given)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2024-01-01T05:00Z", 5),
        ("2024-01-01 05:00:00+00:00", 5),
        ("2024-01-01T05:30:00.25+00:30", 5),
        ("2024-01-01T23:59:59,5-1200", 35),
    ],
)
def test_an_iso_8601_date_time_is_read(text: str, hour: int) -> None:
    read = DateRange(text, "2024-02-01").start
    assert isinstance(read, datetime)
    assert int((read - datetime(2024, 1, 1, tzinfo=UTC)).total_seconds()) // 3600 == hour


@pytest.mark.parametrize(
    "query",
    [Year(2024), AllTime(), CountryGeo("US", "2024-03-01", "2024-03-31")],
    ids=lambda q: type(q).__name__,
)
def test_a_question_that_cannot_be_cut_refuses_two_offsets(query: Query[Any]) -> None:
    with pytest.raises(InvalidRequestError, match="2 UTC offsets"):
        asked(query, NEW_YORK)


# --- what is asked -------------------------------------------------------------------------------------


def test_a_range_is_asked_in_windows_under_its_offset() -> None:
    assert asked(DateRange("2024-01-01", date(2024, 2, 2)), INDIA) == [
        {"date_range": "2024-01-01T00:00:00+05:30,2024-02-01T23:59:59+05:30", "timezone": "+05:30"},
        {"date_range": "2024-02-02T00:00:00+05:30,2024-02-02T23:59:59+05:30", "timezone": "+05:30"},
    ]
    assert asked(DateRange("2024-01-01", date(2024, 1, 2)), UTC, "exclusive") == [
        {"date_range": "2024-01-01T00:00:00+00:00,2024-01-03T00:00:00+00:00"}
    ]


def test_a_day_on_which_the_offset_changes_is_asked_as_two_ranges() -> None:
    assert asked(Day("2024-11-03"), NEW_YORK) == [
        {"date_range": "2024-11-03T00:00:00-04:00,2024-11-03T01:59:59-04:00", "timezone": "-04:00"},
        {"date_range": "2024-11-03T01:00:00-05:00,2024-11-03T23:59:59-05:00", "timezone": "-05:00"},
    ]


def test_a_day_that_the_zone_skips_is_not_asked() -> None:
    apia = ZoneInfo("Pacific/Apia")
    assert asked(Day("2011-12-30"), apia) == asked(CountryGeo("WS", "2011-12-30", "2011-12-30"), apia) == []


def test_years_and_all_time_and_countries_are_asked_once() -> None:
    assert asked(Year(1033)) == [{"year": "1033"}]
    assert asked(Year(2024), INDIA) == [{"year": "2024", "timezone": "+05:30"}]
    assert asked(AllTime()) == [{}]
    assert asked(AllTime(), INDIA) == [{"timezone": "+05:30"}]
    assert asked(CountryGeo("us", "2024-01-01", "2024-12-31"), INDIA) == [
        {"iso_code": "US", "start_date": "2024-01-01", "end_date": "2024-12-31", "timezone": "+05:30"}
    ]


def test_a_year_is_bounded_by_local_midnights() -> None:
    # Nepal went from +05:30 to +05:45 as the year 1986 began there, which was still 1985 in UTC.
    nepal = ZoneInfo("Asia/Kathmandu")
    assert [asked(Year(year), nepal)[0]["timezone"] for year in (1985, 1986)] == ["+05:30", "+05:45"]


@given(st.integers(1, 500), clicklog.zones())
def test_the_last_days_end_with_today_in_the_zone(days: int, zone: tzinfo) -> None:
    query = DateRange.last(days).resolve(zone, NOW)
    first, last = query.span(zone)
    assert (last, (last - first).days) == (NOW.astimezone(zone).date(), days - 1)
    assert query.resolve(zone, NOW) == query


@given(bounds)
def test_fractions_of_a_second_are_dropped(bound: date) -> None:
    whole = DateRange(bound, bound)
    fraction = bound.replace(microsecond=999_999) if isinstance(bound, datetime) else bound
    assert DateRange(fraction, fraction) == whole


@given(clicklog.instants(clicklog.near_turns()), st.integers(0, 10_000), clicklog.zones())
def test_times_of_one_zone_are_ordered_as_instants(start: datetime, seconds: int, zone: tzinfo) -> None:
    end = start + timedelta(seconds=seconds)
    assert DateRange(start.astimezone(zone), end.astimezone(zone)).bounds == (start, end)
    if seconds:
        with pytest.raises(InvalidRequestError):
            DateRange(end.astimezone(zone), start.astimezone(zone))


@given(bounds, st.integers(0, 100), clicklog.zones())
def test_the_dates_of_the_answer_are_those_of_its_windows(start: date, later: int, zone: tzinfo) -> None:
    query = DateRange(start, start + timedelta(days=later))
    tiles = [piece.window for piece in query._time_slices(zone, NOW, "inclusive")]
    assert query.span(zone)[0] <= min((tile.first for tile in tiles if tile), default=date.max)
    assert query.span(zone)[1] >= max((tile.last for tile in tiles if tile), default=date.min)
    assert tiles == list(windows(*query.bounds, zone))


@pytest.mark.parametrize(
    ("query", "ended"),
    [
        (DateRange("2024-01-01", "2024-01-31"), datetime(2024, 2, 1, tzinfo=INDIA)),
        (Day("2024-01-31"), datetime(2024, 2, 1, tzinfo=INDIA)),
        (Year(2024), datetime(2025, 1, 1, tzinfo=INDIA)),
        (CountryGeo("US", "2024-01-01", "2024-01-31"), datetime(2024, 2, 1, tzinfo=INDIA)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_answer_is_final_once_its_last_second_is_over(query: Query[Any], ended: datetime) -> None:
    (piece,) = query._time_slices(INDIA, NOW, "inclusive")
    assert query._call(Selector(tag="t"), piece).period_end == ended - timedelta(seconds=1)


# --- plans -----------------------------------------------------------------------------------------------

QUERIES: list[Query[Any]] = [
    DateRange("2024-01-01", "2024-12-31"),
    Day("2024-04-07"),
    Year(2024),
    AllTime(),
    CountryGeo("US", "2024-01-01", "2024-12-31"),
]


def plan_of(query: Query[Any], selectors: list[Selector]) -> Plan[Any]:
    pieces = tuple(query._time_slices(INDIA, NOW, "inclusive"))
    return Plan(query, tuple(selectors), pieces, query.span(INDIA), 0, len(selectors) * len(pieces))


def run(plan: Plan[Any], service: Service) -> Any:
    running = plan._empty_sum()
    for selector, piece in plan._requests():
        running.add(service(plan.query._call(selector, piece)).to_statistics(piece.window)[0])
    return running.result()


plans = st.builds(
    lambda query, n: plan_of(query, [Selector(key) for key in KEYS[:n]]),
    st.sampled_from(QUERIES),
    st.integers(0, len(KEYS)),
)


def test_a_plan_is_each_selector_with_each_piece() -> None:
    plan = plan_of(QUERIES[0], [Selector("a,b"), Selector(tag="t")])
    asked = list(plan._requests())
    assert asked == [(selector, piece) for selector in plan._selectors for piece in plan._time_slices]
    params = [plan.query._call(*request).params[0] for request in asked]
    assert params == [("url_keys", "a,b")] * 12 + [("tag", "t")] * 12
    assert len(plan) == len(params)


@given(plans, st.integers(1, 70), st.integers(1, 5))
def test_the_calls_of_the_parts_are_the_calls_of_the_plan(plan: Plan[Any], n: int, again: int) -> None:
    asked = [ask for part in plan.split(n) for smaller in part.split(again) for ask in smaller._requests()]
    assert asked == list(plan._requests())


@given(plans, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9))
def test_what_cannot_be_requested_is_missing_once(plan: Plan[Any], n: int, again: int, missing: int) -> None:
    parts = [small for part in replace(plan, missing=missing).split(n) for small in part.split(again)]
    assert sum(part.missing for part in parts) == missing


@given(plans)
def test_the_plan_of_one_selector_has_all_its_requests(plan: Plan[Any]) -> None:
    alone = [ask for selector in plan._selectors for ask in plan._only(selector)._requests()]
    assert alone == list(plan._requests())


@given(plans, st.integers(1, 70))
def test_parts_are_of_about_equal_length_and_carry_no_selector_in_vain(plan: Plan[Any], n: int) -> None:
    parts = plan.split(n)
    lengths = [len(part) for part in parts]
    assert len(parts) == n
    assert max(lengths) - min(lengths) <= 1
    for part in parts:
        asked = {selector for selector, _ in part._requests()}
        assert asked == set(part._selectors) or not part


@given(clicklog.logs(st.dates(date(2023, 12, 25), date(2025, 1, 5))), plans, st.integers(1, 20))
def test_the_results_of_the_parts_add_up_to_the_result(log: list[Click], plan: Plan[Any], n: int) -> None:
    service = Service(log, named_states=2)
    whole = run(plan, service)
    assert type(whole).merge(run(part, service) for part in plan.split(n)) == whole
