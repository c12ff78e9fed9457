"""Parser of the bounds of a range: dates, and date-times with an offset."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone

from .._errors import InvalidRequestError
from .windows import Bound

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# What fromisoformat reads differs between Pythons: 24:00 since 3.14. These it reads alike.
_DATE_TIME = re.compile(
    _DATE.pattern + r"[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


def parse_bound(name: str, value: object, *, datetimes: bool = True) -> Bound:
    """Return a date or a datetime with an offset; accepts ISO 8601 text, drops fractions of seconds."""
    read: object = value
    if isinstance(value, str):
        try:
            if _DATE.fullmatch(value):
                read = date.fromisoformat(value)
            elif _DATE_TIME.fullmatch(value):
                read = datetime.fromisoformat(value)
        except ValueError:
            pass
        if read is value:
            raise InvalidRequestError(
                f"{name} {value!r} is not a date of the form YYYY-MM-DD, nor an ISO 8601 date-time"
            )
    if isinstance(read, datetime) and datetimes:
        offset = read.utcoffset()
        if offset is None:
            raise InvalidRequestError(f"{name} {value!r} is a date-time without an offset")
        # A fixed offset, because datetimes of one zone are compared by local time, not as instants.
        return read.replace(microsecond=0, fold=0, tzinfo=timezone(offset))
    if isinstance(read, date) and not isinstance(read, datetime):
        return read
    kinds = "a date or a date-time with an offset" if datetimes else "a date"
    raise InvalidRequestError(f"{name} must be {kinds}, not {value!r}")


def parse_day(name: str, value: object) -> date:
    """Return a date; accepts ISO 8601 text."""
    return parse_bound(name, value, datetimes=False)
