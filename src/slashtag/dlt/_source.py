"""The dlt source: five resources over one session and its journal."""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import dlt

from .. import (
    AsyncSession,
    ConfigurationError,
    DateRange,
    ExportError,
    InvalidRequestError,
    RangeStats,
    ShortUrl,
    Tag,
    __version__,
    parse_zone,
)
from .._internal import ask_until_sure, remove_journal
from .._shared_slashtags import Links
from ..export import TAGS, URLS, tag_row, url_row
from ..tables import Column, Table, arrow_table
from ._account import bind, confirm_account
from ._incremental import ClicksLoad
from ._late import find_late
from ._listings import with_latest
from ._portal import in_own_thread, wait_for
from ._records import Listed, Monitor, ReadListed, Reload, Series, record_of

T = TypeVar("T")
R = TypeVar("R", ShortUrl, Tag)
log = logging.getLogger("slashtag")

#: Rows with the same primary key (or `merge_key`) are replaced. A load has no row twice: to look for such
#: rows would take DuckDB as much memory as all rows at once.
MERGE: Any = {"disposition": "merge", "strategy": "delete-insert", "deduplicated": True}

#: Tables of listings, all of whose rows each load replaces, in one transaction.
LISTED = ("links", "tags")
WHOLE: Any = {**MERGE, "destination_scope": "1 = 1"}
#: What each load says of itself.
LOADS = Table(
    (
        Column("loaded_at", "timestamp"),
        Column("account"),
        Column("timezone"),
        Column("since", "date"),
        Column("through", "date"),
        Column("complete", "bool"),
        Column("missing_links", "int"),
        Column("missing"),
        Column("requests", "int"),
        Column("seconds", "float"),
        Column("version"),
        Column("tables"),
    )
)
#: Share of the records of the last load that a listing has, or else it is read again; docstrings and the help
#: of --allow-shrink say that it lacks more than a tenth.
WHOLE_LISTING = 0.9
#: Names of missing links that a row of `loads` has, at most.
MOST_NAMES = 100


class ShrunkListingError(ExportError):
    """A listing lacks more than a tenth of what the last load saw, twice: nothing was loaded."""


@dlt.source(name="slashtag", section="slashtag")
def slashtag_source(
    base_url: str | None = None,
    apikey: dlt.TSecretStrValue | None = None,
    apisecret: dlt.TSecretStrValue | None = None,
    since: str | date = "",
    lookback: int = 3,
    timezone: str = "+00:00",
    dimensions: Iterable[str] = (),
    by_tag: bool = False,
    reload: tuple[str | date, str | date] | Reload | None = None,
    zeros: bool = True,
    allow_shrink: bool = False,
    session_options: Mapping[str, Any] | None = None,
    monitor: Any = None,
) -> Iterable[Any]:
    """Links, tags and clicks of an account, loaded incrementally.

    Resources and their keys: `links` and `tags` replace their tables. `clicks_daily` (slashtag, date) has the
    clicks of each link and day from `since` on; `final` is false for a day that was not over. Days without
    clicks are rows too, unless `zeros` is false. With `by_tag`, `clicks_by_tag` (tag, date) has the same for
    each tag. With `dimensions`, some of device, browser, platform, country and referrer,
    `clicks_by_dimension` (slashtag, month, dimension, label) has the clicks of each label in each month,
    given by its first day. Without these the tables are empty. `loads`, which is not selected, is for `load`:
    in the end it adds a row that says what the load was.

    The first load requests all days. Later ones request days that were not over, the `lookback` days before,
    for late clicks, and new links, or slashtags that other links have now, from `since`; only rows that
    differ are loaded. Of links whose hits changed, months before these days are compared with the
    destination, and loaded again where they differ. Of a day that was over and has fewer clicks now a second
    answer is asked for; if it is another one, nothing is changed, and `monitor.on_error` gets a Failure.
    `reload` (first and last day) has these days loaded again whatever is known of them. Rows of slashtags
    that no link has any more stay. dlt's state at the destination keeps
    the ids and hits of each slashtag and its clicks of the last days. An interrupted load continues with the
    journal in the pipeline's folder.

    A listing that lacks more than a tenth of the links or tags of the last load is read again, past caches;
    if it stays so, nothing is loaded, unless `allow_shrink` is true. An apikey that is not that of the last
    load is taken for a new one of its account where the links are the same.

    `timezone` is "+HH:MM" or the name of a zone. `session_options` are those of AsyncSession. Raises
    InvalidRequestError at once for wrong arguments, such as a `since` that is after today. Raises
    ConfigurationError if the destination holds days of another timezone, account or service, or was loaded by
    a newer version, or if this machine's clock and the `Date` of the service's answers are more than a day
    apart, ShrunkListingError, and errors of `session.stats.collect_each`, all wrapped by dlt: `load` unwraps
    them. See docs/service.md, List short URLs; Statistics for a date or date range.
    """
    first_day, _ = DateRange(since, since).bounds
    chosen = tuple(dimensions)
    if unknown := [name for name in chosen if name not in RangeStats.SUMS]:
        raise InvalidRequestError(f"no dimension {unknown[0]!r}: there are {', '.join(RangeStats.SUMS)}")
    today = datetime.now(parse_zone(timezone)).date()  # a zone is refused before anything is sent
    if first_day > today:
        raise InvalidRequestError(f"{since} is after today, {today}: there are no clicks yet")
    again = reload if isinstance(reload, Reload) else Reload()
    if reload is not None and not isinstance(reload, Reload):
        first, last = DateRange(*reload).span(parse_zone(timezone))
        if last < first_day or first > today:
            raise InvalidRequestError(f"no day from {first} to {last} is between {since} and {today}")
        again = Reload(span=(first, last))
    monitor = monitor or Monitor()
    load_session = LoadSession(
        monitor,
        allow_shrink=allow_shrink,
        base_url=base_url,
        apikey=apikey,
        apisecret=apisecret,
        **(session_options or {}),
    )

    def listing(name: str, read: ReadListed) -> Any:
        async def tables(session: AsyncSession) -> AsyncGenerator[Any, None]:
            yield (await read(session)).table

        def resource() -> Iterator[Any]:
            yield from load_session.iterate(tables)

        return dlt.resource(resource, name=name, write_disposition=WHOLE, primary_key="id")

    def clicks(
        name: str,
        read: ReadListed,
        key: tuple[str, ...],
        dimensions: tuple[str, ...] = (),
        *,
        is_loaded: bool = True,
    ) -> Any:
        """Return the resource of a table of clicks, which only creates it unless it is loaded."""

        def resource() -> Iterator[Any]:
            state = dlt.current.resource_state(name)
            table = ClicksLoad(name, key, state, first_day, lookback, timezone, monitor, dimensions, zeros)
            read_reload = partial(load_session.read_reload, again, parse_zone(timezone), lookback)
            if is_loaded:
                load_session.tables.append(table)
                yield from load_session.iterate(partial(table.tables, read, read_reload))
            elif not _has_table(dlt.current.pipeline(), name):
                yield table.empty()

        options: Any = {"name": name, "write_disposition": MERGE, "primary_key": key}
        if dimensions:
            # All rows of a month are replaced: a label may be gone, or all of them.
            options |= {"merge_key": ("slashtag", "month"), "columns": {"deleted": {"hard_delete": True}}}
        return dlt.resource(resource, **options)

    if not again.only:
        yield listing("links", load_session.list_links)
        yield listing("tags", load_session.list_tags)
    yield clicks("clicks_daily", load_session.list_links, ("slashtag", "date"))
    yield clicks("clicks_by_tag", load_session.list_tags, ("tag", "date"), is_loaded=by_tag)
    key = ("slashtag", "month", "dimension", "label")
    of = chosen or RangeStats.SUMS
    yield clicks("clicks_by_dimension", load_session.list_links, key, of, is_loaded=bool(chosen))

    def loads() -> Iterator[Any]:
        # A repair leaves what the last load said of all links.
        if not again.only:
            yield load_session.summary()

    yield dlt.resource(loads, name="loads", write_disposition="append", selected=False)


def _has_table(pipeline: Any, name: str) -> bool:
    return pipeline.default_schema_name is not None and name in pipeline.default_schema.tables


class LoadSession:
    """One session for all resources of a load, with a journal of its requests, and the listings.

    The session runs on an event loop in a thread of its own, because dlt's loop closes generators that are
    still running.
    """

    def __init__(self, monitor: Monitor, *, allow_shrink: bool, **session_options: Any) -> None:
        self.monitor = monitor
        #: Tables of clicks that are loaded.
        self.tables: list[ClicksLoad] = []
        self._allow_shrink = allow_shrink
        self._options = session_options
        self._began = time.monotonic()
        self._users = 0
        #: Slashtags whose statistics cannot be requested.
        self._uncountable: list[str] = []
        self._links: Listed | None = None
        self._tags: Listed | None = None
        self._now: datetime | None = None
        self._reload: Reload | None = None
        #: Whether two listings of links or of tags disagree.
        self._listings_differ = False

    def iterate(self, make: Callable[[AsyncSession], AsyncGenerator[T, None]]) -> Iterator[T]:
        """Yield what an async generator over the session yields; the first opens it, the last closes it."""
        if not self._users:
            with ExitStack() as stack:
                session = AsyncSession(**self._options, journal=journal_of(dlt.current.pipeline()))
                self._state, self._pipeline = dlt.current.source_state(), dlt.current.pipeline()
                self._new_key = bind(self._state, session)
                self.monitor.metrics = session.metrics
                self._portal, self._session = stack.enter_context(in_own_thread(session))
                self._stack = stack.pop_all()
        self._users += 1
        items = make(self._session)
        try:
            while True:
                found = wait_for(self._portal, anext, items, None)
                if found is None:
                    break
                yield found
            # Committed with the rows or not at all, so that an interrupted load finds its journal again.
            dlt.current.source_state()["loads"] = number_of_loads(dlt.current.pipeline().state) + 1
        finally:
            with suppress(RuntimeError):  # it is being cancelled
                self._portal.call(items.aclose)
            self._users -= 1
            if not self._users:
                self._stack.close()

    async def list_links(self, session: AsyncSession) -> Listed:
        """Return all links, listed once, and their slashtags."""
        if self._links is None:
            progress = self.monitor.progress and partial(self.monitor.progress, "links")

            async def read(anew: bool) -> list[ShortUrl]:
                listed = await session.urls.list(progress=progress, anew=anew).to_list()
                listed = await self._with_latest("links", session.urls, listed)
                if self._new_key is not None:
                    confirm_account(self._state, self._new_key, listed, session.base_url)
                    self._new_key = None
                return listed

            listed = await self._read_whole("links", read)
            links = await Links.read(session, listed)
            if links.uncountable:
                text = "%d links are left out of the clicks: statistics cannot be requested for %r"
                log.warning(text, len(links.uncountable), links.uncountable[0].slashtag)
                self._uncountable = [str(link.slashtag) for link in links.uncountable]
            series = {
                key: Series(tuple(sorted(link.id for link in links.by_slashtag[key])), hits)
                for key, hits in links.hits.most_common()
            }
            self._links = Listed(arrow_table(URLS, map(url_row, links.all)), series, self._present(session))
        return self._links

    async def _with_latest(self, name: str, resource: Any, listed: list[R]) -> list[R]:
        """Return a listing with what second answers add; note if they disagree."""
        found, disagree = await with_latest(resource, listed)
        if disagree:
            self._listings_differ = True
            self.monitor.note(name, "listings disagree, as those of a backend that lags behind do")
        return found

    async def list_tags(self, session: AsyncSession) -> Listed:
        """Return all tags, listed once; their listing has no hits."""
        if self._tags is None:

            async def read(anew: bool) -> list[Tag]:
                listed = await session.tags.list(anew=anew).to_list()
                return await self._with_latest("tags", session.tags, listed)

            if self._new_key is not None:
                await self.list_links(session)  # which tell whose account it is
            tags = await self._read_whole("tags", read)
            if unnamed := sum(not tag.name for tag in tags):
                log.warning("%d tags are left out of the clicks: their names cannot be read", unnamed)
            series = {tag.name: Series((tag.id,)) for tag in tags if tag.name}
            self._tags = Listed(arrow_table(TAGS, map(tag_row, tags)), series, self._present(session))
        return self._tags

    async def read_reload(self, given: Reload, zone: tzinfo, lookback: int, session: AsyncSession) -> Reload:
        """Return the days to load again: those that were given, and of late clicks, looked for once."""
        if self._reload is None:
            self._reload = given
            record = record_of(self._state)
            if record is not None and not given.only:
                self._reload = await find_late(
                    given,
                    record,
                    await self.list_links(session),
                    session,
                    self._pipeline,
                    zone=zone,
                    lookback=timedelta(days=lookback),
                    monitor=self.monitor,
                )
        return self._reload

    async def _read_whole(self, name: str, read: Callable[[bool], Awaitable[list[T]]]) -> list[T]:
        """Read a listing, and again, past caches, if it lacks more than a tenth of that of the last load.

        A replica that lags behind, or a listing that is cut short, would remove what it lacks.
        """
        before = self._state.setdefault("listed", {})
        last = before.get(name, 0)
        answers = await ask_until_sure(
            name, read, lambda found: len(found) < last * WHOLE_LISTING and f"{len(found):,}, before {last:,}"
        )
        listed = max(answers, key=len)
        if len(listed) < last * WHOLE_LISTING and not self._allow_shrink:
            raise ShrunkListingError(
                f"{len(listed):,} {name} are listed, twice, and the last load had {last:,}: "
                "nothing was loaded; run it again later, or with --allow-shrink if so many were deleted"
            )
        before[name] = len(listed)
        return listed

    def summary(self) -> Any:
        """Return what the load was, as a table of one row."""
        table = self.tables[0]
        missing = list(dict.fromkeys(chain(self._uncountable, *(each.missing for each in self.tables))))
        row = (
            datetime.now(UTC).replace(tzinfo=None),
            self._state.get("account", {}).get("key", "")[:32] or None,
            table.timezone,
            table.since,
            table.through,
            not (missing or self._listings_differ),
            len(missing),
            ",".join(missing[:MOST_NAMES]) or None,
            self.monitor.metrics.attempts if self.monitor.metrics else 0,
            round(time.monotonic() - self._began, 1),
            __version__,
            ",".join([*LISTED, *(each.name for each in self.tables)]),
        )
        return arrow_table(LOADS, [row])

    def _present(self, session: AsyncSession) -> datetime:
        """Return the time of the first listing, by the earlier of this machine's clock and the service's.

        By a clock that is ahead, days would be over that are not, and their clicks lost. Raises
        ConfigurationError if the clocks are more than a day apart. Without a Date in the answers this
        machine's counts.
        """
        if self._now is None:
            self._now = datetime.now(UTC)
            if (answered := session.metrics.oldest_answer) is not None:
                served = datetime.fromtimestamp(answered, UTC)
                if abs(self._now - served) > timedelta(days=1):
                    raise ConfigurationError(
                        f"this machine's clock says {self._now:%Y-%m-%d %H:%M} UTC, the service's "
                        f"{served:%Y-%m-%d %H:%M}: set the one that is wrong, or let no cache answer"
                    )
                self._now = min(self._now, served)
        return self._now


def number_of_loads(state: Mapping[str, Any]) -> int:
    """Return how many loads a pipeline's state has seen; not those of an extraction under way."""
    return max((source.get("loads", 0) for source in state.get("sources", {}).values()), default=0)


def journal_of(pipeline: dlt.Pipeline) -> Path:
    """Return the journal of a pipeline's next load, and remove those of loads that were committed.

    Its name has the number of loads that were committed, which dlt's state holds: the load after an
    interrupted one finds the same journal and requests only what it lacks.
    """
    folder = Path(pipeline.pipelines_dir)
    wanted = folder / f"{pipeline.pipeline_name}.{number_of_loads(pipeline.state)}.journal"
    for journal in folder.glob(f"{pipeline.pipeline_name}.*.journal"):
        if journal != wanted:
            remove_journal(journal)
    return wanted
