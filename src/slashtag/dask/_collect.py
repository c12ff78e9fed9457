"""One sum, requested by many workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from math import ceil
from typing import Any, TypeVar

from .. import AsyncSession, Plan, Statistics
from ._job import Job, Progress
from ._worker import GetCredentials

R = TypeVar("R", bound=Statistics)

#: Requests of a part: enough to outlast its start and end, and no more than a worker's death may cost.
_FEWEST, _MOST = 64, 4096
_PARTS_A_THREAD = 4
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
    """Run a plan on the workers of a `distributed.Client` and return the sum.

    The answer is that of `session.stats.run(plan)`. With an asynchronous client it is an awaitable of the
    sum; cancelling that, or Ctrl-C while a synchronous client waits, ends the requests on the workers too.

    Each worker opens one session with `session_options`. `base_url` and the credentials come from the
    workers' environment (SLASHTAG_BASE_URL, SLASHTAG_APIKEY, SLASHTAG_APISECRET), or the credentials from
    `credentials`, a callable that is sent to the workers, runs there and returns (apikey, apisecret), also as
    a coroutine function. What it returns is never pickled, sent or logged; what it closes over is pickled.

    `parts`: the number of plans that the plan is split into; by default about four for each thread of the
    workers, of 64 to 4,096 requests. A part whose worker died is run again by another one, as often as the
    cluster allows (`distributed.scheduler.allowed-failures`), and is counted once. Where the workers share
    one rate limit, the last parts may leave some of it unused. `progress` is called with (parts done, parts)
    by the client's event loop, which is another thread's for a synchronous client.

    Raises what `run` raises, by the first part that fails; TransportError where a part's workers died too
    often or the scheduler was lost; ConfigurationError where `distributed` is missing; TypeError for
    credentials that are not a callable (Statistics endpoints).
    """
    job = Job(client, base_url=base_url, credentials=credentials, session_options=session_options)
    if parts is not None:
        plan.split(parts)  # refused before anything is sent

    async def main() -> R:
        pieces = _cut(plan, await job.threads()) if parts is None else plan.split(parts)
        pieces = [piece for piece in pieces if len(piece)]
        answers: list[R] = []
        async with aclosing(job.run(_run, pieces)) as results:
            done = 0
            async for _, result in results:
                assert result.value is not None
                answers.append(result.value)
                if len(answers) >= _TOGETHER:
                    answers[:] = [answers[0].merge(answers)]
                done += 1
                if progress is not None:
                    progress(done, len(pieces))
        return answers[0].merge(answers) if answers else plan.query.tally(plan.span).result()

    return job.start(main)


def _cut(plan: Plan[R], threads: int) -> list[Plan[R]]:
    size = min(_MOST, max(_FEWEST, ceil(len(plan) / (_PARTS_A_THREAD * threads))))
    return plan.split(max(1, ceil(len(plan) / size)))


async def _run(session: AsyncSession, part: Plan[R]) -> R:
    return await session.stats.run(part)
