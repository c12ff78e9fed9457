"""Click statistics: the public methods of `session.stats`, and what they have in common."""

from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import UTC, date, datetime
from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import replace

from .._clicks_table import ClicksTable
from .._core.batches import Key, Keys, Selector, TagNames, check_selector, in_fixed_order, select
from .._core.checks import Progress, check_int
from .._core.plan import Plan, make_plan
from .._core.queries import AllTime, CountryGeo, DateRange, Query, Year, check_query
from .._core.windows import RangeEnd, Zone, parse_zone
from .._errors import InvalidRequestError
from .._fanout import Results, Tasks
from .._sending.sender import Sender
from .._summed_statistics import RunningSum, Statistics
from .by_tag import StatsByTag, collect_by_tag
from .collect import collect
from .collect_each import EachRun
from .keys import by_activity, read_keys
from .run_state import Failure, OnError, RunState
from .stats_fetcher import StatsFetcher
from .tags import Tags
from .top import first_places
from .urls import Urls

R = TypeVar("R", bound=Statistics)
#: From one place in so many links on a table of all takes fewer requests than `top`.
FEW_LINKS = 20


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
        paths: dict[str, str] | None = None,
    ) -> None:
        self._sender = sender
        #: The path that answers, of those that the document states and shows differently.
        self._paths = {} if paths is None else paths
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
        plan = self._plan(state, query, keys, tag, tags, timezone)
        return replace(plan, missing=state.missing)

    def _plan(
        self,
        state: RunState,
        query: Query[R],
        keys: Iterable[Key] | None,
        tag: str | None,
        tags: TagNames | None,
        timezone: Zone,
    ) -> Plan[R]:
        """Make a plan; a journal keeps the order of links, so that its job asks about the same batches."""
        check_selector(keys, tag, tags)
        if keys is not None and self._sender.journal is not None:
            named: dict[Any, Key] = {getattr(key, "id", key): key for key in in_fixed_order(keys)}
            keys = [named[name] for name in self._sender.journal.order(named)]
        selectors = select(keys, tag, tags, self._max_keys_bytes, state.report_bad_key)
        return make_plan(query, selectors, timezone, datetime.now(UTC), self._range_end)

    async def run(
        self, plan: Plan[R], *, progress: Progress | None = None, on_error: OnError[R] | None = None
    ) -> R:
        """Send the requests of a plan and return the sum.

        `progress` is called with (requests done, total). See `collect` for errors and `on_error`.
        """
        state = RunState(progress, on_error)
        state.total, state.missing = len(plan), plan.missing
        return await collect(self._fetcher(), plan, plan._requests(), state, self._workers)

    async def retry(
        self,
        partial: R,
        failures: Iterable[Failure[R]],
        *,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> R:
        """Request what the result of `collect` or `run` lacks, as its failures tell; return the whole result.

        It still lacks what fails again, if `on_error` gets that, and what cannot be requested
        (`Failure.plan`). `progress` is called with (requests done, total). For results by slashtag, or a
        table, collect the `keys` of the failures. Raises InvalidRequestError, before anything is sent, for
        failures of another result, and for one that is passed twice; otherwise as `collect`.
        """
        if not isinstance(partial, Statistics):
            raise TypeError("pass the partial result of `collect` or `run`")
        plans = [failure.plan for failure in failures if failure.plan is not None]
        lacking = sum(map(len, plans))
        if len({(plan.query, plan._selectors, plan._time_slices) for plan in plans}) < len(plans):
            raise InvalidRequestError("a failure is passed twice, and would be counted twice")
        if any(plan.query._answer_type.result_type is not type(partial) for plan in plans):
            raise InvalidRequestError("the failures are of another kind of query than the result")
        if lacking > partial.missing:
            raise InvalidRequestError(
                f"the result lacks {partial.missing} requests, and the failures are of {lacking}: pass the "
                "result that they are of; those of collect_each are of results by slashtag, say"
            )
        if not plans:
            return partial
        state = RunState(progress, on_error)
        state.total = lacking
        requests = chain.from_iterable(plan._requests() for plan in plans)
        running_sum = RunningSum(type(partial))
        running_sum.add(partial)
        running_sum.add_missing(-lacking)
        running_sum.add(await collect(self._fetcher(), plans[0], requests, state, self._workers))
        return running_sum.result()

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
        check_selector(keys, tag, tags)
        if isinstance(keys, AsyncIterable):
            keys = await read_keys(keys)
        plan = self._plan(state, query, keys, tag, tags, timezone)
        state.total = len(plan)
        return await collect(self._fetcher(fresh), plan, plan._requests(), state, self._workers)

    def collect_each(
        self,
        query: Query[R],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: TagNames | None = None,
        timezone: Zone = None,
        ordered: bool = False,
        inferred: bool = True,
        earlier_hits: Mapping[str, int | None] | None = None,
        fresh: bool = False,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> Results[tuple[str, R]]:
        """Iterate over (slashtag or tag, its statistics), as they complete; with `ordered` in input order.

        A DateRange or a Day usually takes far fewer requests than one per slashtag: whole batches are
        requested, then parts of several batches at once, and what each slashtag has is inferred from the
        answers once they leave no other value, and checked in other company. If a batch has changed
        meanwhile, what depends on it is requested anew. Days that are not over are inferred unless more than
        about one click is expected meanwhile. Slashtags that differ in case only, those of a batch that
        contradicts itself, and all with `inferred=False` are requested alone.

        Results come in groups, the first of which are small; with `inferred=False` each as soon as it is
        known. ShortUrls are sorted by `hits`, unless `ordered`: fewest requests are needed if slashtags with
        clicks are adjacent. `earlier_hits` has the hits of an earlier listing, by slashtag: links whose hits
        differ come first. Every slashtag is covered by a request, whatever its hits. `fresh` is that of
        `collect`.

        `progress` is called with (slashtags counted so far, total), in proportion to what is known of those
        under way. With `on_error` failures are reported, at the end, and not yielded. Raises the errors of
        `collect` while iterating. See docs/service.md, Statistics: common selector.
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
        ordered: bool,
        inferred: bool,
        earlier_hits: Mapping[str, int | None] | None,
        fresh: bool,
    ) -> Results[tuple[str, R]]:
        check_query(query)
        check_selector(keys, tag, tags)

        def plan_of(keys: Iterable[Key] | None) -> Plan[R]:
            if keys is not None and inferred and not ordered:
                keys = by_activity(in_fixed_order(keys), earlier_hits)
            return self._plan(state, query, keys, tag, tags, timezone)

        run = EachRun[R](
            self._fetcher(fresh), state, inferred=inferred, ordered=ordered, workers=self._workers
        )

        given = keys if isinstance(keys, AsyncIterable) else plan_of(keys)

        async def start() -> None:
            await run.run(given if isinstance(given, Plan) else plan_of(await read_keys(given)))

        return Results(self._tasks, start, run.results)

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
        check_selector(keys, None, None)
        given = await read_keys(keys) if isinstance(keys, AsyncIterable) else in_fixed_order(keys)
        state = RunState(None, None)
        plan = self._plan(state, query, by_activity(given), None, None, timezone)
        if isinstance(query, DateRange) and n * FEW_LINKS >= sum(len(each.keys) for each in plan._selectors):
            each = await self.collect_each(plan.query, keys=given, timezone=timezone).to_dict()
            first = sorted((key for key in each if each[key].total), key=lambda key: -each[key].total)
            return {key: each[key] for key in first[:n]}
        fetcher = self._fetcher()

        async def count(selector: Selector) -> R:
            only = plan._only(selector)
            return await collect(fetcher, only, only._requests(), state, self._workers)

        return await first_places(count, plan._selectors, n)

    def _fetcher(self, fresh: bool = False) -> StatsFetcher:
        """Return what sends the requests of one operation, which take turns with those of others."""
        return StatsFetcher(self._sender.of_operation(), self._paths, fresh=fresh)


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
