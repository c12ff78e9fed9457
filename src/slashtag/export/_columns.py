"""Columns of rows of clicks that say of which links they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from .. import AsyncSession, InvalidRequestError, ShortUrl
from .._internal import did_you_mean
from .._shared_slashtags import names_of_tags
from ..tables import Column, Row, Table

#: Names of the columns.
LINK_COLUMNS = ("tag", "short_url", "destination")


class LinkColumns:
    """Cells of some of LINK_COLUMNS for each slashtag; where its links differ, their values with commas."""

    def __init__(
        self, names: Sequence[str], links: Mapping[str, Iterable[ShortUrl]], tags: Mapping[int, str]
    ) -> None:
        self._names, self._links, self._tags = names, links, tags

    @classmethod
    async def read(
        cls, session: AsyncSession, names: Sequence[str], links: Mapping[str, Iterable[ShortUrl]]
    ) -> Self:
        """List the tags if their names are wanted; without them, and with a warning, if that fails."""
        tags = await session._optional("names of tags", names_of_tags) if "tag" in names else None
        return cls(names, links, tags or {})

    def cells(self, slashtag: str) -> Row:
        """Return the cells of a slashtag; None where they are not known."""
        links = list(self._links.get(slashtag, ()))
        return tuple(
            ", ".join(dict.fromkeys(filter(None, (self._value(name, link) for link in links)))) or None
            for name in self._names
        )

    def _value(self, name: str, link: ShortUrl) -> str | None:
        if name == "tag":
            return None if link.tag_id is None else self._tags.get(link.tag_id)
        value: str | None = getattr(link, name)
        return value


def with_columns(table: Table, names: Sequence[str]) -> Table:
    """Return a table with these columns after its first; raises InvalidRequestError for others."""
    for name in names:
        if name not in LINK_COLUMNS:
            told = f"there are {', '.join(LINK_COLUMNS)}{did_you_mean(name, LINK_COLUMNS)}"
            raise InvalidRequestError(f"no column can be called {name!r}; {told}")
    if len(set(names)) < len(names):
        raise InvalidRequestError(f"a column is there twice: {', '.join(names)}")
    first, *others = table.columns
    return Table((first, *map(Column, names), *others), table.title)
