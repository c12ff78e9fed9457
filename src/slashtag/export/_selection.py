"""The links or tags that an export is about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Literal

from .. import AsyncSession, InvalidRequestError, Keys, Progress, ShortUrl

By = Literal["slashtag", "tag"]


class Sharing:
    """Slashtags of several links: `repeated` ones of several selected links, `foreign` ones of others too."""

    def __init__(self) -> None:
        self._selected: set[str] = set()
        self._others: set[str] = set()
        self.repeated: set[str] = set()

    def take(self, url: ShortUrl, *, selected: bool) -> bool:
        """Take a link and return whether it is selected."""
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


async def names_of_tags(session: AsyncSession, wanted: Iterable[str] = ()) -> dict[int, str]:
    """Return the names of all tags by id; raises InvalidRequestError if one that is wanted does not exist."""
    names = {tag.id: tag.name for tag in await session.tags.list().to_list()}
    for name in wanted:
        if name not in names.values():
            raise InvalidRequestError(f"the account has no tag {name!r}")
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
    progress: Progress | None = None,
) -> AsyncGenerator[tuple[Keys | None, Iterable[str] | None], None]:
    """Fill in what an omitted selector means, and what tags mean where links are asked for.

    `sharing` gets every link that is listed for it, and `progress` is that of the listing.
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
        async with aclosing(_listed(session, tags, sharing or Sharing(), progress)) as links:
            yield links, None


async def _listed(
    session: AsyncSession, tags: Iterable[str] | None, sharing: Sharing, progress: Progress | None
) -> AsyncGenerator[ShortUrl, None]:
    """Yield the links of the account, or those with one of the tags; raise for one that it lacks."""
    ids: set[int] = set()
    if tags is not None:
        wanted = set(tags)
        ids = {id for id, name in (await names_of_tags(session, wanted)).items() if name in wanted}
    async with session.urls.list(progress=progress) as urls:
        async for url in urls:
            if sharing.take(url, selected=tags is None or url.tag_id in ids):
                yield url
