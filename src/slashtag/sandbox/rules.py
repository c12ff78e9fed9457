"""Validation of requests: pure functions from texts to values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

REDIRECT_CODES = (301, 302, 303, 304, 307, 308)
MAX_KEYS = 100
MAX_SPAN = timedelta(days=32)
MAX_PAGESIZE = 500

_NUMBER = re.compile(r"[0-9]{1,100}")
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
# Not 24:00, which datetime.fromisoformat reads since Python 3.14.
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")

DATE_FORMAT = "Date format is incorrect. Please provide date in ISO 8601 format."


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
class Listing:
    """Parameters of a listing; `page` counts from 1."""

    page: int
    pagesize: int
    latest_first: bool

    @property
    def offset(self) -> int:
        """Number of records before the page, as far as SQLite can count."""
        return min((self.page - 1) * self.pagesize, 2**63 - 1)


def listing(query: Mapping[str, str], max_pagesize: int) -> Listing:
    """Read page, pagesize and orderby. See docs/service.md, List short URLs."""
    page, pagesize = query.get("page", "1"), query.get("pagesize", "50")
    if not _NUMBER.fullmatch(page) or int(page) < 1:
        raise bad_request("Page must be a positive integer.")
    if not _NUMBER.fullmatch(pagesize) or not 1 <= int(pagesize) <= MAX_PAGESIZE:
        raise bad_request(f"Page size must be an integer from 1 to {MAX_PAGESIZE}.")
    order = query.get("orderby", "-date")
    if order not in ("date", "-date"):
        raise bad_request("Order must be date or -date.")
    return Listing(int(page), min(int(pagesize), max_pagesize), order == "-date")


def selector(query: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """Return the tag or the slashtags, in order. See docs/service.md, Statistics: common selector."""
    tag = query.get("tag", "")
    keys = [key for key in query.get("url_keys", "").split(",") if key]
    if not tag and not keys:
        raise bad_request("Tag and URL keys both can not be empty.")
    if tag and keys:
        raise bad_request("Either tag or URL keys can be given, not both.")
    if len(keys) > MAX_KEYS:
        raise bad_request(f"At most {MAX_KEYS} URL keys are allowed.")
    return tag or None, keys


def offset(query: Mapping[str, str]) -> int:
    """Read `timezone` as seconds east of UTC; 0 where it is absent."""
    text = query.get("timezone", "+00:00")
    match = _OFFSET.fullmatch(text)
    if not match or int(match[2]) > 23 or int(match[3]) > 59:
        raise bad_request("Timezone format is incorrect. Please provide timezone as +HH:MM or -HH:MM.")
    seconds = int(match[2]) * 3600 + int(match[3]) * 60
    return -seconds if match[1] == "-" else seconds


def _instant(text: str) -> datetime:
    try:
        if _INSTANT.fullmatch(text):
            instant = datetime.fromisoformat(text)
            instant.astimezone(UTC)
            return instant
    except (ValueError, OverflowError):
        pass
    raise bad_request(DATE_FORMAT)


def instants(
    query: Mapping[str, str],
    range_end: Literal["inclusive", "exclusive"],
    range_span: Literal["elapsed", "dates"],
) -> tuple[int, int] | None:
    """Read `date` or `date_range` as Unix seconds, the end not included; None where both are absent.

    A `date` stands for its whole day in its own offset.
    """
    if text := query.get("date"):
        if query.get("date_range"):
            raise bad_request("Either date or date range can be given, not both.")
        midnight = _instant(text).replace(hour=0, minute=0, second=0)
        return int(midnight.timestamp()), int(midnight.timestamp()) + 86_400
    if not (text := query.get("date_range")):
        return None
    parts = text.split(",")
    if len(parts) != 2:
        raise bad_request("Date range must be two dates separated by a comma.")
    start, end = _instant(parts[0]), _instant(parts[1])
    if end < start:
        raise bad_request("Date range must not end before it starts.")
    dates = (
        end if range_end == "inclusive" or end == start else end - timedelta(seconds=1)
    ).date() - start.date()
    if end - start > MAX_SPAN or (range_span == "dates" and dates >= MAX_SPAN):
        raise bad_request(f"Date range can be at most {MAX_SPAN.days} days.")
    return int(start.timestamp()), int(end.timestamp()) + (range_end == "inclusive")


def year(query: Mapping[str, str]) -> int:
    """Read the 4 digits of `year`."""
    text = query.get("year", "")
    if not re.fullmatch(r"[0-9]{4}", text) or int(text) < 1:
        raise bad_request("Year is required as 4 digits.")
    return int(text)


def country_days(query: Mapping[str, str]) -> tuple[str, date, date]:
    """Read iso_code in upper case, start_date and end_date (both included)."""
    code = query.get("iso_code", "")
    if not re.fullmatch(r"[A-Za-z]{2}", code):
        raise bad_request("ISO code is required as 2 letters.")
    days: list[date] = []
    for name in ("start_date", "end_date"):
        if not query.get(name):
            raise bad_request("Date is required.")
        try:
            if not _DATE.fullmatch(query[name]):
                raise ValueError
            days.append(date.fromisoformat(query[name]))
        except ValueError:
            raise bad_request(DATE_FORMAT) from None
    if days[1] < days[0]:
        raise bad_request("End date must not be before start date.")
    return code.upper(), days[0], days[1]


def _text(body: Mapping[str, object], name: str, longest: int | None, *, empty: bool = False) -> str | None:
    """Read a text member of a body; None where it is absent."""
    if name not in body:
        return None
    value = body[name]
    if not isinstance(value, str) or not (value or empty):
        raise bad_request(f"{name} must be a {'' if empty else 'non-empty '}string.")
    if longest is not None and len(value) > longest:
        raise bad_request(f"{name} can be at most {longest} characters.")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """Members of an update; None for an omitted one."""

    destination: str | None
    slashtag: str | None
    redirect_code: int | None
    password: str | None
    domain: int | None


def update(body: Mapping[str, object]) -> Update:
    """Read the body of an update. See docs/service.md, Update a short URL."""
    destination = _text(body, "destination", None)
    if destination is not None and not _URL.fullmatch(destination):
        raise bad_request("destination must be a URL.")
    numbers: dict[str, int | None] = {"redirect_code": None, "domain_id": None}
    for name in numbers.keys() & body.keys():
        value = body[name]
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(f"{name} must be an integer.")
        numbers[name] = value
    if numbers["redirect_code"] not in (None, *REDIRECT_CODES):
        raise bad_request(f"redirect_code must be one of {', '.join(map(str, REDIRECT_CODES))}.")
    return Update(
        destination=destination,
        slashtag=_text(body, "slashtag", 100),
        redirect_code=numbers["redirect_code"],
        password=_text(body, "password", 50, empty=True),
        domain=numbers["domain_id"],
    )


def new_tag(body: Mapping[str, object]) -> tuple[str, str]:
    """Read name and description (empty where absent) of a new tag. See docs/service.md, Create a tag."""
    name = _text(body, "name", 25)
    if name is None:
        raise bad_request("name is required.")
    return name, _text(body, "description", 255, empty=True) or ""
