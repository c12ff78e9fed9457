"""The links or tags that an export or a report is about, and slashtags that several links share."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Literal

from .. import AsyncSession, InvalidRequestError, Keys, Progress, ShortUrl
from .._internal import check_slashtag, did_you_mean

By = Literal["slashtag", "tag"]


class Sharing:
    """Slashtags that several links have, whose clicks the service counts together.

    `repeated` slashtags are shared by several selected links, `foreign` ones are also used by a link that is
    not selected.
    """

    def __init__(self) -> None:
        self._selected: set[str] = set()
        self._others: set[str] = set()
        self.repeated: set[str] = set()

    def take(self, url: ShortUrl, *, selected: bool) -> bool:
        """Take a link and return whether it is selected."""
        if url.slashtag is None:
            return selected
        if not selected:
            self._others.add(url.slashtag)
        elif url.slashtag in self._selected:
            self.repeated.add(url.slashtag)
        else:
            self._selected.add(url.slashtag)
        return selected

    @property
    def foreign(self) -> set[str]:
        """Slashtags of selected links that others have too, which are not selected."""
        return self._selected & self._others

    @property
    def count(self) -> int:
        """Number of slashtags of selected links that any other link has too."""
        return len(self.repeated | self.foreign)


class Links:
    """All selected links by slashtag, or the slashtags that were given; `refused` ones cannot be counted."""

    def __init__(self) -> None:
        self.by_slashtag: dict[str, list[str | ShortUrl]] = {}
        self.sharing = Sharing()
        self.refused = 0

    @classmethod
    async def read(
        cls,
        session: AsyncSession,
        keys: Keys | None,
        tags: Iterable[str] | None,
        progress: Progress | None = None,
    ) -> Links:
        """Read the links of a selection; raises InvalidRequestError for given ones that cannot be counted."""
        links = cls()

        def refuse(_: InvalidRequestError) -> None:
            links.refused += 1

        selecting = selection(
            session, keys, tags, "slashtag", sharing=links.sharing, left_out=refuse, progress=progress
        )
        async with selecting as (found, _):
            for key in [key async for key in found] if isinstance(found, AsyncIterable) else found or ():
                links.by_slashtag.setdefault(check_slashtag(key), []).append(key)
                if keys is not None and isinstance(key, ShortUrl):
                    links.sharing.take(key, selected=True)
        return links

    @property
    def keys(self) -> list[str | ShortUrl]:
        """One link of each slashtag: links tell how many hits they have."""
        return [links[0] for links in self.by_slashtag.values()]

    def clicks_by(
        self, label_of: Callable[[ShortUrl], str], clicks: Mapping[str, int]
    ) -> tuple[dict[str, int], set[str]]:
        """Add up clicks of slashtags by a label of their links; nothing if all have the same one.

        Clicks of a slashtag count for each label that its links have. The second value has the labels that
        thus include clicks of links with another label, or of links that are not selected.
        """
        counts, shared = Counter[str](), set[str]()
        for slashtag, number in clicks.items():
            links = self.by_slashtag[slashtag]
            labels = {label_of(link) for link in links if isinstance(link, ShortUrl)}
            counts.update(dict.fromkeys(labels, number))
            if len(labels) > 1 or slashtag in self.sharing.foreign:
                shared |= labels
        return (dict(counts), shared) if len(counts) > 1 else ({}, set())


async def names_of_tags(session: AsyncSession, wanted: Iterable[str] = ()) -> dict[int, str]:
    """Return the names of all tags by id; raises InvalidRequestError if one that is wanted does not exist."""
    names = {tag.id: tag.name for tag in await session.tags.list().to_list() if tag.name}
    for name in wanted:
        if name not in names.values():
            raise InvalidRequestError(f"the account has no tag {name!r}{did_you_mean(name, names.values())}")
    return names


@asynccontextmanager
async def selection(
    session: AsyncSession,
    keys: Keys | None,
    tags: Iterable[str] | None,
    by: By,
    *,
    merged: bool = False,
    sharing: Sharing | None = None,
    left_out: Callable[[InvalidRequestError], object] | None = None,
    progress: Progress | None = None,
) -> AsyncGenerator[tuple[Keys | None, Iterable[str] | None], None]:
    """Fill in what an omitted selector means, and what tags mean where links are asked for.

    `sharing` gets every link that is listed for it, and `progress` is that of the listing. Listed links that
    statistics cannot name are passed to `left_out` as an error; without it, requests for them fail.
    """
    if by not in ("slashtag", "tag"):
        raise TypeError(f"by is 'slashtag' or 'tag', not {by!r}")
    if keys is not None and (tags is not None or by == "tag"):
        raise TypeError("keys= goes with neither tags= nor by='tag'")
    for name, given in (("keys", keys), ("tags", tags)):
        if isinstance(given, str | bytes):
            raise TypeError(f"{name}= takes an iterable, not one {type(given).__name__}: {name}=[...]")
    if by == "tag" and tags is None:
        tags = (await names_of_tags(session)).values()
    if tags is not None and (merged or by == "tag"):
        yield None, tags
    elif keys is not None:
        yield keys, None
    else:
        listed = _listed(session, tags, sharing or Sharing(), left_out, progress)
        async with aclosing(listed) as links:
            yield links, None


async def _listed(
    session: AsyncSession,
    tags: Iterable[str] | None,
    sharing: Sharing,
    left_out: Callable[[InvalidRequestError], object] | None,
    progress: Progress | None,
) -> AsyncGenerator[ShortUrl, None]:
    """Yield the links of the account, or those with one of the tags; raise for one that it lacks."""
    ids: set[int] = set()
    if tags is not None:
        wanted = set(tags)
        ids = {id for id, name in (await names_of_tags(session, wanted)).items() if name in wanted}
    async with session.urls.list(progress=progress) as urls:
        async for url in urls:
            if not sharing.take(url, selected=tags is None or url.tag_id in ids):
                continue
            if left_out is not None:
                try:
                    check_slashtag(url)
                except InvalidRequestError as error:
                    left_out(error)
                    continue
            yield url
