"""Selectors of a query: a tag each, or batches of at most 100 slashtags that fit a request target."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct

from .._errors import InvalidRequestError
from .._records import ShortUrl
from .limits import MAX_KEYS, MAX_TARGET_BYTES
from .look_alikes import folded, look_alikes_together
from .made_batches import Link, LinkIds, MadeBatch, MadeBatches

S = TypeVar("S")

Key = str | ShortUrl
Keys = Iterable[Key] | AsyncIterable[Key]
ReportBadKey = Callable[[Key, InvalidRequestError], object]
#: Is called with a slashtag that looks like one in an earlier batch.
ReportLookAlike = Callable[[str], object]
#: Names of tags, or their links by name.
TagNames = Iterable[str] | Mapping[str, Iterable[ShortUrl]]

#: Batches of at most so many slashtags are requested one by one, which takes fewer requests.
FEW_KEYS = 3
#: Bytes that percent-encoding leaves as they are; any other becomes three.
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
#: The longest slashtag that is requested: a batch of one always fits.
MAX_SLASHTAG_BYTES = MAX_TARGET_BYTES // 2
#: Bytes of a request target reserved for parameters other than url_keys.
OTHER_PARAMETERS_BYTES = 400
#: What a short URL begins with, and no slashtag that is not a link's own.
_URL = re.compile("https?://", re.IGNORECASE)


class Selector(Struct, frozen=True):
    """Slashtags or tag of one request. See docs/service.md, Statistics: common selector.

    `link_ids` has the ids of the links of each slashtag, or of the tag, as far as they are known, and is
    empty if none is.
    """

    keys: tuple[str, ...] = ()
    tag: str | None = None
    link_ids: tuple[LinkIds, ...] = ()

    @classmethod
    def of(cls, links: Iterable[Link]) -> Selector:
        """Return the selector of slashtags and the ids of their links."""
        links = tuple(links)
        ids = tuple([ids for _, ids in links])
        return cls(keys=tuple([slashtag for slashtag, _ in links]), link_ids=ids if any(ids) else ())

    @property
    def names(self) -> tuple[str, ...]:
        """The slashtags, or the tag."""
        return self.keys if self.tag is None else (self.tag,)

    @property
    def links(self) -> tuple[Link, ...]:
        """The slashtags and the ids of their links; none for a tag."""
        if self.tag is not None:
            return ()
        return tuple(zip(self.keys, self.link_ids or ((),) * len(self.keys), strict=True))

    @property
    def shared(self) -> tuple[str, ...]:
        """The slashtags that several of the links have."""
        return tuple([slashtag for slashtag, ids in self.links if len(ids) > 1])

    def halves(self) -> list[Selector]:
        """Return the halves of a batch of at least two slashtags."""
        return [Selector.of(half) for half in halves(self.links)]

    def singles(self) -> list[Selector]:
        """Return a selector for each slashtag, or for the tag."""
        return [self] if len(self.names) == 1 else [Selector.of([link]) for link in self.links]

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
    tags: TagNames | None,
    batcher: Batcher,
    *,
    in_order: bool = False,
) -> Iterable[Selector]:
    """Return the checked selectors of a query, none for slashtags that are read asynchronously.

    `in_order`: slashtags come in the given order also where a job had batches in another one. Raises
    TypeError and InvalidRequestError.
    """
    if sum(selector is not None for selector in (keys, tag, tags)) != 1:
        raise TypeError("pass exactly one of keys=, tag= and tags=")
    check_iterable("keys", keys)
    check_iterable("tags", tags)
    if tag is not None:
        tags = (tag,)
    if isinstance(tags, Mapping):
        links_of = cast("Mapping[str, Iterable[ShortUrl]]", tags)
        return (
            Selector(tag=check_tag(name), link_ids=(tuple(sorted({link.id for link in links})),))
            for name, links in links_of.items()
        )
    if tags is not None:
        return (Selector(tag=name) for name in dict.fromkeys(map(check_tag, tags)))
    if keys is None or isinstance(keys, AsyncIterable):
        return ()
    keys = tuple(in_fixed_order(keys))
    if batcher.made_by_job is None and (plain := plain_batches(keys, batcher.max_keys_bytes)):
        return plain
    return batcher.batches(keys if in_order else look_alikes_together(keys), in_order=in_order)


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
    """Return the batches if no rule of `check_slashtag` can be broken, None if they need a Batcher.

    That is seen of all slashtags at once, joined: one by one would cost more than the request. They are str
    of unreserved characters only, none is empty, none looks like another, and together those of a batch are
    no longer than one may be.
    """
    try:
        data = ",".join(keys).encode()
    except (TypeError, UnicodeEncodeError):
        return None
    if data.translate(None, UNRESERVED + b",") or data.count(b",") >= max(1, len(keys)) or "" in keys:
        return None
    unique = tuple(dict.fromkeys(keys))
    if len({key.lower() for key in unique}) < len(unique):
        return None
    found = [Selector(keys=tuple(batch)) for batch in in_batches(unique)]
    most = min(max_keys_bytes, MAX_SLASHTAG_BYTES)
    return found if all(sum(map(len, each.keys)) + 3 * len(each.keys) <= most for each in found) else None


class Batcher:
    """Builder of batches of slashtags, in order and without repetitions.

    `max_keys_bytes` is the number of bytes available for url_keys in a request target. Slashtags that cannot
    be requested are passed to `report_bad_key`, those that look like one in an earlier batch to
    `report_look_alike`: the service may take both for one. `made_by_job` has the batches of a job, which are
    made again; None without a journal.
    """

    def __init__(
        self,
        max_keys_bytes: int,
        report_bad_key: ReportBadKey,
        made_by_job: MadeBatches | None = None,
        report_look_alike: ReportLookAlike | None = None,
    ) -> None:
        self.max_keys_bytes = max_keys_bytes
        self._report_bad_key = report_bad_key
        self.made_by_job = made_by_job
        self._report_look_alike = report_look_alike
        self._seen: set[str] = set()
        #: What slashtags of earlier batches look like.
        self._earlier: set[str] = set()
        self._batch: list[Link] = []
        self._size = 0

    def add(self, key: Key) -> Sequence[Selector]:
        """Take one slashtag, while others are still being read; return the batches that it completes."""
        for slashtag, ids in self._links([key]):
            if slashtag not in self._seen:
                self._seen.add(slashtag)
                return self._put((slashtag, ids))
        return ()

    def remainder(self, *, is_full: bool = False) -> Sequence[Selector]:
        """Return the remaining slashtags as the last batch, if any."""
        batch, self._batch, self._size = tuple(self._batch), [], 0
        if not batch:
            return ()
        if self.made_by_job is not None:
            self.made_by_job.add(MadeBatch(batch, is_full))
        return (self._selector(batch),)

    def _selector(self, batch: Sequence[Link]) -> Selector:
        """Return the selector of a batch; report slashtags that look like one in an earlier batch."""
        if self._report_look_alike is not None:
            for slashtag, _ in batch:
                if folded(slashtag) in self._earlier:
                    self._report_look_alike(slashtag)
            self._earlier.update(folded(slashtag) for slashtag, _ in batch)
        return Selector.of(batch)

    def batches(self, keys: Iterable[Key], *, in_order: bool = False) -> list[Selector]:
        """Return the batches of these slashtags; see `select`."""
        links, made = self._links(keys), self.made_by_job
        found: list[Selector] = []
        if made is not None and not in_order:
            again, links = made.arrange(links)
            found += map(self._selector, again)
        at = 0
        while at < len(links):
            again_here = made.begins(links, at) if made is not None and in_order else None
            if again_here is None:
                found += self._put(links[at])
                at += 1
            else:
                found += (*self.remainder(), self._selector(again_here))
                at += len(again_here)
        return [*found, *self.remainder()]

    def _links(self, keys: Iterable[Key]) -> list[Link]:
        """Return each slashtag once, with the ids of all its links."""
        ids: dict[str, set[int]] = {}
        for key in keys:
            try:
                of_slashtag = ids.setdefault(check_slashtag(key), set())
            except InvalidRequestError as error:
                self._report_bad_key(key, error)
            else:
                if isinstance(key, ShortUrl):
                    of_slashtag.add(key.id)
        return [(slashtag, tuple(sorted(found))) for slashtag, found in ids.items()]

    def _put(self, link: Link) -> Sequence[Selector]:
        """Add a link to the present batch; return that before if it was full.

        What looks like the link leaves the full batch with it, if that leaves others and fits the next one.
        """
        size = _size(link)
        if len(self._batch) < MAX_KEYS and self._size + size <= self.max_keys_bytes:
            self._batch.append(link)
            self._size += size
            return ()
        name = folded(link[0])
        together = [*(each for each in self._batch if folded(each[0]) == name), link]
        if len(together) > len(self._batch) or sum(map(_size, together)) > self.max_keys_bytes:
            together = [link]
        self._batch = [each for each in self._batch if each not in together]
        full = self.remainder(is_full=True)
        self._batch, self._size = together, sum(map(_size, together))
        return full


def _size(link: Link) -> int:
    """Return the bytes of a slashtag in a request target, with a comma as if it were encoded."""
    return encoded_size(link[0]) + 3


def in_batches(items: Sequence[S]) -> list[Sequence[S]]:
    """Split a sequence into parts of at most MAX_KEYS items."""
    return [items[n : n + MAX_KEYS] for n in range(0, len(items), MAX_KEYS)]


def halves(items: Sequence[S]) -> tuple[Sequence[S], Sequence[S]]:
    """Split a sequence of at least two items into halves."""
    middle = len(items) // 2
    return items[:middle], items[middle:]


def without(selectors: Iterable[Selector], keys: Container[str]) -> list[Selector]:
    """Return batches without some slashtags, and without those that are then empty."""
    left = [Selector.of(link for link in each.links if link[0] not in keys) for each in selectors]
    return [each for each in left if each.keys]


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
