"""Parser of date ranges such as `last-month`, `30d`, `2024-06` and `2024-06-01..2024-06-30`."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, tzinfo

from .._errors import InvalidRequestError
from .windows import Bound, last_day

_DAY = timedelta(days=1)
_LAST = re.compile(r"([1-9][0-9]{0,3})([dwmy])", re.ASCII)
_DATES = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?", re.ASCII)
_NAMED = re.compile(r"(this|last)-(week|month|year)")
# What fromisoformat reads differs between Pythons; these it reads alike.
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)
FORMS = "today, yesterday, last-month, 30d, 6m, 2024, 2024-06, 2024-06-01 or 2024-06-01..2024-06-30"


def parse_span(text: str, today: date | None = None, zone: tzinfo | None = None) -> tuple[Bound, Bound]:
    """Return the first and last day of a date range, or its first and last second.

    - `today`, `yesterday`; `this-week` (from Monday), `last-month` and the like: whole weeks, months, years;
    - `30d`, `4w`, `6m`, `1y`: a number of days, weeks, months or years that ends today;
    - `2024`, `2024-06`, `2024-06-01`: all its days; two of them, or two date-times, joined by `..`.

    Date-times without an offset are in `zone`. Raises InvalidRequestError, also if `today` is needed but not
    given, or if a local time in `zone` is ambiguous or does not exist.
    """
    parts = [part.strip() for part in text.split("..", 1)]
    if len(parts) == 1 and ":" in text:
        raise InvalidRequestError(f"{text!r} is one instant; give two, joined by ..")
    ends = [_ends(part, today, zone) for part in parts]
    return ends[0][0], ends[-1][1]


def _ends(text: str, today: date | None, zone: tzinfo | None) -> tuple[Bound, Bound]:
    try:
        return _read(text, today, zone)
    except InvalidRequestError:
        raise
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"{text!r} is not a date range; give {FORMS}") from None


def _read(text: str, today: date | None, zone: tzinfo | None) -> tuple[Bound, Bound]:
    """Return both ends of one part; raises ValueError and OverflowError if it is malformed."""
    if found := _DATES.fullmatch(text):
        year, month, day = (int(part) if part else None for part in found.groups())
        if month is None or year is None:
            return date(int(text), 1, 1), date(int(text), 12, 31)
        if day is None:
            return date(year, month, 1), last_day((year, month))
        return date(year, month, day), date(year, month, day)
    if _DATE_TIME.fullmatch(text):
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None and zone is not None:
            instant = instant.replace(tzinfo=zone)
            if instant.utcoffset() != instant.replace(fold=1).utcoffset():
                raise InvalidRequestError(
                    f"the clocks of {zone} change at {text!r}, which is no instant or two: give its offset"
                )
        return instant, instant
    if not (text in ("today", "yesterday") or _LAST.fullmatch(text) or _NAMED.fullmatch(text)):
        raise ValueError(text)
    if today is None:
        raise InvalidRequestError(f"{text!r} is relative to today: pass today=")
    return _relative(text, today)


def _relative(text: str, today: date) -> tuple[date, date]:
    if found := _LAST.fullmatch(text):
        n, unit = int(found[1]), found[2]
        if unit in "my":
            return _months_before(today, n * (12 if unit == "y" else 1)) + _DAY, today
        return today - (n * (7 if unit == "w" else 1) - 1) * _DAY, today
    if named := _NAMED.fullmatch(text):
        return _period(named[2], today, earlier=named[1] == "last")
    day = today if text == "today" else today - _DAY
    return day, day


def _period(unit: str, today: date, *, earlier: bool) -> tuple[date, date]:
    """Return the current week, month or year, or the previous one."""
    if unit == "week":
        monday = today - (today.weekday() + 7 * earlier) * _DAY
        return monday, monday + 6 * _DAY
    if unit == "year":
        return date(today.year - earlier, 1, 1), date(today.year - earlier, 12, 31)
    first = today.replace(day=1)
    if earlier:
        first = (first - _DAY).replace(day=1)
    return first, last_day((first.year, first.month))


def _months_before(day: date, months: int) -> date:
    """Return the same day some months earlier, or the last day of a shorter month."""
    n = day.year * 12 + day.month - 1 - months
    month = n // 12, n % 12 + 1
    return min(date(*month, 1) + (day.day - 1) * _DAY, last_day(month))
