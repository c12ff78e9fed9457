"""Every request passes one admission: in turn, no place is lost, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import inf
from typing import cast

import pytest

from slashtag import SessionClosedError
from slashtag._core.queue import Flow, Place
from slashtag._core.throttle.throttle import Throttle, Ticket
from slashtag._sending.admission import Admission, WaitTooLongError

from ..support.sending import turns, until


class Fake:
    """A throttle with a gate, a cap and a known spacing of departures."""

    def __init__(self, places: int = 1, spacing: float = 0.0) -> None:
        self.places = places
        self.spacing = spacing
        self.paused_until = 0.0
        self.due = 0.0
        self.in_flight = 0
        self.told: list[str] = []
        self.exhausted = False

    def ready_at(self, now: float) -> float:
        return inf if self.in_flight >= self.places else max(self.paused_until, self.due)

    def depart(self, now: float, ticket: Ticket | None = None) -> Ticket:
        assert self.ready_at(now) <= now
        self.in_flight += 1
        self.due = now + self.spacing
        return cast("Ticket", object())

    def _back(self, what: str) -> None:
        self.in_flight -= 1
        self.told.append(what)

    def accepted(self, ticket: Ticket, now: float) -> None:
        self._back("accepted")

    def rejected(self, ticket: Ticket, now: float, retry_after: float | None = None) -> float:
        self._back("rejected")
        self.paused_until = now + (retry_after or 0)
        return 0.0

    def failed(self, ticket: Ticket, now: float, retry_after: float | None = None) -> None:
        self._back("failed")
        self.paused_until = now + (retry_after or 0)


class Door:
    """An admission and those who stand before it."""

    def __init__(self) -> None:
        self.throttle = Fake()
        self.admission = Admission(cast("Throttle", self.throttle))
        self.tasks: list[asyncio.Task[Ticket]] = []

    @property
    def now(self) -> float:
        """The time of the loop."""
        return asyncio.get_running_loop().time()

    async def come(
        self, place: Place | None = None, max_wait: float | None = None, flow: Flow | None = None
    ) -> asyncio.Task[Ticket]:
        place = self.admission.place(flow) if place is None else place
        task = asyncio.create_task(self.admission.enter(place, max_wait))
        self.tasks.append(task)
        await turns(3)
        return task

    def full(self) -> Ticket:
        """Take the only place."""
        ticket = self.admission.try_enter(self.admission.place(None), self.now)
        assert ticket is not None
        return ticket

    def shut(self, seconds: float) -> None:
        self.throttle.paused_until = self.now + seconds


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    yield door
    door.admission.close()
    for task in door.tasks:
        task.cancel()
    await asyncio.gather(*door.tasks, return_exceptions=True)


async def test_nobody_passes_those_who_wait(door: Door) -> None:
    ticket = door.full()
    waiting = await door.come()
    door.throttle.places = 2
    assert door.admission.try_enter(door.admission.place(None), door.now) is None
    door.admission.accepted(ticket, door.now)
    await waiting
    assert door.admission.try_enter(door.admission.place(None), door.now) is not None


async def test_the_oldest_goes_first_whenever_it_comes_back(door: Door) -> None:
    ticket = door.full()
    old = door.admission.place(None)
    young = [await door.come() for _ in range(3)]
    oldest = await door.come(old)
    assert door.admission.waiting == 4
    for task in (oldest, *young):
        assert not task.done()
        door.admission.accepted(ticket, door.now)
        ticket = await task
    assert door.throttle.in_flight == 1


async def test_a_place_given_back_in_any_way_goes_to_the_next(door: Door) -> None:
    admission = door.admission
    ticket = door.full()
    for give_back in (
        lambda ticket: admission.accepted(ticket, door.now),
        lambda ticket: admission.rejected(ticket, admission.place(None), door.now, None),
        lambda ticket: admission.failed(ticket, door.now, None),
        admission.cancelled,
    ):
        task = await door.come()
        give_back(ticket)
        ticket = await task
    assert door.throttle.told == ["accepted", "rejected", "failed", "failed"]
    assert door.throttle.in_flight == 1


async def test_departures_are_spaced_by_one_timer(door: Door) -> None:
    door.throttle.places, door.throttle.spacing = 50, 0.003
    times: list[float] = []

    async def enter() -> None:
        await door.admission.enter(door.admission.place(None))
        times.append(door.now)

    await asyncio.gather(*(enter() for _ in range(10)))
    assert times == sorted(times)
    assert times[-1] - times[0] >= 9 * 0.003 - 0.001


async def test_a_gate_that_opens_earlier_is_noticed(door: Door) -> None:
    door.throttle.places = 2
    ticket = door.full()
    door.shut(60)
    task = await door.come()
    door.throttle.paused_until = 0
    door.admission.failed(ticket, door.now, None)
    await task


async def test_an_earlier_opening_moves_the_timer(door: Door) -> None:
    door.throttle.places = 2
    door.shut(60)
    task = await door.come()
    door.shut(0.02)
    await door.come()
    await task


# --- cancellation ------------------------------------------------------------------------------------


async def test_a_cancelled_request_leaves_the_queue(door: Door) -> None:
    ticket = door.full()
    tasks = [await door.come() for _ in range(3)]
    tasks[0].cancel()
    tasks[1].cancel()
    await turns()
    assert door.admission.waiting == 1
    door.admission.accepted(ticket, door.now)
    await tasks[2]
    assert door.throttle.in_flight == 1


async def test_a_request_admitted_and_cancelled_at_once_gives_its_place_on(door: Door) -> None:
    ticket = door.full()
    first, second = await door.come(), await door.come()
    door.admission.accepted(ticket, door.now)
    first.cancel()
    await second
    assert first.cancelled()
    assert door.throttle.in_flight == 1


# --- max_wait ----------------------------------------------------------------------------------------


async def refused(task: asyncio.Task[Ticket]) -> float | None:
    with pytest.raises(WaitTooLongError) as told:
        await task
    seconds: float | None = told.value.args[0]
    return seconds


async def test_what_cannot_depart_in_time_is_refused_at_once(door: Door) -> None:
    door.shut(60)
    task = await door.come(max_wait=59)
    assert task.done()
    assert await refused(task) == pytest.approx(60, abs=1)


async def test_those_who_wait_are_refused_when_the_gate_closes_for_too_long(door: Door) -> None:
    ticket = door.full()
    impatient, patient, unbounded = [await door.come(max_wait=wait) for wait in (10, 100, None)]
    door.admission.rejected(ticket, door.admission.place(None), door.now, 60)
    await turns(3)
    assert [task.done() for task in (impatient, patient, unbounded)] == [True, False, False]
    assert await refused(impatient) == pytest.approx(60, abs=1)


async def test_a_full_house_is_left_when_the_time_is_over(door: Door) -> None:
    door.full()
    task = await door.come(max_wait=0.3)
    assert not task.done()
    assert await refused(task) is None
    assert door.admission.waiting == 0
    assert door.throttle.in_flight == 1


async def test_no_time_at_all_means_now_or_never(door: Door) -> None:
    ticket = await (await door.come(max_wait=0))
    task = await door.come(max_wait=0)
    assert await refused(task) is None
    door.admission.accepted(ticket, door.now)
    assert await (await door.come(max_wait=-1)) is not None


# --- the end -----------------------------------------------------------------------------------------


async def test_closing_refuses_those_who_wait_and_whoever_comes(door: Door) -> None:
    ticket = door.full()
    waiting, bounded, cancelled = await door.come(), await door.come(max_wait=60), await door.come()
    door.admission.close()
    cancelled.cancel()
    await turns()
    assert cancelled.cancelled()
    for task in (waiting, bounded, await door.come()):
        with pytest.raises(SessionClosedError):
            await task
    assert door.admission.waiting == 0
    door.admission.accepted(ticket, door.now)
    assert door.throttle.in_flight == 0


async def test_after_rejected_probes_as_many_different_calls_have_probed() -> None:
    """Law 5."""
    throttle, loop = Throttle(8), asyncio.get_running_loop()
    admission = Admission(throttle)
    probes: list[int] = []

    async def call(number: int) -> None:
        ticket, earliest, place = None, 0.0, admission.place(None)
        while True:
            ticket = await admission.enter(place, None, earliest, ticket)
            if throttle.exhausted:
                probes.append(number)
            earliest = admission.rejected(ticket, place, loop.time(), None)

    calls = [asyncio.create_task(call(number)) for number in range(16)]
    await until(lambda: len(probes) >= 8)
    admission.close()
    await asyncio.gather(*calls, return_exceptions=True)
    assert len(set(probes[:8])) == 8


async def test_a_single_request_waits_for_one_of_each_operation_at_most(door: Door) -> None:
    ticket = door.full()
    flows = [Flow() for _ in range(3)]
    reports = [await door.come(flow=flow) for flow in flows for _ in range(20)]
    page = await door.come()
    gone = 0
    while not page.done():
        door.admission.accepted(ticket, door.now)
        done, _ = await asyncio.wait([*reports, page], return_when=asyncio.FIRST_COMPLETED)
        (task,) = done
        ticket = task.result()
        if task in reports:
            reports.remove(task)
            gone += 1
    assert gone <= len(flows)


async def test_the_last_to_come_probes_first(door: Door) -> None:
    ticket = door.full()
    waiting = [await door.come() for _ in range(5)]
    door.throttle.exhausted = True
    door.admission.accepted(ticket, door.now)
    await turns(3)
    assert [task.done() for task in waiting] == [False] * 4 + [True]


async def test_a_request_that_waits_alone_lets_others_pass(door: Door) -> None:
    alone = asyncio.create_task(door.admission.enter(door.admission.place(None), None, door.now + 0.3))
    door.tasks.append(alone)
    await turns(3)
    assert door.admission.waiting == 1
    ticket = door.full()
    door.admission.accepted(ticket, door.now)
    await alone


async def test_a_wait_alone_beyond_max_wait_is_refused_at_once(door: Door) -> None:
    with pytest.raises(WaitTooLongError) as told:
        await door.admission.enter(door.admission.place(None), 5.0, door.now + 60)
    assert told.value.args[0] == pytest.approx(60, abs=5)


@pytest.mark.parametrize(("seconds", "warnings"), [(42, 1), (9, 0)])
async def test_a_long_wait_is_one_warning(
    door: Door, caplog: pytest.LogCaptureFixture, seconds: int, warnings: int
) -> None:
    door.shut(seconds)
    for _ in range(3):
        await door.come()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings
    assert caplog.text.count(f"{seconds} s") == warnings
