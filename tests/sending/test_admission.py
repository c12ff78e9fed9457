"""Every request passes one admission: no place is lost, and nobody waits in vain. In virtual time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import SessionClosedError
from slashtag._core.throttle.throttle import Throttle
from slashtag._core.throttle.ticket import Ticket
from slashtag._sending.admission import Admission, NotAdmittedError
from tests.support.laws import examples
from tests.support.virtual_time import in_virtual_time, now


def full() -> tuple[Admission, Ticket]:
    """Return an admission, and the ticket of its only place."""
    admission = Admission(Throttle(1))
    return admission, admission.throttle.depart(now())


async def enter(
    admission: Admission, operation: object, max_wait: float = inf, ticket: Ticket | None = None
) -> Ticket:
    at_once = admission.enter(now(), ticket)
    return at_once or await admission.wait(operation, max_wait, inf, ticket, is_back=ticket is not None)


async def come(admission: Admission, *args: Any) -> asyncio.Task[Ticket]:
    task = asyncio.create_task(enter(admission, object(), *args))
    await asyncio.sleep(0)
    return task


def give_back(admission: Admission, ticket: Ticket, end: str) -> float | None:
    """Return a ticket in one of four ways; return when its call may be sent again, if it was rejected."""
    again: float | None = getattr(admission.throttle, end)(ticket, now())
    admission.pump()
    return again


@in_virtual_time
async def test_a_request_admitted_and_cancelled_at_once_gives_its_place_on() -> None:
    admission, ticket = full()
    first, second = await come(admission), await come(admission)
    give_back(admission, ticket, "accepted")
    first.cancel()
    await second
    assert first.cancelled()
    assert admission.throttle.in_flight == 1


@in_virtual_time
async def test_nobody_passes_those_who_wait() -> None:
    admission, ticket = full()
    first = await come(admission)
    admission.throttle.accepted(ticket, now())
    second = await come(admission)
    await first
    assert not second.done()
    give_back(admission, first.result(), "accepted")
    await second


@in_virtual_time
async def test_a_timer_that_comes_early_for_nobody_is_set_again() -> None:
    asyncio.get_running_loop()._clock_resolution = 0.03  # type: ignore[attr-defined]
    admission = Admission(Throttle(9, 10.0))
    admission.throttle.depart(now())
    (await come(admission)).cancel()
    await asyncio.sleep(0.075)
    await (await come(admission))


@in_virtual_time
async def test_what_cannot_depart_in_time_or_at_all_is_refused_as_soon_as_that_is_certain() -> None:
    admission, ticket = full()
    throttle = admission.throttle
    for _ in range(6):  # an outage
        throttle.failed(ticket, now())
        ticket = throttle.depart(now())
    await asyncio.sleep(20)
    impatient, patient, unbounded = [await come(admission, max_wait) for max_wait in (10, 100, inf)]
    throttle.failed(ticket, now(), 600)  # for as long as it has lasted, which is 20 s
    admission.pump()
    with pytest.raises(NotAdmittedError):
        await impatient
    assert round(now()) == 20
    assert not patient.done()
    await unbounded  # the newest finds out
    assert round(now()) == 40
    admission.close()
    for task in (patient, await come(admission)):
        with pytest.raises(SessionClosedError):
            await task


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
    admission = Admission(Throttle(concurrency))

    async def call(number: int, end: str) -> None:
        operation = number % operations
        ticket = await enter(admission, operation)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            give_back(admission, ticket, "cancelled")
            raise
        if again := give_back(admission, ticket, end):
            await admission.sleep(again - now())
            assert ticket is await enter(admission, operation, ticket=ticket)
            give_back(admission, ticket, "accepted")

    tasks = [asyncio.create_task(call(n, end.replace("leaves", "accepted"))) for n, end in enumerate(ends)]
    await asyncio.sleep(0)
    for task, end in zip(tasks, ends, strict=True):
        if end == "leaves":
            task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() or not task.exception() for task in tasks)
    assert (admission.throttle.in_flight, admission.waiting) == (0, 0)
