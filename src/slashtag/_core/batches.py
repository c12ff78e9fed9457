"""Selectors of a query: a tag each, or batches of at most 100 slashtags that fit a request target."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct

from .._errors import InvalidRequestError
from .._records import ShortUrl
from .checks import check_text
from .limits import MAX_KEYS

S = TypeVar("S")

Key = str | ShortUrl
Keys = Iterable[Key] | AsyncIterable[Key]
ReportBadKey = Callable[[Key, InvalidRequestError], object]
#: Names of tags, or their links by name.
TagNames = Iterable[str] | Mapping[str, Iterable[ShortUrl]]
#: Ids in ascending order, of several links if these share a slashtag; empty if not known.
LinkIds = tuple[int, ...]
#: A slashtag, and the ids of its links.
Link = tuple[str, LinkIds]

#: Bytes that percent-encoding leaves as they are; any other becomes three.
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
#: Bytes of a request target reserved for parameters other than url_keys.
OTHER_PARAMETERS_BYTES = 400


class Selector(Struct, frozen=True, gc=False):
    """Slashtags or tag of one request. See docs/service.md, Statistics: common selector.

    `url_keys` are slashtags as they are sent: joined by commas. `link_ids` has the ids of the links of each
    slashtag, or of the tag, as far as they are known, and is empty if none is.
    """

    url_keys: str = ""
    tag: str | None = None
    link_ids: tuple[LinkIds, ...] = ()

    @classmethod
    def of(cls, links: Iterable[Link]) -> Selector:
        """Return the selector of slashtags and the ids of their links."""
        links = tuple(links)
        ids = tuple([ids for _, ids in links])
        return cls(",".join([slashtag for slashtag, _ in links]), link_ids=ids if any(ids) else ())

    @property
    def keys(self) -> tuple[str, ...]:
        """The slashtags; none for a tag."""
        return tuple(self.url_keys.split(",")) if self.url_keys else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The slashtags, or the tag."""
        return self.keys if self.tag is None else (self.tag,)

    @property
    def links(self) -> tuple[Link, ...]:
        """The slashtags and the ids of their links; none for a tag."""
        keys = self.keys
        return tuple(zip(keys, self.link_ids or ((),) * len(keys), strict=True)) if keys else ()

    @property
    def shared(self) -> tuple[str, ...]:
        """The slashtags that several of the links have."""
        # Mostly none: that is known without taking the slashtags apart, for each request.
        if max(map(len, self.link_ids), default=0) < 2:
            return ()
        return tuple([slashtag for slashtag, ids in self.links if len(ids) > 1])

    def halves(self) -> list[Selector]:
        """Return the halves of a batch of at least two slashtags."""
        return [Selector.of(half) for half in halves(self.links)]

    def singles(self) -> list[Selector]:
        """Return a selector for each slashtag, or for the tag."""
        return [self] if len(self.names) == 1 else [Selector.of([link]) for link in self.links]

    def apart(self, keys: set[str]) -> list[Selector]:
        """Return the batch without some slashtags, and a selector for each of these, if it has any.

        Nothing has to be taken apart of a single slashtag, or of a tag.
        """
        if not keys or len(self.names) == 1 or keys.isdisjoint(self.keys):
            return []
        alone = [each for each in self.singles() if each.keys[0] in keys]
        others = [link for link in self.links if link[0] not in keys]
        return [Selector.of(others), *alone] if others else alone

    def params(self) -> tuple[tuple[str, str], ...]:
        """Return the query parameter of the selector."""
        return (("tag", self.tag),) if self.tag is not None else (("url_keys", self.url_keys),)

    def __str__(self) -> str:
        if self.tag is not None:
            return f"tag {self.tag!r}"
        keys = self.keys
        if len(keys) == 1:
            return f"slashtag {keys[0]!r}"
        return f"{len(keys)} slashtags from {keys[0]!r} to {keys[-1]!r}"


def select(
    keys: Iterable[Key] | None,
    tag: str | None,
    tags: TagNames | None,
    max_keys_bytes: int,
    report_bad_key: ReportBadKey,
) -> list[Selector]:
    """Return the checked selectors of a query.

    `max_keys_bytes` is the number of bytes available for url_keys in a request target. Slashtags that cannot
    be requested are passed to `report_bad_key`. Raises InvalidRequestError.
    """
    if tag is not None:
        tags = (tag,)
    if tags is None:
        given = in_fixed_order(() if keys is None else keys)
        return _batches(given if isinstance(given, list) else tuple(given), max_keys_bytes, report_bad_key)
    if isinstance(tags, Mapping):
        links_of = cast("Mapping[str, Iterable[ShortUrl]]", tags)
        return [
            Selector(tag=check_tag(name), link_ids=(tuple(sorted({link.id for link in links})),))
            for name, links in links_of.items()
        ]
    return [Selector(tag=name) for name in dict.fromkeys(map(check_tag, tags))]


def check_selector(least: int, **selectors: object) -> None:
    """Raise TypeError for several selectors, fewer than `least`, and a text instead of several."""
    if not least <= len([given for given in selectors.values() if given is not None]) <= 1:
        raise TypeError(f"pass {'exactly' if least else 'at most'} one of {', '.join(selectors)}")
    for name in ("keys", "tags"):
        # It is an iterable of its characters.
        if isinstance(given := selectors[name], str | bytes):
            raise TypeError(f"{name} takes an iterable, not one {type(given).__name__}: {name}=[...]")


def in_fixed_order(keys: Iterable[Key]) -> Iterable[Key]:
    """Sort a set, whose order differs from process to process, by slashtag; return others as they are."""
    if isinstance(keys, set | frozenset):
        return sorted(keys, key=lambda key: str(getattr(key, "slashtag", key)))
    return keys


def _batches(keys: Sequence[Any], max_keys_bytes: int, report_bad_key: ReportBadKey) -> list[Selector]:
    """Return batches of slashtags, each once, with the ids of all its links.

    Mostly none is bad or comes twice. That is seen of whole batches: one by one it would cost as much as the
    requests.
    """
    are_links = keys and isinstance(keys[0], ShortUrl)
    try:
        slashtags = [key.slashtag for key in keys] if are_links else keys
        ids = [(key.id,) for key in keys] if are_links else []
        unique = set(slashtags)
        if len(unique) == len(slashtags) and "" not in unique:
            return [*_joined(slashtags, ids, max_keys_bytes)]
    except (TypeError, AttributeError, ValueError):
        pass
    found = dict[str, LinkIds]()
    for key in tuple(keys):  # a copy: what is told of a bad key may change what was given
        try:
            slashtag = check_slashtag(key)
        except InvalidRequestError as error:
            report_bad_key(key, error)
            continue
        own = (key.id,) if isinstance(key, ShortUrl) else ()
        found[slashtag] = tuple(sorted({*found[slashtag], *own})) if slashtag in found else own
    return [*_joined([*found], [*found.values()], max_keys_bytes, report_bad_key)]


def _joined(
    slashtags: Sequence[str],
    ids: Sequence[LinkIds],
    max_keys_bytes: int,
    report_bad_key: ReportBadKey | None = None,
) -> Iterator[Selector]:
    """Yield batches that fit.

    Without `report_bad_key` slashtags may be bad: raises ValueError if one is too long, or has a sign that
    may break a rule of `check_slashtag`.
    """
    start, size = 0, MAX_KEYS
    while start < len(slashtags):
        several = slashtags[start : start + size]
        text = ",".join(several)
        has_sign = text.count(",") >= len(several) or ":" in text or "\r" in text or "\n" in text
        if report_bad_key is None and has_sign:
            raise ValueError
        # A byte takes three at most as it is sent: mostly that is enough to know that they fit.
        if 3 * len(text.encode()) <= max_keys_bytes or encoded_size(text) <= max_keys_bytes:
            link_ids = tuple(ids[start : start + size])
            yield Selector(text, link_ids=link_ids if any(link_ids) else ())
        elif size > 1:
            size //= 2
            continue
        elif report_bad_key is None:
            raise ValueError
        else:
            report_bad_key(text, InvalidRequestError(f"the slashtag {text[:40]!r}... is too long to send"))
        start, size = start + size, MAX_KEYS


def halves(items: Sequence[S]) -> tuple[Sequence[S], Sequence[S]]:
    """Split a sequence of at least two items into halves."""
    middle = len(items) // 2
    return items[:middle], items[middle:]


def check_tag(name: object) -> str:
    """Return the name of a tag, or raise InvalidRequestError if it cannot be requested."""
    return check_text("the name of a tag", name, None)


def check_slashtag(key: object) -> str:
    """Return the slashtag of a str or a link, or raise InvalidRequestError if it cannot be requested."""
    slashtag = key if isinstance(key, str) else getattr(key, "slashtag", None)
    if isinstance(key, ShortUrl) and slashtag is None:
        raise InvalidRequestError(f"the slashtag of the link {key.id} could not be read")
    if not isinstance(slashtag, str):
        raise TypeError(f"keys must be slashtags or ShortUrls, not {type(key).__name__}")
    if key is slashtag:  # not that of a link: the service would count nothing, without a word
        if slashtag.lower().startswith(("http://", "https://")):
            raise InvalidRequestError(f"{slashtag!r} is a URL: pass the slashtag")
        if slashtag != slashtag.strip("\r\n"):
            raise InvalidRequestError(f"the slashtag {slashtag!r} ends with a line break")
    if "," in slashtag:
        raise InvalidRequestError(
            f"the slashtag {slashtag!r} contains a comma, which separates slashtags in url_keys"
        )
    return check_text("a slashtag", slashtag, None)


def encoded_size(text: str) -> int:
    """Return the size of a percent-encoded text in bytes, an upper bound of what is sent."""
    data = text.encode()
    return len(data) + 2 * len(data.translate(None, UNRESERVED))
