"""Dates, date-times, and spans such as `last-month`, `30d` and `2024-06`; which spans are compared."""

import re
from contextlib import suppress
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any

from .._errors import InvalidRequestError
from .windows import DAY, Bound

_TRAILING = re.compile(r"([1-9][0-9]{0,3})([dw])")
_NAMED = re.compile(r"(this|last)-(week|month|quarter|year)")
_DATES = re.compile(r"([0-9]{4})(?:-(?:(0[1-9]|1[0-2])|[qQ]([1-4])))?")
# Other forms of ISO 8601, such as weeks, would be read as a day.
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
FORMS = (
    "today, yesterday, this- or last-week, -month, -quarter, -year, 30d, 4w, 2024, 2024-q3, 2024-06, "
    "2024-06-01, or two joined by two dots, as 2024-06-01..2024-06-30"
)
#: What a span is compared with, unless with a span that is given.
PREVIOUS, YEAR_BEFORE = "previous", "last-year"


def parse_bound(name: str, value: object) -> Bound:
    """Return a date or a datetime with an offset, as plain ones; accepts ISO 8601 text, drops fractions."""
    bound = value
    if isinstance(value, str) and (found := _ISO.fullmatch(value)):
        with suppress(ValueError):
            bound = datetime.fromisoformat(value) if found[1] else date.fromisoformat(value)
    # Of the plain types: subclasses, such as those of pandas and pendulum, add and compare in other ways.
    if isinstance(bound, datetime):
        if bound.utcoffset() is None:
            raise InvalidRequestError(
                f"{name} is a date-time without an offset, '{bound}': give it, as +00:00"
            )
        # With a fixed offset, because datetimes of one zone are compared by local time, not as instants.
        return datetime.fromisoformat(bound.isoformat(timespec="seconds"))
    if isinstance(bound, date):
        return date(bound.year, bound.month, bound.day)
    raise InvalidRequestError(
        f"{name} must be a date, of the form YYYY-MM-DD, or an ISO 8601 date-time, not {value!r}"
    )


def parse_end(name: str, value: object, end: int) -> Bound | str:
    """Return one end (0 or 1) of what text or a bound stands for, or text that depends on today as it is."""
    return _end_of_text(name, value, end) if isinstance(value, str) else parse_bound(name, value)


@lru_cache(maxsize=64)  # reading a text takes longer than the plan that it is for
def _end_of_text(name: str, text: str, end: int) -> Bound | str:
    if _ISO.fullmatch(text):
        return parse_bound(name, text)
    # What depends on today differs between two days.
    bound, later = (_ends(text, date(year, 1, 1))[end] for year in (2000, 2002))
    return bound if bound == later else text


def parse_day(name: str, value: object) -> date:
    """Return a date; accepts ISO 8601 text."""
    day = parse_bound(name, value)
    if isinstance(day, datetime):
        raise InvalidRequestError(f"{name} must be a date, not a date-time, {value!r}")
    return day


def parse_span(text: str, today: date) -> tuple[Bound, Bound]:
    """Return the first and last day of a date range, or its first and last second.

    - `today`, `yesterday`; `this-week` (from Monday), `last-month`, `last-quarter` and the like: whole weeks,
      months, quarters, years;
    - `30d`, `4w`: a number of days or weeks that ends today;
    - `2024`, `2024-q3`, `2024-06`, `2024-06-01`: all its days;
    - two of these, or date-times, joined by `..`.

    Raises InvalidRequestError.
    """
    ends = [_ends(part, today) for part in text.split("..", 1)]
    return ends[0][0], ends[-1][1]


def _ends(text: str, today: date) -> tuple[Bound, Bound]:
    """Return both ends of one part; raises InvalidRequestError."""
    with suppress(ValueError, OverflowError):
        if text in ("today", "yesterday"):
            day = today - (text == "yesterday") * DAY
            return day, day
        if found := _TRAILING.fullmatch(text):
            n, unit = int(found[1]), found[2]
            return today - (n * (7 if unit == "w" else 1) - 1) * DAY, today
        if found := _NAMED.fullmatch(text):
            is_last, unit = found[1] == "last", found[2]
            if unit == "week":
                monday = today - (today.weekday() + 7 * is_last) * DAY
                return monday, monday + 6 * DAY
            months = _MONTHS[unit]
            return _whole_months((_number(today) // months - is_last) * months, months)
        if found := _DATES.fullmatch(text):
            year, month, quarter = found.groups()
            first = int(month or 3 * int(quarter or 1) - 2)
            return _whole_months(12 * int(year) + first - 1, 1 if month else 3 if quarter else 12)
        bound = parse_bound("each end", text)
        return bound, bound
    raise InvalidRequestError(f"{text!r} is not a date range; give {FORMS}")


def _number(day: date) -> int:
    """Return the number of the month of a day, counted from year 0."""
    return 12 * day.year + day.month - 1


def _whole_months(number: int, count: int) -> tuple[date, date]:
    """Return the first and last day of so many months from one on."""
    first, after = (date(n // 12, n % 12 + 1, 1) for n in (number, number + count))
    return first, after - DAY


def spans_to_compare(
    start: Any, end: Any, now: datetime, compare: str
) -> tuple[tuple[Bound, Bound], tuple[Bound, Bound]]:
    """Return the bounds of `DateRange.with_previous`, for a time in the zone of the span."""
    now = now.replace(microsecond=0)
    today = now.date()
    given: Any = () if compare in (PREVIOUS, YEAR_BEFORE) else parse_span(compare, today)
    if any(isinstance(bound, datetime) for bound in (start, end, *given)):
        raise InvalidRequestError("only whole days are compared with others: give dates")
    first, last = given or _earlier(start, end, compare == PREVIOUS)
    if (first, last) == (start, end) or (given and first > today):
        raise InvalidRequestError(f"{compare} is the span itself, or begins after today, {today}")
    if start <= today <= end:
        same_time = datetime.combine(first + (today - start), now.timetz())
        until = min(same_time, datetime.combine(last, time(23, 59, 59), now.tzinfo))
        return (start, now), (first, until)
    return (start, end), (first, now if given and last >= today else last)


def _earlier(start: date, end: date, is_previous: bool) -> tuple[date, date]:
    """Return the days before, or those a year before; raises InvalidRequestError."""
    with suppress(ValueError, OverflowError):
        if start.day == (end + DAY).day == 1:
            count = _number(end) - _number(start) + 1
            return _whole_months(_number(start) - (count if is_previous else max(count, 12)), count)
        days = (end - start).days + 1
        # A year is 52 weeks, or for more days as many weeks as they touch.
        shift = (days if is_previous else 7 * max(52, -(-days // 7))) * DAY
        return start - shift, end - shift
    raise InvalidRequestError(f"the calendar has nothing to compare {start} to {end} with")
