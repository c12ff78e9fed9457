"""Requests and their validation: from bytes and texts to values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, UnsetType

DAY = 86_400
EPOCH = date(1970, 1, 1).toordinal()
MAX_KEYS = 100
MAX_SPAN = timedelta(days=32)
DATE_FORMAT = "Date format is incorrect. Please provide date in ISO 8601 format."

# Not 24:00, which datetime.fromisoformat reads since Python 3.14.
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}")

T = TypeVar("T")


class RefusedError(Exception):
    """Refusal of a request, with status and message. See docs/service.md, Errors."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(detail: str) -> RefusedError:
    """Return the refusal of an invalid request: status 400, `Bad request. ` and the detail."""
    return RefusedError(400, f"Bad request. {detail}")


@dataclass(frozen=True, slots=True)
class Request:
    """Request as it arrived: `path` still percent-encoded, names of headers in any case or in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self, form: type[T]) -> T:
        """Decode the body, JSON declared as such. See docs/service.md, General conventions."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise bad_request("Content-Type must be application/json.")
        try:
            return msgspec.json.decode(self.body, type=form)
        except (ValueError, RecursionError) as error:
            raise bad_request(f"Body is not valid: {error}.") from None


class Listing(msgspec.Struct, frozen=True):
    """Parameters of a listing. See docs/service.md, List short URLs."""

    page: Annotated[int, Meta(ge=1)] = 1
    pagesize: Annotated[int, Meta(ge=1, le=500)] = 50
    orderby: Literal["date", "-date"] = "-date"


class UrlUpdate(msgspec.Struct, frozen=True):
    """Body of an update. See docs/service.md, Update a short URL."""

    destination: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:\S+\Z")] | UnsetType = UNSET
    slashtag: Annotated[str, Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    redirect_code: Literal[301, 302, 303, 304, 307, 308] | UnsetType = UNSET
    password: Annotated[str, Meta(max_length=50)] | UnsetType = UNSET
    domain_id: int | UnsetType = UNSET


class NewTag(msgspec.Struct, frozen=True):
    """Body that creates a tag. See docs/service.md, Create a tag."""

    name: Annotated[str, Meta(min_length=1, max_length=25)]
    description: Annotated[str, Meta(max_length=255)] = ""


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Split a request target into its encoded path and decoded query; the last of repeated values counts."""
    # Bytes that are not UTF-8 arrive as lone surrogates, which SQLite refuses.
    target = target.encode(errors="surrogateescape").decode(errors="replace")
    path, _, query = target.partition("?")
    return path, dict(parse_qsl(query, keep_blank_values=True))


def _text(query: Mapping[str, str], name: str, pattern: str, detail: str) -> str:
    text = query.get(name, "")
    if not re.fullmatch(pattern, text):
        raise bad_request(detail)
    return text


def offset(query: Mapping[str, str]) -> int:
    """Read `timezone` as seconds east of UTC; 0 where it is absent."""
    detail = "Timezone format is incorrect. Please provide timezone as +HH:MM or -HH:MM."
    text = _text({"timezone": "+00:00", **query}, "timezone", "[+-]([01][0-9]|2[0-3]):[0-5][0-9]", detail)
    return int(text[:3]) * 3600 + int(text[0] + text[4:]) * 60


def _instant(text: str) -> datetime:
    try:
        if _INSTANT.fullmatch(text):
            instant = datetime.fromisoformat(text)
            instant.astimezone(UTC)
            return instant
    except (ValueError, OverflowError):
        pass
    raise bad_request(DATE_FORMAT)


def instants(query: Mapping[str, str], *, includes_end: bool) -> tuple[int, int]:
    """Read `date` or `date_range` as Unix seconds, the end not included.

    A `date` stands for its whole day in its own offset.
    """
    day, text = query.get("date"), query.get("date_range")
    if day and text:
        raise bad_request("Either date or date range can be given, not both.")
    if day:
        midnight = int(_instant(day).replace(hour=0, minute=0, second=0).timestamp())
        return midnight, midnight + DAY
    if not text:
        raise bad_request("Date is required.")
    parts = text.split(",")
    if len(parts) != 2:
        raise bad_request("Date range must be two dates separated by a comma.")
    start, end = _instant(parts[0]), _instant(parts[1])
    if end < start:
        raise bad_request("Date range must not end before it starts.")
    if end - start > MAX_SPAN:
        raise bad_request(f"Date range can be at most {MAX_SPAN.days} days.")
    return int(start.timestamp()), int(end.timestamp()) + includes_end


def year(query: Mapping[str, str], offset: int) -> tuple[int, int]:
    """Read the 4 digits of `year` as Unix seconds, the end not included."""
    number = int(_text(query, "year", "(?!0000)[0-9]{4}", "Year is required as 4 digits."))
    return _whole_days(date(number, 1, 1), date(number, 12, 31), offset)


def country(query: Mapping[str, str], offset: int) -> tuple[str, tuple[int, int]]:
    """Read iso_code in upper case, and start_date and end_date as Unix seconds, the end not included."""
    code = _text(query, "iso_code", "[A-Za-z]{2}", "ISO code is required as 2 letters.")
    if not (query.get("start_date") and query.get("end_date")):
        raise bad_request("Date is required.")
    try:
        first, last = (msgspec.convert(query[name], date) for name in ("start_date", "end_date"))
    except msgspec.ValidationError:
        raise bad_request(DATE_FORMAT) from None
    if last < first:
        raise bad_request("End date must not be before start date.")
    return code.upper(), _whole_days(first, last, offset)


def _whole_days(first: date, last: date, offset: int) -> tuple[int, int]:
    """Return the Unix seconds from the first second of `first` to before the first one after `last`."""
    start, end = ((day.toordinal() - EPOCH) * DAY - offset for day in (first, last))
    return start, end + DAY
