"""A retry is free while retries tend to succeed; with an empty budget one at a time is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from slashtag import SessionClosedError
from slashtag._sending.retry_budget import CAPACITY, EARNED, FREE, LONE, OUTAGE_FAILURES, RetryBudget

from ..support.sending import spend, turns, until

Line = list[asyncio.Task[str | None]]


class Backoff:
    """Note what the line asks for; the waits are short unless told."""

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
async def queue(budget: RetryBudget) -> AsyncIterator[Callable[[int], Line]]:
    """A function that puts so many retries into the line."""
    line: Line = []

    def stand(count: int, patience: float = 60) -> Line:
        new = [asyncio.create_task(budget.take(patience)) for _ in range(count)]
        line.extend(new)
        return new

    yield stand
    for task in line:
        task.cancel()
    await asyncio.gather(*line, return_exceptions=True)


def sent(line: Line) -> list[str | None]:
    return [task.result() for task in line if task.done()]


async def test_a_budget_begins_full_and_a_retry_costs_one() -> None:
    budget = RetryBudget(lambda _: 60)
    for spent in range(int(CAPACITY)):
        assert budget._left == CAPACITY - spent
        assert await budget.take(0) == FREE
    assert await budget.take(0) is None
    budget.close()


async def test_a_retry_that_succeeds_gives_its_cost_back(budget: RetryBudget) -> None:
    budget.give_back(FREE, succeeded=True)
    assert budget._left == 1
    assert await budget.take(0) == FREE
    budget.give_back(FREE, succeeded=False)
    assert budget._left == 0


async def test_a_retry_that_was_never_sent_gives_its_cost_back(budget: RetryBudget) -> None:
    budget.give_back(FREE, succeeded=None)
    assert budget._left == 1


async def test_a_flaky_service_is_retried_for_ever() -> None:
    budget = RetryBudget(lambda _: 60)
    for _ in range(1_000):
        permit = await budget.take(0)
        assert permit == FREE
        budget.give_back(permit, succeeded=True)
    assert budget._left == CAPACITY


async def test_requests_that_need_no_retry_earn_some(budget: RetryBudget) -> None:
    for _ in range(round(1 / EARNED)):
        budget.earn()
    assert budget._left == pytest.approx(1)
    for _ in range(10_000):
        budget.earn()
    assert budget._left == CAPACITY


async def test_what_is_earned_lets_the_line_go_on(
    queue: Callable[[int], Line], budget: RetryBudget, backoff: Backoff
) -> None:
    backoff.seconds = 60
    line = queue(3)
    await turns()
    for _ in range(round(2 / EARNED) + 1):
        budget.earn()
    await turns()
    assert sent(line) == [FREE, FREE]


async def test_the_line_sends_one_at_a_time(queue: Callable[[int], Line], budget: RetryBudget) -> None:
    line = queue(5)
    for n in range(1, 6):
        await until(lambda n=n: len(sent(line)) >= n)
        await asyncio.sleep(0.02)
        assert sent(line) == [LONE] * n
        budget.give_back(LONE, succeeded=False)
    assert [task.done() for task in line] == [True] * 5


async def test_the_line_waits_by_its_failures_in_a_row(
    queue: Callable[[int], Line], budget: RetryBudget, backoff: Backoff
) -> None:
    line = queue(8)
    for n, succeeded in enumerate([False, False, False, None, True], 1):
        await until(lambda n=n: len(sent(line)) >= n)
        budget.give_back(LONE, succeeded=succeeded)
    assert backoff.asked[:5] == [0, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("failures", "told"),
    [
        (OUTAGE_FAILURES - 1, []),
        (OUTAGE_FAILURES, ["WARNING", "INFO"]),
        (OUTAGE_FAILURES + 2, ["WARNING", "INFO"]),
    ],
)
async def test_an_outage_is_told_once_and_if_it_lasts(
    queue: Callable[[int], Line],
    budget: RetryBudget,
    caplog: pytest.LogCaptureFixture,
    failures: int,
    told: list[str],
) -> None:
    line = queue(failures + 1)
    with caplog.at_level(logging.INFO, "slashtag"):
        for n in range(1, failures + 2):
            await until(lambda n=n: len(sent(line)) >= n)
            budget.give_back(LONE, succeeded=n > failures)
    assert [record.levelname for record in caplog.records] == told


async def test_the_oldest_in_the_line_goes_first(queue: Callable[[int], Line], budget: RetryBudget) -> None:
    line = queue(4)
    for n in range(1, 5):
        await until(lambda n=n: len(sent(line)) == n)
        assert [task.done() for task in line] == [True] * n + [False] * (4 - n)
        budget.give_back(LONE, succeeded=False)


async def test_the_line_wakes_up_exponentially(
    queue: Callable[[int], Line], budget: RetryBudget, backoff: Backoff
) -> None:
    line = queue(100)
    await until(lambda: sent(line))
    backoff.seconds = 60
    waves = []
    while len(sent(line)) < 100:
        before = len(sent(line))
        # All that were sent last succeed.
        for permit in sent(line)[sum(waves) :]:
            assert permit is not None
            budget.give_back(permit, succeeded=True)
        waves.append(before - sum(waves))
        await turns(5)
    assert waves[:6] == [1, 2, 4, 8, 16, 32]


async def test_a_newcomer_stands_behind_the_line(queue: Callable[[int], Line], budget: RetryBudget) -> None:
    first, second = queue(2)
    await until(first.done)
    third = queue(1)[0]
    await turns()
    budget.give_back(LONE, succeeded=None)
    await until(second.done)
    assert not third.done()


async def test_patience_ends(queue: Callable[..., Line], budget: RetryBudget) -> None:
    lone = queue(1)[0]
    await until(lone.done)
    impatient, patient = queue(1, 0.01)[0], queue(1)[0]
    assert await impatient is None
    assert not patient.done()
    budget.give_back(LONE, succeeded=False)
    assert await patient == LONE


async def test_a_turn_that_comes_with_the_end_of_patience_is_not_lost(budget: RetryBudget) -> None:
    for _ in range(20):
        permits = await asyncio.gather(*(budget.take(0.001) for _ in range(5)))
        for permit in permits:
            assert permit in (LONE, None)
            if permit:
                budget.give_back(permit, succeeded=False)
    assert not budget._lone


async def test_cancelled_members_leave_the_line(queue: Callable[[int], Line], budget: RetryBudget) -> None:
    line = queue(5)
    await until(line[0].done)
    for n in (1, 3):
        line[n].cancel()
    await turns()
    for n in (2, 4):
        budget.give_back(LONE, succeeded=False)
        assert await line[n] == LONE
    assert all(line[n].cancelled() for n in (1, 3))


@pytest.mark.parametrize("permit", [FREE, LONE])
async def test_a_turn_given_to_a_cancelled_member_goes_to_the_next(
    queue: Callable[[int], Line], budget: RetryBudget, backoff: Backoff, permit: str
) -> None:
    backoff.seconds = 60
    line = queue(2)
    await turns(2)
    backoff.seconds = 0.001
    if permit == FREE:
        budget.give_back(FREE, succeeded=True)
    else:
        budget._send_alone()
    line[0].cancel()
    assert await line[1] == permit
    assert line[0].cancelled()


async def test_a_line_that_was_left_by_all_sends_nobody(
    queue: Callable[[int], Line], budget: RetryBudget, backoff: Backoff
) -> None:
    backoff.seconds = 0.05
    line = queue(3)
    await turns()
    for task in line:
        task.cancel()
    await asyncio.sleep(0.1)
    assert not budget._lone
    assert await queue(1)[0] == LONE


async def test_closing_refuses_the_line(queue: Callable[[int], Line], budget: RetryBudget) -> None:
    lone, *line = queue(4)
    await until(lone.done)
    line[0].cancel()
    budget.close()
    line[1].cancel()
    await turns()
    assert line[0].cancelled()
    assert line[1].cancelled()
    with pytest.raises(SessionClosedError):
        await line[2]
    budget.give_back(LONE, succeeded=False)
