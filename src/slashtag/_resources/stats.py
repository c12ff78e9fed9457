"""Click statistics: public methods for `collect` and `collect_each`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeVar

from .._core.batches import Selector, batches, by_activity, check_slashtag, check_tag, plain_batches
from .._core.call import Call
from .._core.plan import Plan, make_plan
from .._core.queries import Query
from .._core.windows import parse_zone
from .._errors import InvalidRequestError
from .._fanout import Results, Tasks
from .._models import Statistics
from .._sending.sender import Send
from .collect import (
    Collector,
    Key,
    Keys,
    Memory,
    OnError,
    ProgressReporter,
    ReportBadKey,
    StatsSender,
    read_batches,
    sort_by_activity,
)
from .collect_each import PerKeyRun
from .listing import Progress

R = TypeVar("R", bound=Statistics)

Zone = str | tzinfo | None


class Stats:
    """Click statistics of slashtags and tags.

    Queries: DateRange and Day give RangeStats, Year and AllTime PeriodStats, CountryGeo GeoStats. Selectors:
    exactly one of `keys` (slashtags or ShortUrls, any number; repeated ones count once), `tag` or `tags`.
    `timezone` is "+HH:MM", an IANA name, a tzinfo, or None for +00:00.

    A slashtag with a comma cannot be requested, because url_keys is separated by commas. As a str it raises
    InvalidRequestError before anything is sent. As a ShortUrl of a listing it is passed to `on_error`;
    without `on_error` it is skipped and a warning logged. See docs/service.md, Statistics: common selector.
    """

    def __init__(
        self,
        send: Send,
        tasks: Tasks,
        *,
        workers: int,
        max_keys_bytes: int,
        range_end: str,
        memory: Memory,
        replayed_from: Callable[[Call[Any]], float | None],
    ) -> None:
        self._tasks = tasks
        self._workers = workers
        self._max_keys_bytes = max_keys_bytes
        self._range_end = range_end
        self._sender = StatsSender(send, memory, replayed_from)

    def plan(
        self,
        query: Query[R],
        *,
        keys: Iterable[Key] | None = None,
        tag: str | None = None,
        tags: Iterable[str] | None = None,
        timezone: Zone = None,
    ) -> Plan[R]:
        """Return the requests of a query without sending them, as a plan that can be pickled and split.

        Slashtags are sent in batches of at most 100 whose request target stays under 8,000 bytes, ranges in
        windows of at most 32 days. Raises TypeError for a wrong selector, InvalidRequestError for other
        invalid arguments. See docs/service.md, Statistics: common selector; Limits.
        """
        _check_selector(keys, tag, tags)
        if isinstance(keys, AsyncIterable):
            raise TypeError("a plan takes a plain iterable of slashtags; use to_list() first")
        selectors = self._selectors(query, keys, tag, tags)
        return make_plan(query, selectors, parse_zone(timezone), _now(), self._range_end)

    async def run(
        self, plan: Plan[R], *, progress: Progress | None = None, on_error: OnError | None = None
    ) -> R:
        """Send the requests of a plan and return the sum.

        `progress` is called with (requests done, total). See `collect` for errors and `on_error`.
        """
        reporter = ProgressReporter(plan.query, len(plan), progress, on_error)
        return await Collector(self._sender, plan, reporter).run(plan.requests(), self._workers)

    async def collect(
        self,
        query: Query[R],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: Iterable[str] | None = None,
        timezone: Zone = None,
        progress: Progress | None = None,
        on_error: OnError | None = None,
    ) -> R:
        """Return the sum over all selected links or tags, for a query of any size.

        Without slashtags the result is empty and nothing is sent. `keys` may be asynchronous
        (`session.urls.list()`): batches are then sent while it is read. `progress` is called with
        (requests done, total or None). With `on_error` a failed request is reported as a Failure(call, error)
        and the others continue; a batch answered 400 is split until the bad slashtag is isolated;
        authentication errors are always raised. Raises TypeError for a wrong selector, InvalidRequestError
        before anything is sent, and errors of requests with a note naming the batch and window.
        See docs/service.md, Statistics: common selector.
        """
        _check_selector(keys, tag, tags)
        zone, now = parse_zone(timezone), _now()
        if not isinstance(keys, AsyncIterable):
            selectors = self._selectors(query, keys, tag, tags, on_error)
            plan = make_plan(query, selectors, zone, now, self._range_end)
            return await self.run(plan, progress=progress, on_error=on_error)
        # A listing returns a new iterator, which is closed at the end of the run.
        keys = aiter(keys)
        plan = make_plan(query, (), zone, now, self._range_end)
        reporter = ProgressReporter(plan.query, None, progress, on_error)
        read = read_batches(keys, self._max_keys_bytes, reporter.report_bad_key)
        return await Collector(self._sender, plan, reporter).run(read, self._workers, keys)

    def collect_each(
        self,
        query: Query[R],
        *,
        keys: Keys | None = None,
        tag: str | None = None,
        tags: Iterable[str] | None = None,
        timezone: Zone = None,
        ordered: bool = False,
        guided: bool = True,
        changed_since: Mapping[str, int] | None = None,
        progress: Progress | None = None,
        on_error: OnError | None = None,
    ) -> Results[tuple[str, R]]:
        """Iterate over (slashtag or tag, its statistics), as they complete or in input order.

        A DateRange or a Day usually takes far fewer requests than one per slashtag: a whole batch is
        requested, then, if it has clicks, one half of it, and the other half is the difference. Only answers
        that reconcile, about days that are over, are subtracted. With three or more windows, all-time
        statistics rule out months first if that is cheaper. It is undocumented whether clicks are counted
        late. So for windows that ended in the last three days, a batch from which something was subtracted is
        requested once more; if its answer has changed, the slashtags in question are requested themselves.
        For older windows, a late click between two answers that are subtracted is noticed only if the
        difference is negative. `guided=False` requests everything.

        ShortUrls are sorted by `hits`, unless `ordered`: fewest requests are needed if slashtags with clicks
        are adjacent. `changed_since` has the hits of an earlier listing, by slashtag: links whose hits differ
        come first. Every slashtag is covered by a request, whatever its hits.

        `progress` is called with (slashtags done, total or None). With `on_error` failures are reported and
        not yielded. Raises the errors of `collect` while iterating. See docs/service.md, Statistics: common
        selector.
        """
        _check_selector(keys, tag, tags)
        zone, now = parse_zone(timezone), _now()
        sorts, is_async = guided and not ordered, isinstance(keys, AsyncIterable)
        given: Iterable[Selector] = ()
        if not isinstance(keys, AsyncIterable):
            if sorts and keys is not None:
                keys = by_activity(keys, changed_since)
            given = self._selectors(query, keys, tag, tags, on_error)
        plan = make_plan(query, given, zone, now, self._range_end)
        total = None if is_async else sum(len(selector.keys) or 1 for selector in plan.selectors)
        reporter = ProgressReporter(plan.query, total, progress, on_error)
        run = PerKeyRun(
            self._sender,
            plan,
            reporter,
            zone=zone,
            now=now,
            range_end=self._range_end,
            guided=guided,
            ordered=ordered,
            workers=self._workers,
        )
        if not isinstance(keys, AsyncIterable):
            return run.results(self._tasks, plan.selectors)
        keys = aiter(keys)
        links = sort_by_activity(keys, changed_since) if sorts else keys
        selectors = read_batches(links, self._max_keys_bytes, reporter.report_bad_key)
        return run.results(self._tasks, selectors, keys)

    def _selectors(
        self,
        query: Query[R],
        keys: Iterable[Key] | None,
        tag: str | None,
        tags: Iterable[str] | None,
        on_error: OnError | None = None,
    ) -> Iterator[Selector]:
        """Yield the checked selectors of a call."""
        if keys is not None:
            keys = tuple(keys)
            found: Iterable[tuple[str, ...]] | None = plain_batches(keys, self._max_keys_bytes)
            if found is None:
                report_bad_key = ProgressReporter(query, None, None, on_error).report_bad_key
                found = batches(_slashtags(keys, report_bad_key), self._max_keys_bytes)
            for batch in found:
                yield Selector(keys=batch)
        elif tag is not None:
            yield Selector(tag=tag)
        else:
            for name in dict.fromkeys(map(check_tag, () if tags is None else tags)):
                yield Selector(tag=name)


def _slashtags(keys: Iterable[Key], report_bad_key: ReportBadKey) -> Iterator[str]:
    for key in keys:
        try:
            slashtag = check_slashtag(key)
        except InvalidRequestError as error:
            if isinstance(key, str):
                raise
            report_bad_key(key, error)
        else:
            yield slashtag


def _check_selector(keys: object, tag: object, tags: object) -> None:
    if sum(selector is not None for selector in (keys, tag, tags)) != 1:
        raise TypeError("pass exactly one of keys=, tag= and tags=")
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys= takes an iterable of slashtags, not one {type(keys).__name__}: keys=[...]")
    if isinstance(tags, str | bytes):
        raise TypeError(f"tags= takes an iterable of names, not one {type(tags).__name__}: tag=...")
    if tag is not None:
        check_tag(tag)


def _now() -> datetime:
    return datetime.now(UTC)
