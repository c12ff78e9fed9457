"""The throttle told `now` by the test: its laws, and its decision table row by row.

1. A call whatever its answers delays no other by more than 1.5 round trips and 50 ms. 2. A 429 of a refused
call changes nothing but when that call is sent again, and counters. 3. The waits of a refused call at least
double. 4. Accepted requests sent before the first 429 of a row do not shorten it. 5. After n rejected probes
n different calls have probed. 6. If every probe is told a Retry-After, nothing departs before about
then; if one is, the wait at most doubles. 7. A rate measured between two openings is exact but for one
request. 8. From 5/s to no limit in a minute once nothing is refused.
9. No deadlock under any order of accepted, rejected, failed,
cancelled. 10. Amid up to 10 % of strays the pace is 0.9 of full speed after ten seconds.
Laws 8 to 10 are in test_simulated.py, law 5 in tests/sending/test_admission.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.throttle.throttle import FLOOR, LONGEST, SLACK, SLOWEST, WAIT, Throttle, Ticket

maybe_told = st.sampled_from([None, 0.0, 1.0, 60.0])
TRIP = 0.1  # seconds of an answer


def fill(throttle: Throttle, now: float) -> list[Ticket]:
    """Let everything depart that may at `now`."""
    tickets: list[Ticket] = []
    while throttle.ready_at(now) <= now:
        tickets.append(throttle.depart(now))
        assert len(tickets) <= 10_000
    return tickets


def exhausted(accepted: int = 0, told: float | None = None) -> tuple[Throttle, float]:
    """Return a throttle that met 429s after so many accepted requests, nothing in flight, and the time."""
    throttle, now = Throttle(32), 10.0
    tickets = fill(throttle, now)
    while accepted:
        for ticket in tickets[:accepted]:
            throttle.accepted(ticket, now + TRIP)
        tickets, accepted = tickets[accepted:], max(0, accepted - len(tickets))
        now += TRIP
        tickets += fill(throttle, now)
    for ticket in tickets:
        throttle.rejected(ticket, now + TRIP, told)
    assert throttle.exhausted
    return throttle, now + TRIP


def probe(throttle: Throttle, now: float, previous: Ticket | None = None) -> tuple[Ticket, float]:
    """Wait for the next departure; return it with its time."""
    at = max(now, throttle.ready_at(now))
    assert at < inf
    return throttle.depart(at, previous), at


def reopen(throttle: Throttle, now: float, at: float) -> float:
    """Let probes be answered 429 until `at`, then one be accepted; return when that was sent."""
    while True:
        ticket, now = probe(throttle, now)
        if now >= at:
            throttle.accepted(ticket, now + TRIP)
            return now
        throttle.rejected(ticket, now + TRIP)
        now += TRIP


def paced() -> tuple[Throttle, float]:
    """Return a throttle that has learnt a rate, and the time."""
    throttle, now = exhausted(accepted=24)
    now = reopen(throttle, now, 11.5) + TRIP
    assert throttle.learned_rate is not None
    return throttle, now


def with_quota() -> tuple[Throttle, float]:
    """Return a throttle that has learnt a quota a minute, and the time."""
    throttle, now = exhausted(accepted=40)
    return throttle, reopen(throttle, now, 70.0) + TRIP


def refused() -> Ticket:
    """Return the ticket of a call that was refused again and again."""
    return Ticket(rejects=9, refusals=8, first=0.0, last=-1e9)


STATES: dict[str, Callable[[], tuple[Throttle, float]]] = {
    "open": lambda: (Throttle(32), 10.0),
    "probing": exhausted,
    "paced": paced,
    "quota": with_quota,
}


# -- a call for itself


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
    (throttle, now), (other, _) = STATES[state](), STATES[state]()
    for one, is_refused in ((throttle, True), (other, False)):
        at = max(now, one.ready_at(now))
        passing = one.depart(at)
        one.accepted(passing, at + 0.05)
        if is_refused:
            ticket = one.depart(at, refused())
            again = one.rejected(ticket, at + 0.1, retry_after)
            assert again >= at + 0.1 + (retry_after or WAIT)
    assert throttle.throttled == other.throttled + 1
    assert throttle.learned_rate == other.learned_rate
    # A refused call that departs starts no curve anew: the next departure is the same, but for a turn.
    for later in (0.1, 0.2, 0.5):
        assert throttle.ready_at(now + later) == pytest.approx(other.ready_at(now + later), abs=FLOOR)


@given(st.lists(maybe_told, min_size=2, max_size=10))
def test_the_waits_of_a_refused_call_at_least_double(told: list[float | None]) -> None:
    """Law 3."""
    throttle, now, ticket, waits = Throttle(8), 100.0, None, list[float]()
    for retry_after in told:
        ticket = throttle.depart(now, ticket)
        now += 0.1
        waits.append(throttle.rejected(ticket, now, retry_after) - now)
        throttle.accepted(throttle.depart(now + 0.001), now + 0.002)
        now += waits[-1]
    least = [max(WAIT * 2.0**n * (n > 0), seconds or 0.0) for n, seconds in enumerate(told)]
    assert all(wait >= seconds - 1e-6 for wait, seconds in zip(waits, least, strict=True))


def test_a_call_is_refused_no_longer_once_it_meets_a_429_since_which_nothing_was_accepted() -> None:
    throttle, ticket = Throttle(32), Ticket(rejects=1, first=1.0, last=1.0)
    throttle.accepted(throttle.depart(10.0), 10.1)
    throttle.rejected(throttle.depart(10.2, ticket), 10.3)
    assert ticket.is_refused
    throttle.rejected(throttle.depart(12.0, ticket), 12.1)
    assert not ticket.is_refused


def test_a_call_alone_is_sent_ever_less_often() -> None:
    throttle, start, ticket, sent = Throttle(8), 100.0, None, 0
    now = start
    while now < start + 900:
        ticket = throttle.depart(now, ticket)
        sent += 1
        now = throttle.rejected(ticket, now + 0.1)
    assert sent <= 900 / SLOWEST + 20


# -- an exhausted limit


def test_accepted_requests_sent_before_the_first_429_prove_nothing() -> None:
    """Law 4."""
    found = []
    for sent_later in (False, True):
        throttle = Throttle(32)
        first = fill(throttle, 10.0)
        for ticket in first[:3]:
            throttle.rejected(ticket, 10.1)
        for _ in range(5):
            passing = throttle.depart(10.2) if sent_later else first.pop()
            throttle.accepted(passing, 10.3)
        for ticket in first[3:5]:
            throttle.rejected(ticket, 10.3)
        found.append(throttle.exhausted)
    assert found == [True, False]


def test_the_429s_of_one_call_are_no_cluster() -> None:
    throttle, now, ticket = Throttle(32), 10.0, None
    for _ in range(50):
        ticket = throttle.depart(now, ticket)
        now = throttle.rejected(ticket, now + TRIP)
        assert not throttle.exhausted


def test_without_retry_after_the_pause_is_one_and_a_half_round_trips() -> None:
    throttle, now = exhausted()
    assert throttle.ready_at(now) == pytest.approx(now + 1.5 * TRIP)


def test_only_a_probe_that_is_accepted_opens_the_limit_again() -> None:
    throttle = Throttle(32)
    tickets = fill(throttle, 10.0)
    for ticket in tickets[:6]:
        throttle.rejected(ticket, 10.1)
    ticket, at = probe(throttle, 10.1)
    for older in tickets[6:]:
        throttle.accepted(older, at + 0.01)
    assert throttle.exhausted
    assert throttle.ready_at(at + 1) == inf
    throttle.accepted(ticket, at + 0.1)
    assert not throttle.exhausted


def test_a_probe_that_ends_without_an_answer_gives_its_place_back() -> None:
    throttle, now = exhausted()
    ticket, at = probe(throttle, now)
    throttle.failed(ticket, at + 0.1)
    assert throttle.ready_at(at + 0.1) < at + 1


def test_probes_are_further_and_further_apart_up_to_seconds() -> None:
    throttle, now = exhausted()
    gaps = []
    for _ in range(25):
        ticket, at = probe(throttle, now)
        gaps.append(round(at - now, 6))
        now = at + 0.05
        throttle.rejected(ticket, now)
    assert gaps[1:] == sorted(gaps[1:])
    assert 2 < gaps[-1] <= SLOWEST


@given(told=st.floats(5, 600))
def test_nothing_departs_before_a_retry_after_that_every_probe_is_told(told: float) -> None:
    """Law 6: but for the first few probes, each of which may at most double the wait."""
    throttle, now = exhausted(told=told)
    start, sent = now, []
    while now < start + told:
        ticket, now = probe(throttle, now)
        sent.append(now)
        now += 0.01
        throttle.rejected(ticket, now, max(start + told - now, 0.01))
    assert len(sent) <= 20
    assert sum(start + told / 2 < at < start + told - 1 for at in sent) <= 2


@given(told=st.floats(1, 86_400), probes=st.integers(1, 20))
def test_one_retry_after_at_most_doubles_the_wait(told: float, probes: int) -> None:
    """Law 6."""
    throttle, start = exhausted()
    now = start
    for _ in range(probes):
        ticket, now = probe(throttle, now)
        throttle.rejected(ticket, now)
    ticket, now = probe(throttle, now)
    throttle.rejected(ticket, now, told)
    assert throttle.ready_at(now) - start <= 2 * (now - start) + FLOOR


def test_a_503_with_retry_after_pauses_for_a_minute_at_most_and_cuts_no_rate() -> None:
    throttle = Throttle(4)
    one, two, three, _ = fill(throttle, 0.0)
    throttle.failed(one, 0.1)
    assert throttle.ready_at(0.1) <= 0.1
    throttle.failed(two, 0.1, 5.0)
    assert throttle.ready_at(0.2) == pytest.approx(5.1)
    throttle.failed(three, 0.1, 10 * LONGEST)
    assert throttle.ready_at(0.2) == pytest.approx(0.1 + LONGEST)
    assert (throttle.exhausted, throttle.learned_rate) == (False, None)


# -- what follows an accepted probe


def test_a_limit_exhausted_for_long_is_a_quota_whose_budget_is_spent_at_full_speed() -> None:
    throttle, now = with_quota()
    start, sent = max(now, throttle.ready_at(now)), 0
    now = start
    while sent < 40:
        tickets = fill(throttle, now)
        sent += len(tickets)
        now += TRIP
        for ticket in tickets:
            throttle.accepted(ticket, now)
        assert now < start + 2
    late = [throttle.depart(now) for _ in range(1)]
    throttle.rejected(late[0], now + TRIP)
    assert throttle.exhausted
    probes = 0
    while now < start + 50:
        ticket, now = probe(throttle, now)
        throttle.rejected(ticket, now + 0.01)
        probes += now < start + 50
    assert probes <= 2


def test_in_a_second_nothing_is_measured() -> None:
    throttle, now = exhausted(accepted=8)
    reopen(throttle, now, now)
    assert throttle.learned_rate is None


@pytest.mark.parametrize("state", STATES)
def test_every_state_lets_requests_depart(state: str) -> None:
    throttle, now = STATES[state]()
    for _ in range(5):
        ticket, now = probe(throttle, now)
        now += TRIP
        throttle.accepted(ticket, now)


# -- a pace


def test_idle_time_does_not_raise_the_pace() -> None:
    throttle, now = paced()
    rate = throttle.learned_rate
    assert rate is not None
    now += 1000.0
    sent = len(fill(throttle, now))
    assert sent <= 3 + 2 * SLACK * rate


@pytest.mark.parametrize("rate", [0.5, 20.0, 300.0])
def test_a_given_rate_is_kept_whatever_comes(rate: float) -> None:
    throttle, now, sent = Throttle(64, rate), 10.0, 0
    while now < 40.0:
        now = max(now + 0.001, min(throttle.ready_at(now), 40.0))
        if throttle.ready_at(now) <= now:
            ticket = throttle.depart(now)
            sent += 1
            (throttle.rejected if sent % 9 == 0 else throttle.accepted)(ticket, now)
        assert throttle.learned_rate == rate
    assert sent <= 30 * rate * (1 + SLACK) + 2


def test_more_429s_above_the_rate_than_below_it_cut_it_and_as_many_do_not() -> None:
    rates = []
    for above in (False, True):
        throttle, now = paced()
        rate, start = throttle.learned_rate, now
        assert rate is not None
        sent = 0
        while now < start + 12.0:
            ticket, now = probe(throttle, now)
            sent += 1
            is_rejected = ticket.above and sent % 6 == 0 if above else sent % 9 == 0
            (throttle.rejected if is_rejected else throttle.accepted)(ticket, now + 0.01)
        rates.append((throttle.learned_rate, rate, throttle.ready_at(now) - now))
    (same, rate, _), (cut, _, _) = rates
    assert same == rate
    assert cut is not None
    assert cut != rate


def test_a_kept_rate_is_begun_a_little_below() -> None:
    throttle = Throttle(32)
    throttle.resume(50.0)
    now, times = 1000.0, []
    for _ in range(60):
        ticket, now = probe(throttle, now)
        times.append(now)
        throttle.accepted(ticket, now)
    assert 59 / (times[-1] - times[0]) == pytest.approx(47, abs=3)
    assert throttle.learned_rate == 50.0


def test_a_kept_rate_replaces_none_that_is_given() -> None:
    throttle = Throttle(32, 5.0)
    throttle.resume(50.0)
    assert throttle.learned_rate == 5.0


# -- in flight


@pytest.mark.parametrize("concurrency", [1, 2, 3, 16, 64])
def test_few_are_in_flight_at_first_and_then_up_to_the_concurrency(concurrency: int) -> None:
    throttle, now, most = Throttle(concurrency), 0.0, []
    for _ in range(20):
        tickets = fill(throttle, now)
        most.append(throttle.in_flight)
        now += TRIP
        for ticket in tickets:
            throttle.accepted(ticket, now)
    assert most[0] <= 10
    assert most == sorted(most)
    assert most[-1] == concurrency
