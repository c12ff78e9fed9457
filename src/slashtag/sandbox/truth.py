"""The true counts of an account, from one pass over the raw click log.

Nothing here is shared with the endpoints, so that an error there shows as a difference.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo

from .records import TrueCountry, TruePeriod, TrueRange, TrueTag, TrueUrl
from .store import Click, Store
from .world import DOMAINS

When = date | datetime | str
Zone = str | tzinfo | None
_Names = dict[str, dict[int, str]]


@dataclass
class _Tally:
    days: Counter[date] = field(default_factory=Counter[date])
    places: Counter[int] = field(default_factory=Counter[int])
    agents: Counter[int] = field(default_factory=Counter[int])
    referrers: Counter[int] = field(default_factory=Counter[int])
    visitors: set[int] = field(default_factory=set[int])

    def add(self, day: date, click: Click) -> None:
        self.days[day] += 1
        self.places[click[2]] += 1
        self.agents[click[3]] += 1
        self.referrers[click[4]] += 1
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
        span = _Span(start, end, _zone(timezone))
        return self._range(self._tally(keys, tag, span.zone, span.holds), span, self._names())

    def per_key(
        self, start: When, end: When, keys: Iterable[str] | None = None, timezone: Zone = None
    ) -> dict[str, TrueRange]:
        """Count as `range` does, for each slashtag alone, including those without clicks."""
        span = _Span(start, end, _zone(timezone))
        every = [url.slashtag for url in self.urls()] if keys is None else list(keys)
        tallies = {slashtag: _Tally() for slashtag in every}
        for slashtag, day, click in self._clicks(every, None, span.zone, span.holds):
            tallies[slashtag].add(day, click)
        names = self._names()
        return {slashtag: self._range(tally, span, names) for slashtag, tally in tallies.items()}

    def year(
        self, year: int, keys: Iterable[str] | None = None, tag: str | None = None, timezone: Zone = None
    ) -> TruePeriod:
        """Count one calendar year."""
        return self._period(keys, tag, timezone, lambda day, _: day.year == year)

    def alltime(
        self, keys: Iterable[str] | None = None, tag: str | None = None, timezone: Zone = None
    ) -> TruePeriod:
        """Count every click."""
        return self._period(keys, tag, timezone, lambda _day, _at: True)

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
        span = _Span(start, end, _zone(timezone))
        tally = self._tally(keys, tag, span.zone, span.holds)
        names = self._names()
        inside = Counter({id: n for id, n in tally.places.items() if names["country"][id] == code.upper()})
        return TrueCountry(
            state=_sums(inside, names["state"]),
            city=_sums(inside, names["city"]),
            postalcode=_sums(inside, names["postalcode"]),
        )

    def urls(self) -> list[TrueUrl]:
        """Return every link, oldest first (ties by id)."""
        hits = Counter(click[0] for click in self._store.log())
        links = sorted(self._store.all_links(), key=lambda link: (link.created_at, link.id))
        return [
            TrueUrl(
                id=link.id,
                slashtag=link.slashtag,
                domain_id=link.domain,
                short_url=f"https://{DOMAINS[link.domain]}/{link.slashtag}",
                destination=link.destination,
                hits=hits[link.id],
                redirect_code=link.redirect_code,
                password=link.password,
                created_at=_stamp(link.created_at),
                updated_at=_stamp(link.updated_at),
                tag_id=link.tag,
            )
            for link in links
        ]

    def tags(self) -> list[TrueTag]:
        """Return every tag, oldest first (ties by id)."""
        tags = sorted(self._store.all_tags(), key=lambda tag: (tag.created_at, tag.id))
        return [
            TrueTag(id=tag.id, name=tag.name, description=tag.description, created_at=_stamp(tag.created_at))
            for tag in tags
        ]

    def _tally(
        self, keys: Iterable[str] | None, tag: str | None, zone: tzinfo, holds: Callable[[date, int], bool]
    ) -> _Tally:
        tally = _Tally()
        for _, day, click in self._clicks(keys, tag, zone, holds):
            tally.add(day, click)
        return tally

    def _clicks(
        self,
        keys: Iterable[str] | None,
        tag: str | None,
        zone: tzinfo,
        holds: Callable[[date, int], bool],
    ) -> Iterator[tuple[str, date, Click]]:
        """Yield slashtag, local date and row of every selected click."""
        if keys is not None and tag is not None:
            raise TypeError("give keys or tag, not both")
        tag_ids = {found.name: found.id for found in self._store.all_tags()}
        if tag is not None and tag not in tag_ids:
            raise LookupError(f"no tag {tag!r}")
        chosen = None if keys is None else set(keys)
        wanted = {
            link.id: link.slashtag
            for link in self._store.all_links()
            if (chosen is None or link.slashtag in chosen) and (tag is None or link.tag == tag_ids[tag])
        }
        for click in self._store.log():
            if slashtag := wanted.get(click[0]):
                day = datetime.fromtimestamp(click[1], zone).date()
                if holds(day, click[1]):
                    yield slashtag, day, click

    def _period(
        self,
        keys: Iterable[str] | None,
        tag: str | None,
        zone: Zone,
        holds: Callable[[date, int], bool],
    ) -> TruePeriod:
        tally = self._tally(keys, tag, _zone(zone), holds)
        breakdown: dict[int, dict[int, int]] = {}
        for day, n in sorted(tally.days.items()):
            months = breakdown.setdefault(day.year, {})
            months[day.month] = months.get(day.month, 0) + n
        total = tally.days.total()
        names = self._names()
        return TruePeriod(
            clicks_total=total,
            clicks_unique=len(tally.visitors),
            clicks_repeated=total - len(tally.visitors),
            clicks_breakdown=breakdown,
            timezone=_sums(tally.places, names["timezone"]),
            **_common(tally, names),
        )

    def _range(self, tally: _Tally, span: "_Span", names: _Names) -> TrueRange:
        clicks = {day: tally.days[day] for day in span.days()}
        return TrueRange(total_clicks=tally.days.total(), clicks=clicks, **_common(tally, names))

    def _names(self) -> _Names:
        """Return the label of each row id, for each dimension."""
        place, agent, referrer = (self._store.labels(table) for table in ("place", "agent", "referrer"))
        return {
            "country": {id: labels[0] for id, labels in place.items()},
            "state": {id: labels[1] for id, labels in place.items()},
            "city": {id: labels[2] for id, labels in place.items()},
            "postalcode": {id: labels[3] for id, labels in place.items()},
            "timezone": {id: labels[4] for id, labels in place.items()},
            "device": {id: labels[0] for id, labels in agent.items()},
            "browser": {id: labels[1] for id, labels in agent.items()},
            "platform": {id: labels[2] for id, labels in agent.items()},
            "referrer": {id: labels[0] for id, labels in referrer.items()},
        }


def _common(tally: _Tally, names: _Names) -> dict[str, dict[str, int]]:
    return {
        "country": _sums(tally.places, names["country"]),
        "device": _sums(tally.agents, names["device"]),
        "browser": _sums(tally.agents, names["browser"]),
        "platform": _sums(tally.agents, names["platform"]),
        "referrer": _sums(tally.referrers, names["referrer"]),
    }


def _sums(counts: Counter[int], names: dict[int, str]) -> dict[str, int]:
    sums = Counter[str]()
    for id, n in counts.items():
        sums[names[id]] += n
    return dict(sums)


class _Span:
    """Range of whole days, or of instants."""

    def __init__(self, start: When, end: When, zone: tzinfo) -> None:
        self.zone = zone
        self._start, self._end = _when(start), _when(end)
        if isinstance(self._start, datetime) != isinstance(self._end, datetime):
            raise TypeError("start and end are both dates or both datetimes")

    def holds(self, day: date, at: int) -> bool:
        """Return whether a click of this local date and instant lies in the range."""
        if isinstance(self._start, datetime) and isinstance(self._end, datetime):
            return self._start.timestamp() <= at <= self._end.timestamp()
        return self._start <= day <= self._end

    def days(self) -> list[date]:
        """Return every local date of the range."""
        first, last = (
            when.astimezone(self.zone).date() if isinstance(when, datetime) else when
            for when in (self._start, self._end)
        )
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def read_instant(text: str) -> datetime:
    """Read an ISO 8601 date-time; ValueError for 24:00, which only Python 3.14 and later would read."""
    instant = datetime.fromisoformat(text)
    if instant.day != date.fromisoformat(re.split("[T ]", text)[0]).day:
        raise ValueError(f"the hour must be in 0..23: {text}")
    return instant


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
