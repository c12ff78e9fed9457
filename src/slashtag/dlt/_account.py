"""The links and tags of an account, as they are listed, beside the links that a warehouse holds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter

from .. import ConfigurationError, ExportError, ShortUrl, Tag
from ._reconcile import Series
from ._tables import TABLES, Row

#: Columns of `links` that are told by the service.
TOLD = [name for name in TABLES["links"] if name not in ("counted", "gone_at")]
ID, SLASHTAG, HITS, TAG = map(TOLD.index, ("id", "slashtag", "hits", "tag_id"))
GONE_AT = len(TOLD) + 1
_told = attrgetter(*TOLD)
_tag_row = attrgetter(*TABLES["tags"])


class ShrunkListingError(ExportError):
    """A listing lacks more than a tenth of the links of the last load: nothing was loaded."""


class Account:
    """Links and tags as they are listed, and the rows of `links` that are held.

    A slashtag has `changed` if the ids of its links are not those that are held: rows of clicks under it, if
    there may be any, are `foreign`. `elsewhere` has those that changed, and those that no link has any more.
    """

    def __init__(self, links: Iterable[ShortUrl], tags: Iterable[Tag], held: Sequence[Row]) -> None:
        self.links = {link.id: _told(link) for link in links}
        self.tags = sorted(map(_tag_row, tags))
        self._held = {row[ID]: row for row in held}
        self._present = [row for row in held if row[GONE_AT] is None]
        self._now, before = _by_slashtag(self.links.values()), _by_slashtag(self._present)
        self.changed = {
            name for name, hits in self._now.items() if hits.keys() != before.get(name, {}).keys()
        }
        self._clicked = {name for name, hits in self._now.items() if hits != before.get(name)}
        ever_held = {row[SLASHTAG] for row in held}
        self.foreign = self.changed & ever_held
        self.elsewhere = self.changed | ever_held - self._now.keys()

    def series(self, *, by_tag: bool) -> list[Series]:
        """Return the series of links, and those of tags."""
        now = {id: row[TAG] for id, row in self.links.items()}
        pairs = [(row[TAG], now.get(row[ID])) for row in self._present]
        retagged = {tag for pair in pairs if pair[0] != pair[1] for tag in pair}
        tags = {name: id for id, name, *_ in self.tags if name}
        moved = {name for name, id in tags.items() if id in retagged}
        names = sorted(self._now, key=lambda name: -sum(self._now[name].values()))
        gone = {row[SLASHTAG] for id, row in self._held.items() if id not in self.links}
        links = Series("clicks_daily", names, self.changed, self._clicked, gone=gone)
        return [links, Series("clicks_by_tag", [*tags], clicked={*tags}, moved=moved)][: 1 + by_tag]

    def rows(self, uncounted: Collection[str | None], now: datetime) -> list[Row]:
        """Return the rows of links that are not held as such, given the slashtags that are not counted."""
        rows: list[Row] = [(*row, row[SLASHTAG] not in uncounted, None) for row in self.links.values()]
        rows += [(*row[:GONE_AT], now) for row in self._present if row[ID] not in self.links]
        return [row for row in rows if row != self._held.get(row[ID])]

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


def _by_slashtag(rows: Iterable[Row]) -> dict[str, dict[int, int]]:
    """Return the hits of the links of each slashtag, by id."""
    found = defaultdict[str, dict[int, int]](dict)
    for row in rows:
        if (name := row[SLASHTAG]) is not None:
            found[name][row[ID]] = row[HITS] or 0
    return dict(found)
