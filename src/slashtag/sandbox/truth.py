"""True counts of an account, from the raw click log.

Shares nothing with the endpoints, so that an error there shows as a difference.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from operator import itemgetter
from typing import Any, TypedDict, Unpack

from .store import LABELS, Link, Store, Tag

When = date | datetime | str
Zone = str | tzinfo | None


class Selection(TypedDict, total=False):
    """Clicks to count, and the zone of their days."""

    keys: Collection[str] | None
    """Slashtags, each counted once; None, the default: those of every link."""
    tag: str | None
    """The name of a tag that their links have."""
    country: str | None
    """Their country, as 2 letters."""
    timezone: Zone
    """None, the default, for UTC, `"+HH:MM"`, or a tzinfo; the day of a click is its local date there."""


# A click: its slashtag and local date, and what the log has of it.
_Row = tuple[Any, ...]
_COLUMNS = ("slashtag", "day", "link", "at", "visitor", *LABELS)


@dataclass(frozen=True, repr=False)
class TrueCounts:
    """Counts of some clicks of the log.

    `clicks` has every day of a range, zeros too; the maps `device`, `browser`, `platform`, `country`,
    `referrer`, `timezone`, `state`, `city` and `postalcode` have no zeros, and all names.
    """

    _rows: list[_Row]
    _labels: dict[int, str]
    _days: Sequence[date] = ()

    @property
    def clicks_total(self) -> int:
        """The number of clicks; also `total_clicks`, as the service calls it in ranges."""
        return len(self._rows)

    total_clicks = clicks_total

    @property
    def clicks_unique(self) -> int:
        """The number of visitors."""
        return len(self._count("visitor"))

    @property
    def clicks_repeated(self) -> int:
        """The clicks of visitors after their first."""
        return self.clicks_total - self.clicks_unique

    @property
    def clicks(self) -> dict[date, int]:
        """Clicks by day."""
        counts = self._count("day")
        return {day: counts[day] for day in self._days or sorted(counts)}

    @property
    def clicks_breakdown(self) -> dict[int, dict[int, int]]:
        """Clicks by year and month."""
        breakdown: dict[int, dict[int, int]] = {}
        for day, n in sorted(self._count("day").items()):
            months = breakdown.setdefault(day.year, {})
            months[day.month] = months.get(day.month, 0) + n
        return breakdown

    def __getattr__(self, name: str) -> dict[str, int]:
        if name not in LABELS:
            raise AttributeError(name)
        return {self._labels[id]: n for id, n in self._count(name).items()}

    def _count(self, column: str) -> Counter[Any]:
        return Counter(map(itemgetter(_COLUMNS.index(column)), self._rows))


class Truth:
    """Counts of the account as it is now. Every method takes the members of Selection as keywords.

    Raises LookupError for a tag that the account does not have.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def range(self, start: When, end: When, **selection: Unpack[Selection]) -> TrueCounts:
        """Count whole days from `start` to `end`, or from instant to instant, both included.

        ISO texts stand for dates or datetimes; a datetime must have an offset (ValueError).
        """
        first, last = _when(start), _when(end)
        rows, zone = self._rows(**selection), _zone(selection.get("timezone"))
        if isinstance(first, datetime) and isinstance(last, datetime):
            low, high, at = first.timestamp(), last.timestamp(), _COLUMNS.index("at")
            rows = [row for row in rows if low <= row[at] <= high]
            first, last = (when.astimezone(zone).date() for when in (first, last))
        else:
            rows = [row for row in rows if first <= row[1] <= last]
        days = [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]
        return TrueCounts(rows, self._store.labels, days)

    def per_key(self, start: When, end: When, **selection: Unpack[Selection]) -> dict[str, TrueCounts]:
        """Count as `range` does, for each slashtag alone, including those without clicks."""
        whole = self.range(start, end, **selection)
        keys = selection.get("keys")
        every = [url.slashtag for url in self.urls()] if keys is None else keys
        by_key: dict[str, list[_Row]] = {slashtag: [] for slashtag in every}
        for row in whole._rows:
            by_key[row[0]].append(row)
        return {key: replace(whole, _rows=rows) for key, rows in by_key.items()}

    def year(self, year: int, **selection: Unpack[Selection]) -> TrueCounts:
        """Count one calendar year."""
        rows = [row for row in self._rows(**selection) if row[1].year == year]
        return TrueCounts(rows, self._store.labels)

    def alltime(self, **selection: Unpack[Selection]) -> TrueCounts:
        """Count every click."""
        return TrueCounts(self._rows(**selection), self._store.labels)

    def urls(self) -> list[Link]:
        """Return every link, oldest first (ties by id)."""
        hits = Counter(click[0] for click in self._store.log())
        links = sorted(self._store.links(), key=lambda link: (link.created_at, link.id))
        return [link._replace(hits=hits[link.id]) for link in links]

    def tags(self) -> list[Tag]:
        """Return every tag, oldest first (ties by id)."""
        return sorted(self._store.tags(), key=lambda tag: (tag.created_at, tag.id))

    def _rows(
        self,
        keys: Collection[str] | None = None,
        tag: str | None = None,
        country: str | None = None,
        timezone: Zone = None,
    ) -> list[_Row]:
        """Return the clicks of a selection."""
        chosen = None if keys is None else set(keys)
        tag_ids = {found.name: found.id for found in self._store.tags()}
        tag_id = None if tag is None else tag_ids[tag]
        slashtags = {
            id: slashtag
            for id, slashtag, of in self._store.rows("SELECT id, slashtag, tag_id FROM link")
            if (chosen is None or slashtag in chosen) and tag_id in (None, of)
        }
        zone, labels, column = _zone(timezone), self._store.labels, 3 + LABELS.index("country")
        return [
            (slashtags[click[0]], datetime.fromtimestamp(click[1], zone).date(), *click)
            for click in self._store.log()
            if click[0] in slashtags and country in (None, labels[click[column]])
        ]


def _when(value: When) -> date | datetime:
    if isinstance(value, str):
        value = (date if len(value) == 10 else datetime).fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(f"a datetime needs an offset: {value}")
    return value


def _zone(zone: Zone) -> tzinfo:
    if isinstance(zone, str):
        zone = datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo
    return zone or UTC
