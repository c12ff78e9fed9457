"""Click statistics: the public methods of `session.stats`, and what they have in common."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Any, Literal, TypeVar, overload

from msgspec.structs import replace

from .._clicks_table import ClicksTable
from .._core.batches import Batcher, Key, Keys, Selector, TagNames, in_fixed_order, select
from .._core.checks import Progress, check_int
from .._core.plan import Plan, make_plan
from .._core.queries import AllTime, CountryGeo, Query, Year, check_query
from .._core.windows import RangeEnd, Zone, parse_zone
from .._errors import InvalidRequestError
from .._fanout import Results, Tasks, WorkerPool
from .._sending.sender import Sender
from .._summed_statistics import RunningSum, Statistics
from .batch_reading import by_activity, read_batches, read_keys
from .by_tag import StatsByTag, collect_by_tag
from .collect import collect
from .collect_each import EachRun
from .failures import check_kind, check_missing, joined, plans_of
from .run_state import Failure, OnError, RunState
from .stats_fetcher import StatsFetcher
from .tags import Tags
from .top import rank
from .urls import Urls

R = TypeVar("R", bound=Statistics)


class Stats:
    """Click statistics of slashtags and tags.

    Queries: DateRange and Day give RangeStats, Year and AllTime PeriodStats, CountryGeo GeoStats. Selectors:
    exactly one of `keys` (slashtags or ShortUrls, any number; repeated ones count once), `tag` or `tags`.
    `timezone` is "+HH:MM", an IANA name, a tzinfo, or None for +00:00.

    A journal knows answers by the slashtags and the ids of their links (those of ShortUrls). It keeps none
    about a tag, to which other links may belong later, unless `tags` maps its name to its links as listed.

    A slashtag with a comma cannot be requested, because url_keys is separated by commas. It is passed to
    `on_error`. Without that a str raises InvalidRequestError, and a ShortUrl of a listing is skipped with a
    warning. See docs/service.md, Statistics: common selector.
    """

    def __init__(
        self,
        sender: Sender,
        tasks: Tasks,
        *,
        workers: int,
        max_keys_bytes: int,
        range_end: RangeEnd,
    ) -> None:
        self._sender = sender
        self._tasks = tasks
        self._workers = workers
        self._max_keys_bytes = max_keys_bytes
        self._range_end: RangeEnd = range_end

    def plan(
        self,
        query: Query[R],
        *,
        keys: Iterable[Key] | None = None,
        tag: str | None = None,
        tags: TagNames | None = None,
        timezone: Zone = None,
    ) -> Plan[R]:
        """Return the requests of a query without sending them, as a plan that can be pickled and split.

        Slashtags are sent in batches of at most 100, ranges in windows of at most 32 days. A request target
        has at most 8,000 bytes, as servers often limit it, which is not documented. Raises TypeError for a
        wrong selector, InvalidRequestError for other invalid arguments. See docs/service.md, Statistics:
        common selector; Limits.
        """
        if isinstance(keys, AsyncIterable):
            raise TypeError("a plan takes a plain iterable of slashtags; use to_list() first")
        state = RunState(None, None)  # counts slashtags that cannot be requested
        selectors = select(keys, tag, tags, self._batcher(state, is_sum=True))
        plan = make_plan(query, selectors, timezone, datetime.now(UTC), self._range_end)
        return replace(plan, missing=state.missing)

    async def run(
        self, plan: Plan[R], *, progress: Progress | None = None, on_error: OnError[R] | None = None
    ) -> R:
        """Send the requests of a plan and return the sum.

        `progress` is called with (requests done, total). See `collect` for errors and `on_error`.
        """
        return await self._run(self._fetcher(), plan, progress, on_error)

    async def _run(
        self, fetcher: StatsFetcher, plan: Plan[R], progress: Progress | None, on_error: OnError[R] | None
    ) -> R:
        state = RunState(progress, on_error)
        state.total, state.missing = len(plan), plan.missing
        return await collect(fetcher, plan, state, self._workers)

    @overload
    async def retry(
        self,
        partial: R,
        failures: Iterable[Failure[R]],
        *,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> R: ...

    @overload
    async def retry(
        self,
        partial: Mapping[str, R],
        failures: Iterable[Failure[R]],
        *,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> dict[str, R]: ...

    @overload
    async def retry(
        self,
        partial: ClicksTable,
        failures: Iterable[Failure[Any]],
        *,
        progress: Progress | None = None,
        on_error: OnError[Any] | None = None,
    ) -> ClicksTable: ...

    async def retry(
        self,
        partial: Statistics | Mapping[str, Statistics] | ClicksTable,
        failures: Iterable[Failure[Any]],
        *,
        progress: Progress | None = None,
        on_error: OnError[Any] | None = None,
    ) -> Any:
        """Request what a result lacks, as its failures tell, and return the whole result.

        `partial` is the result of `collect` or `run`, a mapping of those of `collect_each`, or that of
        `table`; it stays as it is. The whole is of the same kind, a dict for a mapping. It still lacks what
        fails again, if `on_error` gets that, and what cannot be requested (`Failure.plan`). `progress` is
        called with (failures done, total), or the slashtags of a mapping or table. Raises
        InvalidRequestError, before anything is sent, for failures of another result, and for one that is
        passed twice; TypeError for another `partial`; otherwise as `collect`.
        """
        plans = plans_of(failures)
        if isinstance(partial, Statistics):
            check_kind([partial], plans)
            check_missing(partial, plans)
            return await self._retry_sum(partial, plans, progress, on_error) if plans else partial
        if isinstance(partial, ClicksTable):
            check_missing(partial, plans)
            known = [key for key, *_ in partial._parts]
        elif isinstance(partial, Mapping):
            check_kind(partial.values(), plans)
            known = list(partial)
        else:
            raise TypeError("pass the partial result: statistics, a mapping of them, or a ClicksTable")
        if not plans:
            return partial if isinstance(partial, ClicksTable) else dict(partial)
        plan = joined(plans, known)
        state = RunState(progress, on_error)
        state.total = sum(len(selector.names) for selector in plan._selectors)
        each = self._run_each(plan, state)
        if not isinstance(partial, ClicksTable):
            async with each as results:
                return {**partial, **{key: stats async for key, stats in results}}
        name = "slashtag" if plan._selectors[0].tag is None else "tag"
        table, dates = empty_table(plan.query, name, dimensions="label" in partial.names)
        if table.names != partial.names:
            raise InvalidRequestError("the failures are of another kind of query than the table")
        table._begin_with(partial)
        async with each as results:
            async for key, stats in results:
                table._add(key, stats, dates)
        table._finish(partial.missing - len(plans) + state.missing)
        return table

    async def _retry_sum(
        self, partial: R, plans: Sequence[Plan[R]], progress: Progress | None, on_error: OnError[R] | None
    ) -> R:
        running_sum = RunningSum(type(partial))
        running_sum.add(partial)
        running_sum.add_missing(-len(plans))
        state = RunState(progress, None)
        state.total = len(plans)
        fetcher = self._fetcher()

        async def work(plan: Plan[R]) -> None:
            running_sum.add(await self._run(fetcher, plan, None, on_error))
            state.done()

        await WorkerPool(plans, work, self._workers).run()
        return running_sum.result()

    def _run_each(
        self,
        plan: Plan[R],
        state: RunState,
        batches: AsyncGenerator[Selector] | None = None,
        *,
        zone: tzinfo | None = None,
        inferred: bool = True,
        ordered: bool = False,
        fresh: bool = False,
    ) -> Results[tuple[str, R]]:
        """Iterate over the results of a plan, or of `batches`, as they complete.

        Without the `zone` of the plan no months are skipped.
        """
        run = EachRun(
            self._fetcher(fresh),
            plan,
            state,
            zone=zone,
            range_end=self._range_end,
            inferred=inferred,
            ordered=ordered,
            workers=self._workers,
        )
        return run.start(batches, self._tasks)

    async def collect(
        self,
        query: Query[R],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: TagNames | None = None,
        timezone: Zone = None,
        fresh: bool = False,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> R:
        """Return the sum over all selected links or tags, for a query of any size.

        Without slashtags the result is empty and nothing is sent. `keys` may be asynchronous
        (`session.urls.list()`), and is read first. `progress` is called with (requests done, total). With
        `on_error` a failed request is reported as a Failure and the others continue: the result is not
        `complete`, and `retry` requests what is missing. A batch that is refused (400, 403, 404, 413, 414) is
        split until the bad slashtag is isolated; authentication errors are always raised. `fresh` requests
        pass caches, and a journal replays none of them. Raises TypeError for a wrong selector,
        InvalidRequestError before anything is sent (but a listing that is read), and errors of requests with
        a note naming the batch and window. See docs/service.md, Statistics: common selector.
        """
        state = RunState(progress, on_error)
        check_query(query)
        if isinstance(keys, AsyncIterable) and tag is None and tags is None:
            keys = await read_keys(keys)
        selectors = select(keys, tag, tags, self._batcher(state, is_sum=True))
        plan = make_plan(query, selectors, timezone, datetime.now(UTC), self._range_end)
        state.total = len(plan)
        return await collect(self._fetcher(fresh), plan, state, self._workers)

    def collect_each(
        self,
        query: Query[R],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: TagNames | None = None,
        timezone: Zone = None,
        ordered: bool | Literal["hits"] = False,
        inferred: bool = True,
        earlier_hits: Mapping[str, int | None] | None = None,
        fresh: bool = False,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> Results[tuple[str, R]]:
        """Iterate over (slashtag or tag, its statistics), as they complete; with `ordered` in input order.

        A DateRange or a Day usually takes far fewer requests than one per slashtag: whole batches are
        requested, then parts of several batches at once, and what each slashtag has is inferred from the
        answers once they leave no other value. Those with clicks are requested once more, past caches and in
        other company; if they differ or a batch has changed meanwhile, what depends on it is requested anew.
        Days that are not over are inferred unless more than about one click is expected meanwhile. If parts
        of a batch do not add up to it, also when requested again, every slashtag is requested alone, and a
        warning logged. With three or more windows, months that all-time statistics show empty are skipped.
        Results come in groups, the first of which are small, unless they are `ordered`. `inferred=False`
        requests every slashtag alone and yields each as soon as it is known.

        ShortUrls are sorted by `hits`, unless `ordered` is True: fewest requests are needed if slashtags with
        clicks are adjacent. With `ordered="hits"` they are yielded in that order. `earlier_hits` has the hits
        of an earlier listing, by slashtag: links whose hits differ come first. Every slashtag is covered by
        a request, whatever its hits. `fresh` is that of `collect`.

        `progress` is called with (slashtags counted so far, total or None), in proportion to what is known of
        those under way. With `on_error` failures are reported and not yielded. Raises the errors of `collect`
        while iterating. See docs/service.md, Statistics: common selector.
        """
        state = RunState(progress, on_error)
        return self._each(state, query, keys, tag, tags, timezone, ordered, inferred, earlier_hits, fresh)

    async def by_tag(
        self,
        query: Query[R],
        *,
        timezone: Zone = None,
        fresh: bool = False,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> StatsByTag[R]:
        """Return the statistics of every tag by name, and under None those of links without a tag.

        Their sum, `total`, is that of the account, whose links and tags are listed first. A slashtag that
        links with and without a tag share is counted once, and named in `shared` of None; a link whose tag
        has no name that can be read counts under None. `progress` is called with (tags counted, total). With
        `on_error` a tag that failed has `missing`. Raises what `collect` raises.
        """
        check_query(query)
        query = query.resolve(None if timezone is None else parse_zone(timezone), datetime.now(UTC))
        links = await Urls(self._sender, self._tasks, self._workers).list().to_list()
        # Tags last: a link may have got one that was created meanwhile.
        tags = await Tags(self._sender, self._tasks).list().to_list()
        names = {tag.id: tag.name for tag in tags if tag.name}
        options: dict[str, Any] = {"timezone": timezone, "fresh": fresh}
        return await collect_by_tag(
            self.collect,
            self.collect_each,
            query,
            links,
            names,
            progress=progress,
            on_error=on_error,
            **options,
        )

    async def table(
        self,
        query: Query[Any],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: TagNames | None = None,
        dimensions: bool = False,
        timezone: Zone = None,
        inferred: bool = True,
        earlier_hits: Mapping[str, int | None] | None = None,
        progress: Progress | None = None,
        on_error: OnError[Any] | None = None,
    ) -> ClicksTable:
        """Return the clicks of each slashtag or tag as one table, which data frames take as it is.

        It has a row for every day of a DateRange or a Day, and for every month of a Year, zeros too; for each
        month with clicks of AllTime. With `dimensions` it has a row for each label with clicks instead:
        devices, countries, referrers and the like; CountryGeo has only these, and raises InvalidRequestError
        without `dimensions`. It is requested as by `collect_each`, whose other options and errors it has.
        With `on_error` the table lacks what failed, and is not `complete`.
        """
        state = RunState(progress, on_error)
        table, dates = empty_table(query, "tag" if keys is None else "slashtag", dimensions=dimensions)
        each = self._each(state, query, keys, tag, tags, timezone, False, inferred, earlier_hits, False)
        async with each as results:
            async for key, stats in results:
                table._add(key, stats, dates)
        table._finish(state.missing)
        return table

    def _each(
        self,
        state: RunState,
        query: Query[R],
        keys: Keys | None,
        tag: str | None,
        tags: TagNames | None,
        timezone: Zone,
        ordered: bool | Literal["hits"],
        inferred: bool,
        earlier_hits: Mapping[str, int | None] | None,
        fresh: bool,
    ) -> Results[tuple[str, R]]:
        sorts = ordered == "hits" or (inferred and not ordered)
        sort = partial(by_activity, earlier_hits=earlier_hits) if sorts else None
        if sort and keys is not None and not isinstance(keys, AsyncIterable | str | bytes):
            keys = sort(in_fixed_order(keys))
        batcher = self._batcher(state, by_activity=sorts)
        in_order = ordered is True
        selectors = select(keys, tag, tags, batcher, in_order=in_order)
        plan = make_plan(query, selectors, timezone, datetime.now(UTC), self._range_end)
        batches: AsyncGenerator[Selector] | None = None
        if isinstance(keys, AsyncIterable):
            batches = read_batches(aiter(keys), batcher, sort=sort, in_order=in_order)
        else:
            state.total = sum(len(selector.names) for selector in plan._selectors)
        zone = parse_zone(timezone)
        return self._run_each(
            plan, state, batches, zone=zone, inferred=inferred, ordered=bool(ordered), fresh=fresh
        )

    async def top(self, query: Query[R], n: int = 20, *, keys: Keys, timezone: Zone = None) -> dict[str, R]:
        """Return the `n` slashtags with most clicks and their statistics, the most first.

        Slashtags without clicks are left out. `keys` may be asynchronous (`session.urls.list()`); ShortUrls
        are counted in the order of their `hits`, which takes fewer requests. Batches of 100 are counted
        together, and halved only as long as they may have one of the first: the 20 first of 5,000 links take
        about 120 requests. Raises TypeError and InvalidRequestError for wrong arguments, and what `collect`
        raises. See docs/service.md, Statistics: common selector.
        """
        check_int("n", n, 1)
        check_query(query)
        stats = copy(self)
        stats._sender = self._sender.of_operation()
        return (await rank(stats, query, n, keys=keys, timezone=timezone)).stats

    def _fetcher(self, fresh: bool = False) -> StatsFetcher:
        """Return what requests the statistics of one operation, whose calls take turns with those of others.

        `Sender.of_operation` makes the `Flow` of these calls; see `_core/queue.py`.
        """
        return StatsFetcher(self._sender.of_operation(), fresh=fresh)

    def _batcher(self, state: RunState, *, by_activity: bool = False, is_sum: bool = False) -> Batcher:
        """Return the builder of batches; those that the journal's job has made `by_activity` are apart.

        From now on the journal replays no pages. Of a sum it is said which slashtags it may have twice.
        """
        by_job = None
        if (journal := self._sender.journal) is not None:
            journal.stop_replaying_pages()
            by_job = journal.made_batches(by_activity=by_activity)
        report = state.report_look_alike if is_sum else None
        return Batcher(self._max_keys_bytes, state.report_bad_key, by_job, report)


def empty_table(query: Query[Any], name: str, *, dimensions: bool) -> tuple[ClicksTable, dict[date, int]]:
    """Return a table for a query, and the months that all have there, zeros too.

    Raises InvalidRequestError for statistics without days.
    """
    middle = ("dimension", "label") if dimensions else ("date",)
    dates: dict[date, int] = {}
    if not dimensions and isinstance(query, Year | AllTime):
        middle = ("month",)
        dates = {date(query.year, n, 1): 0 for n in range(1, 13)} if isinstance(query, Year) else {}
    elif not dimensions and isinstance(query, CountryGeo):
        raise InvalidRequestError("statistics of a country have no days: pass dimensions=True")
    return ClicksTable((name, *middle, "clicks")), dates
