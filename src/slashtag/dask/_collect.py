"""One sum, asked by many workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from math import ceil
from typing import Any, TypeVar

from .._core.plan import Plan, StatsRequest
from .._models import Statistics
from .._session import AsyncSession
from ._job import Job, Progress
from ._worker import GetCredentials

R = TypeVar("R", bound=Statistics)

# A part has this many requests, as the question is small or large, and a quarter of it at the end.
_FEWEST, _MOST = 64, 4096
_PARTS_A_THREAD = 4
_FEWEST_AT_END = 16
#: After so many seconds a worker gives back what is left of a part.
_SECONDS = 1.0
#: Seconds for which a session whose limit is known is given work ahead.
_AHEAD = 0.25
#: What a session begins with.
_AT_FIRST = 4
#: Sums that wait to be added at once.
_TOGETHER = 16


def collect(
    client: Any,
    plan: Plan[R],
    *,
    base_url: str | None = None,
    credentials: GetCredentials | None = None,
    parts: int | None = None,
    progress: Progress | None = None,
    session_options: Mapping[str, Any] | None = None,
) -> Any:
    """Ask what a plan holds on the workers of a `distributed.Client` and return the sum.

    The answer is that of `session.stats.run(plan)`. With an asynchronous client it is an awaitable of the
    sum; cancelling that, or Ctrl-C while a synchronous client waits, ends the requests on the workers too.

    Each worker opens one session with `session_options`. `base_url` and the credentials come from the
    workers' environment (SLASHTAG_BASE_URL, SLASHTAG_APIKEY, SLASHTAG_APISECRET), or the credentials from
    `credentials`, a callable that is sent to the workers, runs there and returns (apikey, apisecret), also as
    a coroutine function. What it returns is never pickled, sent or logged; what it closes over is pickled.

    `parts`: into how many the plan is cut. By default about four for each thread of the workers, of 64 to
    4,096 requests: 64 outlast by far the start and the end of a part, in which fewer are in flight than could
    be. After a second a worker gives back what is left of a part: so a worker that dies loses little more
    than that, and one that has learned a small share of a limit does not keep the others waiting. For the
    same reason the last quarter of the requests is cut four times finer and handed out as workers become
    free. A part whose worker died is run again, by another or the same one restarted, as often as the cluster
    allows (`distributed.scheduler.allowed-failures`), and is counted once. `progress` is called with (parts
    done, parts), in the thread that calls or awaits this.

    Raises what `run` raises, by the first part that fails; TransportError where a part's workers died too
    often or the scheduler was lost; ConfigurationError where `distributed` is missing; TypeError for
    credentials that are not a callable (Statistics endpoints).
    """
    job = Job(client, "collect", base_url=base_url, credentials=credentials, session_options=session_options)

    async def main(tell: Progress) -> R:
        threads = await job.threads()
        early, late = _cut(plan, threads) if parts is None else (plan.split(parts), [])
        early = [part for part in early if len(part)]
        if not early:
            return plan.query.tally(plan.span).result()
        answers: list[R] = []

        def rest(answer: tuple[R, Plan[R] | None], free: int) -> list[Plan[R]]:
            answers.append(answer[0])
            if len(answers) >= _TOGETHER:
                answers[:] = [answers[0].merge(answers)]
            left = answer[1]
            return [] if left is None else left.split(max(1, min(free, len(left))))

        await job.run(_run, [*early, *late], tell, early=len(early), threads=threads, rest=rest)
        return answers[0].merge(answers)

    if parts is not None:
        plan.split(parts)  # refused before anything is sent
    return job.start(main, progress)


def _cut(plan: Plan[R], threads: int) -> tuple[list[Plan[R]], list[Plan[R]]]:
    """Return parts that can be sent at once, and smaller ones for whoever becomes free."""
    if len(plan) <= _FEWEST:
        return [plan], []
    size = min(_MOST, max(_FEWEST, ceil(len(plan) / (_PARTS_A_THREAD * threads))))
    *first, last = plan.split(4)
    return _in_parts(first, size), _in_parts([last], max(_FEWEST_AT_END, size // 4))


def _in_parts(plans: list[Plan[R]], size: int) -> list[Plan[R]]:
    return [part for plan in plans for part in plan.split(ceil(len(plan) / size))]


async def _run(session: AsyncSession, part: Plan[R]) -> tuple[R, Plan[R] | None]:
    """Ask what a part holds for some seconds; return the sum and what is left of it."""
    asks = _Asks(part, session)
    return await session.stats._run(part, asks, asks.answered), asks.rest()


class _Asks(AsyncIterator[StatsRequest]):
    """Give out what a part asks until its time is up, and no more of it than the session can send soon.

    What was given out is not given back: were it much, a worker that then learns of a small share of a limit
    would keep the others waiting for it.
    """

    def __init__(self, part: Plan[R], session: AsyncSession) -> None:
        self._part: Plan[Any] = part
        self._asks = part.requests()
        self._metrics = session.metrics
        self._began = time.monotonic()
        self._given = self._answered = 0
        self._turn: asyncio.Future[None] | None = None

    async def __anext__(self) -> StatsRequest:
        while self._is_enough():
            self._turn = asyncio.get_running_loop().create_future()
            await self._turn
        if self._given and time.monotonic() - self._began > _SECONDS:
            raise StopAsyncIteration
        for ask in self._asks:
            self._given += 1
            return ask
        raise StopAsyncIteration

    def _is_enough(self) -> bool:
        under_way = self._given - self._answered
        if under_way <= 0:
            return False
        if (learned := self._metrics.learned_rate) is not None:
            return self._metrics.waiting >= max(1.0, learned * _AHEAD)
        # Of a service that has not been heard of, about as many as it has answered.
        heard = self._metrics.attempts - self._metrics.throttled - self._metrics.in_flight
        return under_way >= _AT_FIRST + heard

    def answered(self, done: int, _: int | None) -> None:
        """Hear that one was answered."""
        self._answered = done
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def rest(self) -> Plan[Any] | None:
        """Give what was not given out."""
        return self._part.part(self._given, len(self._part)) if self._given < len(self._part) else None
