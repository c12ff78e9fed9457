"""The true counts of an account, from one pass over the raw click log.

Nothing here is shared with the endpoints, so that an error there shows as a difference.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from .records import TrueCountry, TruePeriod, TrueRange, TrueTag, TrueUrl
from .store import LABELS, Click, Store
from .world import DOMAINS

When = date | datetime | str
Zone = str | tzinfo | None
# Decide whether a click of this local date and Unix second counts.
_Holds = Callable[[date, int], bool]

_RANGE_MAPS = ("device", "browser", "platform", "country", "referrer")


class _Tally:
    def __init__(self) -> None:
        self.days = Counter[date]()
        self.place = Counter[int]()
        self.agent = Counter[int]()
        self.referrer = Counter[int]()
        self.visitors = set[int]()

    def add(self, day: date, click: Click) -> None:
        self.days[day] += 1
        self.place[click[2]] += 1
        self.agent[click[3]] += 1
        self.referrer[click[4]] += 1
        self.visitors.add(click[5])


class Truth:
    """Counts of the account as it is now.

    Every method takes `keys` (slashtags, each counted once; None: every link) or `tag` (a name), and
    `timezone`: None for UTC, `"+HH:MM"`, or a tzinfo; the day of a click is its local date there.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def range(
        self,
        start: When,
        end: When,
        keys: Iterable[str] | None = None,
        tag: str | None = None,
        timezone: Zone = None,
    ) -> TrueRange:
        """Count whole days from `start` to `end`, or from instant to instant, both included.

        ISO texts stand for dates or datetimes; a datetime must have an offset (ValueError).
        """
        zone = _zone(timezone)
        days, holds = _span(start, end, zone)
        return self._range(self._tally(keys, tag, zone, holds), days)

    def per_key(
        self, start: When, end: When, keys: Iterable[str] | None = None, timezone: Zone = None
    ) -> dict[str, TrueRange]:
        """Count as `range` does, for each slashtag alone, including those without clicks."""
        zone = _zone(timezone)
        days, holds = _span(start, end, zone)
        every = [url.slashtag for url in self.urls()] if keys is None else list(keys)
        tallies = {slashtag: _Tally() for slashtag in every}
        for slashtag, day, click in self._clicks(every, None, zone, holds):
            tallies[slashtag].add(day, click)
        return {slashtag: self._range(tally, days) for slashtag, tally in tallies.items()}

    def year(
        self, year: int, keys: Iterable[str] | None = None, tag: str | None = None, timezone: Zone = None
    ) -> TruePeriod:
        """Count one calendar year."""
        return self._period(self._tally(keys, tag, _zone(timezone), lambda day, _: day.year == year))

    def alltime(
        self, keys: Iterable[str] | None = None, tag: str | None = None, timezone: Zone = None
    ) -> TruePeriod:
        """Count every click."""
        return self._period(self._tally(keys, tag, _zone(timezone), lambda _day, _at: True))

    def country(
        self,
        code: str,
        start: When,
        end: When,
        keys: Iterable[str] | None = None,
        tag: str | None = None,
        timezone: Zone = None,
    ) -> TrueCountry:
        """Count the clicks of one country (2 letters) by its places."""
        zone = _zone(timezone)
        tally = self._tally(keys, tag, zone, _span(start, end, zone)[1])
        places = self._store.labels("place")
        tally.place = Counter({id: n for id, n in tally.place.items() if places[id][0] == code.upper()})
        return TrueCountry(**self._maps(tally, ("state", "city", "postalcode")))

    def urls(self) -> list[TrueUrl]:
        """Return every link, oldest first (ties by id)."""
        hits = Counter(click[0] for click in self._store.log())
        urls: list[TrueUrl] = []
        for link in sorted(self._store.links(), key=lambda link: (link.created_at, link.id)):
            fields: dict[str, Any] = link._asdict()
            fields["short_url"] = f"https://{DOMAINS[link.domain_id]}/{link.slashtag}"
            fields["hits"] = hits[link.id]
            fields["created_at"], fields["updated_at"] = _stamp(link.created_at), _stamp(link.updated_at)
            urls.append(TrueUrl(**fields))
        return urls

    def tags(self) -> list[TrueTag]:
        """Return every tag, oldest first (ties by id)."""
        tags = sorted(self._store.tags(), key=lambda tag: (tag.created_at, tag.id))
        return [
            TrueTag(id=tag.id, name=tag.name, description=tag.description, created_at=_stamp(tag.created_at))
            for tag in tags
        ]

    def _tally(self, keys: Iterable[str] | None, tag: str | None, zone: tzinfo, holds: _Holds) -> _Tally:
        tally = _Tally()
        for _, day, click in self._clicks(keys, tag, zone, holds):
            tally.add(day, click)
        return tally

    def _clicks(
        self, keys: Iterable[str] | None, tag: str | None, zone: tzinfo, holds: _Holds
    ) -> Iterator[tuple[str, date, Click]]:
        """Yield slashtag, local date and row of every selected click."""
        if keys is not None and tag is not None:
            raise TypeError("give keys or tag, not both")
        tag_ids = {found.name: found.id for found in self._store.tags()}
        if tag is not None and tag not in tag_ids:
            raise LookupError(f"no tag {tag!r}")
        chosen = None if keys is None else set(keys)
        wanted = {
            link.id: link.slashtag
            for link in self._store.links()
            if (chosen is None or link.slashtag in chosen) and (tag is None or link.tag_id == tag_ids[tag])
        }
        for click in self._store.log():
            if slashtag := wanted.get(click[0]):
                day = datetime.fromtimestamp(click[1], zone).date()
                if holds(day, click[1]):
                    yield slashtag, day, click

    def _range(self, tally: _Tally, days: list[date]) -> TrueRange:
        clicks = {day: tally.days[day] for day in days}
        return TrueRange(total_clicks=tally.days.total(), clicks=clicks, **self._maps(tally, _RANGE_MAPS))

    def _period(self, tally: _Tally) -> TruePeriod:
        breakdown: dict[int, dict[int, int]] = {}
        for day, n in sorted(tally.days.items()):
            months = breakdown.setdefault(day.year, {})
            months[day.month] = months.get(day.month, 0) + n
        total = tally.days.total()
        return TruePeriod(
            clicks_total=total,
            clicks_unique=len(tally.visitors),
            clicks_repeated=total - len(tally.visitors),
            clicks_breakdown=breakdown,
            **self._maps(tally, (*_RANGE_MAPS, "timezone")),
        )

    def _maps(self, tally: _Tally, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """Sum the counts of row ids by label."""
        maps: dict[str, dict[str, int]] = {}
        for table, ids in (("place", tally.place), ("agent", tally.agent), ("referrer", tally.referrer)):
            labels = self._store.labels(table)
            for column, name in enumerate(LABELS[table]):
                if name in names:
                    sums = maps[name] = {}
                    for id, n in ids.items():
                        label = labels[id][column]
                        sums[label] = sums.get(label, 0) + n
        return maps


def read_instant(text: str) -> datetime:
    """Read an ISO 8601 date-time; ValueError for 24:00, which only Python 3.14 and later would read."""
    instant = datetime.fromisoformat(text)
    if instant.day != date.fromisoformat(re.split("[T ]", text)[0]).day:
        raise ValueError(f"the hour must be in 0..23: {text}")
    return instant


def _span(start: When, end: When, zone: tzinfo) -> tuple[list[date], _Holds]:
    """Return every local date from `start` to `end`, and which clicks lie between them."""
    first, last = _when(start), _when(end)
    if isinstance(first, datetime) and isinstance(last, datetime):
        low, high = first.timestamp(), last.timestamp()
        return _days(first.astimezone(zone).date(), last.astimezone(zone).date()), (
            lambda _day, at: low <= at <= high
        )
    if isinstance(first, datetime) or isinstance(last, datetime):
        raise TypeError("start and end are both dates or both datetimes")
    return _days(first, last), lambda day, _at: first <= day <= last


def _days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _when(value: When) -> date | datetime:
    if isinstance(value, str):
        value = date.fromisoformat(value) if len(value) == 10 else read_instant(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(f"a datetime needs an offset: {value}")
    return value


def _zone(zone: Zone) -> tzinfo:
    if zone is None:
        return UTC
    if isinstance(zone, tzinfo):
        return zone
    return datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo or UTC


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(" ")[:19]
