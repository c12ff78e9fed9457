"""The links and tags of an account, as they are listed, beside the links that a warehouse holds."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter

from .. import ConfigurationError, ExportError, ShortUrl, Tag
from ._reconcile import Series
from ._tables import TABLES, Row

_COLUMNS = [*TABLES["links"]]
_USED = "id", "slashtag", "hits", "tag_id", "counted", "gone_at"
ID, SLASHTAG, HITS, TAG, COUNTED, GONE_AT = map(_COLUMNS.index, _USED)


class ShrunkListingError(ExportError):
    """A listing lacks more than a tenth of the links of the last load: nothing was loaded."""


class Account:
    """Links and tags as they are listed, and the rows of `links` that are held."""

    def __init__(self, links: Iterable[ShortUrl], tags: Iterable[Tag], held: Sequence[Row]) -> None:
        self.links: dict[int, Row] = {row[ID]: row for row in map(attrgetter(*_COLUMNS[:COUNTED]), links)}
        self.tags: list[Row] = [*map(attrgetter(*TABLES["tags"]), tags)]
        self._held = {row[ID]: row for row in held}
        self._present = [row for row in held if row[GONE_AT] is None]

    def series(self, *, by_tag: bool) -> list[Series]:
        """Return the series of links, and those of tags."""
        names = {id: name for id, name, *_ in self.tags}
        links = self._series("clicks_daily", itemgetter(SLASHTAG))
        return [links, self._series("clicks_by_tag", lambda row: names.get(row[TAG]))][: 1 + by_tag]

    def _series(self, table: str, name_of: Callable[[Row], str | None]) -> Series:
        """Return the names of a table, given those to which the rows of links belong."""
        # By name and id: of links that are gone, of all at the last load, and of those that are listed now.
        gone = _hits((row for row in self._held.values() if row[ID] not in self.links), name_of)
        before, now = gone | _hits(self._present, name_of), _hits(self.links.values(), name_of)
        names = sorted(now, key=lambda name: -sum(now[name].values()))
        uncounted = {name_of(row) for row in self._present if not row[COUNTED]}
        # A link has left them, or was not counted: they may have rows of another one.
        apart = {n for n in names if n in uncounted or before.get(n, {}).keys() - now[n].keys()}
        new = now.keys() - before.keys()
        changed = {name for name in names if now[name] != before.get(name)}
        # Those that are new, those with other hits, which probably differ, and the rest.
        groups = [new, changed - new - apart, now.keys() - changed - apart]
        # The clicks of a link that is gone are no longer those of a tag.
        return Series(table, names, groups, apart, gone.keys() if table == "clicks_daily" else set())

    def rows(self, uncounted: Collection[str | None], now: datetime) -> list[Row]:
        """Return the rows of links that are not held as such, given the slashtags that are not counted."""
        rows: list[Row] = [(*row, row[SLASHTAG] not in uncounted, None) for row in self.links.values()]
        rows += [(*row[:GONE_AT], now) for row in self._present if row[ID] not in self.links]
        return [row for row in rows if row != self._held.get(row[ID])]

    def begun(self, links: Series) -> list[Row]:
        """Return rows that say whose the clicks of names will be, before any are written.

        Of new names and of those apart; all else is as held. They are not held any more: `rows` has them too.
        """
        names = links.groups[0] | links.apart
        return [
            (id, name, *self._held.pop(id, row)[2:COUNTED], name not in links.apart, None)
            for id, row in self.links.items()
            if (name := row[SLASHTAG]) in names
        ]

    def check(self, place: str, *, allow_shrink: bool) -> None:
        """Raise ConfigurationError if hardly any of the links of the last load are listed, but others.

        Raises ShrunkListingError if many are not.
        """
        present = len(self._present)
        # A renamed link has its destination, one that leads elsewhere has its short URL.
        lost = sum(not {*row[2:4]} & {*self.links.get(row[ID], ())[2:4]} for row in self._present)
        if self.links and lost * 10 > present * 9:
            raise ConfigurationError(
                f"{place} holds another account, with {lost:,} of {present:,} links that are not listed: use "
                "the apikey of that account, or another path or --dataset for this one"
            )
        if lost >= 10 and lost * 10 > present and not allow_shrink:
            raise ShrunkListingError(
                f"{lost:,} of the {present:,} links of the last load are not listed: nothing was loaded; "
                "run it again later, or with --allow-shrink if so many were deleted"
            )


def _hits(rows: Iterable[Row], name_of: Callable[[Row], str | None]) -> dict[str, dict[int, int]]:
    """Return the hits of the links of each slashtag, or tag, by id."""
    found = defaultdict[str, dict[int, int]](dict)
    for row in rows:
        if name := name_of(row):
            found[name][row[ID]] = row[HITS] or 0
    return found
