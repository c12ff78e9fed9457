"""Laws of splitting: windows tile the span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from unittest.mock import Mock
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import InvalidRequestError
from slashtag._core.windows import Window, parse_zone, range_slices, segments, timezone_param, windows

from . import clicklog
from .clicklog import ZONES

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


# --- zones -------------------------------------------------------------------------------------------


@given(clicklog.offsets())
def test_an_offset_is_read_as_it_is_written(zone: timezone) -> None:
    offset = zone.utcoffset(None)
    written = dict(timezone_param(offset)).get("timezone")
    assert parse_zone(written).utcoffset(None) == offset


ZONES_REFUSED = [
    "Z",
    "Europe/Nowhere",
    "Europe",
    "/etc/passwd",
    "x" * 500,
    "+1:00",
    "+0100",
    "+24:00",
    "+01:60",
]


@pytest.mark.parametrize("zone", ["", *ZONES_REFUSED, "+01:00\n", "+０１:００", b"+01:00", 1])
def test_a_timezone_of_another_form_is_refused(zone: object) -> None:
    with pytest.raises(InvalidRequestError):
        parse_zone(zone)  # type: ignore[arg-type]


def test_a_system_without_time_zones_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Windows is."""
    monkeypatch.setattr("slashtag._core.windows.ZoneInfo", Mock(side_effect=ZoneInfoNotFoundError))
    monkeypatch.setattr("slashtag._core.windows.available_timezones", set)
    with pytest.raises(InvalidRequestError, match="pip install tzdata"):
        parse_zone("Europe/Berlin")


@pytest.mark.parametrize("seconds", [1, 59, -1, 2_672, 0.5])
def test_an_offset_with_seconds_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequestError, match="has seconds"):
        timezone_param(timedelta(seconds=seconds))


@pytest.mark.parametrize("name", ZONES)
def test_segments_tile_and_are_cut_at_the_second_of_a_transition(name: str) -> None:
    zone = ZoneInfo(name)
    first, last = datetime(2009, 12, 31, tzinfo=UTC), datetime(2024, 12, 31, 17, 3, 5, tzinfo=UTC)
    cut = list(segments(zone, first, last))
    assert (cut[0][0], cut[-1][1]) == (first, last)
    assert all(a[1] == b[0] and a[2] != b[2] for a, b in pairwise(cut))
    for start, end, offset in cut:
        assert {_offset(zone, start), _offset(zone, end - SECOND)} == {offset}
    assert all(_offset(zone, start) != _offset(zone, start - SECOND) for start, _, _ in cut[1:])


def _offset(zone: tzinfo, instant: datetime) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()


# --- windows -----------------------------------------------------------------------------------------

spans = st.builds(
    lambda first, length: (first, first + timedelta(days=length)),
    clicklog.near_turns(40) | st.dates(date(2001, 1, 1), date(2030, 1, 1)),
    st.integers(0, 140),
)


def _holding(tiles: Sequence[Window], instant: datetime) -> int:
    return sum(tile.start <= instant <= tile.end for tile in tiles)


def _probes(tiles: Sequence[Window], first: date, last: date) -> Iterator[datetime]:
    """Yield instants at which something could go wrong."""
    edges = [edge.astimezone(UTC) for tile in tiles for edge in (tile.start, tile.end)]
    edges += [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, last)]
    for edge in edges:
        for seconds in (0, 1, 60, 1_800, 3_599, 3_600, 3_601, 7_200, 43_200, 86_399, 86_400):
            yield edge + timedelta(seconds=seconds)
            yield edge - timedelta(seconds=seconds)


@given(spans, clicklog.zones())
def test_each_second_of_the_dates_lies_in_one_window_and_no_other_second_in_any(
    span: tuple[date, date], zone: tzinfo
) -> None:
    tiles = windows(*span, zone)
    for instant in _probes(tiles, *span):
        assert _holding(tiles, instant) == (span[0] <= instant.astimezone(zone).date() <= span[1])


@given(spans, clicklog.zones())
def test_windows_obey_the_limits(span: tuple[date, date], zone: tzinfo) -> None:
    for tile in windows(*span, zone):
        midnight = (tile.end + SECOND).time() == datetime.min.time()
        assert midnight or _offset(zone, tile.end) != _offset(zone, tile.end + SECOND)
        assert (tile.last - tile.first).days < 32
        assert tile.end - tile.start < 32 * DAY
        assert tile.start.utcoffset() == tile.end.utcoffset() == tile.offset
        hours = range(0, int((tile.end - tile.start).total_seconds()), 3_600)
        assert {_offset(zone, tile.start + timedelta(seconds=n)) for n in hours} <= {tile.offset}


@given(spans, clicklog.offsets())
def test_in_a_fixed_offset_there_are_as_few_windows_as_can_be(
    span: tuple[date, date], zone: timezone
) -> None:
    assert len(windows(*span, zone)) == -(-((span[1] - span[0]).days + 1) // 32)


@given(
    clicklog.instants(clicklog.near_turns(20)),
    st.integers(0, 90 * 86_400),
    clicklog.zones(),
    clicklog.zones(),
)
def test_instants_are_tiled_to_the_second(start: datetime, seconds: int, zone: tzinfo, other: tzinfo) -> None:
    end = start + timedelta(seconds=seconds)
    tiles = windows(start.astimezone(other), end.astimezone(other), zone)
    assert (tiles[0].start, tiles[-1].end) == (start, end)
    assert all(a.end + SECOND == b.start for a, b in pairwise(tiles))
    assert all((tile.last - tile.first).days < 32 for tile in tiles)


@given(clicklog.instants(clicklog.near_turns()), st.integers(-40, 40), clicklog.zones())
def test_a_date_and_an_instant_bound_what_lies_between_them(at: datetime, later: int, zone: tzinfo) -> None:
    day = at.date() + later * DAY
    for start, end in ((at, day), (day, at)):
        try:
            tiles = windows(start, end, zone)
        except InvalidRequestError:
            tiles = []
        for instant in (*_probes(tiles, day, day), at, at + SECOND, at - SECOND):
            local = instant.astimezone(zone).date()
            inside = (instant >= at and local <= day) if start is at else (local >= day and instant <= at)
            assert _holding(tiles, instant) == inside


def test_a_zone_whose_offset_changes_is_split_anew() -> None:
    class Changing(ZoneInfo):
        ahead = timedelta()

        def utcoffset(self, dt: datetime | None) -> timedelta:
            return self.ahead

        def fromutc(self, dt: datetime) -> datetime:
            return dt + self.ahead

    zone, days = Changing("UTC"), (date(2024, 3, 1), date(2024, 3, 2))
    before = range_slices(*days, zone, "inclusive")
    zone.ahead = timedelta(hours=1)
    fixed = timezone(zone.ahead)
    assert range_slices(*days, zone, "inclusive") == range_slices(*days, fixed, "inclusive") != before


@pytest.mark.parametrize(
    ("start", "end"),
    [(date(2024, 1, 1), date.max), (date.min, date(1, 2, 1)), (datetime.max.replace(tzinfo=UTC),) * 2],
)
def test_what_lies_outside_the_calendar_is_refused(start: date, end: date) -> None:
    with pytest.raises(InvalidRequestError, match="outside the calendar"):
        windows(start, end, ZoneInfo("Europe/Dublin"))
