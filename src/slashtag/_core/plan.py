"""Plans: a query's time slices combined with its selectors, which are tags or batches of slashtags."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._errors import InvalidRequestError
from .._models import ShortUrl, Statistics
from .._show import plan_html
from .call import UNRESERVED, Call
from .queries import Query, Selector, TimeSlice
from .windows import Zone, parse_zone

R_co = TypeVar("R_co", covariant=True, bound=Statistics)

Key = str | ShortUrl
Keys = Iterable[Key] | AsyncIterable[Key]
ReportBadKey = Callable[[Key, InvalidRequestError], object]

MAX_KEYS = 100
MAX_TARGET_BYTES = 8_000
#: Bytes of a request target reserved for parameters other than url_keys.
OTHER_PARAMETERS_BYTES = 400


class StatsRequest(Struct, frozen=True, gc=False):
    """One request of a query: one selector, one time slice, and the call for them."""

    selector: Selector
    time_slice: TimeSlice
    call: Call[Any]


class Plan(Struct, Generic[R_co], frozen=True):
    """Requests of a query: each selector with each time slice, restricted to the range [start, stop).

    `len(plan)` is the number of requests if none is halved or retried. `span` is the first and the last date
    of the result's days, None for a query without days.
    """

    query: Query[R_co]
    selectors: tuple[Selector, ...]
    time_slices: tuple[TimeSlice, ...]
    span: tuple[date, date] | None
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"<Plan of {len(self):,} requests: {self.query!r}>"

    def _repr_html_(self) -> str:
        return plan_html(self.query, len(self), self.span)

    def requests(self) -> Iterator[StatsRequest]:
        """Yield the requests, grouped by selector."""
        width = len(self.time_slices)
        for n in range(self.start, self.stop):
            yield self.request(self.selectors[n // width], self.time_slices[n % width])

    def request(self, selector: Selector, time_slice: TimeSlice) -> StatsRequest:
        """Return the request for one selector and one time slice."""
        return StatsRequest(selector, time_slice, self.query.call(selector, time_slice))

    def calls(self) -> Iterator[Call[Any]]:
        """Yield the API calls."""
        for request in self.requests():
            yield request.call

    def split(self, n: int) -> list[Plan[R_co]]:
        """Split into `n` plans of about equal length whose results add up to the result of this plan."""
        if n < 1:
            raise InvalidRequestError(f"a plan cannot be split into {n} parts")
        cuts = [self.start + len(self) * i // n for i in range(n + 1)]
        return [self._part(a, b) for a, b in pairwise(cuts)]

    def _part(self, start: int, stop: int) -> Plan[R_co]:
        """Return a plan with some of the requests, and only the selectors that it needs."""
        width = max(1, len(self.time_slices))
        first = start // width
        selectors, skipped = self.selectors[first : -(-stop // width)], first * width
        return replace(self, selectors=selectors, start=start - skipped, stop=stop - skipped)


def make_plan(
    query: Query[R_co],
    selectors: Iterable[Selector],
    timezone: Zone,
    now: datetime,
    range_end: str,
) -> Plan[R_co]:
    """Resolve a query, split it along time, and combine each time slice with each selector."""
    given: object = query
    if not isinstance(given, Query):
        kinds = "DateRange, Day, Year, AllTime or CountryGeo"
        raise InvalidRequestError(f"a query is a {kinds}, not {given!r}")
    zone = parse_zone(timezone)
    query = query.resolve(zone, now)
    selectors = tuple(selectors)
    slices = tuple(query.time_slices(zone, now, range_end))
    return Plan(query, selectors, slices, query.span(zone), 0, len(selectors) * len(slices))


def select(
    keys: Keys | None,
    tag: str | None,
    tags: Iterable[str] | None,
    max_keys_bytes: int,
    report_bad_key: ReportBadKey,
) -> Iterator[Selector]:
    """Return the checked selectors of a query, none for slashtags that are read asynchronously.

    A link whose slashtag cannot be requested goes to `report_bad_key`. Raises TypeError and
    InvalidRequestError.
    """
    if sum(selector is not None for selector in (keys, tag, tags)) != 1:
        raise TypeError("pass exactly one of keys=, tag= and tags=")
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys= takes an iterable of slashtags, not one {type(keys).__name__}: keys=[...]")
    if isinstance(tags, str | bytes):
        raise TypeError(f"tags= takes an iterable of names, not one {type(tags).__name__}: tag=...")
    if tag is not None:
        tags = (tag,)
    if tags is not None:
        return (Selector(tag=name) for name in dict.fromkeys(map(check_tag, tags)))
    if keys is None or isinstance(keys, AsyncIterable):
        return iter(())
    keys = tuple(keys)
    found = plain_batches(keys, max_keys_bytes) or batches(keys, max_keys_bytes, report_bad_key)
    return (Selector(keys=batch) for batch in found)


def plain_batches(keys: Sequence[Any], max_keys_bytes: int) -> list[tuple[str, ...]] | None:
    """Return the batches if all slashtags are plain ASCII strings, None if they need `batches`.

    Checks all slashtags at once, joined: one by one would cost more than the request.
    """
    try:
        if not ",".join(keys).isascii():
            return None
    except TypeError:
        return None
    unique = tuple(dict.fromkeys(keys))
    found = [unique[n : n + MAX_KEYS] for n in range(0, len(unique), MAX_KEYS)]
    for batch in found:
        joined = ",".join(batch)
        if joined.count(",") != len(batch) - 1 or "" in batch:
            return None
        # An ASCII character encodes to at most 3 bytes.
        is_long = 3 * len(joined) + 3 > max_keys_bytes and encoded_size(joined) + 3 > max_keys_bytes
        if is_long or len(max(batch, key=len)) > MAX_TARGET_BYTES // 6:
            return None
    return found


def batches(
    keys: Iterable[Key], max_keys_bytes: int, report_bad_key: ReportBadKey
) -> Iterator[tuple[str, ...]]:
    """Yield batches of slashtags, which concatenate to the slashtags without repetitions."""
    batcher = Batcher(max_keys_bytes)
    for key in keys:
        try:
            full = batcher.add(key)
        except InvalidRequestError as error:
            if isinstance(key, str):
                raise
            report_bad_key(key, error)
            continue
        if full:
            yield full
    if last := batcher.remainder():
        yield last


class Batcher:
    """Builder of batches of at most 100 slashtags, in order and without repetitions.

    `max_keys_bytes` is the number of bytes available for url_keys in a request target.
    """

    def __init__(self, max_keys_bytes: int) -> None:
        self._max_keys_bytes = max_keys_bytes
        self._seen: set[str] = set()
        self._batch: list[str] = []
        self._size = 0

    def add(self, key: Key) -> tuple[str, ...] | None:
        """Take one slashtag; return the batch that it completes, if any. Raises InvalidRequestError."""
        slashtag = check_slashtag(key)
        if slashtag in self._seen:
            return None
        self._seen.add(slashtag)
        # A comma after each slashtag takes three bytes if encoded.
        size = encoded_size(slashtag) + 3
        full: tuple[str, ...] | None = None
        if len(self._batch) == MAX_KEYS or self._size + size > self._max_keys_bytes:
            full = self.remainder()
        self._batch.append(slashtag)
        self._size += size
        return full

    def remainder(self) -> tuple[str, ...] | None:
        """Return the remaining slashtags as the last batch, if any."""
        batch = tuple(self._batch) or None
        self._batch = []
        self._size = 0
        return batch


def check_tag(name: object) -> str:
    """Return the name of a tag, or raise InvalidRequestError if it cannot be requested."""
    if not isinstance(name, str):
        raise TypeError(f"a tag must be a str, not {type(name).__name__}")
    if not name:
        raise InvalidRequestError("a tag name must not be empty")
    encoded_size(name)
    return name


def check_slashtag(key: object) -> str:
    """Return the slashtag of a str or a link, or raise InvalidRequestError if it cannot be requested."""
    slashtag = key if isinstance(key, str) else getattr(key, "slashtag", None)
    if not isinstance(slashtag, str):
        raise TypeError(f"keys must be slashtags or ShortUrls, not {type(key).__name__}")
    if not slashtag:
        raise InvalidRequestError("a slashtag must not be empty")
    if "," in slashtag:
        raise InvalidRequestError(
            f"the slashtag {slashtag!r} contains a comma, which url_keys uses to separate slashtags"
        )
    if encoded_size(slashtag) > MAX_TARGET_BYTES // 2:
        raise InvalidRequestError(f"the slashtag {slashtag[:40]!r}... is too long for a request target")
    return slashtag


def encoded_size(text: str) -> int:
    """Return the size of a percent-encoded text in bytes, an upper bound of what is sent."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"{text[:40]!r} has no UTF-8 form") from None
    return len(data) + 2 * len(data.translate(None, UNRESERVED))
