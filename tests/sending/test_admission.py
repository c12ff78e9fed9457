"""Every request passes one admission: no place is lost, and nobody waits in vain. In virtual time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.throttle.throttle import Throttle
from slashtag._core.throttle.ticket import Ticket
from slashtag._sending.admission import Admission, NotAdmittedError
from tests.support.laws import examples
from tests.support.virtual_time import in_virtual_time, now


def full(concurrency: int = 1) -> tuple[Admission, Ticket]:
    """Return an admission, and the ticket of its only place."""
    admission = Admission(Throttle(concurrency, None))
    ticket = admission.try_enter(now())
    assert ticket is not None
    return admission, ticket


async def come(admission: Admission, *args: Any) -> asyncio.Task[Ticket]:
    task = asyncio.create_task(admission.enter(object(), *args))
    await asyncio.sleep(0)
    return task


@in_virtual_time
async def test_nobody_passes_those_who_wait_and_a_place_given_back_in_any_way_goes_to_the_next() -> None:
    admission, ticket = full()
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


@in_virtual_time
async def test_a_request_admitted_and_cancelled_at_once_gives_its_place_on() -> None:
    admission, ticket = full()
    first, second = await come(admission), await come(admission)
    admission.accepted(ticket, now())
    first.cancel()
    await second
    assert first.cancelled()
    assert admission.throttle.in_flight == 1


@in_virtual_time
async def test_a_given_rate_is_kept_and_nobody_passes_those_whose_timer_is_late() -> None:
    admission, times = Admission(Throttle(32, 20.0)), list[float]()

    async def enter() -> None:
        ticket = await admission.enter(object())
        times.append(now())
        admission.accepted(ticket, now())

    entering = asyncio.gather(*(enter() for _ in range(20)))
    await asyncio.sleep(0)
    assert admission.try_enter(now() + 1) is None
    await entering
    assert times == sorted(times)
    assert times[-1] - times[0] == pytest.approx(19 / 20, abs=0.05)


@in_virtual_time
async def test_what_cannot_depart_in_time_is_refused_as_soon_as_that_is_certain() -> None:
    admission, ticket = full()
    for _ in range(6):  # an outage
        admission.failed(ticket, now(), None)
        ticket = admission.throttle.depart(now())
    await asyncio.sleep(20)
    impatient, patient, unbounded = [await come(admission, max_wait) for max_wait in (10, 100, inf)]
    admission.failed(ticket, now(), 600)  # for as long as it has lasted, which is 20 s
    with pytest.raises(NotAdmittedError) as told:
        await impatient
    assert (round(now()), told.value.seconds) == (20, pytest.approx(20, abs=1))
    assert not patient.done()
    await unbounded  # the newest finds out
    assert round(now()) == 40
    patient.cancel()
    await asyncio.wait([patient])


@examples(50)
@given(
    ends=st.lists(
        st.sampled_from(["accepted", "rejected", "failed", "cancelled", "leaves"]), min_size=1, max_size=40
    ),
    concurrency=st.integers(1, 8),
    operations=st.integers(1, 5),
)
@in_virtual_time
async def test_every_call_gets_its_turn_whatever_becomes_of_others(
    ends: list[str], concurrency: int, operations: int
) -> None:
    """Law 9: no order of accepted, rejected, failed and cancelled is a deadlock, or loses a place."""
    admission = Admission(Throttle(concurrency, None))

    async def call(number: int, end: str) -> None:
        operation, ticket = number % operations, await admission.enter(number % operations)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            admission.cancelled(ticket)
            raise
        match end:
            case "failed":
                admission.failed(ticket, now(), None)
            case "cancelled":
                admission.cancelled(ticket)
            case "rejected":
                await admission.sleep(admission.rejected(ticket, now(), None) - now())
                again = await admission.enter(operation, ticket=ticket, is_back=True)
                admission.accepted(again, now())
            case _:
                admission.accepted(ticket, now())

    tasks = [asyncio.create_task(call(number, end)) for number, end in enumerate(ends)]
    await asyncio.sleep(0)
    for task, end in zip(tasks, ends, strict=True):
        if end == "leaves":
            task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() or not task.exception() for task in tasks)
    assert (admission.throttle.in_flight, admission.waiting) == (0, 0)
