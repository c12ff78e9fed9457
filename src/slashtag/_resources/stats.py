"""Click statistics: the public methods of `session.stats`, and what they have in common."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from .._clicks_table import ClicksTable
from .._core.batches import Key, Keys, TagNames, check_selector, in_fixed_order, select
from .._core.checks import Progress, check_int
from .._core.queries import AllTime, CountryGeo, Plan, Query, Year, check_query, make_plan
from .._core.windows import RangeEnd, Zone, parse_zone
from .._errors import InvalidRequestError
from .._fanout import MOST_WAITING, Results, Tasks
from .._sending.sender import Sender
from .._summed_statistics import Statistics
from .by_tag import StatsByTag, collect_by_tag
from .collect_each import collect_each
from .listing import Listing
from .run import Failure, OnError, StatsRun
from .tags import Tags
from .top import first_places
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
        paths: dict[str, str],
    ) -> None:
        self._sender = sender
        #: The path that answers, of those that the document states and shows differently.
        self._paths = paths
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
        check_query(query)
        check_selector(1, keys=keys, tag=tag, tags=tags)
        run = self._run(None, None)  # counts slashtags that cannot be requested
        plan = self._plan(run, query, keys, tag, tags, timezone)
        return replace(plan, missing=run.missing)

    async def run(
        self, plan: Plan[R], *, progress: Progress | None = None, on_error: OnError[R] | None = None
    ) -> R:
        """Send the requests of a plan and return the sum.

        `progress` is called with (requests done, total). See `collect` for errors and `on_error`.
        """
        run = self._run(progress, on_error)
        run.missing = plan.missing
        return await run.collect(plan)

    async def retry(
        self,
        partial: R,
        failures: Iterable[Failure[Any]],
        *,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> R:
        """Request what the result of `collect` or `run` lacks, as its failures tell; return the whole result.

        It still lacks what fails again, if `on_error` gets that, and what cannot be requested
        (`Failure.plan`). `progress` is called with (requests done, total). For results by slashtag, or a
        table, collect the `keys` of the failures. Raises InvalidRequestError, before anything is sent, for
        failures of another kind of result, or of more than it lacks, as when some were retried already;
        otherwise as `collect`.
        """
        given = [failure.plan for failure in failures]
        plans = list(dict.fromkeys(filter(None, given)))
        lacking = sum(map(len, plans))
        if (
            not isinstance(partial, Statistics)
            or any(plan.query._answer_type.result_type is not type(partial) for plan in plans)
            # It lacks what cannot be requested too, and what was retried no longer.
            or lacking + given.count(None) > partial.missing
        ):
            raise InvalidRequestError(
                f"pass the result of `collect` or `run` that the failures, of {lacking} requests, are of"
            )
        if not plans:
            return partial
        found: R = await self._run(progress, on_error).collect(*plans)
        return replace(partial, missing=partial.missing - lacking) + found

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
        run = self._run(progress, on_error, fresh=fresh)
        return await run.collect(await self._read(run, query, keys, tag, tags, timezone))

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
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> Results[tuple[str, R]]:
        """Iterate over (slashtag or tag, its statistics), as they complete; with `ordered` in input order.

        A DateRange or a Day usually takes far fewer requests than one per slashtag: whole batches are
        requested, then parts of several batches at once, and what each slashtag has is inferred from the
        answers once they leave no other value, and checked in other company. What contradicts other
        answers, as it has changed meanwhile, is requested anew. Slashtags of a batch that contradicts
        itself, and all with `inferred=False`, are requested alone.

        Results come in groups, the first of which is small; with `inferred=False` each as soon as it is
        known. ShortUrls are sorted by `hits`, unless `ordered`: fewest requests are needed if slashtags with
        clicks are adjacent. Every slashtag is covered by a request, whatever its hits.

        `progress` is called with (steps done, total), of which each slashtag or tag has one for each window
        of 32 days. With `on_error` failures are reported, and not yielded. Raises the errors of
        `collect` while iterating. See docs/service.md, Statistics: common selector.
        """
        run = self._run(progress, on_error)
        read = partial(self._read, run, query, keys, tag, tags, timezone)
        return self._each(run, read, inferred=inferred, ordered=ordered)

    async def by_tag(
        self,
        query: Query[R],
        *,
        timezone: Zone = None,
        progress: Progress | None = None,
        on_error: OnError[R] | None = None,
    ) -> StatsByTag[R]:
        """Return the statistics of every tag by name, and under None those of links without a tag.

        Their sum, `total`, is that of the account, whose links and tags are listed first. A slashtag that
        links with and without a tag share is counted once, and named in `shared` of None, which does not
        reconcile if there were clicks meanwhile. Nor does None if a tag has no name that can be read, as its
        links count under None, or if a link was deleted or its tag changed before the links were listed
        again, at the end. `progress` is that of `collect_each`, of the tags. With `on_error` a tag that
        failed has `missing`, and None does not reconcile if it shares slashtags. Raises what `collect`
        raises.
        """
        check_query(query)
        self._run(progress, on_error)  # which checks them
        query = query.resolve(parse_zone(timezone), datetime.now(UTC))
        urls = Urls(self._sender, self._tasks, self._workers)
        links = await urls.list().to_list()
        # Tags last: a link may have got one that was created meanwhile.
        tags = await Tags(self._sender, self._tasks).list().to_list()
        collect = partial(self.collect, query, timezone=timezone, on_error=on_error)
        each = partial(self.collect_each, query, timezone=timezone, on_error=on_error, progress=progress)
        found = await collect_by_tag(collect, each, links, {tag.id: tag.name for tag in tags})
        # A link whose tag was changed meanwhile was counted twice, or not at all.
        after = {(link.id, link.tag_id) for link in await urls.list().to_list()}
        if not after.issuperset((link.id, link.tag_id) for link in links):
            found[None] = replace(found[None], reconciles=False)
        return found

    async def table(
        self,
        query: Query[Any],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: TagNames | None = None,
        dimensions: bool = False,
        timezone: Zone = None,
        progress: Progress | None = None,
        on_error: OnError[Any] | None = None,
    ) -> ClicksTable:
        """Return the clicks of each slashtag or tag as one table, which data frames take as it is.

        It has a row for every day of a DateRange or a Day, and for every month of a Year, zeros too; for each
        month with clicks of AllTime. With `dimensions` it has a row for each label with clicks instead:
        devices, countries, referrers and the like; CountryGeo has only these, and raises InvalidRequestError
        without `dimensions`. It is requested as by `collect_each`, whose progress and errors it has. With
        `on_error` the table lacks what failed, and is not `complete`.
        """
        run = self._run(progress, on_error)
        table, dates = empty_table(query, "tag" if keys is None else "slashtag", dimensions=dimensions)
        read = partial(self._read, run, query, keys, tag, tags, timezone)
        async with self._each(run, read) as each:
            async for key, stats in each:
                table._add(key, stats, dates)
        table._finish(run.missing)
        return table

    async def top(self, query: Query[R], n: int = 20, *, keys: Keys, timezone: Zone = None) -> dict[str, R]:
        """Return the `n` slashtags with most clicks and their statistics, the most first.

        Slashtags without clicks are left out. `keys` may be asynchronous (`session.urls.list()`); ShortUrls
        are counted in the order of their `hits`, which takes fewer requests. Batches of 100 are counted
        together, and halved only as long as they may have one of the first: the 20 first of 5,000 links take
        about 200 requests. None of them reconciles if any answer contradicted itself. Raises TypeError and
        InvalidRequestError for wrong arguments, and what `collect` raises. See docs/service.md, Statistics:
        common selector.
        """
        check_int("n", n, 1)
        run = self._run(None, None)
        plan = await self._read(run, query, keys, None, None, timezone, by_hits=True)
        return await first_places(lambda batch: run.collect(plan._only(batch)), plan._selectors, n)

    def _run(
        self, progress: Progress | None, on_error: OnError[Any] | None, *, fresh: bool = False
    ) -> StatsRun:
        """Return what sends the requests of one operation, which take turns with those of others."""
        sender = self._sender.of_operation()
        return StatsRun(sender, self._paths, self._workers, progress, on_error, fresh=fresh)

    def _plan(
        self,
        run: StatsRun,
        query: Query[R],
        keys: Iterable[Key] | None,
        tag: str | None,
        tags: TagNames | None,
        timezone: Zone,
    ) -> Plan[R]:
        """Make a plan; a journal keeps the order of links, so that its job asks about the same batches."""
        if keys is not None and self._sender.journal is not None:
            named: dict[Any, Key] = {getattr(key, "id", key): key for key in in_fixed_order(keys)}
            keys = [named[name] for name in self._sender.journal.order(named)]
        selectors = select(keys, tag, tags, self._max_keys_bytes, run.report_bad_key)
        return make_plan(query, selectors, timezone, datetime.now(UTC), self._range_end)

    async def _read(
        self,
        run: StatsRun,
        query: Query[R],
        keys: Keys | None,
        tag: str | None,
        tags: TagNames | None,
        timezone: Zone,
        *,
        by_hits: bool = False,
    ) -> Plan[R]:
        """Read asynchronous keys, and make the plan.

        With `by_hits` links that are likely to have clicks are adjacent, which only takes fewer requests.
        """
        check_query(query)
        check_selector(1, keys=keys, tag=tag, tags=tags)
        plain: Any = keys
        if isinstance(keys, Listing):
            plain = await plain.to_list()
        elif hasattr(keys, "__aiter__"):
            plain = [key async for key in plain]
        if plain is not None and by_hits:
            plain = sorted(in_fixed_order(plain), key=lambda key: -(getattr(key, "hits", None) or 0))
        return self._plan(run, query, plain, tag, tags, timezone)

    def _each(
        self,
        run: StatsRun,
        read: Callable[..., Awaitable[Plan[R]]],
        *,
        inferred: bool = True,
        ordered: bool = False,
    ) -> Results[tuple[str, R]]:
        """Return the results by name of the plan that `_read` makes, given `by_hits`."""
        results = asyncio.Queue[tuple[str, R]](MOST_WAITING)

        async def work() -> None:
            plan = await read(by_hits=inferred and not ordered)
            await collect_each(run, plan, results, inferred=inferred, ordered=ordered)

        return Results(self._tasks, work, results)


def empty_table(query: Query[Any], name: str, *, dimensions: bool) -> tuple[ClicksTable, dict[date, int]]:
    """Return a table for a query, and the months that all have there, zeros too.

    Raises InvalidRequestError for statistics without days.
    """
    middle = ("dimension", "label") if dimensions else ("date",)
    dates = dict[date, int]()
    if not dimensions and isinstance(query, Year | AllTime):
        middle = ("month",)
        dates = {date(query.year, n, 1): 0 for n in range(1, 13)} if isinstance(query, Year) else {}
    elif not dimensions and isinstance(query, CountryGeo):
        raise InvalidRequestError("statistics of a country have no days: pass dimensions=True")
    return ClicksTable((name, *middle, "clicks")), dates
