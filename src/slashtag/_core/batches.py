"""Selectors of a query: a tag each, or batches of at most 100 slashtags that fit a request target."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from itertools import chain
from math import inf
from typing import Any, TypeVar

from msgspec import Struct

from .._errors import InvalidRequestError
from .._records import ShortUrl
from .call import UNRESERVED

S = TypeVar("S")

Key = str | ShortUrl
Keys = Iterable[Key] | AsyncIterable[Key]
ReportBadKey = Callable[[Key, InvalidRequestError], object]
#: Is called with a slashtag that looks like one in an earlier batch.
ReportLookAlike = Callable[[str], object]
#: A slashtag, and the id of its link if that is known.
KeyAndId = tuple[str, int | None]

MAX_KEYS = 100
#: Not documented: many servers and proxies refuse a request line of more than 8 KiB.
MAX_TARGET_BYTES = 8_000
#: The longest slashtag that is requested: a batch of one always fits.
MAX_SLASHTAG_BYTES = MAX_TARGET_BYTES // 2
#: Bytes of a request target reserved for parameters other than url_keys.
OTHER_PARAMETERS_BYTES = 400
#: What a short URL begins with, and no slashtag that is not a link's own.
_URL = re.compile("https?://", re.IGNORECASE)


class Selector(Struct, frozen=True):
    """Slashtags or tag of one request. See docs/service.md, Statistics: common selector."""

    keys: tuple[str, ...] = ()
    tag: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The slashtags, or the tag."""
        return self.keys if self.tag is None else (self.tag,)

    def singles(self) -> list[Selector]:
        """Return a selector for each slashtag, or for the tag."""
        return [self] if len(self.names) == 1 else [Selector(keys=(key,)) for key in self.keys]

    def params(self) -> tuple[tuple[str, str], ...]:
        """Return the query parameter of the selector."""
        return (("tag", self.tag),) if self.tag is not None else (("url_keys", ",".join(self.keys)),)

    def __str__(self) -> str:
        if self.tag is not None:
            return f"tag {self.tag!r}"
        if len(self.keys) == 1:
            return f"slashtag {self.keys[0]!r}"
        return f"{len(self.keys)} slashtags from {self.keys[0]!r} to {self.keys[-1]!r}"


def select(
    keys: Keys | None,
    tag: str | None,
    tags: Iterable[str] | None,
    batcher: Batcher,
    *,
    keep_earlier_order: bool = True,
) -> Iterable[Selector]:
    """Return the checked selectors of a query, none for slashtags that are read asynchronously.

    With `keep_earlier_order` slashtags come as they did in an earlier run of a job. Raises TypeError and
    InvalidRequestError.
    """
    if sum(selector is not None for selector in (keys, tag, tags)) != 1:
        raise TypeError("pass exactly one of keys=, tag= and tags=")
    check_iterable("keys", keys)
    check_iterable("tags", tags)
    if tag is not None:
        tags = (tag,)
    if tags is not None:
        return (Selector(tag=name) for name in dict.fromkeys(map(check_tag, tags)))
    if keys is None or isinstance(keys, AsyncIterable):
        return ()
    keys = tuple(in_fixed_order(keys))
    if batcher.kept_order is None and (plain := plain_batches(keys, batcher.max_keys_bytes)):
        return plain
    if batcher.kept_order is not None and keep_earlier_order:
        keys = tuple(batcher.kept_order.arrange(keys))
    return batcher.batches(look_alikes_together(keys))


def check_iterable(name: str, given: object) -> None:
    """Raise TypeError for a text, which is an iterable of its characters."""
    if isinstance(given, str | bytes):
        raise TypeError(f"{name} takes an iterable, not one {type(given).__name__}: {name}=[...]")


def in_fixed_order(keys: Iterable[Key]) -> Iterable[Key]:
    """Sort a set, whose order differs from process to process, by slashtag; return others as they are."""
    if isinstance(keys, set | frozenset):
        return sorted(keys, key=lambda key: str(getattr(key, "slashtag", key)))
    return keys


def plain_batches(keys: Sequence[Any], max_keys_bytes: int) -> list[Selector] | None:
    """Return the batches if all slashtags are plain ASCII strings, None if they need a Batcher.

    Checks all slashtags at once, joined: one by one would cost more than the request.
    """
    try:
        if not ",".join(keys).isascii():
            return None
    except TypeError:
        return None
    unique = tuple(dict.fromkeys(keys))
    if len({key.lower() for key in unique}) < len(unique):
        return None
    found = [unique[n : n + MAX_KEYS] for n in range(0, len(unique), MAX_KEYS)]
    for batch in found:
        joined = ",".join(batch)
        has_comma = joined.count(",") != len(batch) - 1
        if has_comma or "" in batch or ("://" in joined and any(map(_URL.match, batch))):
            return None
        # An ASCII character encodes to at most 3 bytes, and so would a comma after the last.
        # The cheap bound first.
        is_long = 3 * len(joined) + 3 > max_keys_bytes and encoded_size(joined) + 3 > max_keys_bytes
        if is_long or 3 * len(max(batch, key=len)) > MAX_SLASHTAG_BYTES:
            return None
    return [Selector(keys=batch) for batch in found]


class KeptOrder:
    """Batches of an earlier run, so that a rerun makes them again although links have changed meanwhile.

    A batch begins where one began before, and ends where that ended. So links that were added or removed
    change only the batches that they are in. `keep` is called with each batch that is not as it was.
    """

    def __init__(
        self, batches: Iterable[Sequence[KeyAndId]], keep: Callable[[Sequence[KeyAndId]], object]
    ) -> None:
        self._keep = keep
        # A later batch replaces those that had its slashtags before.
        self._batch_of = {slashtag: batch for batch in batches for slashtag, _ in batch}
        self._rank: dict[str, int] = {}
        for batch in {id(batch): batch for batch in self._batch_of.values()}.values():
            for slashtag, _ in batch:
                if self._batch_of[slashtag] is batch:
                    self._rank[slashtag] = len(self._rank)
        #: By the first slashtag of a batch: its last one.
        self.last_of = {key: batch[-1][0] for key, batch in self._batch_of.items() if batch[0][0] == key}

    def arrange(self, keys: Iterable[Any]) -> list[Any]:
        """Return keys in the order that they had; those that are new come last, in the given order."""
        return sorted(keys, key=lambda key: self._rank.get(str(getattr(key, "slashtag", key)), inf))

    def take(self, batch: Sequence[KeyAndId]) -> None:
        """Keep a batch unless it is as before."""
        if self._batch_of.get(batch[0][0]) != batch:
            self._keep(batch)


class Batcher:
    """Builder of batches of slashtags, in order and without repetitions.

    `max_keys_bytes` is the number of bytes available for url_keys in a request target. Slashtags that cannot
    be requested are passed to `report_bad_key`, those that look like one in an earlier batch to
    `report_look_alike`: the service may take both for one. With a `kept_order` batches begin and end as they
    did before.
    """

    def __init__(
        self,
        max_keys_bytes: int,
        report_bad_key: ReportBadKey,
        kept_order: KeptOrder | None = None,
        report_look_alike: ReportLookAlike = lambda slashtag: None,
    ) -> None:
        self.max_keys_bytes = max_keys_bytes
        self._report_bad_key = report_bad_key
        self.kept_order = kept_order
        self._last_of = {} if kept_order is None else kept_order.last_of
        self._report_look_alike = report_look_alike
        self._seen: set[str] = set()
        #: What slashtags of earlier batches look like.
        self._earlier: set[str] = set()
        self._batch: list[KeyAndId] = []
        self._size = 0

    def add(self, key: Key) -> Sequence[Selector]:
        """Take one slashtag; return the batches that it completes."""
        try:
            slashtag = check_slashtag(key)
        except InvalidRequestError as error:
            self._report_bad_key(key, error)
            return ()
        if slashtag in self._seen:
            return ()
        self._seen.add(slashtag)
        # With a comma, as if it were encoded: an upper bound.
        size = encoded_size(slashtag) + 3
        is_full = len(self._batch) == MAX_KEYS or self._size + size > self.max_keys_bytes
        alike = self._take_look_alikes(slashtag, size) if is_full else []
        full = self.remainder() if is_full or slashtag in self._last_of else ()
        self._batch += alike
        self._size += sum(encoded_size(key) + 3 for key, _ in alike)
        self._batch.append((slashtag, getattr(key, "id", None)))
        self._size += size
        if self._last_of.get(self._batch[0][0]) == slashtag:
            full = (*full, *self.remainder())
        return full

    def batches(self, keys: Iterable[Key]) -> list[Selector]:
        """Return the batches of these slashtags."""
        return [*chain.from_iterable(map(self.add, keys)), *self.remainder()]

    def remainder(self) -> Sequence[Selector]:
        """Return the remaining slashtags as the last batch, if any."""
        batch, self._batch, self._size = self._batch, [], 0
        if self.kept_order is not None and batch:
            self.kept_order.take(batch)
        slashtags = tuple([slashtag for slashtag, _ in batch])
        self._check_look_alikes(slashtags)
        return [Selector(keys=slashtags)] if batch else ()

    def _take_look_alikes(self, slashtag: str, size: int) -> list[KeyAndId]:
        """Take what looks like the next slashtag, of so many bytes, out of a full batch, for the next one."""
        name = folded(slashtag)
        alike = [item for item in self._batch if folded(item[0]) == name]
        size += sum(encoded_size(key) + 3 for key, _ in alike)
        if len(alike) == len(self._batch) or size > self.max_keys_bytes:
            return []
        self._batch = [item for item in self._batch if item not in alike]
        return alike

    def _check_look_alikes(self, slashtags: Sequence[str]) -> None:
        """Report those of a batch that look like one in an earlier batch."""
        names = list(map(folded, slashtags))
        for name, slashtag in zip(names, slashtags, strict=True):
            if name in self._earlier:
                self._report_look_alike(slashtag)
        self._earlier.update(names)


def look_alikes(keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Group slashtags that differ only in case, accents or normal form: the service may take them for one."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(folded(key), []).append(key)
    return list(map(tuple, groups.values()))


def look_alikes_together(keys: Iterable[Key]) -> Iterable[Key]:
    """Move each slashtag to the first that looks like it: in two batches both may be counted twice.

    The service may take them for one. What has no slashtag keeps its place.
    """
    groups: dict[object, list[Key]] = {}
    for n, key in enumerate(keys):
        slashtag = getattr(key, "slashtag", key)
        groups.setdefault(folded(slashtag) if isinstance(slashtag, str) else n, []).append(key)
    return chain.from_iterable(groups.values())


def folded(slashtag: str) -> str:
    """Return a slashtag without case, accents and compatibility forms."""
    if slashtag.isascii():
        return slashtag.lower()
    parts = unicodedata.normalize("NFKD", slashtag.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()


def halves(items: Sequence[S]) -> tuple[Sequence[S], Sequence[S]]:
    """Split a sequence of at least two items into halves."""
    middle = len(items) // 2
    return items[:middle], items[middle:]


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
    if isinstance(key, ShortUrl) and slashtag is None:
        raise InvalidRequestError(f"the slashtag of the link {key.id} could not be read")
    if not isinstance(slashtag, str):
        raise TypeError(f"keys must be slashtags or ShortUrls, not {type(key).__name__}")
    # The service would count nothing, without a word.
    if key is slashtag and _URL.match(slashtag):
        raise InvalidRequestError(
            f"{slashtag!r} is a URL: pass the slashtag, which `session.urls.find` gives too"
        )
    if not slashtag:
        raise InvalidRequestError("a slashtag must not be empty")
    if "," in slashtag:
        raise InvalidRequestError(
            f"the slashtag {slashtag!r} contains a comma, which url_keys uses to separate slashtags"
        )
    if encoded_size(slashtag) > MAX_SLASHTAG_BYTES:
        raise InvalidRequestError(f"the slashtag {slashtag[:40]!r}... is too long for a request target")
    return slashtag


def encoded_size(text: str) -> int:
    """Return the size of a percent-encoded text in bytes, an upper bound of what is sent."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"{text[:40]!r} has no UTF-8 form") from None
    return len(data) + 2 * len(data.translate(None, UNRESERVED))
