"""Click statistics: any question, split, asked concurrently, merged exactly."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from .._core.plan import Plan, Question, StatsRequest
from .._core.queries import Query, TimeSlice
from .._core.selectors import Selector, batches, check_slashtag, check_tag
from .._core.split import parse_zone
from .._fanout import Tasks, WorkerPool
from .._models import Statistics
from .._sending.sender import Send
from .collect import AsyncBatches, Collector, Key, Keys, Memory, OnError, ProgressReporter, StatsSender
from .collect_each import Each, PerKeyRun, StepStream
from .listing import Progress

R = TypeVar("R", bound=Statistics)

Zone = str | tzinfo | None


class Stats:
    """Read the click statistics of slashtags and tags.

    A query says what is asked: DateRange and Day give RangeStats, Year and AllTime PeriodStats, CountryGeo
    GeoStats. Selectors: exactly one of `keys` (slashtags or ShortUrls, any number; repeated ones count
    once), `tag` or `tags`. `timezone` is "+HH:MM", a tzinfo, or None for +00:00.
    """

    def __init__(
        self, send: Send, tasks: Tasks, *, workers: int, room: int, range_end: str, memory: Memory
    ) -> None:
        self._tasks = tasks
        self._workers = workers
        self._room = room
        self._range_end = range_end
        self._asker = StatsSender(send, memory)

    def plan(
        self,
        query: Query[R],
        *,
        keys: Iterable[Key] | None = None,
        tag: str | None = None,
        tags: Iterable[str] | None = None,
        timezone: Zone = None,
    ) -> Plan[R]:
        """Take a question apart without sending anything; the plan pickles, splits and has a length.

        Slashtags go in batches of at most 100 whose request target stays under 8,000 bytes, ranges in
        windows of at most 32 days. Raises TypeError for a wrong selector, InvalidRequestError for what the
        service cannot be asked (Statistics endpoints, Limits).
        """
        question = self._question(query, timezone)
        _one_selector(keys, tag, tags)
        selectors = tuple(self._selectors(keys, tag, tags))
        pieces = tuple(question.pieces())
        return Plan(question.query, selectors, pieces, question.span, 0, len(selectors) * len(pieces))

    async def run(
        self, plan: Plan[R], *, progress: Progress | None = None, on_error: OnError | None = None
    ) -> R:
        """Ask what a plan holds and return the sum.

        `progress` is called with (requests done, requests in all). Errors and `on_error` as `collect`.
        """
        return await self._run(plan, plan.asks(), progress, on_error)

    async def _run(
        self,
        plan: Plan[R],
        asks: Iterable[StatsRequest] | AsyncIterator[StatsRequest],
        progress: Progress | None,
        on_error: OnError | None = None,
    ) -> R:
        """Ask some of what a plan holds."""
        feedback = ProgressReporter(plan.query, len(plan), progress, on_error)
        return await self._fold(Collector(self._asker, plan.query, plan.tally(), feedback), asks)

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
        """Answer a question of any size with one sum over all that is selected.

        No slashtags give empty statistics without a request. `keys` may be asynchronous
        (`session.urls.list()`): batches are then asked while it is read. `progress` is called with
        (requests done, requests in all or None). With `on_error` a failed request is told as a
        Failure(call, error) and the rest goes on; a batch answered 400 is halved until the slashtag at fault
        stands alone; wrong credentials are raised all the same. Raises TypeError for a wrong selector,
        InvalidRequestError before anything is sent, and what a request raises, with a note which batch and
        window it was (Statistics endpoints).
        """
        if not isinstance(keys, AsyncIterable):
            plan = self.plan(query, keys=keys, tag=tag, tags=tags, timezone=timezone)
            return await self.run(plan, progress=progress, on_error=on_error)
        _one_selector(keys, tag, tags)
        # A listing gives an iterator of its own, which ends with the run.
        keys = aiter(keys)
        question = self._question(query, timezone)
        feedback = ProgressReporter(question.query, None, progress, on_error)
        fold = Collector(self._asker, question.query, question.query.tally(question.span), feedback)
        selectors = AsyncBatches(keys, self._room, feedback.refuse)
        return await self._fold(fold, _Asks(selectors, question.pieces()), keys)

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
        progress: Progress | None = None,
        on_error: OnError | None = None,
    ) -> Each[R]:
        """Answer a question for each slashtag or tag alone, as they complete or in the order asked.

        For a DateRange of three windows or more all-time statistics are asked first, and then only the
        months that have clicks: sparse accounts need several times fewer requests for the same answer.
        Months whose days then do not add up to what guided there end the guiding, and all is asked.
        `guided=False` asks for everything at once; a 404 of the all-time statistics does so by itself.
        `progress` is called with (slashtags done, slashtags in all or None). With `on_error` what failed is
        told as a Failure and not yielded. Errors as `collect`, raised while iterating (Statistics
        endpoints).
        """
        _one_selector(keys, tag, tags)
        question = self._question(query, timezone)
        selectors = None if isinstance(keys, AsyncIterable) else self._selectors(keys, tag, tags)
        total = None if selectors is None else sum(len(s.keys) or 1 for s in selectors)
        feedback = ProgressReporter(question.query, total, progress, on_error)
        run = PerKeyRun(
            self._asker, question, feedback, guided=guided, ordered=ordered, workers=self._workers
        )
        if isinstance(keys, AsyncIterable):
            keys = aiter(keys)
            source = StepStream(AsyncBatches(keys, self._room, feedback.refuse), run)
            return Each(self._tasks, self._workers, run, source, keys)
        return Each(self._tasks, self._workers, run, run.steps(selectors or ()))

    def _question(self, query: Query[R], timezone: Zone) -> Question[R]:
        zone, now = parse_zone(timezone), _now()
        return Question(query.resolve(zone, now), zone, now, self._range_end)

    async def _fold(
        self,
        fold: Collector[R],
        asks: Iterable[StatsRequest] | AsyncIterator[StatsRequest],
        keys: AsyncIterable[Key] | None = None,
    ) -> R:
        await WorkerPool(asks, fold.work, self._workers, feed=keys).run()
        return fold.result()

    def _selectors(
        self, keys: Iterable[Key] | None, tag: str | None, tags: Iterable[str] | None
    ) -> list[Selector]:
        """Give what one selector, checked, selects."""
        if keys is not None:
            if isinstance(keys, AsyncIterable):
                raise TypeError("a plan takes a plain iterable of slashtags; use to_list() first")
            return [Selector(keys=batch) for batch in batches(map(check_slashtag, keys), self._room)]
        if tag is not None:
            return [Selector(tag=tag)]
        return [Selector(tag=name) for name in dict.fromkeys(map(check_tag, () if tags is None else tags))]


class _Asks(AsyncIterator[StatsRequest]):
    """Iterate over what is asked of batches that are still being read."""

    def __init__(self, selectors: AsyncBatches, pieces: Iterable[TimeSlice]) -> None:
        self._selectors = selectors
        self._pieces = tuple(pieces)
        self._ready: list[StatsRequest] = []

    async def __anext__(self) -> StatsRequest:
        if not self._pieces:
            raise StopAsyncIteration
        if not self._ready:
            selector = await anext(self._selectors)
            self._ready = [StatsRequest(selector, piece) for piece in reversed(self._pieces)]
        return self._ready.pop()


def _one_selector(keys: object, tag: object, tags: object) -> None:
    if sum(selector is not None for selector in (keys, tag, tags)) != 1:
        raise TypeError("exactly one of keys=, tag= and tags= selects what statistics are asked for")
    if isinstance(keys, str | bytes):
        raise TypeError(f"keys= takes an iterable of slashtags, not one {type(keys).__name__}: keys=[...]")
    if isinstance(tags, str | bytes):
        raise TypeError(f"tags= takes an iterable of names, not one {type(tags).__name__}: tag=...")
    if tag is not None:
        check_tag(tag)


def _now() -> datetime:
    return datetime.now(UTC)
