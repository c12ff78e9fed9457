"""Splitting of time at UTC offset changes, and into windows of at most 32 days; slices that are requested."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from msgspec import Struct

from .._errors import InvalidRequestError
from .limits import MAX_WINDOW_DAYS

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-5][0-9]")
# In the tz database, transitions of a zone are weeks apart, so none is missed.
_SAMPLE = timedelta(hours=12)

Bound = date | datetime
Zone = str | tzinfo | None
#: Whether the service counts the last second of a range.
RangeEnd = Literal["inclusive", "exclusive"]


def parse_zone(zone: Zone) -> tzinfo:
    """Return the tzinfo of "+HH:MM", an IANA name, a tzinfo, or None (+00:00)."""
    if zone is None:
        return UTC
    if isinstance(zone, tzinfo):
        return zone
    if isinstance(zone, str):
        try:
            if _OFFSET.fullmatch(zone):
                return datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo or UTC
            return ZoneInfo(zone)
        # The type depends on the text: a folder, an absolute path, too long a name.
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
        if zone[:1].isalpha() and not available_timezones():
            raise InvalidRequestError(
                f"no data for the time zone {zone!r}: this system has none; run `pip install tzdata`"
            )
    raise InvalidRequestError(
        f"the timezone must be +HH:MM, -HH:MM or a name such as Europe/Berlin, not {zone!r}"
    )


def segments(zone: tzinfo, first: datetime, last: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """Yield (start, end, offset) for each period of one offset between two instants, end excluded.

    Transitions are found to the second.
    """

    def offset_at(instant: datetime) -> timedelta:
        return instant.astimezone(zone).utcoffset() or timedelta()

    # A datetime.timezone has one offset for ever.
    step = last - first if isinstance(zone, timezone) else _SAMPLE
    start, offset, at = first, offset_at(first), first
    while at < last:
        ahead = min(at + step, last)
        if offset_at(ahead) == offset:
            at = ahead
            continue
        low, high = at, ahead
        while high - low > SECOND:
            middle = low + (high - low) // SECOND // 2 * SECOND
            low, high = (middle, high) if offset_at(middle) == offset else (low, middle)
        yield start, high, offset
        start, offset, at = high, offset_at(high), high
    if start < last:
        yield start, last, offset


class Window(Struct, frozen=True):
    """Range of local time under one offset: aware datetimes in whole seconds, both ends included."""

    start: datetime
    end: datetime

    @property
    def first(self) -> date:
        """The first calendar date that the window touches."""
        return self.start.date()

    @property
    def last(self) -> date:
        """The last calendar date that the window touches."""
        return self.end.date()

    @property
    def offset(self) -> timedelta:
        """The offset of the whole window."""
        return self.start.utcoffset() or timedelta()

    def __str__(self) -> str:
        return f"{self.first}..{self.last}" if self.first != self.last else str(self.first)


def windows(start: Bound, end: Bound, zone: tzinfo) -> list[Window]:
    """Split the range from `start` to `end` (both included) into windows the service can answer.

    A window has one UTC offset and covers at most 32 calendar dates. It begins at the start of the range or
    of a day, or one second after the previous window, and ends at the last second of a day or where the range
    or the offset ends. A date that the zone skips is in none; in a sum it has zero clicks. This scans the
    whole range for transitions. See docs/service.md, Statistics for a date or date range.
    """
    found = list[Window]()
    try:
        # Convert to UTC first: arithmetic in local time is wrong across a transition.
        # No offset is more than a day: a date begins and ends within two days of the same date of UTC.
        low = start.astimezone(UTC) if isinstance(start, datetime) else midnight(start) - 2 * DAY
        high = end.astimezone(UTC) + SECOND if isinstance(end, datetime) else midnight(end) + 2 * DAY
        for begins, stops, offset in segments(zone, low, high):
            fixed = timezone(offset)
            first, last = begins.astimezone(fixed), stops.astimezone(fixed) - SECOND
            # A date includes all its seconds under any offset, so dates are compared as local times.
            if not isinstance(start, datetime):
                first = max(first, midnight(start, fixed))
            if not isinstance(end, datetime):
                last = min(last, midnight(end, fixed) + DAY - SECOND)
            while first <= last:
                # To the end of the last of its dates; it may begin in the middle of the first.
                longest = MAX_WINDOW_DAYS * DAY - (first - midnight(first.date(), fixed)) - SECOND
                # A timedelta, because the end may be outside the calendar.
                found.append(Window(first, first + min(last - first, longest)))
                first = found[-1].end + SECOND
    except OverflowError:
        raise InvalidRequestError(f"{start} to {end} lies outside the calendar") from None
    # A zone may skip one date. Only the zone decides whether an instant is before or after a date.
    if not found and start != end:
        raise InvalidRequestError(f"the range ends ({end}) before it starts ({start})")
    return found


def midnight(day: date, zone: tzinfo = UTC) -> datetime:
    """Return the first instant of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=zone)


class TimeSlice(Struct, frozen=True, gc=False):
    """Period of a query that one request covers; `window` is None for all time."""

    params: tuple[tuple[str, str], ...]
    label: str
    window: Window | None = None


def timezone_param(offset: timedelta) -> tuple[tuple[str, str], ...]:
    """Return the parameter for an offset, `+HH:MM`; none for +00:00, the documented default."""
    if offset % timedelta(minutes=1):
        raise InvalidRequestError(f"the offset {offset} of the zone has seconds; the service takes +HH:MM")
    return (("timezone", datetime(2000, 1, 1, tzinfo=timezone(offset)).isoformat()[-6:]),) if offset else ()


def range_slices(start: Bound, end: Bound, zone: tzinfo, range_end: RangeEnd) -> Sequence[TimeSlice]:
    """Return the time slices of a date range."""
    # Cached for callers that repeat a range: splitting takes as long as a request. Not for a
    # tzinfo of another class, nor of a subclass: its offsets may change, or it may have no hash.
    split = _range_slices if type(zone) in (timezone, ZoneInfo) else _range_slices.__wrapped__
    return split(start, end, zone, range_end)


@lru_cache(maxsize=64)
def _range_slices(start: Bound, end: Bound, zone: tzinfo, range_end: RangeEnd) -> Sequence[TimeSlice]:
    slices = list[TimeSlice]()
    for window in windows(start, end, zone):
        stop = window.end + SECOND if range_end == "exclusive" else window.end
        span = f"{window.start.isoformat()},{stop.isoformat()}"
        slices.append(TimeSlice((("date_range", span), *timezone_param(window.offset)), str(window), window))
    return tuple(slices)


def whole_period(
    zone: tzinfo, start: Bound, end: Bound, label: str, *params: tuple[str, str]
) -> Sequence[TimeSlice]:
    """Return the time slice of a period that cannot be split; none for a date that the zone skips.

    Raises InvalidRequestError for a zone with several offsets in the period.
    """
    found = windows(start, end, zone)
    offsets = {window.offset for window in found}
    if len(offsets) > 1:
        raise InvalidRequestError(
            f"{zone} has {len(offsets)} UTC offsets within {label}, but the service accepts only "
            "one: give a fixed offset such as +01:00, or ask for a range of days"
        )
    # Pacific/Apia had no 2011-12-30.
    return [
        TimeSlice((*params, *timezone_param(offset)), label, Window(found[0].start, found[-1].end))
        for offset in offsets
    ]
