"""A retry is free while retries tend to succeed; with an empty budget one at a time is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from slashtag import RateLimitError, ServerError, SessionClosedError, TransportError
from slashtag._core.throttle.throttle import Throttle
from slashtag._sending.admission import Admission
from slashtag._sending.health import EARNED, KEPT, OUTAGE_FAILURES, ServiceHealth

from ..support.sending import spend, turns, until

LAST = ServerError("the last failure", status=500)


class Retries:
    """Retries that wait for an empty budget, and end when the test says how."""

    def __init__(self) -> None:
        self.admission = Admission(Throttle(1))
        self.health = ServiceHealth(self.admission.sleep_until)
        spend(self.health)
        #: The backoff, and the numbers of failures for which it was asked.
        self.seconds = 0.0
        self.asked: list[int] = []
        self.sent: list[asyncio.Future[None]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def backoff(self, _: object, failures: int, jitter: float) -> float:
        self.asked.append(failures)
        return self.seconds

    def add(self, count: int) -> list[asyncio.Task[None]]:
        new = [asyncio.create_task(self._retry()) for _ in range(count)]
        self.tasks += new
        return new

    async def _retry(self) -> None:
        is_alone = await self.health.wait_to_retry(60, LAST)
        self.sent.append(asyncio.get_running_loop().create_future())
        try:
            await self.sent[-1]
        except BaseException as error:
            self.health.retried(error, is_alone=is_alone)
            raise
        self.health.retried(None, is_alone=is_alone)

    async def end(self, n: int, error: Exception | None = None) -> None:
        """End the nth retry, once it has been sent."""
        await until(lambda: len(self.sent) >= n)
        if error is None:
            self.sent[n - 1].set_result(None)
        else:
            self.sent[n - 1].set_exception(error)


@pytest.fixture
def retries(monkeypatch: pytest.MonkeyPatch) -> Iterator[Retries]:
    retries = Retries()
    monkeypatch.setattr("slashtag._sending.health.backoff", retries.backoff)
    yield retries
    for task in retries.tasks:
        if task.done() and not task.cancelled():
            task.exception()


async def test_an_earned_retry_is_sent_without_a_pause(retries: Retries) -> None:
    for _ in range(round(2 / EARNED) + 1):
        retries.health.succeeded()
    retries.seconds = 60
    *earned, waiting = retries.add(3)
    await turns()
    assert len(retries.sent) == 2
    waiting.cancel()
    await retries.end(1)
    await retries.end(2)
    await asyncio.wait([*earned, waiting])
    assert waiting.cancelled()


async def test_the_queue_sends_one_at_a_time(retries: Retries) -> None:
    queued = retries.add(5)
    for n in range(1, 6):
        await until(lambda n=n: len(retries.sent) >= n)
        await asyncio.sleep(0.01)
        assert len(retries.sent) == n
        await retries.end(n, TransportError("lost"))
    await asyncio.wait(queued)


async def test_the_queue_waits_by_its_failures_in_a_row(retries: Retries) -> None:
    queued = retries.add(6)
    lost, refused = TransportError("lost"), RateLimitError("wait", status=429)
    for n, error in enumerate([lost, lost, lost, None, lost, refused], 1):
        await retries.end(n, error)
    await asyncio.wait(queued)
    # The success pays for the last two.
    assert retries.asked == [1, 2, 3, 4]


async def test_a_failure_minutes_after_the_last_one_is_the_first_again(
    retries: Retries, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("slashtag._sending.health.monotonic", lambda: now[0])
    queued = retries.add(4)
    for n in range(1, 5):
        retries.health.failed()
        await retries.end(n, LAST)
    await asyncio.wait(queued)
    for seconds, is_alone in ((KEPT - 1, True), (KEPT, False)):
        now[0] += seconds
        retries.health.failed()
        assert await retries.health.wait_to_retry(60, LAST) is is_alone
        retries.health.retried(LAST, is_alone=is_alone)


@pytest.mark.parametrize(
    ("failures", "told"),
    [
        (OUTAGE_FAILURES - 1, []),
        (OUTAGE_FAILURES, ["WARNING", "INFO"]),
        (OUTAGE_FAILURES + 2, ["WARNING", "INFO"]),
    ],
)
async def test_an_outage_is_logged_once_and_only_if_it_lasts(
    retries: Retries, caplog: pytest.LogCaptureFixture, failures: int, told: list[str]
) -> None:
    queued = retries.add(failures + 1)
    with caplog.at_level(logging.INFO, "slashtag"):
        for n in range(1, failures + 1):
            await retries.end(n, LAST)
        await retries.end(failures + 1)
        await asyncio.wait(queued)
    assert [record.levelname for record in caplog.records] == told


async def test_the_queue_empties_exponentially(retries: Retries) -> None:
    queued = retries.add(100)
    waves: list[int] = []
    while (done := sum(waves)) < 100:
        await until(lambda done=done: len(retries.sent) > done)
        # Time for those that are paid for; the first that is not waits longer.
        retries.seconds = 0.1
        await asyncio.sleep(0.01)
        waves.append(len(retries.sent) - done)
        for n in range(done, len(retries.sent)):
            await retries.end(n + 1)
    await asyncio.wait(queued)
    assert len(waves) < 10


async def test_the_turn_of_a_cancelled_retry_goes_to_the_next(retries: Retries) -> None:
    first, second, third = retries.add(3)
    await until(lambda: retries.sent)
    second.cancel()
    first.cancel()
    await retries.end(2)
    await third
    assert first.cancelled()
    assert second.cancelled()


async def test_closing_refuses_the_queue(retries: Retries) -> None:
    lone, *queued = retries.add(3)
    await until(lambda: retries.sent)
    retries.admission.close()
    await retries.end(1, LAST)
    with pytest.raises(ServerError):
        await lone
    for task in queued:
        with pytest.raises(SessionClosedError):
            await task
    assert len(retries.sent) == 1
