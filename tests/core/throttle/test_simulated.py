"""The throttle against models of servers, in virtual time: nothing is lost, and the goals are reached."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from benchmarks.pacing.cases import Case, cases
from benchmarks.pacing.servers import (
    Errors,
    FixedWindow,
    InFlight,
    Server,
    SlidingWindow,
    Strays,
    TokenBucket,
)
from benchmarks.pacing.simulate import CONCURRENCY, oracle, run
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.throttle.throttle import UNPACED, Throttle, Ticket

from ...support.laws import examples

GOALS = {f"{case.row}: {case.label}": case for case in cases()}

maybe_told = st.sampled_from([None, 0.0, 1.0, 2.0, 5.0])
limits = st.one_of(
    st.builds(
        lambda rate, burst, told: lambda rng: TokenBucket(rng, rate, burst, told),
        st.floats(0.5, 500),
        st.integers(1, 100),
        maybe_told,
    ),
    st.builds(
        lambda kind, limit, width, told: lambda rng: kind(rng, limit, width, told),
        st.sampled_from([FixedWindow, SlidingWindow]),
        st.integers(1, 300),
        st.floats(0.2, 40),
        st.booleans(),
    ),
    st.builds(lambda most: lambda rng: InFlight(rng, most), st.integers(1, 70)),
    st.builds(
        lambda before, after: lambda rng: TokenBucket(rng, before, 10, None, (3.0, after)),
        st.floats(1, 200),
        st.floats(1, 200),
    ),
    st.just(Server),
)


@st.composite
def servers(draw: st.DrawFn) -> Callable[[Random], Server]:
    limit = draw(limits)
    trouble = draw(st.sampled_from(["none", "none", "errors", "strays"]))
    if trouble == "errors":
        share = draw(st.floats(0, 0.5))
        return lambda rng: Errors(limit(rng), share)
    if trouble == "strays":
        every = draw(st.integers(2, 20))
        return lambda rng: Strays(limit(rng), every)
    return limit


@examples(200)
@given(servers(), st.integers(1, CONCURRENCY), st.floats(0.2, 4), st.integers(0, 2**32))
def test_no_deadlock_and_no_request_lost_on_any_server(
    make: Callable[[Random], Server], concurrency: int, scale: float, seed: int
) -> None:
    throttle = Throttle(concurrency)
    most = 0

    def watch(now: float) -> None:
        nonlocal most
        most = max(most, throttle.in_flight)

    done = run(throttle, make(Random(seed)), 150, seed, scale=scale, watch=watch, give_up=1e6)
    assert done.useful == 150
    assert done.rejects == throttle.throttled
    assert throttle.in_flight == 0
    assert most <= concurrency


class Quitters:
    """A throttle some of whose requests are abandoned on their way, as tasks that are cancelled do."""

    def __init__(self, throttle: Throttle, every: int) -> None:
        self._throttle = throttle
        self._every = every
        self._answers = 0
        self.ready_at = throttle.ready_at
        self.depart = throttle.depart

    def _quits(self) -> bool:
        self._answers += 1
        return self._answers % self._every == 0

    def accepted(self, ticket: Any, now: float) -> None:
        (self._throttle.cancelled if self._quits() else self._throttle.accepted)(ticket, now)

    def rejected(self, ticket: Any, now: float, retry_after: float | None) -> None:
        if self._quits():
            self._throttle.cancelled(ticket, now)
        else:
            self._throttle.rejected(ticket, now, retry_after)

    def failed(self, ticket: Any, now: float, retry_after: float | None) -> None:
        self._throttle.failed(ticket, now, retry_after)


@examples(50)
@given(servers(), st.integers(3, 9), st.integers(0, 2**32))
def test_abandoned_requests_and_probes_hold_nobody_up(
    make: Callable[[Random], Server], every: int, seed: int
) -> None:
    throttle = Throttle(CONCURRENCY)
    done = run(Quitters(throttle, every), make(Random(seed)), 150, seed, give_up=1e6)
    assert done.useful == 150
    assert throttle.in_flight == 0


class Sessions:
    """Several sessions that know nothing of each other and share one queue and one limit."""

    def __init__(self, count: int) -> None:
        self._throttles = [Throttle(CONCURRENCY) for _ in range(count)]
        self._turn = 0
        self.accepts = [0] * count

    def ready_at(self, now: float) -> float:
        at = [throttle.ready_at(now) for throttle in self._throttles]
        ready = [n for n, time in enumerate(at) if time <= now]
        if ready:
            self._turn = ready[int(now * 1e6) % len(ready)]
        return min(at)

    def depart(self, now: float) -> tuple[int, Ticket]:
        return self._turn, self._throttles[self._turn].depart(now)

    def accepted(self, ticket: tuple[int, Ticket], now: float) -> None:
        self.accepts[ticket[0]] += 1
        self._throttles[ticket[0]].accepted(ticket[1], now)

    def rejected(self, ticket: tuple[int, Ticket], now: float, retry_after: float | None) -> None:
        self._throttles[ticket[0]].rejected(ticket[1], now, retry_after)

    def failed(self, ticket: tuple[int, Ticket], now: float, retry_after: float | None) -> None:
        self._throttles[ticket[0]].failed(ticket[1], now, retry_after)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_sessions_share_one_limit_and_waste_little(seed: int) -> None:
    sessions = Sessions(2)
    done = run(sessions, TokenBucket(Random(seed), 100, 20), 6000, seed)
    assert 60 / done.time >= 0.9
    assert done.rejects <= 0.05 * 6000
    assert min(sessions.accepts) >= max(sessions.accepts) / 3


def reach(case: Case, seed: int) -> tuple[float, int]:
    best = oracle(case.server(seed), case.requests, seed)
    done = run(Throttle(CONCURRENCY), case.server(seed), case.requests, seed)
    return best / done.time, done.rejects


@pytest.mark.parametrize(
    "name",
    [
        "token bucket 5-200/s: 20/s, burst 10",
        "token bucket 5-200/s: 100/s, burst 20",
        "token bucket, Retry-After 1 s: 20/s, burst 10",
        "window of 1 s: sliding, 30/1 s",
        "window of 60 s: fixed, 300/60 s",
        "window of 60 s: sliding, 1000/60 s, Retry-After",
        "at most K in flight: K = 4",
        "at most K in flight: K = 16",
        "the limit halves or doubles: 40/s, then 20/s, burst 10",
        "the limit halves or doubles: 50/s, then 100/s, burst 20",
        "2 % of answers are 500s: 20/s, burst 10",
    ],
)
def test_the_goal_is_reached(name: str) -> None:
    case = GOALS[name]
    found = sorted(reach(case, seed) for seed in (1, 2, 3))
    assert found[1][0] >= case.utilisation
    assert sorted(rejects for _, rejects in found)[1] <= case.most_rejects


def test_stray_429s_do_not_drive_the_rate_down_for_ever() -> None:
    throttle = Throttle(CONCURRENCY)
    done = run(throttle, Strays(Server(Random(1)), 4), 8000, 1)
    assert throttle.state == UNPACED
    assert done.time < 12 + 1.5 * oracle(Strays(Server(Random(1)), 4), 8000, 1)


def test_a_limit_behind_strays_is_still_met_with_a_pace() -> None:
    throttle = Throttle(CONCURRENCY)
    done = run(throttle, Strays(TokenBucket(Random(1), 50, 20), 10), 3000, 1)
    assert done.rejects < 0.35 * 3000


def test_a_limit_that_is_lifted_is_forgotten() -> None:
    throttle = Throttle(CONCURRENCY)
    server = TokenBucket(Random(1), 20, 10, None, (20.0, 10_000.0))
    done = run(throttle, server, 10_000, 1)
    assert done.time < 60


def test_the_news_tell_the_limit_and_its_change() -> None:
    throttle = Throttle(CONCURRENCY)
    told: list[str] = []
    throttle.notify = told.append
    run(throttle, TokenBucket(Random(1), 50, 20, None, (30.0, 20.0)), 2000, 1)
    assert 2 <= len(told) <= 8
    rates = [
        float(text.removeprefix("the service allows about ").removesuffix(" requests/s")) for text in told
    ]
    assert any(abs(rate - 50) < 5 for rate in rates)
    assert abs(rates[-1] - 20) < 4
