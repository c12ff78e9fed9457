"""Every request passes one admission: no place is lost, and nobody waits in vain. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import SessionClosedError
from slashtag._core.throttle.throttle import Throttle, Ticket
from slashtag._sending.admission import Admission, NotAdmittedError
from tests.support.laws import examples
from tests.support.virtual_time import in_virtual_time, now

Main = Callable[[Admission], Coroutine[Any, Any, None]]


def admitted(main: Main, concurrency: int = 1, rate: float | None = None) -> None:
    """Run a test with an admission."""
    in_virtual_time(main(Admission(Throttle(concurrency, rate))))


def taken(admission: Admission) -> Ticket:
    """Take the only place."""
    ticket = admission.try_enter(now())
    assert ticket is not None
    return ticket


async def come(admission: Admission, *args: Any, **options: Any) -> asyncio.Task[Ticket]:
    task = asyncio.create_task(admission.enter(object(), *args, **options))
    await asyncio.sleep(0)
    return task


async def refused(task: asyncio.Task[Ticket]) -> NotAdmittedError:
    with pytest.raises(NotAdmittedError) as told:
        await task
    return told.value


def test_nobody_passes_those_who_wait_and_a_place_given_back_in_any_way_goes_to_the_next() -> None:
    async def main(admission: Admission) -> None:
        ticket = taken(admission)
        for give_back in (
            lambda ticket: admission.accepted(ticket, now()),
            lambda ticket: admission.rejected(ticket, now(), None),
            lambda ticket: admission.failed(ticket, now(), None),
            admission.cancelled,
        ):
            task = await come(admission)
            give_back(ticket)
            assert admission.try_enter(now()) is None
            ticket = await task
        assert (admission.throttle.in_flight, admission.waiting) == (1, 0)

    admitted(main)


def test_a_given_rate_is_kept_by_one_timer() -> None:
    async def main(admission: Admission) -> None:
        times = list[float]()

        async def enter() -> None:
            ticket = await admission.enter(object())
            times.append(now())
            admission.accepted(ticket, now())

        await asyncio.gather(*(enter() for _ in range(20)))
        assert times == sorted(times)
        assert times[-1] - times[0] == pytest.approx(19 / 20, abs=0.05)

    admitted(main, 32, rate=20.0)


@pytest.mark.parametrize("max_wait", [0.0, -1.0, 5.0])
def test_a_wait_ends_when_its_time_is_over(max_wait: float) -> None:
    async def main(admission: Admission) -> None:
        assert await admission.enter(object(), max_wait)  # now, or never
        error = await refused(await come(admission, max_wait))
        assert (round(now(), 3), error.seconds, error.is_outage) == (max(max_wait, 0), None, False)
        assert (admission.throttle.in_flight, admission.waiting) == (1, 0)

    admitted(main)


def test_what_cannot_depart_in_time_is_refused_as_soon_as_that_is_certain() -> None:
    async def main(admission: Admission) -> None:
        for _ in range(6):  # an outage
            admission.failed(taken(admission), now(), None)
        await asyncio.sleep(20)
        probe = taken(admission)
        impatient, patient, unbounded = [await come(admission, max_wait) for max_wait in (10, 100, inf)]
        admission.failed(probe, now(), 600)  # for as long as it has lasted, which is 20 s
        error = await refused(impatient)
        assert (round(now()), error.seconds) == (20, pytest.approx(20, abs=1))
        assert [patient.done(), unbounded.done()] == [False, False]
        await unbounded  # the newest finds out
        assert round(now()) == 40
        patient.cancel()
        await asyncio.wait([patient])

    admitted(main)


def test_closing_refuses_those_who_wait_and_whoever_comes() -> None:
    async def main(admission: Admission) -> None:
        ticket = taken(admission)
        waiting, bounded, cancelled = await come(admission), await come(admission, 60), await come(admission)
        alone = asyncio.create_task(admission.sleep(60))
        await asyncio.sleep(0)
        assert admission.waiting == 4
        admission.close()
        cancelled.cancel()
        for task in (waiting, bounded, alone, await come(admission)):
            with pytest.raises(SessionClosedError):
                await task
        await asyncio.wait([cancelled])
        assert cancelled.cancelled()
        assert admission.waiting == 0
        admission.accepted(ticket, now())
        assert admission.throttle.in_flight == 0
        assert now() < 1

    admitted(main)


def test_a_request_admitted_and_cancelled_at_once_gives_its_place_on() -> None:
    async def main(admission: Admission) -> None:
        ticket = taken(admission)
        first, second = await come(admission), await come(admission)
        admission.accepted(ticket, now())
        first.cancel()
        await second
        assert first.cancelled()
        assert admission.throttle.in_flight == 1

    admitted(main)


@examples(50)
@given(
    ends=st.lists(
        st.sampled_from(["accepted", "rejected", "failed", "cancelled", "leaves"]), min_size=1, max_size=40
    ),
    concurrency=st.integers(1, 8),
    operations=st.integers(1, 5),
)
def test_every_call_gets_its_turn_whatever_becomes_of_others(
    ends: list[str], concurrency: int, operations: int
) -> None:
    """Law 9: no order of accepted, rejected, failed and cancelled is a deadlock, or loses a place."""

    async def call(admission: Admission, number: int, end: str) -> None:
        operation, ticket = number % operations, await admission.enter(number % operations)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            admission.cancelled(ticket)
            raise
        while end == "rejected":
            again = admission.rejected(ticket, now(), None)
            await admission.sleep(again - now())
            ticket = await admission.enter(operation, ticket=ticket, is_back=True)
            end = "accepted"
        match end:
            case "accepted":
                admission.accepted(ticket, now())
            case "failed":
                admission.failed(ticket, now(), None)
            case _:
                admission.cancelled(ticket)

    async def main(admission: Admission) -> None:
        tasks = [asyncio.create_task(call(admission, number, end)) for number, end in enumerate(ends)]
        await asyncio.sleep(0)
        for task, end in zip(tasks, ends, strict=True):
            if end == "leaves":
                task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() or not task.exception() for task in tasks)
        assert (admission.throttle.in_flight, admission.waiting) == (0, 0)

    admitted(main, concurrency)
