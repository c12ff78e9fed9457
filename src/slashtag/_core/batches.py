"""Selectors of statistics requests: a tag, or slashtags in batches that fit a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .._errors import InvalidRequestError

MAX_KEYS = 100
MAX_TARGET_BYTES = 8_000

#: Bytes that percent-encoding leaves as they are; any other becomes three.
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


class Selector(Struct, frozen=True):
    """Slashtags or tag of one request. See docs/service.md, Statistics: common selector."""

    keys: tuple[str, ...] = ()
    tag: str | None = None

    def params(self) -> tuple[tuple[str, str], ...]:
        """Return the query parameter of the selector."""
        return (("tag", self.tag),) if self.tag is not None else (("url_keys", ",".join(self.keys)),)

    def __str__(self) -> str:
        if self.tag is not None:
            return f"tag {self.tag!r}"
        if len(self.keys) == 1:
            return f"slashtag {self.keys[0]!r}"
        return f"{len(self.keys)} slashtags from {self.keys[0]!r} to {self.keys[-1]!r}"


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


def by_activity(keys: Iterable[Any], changed_since: Mapping[str, int] | None) -> list[Any]:
    """Sort links so that those likely to have clicks are adjacent; slashtags keep their order.

    First the links whose `hits` differ most from those of an earlier listing, then those with most hits. The
    order affects only the number of requests of a per-link query, never its results.
    """
    before = changed_since or {}

    def rank(link: Any) -> tuple[int, int]:
        hits = getattr(link, "hits", None)
        if not isinstance(hits, int):
            return 0, 0
        return -abs(hits - before.get(link.slashtag, 0)) if before else 0, -hits

    return sorted(keys, key=rank)


def encoded_size(text: str) -> int:
    """Return the size of a percent-encoded text in bytes, an upper bound of what is sent."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"{text[:40]!r} has no UTF-8 form") from None
    return len(data) + 2 * len(data.translate(None, UNRESERVED))


class Batcher:
    """Builder of batches of at most 100 slashtags, in order and without repetitions.

    `max_keys_bytes` is the number of bytes available for url_keys in a request target.
    """

    def __init__(self, max_keys_bytes: int) -> None:
        self._max_keys_bytes = max_keys_bytes
        self._seen: set[str] = set()
        self._batch: list[str] = []
        self._size = 0

    def add(self, key: str) -> tuple[str, ...] | None:
        """Take one checked slashtag; return the batch that it completes, if any."""
        if key in self._seen:
            return None
        self._seen.add(key)
        # A comma after each slashtag takes three bytes if encoded.
        size = encoded_size(key) + 3
        full: tuple[str, ...] | None = None
        if len(self._batch) == MAX_KEYS or self._size + size > self._max_keys_bytes:
            full = self.remainder()
        self._batch.append(key)
        self._size += size
        return full

    def remainder(self) -> tuple[str, ...] | None:
        """Return the remaining slashtags as the last batch, if any."""
        batch = tuple(self._batch) or None
        self._batch = []
        self._size = 0
        return batch


def batches(keys: Iterable[str], max_keys_bytes: int = MAX_TARGET_BYTES) -> Iterator[tuple[str, ...]]:
    """Yield batches of checked slashtags, which concatenate to the keys without repetitions."""
    batcher = Batcher(max_keys_bytes)
    for key in keys:
        if full := batcher.add(key):
            yield full
    if last := batcher.remainder():
        yield last


def plain_batches(keys: Sequence[Any], max_keys_bytes: int) -> list[tuple[str, ...]] | None:
    """Return the batches if all slashtags are plain ASCII strings, None if they need `check_slashtag`.

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
