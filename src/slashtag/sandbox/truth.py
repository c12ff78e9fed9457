"""True counts of an account, from the raw click log.

Shares nothing with the endpoints, so that an error there shows as a difference.
"""

from collections import Counter
from collections.abc import Iterable
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
_RANGE_MAPS = ("device", "browser", "platform", "country", "referrer")


@dataclass(frozen=True, kw_only=True)
class TrueRange:
    """Counts of a range; `clicks` has every day of it, including zeros, and maps have none."""

    total_clicks: int
    clicks: dict[date, int]
    device: dict[str, int]
    browser: dict[str, int]
    platform: dict[str, int]
    country: dict[str, int]
    referrer: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TruePeriod:
    """Counts of a year or of all time, without zeros; `clicks_breakdown` is year -> month -> clicks."""

    clicks_total: int
    clicks_unique: int
    clicks_repeated: int
    clicks_breakdown: dict[int, dict[int, int]]
    device: dict[str, int]
    browser: dict[str, int]
    platform: dict[str, int]
    country: dict[str, int]
    referrer: dict[str, int]
    timezone: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class TrueCountry:
    """Counts of one country by place: all names, no `Other`."""

    state: dict[str, int]
    city: dict[str, int]
    postalcode: dict[str, int]


class Truth:
    """Counts of the account as it is now.

    Every method takes `keys` (slashtags, each counted once; None: every link) or `tag` (a name), and
    `timezone`: None for UTC, `"+HH:MM"`, or a tzinfo; the day of a click is its local date there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def range(
        self, start: When, end: When, keys: Keys = None, tag: str | None = None, timezone: Zone = None
    ) -> TrueRange:
        """Count whole days from `start` to `end`, or from instant to instant, both included.

        ISO texts stand for dates or datetimes; a datetime must have an offset (ValueError).
        """
        return self._range(*self._span(start, end, keys, tag, timezone))

    def per_key(
        self, start: When, end: When, keys: Keys = None, timezone: Zone = None
    ) -> dict[str, TrueRange]:
        """Count as `range` does, for each slashtag alone, including those without clicks."""
        every = [url.slashtag for url in self.urls()] if keys is None else list(keys)
        days, rows = self._span(start, end, every, None, timezone)
        by_key: dict[str, list[_Row]] = {slashtag: [] for slashtag in every}
        for row in rows:
            by_key[row[0]].append(row)
        return {slashtag: self._range(days, rows) for slashtag, rows in by_key.items()}

    def year(self, year: int, keys: Keys = None, tag: str | None = None, timezone: Zone = None) -> TruePeriod:
        """Count one calendar year."""
        return self._period([row for row in self._rows(keys, tag, _zone(timezone)) if row[1].year == year])

    def alltime(self, keys: Keys = None, tag: str | None = None, timezone: Zone = None) -> TruePeriod:
        """Count every click."""
        return self._period(self._rows(keys, tag, _zone(timezone)))

    def country(
        self,
        code: str,
        start: When,
        end: When,
        keys: Keys = None,
        tag: str | None = None,
        timezone: Zone = None,
    ) -> TrueCountry:
        """Count the clicks of one country (2 letters) by its places."""
        _, rows = self._span(start, end, keys, tag, timezone)
        column, labels = _COLUMNS.index("country"), self._store.labels
        inside = [row for row in rows if labels[row[column]] == code.upper()]
        return TrueCountry(**self._maps(inside, "state", "city", "postalcode"))

    def urls(self) -> list[Link]:
        """Return every link, oldest first (ties by id)."""
        hits = Counter(click[0] for click in self._store.log())
        links = sorted(self._store.links(), key=lambda link: (link.created_at, link.id))
        return [link._replace(hits=hits[link.id]) for link in links]

    def tags(self) -> list[Tag]:
        """Return every tag, oldest first (ties by id)."""
        return sorted(self._store.tags(), key=lambda tag: (tag.created_at, tag.id))

    def _span(
        self, start: When, end: When, keys: Keys, tag: str | None, zone: Zone
    ) -> tuple[list[date], list[_Row]]:
        """Return every local date from `start` to `end`, and the clicks between them."""
        first, last, local = _when(start), _when(end), _zone(zone)
        rows = self._rows(keys, tag, local)
        if isinstance(first, datetime) and isinstance(last, datetime):
            low, high, at = first.timestamp(), last.timestamp(), _COLUMNS.index("at")
            rows = [row for row in rows if low <= row[at] <= high]
            first, last = (when.astimezone(local).date() for when in (first, last))
        elif isinstance(first, datetime) or isinstance(last, datetime):
            raise TypeError("start and end are both dates or both datetimes")
        else:
            rows = [row for row in rows if first <= row[1] <= last]
        return [first + timedelta(days=n) for n in range((last - first).days + 1)], rows

    def _rows(self, keys: Keys, tag: str | None, zone: tzinfo) -> list[_Row]:
        """Return every selected click."""
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

    def _range(self, days: Iterable[date], rows: list[_Row]) -> TrueRange:
        counts = _count(rows, "day")
        clicks = {day: counts[day] for day in days}
        return TrueRange(total_clicks=len(rows), clicks=clicks, **self._maps(rows, *_RANGE_MAPS))

    def _period(self, rows: list[_Row]) -> TruePeriod:
        breakdown: dict[int, dict[int, int]] = {}
        for (year, month), n in sorted(Counter((row[1].year, row[1].month) for row in rows).items()):
            breakdown.setdefault(year, {})[month] = n
        unique = len(_count(rows, "visitor"))
        return TruePeriod(
            clicks_total=len(rows),
            clicks_unique=unique,
            clicks_repeated=len(rows) - unique,
            clicks_breakdown=breakdown,
            **self._maps(rows, *_RANGE_MAPS, "timezone"),
        )

    def _maps(self, rows: list[_Row], *names: str) -> dict[str, Any]:
        labels = self._store.labels
        return {name: {labels[id]: n for id, n in _count(rows, name).items()} for name in names}


def _count(rows: list[_Row], column: str) -> Counter[Any]:
    return Counter(map(itemgetter(_COLUMNS.index(column)), rows))


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
