"""Audits: what a warehouse or a file holds of clicks, proved by the service's own sums, and repaired."""

import os
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import dlt
from msgspec import Struct, field
from msgspec.structs import replace

from .. import (
    AllTime,
    AsyncSession,
    ConfigurationError,
    DateRange,
    ExportError,
    InvalidRequestError,
    ShortUrl,
    SlashtagError,
    parse_zone,
)
from .._internal import DAY, UncachedStatistics, in_thread
from .._shared_slashtags import Links
from ._account import bind, confirm_account
from ._calling import calling_dlt
from ._compare import Comparison, Difference, Unproved, counted_days
from ._held import Held, held_at, held_in
from ._pipeline import _file_locked, _loads_at_destination, _place_of, load, name_of
from ._portal import in_own_thread, wait_for
from ._records import Monitor, Reload, Series, TableRecord, record_of
from ._source import slashtag_source

T = TypeVar("T")
#: Answers may be dated so many seconds before the listing: clocks of backends differ.
_CLOCKS_DIFFER = 300.0
#: A page is listed ahead for each so many links.
_LINKS_A_PAGE_AHEAD = 5_000
#: A repair may uncover differences that others cancelled: so many are made at most.
_REPAIRS = 3
#: What a file does not say by its rows: the option, and the name in the metadata that an export writes.
_OF_FILE = {"timezone": "timezone", "since": "start", "until": "end"}


class Audit(Struct, frozen=True, kw_only=True):
    """Result of an audit of the days from `first` to `last` of `links` slashtags, in a time zone.

    `differences` are days of links that are held otherwise than the service counts them; `repaired` are those
    that were loaded again. `unproved` are slashtags about which the service's answers contradict each other,
    failed, or say nothing because other links have them since the load. No faults, and left out or compared
    under their new name, are: `renamed` slashtags (old name -> present one), `gone` ones, which no link has
    any more and whose rows stay, and of a file slashtags that are `not_held`. `repair_requests` are those of
    the load alone.
    """

    first: date
    last: date
    timezone: str
    links: int
    differences: tuple[Difference, ...] = ()
    unproved: tuple[Unproved, ...] = ()
    repaired: tuple[Difference, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    gone: tuple[str, ...] = ()
    not_held: tuple[str, ...] = ()
    repair_requests: int = 0

    @property
    def is_proved(self) -> bool:
        """Whether all that was compared is what the service counts."""
        return not (self.differences or self.unproved)


class _Subject(Struct, frozen=True):
    """What is audited; `series` are those of the last load, None for a file."""

    held: Held
    first: date
    last: date
    timezone: str
    series: Mapping[str, Series] | None = None
    loaded: date | None = None
    names_all: bool = True


def audit(
    pipeline: dlt.Pipeline,
    *,
    base_url: str | None = None,
    apikey: str | None = None,
    apisecret: str | None = None,
    repair: bool = False,
    by_day: bool = False,
    session_options: Mapping[str, Any] | None = None,
    monitor: Monitor | None = None,
) -> Audit:
    """Compare `clicks_daily` of a warehouse with the service, in about one request for a hundred links.

    All-time statistics have the sum of each month; months that differ are taken apart down to link and day.
    Days are compared from `since` of the warehouse to the day before its last load, in its time zone. With
    `by_day`, sums of days are compared instead of months, in a request for each month and hundred links:
    faults that cancel out within a month are seen too. With `repair`, days that differ are loaded again, and
    compared again. `base_url`, `apikey` and `apisecret` are those of AsyncSession.

    Raises ConfigurationError if the warehouse holds another account, whose apikey and links these are not,
    and before anything is requested if it is of another service; ExportError if it holds no load, if a load
    is under way, or has changed it meanwhile; errors of requests that all others would have too. Links of
    requests that fail otherwise are `unproved`. See
    docs/service.md, Statistics for all time; Statistics for a date or date range.
    """
    monitor = monitor or Monitor()
    login = {"base_url": base_url, "apikey": apikey, "apisecret": apisecret}
    with calling_dlt(name_of(pipeline), _place_of(pipeline)):
        with _file_locked(Path(pipeline.pipelines_dir) / "slashtag"):
            pipeline.drop()
            pipeline.sync_destination()
        state, record = _state_of(pipeline)
        subject = _Subject(
            held_at(pipeline),
            record.since,
            record.through - DAY,
            record.timezone,
            series=record.series,
            loaded=record.through,
        )
        run = _AuditRun(subject, by_day, monitor)

        def check(session: AsyncSession) -> None:
            if record.base_url != session.base_url:
                raise ConfigurationError(
                    f"the destination holds clicks of {record.base_url}, not {session.base_url}"
                )
            if (new_key := bind(state, session)) is not None:
                run.confirm = partial(confirm_account, state, new_key, base_url=session.base_url)

        with _session(login, session_options, monitor, check) as call:
            found = call(run.run)
            for _ in range(_REPAIRS if repair else 0):
                # What a renamed slashtag has is loaded under its new name, by the next ordinary load.
                differences = [each for each in found.differences if each.slashtag not in found.renamed]
                if not differences:
                    break
                requests = found.repair_requests + _load_again(
                    pipeline, differences, record, state, run.tags_of, login, session_options, monitor
                )
                state, _ = _state_of(pipeline)
                again = call(partial(run.run_again, found))
                repaired = {*found.repaired, *found.differences} - {*again.differences}
                found = replace(again, repaired=_sorted(repaired), repair_requests=requests)
        if _loads_at_destination(pipeline) != state.get("loads", 0):
            raise ExportError("another load has changed the destination meanwhile: audit it again")
    return found


def audit_file(
    path: str | os.PathLike[str],
    *,
    timezone: str | None = None,
    since: str | date | None = None,
    until: str | date | None = None,
    all_links: bool = False,
    base_url: str | None = None,
    apikey: str | None = None,
    apisecret: str | None = None,
    by_day: bool = False,
    session_options: Mapping[str, Any] | None = None,
    monitor: Monitor | None = None,
) -> Audit:
    """Compare a file of `slashtag export clicks`, Parquet, CSV or JSON Lines, with the service; see `audit`.

    A file without metadata does not say in which `timezone` its days are, nor the days that it should hold,
    `since` to `until`; raises InvalidRequestError if one is missing. Its slashtags are compared; with
    `all_links` it should hold every link of the account.
    """
    held, metadata = held_in(Path(path))
    given = {"timezone": timezone, "since": since, "until": until}
    told = {name: given[name] or metadata.get(f"slashtag.{key}") for name, key in _OF_FILE.items()}
    if missing := [f"--{name}" for name, value in told.items() if not value]:
        raise InvalidRequestError(f"{path} does not say its zone and days: give {', '.join(missing)}")
    zone = str(told["timezone"])
    first, last = DateRange(str(told["since"]), str(told["until"])).bounds
    yesterday = datetime.now(parse_zone(zone)).date() - DAY
    if first > yesterday:
        raise InvalidRequestError(f"{first} is not over: no day of {path} can be audited")
    subject = _Subject(held, first, min(last, yesterday), zone, names_all=all_links)
    monitor = monitor or Monitor()
    login = {"base_url": base_url, "apikey": apikey, "apisecret": apisecret}
    with _session(login, session_options, monitor, lambda _: None) as call:
        return call(_AuditRun(subject, by_day, monitor).run)


def _state_of(pipeline: dlt.Pipeline) -> tuple[dict[str, Any], TableRecord]:
    """Return a copy of what the destination keeps of its loads, and of clicks by day.

    Raises ExportError if there is no load, ConfigurationError for one of another version.
    """
    for state in pipeline.state.get("sources", {}).values():
        if (record := record_of(state)) is not None:
            return deepcopy(dict(state)), record
    raise ExportError("the destination holds no finished load of clicks: run `slashtag sync` first")


class _Call(Protocol):
    """Calls a coroutine function with a session, in the session's event loop."""

    def __call__(self, function: Callable[[AsyncSession], Awaitable[T]], /) -> T: ...


@contextmanager
def _session(
    login: Mapping[str, Any],
    session_options: Mapping[str, Any] | None,
    monitor: Monitor,
    check: Callable[[AsyncSession], object],
) -> Generator[_Call, None, None]:
    """Open a session in a thread of its own; gives what calls a function with it there."""
    session = AsyncSession(**login, **(session_options or {}))
    check(session)
    monitor.metrics = session.metrics
    with in_own_thread(session) as (portal, opened):

        def call(function: Callable[[AsyncSession], Awaitable[T]]) -> T:
            return wait_for(portal, function, opened._as_one_operation())

        yield call


class _AuditRun:
    """One audit, and the comparison after a repair."""

    def __init__(self, subject: _Subject, by_day: bool, monitor: Monitor) -> None:
        self._subject, self._by_day, self._monitor = subject, by_day, monitor
        self._zone: tzinfo = parse_zone(subject.timezone)
        #: Called with all links where the apikey is new; raises if they are those of another account.
        self.confirm: Callable[[list[ShortUrl]], object] | None = None

    async def run(self, session: AsyncSession) -> Audit:
        """Return the result of an audit."""
        subject = self._subject
        first, last = subject.first, subject.last
        # Pages behind the last one are asked for where many are asked for ahead.
        ahead = max(1, len(subject.series or ()) // _LINKS_A_PAGE_AHEAD)
        self._links = await Links.read(session, keys=session.urls.list(anew=True, prefetch=ahead))
        listed = self._links.by_slashtag
        if self.confirm is not None:
            self.confirm(self._links.all)
        result = Audit(first=first, last=last, timezone=subject.timezone, links=len(listed))
        if first > last:
            return result
        oldest = session.metrics.oldest_answer
        self._source = UncachedStatistics(session.stats, 0.0 if oldest is None else oldest - _CLOCKS_DIFFER)
        asked: dict[str, Sequence[ShortUrl]] = {**listed}
        renamed, moved = dict[str, str](), list[str]()
        if subject.series is not None:
            asked, renamed, moved = _match(subject.series, listed)
        else:
            months = await in_thread(partial(subject.held.months, first, last))
            if not subject.names_all:
                asked = {key: links for key, links in listed.items() if key in months}
        self._held_as = {new: old for old, new in renamed.items()}
        comparison = await self._compare(asked, tests=True)
        names = {self._held_as.get(key, key) for key in asked} | {*moved}
        gone = sorted(set(comparison.held_slashtags) - names)
        unproved = [*comparison.unproved, *await self._check_gone(session, gone)]
        if moved:
            reason = "other links have it since the load, which the next `slashtag sync` loads"
            unproved.append(Unproved(tuple(moved), reason))
        if uncountable := tuple(link.slashtag or str(link.id) for link in self._links.uncountable):
            unproved.append(Unproved(uncountable, "statistics of it cannot be requested"))
        return replace(
            result,
            links=len(asked),
            differences=_sorted(comparison.differences),
            unproved=tuple(unproved),
            renamed=renamed,
            gone=tuple(gone),
            not_held=tuple(sorted(listed.keys() - asked.keys() - {*moved})),
        )

    async def run_again(self, found: Audit, session: AsyncSession) -> Audit:
        """Return the result of comparing again the batches of links that differed."""
        listed = self._links.by_slashtag
        asked = {key: links for key, links in listed.items() if key in self._touched}
        comparison = await self._compare(asked, tests=False)
        again = {each.slashtags: each for each in (*found.unproved, *comparison.unproved)}
        return replace(found, differences=_sorted(comparison.differences), unproved=tuple(again.values()))

    async def _compare(self, asked: Mapping[str, Sequence[ShortUrl]], *, tests: bool) -> Comparison:
        subject, monitor = self._subject, self._monitor
        series = subject.series or {}
        names = {self._held_as.get(key, key) for key in asked}
        comparison = Comparison(
            self._source,
            subject.held,
            asked,
            (subject.first, subject.last),
            self._zone,
            held_as=self._held_as,
            has_rows=names if subject.series is None else names & series.keys(),
            loaded=subject.loaded,
            unclicked={key for key, links in asked.items() if _has_hits_of(series.get(key), links)},
            by_day=self._by_day,
            progress=monitor.progress and partial(monitor.progress, "audit"),
        )
        await comparison.run(tests=tests)
        self._touched = comparison.touched
        return comparison

    async def _check_gone(self, session: AsyncSession, gone: Collection[str]) -> list[Unproved]:
        """Make sure that no link has these slashtags: a listing that was cut short has lost some."""
        for batch in self._source.batches(gone):
            with suppress(SlashtagError):
                if not (await self._source.ask(AllTime(), batch, UTC, again=True)).total:
                    continue
            # Either links have them after all, or the service goes on counting them, or refuses them.
            again = await Links.read(session, keys=session.urls.list(anew=True))
            if lost := sorted(again.by_slashtag.keys() & {*gone}):
                return [Unproved(tuple(lost), "missing in one of two listings: audit again later")]
            break
        return []

    def tags_of(self, slashtags: Collection[str]) -> dict[str, set[int]]:
        """Return the ids of the tags that links of slashtags, by the name of their rows, have."""
        found: dict[str, set[int]] = {}
        for key, links in self._links.by_slashtag.items():
            if (name := self._held_as.get(key, key)) in slashtags:
                found[name] = {link.tag_id for link in links if link.tag_id is not None}
        return found


def _match(
    series: Mapping[str, Series], listed: Mapping[str, Sequence[ShortUrl]]
) -> tuple[dict[str, Sequence[ShortUrl]], dict[str, str], list[str]]:
    """Tell by the ids of links which slashtags were renamed since the load.

    Returns the links to ask about, by slashtag; present names of renamed slashtags; and slashtags that cannot
    be compared, as they have some of the links that they, or another one, had.
    """
    by_ids = {each.ids: key for key, each in series.items()}
    known = {id for each in series.values() for id in each.ids}
    asked: dict[str, Sequence[ShortUrl]] = {}
    renamed: dict[str, str] = {}
    moved: list[str] = []
    for key, links in listed.items():
        ids = tuple(sorted(link.id for link in links))
        if key in series and series[key].ids == ids:
            asked[key] = links
        elif (old := by_ids.get(ids)) is not None:
            asked[key], renamed[old] = links, key
        elif key in series or not known.isdisjoint(ids):
            moved.append(key)
        else:
            asked[key] = links
    return asked, renamed, moved


def _has_hits_of(series: Series | None, links: Sequence[ShortUrl]) -> bool:
    return series is not None and series.hits is not None and series.hits == sum(x.hits or 0 for x in links)


def _sorted(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted(differences, key=lambda each: (each.slashtag, each.date)))


def _load_again(
    pipeline: dlt.Pipeline,
    differences: Sequence[Difference],
    record: TableRecord,
    state: Mapping[str, Any],
    tags_of: Callable[[Collection[str]], dict[str, set[int]]],
    login: Mapping[str, Any],
    session_options: Mapping[str, Any] | None,
    monitor: Monitor,
) -> int:
    """Load the days of differences, and what other tables of clicks hold of them, by an ordinary merge.

    Returns the number of requests.
    """
    days = counted_days(differences)
    by_dimension = record_of(state, "clicks_by_dimension")
    of_load = Monitor(monitor.progress, monitor.on_error)
    source = slashtag_source(
        **login,
        session_options=session_options,
        since=record.since,
        timezone=record.timezone,
        dimensions=() if by_dimension is None else by_dimension.dimensions,
        by_tag=record_of(state, "clicks_by_tag") is not None,
        reload=Reload(days=days, tag_ids=tags_of(days), only=True),
        monitor=of_load,
    )
    load(pipeline, source)
    return 0 if of_load.metrics is None else of_load.metrics.attempts
