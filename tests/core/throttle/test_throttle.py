"""The laws of the throttle, told `now` by the test.

1. A call whatever its answers delays no other by more than 1.5 round trips and 50 ms. 2. A 429 of a refused
call changes nothing but when that call is sent again, and counters. 3. The waits of a refused call at least
double, up to a minute. 4. Accepted requests sent before the first 429 of a row do not shorten it. 5. After n
rejected probes n different calls have probed. 6. A Retry-After told by every probe: nothing departs before
about that time; told by one: the wait at most doubles. 7. The rate of a bucket measured between two openings
is exact but for one request. 8. From a limit to none in a minute once nothing is refused. 9. No deadlock
under any order of accepted, rejected, failed, cancelled. 10. Amid up to 10 % of strays the pace is 0.9 of
full speed after ten seconds. 11. Failures change no rate; after an outage the state is the one before it.
Laws 8 to 10 are in test_simulated.py, law 5 in tests/core/test_turns.py.
"""

from __future__ import annotations

from collections.abc import Callable
from logging import INFO, WARNING
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.throttle.outage import FAILURES, LONGEST_PAUSE
from slashtag._core.throttle.throttle import (
    CLUSTER,
    FLOOR,
    LONGEST_REFUSED,
    PACED,
    START,
    WAIT,
    Throttle,
    Ticket,
)

maybe_told = st.sampled_from([None, 0.0, 1.0, 60.0])


def fill(throttle: Throttle, now: float) -> list[Ticket]:
    """Let everything depart that may at `now`."""
    tickets = list[Ticket]()
    while throttle.ready_at(now) <= now:
        tickets.append(throttle.depart(now))
        assert len(tickets) <= 10_000
    return tickets


def exhausted(retry_after: float | None = None, accepted: int = 0) -> Throttle:
    """Return a throttle that sent a first burst at 10.0 and met 429s; nothing of it is in flight."""
    throttle = Throttle(32)
    tickets = fill(throttle, 10.0)
    for _ in range(accepted):
        throttle.accepted(tickets.pop(), 10.0)
        tickets += fill(throttle, 10.0)
    for ticket in tickets:
        throttle.rejected(ticket, 10.1, retry_after)
    assert throttle.exhausted
    return throttle


def probe(throttle: Throttle, now: float, previous: Ticket | None = None) -> tuple[Ticket, float]:
    """Wait for the next departure; return it with its time."""
    at = max(now, throttle.ready_at(now))
    assert at < inf
    return throttle.depart(at, previous), at


def until(throttle: Throttle, now: float, end: float) -> float:
    """Answer probes 429 until `end`, the next one 200; return when that was sent."""
    while True:
        ticket, now = probe(throttle, now)
        if now >= end:
            throttle.accepted(ticket, now + 0.05)
            return now
        now += 0.05
        throttle.rejected(ticket, now)


def paced() -> tuple[Throttle, float]:
    """Return a throttle that has learnt a rate, and the time."""
    throttle = exhausted(accepted=30)
    now = until(throttle, 10.2, 11.5)
    assert not throttle.exhausted
    assert throttle.learned_rate is not None
    return throttle, now + 0.1


def quota() -> tuple[Throttle, float]:
    """Return a throttle that has learnt a quota of about 30 a minute, and the time."""
    throttle = exhausted(accepted=30)
    now = until(throttle, 10.2, 70.0)
    assert throttle.learned_rate == pytest.approx(0.5, rel=0.1)
    return throttle, now + 0.1


STATES: dict[str, Callable[[], tuple[Throttle, float]]] = {
    "open": lambda: (Throttle(32), 10.0),
    "probing": lambda: (exhausted(), 10.2),
    "paced": paced,
    "quota": quota,
}

# -- a call for itself


@example(told=[1.0, None, None, None, None, None, None], trip=1.0, concurrency=2)
@given(
    told=st.lists(maybe_told, min_size=1, max_size=12),
    trip=st.floats(0.001, 2),
    concurrency=st.integers(2, 64),
)
def test_one_call_whatever_its_answers_delays_no_other(
    told: list[float | None], trip: float, concurrency: int
) -> None:
    """Law 1."""
    throttle, now, ticket = Throttle(concurrency), 100.0, None
    for retry_after in told:
        ticket = throttle.depart(now, ticket)
        assert throttle.ready_at(now) <= now
        again = throttle.rejected(ticket, now + trip, retry_after)
        assert throttle.ready_at(now + trip) <= now + 2.5 * trip + FLOOR
        now = max(again, now + trip)
        assert throttle.ready_at(now) <= now


@pytest.mark.parametrize("retry_after", [None, 60.0])
@pytest.mark.parametrize("state", ["open", "paced", "quota"])
def test_a_429_of_a_refused_call_changes_nothing_for_others(state: str, retry_after: float | None) -> None:
    """Law 2."""
    throttle, now = STATES[state]()
    ticket = Ticket()
    for _ in range(3):
        _, now = probe(throttle, now, ticket)
        other, later = probe(throttle, now)
        throttle.rejected(ticket, later + 0.02, retry_after)
        throttle.accepted(other, later + 0.03)
        other, now = probe(throttle, later + 0.03)
        throttle.accepted(other, now + 0.01)
        now += 0.02
    ready, rate = throttle.ready_at(now), throttle.learned_rate
    throttle.depart(now, ticket)
    again = throttle.rejected(ticket, now, retry_after)
    assert ticket.refusals > 0
    assert throttle.ready_at(now) <= max(ready, now + 0.2 * (state == "paced"))
    assert throttle.learned_rate == rate
    assert again >= now + (retry_after or WAIT)


def test_a_call_is_refused_only_where_others_were_accepted_since_its_last_429() -> None:
    throttle, ticket = Throttle(32), Ticket()
    for now, is_refused, others_pass in ((10.0, False, True), (11.0, True, False), (12.0, False, False)):
        throttle.rejected(throttle.depart(now, ticket), now + 0.1)
        assert (ticket.refusals > 0) is is_refused
        if others_pass:
            throttle.accepted(throttle.depart(now + 0.2), now + 0.3)


@given(st.lists(maybe_told, min_size=2, max_size=10))
def test_the_waits_of_a_refused_call_at_least_double(told: list[float | None]) -> None:
    """Law 3."""
    throttle, now, ticket, waits = Throttle(8), 100.0, None, []
    for retry_after in told:
        ticket = throttle.depart(now, ticket)
        now += 0.1
        waits.append(throttle.rejected(ticket, now, retry_after) - now)
        throttle.accepted(throttle.depart(now + 0.001), now + 0.002)
        now += waits[-1]
    least = [
        max(min(WAIT * 2.0**n, LONGEST_REFUSED) * (n > 0), seconds or 0.0) for n, seconds in enumerate(told)
    ]
    assert all(wait >= seconds - 1e-6 for wait, seconds in zip(waits, least, strict=True))


# -- an exhausted limit


@pytest.mark.parametrize("sent_later", [False, True])
def test_accepted_requests_sent_before_the_first_429_prove_nothing(sent_later: bool) -> None:
    """Law 4."""
    throttle = Throttle(32)
    first = fill(throttle, 10.0)
    for ticket in first[:3]:
        throttle.rejected(ticket, 10.1)
    for ticket in first[3:7]:
        throttle.cancelled(ticket, 10.1)
    for _ in range(3):
        passing = throttle.depart(10.2) if sent_later else first.pop()
        throttle.accepted(passing, 10.3)
    for _ in range(CLUSTER - 3):
        throttle.rejected(throttle.depart(10.3), 10.4)
    assert throttle.exhausted is not sent_later


@given(told=st.floats(2, 600), liar=st.booleans())
def test_a_retry_after_binds_the_session_for_as_long_as_the_limit_was_exhausted_already(
    told: float, liar: bool
) -> None:
    """Law 6: told by each probe it is kept, and few are sent; told by one the wait at most doubles."""
    throttle, now, since, sent = exhausted(told), 10.1, 10.1, 0
    while now < since + told - 0.5 * told * liar:
        ticket, at = probe(throttle, now)
        assert at <= max(since + 2 * (now - since), now + 2.0) + 0.2
        now, sent = at + 0.05, sent + 1
        throttle.rejected(ticket, now, told)
    assert sent <= 16
    assert now <= since + 2 * told + 0.5


# -- an outage


def fail(throttle: Throttle, now: float, seconds: float, told: float | None = None) -> tuple[float, int]:
    """Let everything fail for so many seconds; return the time of the next probe, and how many failed."""
    end, sent = now + seconds, 0
    while True:
        at = throttle.ready_at(now)
        if sent and at >= end:
            return at, sent
        now = max(now, at) + 0.05
        ticket = throttle.depart(now - 0.05)
        throttle.failed(ticket, now, told)
        sent += 1


@given(
    state=st.sampled_from(["open", "paced", "quota"]),
    seconds=st.floats(5, 1000),
    told=st.sampled_from([None, 3.0, 600.0]),
)
def test_after_an_outage_all_is_as_it_was_before(state: str, seconds: float, told: float | None) -> None:
    """Law 11: nothing is learnt from failures."""
    throttle, now = STATES[state]()
    other, began = STATES[state]()
    back, sent = fail(throttle, now, seconds, told)
    assert sent <= 6 + 16 + seconds / LONGEST_PAUSE
    assert throttle.outage.is_on
    throttle.accepted(throttle.depart(back), back + 0.05)
    other.accepted(other.depart(other.ready_at(began)), began + 0.05)
    assert not throttle.outage.is_on
    assert (throttle.state, throttle.learned_rate) == (other.state, other.learned_rate)
    if state != "quota":  # whose width is over
        before = other.ready_at(began + 0.1) - began
        assert throttle.ready_at(back + 0.1) - back <= before + 2 / (throttle.learned_rate or inf) + 0.1


@given(st.lists(st.booleans(), max_size=200))
@example([True] * 9 + [False])
def test_failures_among_answers_delay_nobody_and_an_outage_is_told(failures: list[bool]) -> None:
    told = list[int]()
    throttle = Throttle(32, notify=lambda level, _: told.append(level))
    expected, now, row = list[int](), 100.0, 0
    for is_failure in failures:
        before, row = row, row + 1 if is_failure else 0
        expected += [INFO if expected else WARNING] * (row == FAILURES + 1)
        expected += [INFO] * (before > FAILURES and not row)
        ticket = throttle.depart(now)
        (throttle.failed if is_failure else throttle.accepted)(ticket, now)
        assert (throttle.ready_at(now) > now) is (row > FAILURES)
        assert told == expected
        now = max(now, throttle.ready_at(now))


def test_failures_of_requests_that_were_in_flight_together_are_no_outage() -> None:
    throttle = Throttle(32)
    for ticket in fill(throttle, 1.0):
        throttle.failed(ticket, 1.1)
    assert throttle.ready_at(1.1) <= 1.1


def test_an_answer_ends_an_outage_whatever_becomes_of_its_probe() -> None:
    throttle = Throttle(32)
    earlier = throttle.depart(1.0)
    at, _ = fail(throttle, 1.0, 60)
    throttle.depart(at)
    throttle.rejected(earlier, at)
    assert throttle.ready_at(at) <= at


@pytest.mark.parametrize("liar", [False, True])
def test_the_retry_after_of_a_503_is_kept_if_every_probe_is_told_it(liar: bool) -> None:
    """Law 6: told by one the wait at most doubles; and nobody loses patience in a pause that was told."""
    throttle = Throttle(32)
    at, _ = fail(throttle, 0.0, 10)
    before = throttle.outage.lasted(at)
    ticket = throttle.depart(at)
    throttle.failed(ticket, at, 600)
    assert at * 2 - 1 <= throttle.ready_at(at) <= at * 2
    if not liar:
        _, sent = fail(throttle, at, 590, 600)
        assert sent <= 8
    assert throttle.outage.lasted(at) <= before + 15


def test_failures_long_ago_are_no_part_of_an_outage() -> None:
    throttle = Throttle(32)
    for now in (1.0, 2.0, 3.0, 4.0, 401.0, 402.0, 403.0, 404.0):
        throttle.failed(throttle.depart(now), now)
    assert not throttle.outage.is_on


# -- measurements


@given(rate=st.floats(5, 20), above=st.floats(1.6, 2.4), burst=st.integers(4, 8))
def test_the_rate_between_two_openings_is_exact_but_for_one_request(
    rate: float, above: float, burst: int
) -> None:
    """Law 7: a bucket with an exact clock, empty at both ends, has accepted its rate."""
    throttle, now, tokens, at = Throttle(32), 100.0, float(burst), 100.0
    # At a rate that is too high: a bucket was full when it was measured.
    throttle.state, throttle._rate = PACED, above * rate
    passed, openings = 0, 0
    while openings < 2:
        assert now < 200
        ticket, now = probe(throttle, now + 1e-3)
        tokens, at = min(burst, tokens + (now - at) * rate), now
        was_exhausted = throttle.exhausted
        if tokens < 1:
            throttle.rejected(ticket, now)
            continue
        tokens, passed = tokens - 1, passed + 1
        throttle.accepted(ticket, now)
        if was_exhausted:
            learnt = throttle.learned_rate
            assert learnt is not None
            if openings:  # before the first one the bucket was not empty
                assert learnt == pytest.approx(max(rate, above * rate / CLUSTER), rel=2 / passed)
            openings, passed = openings + 1, 0


@pytest.mark.parametrize("concurrency", [1, 2, 3, 16, 64])
def test_starts_with_few_in_flight_and_grows_to_the_concurrency(concurrency: int) -> None:
    throttle, now, most = Throttle(concurrency), 0.0, []
    for _ in range(30):
        tickets = fill(throttle, now)
        most.append(throttle.in_flight)
        assert throttle.ready_at(now) == inf
        now += 0.1
        for ticket in tickets:
            throttle.accepted(ticket, now)
    assert most[0] == min(START, concurrency)
    assert most == sorted(most)
    assert most[-1] == concurrency


@pytest.mark.parametrize("demand", [0.5, 5.0, 20.0])
def test_light_traffic_teaches_no_rate(demand: float) -> None:
    """The lack of calls was the limit: after an outage a large job is not as slow as that traffic was."""
    throttle, now = Throttle(32), 100.0
    for _ in range(200):
        throttle.accepted(throttle.depart(now), now + 0.02)
        now += 1 / demand
    for ticket in fill(throttle, now):
        throttle.rejected(ticket, now + 0.02)
    assert throttle.exhausted
    until(throttle, now + 0.05, now + 0.3)
    assert throttle.learned_rate is None


@pytest.mark.parametrize("idle", [60.0, 3600.0])
def test_idle_time_changes_no_learnt_rate(idle: float) -> None:
    throttle, now = paced()
    rate = throttle.learned_rate
    now += idle
    for _ in range(3):
        ticket, now = probe(throttle, now)
        throttle.accepted(ticket, now + 0.05)
    for _ in range(20):
        if not throttle.exhausted:
            ticket, now = probe(throttle, now)
            throttle.rejected(ticket, now + 0.01)
    assert throttle.exhausted
    until(throttle, now, now + 0.2)
    assert throttle.learned_rate == rate


def test_few_calls_that_wait_as_they_are_told_are_not_idle() -> None:
    """One call at a time: it meets no cluster of 429s, but a limit of 10 a second nevertheless."""
    throttle, now = Throttle(32), 100.0
    for _ in range(6):
        for _ in range(10):
            throttle.accepted(throttle.depart(now), now + 0.002)
            now += 0.002
        now = throttle.rejected(throttle.depart(now), now + 0.002, 1.0)
    assert throttle.learned_rate == pytest.approx(10, rel=0.2)


def test_a_quota_begins_anew_when_its_width_is_over_spent_or_not() -> None:
    throttle, now = quota()
    for share in (0.3, 1.0, 1.0):
        now, sent = now + 65, 0
        while len(tickets := fill(throttle, now)) > 1 and sent < 30 * share:
            sent += len(tickets)
            for ticket in tickets:
                throttle.accepted(ticket, now)
        for ticket in tickets:
            throttle.cancelled(ticket, now)
        assert sent == pytest.approx(30 * share, abs=6)


# -- a known rate


@given(rate=st.floats(0.5, 500), width=st.floats(0.5, 5))
def test_a_known_rate_is_not_exceeded_in_any_window(rate: float, width: float) -> None:
    throttle, now, departures = Throttle(64, rate=rate), 10.0, []
    for _ in range(300):
        ticket, now = probe(throttle, now)
        departures.append(now)
        throttle.accepted(ticket, now)
    for first, start in enumerate(departures):
        inside = sum(1 for at in departures[first:] if at < start + width)
        assert inside <= 1 + rate * (width + 0.02) + 1e-6


def test_a_known_rate_catches_up_with_late_timers_and_survives_429s() -> None:
    throttle, now, sent = Throttle(64, rate=50.0), 10.0, 0
    while now < 30.0:
        for ticket in fill(throttle, now):
            sent += 1
            throttle.accepted(ticket, now)
        now = throttle.ready_at(now) + 0.004
    assert sent == pytest.approx(1000, abs=3)
    for _ in range(200):
        ticket, now = probe(throttle, now)
        now += 0.01
        throttle.rejected(ticket, now, 0.5)
    assert throttle.exhausted
    ticket, now = probe(throttle, now)
    throttle.accepted(ticket, now + 0.01)
    assert not throttle.exhausted
    assert throttle.learned_rate == 50.0
