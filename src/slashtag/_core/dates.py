"""Dates, date-times, and ranges such as `last-month`, `30d` and `2024-06`; which spans are compared."""

import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo

from .._errors import InvalidRequestError
from .._wording import did_you_mean
from .windows import DAY, SECOND, Bound, last_day

_TRAILING = re.compile(r"([1-9][0-9]{0,3})([dwmy])")
_NAMED = re.compile(r"(this|last)-(week|month|quarter|year)")
_DATES = re.compile(r"([0-9]{4})(?:-(?:([0-9]{2})|[qQ]([1-4])))?")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# What fromisoformat reads differs between Pythons: 24:00 since 3.14. These it reads alike.
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
FORMS = (
    "today, yesterday, this- or last-week, -month, -quarter, -year, 30d, 6m, october, october 2024, 2024, "
    "2024-q3, 2024-06, 2024-06-01 or 2024-06-01..2024-06-30"
)
_UNITS = ("week", "month", "quarter", "year")
_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
#: Spans that have names, one of which may be meant by a word that is none.
_NAMES = (
    "today",
    "yesterday",
    *(f"{which}-{unit}" for which in ("this", "last") for unit in _UNITS),
)
#: Other words for these. What is not over ends now, so that "so far" adds nothing to it.
_SAID = {
    **{f"previous-{unit}": f"last-{unit}" for unit in _UNITS},
    **{f"current-{unit}": f"this-{unit}" for unit in _UNITS},
    **{f"this-{unit}-{ending}": f"this-{unit}" for unit in _UNITS for ending in ("so-far", "to-date")},
    **{f"{unit}-to-date": f"this-{unit}" for unit in _UNITS},
    **{f"{unit[0]}td": f"this-{unit}" for unit in _UNITS},
}
_COUNTED = re.compile(r"(?:(?:last|past)-)?([1-9][0-9]{0,3})-(day|week|month|year)s?")
#: A month by three letters or more, or a quarter; the latest that has begun unless the year is given.
_MONTH_OR_QUARTER = re.compile(r"(?:([a-z]{3,9})|q([1-4]))(?:-([0-9]{4}))?")
#: What stands between the first and the last day; "year to date" is one span.
_BETWEEN = re.compile(r"\.\.|\s+to\s+(?!date\b)", re.IGNORECASE)

#: What a span is compared with, unless with a span that is given.
PREVIOUS, YEAR_BEFORE = "previous", "last-year"
#: Other words for these: "the month before" of a month is the previous one, of other spans it is none.
_BEFORE = re.compile(
    r"(?:the-|a-)?(?:(week|month|quarter|year|period|span)-(?:before|earlier)|previous-(?:period|span))"
)
_COMPARED = f"{PREVIOUS}, {YEAR_BEFORE}, or one of {FORMS}"
_LAST = time(23, 59, 59)


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


def parse_span(text: str, today: date, forms: str = FORMS) -> tuple[Bound, Bound]:
    """Return the first and last day of a date range, or its first and last second.

    - `today`, `yesterday`; `this-week` (from Monday), `last-month`, `last-quarter` and the like: whole weeks,
      months, quarters, years; `this-month so far`, `year-to-date`, `ytd` are these too;
    - `30d`, `4w`, `6m`, `1y`, `last 30 days`: a number of days, weeks, months or years that ends today;
    - `october`, `oct`, `q3`: the latest that has begun, or of the year that follows, as in `october 2024`;
    - `2024`, `2024-q3`, `2024-06`, `2024-06-01`: all its days; two of these, or date-times, joined by `..`,
      `to` or a blank. A month or quarter without a year is then the latest before the last day.

    Words may be joined by blanks or hyphens. Raises InvalidRequestError.
    """
    parts = [part.strip() for part in _BETWEEN.split(text, maxsplit=1)]
    if len(parts) == 1 and not is_span(text):
        # Two spans, one after the other; where there is only one, the error names the other words.
        words = text.split()
        cuts = [[" ".join(words[:n]), " ".join(words[n:])] for n in range(len(words) - 1, 0, -1)]
        parts = max(cuts, key=lambda cut: sum(map(is_span, cut)), default=parts)
        parts = parts if any(map(is_span, parts)) else [text]
        if len(parts) == 2 and parts[0].isdecimal() and _bare_month(parts[1]):
            raise InvalidRequestError(f"{text!r} may be one span or two; give '{parts[1]} {parts[0]}'")
    if len(parts) == 1 and ":" in text:
        raise InvalidRequestError(f"{text!r} is one instant; give two, joined by ..")
    ends: list[tuple[Bound, Bound]] = []
    for part in reversed(parts):
        # "October to November 2024": both of one year.
        by = date_of(ends[0][1]) if ends and _bare_month(part) else today
        try:
            ends.append(_ends(part, by))
        except (ValueError, OverflowError):
            name = _joined(part)
            meant = did_you_mean(name, (*_NAMES, *_SAID, *_MONTH_NAMES))
            if name.endswith(("-so-far", "-to-date")):
                meant = (
                    ": what is not over ends now, without 'so far'; what is over is compared with --compare"
                )
            raise InvalidRequestError(f"{part!r} is not a date range{meant}; give {forms}") from None
    return ends[-1][0], ends[0][1]


def is_span(text: str) -> bool:
    """Return whether a text is one span, and not two that are a first and a last day."""
    try:
        _ends(text, date(2000, 1, 1))
    except (ValueError, OverflowError):
        return False
    return True


def _joined(text: str) -> str:
    """Return words in small letters, joined by hyphens."""
    return "-".join(re.split(r"[\s.,_-]+", text.lower())).strip("-")


def _bare_month(text: str) -> bool:
    """Return whether a text is a month or a quarter without its year."""
    found = _MONTH_OR_QUARTER.fullmatch(_joined(text))
    return found is not None and found[3] is None and is_span(text)


def _as_written(text: str, today: date) -> str:
    """Return a span as it is written in digits or by its name; one that is neither is left as it is."""
    name = _joined(text)
    if (name := _SAID.get(name, name)) in _NAMES:
        return name
    if found := _COUNTED.fullmatch(name):
        return f"{found[1]}{found[2][0]}"
    if found := _MONTH_OR_QUARTER.fullmatch(name):
        letters, quarter, year = found.groups()
        month = 3 * int(quarter or 1) - 2
        if letters:
            named = [n for n, each in enumerate(_MONTH_NAMES, 1) if each == letters or each[:3] == letters]
            if not named and letters != "sept":
                return text
            month = named[0] if named else 9
        first = int(year) if year else today.year - (month > today.month)
        return f"{first:04d}-q{quarter}" if quarter else f"{first:04d}-{month:02d}"
    return text


def _ends(text: str, today: date) -> tuple[Bound, Bound]:
    """Return both ends of one part; raises ValueError and OverflowError if it is malformed."""
    text = _as_written(text, today)
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
    now, zone = now.replace(microsecond=0), now.tzinfo
    compare = _compared_by_name(compare, start, end)
    try:
        first, last = _compared(start, end, now, compare)
        if first == start and last in (end, now):
            raise InvalidRequestError(
                f"{compare} is the span itself, {start} to {end}; --compare {PREVIOUS} is the span before it"
            )
        if isinstance(start, datetime) or isinstance(end, datetime):
            begins, ends = _instant(start, zone), _instant(end, zone, _LAST)
            if not begins <= now < ends:
                return (start, end), (first, last)
            same_time = _instant(first, zone) + (now - begins)
        elif start <= now.date() <= end:
            same_time = datetime.combine(date_of(first) + (now.date() - start), now.timetz())
        else:
            return (start, end), (first, last)
        return (start, now), (first, min(same_time, _instant(last, zone, _LAST)))
    except InvalidRequestError:
        raise
    except (ValueError, OverflowError):
        told = "before" if compare == PREVIOUS else "a year before"
        raise InvalidRequestError(f"the span {told} {start} to {end} lies outside the calendar") from None


def is_comparison(text: str) -> bool:
    """Return whether a text says what a span is compared with: it is a span, or is named by the other one."""
    return is_span(text) or _BEFORE.fullmatch(_joined(text)) is not None


def _compared_by_name(compare: str, start: Bound, end: Bound) -> str:
    """Return PREVIOUS or YEAR_BEFORE for words that mean these; others as they are."""
    name = _joined(compare)
    if (name := _SAID.get(name, name)) in (PREVIOUS, YEAR_BEFORE):
        return name
    if (found := _BEFORE.fullmatch(name)) is None:
        return compare
    if (unit := found[1]) == "year":
        return YEAR_BEFORE
    if unit in _UNITS and _ends(f"this-{unit}", date_of(start)) != (start, end):
        raise InvalidRequestError(f"{start} to {end} is no {unit}; give --compare {PREVIOUS}, or a span")
    return PREVIOUS


def _compared(start: Bound, end: Bound, now: datetime, compare: str) -> tuple[Bound, Bound]:
    """Return the whole span that another is compared with; raises ValueError and OverflowError."""
    zone = now.tzinfo
    if compare not in (PREVIOUS, YEAR_BEFORE):
        first, last = (localized(bound, zone) for bound in parse_span(compare, now.date(), _COMPARED))
        if _instant(first, zone) > now:
            raise InvalidRequestError(f"{compare} begins after today, {now.date()}: there are no clicks yet")
        return first, now if _instant(last, zone, _LAST) > now else last
    is_previous = compare == PREVIOUS
    if isinstance(start, datetime) or isinstance(end, datetime):
        begins, ends = _instant(start, zone), _instant(end, zone, _LAST)
        if is_previous:
            return begins - (ends - begins) - SECOND, begins - SECOND
        shift = _whole_weeks((ends - begins).days + 1)
        # The same local times, whatever the offset of the zone was.
        return tuple(parse_bound("", bound.astimezone(zone) - shift) for bound in (begins, ends))  # type: ignore[return-value]
    if start.day == 1 and end == last_day(end):
        count = _number(end) - _number(start) + 1
        return _whole_months(_number(start) - (count if is_previous else max(count, 12)), count)
    shift = (end - start) + DAY if is_previous else _whole_weeks((end - start).days + 1)
    return start - shift, end - shift


def _whole_weeks(days: int) -> timedelta:
    """Return 52 weeks, or for a span of more days as many weeks as it touches."""
    return max(52, -(-days // 7)) * 7 * DAY


def days_apart(start: date, end: date, first: date, last: date) -> int:
    """Return how many days before a day of a span the day lies that it is compared with.

    Both spans are given by first and last day. From four weeks on that is a day with the same weekday, as
    near as possible to the same place in its span; it may lie outside it. In shorter spans it is the day in
    the same place.
    """
    apart = (start - first).days
    return apart if min(end - start, last - first) < 27 * DAY else (apart + 3) // 7 * 7


def _instant(bound: Bound, zone: tzinfo | None, at: time = time()) -> datetime:
    """Return a bound as an instant: of a date, a time in the zone."""
    return bound if isinstance(bound, datetime) else datetime.combine(bound, at, zone)
