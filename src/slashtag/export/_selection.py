"""The links or tags that an export is about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Literal

from .. import AsyncSession, InvalidRequestError, ShortUrl, Tag
from .._internal import Keys

By = Literal["slashtag", "tag"]


class Sharing:
    """Slashtags of selected links that other links have too, whether these are selected or not."""

    def __init__(self) -> None:
        self._selected: set[str] = set()
        self._others: set[str] = set()

    def take(self, url: ShortUrl, *, selected: bool) -> bool:
        """Take a link of the listing and return whether it is selected."""
        slashtag = url.slashtag
        if not selected or slashtag in self._selected:
            self._others.add(slashtag)
        else:
            self._selected.add(slashtag)
        return selected

    @property
    def count(self) -> int:
        """Number of such slashtags."""
        return len(self._selected & self._others)


@asynccontextmanager
async def selection(
    session: AsyncSession,
    keys: Keys | None,
    tags: Iterable[str] | None,
    by: By,
    *,
    merged: bool,
    sharing: Sharing | None = None,
) -> AsyncGenerator[tuple[Keys | None, Iterable[str] | None], None]:
    """Fill in what an omitted selector means, and what tags mean where links are asked for.

    `sharing` gets every link that is listed for it.
    """
    sharing = sharing or Sharing()
    if by not in ("slashtag", "tag"):
        raise TypeError(f"by is 'slashtag' or 'tag', not {by!r}")
    if keys is not None and (tags is not None or by == "tag"):
        raise TypeError("keys= goes with neither tags= nor by='tag'")
    if isinstance(tags, str):
        raise TypeError("tags= takes an iterable of names, not one str: tags=[...]")
    if by == "tag" and tags is None:
        yield None, [tag.name for tag in await session.tags.list().to_list()]
    elif tags is not None and (merged or by == "tag"):
        yield None, tags
    elif tags is not None:
        async with aclosing(links_with_tags(session, tags, sharing)) as links:
            yield links, None
    elif keys is None:
        async with aclosing(_links(session, sharing)) as links:
            yield links, None
    else:
        yield keys, None


async def list_selection(
    session: AsyncSession,
    keys: Keys | None,
    tags: Iterable[str] | None,
    by: By,
    *,
    merged: bool,
    sharing: Sharing | None = None,
) -> tuple[list[str] | None, list[str] | None]:
    """Return what an export would select, as slashtags or as tags; arguments as `export_clicks`."""
    chosen = selection(session, keys, tags, by, merged=merged, sharing=sharing)
    async with chosen as (found, names):
        if found is None:
            return None, list(names or ())
        if isinstance(found, AsyncIterable):
            return [_slashtag(key) async for key in found], None
        return [_slashtag(key) for key in found], None


def _slashtag(key: str | ShortUrl) -> str:
    return key if isinstance(key, str) else key.slashtag


async def links_with_tags(
    session: AsyncSession, tags: Iterable[str], sharing: Sharing
) -> AsyncGenerator[ShortUrl, None]:
    """Yield the links of the account that bear one of the tags; an unknown one is an InvalidRequestError."""
    ids = ids_of(tags, await session.tags.list().to_list())
    async with session.urls.list() as urls:
        async for url in urls:
            if sharing.take(url, selected=url.tag_id in ids):
                yield url


async def _links(session: AsyncSession, sharing: Sharing) -> AsyncGenerator[ShortUrl, None]:
    async with session.urls.list() as urls:
        async for url in urls:
            sharing.take(url, selected=True)
            yield url


def ids_of(names: Iterable[str], tags: Iterable[Tag]) -> set[int]:
    """Return the ids of named tags of an account; one that it lacks is an InvalidRequestError."""
    known = {tag.name: tag.id for tag in tags}
    ids: set[int] = set()
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"the account has no tag {name!r}")
        ids.add(known[name])
    return ids
