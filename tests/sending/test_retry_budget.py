"""A retry is free while retries tend to succeed; with an empty budget one at a time is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from slashtag import SessionClosedError
from slashtag._sending.retry_budget import EARNED, OUTAGE_FAILURES, RetryBudget

from ..support.sending import spend, turns, until

Retries = list[asyncio.Task[bool]]


class Backoff:
    """Backoff that records its arguments; short unless set otherwise."""

    def __init__(self) -> None:
        self.seconds = 0.001
        self.asked: list[int] = []

    def __call__(self, failures: int) -> float:
        self.asked.append(failures)
        return self.seconds


@pytest.fixture
def backoff() -> Backoff:
    return Backoff()


@pytest.fixture
async def budget(backoff: Backoff) -> AsyncIterator[RetryBudget]:
    """An empty budget."""
    budget = RetryBudget(backoff)
    await spend(budget)
    yield budget
    budget.close()


@pytest.fixture
async def enqueue(budget: RetryBudget) -> AsyncIterator[Callable[[int], Retries]]:
    """Return a function that adds retries to the queue."""
    queued: Retries = []

    def add(count: int, patience: float = 60) -> Retries:
        new = [asyncio.create_task(budget.take(patience)) for _ in range(count)]
        queued.extend(new)
        return new

    yield add
    for task in queued:
        task.cancel()
    await asyncio.gather(*queued, return_exceptions=True)


def sent(queued: Retries) -> int:
    return sum(task.done() and task.result() for task in queued)


async def test_earned_retries_are_sent_from_the_queue(
    enqueue: Callable[[int], Retries], budget: RetryBudget, backoff: Backoff
) -> None:
    backoff.seconds = 60
    queued = enqueue(3)
    await turns()
    for _ in range(round(2 / EARNED) + 1):
        budget.earn()
    await turns()
    assert sent(queued) == 2


async def test_the_queue_sends_one_at_a_time(enqueue: Callable[[int], Retries], budget: RetryBudget) -> None:
    queued = enqueue(5)
    for n in range(1, 6):
        await until(lambda n=n: sent(queued) >= n)
        await asyncio.sleep(0.02)
        assert sent(queued) == n
        budget.give_back(succeeded=False)
    assert [task.done() for task in queued] == [True] * 5


async def test_the_queue_waits_by_its_failures_in_a_row(
    enqueue: Callable[[int], Retries], budget: RetryBudget, backoff: Backoff
) -> None:
    queued = enqueue(8)
    for n, succeeded in enumerate([False, False, False, None, True], 1):
        await until(lambda n=n: sent(queued) >= n)
        budget.give_back(succeeded=succeeded)
    # One that was not sent leaves its turn to the next.
    assert backoff.asked == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("failures", "told"),
    [
        (OUTAGE_FAILURES - 1, []),
        (OUTAGE_FAILURES, ["WARNING", "INFO"]),
        (OUTAGE_FAILURES + 2, ["WARNING", "INFO"]),
    ],
)
async def test_an_outage_is_logged_once_and_only_if_it_lasts(
    enqueue: Callable[[int], Retries],
    budget: RetryBudget,
    caplog: pytest.LogCaptureFixture,
    failures: int,
    told: list[str],
) -> None:
    queued = enqueue(failures + 1)
    with caplog.at_level(logging.INFO, "slashtag"):
        for n in range(1, failures + 2):
            await until(lambda n=n: sent(queued) >= n)
            budget.give_back(succeeded=n > failures)
    assert [record.levelname for record in caplog.records] == told


async def test_the_queue_empties_exponentially(
    enqueue: Callable[[int], Retries], budget: RetryBudget, backoff: Backoff
) -> None:
    queued = enqueue(100)
    await until(lambda: sent(queued))
    backoff.seconds = 60
    waves: list[int] = []
    while sent(queued) < 100:
        # All that were sent last succeed.
        waves.append(sent(queued) - sum(waves))
        for _ in range(waves[-1]):
            budget.give_back(succeeded=True)
        await turns(5)
    assert waves[:6] == [1, 2, 4, 8, 16, 32]


async def test_a_turn_given_to_a_cancelled_retry_goes_to_the_next(
    enqueue: Callable[[int], Retries], budget: RetryBudget
) -> None:
    queued = enqueue(2)
    await turns(2)
    budget._pay_one()
    queued[0].cancel()
    assert await queued[1]
    assert queued[0].cancelled()


async def test_closing_refuses_the_queue(enqueue: Callable[[int], Retries], budget: RetryBudget) -> None:
    lone, *queued = enqueue(4)
    await until(lone.done)
    queued[0].cancel()
    budget.close()
    queued[1].cancel()
    await turns()
    assert queued[0].cancelled()
    assert queued[1].cancelled()
    with pytest.raises(SessionClosedError):
        await queued[2]
    budget.give_back(succeeded=False)
