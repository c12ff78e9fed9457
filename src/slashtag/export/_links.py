"""The links that an export or a report is about, and slashtags that several links share."""

from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import Self

from .. import AsyncSession, InvalidRequestError, Keys, Progress, ShortUrl
from .._internal import check_slashtag, did_you_mean, list_anew


class Links:
    """Links by slashtag, as the service counts them; a slashtag that was given as such has none.

    `uncountable` ones have a slashtag for which statistics cannot be requested.
    """

    def __init__(self) -> None:
        self.by_slashtag: dict[str, list[ShortUrl]] = {}
        self.uncountable: list[ShortUrl] = []
        self._others: set[str | None] = set()

    @classmethod
    async def read(
        cls,
        session: AsyncSession,
        keys: Keys | None = None,
        tags: Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Read `keys` (also asynchronous), list the links with one of `tags`, or all links of the account.

        Raises TypeError for both or a str, InvalidRequestError for given keys that cannot be requested and
        for tags that do not exist. See docs/service.md, List short URLs.
        """
        links = cls()
        if (keys is not None and tags is not None) or any(isinstance(of, str | bytes) for of in (keys, tags)):
            raise TypeError("pass keys=[...] or tags=[...], not both")
        list_anew(session)
        if keys is not None:
            for key in [key async for key in keys] if isinstance(keys, AsyncIterable) else keys:
                if isinstance(key, ShortUrl):
                    links._add(key)
                else:
                    links.by_slashtag.setdefault(check_slashtag(key), [])
            return links
        wanted = set(tags or ())
        names = await names_of_tags(session, wanted) if wanted else {}
        ids = {id for id, name in names.items() if name in wanted}
        async with session.urls.list(progress=progress) as urls:
            async for url in urls:
                if tags is not None and url.tag_id not in ids:
                    links._others.add(url.slashtag)
                    continue
                links._add(url)
        return links

    def _add(self, link: ShortUrl) -> None:
        try:
            same = self.by_slashtag.setdefault(check_slashtag(link), [])
        except InvalidRequestError:
            same = self.uncountable
        if link not in same:
            same.append(link)

    @property
    def keys(self) -> list[str | ShortUrl]:
        """What to pass as `keys` for all of them."""
        return self.of(self.by_slashtag)

    def of(self, slashtags: Iterable[str]) -> list[str | ShortUrl]:
        """Return what to pass as `keys`: all links of each slashtag, or one that was given as such."""
        found: list[str | ShortUrl] = []
        for slashtag in slashtags:
            found += self.by_slashtag[slashtag] or [slashtag]
        return found

    @property
    def hits(self) -> Counter[str]:
        """Hits of each slashtag, those of all its links."""
        return Counter({key: sum(url.hits or 0 for url in urls) for key, urls in self.by_slashtag.items()})

    @property
    def repeated(self) -> set[str]:
        """Slashtags that several of these links share."""
        return {slashtag for slashtag, links in self.by_slashtag.items() if len(links) > 1}

    @property
    def foreign(self) -> set[str]:
        """Slashtags of these links that other links have too, which were listed and not selected."""
        return self.by_slashtag.keys() & self._others

    def clicks_by(
        self, label_of: Callable[[ShortUrl], str], clicks: Mapping[str, int]
    ) -> tuple[dict[str, int], set[str]]:
        """Add up clicks of slashtags by a label of their links; nothing if all have the same one.

        Clicks of a slashtag count for each label that its links have. The second value has the labels that
        thus include clicks of links with another label, or of links that are not selected.
        """
        counts, shared, foreign = Counter[str](), set[str](), self.foreign
        for slashtag, number in clicks.items():
            labels = set(map(label_of, self.by_slashtag[slashtag]))
            counts.update(dict.fromkeys(labels, number))
            if len(labels) > 1 or slashtag in foreign:
                shared |= labels
        return (dict(counts), shared) if len(counts) > 1 else ({}, set())


async def links_of_tags(
    session: AsyncSession, wanted: Iterable[str] | None = None, progress: Progress | None = None
) -> dict[str, list[ShortUrl]]:
    """Return the links of each tag by its name, as the account has them now; of all tags for None.

    Names that no tag has are among them, without links. See docs/service.md, List short URLs; List tags.
    """
    list_anew(session)
    names = await names_of_tags(session)
    found: dict[str, list[ShortUrl]] = {name: [] for name in (names.values() if wanted is None else wanted)}
    async with session.urls.list(progress=progress) as urls:
        async for url in urls:
            name = names.get(url.tag_id) if url.tag_id is not None else None
            if name in found:
                found[name].append(url)
    return found


async def names_of_tags(session: AsyncSession, wanted: Iterable[str] = ()) -> dict[int, str]:
    """Return the names of all tags by id; raises InvalidRequestError if one that is wanted does not exist."""
    names = {tag.id: tag.name for tag in await session.tags.list().to_list() if tag.name}
    for name in wanted:
        if name not in names.values():
            raise InvalidRequestError(f"the account has no tag {name!r}{did_you_mean(name, names.values())}")
    return names
