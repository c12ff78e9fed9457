"""Click statistics as SQL queries over the click log."""
# ruff: noqa: S608 - only names from this file are put into a query; values are bound

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from .store import LABELS, Store

DAY = 86_400
EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Selector:
    """Selection of the links with a tag, or with any of these slashtags."""

    tag_id: int | None = None
    slashtags: Sequence[str] = ()

    def sql(self) -> tuple[str, list[object]]:
        """Return the subquery for the ids of the links, and its parameters."""
        if self.tag_id is not None:
            return "SELECT id FROM link WHERE tag = ?", [self.tag_id]
        marks = ", ".join("?" * len(self.slashtags))
        return f"SELECT id FROM link WHERE slashtag IN ({marks})", list(self.slashtags)


@dataclass(slots=True)
class Counts:
    """Counts of one request; days are dates in its offset."""

    total: int = 0
    unique: int = 0
    days: dict[date, int] = field(default_factory=dict[date, int])
    maps: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])


def unknown_slashtags(store: Store, slashtags: Sequence[str]) -> list[str]:
    """Return the slashtags that no link has."""
    marks = ", ".join("?" * len(slashtags))
    known = {
        row[0] for row in store.names(f"SELECT slashtag FROM link WHERE slashtag IN ({marks})", slashtags)
    }
    return [slashtag for slashtag in slashtags if slashtag not in known]


def count(store: Store, selector: Selector, start: int, end: int, offset: int) -> Counts:
    """Count the clicks from `start` to before `end`, in Unix seconds.

    Days are those of a zone `offset` seconds east of UTC. The rows are fetched once and summed by column:
    for the few thousand rows of a usual request this is faster than one GROUP BY for each dimension.
    """
    links, values = selector.sql()
    rows = store.rows(
        "SELECT place, agent, referrer, visitor, (at + ?) / ? FROM click"
        f" WHERE link IN ({links}) AND at >= ? AND at < ?",
        [offset, DAY, *values, start, end],
    )
    if not rows:
        names = ("country", "timezone", "device", "browser", "platform", "referrer")
        return Counts(maps={name: Counter() for name in names})
    places, agents, referrers, visitors, days = zip(*rows, strict=True)
    maps = _named(store, "place", Counter(places), ("country", "timezone"))
    maps |= _named(store, "agent", Counter(agents), ("device", "browser", "platform"))
    maps |= {"referrer": _named(store, "referrer", Counter(referrers), ("name",))["name"]}
    by_day = {date.fromordinal(EPOCH + day): n for day, n in sorted(Counter(days).items())}
    return Counts(total=len(rows), unique=len(set(visitors)), days=by_day, maps=maps)


def count_all(store: Store, selector: Selector, offset: int) -> Counts:
    """Count every click; days are those of a zone `offset` seconds east of UTC."""
    return count(store, selector, -(2**62), 2**62, offset)


def count_country(
    store: Store, selector: Selector, start: int, end: int, country: str
) -> dict[str, Counter[str]]:
    """Count a country's clicks by state, city and postal code, from `start` to before `end`, Unix seconds."""
    links, values = selector.sql()
    rows = store.rows(
        f"SELECT place, count(*) FROM click WHERE link IN ({links}) AND at >= ? AND at < ?"
        " AND place IN (SELECT id FROM place WHERE country = ?) GROUP BY place",
        [*values, start, end, country],
    )
    return _named(store, "place", {row[0]: row[1] for row in rows}, ("state", "city", "postalcode"))


def whole_days(start: date, end: date, offset: int) -> tuple[int, int]:
    """Return the Unix seconds from the first second of `start` to before the first one after `end`."""
    first = (start.toordinal() - EPOCH) * DAY - offset
    return first, (end.toordinal() + 1 - EPOCH) * DAY - offset


def days_between(start: date, end: date) -> list[date]:
    """Return every date from `start` to `end`, both included."""
    return [start + timedelta(days=n) for n in range((end - start).days + 1)]


def _named(
    store: Store, table: str, by_id: Mapping[int, int], columns: Sequence[str]
) -> dict[str, Counter[str]]:
    """Sum counts by row id into one map of labels for each column, most clicked first."""
    labels = store.labels(table)
    maps: dict[str, Counter[str]] = {}
    for column in columns:
        place = LABELS[table].index(column)
        sums = Counter[str]()
        for id, n in by_id.items():
            sums[labels[id][place]] += n
        # Ties are ordered by label, so that an answer does not depend on the order of rows.
        maps[column] = Counter(dict(sorted(sums.items(), key=lambda entry: (-entry[1], entry[0]))))
    return maps
