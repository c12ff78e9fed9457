"""True counts of an account, from the raw click log.

Shares nothing with the endpoints, so that an error there shows as a difference.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from operator import itemgetter
from typing import Any

from .store import LABELS, Link, Store, Tag

When = date | datetime | str
Keys = Iterable[str] | None
Zone = str | tzinfo | None
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
    """Counts of the account as it is now.

    Every method takes `keys` (slashtags, each counted once; None: every link) or `tag` (a name), and
    `timezone`: None for UTC, `"+HH:MM"`, or a tzinfo; the day of a click is its local date there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def range(
        self, start: When, end: When, keys: Keys = None, tag: str | None = None, timezone: Zone = None
    ) -> TrueCounts:
        """Count whole days from `start` to `end`, or from instant to instant, both included.

        ISO texts stand for dates or datetimes; a datetime must have an offset (ValueError).
        """
        first, last, local = _when(start), _when(end), _zone(timezone)
        rows = self._rows(keys, tag, local)
        if isinstance(first, datetime) and isinstance(last, datetime):
            low, high, at = first.timestamp(), last.timestamp(), _COLUMNS.index("at")
            rows = [row for row in rows if low <= row[at] <= high]
            first, last = (when.astimezone(local).date() for when in (first, last))
        elif isinstance(first, datetime) or isinstance(last, datetime):
            raise TypeError("start and end are both dates or both datetimes")
        else:
            rows = [row for row in rows if first <= row[1] <= last]
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        return TrueCounts(rows, self._store.labels, days)

    def per_key(
        self, start: When, end: When, keys: Keys = None, timezone: Zone = None
    ) -> dict[str, TrueCounts]:
        """Count as `range` does, for each slashtag alone, including those without clicks."""
        every = [url.slashtag for url in self.urls()] if keys is None else list(keys)
        whole = self.range(start, end, every, None, timezone)
        by_key: dict[str, list[_Row]] = {slashtag: [] for slashtag in every}
        for row in whole._rows:
            by_key[row[0]].append(row)
        return {key: TrueCounts(rows, self._store.labels, whole._days) for key, rows in by_key.items()}

    def year(self, year: int, keys: Keys = None, tag: str | None = None, timezone: Zone = None) -> TrueCounts:
        """Count one calendar year."""
        rows = self._rows(keys, tag, _zone(timezone))
        return TrueCounts([row for row in rows if row[1].year == year], self._store.labels)

    def alltime(self, keys: Keys = None, tag: str | None = None, timezone: Zone = None) -> TrueCounts:
        """Count every click."""
        return TrueCounts(self._rows(keys, tag, _zone(timezone)), self._store.labels)

    def country(
        self,
        code: str,
        start: When,
        end: When,
        keys: Keys = None,
        tag: str | None = None,
        timezone: Zone = None,
    ) -> TrueCounts:
        """Count the clicks of one country (2 letters) in a range."""
        whole = self.range(start, end, keys, tag, timezone)
        column, labels = _COLUMNS.index("country"), self._store.labels
        inside = [row for row in whole._rows if labels[row[column]] == code.upper()]
        return TrueCounts(inside, labels, whole._days)

    def urls(self) -> list[Link]:
        """Return every link, oldest first (ties by id)."""
        hits = Counter(click[0] for click in self._store.log())
        links = sorted(self._store.links(), key=lambda link: (link.created_at, link.id))
        return [link._replace(hits=hits[link.id]) for link in links]

    def tags(self) -> list[Tag]:
        """Return every tag, oldest first (ties by id)."""
        return sorted(self._store.tags(), key=lambda tag: (tag.created_at, tag.id))

    def _rows(self, keys: Keys, tag: str | None, zone: tzinfo) -> list[_Row]:
        """Return the clicks of links."""
        if keys is not None and tag is not None:
            raise TypeError("give keys or tag, not both")
        tag_ids = {found.name: found.id for found in self._store.tags()}
        if tag is not None and tag not in tag_ids:
            raise LookupError(f"no tag {tag!r}")
        chosen = None if keys is None else set(keys)
        wanted = {
            id: slashtag
            for id, slashtag, tag_id in self._store.rows("SELECT id, slashtag, tag_id FROM link")
            if (chosen is None or slashtag in chosen) and (tag is None or tag_id == tag_ids[tag])
        }
        return [
            (wanted[click[0]], datetime.fromtimestamp(click[1], zone).date(), *click)
            for click in self._store.log()
            if click[0] in wanted
        ]


def _when(value: When) -> date | datetime:
    if isinstance(value, str):
        value = (date if len(value) == 10 else datetime).fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(f"a datetime needs an offset: {value}")
    return value


def _zone(zone: Zone) -> tzinfo:
    if zone is None or isinstance(zone, tzinfo):
        return zone or UTC
    return datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo or UTC
