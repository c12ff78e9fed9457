"""What an endpoint accepts: its parameters or members of its body, as in the tables of docs/service.md."""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

API = "/api/v1"
DAY = 86_400
EPOCH = date(1970, 1, 1).toordinal()
MAX_KEYS = 100
MAX_SPAN = timedelta(days=32)
# Unix seconds, the end not included.
Span = tuple[int, int]

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# Not 24:00, which datetime.fromisoformat reads since Python 3.14.
_INSTANT = _DATE + "T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}"


@dataclass(slots=True)
class Arrival:
    """A request that arrived, and its outcome.

    `path` is as on the wire, percent-encoded; `at` is seconds since the start; `in_flight` counts the
    requests under way then, this one included; `no_cache` whether caches were asked for no answer; `status`
    is None until one is sent; `fault` is the kind of its fault, or `"limit"` where it was one too many.
    """

    method: str
    path: str
    query: dict[str, str]
    at: float = 0.0
    in_flight: int = 1
    no_cache: bool = False
    body: bytes = b""
    status: int | None = None
    fault: str | None = None


class Envelope(Struct, frozen=True):
    """Answer without the member `data` if that is UNSET. See docs/service.md, General conventions."""

    status: int
    message: str
    data: Any = UNSET


class RefusedError(Exception):
    """Refusal of a request: its arguments are status and message. See docs/service.md, Errors."""


def error_data(path: str) -> list[object] | None:
    """Return the `data` of an error: an empty array on statistics paths, null elsewhere."""
    return [] if path.startswith(f"{API}/stats") else None


def bad_request(detail: str) -> RefusedError:
    """Return the refusal of an invalid request: status 400, `Bad request. ` and the detail."""
    return RefusedError(400, f"Bad request. {detail}")


class Listing(Struct, frozen=True):
    """Parameters of endpoints 1 and 3, List short URLs and List tags."""

    page: Annotated[int, Meta(ge=1)] = 1
    pagesize: Annotated[int, Meta(ge=1, le=500)] = 50
    orderby: Literal["date", "-date"] = "-date"


class UrlUpdate(Struct, frozen=True):
    """Body of endpoint 2, Update a short URL."""

    destination: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:\S+\Z")] | UnsetType = UNSET
    slashtag: Annotated[str, Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    redirect_code: Literal[301, 302, 303, 304, 307, 308] | UnsetType = UNSET
    password: Annotated[str, Meta(max_length=50)] | UnsetType = UNSET
    domain_id: int | UnsetType = UNSET


class NewTag(Struct, frozen=True):
    """Body of endpoint 4, Create a tag."""

    name: Annotated[str, Meta(min_length=1, max_length=25)]
    description: Annotated[str, Meta(max_length=255)] = ""


class Selector(Struct, frozen=True):
    """Parameters of all statistics, and no other of endpoint 7.

    See docs/service.md, Statistics: common selector.
    """

    tag: str = ""
    url_keys: str = ""
    timezone: Annotated[str, Meta(pattern=r"^[+-]([01][0-9]|2[0-3]):[0-5][0-9]\Z")] = "+00:00"

    def __post_init__(self) -> None:
        if not self.tag and not self.keys:
            raise bad_request("Tag and URL keys both can not be empty.")
        if len(self.keys) > MAX_KEYS:
            raise bad_request(f"At most {MAX_KEYS} URL keys are allowed.")

    @property
    def keys(self) -> list[str]:
        """The slashtags."""
        return [key for key in self.url_keys.split(",") if key]

    @property
    def offset(self) -> int:
        """Seconds east of UTC."""
        return int(self.timezone[:3]) * 3600 + int(self.timezone[0] + self.timezone[4:]) * 60

    def whole_days(self, first: date, last: date) -> Span:
        """Return the time from the first second of `first` to the last one of `last` in this zone."""
        start, end = ((day.toordinal() - EPOCH) * DAY - self.offset for day in (first, last))
        return start, end + DAY


class Year(Selector, frozen=True):
    """Parameters of endpoint 6, Statistics for a year."""

    year: Annotated[str, Meta(pattern=r"^(?!0000)[0-9]{4}\Z")] = ""

    def span(self) -> Span:
        """Return the year in its zone."""
        if not self.year:
            raise bad_request("Year is required.")
        return self.whole_days(date(int(self.year), 1, 1), date(int(self.year), 12, 31))


class Range(Year, frozen=True):
    """Parameters of endpoint 5, Statistics for a date or date range, and of the samples of 6 and 7."""

    date: str = ""
    date_range: str = ""

    def range_span(self, *, includes_end: bool) -> Span:
        """Return what is counted: of a `date` its whole day in its own offset."""
        if self.date:
            midnight = int(_date(self.date, _INSTANT).replace(hour=0, minute=0, second=0).timestamp())
            return midnight, midnight + DAY
        instants = [_date(text, _INSTANT) for text in self.date_range.split(",")]
        if len(instants) != 2:
            raise bad_request("Date range must be two dates separated by a comma.")
        start, end = instants
        if end < start:
            raise bad_request("Date range must not end before it starts.")
        if end - start > MAX_SPAN:
            raise bad_request(f"Date range can be at most {MAX_SPAN.days} days.")
        return int(start.timestamp()), int(end.timestamp()) + includes_end


class Country(Selector, frozen=True, kw_only=True):
    """Parameters of endpoint 8, Country geo-location statistics."""

    iso_code: Annotated[str, Meta(pattern=r"^[A-Za-z]{2}\Z")]
    start_date: str = ""
    end_date: str = ""

    def span(self) -> Span:
        """Return the days in their zone."""
        first, last = (_date(text, _DATE).date() for text in (self.start_date, self.end_date))
        if last < first:
            raise bad_request("End date must not be before start date.")
        return self.whole_days(first, last)


def _date(text: str, pattern: str) -> datetime:
    if not text:
        raise bad_request("Date is required.")
    with suppress(ValueError):
        if re.fullmatch(pattern, text):
            return datetime.fromisoformat(text)
    raise bad_request("Date format is incorrect. Please provide date in ISO 8601 format.")
