"""Parser of dates, of date-times with an offset, and of ranges such as `last-month`, `30d` and `2024-06`."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo

from .._errors import InvalidRequestError
from .windows import Bound, last_day, months

_DAY = timedelta(days=1)
_LAST = re.compile(r"([1-9][0-9]{0,3})([dwmy])")
_NAMED = re.compile(r"(this|last)-(week|month|year)")
_DATES = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
# What fromisoformat reads differs between Pythons: 24:00 since 3.14. These it reads alike.
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
FORMS = "today, yesterday, last-month, 30d, 6m, 2024, 2024-06, 2024-06-01 or 2024-06-01..2024-06-30"


def parse_bound(name: str, value: object, *, datetimes: bool = True) -> Bound:
    """Return a date or a datetime with an offset; accepts ISO 8601 text, drops fractions of seconds."""
    bound = value
    if isinstance(value, str):
        try:
            bound = _parse_iso(value)
        except ValueError:
            raise InvalidRequestError(
                f"{name} {value!r} is not a date of the form YYYY-MM-DD, nor an ISO 8601 date-time"
            ) from None
    if isinstance(bound, datetime) and datetimes:
        offset = bound.utcoffset()
        if offset is None:
            raise InvalidRequestError(f"{name} {value!r} is a date-time without an offset")
        # A fixed offset, because datetimes of one zone are compared by local time, not as instants.
        return bound.replace(microsecond=0, fold=0, tzinfo=timezone(offset))
    if isinstance(bound, date) and not isinstance(bound, datetime):
        return bound
    kinds = "a date or a date-time with an offset" if datetimes else "a date"
    raise InvalidRequestError(f"{name} must be {kinds}, not {value!r}")


def parse_day(name: str, value: object) -> date:
    """Return a date; accepts ISO 8601 text."""
    return parse_bound(name, value, datetimes=False)


def _parse_iso(text: str) -> Bound:
    """Return a date or a date-time; raises ValueError."""
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return datetime.fromisoformat(text) if found[1] else date.fromisoformat(text)


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
    ends: list[tuple[Bound, Bound]] = []
    for part in parts:
        try:
            ends.append(_ends(part, today, zone))
        except InvalidRequestError:
            raise
        except (ValueError, OverflowError):
            raise InvalidRequestError(f"{part!r} is not a date range; give {FORMS}") from None
    return ends[0][0], ends[-1][1]


def _ends(text: str, today: date | None, zone: tzinfo | None) -> tuple[Bound, Bound]:
    """Return both ends of one part; raises ValueError and OverflowError if it is malformed."""
    if text in ("today", "yesterday") or _LAST.fullmatch(text) or _NAMED.fullmatch(text):
        if today is None:
            raise InvalidRequestError(f"{text!r} is relative to today: pass today=")
        return _relative_to(today, text)
    if (found := _DATES.fullmatch(text)) and not found[3]:
        first = date(int(found[1]), int(found[2] or 1), 1)
        return first, last_day((first.year, int(found[2] or 12)))
    bound = _parse_iso(text)
    if isinstance(bound, datetime) and bound.tzinfo is None and zone is not None:
        bound = bound.replace(tzinfo=zone)
        if bound.utcoffset() != bound.replace(fold=1).utcoffset():
            raise InvalidRequestError(
                f"the clocks of {zone} change at {text!r}, so it is no instant, or two: give its offset"
            )
    return bound, bound


def _relative_to(today: date, text: str) -> tuple[date, date]:
    if found := _LAST.fullmatch(text):
        n, unit = int(found[1]), found[2]
        if unit in "dw":
            return today - (n * (7 if unit == "w" else 1) - 1) * _DAY, today
        # From the day after the same day of an earlier month, or after its last one if that month is shorter.
        number = today.year * 12 + today.month - 1 - n * (12 if unit == "y" else 1)
        month = number // 12, number % 12 + 1
        return min(date(*month, 1) + today.day * _DAY, last_day(month) + _DAY), today
    if text in ("today", "yesterday"):
        day = today if text == "today" else today - _DAY
        return day, day
    earlier = text.startswith("last")
    if text.endswith("week"):
        monday = today - (today.weekday() + 7 * earlier) * _DAY
        return monday, monday + 6 * _DAY
    if text.endswith("year"):
        return date(today.year - earlier, 1, 1), date(today.year - earlier, 12, 31)
    month = months(today.replace(day=1) - earlier * _DAY, today)[0]
    return date(*month, 1), last_day(month)
