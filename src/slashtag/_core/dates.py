"""Dates, date-times, and spans such as `last-month`, `30d` and `2024-06`; which spans are compared."""

import re
from datetime import date, datetime, time, timezone, tzinfo

from .._errors import InvalidRequestError
from .._wording import did_you_mean
from .windows import DAY, Bound, last_day

_TRAILING = re.compile(r"([1-9][0-9]{0,3})([dwmy])")
_NAMED = re.compile(r"(this|last)-(week|month|quarter|year)")
_DATES = re.compile(r"([0-9]{4})(?:-(?:([0-9]{2})|[qQ]([1-4])))?")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# What fromisoformat reads differs between Pythons: 24:00 since 3.14. These it reads alike.
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
#: Spans that have names, one of which may be meant by a word that is none.
_NAMES = (
    "today",
    "yesterday",
    *(f"{which}-{unit}" for which in ("this", "last") for unit in ("week", "month", "quarter", "year")),
)
FORMS = (
    "today, yesterday, this- or last-week, -month, -quarter, -year, 30d, 4w, 6m, 1y, 2024, 2024-q3, 2024-06, "
    "2024-06-01, or two joined by two dots, as 2024-06-01..2024-06-30"
)
#: What a span is compared with, unless with a span that is given.
PREVIOUS, YEAR_BEFORE = "previous", "last-year"


def parse_bound(name: str, value: object, *, datetimes: bool = True) -> Bound:
    """Return a date or a datetime, as plain ones; accepts ISO 8601 text, drops fractions of seconds."""
    bound = value
    if isinstance(value, str):
        try:
            bound = _parse_iso(value)
        except ValueError:
            raise InvalidRequestError(
                f"{name} {value!r} is not a date of the form YYYY-MM-DD, nor an ISO 8601 date-time"
            ) from None
    try:
        # Of the plain types: subclasses, such as those of pandas and pendulum, add and compare in other ways.
        if isinstance(bound, datetime) and datetimes:
            offset = bound.utcoffset()
            # A fixed offset, because datetimes of one zone are compared by local time, not as instants.
            zone = None if offset is None else timezone(offset)
            parts = bound.year, bound.month, bound.day, bound.hour, bound.minute, bound.second
            return datetime(*parts, tzinfo=zone)
        if isinstance(bound, date) and not isinstance(bound, datetime):
            return date(bound.year, bound.month, bound.day)
    except (ValueError, TypeError):
        pass  # pandas' NaT is a datetime without a year
    raise InvalidRequestError(f"{name} must be a date{' or a date-time' * datetimes}, not {value!r}")


def parse_day(name: str, value: object) -> date:
    """Return a date; accepts ISO 8601 text."""
    return parse_bound(name, value, datetimes=False)


def _parse_iso(text: str) -> Bound:
    """Return a date or a date-time; raises ValueError."""
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return datetime.fromisoformat(text) if found[1] else date.fromisoformat(text)


def is_local(bound: Bound) -> bool:
    """Return whether a bound is a date-time without an offset."""
    return isinstance(bound, datetime) and bound.utcoffset() is None


def date_of(bound: Bound, zone: tzinfo | None = None) -> date:
    """Return the date of a bound, in the zone if that is given."""
    if not isinstance(bound, datetime):
        return bound
    return (bound.astimezone(zone) if zone is not None else bound).date()


def localized(bound: Bound, zone: tzinfo | None) -> Bound:
    """Return a bound with the offset of the zone if it is a date-time that has none.

    Raises InvalidRequestError without a zone, and for a local time that it shows never, or twice.
    """
    if not isinstance(bound, datetime) or not is_local(bound):
        return bound
    if zone is None:
        raise InvalidRequestError(f"'{bound}' is a date-time without an offset; give it, or timezone=")
    instant = bound.replace(tzinfo=zone)
    if instant.utcoffset() != instant.replace(fold=1).utcoffset():
        raise InvalidRequestError(
            f"the clocks of {zone} change at '{bound}', so it is no instant, or two: give its offset"
        )
    return parse_bound("", instant)


def parse_span(text: str, today: date) -> tuple[Bound, Bound]:
    """Return the first and last day of a date range, or its first and last second.

    - `today`, `yesterday`; `this-week` (from Monday), `last-month`, `last-quarter` and the like: whole weeks,
      months, quarters, years;
    - `30d`, `4w`, `6m`, `1y`: a number of days, weeks, months or years that ends today;
    - `2024`, `2024-q3`, `2024-06`, `2024-06-01`: all its days;
    - two of these, or date-times, joined by `..`.

    Raises InvalidRequestError.
    """
    parts = text.split("..", 1)
    if len(parts) == 1 and ":" in text:
        raise InvalidRequestError(f"{text!r} is one instant; give two, joined by ..")
    ends: list[tuple[Bound, Bound]] = []
    for part in parts:
        try:
            ends.append(_ends(part, today))
        except (ValueError, OverflowError):
            meant = did_you_mean(part, _NAMES)
            raise InvalidRequestError(f"{part!r} is not a date range{meant}; give {FORMS}") from None
    return ends[0][0], ends[-1][1]


def _ends(text: str, today: date) -> tuple[Bound, Bound]:
    """Return both ends of one part; raises ValueError and OverflowError if it is malformed."""
    if text in ("today", "yesterday"):
        day = today - (text == "yesterday") * DAY
        return day, day
    if found := _TRAILING.fullmatch(text):
        n, unit = int(found[1]), found[2]
        if unit in "dw":
            return today - (n * (7 if unit == "w" else 1) - 1) * DAY, today
        # From the day after the same day of an earlier month, or after its last one if that month is shorter.
        first, last = _whole_months(_number(today) - n * (12 if unit == "y" else 1), 1)
        return min(first + today.day * DAY, last + DAY), today
    if found := _NAMED.fullmatch(text):
        is_last, unit = found[1] == "last", found[2]
        if unit == "week":
            monday = today - (today.weekday() + 7 * is_last) * DAY
            return monday, monday + 6 * DAY
        months = _MONTHS[unit]
        return _whole_months((_number(today) // months - is_last) * months, months)
    if found := _DATES.fullmatch(text):
        year, month, quarter = found.groups()
        if month:
            return _whole_months(_number(date(int(year), int(month), 1)), 1)
        return _whole_months(12 * int(year) + 3 * (int(quarter or 1) - 1), 3 if quarter else 12)
    bound = _parse_iso(text)
    return bound, bound


def _number(day: date) -> int:
    """Return the number of the month of a day, counted from year 0."""
    return 12 * day.year + day.month - 1


def _whole_months(number: int, count: int) -> tuple[date, date]:
    """Return the first and last day of so many months from one on."""
    (year, month), (last_year, last_month) = divmod(number, 12), divmod(number + count - 1, 12)
    return date(year, month + 1, 1), last_day(date(last_year, last_month + 1, 1))


def spans_to_compare(
    start: Bound, end: Bound, now: datetime, compare: str = PREVIOUS
) -> tuple[tuple[Bound, Bound], tuple[Bound, Bound]]:
    """Return the bounds of `DateRange.with_previous`, for a time in the zone of the span."""
    now = now.replace(microsecond=0)
    today = now.date()
    try:
        is_given = compare not in (PREVIOUS, YEAR_BEFORE)
        first, last = parse_span(compare, today) if is_given else _earlier(start, end, compare == PREVIOUS)
        if any(isinstance(bound, datetime) for bound in (start, end, first, last)):
            raise InvalidRequestError("only whole days are compared with others: give dates")
        if (first, last) == (start, end) or (is_given and first > today):
            raise InvalidRequestError(f"{compare} is the span itself, or begins after today, {today}")
        if start <= today <= end:
            same_time = datetime.combine(first + (today - start), now.timetz())
            until = min(same_time, datetime.combine(last, time(23, 59, 59), now.tzinfo))
            return (start, now), (first, until)
    except InvalidRequestError:
        raise
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"the span before {start} to {end} lies outside the calendar") from None
    return (start, end), (first, now if is_given and last >= today else last)


def _earlier(start: date, end: date, is_previous: bool) -> tuple[date, date]:
    """Return the days before, or those a year before; raises ValueError and OverflowError."""
    if start.day == 1 and end == last_day(end):
        count = _number(end) - _number(start) + 1
        return _whole_months(_number(start) - (count if is_previous else max(count, 12)), count)
    days = (date_of(end) - date_of(start)).days + 1
    # A year is 52 weeks, or for more days as many weeks as they touch.
    shift = (days if is_previous else 7 * max(52, -(-days // 7))) * DAY
    return start - shift, end - shift
