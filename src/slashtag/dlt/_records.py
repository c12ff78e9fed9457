"""What a load reports, and what it keeps and is given: records of tables, listings, days to load again."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, json

from .. import AsyncSession, ConfigurationError, Failure, Metrics, UnexpectedResponseError


@dataclass
class Monitor:
    """Callbacks of a load, and the counters of its session.

    `progress` is called with (table, series done, total or None) by another thread. `on_error` is called with
    each Failure and the others continue, as in `session.stats.collect_each`; without it the first is raised.
    `metrics` is None until the session is opened.
    """

    progress: Callable[[str, int, int | None], object] | None = None
    on_error: Callable[[Failure], object] | None = None
    metrics: Metrics | None = None

    def note(self, label: str, text: str, keys: tuple[str, ...] = (), tag: str | None = None) -> None:
        """Report what could not be found out; raises UnexpectedResponseError without `on_error`."""
        error = UnexpectedResponseError(text, status=200, repeatable=False)
        if self.on_error is None:
            raise error
        self.on_error(Failure(label, error, keys, tag))


class Series(Struct, frozen=True, omit_defaults=True):
    """What a load saw of a slashtag or tag: the ids and hits of what has this name, and its last clicks.

    `clicks` are by day, or by the first day of a month, without zeros. A tag has no hits, and neither has a
    slashtag about which answers disagreed: the next load asks about it again.
    """

    ids: tuple[int, ...]
    hits: int | None = None
    clicks: dict[date, int] = {}


class Listed(NamedTuple):
    """A listing: its Arrow table, its slashtags or tags, those with the most hits first, and the time.

    Requesting clicks in this order takes the fewest requests.
    """

    table: Any
    series: Mapping[str, Series]
    now: datetime


class Reload(Struct, frozen=True):
    """Days that are requested and loaded again, whatever is known of them.

    `span` is of all slashtags and tags; `days` are of some slashtags, with the clicks that are expected, as
    other rows are not loaded; and with them of the tags in `tag_ids`. With `only`, nothing else is loaded.
    Answers about `doubtful` slashtags disagreed.
    """

    span: tuple[date, date] | None = None
    days: Mapping[str, Mapping[date, int]] = {}
    tag_ids: Mapping[str, Collection[int]] = {}
    only: bool = False
    doubtful: Collection[str] = ()

    def days_of_tag(self, ids: Iterable[int]) -> set[date]:
        """Return the days of the slashtags with a tag that has one of these ids."""
        ids = set(ids)
        slashtags = [slashtag for slashtag, tags in self.tag_ids.items() if not ids.isdisjoint(tags)]
        return {day for slashtag in slashtags for day in self.days.get(slashtag, ())}


ReadListed = Callable[[AsyncSession], Awaitable[Listed]]
ReadReload = Callable[[AsyncSession], Awaitable[Reload]]


class TableRecord(Struct, frozen=True):
    """What a load has recorded of a table, as JSON in dlt's state.

    Loaded are the days from `since` to `through`, which was not over, of each slashtag or tag in `series`;
    these have their clicks from `recorded` on. One that failed, or whose answer contradicts itself, is left
    out, so that the next load requests all its days again. `zeros` says whether days without clicks have
    rows; `earlier` are the slashtags or tags without a series that may have some, None where that is unknown.
    """

    timezone: str
    base_url: str
    since: date
    recorded: date
    through: date
    dimensions: tuple[str, ...]
    series: dict[str, Series]
    zeros: bool = True
    earlier: tuple[str, ...] | None = None


def record_of(state: Mapping[str, Any], name: str = "clicks_daily") -> TableRecord | None:
    """Return what the last load recorded of a table, None if there is none; `state` is that of all tables.

    Raises ConfigurationError for a record of another version.
    """
    return _decoded(state.get("resources", {}).get(name, {}), name)


def checked_record(state: Mapping[str, Any], name: str, timezone: str, base_url: str) -> TableRecord | None:
    """Return what the last load recorded of the table whose state this is, None if it is not there.

    Raises ConfigurationError for a record of another version, time zone or service.
    """
    record = _decoded(state, name)
    if record is not None and (record.timezone, record.base_url) != (timezone, base_url):
        problem = f"the destination holds clicks of timezone {record.timezone}, of {record.base_url}"
        raise ConfigurationError(f"{problem}, not {timezone}, {base_url}: use another dataset")
    return record


def _decoded(state: Mapping[str, Any], name: str) -> TableRecord | None:
    if "record" not in state:
        return None
    try:
        return json.decode(state["record"], type=TableRecord)
    except ValidationError:
        problem = f"the destination has {name} of another version: use another dataset, or drop it"
        raise ConfigurationError(problem) from None
