"""The throttle told `now` by the test: its laws, one by one, and its states.

1. A call whatever its answers delays no other by more than 1.5 round trips and 50 ms. 2. A 429 of a refused
call changes nothing but when that call is sent again, and counters. 3. The waits of a refused call at least
double. 4. Accepted requests sent before the first 429 of a run do not shorten it. 5. After n rejected probes
n different calls have probed. 6. A Retry-After told to five probes in a row binds the session, less than five
delay it by one interval at most. 7. A rate measured between two exhaustions is exact but for one request.
8. From a limit to none in a minute once nothing is refused. 9. No deadlock under any order of accepted,
rejected, failed, cancelled. 10. Amid up to 10 % of strays the pace is 0.9 of full speed after ten seconds.
11. 429s due to other sessions at the same limit are tolerated by none of them, so that each keeps its share.
Laws 8 to 11 are in test_simulated.py too, law 5 in tests/sending/test_admission.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil, exp, inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.throttle.pace import COMPANY, EARLY, FLOOR, LATE, RISE, SAMPLE, SLOW, SOON, Pace, Ticket
from slashtag._core.throttle.throttle import (
    ALONE,
    BELIEVED,
    CLUSTER,
    FEWEST,
    GROWTH,
    LONG,
    LONGEST,
    OPEN,
    PACED,
    PROBING,
    QUOTA,
    SLOWEST,
    START,
    STRIKES,
    Throttle,
)

maybe_told = st.sampled_from([None, 0.0, 1.0, 60.0])


def fill(throttle: Throttle, now: float) -> list[Ticket]:
    """Let everything depart that may at `now`."""
    tickets: list[Ticket] = []
    while throttle.ready_at(now) <= now:
        tickets.append(throttle.depart(now))
        assert len(tickets) <= 10_000
    return tickets


def exhausted(retry_after: float | None = None, accepted: int = 0) -> tuple[Throttle, list[Ticket]]:
    """Return a throttle that sent a first burst at 10.0 and met 429s; and what of it is still in flight."""
    throttle = Throttle(32)
    tickets = fill(throttle, 10.0)
    for _ in range(accepted):
        throttle.accepted(tickets.pop(), 10.0)
    tickets += fill(throttle, 10.0)
    for _ in range(int(CLUSTER) + 1):
        throttle.rejected(tickets.pop(), 10.1, retry_after)
    return throttle, tickets


def quiet(retry_after: float | None = None, accepted: int = 0) -> Throttle:
    """Return an exhausted throttle with nothing in flight."""
    throttle, tickets = exhausted(retry_after, accepted)
    for ticket in tickets:
        throttle.rejected(ticket, 10.1, retry_after)
    return throttle


def probe(throttle: Throttle, now: float, previous: Ticket | None = None) -> tuple[Ticket, float]:
    """Wait for the next departure; return it with its time."""
    at = max(now, throttle.ready_at(now))
    assert at < inf
    return throttle.depart(at, previous), at


def reopen(throttle: Throttle, now: float, later: float) -> float:
    """Let a probe be answered 429 and one `later` seconds after it be accepted; return when that was sent."""
    ticket, now = probe(throttle, now)
    throttle.rejected(ticket, now + 0.1)
    ticket, now = probe(throttle, now + later)
    throttle.accepted(ticket, now + 0.1)
    return now


@pytest.mark.parametrize(("seconds", "state"), [(0.6 * LONG, PACED), (LONG, QUOTA)])
def test_a_limit_exhausted_for_long_is_a_quota_for_each_window(seconds: float, state: str) -> None:
    throttle, now = quiet(accepted=8), 10.2
    while throttle.state == PROBING:
        ticket, now = probe(throttle, now)
        (throttle.accepted if now - 10.0 > seconds else throttle.rejected)(ticket, now + 0.1)
        now += 0.1
    assert throttle.state == state


def with_quota(seconds: float = 60.0) -> tuple[Throttle, float]:
    """Return a throttle that has learnt a quota of 8 for each minute or so, and the time."""
    throttle = quiet(accepted=8)
    now = 10.2
    while throttle.state == PROBING:
        ticket, now = probe(throttle, now)
        now += 0.1
        (throttle.accepted if now > 10 + seconds else throttle.rejected)(ticket, now)
    return throttle, now


def paced() -> tuple[Throttle, float]:
    """Return a throttle that has learnt a rate, and the time."""
    throttle = quiet(accepted=8)
    now = 10.2
    while throttle.state == PROBING:
        ticket, now = probe(throttle, now)
        now += 0.1
        (throttle.accepted if now > 12 else throttle.rejected)(ticket, now)
    return throttle, now


def refused(times: int | None) -> Ticket:
    """Return the ticket of a call refused so often, and again at its next 429; None: of one that met none."""
    return Ticket() if times is None else Ticket(refusals=times, last=-inf)


STATES: dict[str, Callable[[], tuple[Throttle, float]]] = {
    OPEN: lambda: (Throttle(32), 10.0),
    PROBING: lambda: (quiet(), 10.2),
    PACED: paced,
    QUOTA: with_quota,
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
@pytest.mark.parametrize("state", STATES)
def test_a_429_of_a_refused_call_changes_nothing_for_others(state: str, retry_after: float | None) -> None:
    """Law 2."""
    throttle, now = STATES[state]()
    other, now = probe(throttle, now)
    if state != PROBING:  # where only one probes at a time
        ticket, now = probe(throttle, now, refused(2))
        throttle.accepted(other, now + 0.05)
    else:
        throttle.failed(other, now + 0.05)
        ticket, now = probe(throttle, now + 0.1, refused(2))
    was = throttle.state, throttle.learned_rate, throttle.throttled
    ready = throttle.ready_at(now + 0.1)
    again = throttle.rejected(ticket, now + 0.1, retry_after)
    assert (throttle.state, throttle.learned_rate, throttle.throttled - 1) == was
    assert throttle.ready_at(now + 0.1) <= max(now + 0.1 + FLOOR, ready)
    if state != PROBING:  # where it is refused no longer, and may probe again
        assert again >= now + 0.1 + (retry_after or ALONE)


def test_a_call_is_refused_no_longer_once_it_meets_a_429_since_which_nothing_was_accepted() -> None:
    """All others may meet 429s too: the limit is slow, or it is exhausted."""
    throttle, ticket = Throttle(32), refused(2)
    throttle.accepted(throttle.depart(10.0), 10.1)
    throttle.rejected(throttle.depart(10.2, ticket), 10.3)
    assert ticket.is_refused
    throttle.rejected(throttle.depart(12.0, ticket), 12.1)
    assert not ticket.is_refused


def test_429s_of_refused_calls_hold_up_nobody_at_an_open_throttle() -> None:
    """Law 2: several, while others are under way, are no run of 429s."""
    throttle = Throttle(32)
    refused = [throttle.depart(10.0) for _ in range(3)]
    for ticket in refused:  # of which one passes in between
        throttle.rejected(ticket, 10.1)
        throttle.accepted(throttle.depart(10.2), 10.25)
    for _ in range(9):  # the run is over
        throttle.accepted(throttle.depart(10.3), 10.35)
    under_way = throttle.depart(10.3)
    for ticket in refused:
        throttle.rejected(throttle.depart(10.4, ticket), 10.5)
        assert throttle.ready_at(10.5) <= 10.5
    throttle.accepted(under_way, 10.5)
    assert throttle.state == OPEN


def test_a_request_of_a_refused_call_takes_no_place_of_others() -> None:
    """Law 2."""
    throttle, ticket = Throttle(32), refused(2)
    assert throttle.ready_at(10.0, beside=True) <= 10.0
    throttle.depart(10.0, ticket)
    assert len(fill(throttle, 10.0)) == START
    throttle.failed(ticket, 10.1)
    assert throttle.ready_at(10.1) == inf
    assert throttle.in_flight == START


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
    least = [max(ALONE * 2.0**n * (n > 0), seconds or 0.0) for n, seconds in enumerate(told)]
    assert all(wait >= seconds - 1e-6 for wait, seconds in zip(waits, least, strict=True))


def test_a_call_alone_is_sent_ever_less_often() -> None:
    throttle, start, ticket, sent = Throttle(8), 100.0, None, 0
    now = start
    while now < start + 900:
        ticket = throttle.depart(now, ticket)
        sent += 1
        now = throttle.rejected(ticket, now + 0.1)
    assert ticket is not None
    assert ticket.refusals == 0
    assert sent <= 40


# -- an exhausted limit


def test_accepted_requests_sent_before_the_first_429_prove_nothing() -> None:
    """Law 4."""
    states = []
    for sent_later in (False, True):
        throttle = Throttle(32)
        for ticket in fill(throttle, 9.0):
            throttle.accepted(ticket, 9.0)
        first = fill(throttle, 10.0)
        for ticket in first[:3]:
            throttle.rejected(ticket, 10.1)
        for ticket in first[3:5]:
            throttle.failed(ticket, 10.1)
        for _ in range(5):
            passing = throttle.depart(10.2) if sent_later else first.pop()
            throttle.accepted(passing, 10.3)
        for ticket in first[5:7]:
            throttle.rejected(ticket, 10.3)
        states.append(throttle.state)
    assert states == [PROBING, OPEN]


def test_without_retry_after_the_pause_is_one_and_a_half_round_trips() -> None:
    throttle, tickets = exhausted()
    assert throttle.ready_at(10.1) == pytest.approx(10.25)
    for ticket in tickets:
        throttle.accepted(ticket, 10.15)
    _, at = probe(throttle, 10.16)  # one, and answers to older requests open nothing
    assert at == pytest.approx(10.25)
    assert throttle.ready_at(at + 1) == inf
    assert throttle.state == PROBING


def test_a_probe_that_ends_without_an_answer_gives_its_place_back() -> None:
    throttle, _ = exhausted()
    ticket, at = probe(throttle, 10.1)
    throttle.failed(ticket, at + 0.1)
    assert throttle.ready_at(at + 0.1) < at + 1


def test_probes_are_further_and_further_apart_up_to_seconds() -> None:
    throttle, now, departures = quiet(), 10.1, []
    for _ in range(25):
        ticket, now = probe(throttle, now)
        departures.append(now)
        throttle.rejected(ticket, now + 0.05)
    gaps = [round(b - a, 6) for a, b in pairwise(departures)]
    assert gaps == sorted(gaps)
    assert 2 < gaps[-1] <= SLOWEST + 0.1


@given(told=st.floats(5, 600), calls=st.integers(1, BELIEVED))
def test_a_retry_after_binds_the_session_once_several_calls_in_a_row_were_told_it(
    told: float, calls: int
) -> None:
    """Law 6."""
    throttle, now, until = quiet(told), 10.1, inf
    for number in range(1, calls + 1):
        ticket, now = probe(throttle, now)
        assert now <= until + SLOWEST
        now += 0.1
        until = min(until, now + told)
        throttle.rejected(ticket, now, told)
        if number < BELIEVED:
            assert throttle.ready_at(now) <= now + SLOWEST
        else:
            assert until - 1.001 <= throttle.ready_at(now) <= until


def test_a_retry_after_told_to_one_call_again_and_again_binds_nobody() -> None:
    """Law 6."""
    throttle, now, ticket = quiet(60.0), 10.1, None
    for _ in range(2 * BELIEVED):
        ticket, now = probe(throttle, now, ticket)
        now += 0.1
        throttle.rejected(ticket, now, 60.0)
        assert throttle.ready_at(now) <= now + SLOWEST


def test_a_503_with_retry_after_pauses_and_cuts_no_rate() -> None:
    throttle = Throttle(4)
    one, two, three, _ = fill(throttle, 0.0)
    throttle.failed(one, 0.1)
    throttle.failed(three, 0.1, 2 * LONGEST)
    assert throttle.ready_at(0.1) <= 0.1
    throttle.failed(two, 0.1, 5.0)
    assert throttle.ready_at(0.2) == pytest.approx(5.1)
    assert throttle.state == OPEN


# -- in flight


@pytest.mark.parametrize("concurrency", [1, 2, 3, 16, 64])
def test_starts_at_sixteen_and_grows_to_the_concurrency(concurrency: int) -> None:
    throttle, now, most = Throttle(concurrency), 0.0, []
    for _ in range(20):
        tickets = fill(throttle, now)
        most.append(throttle.in_flight)
        assert throttle.ready_at(now) == inf
        now += 0.1
        for ticket in tickets:
            throttle.accepted(ticket, now)
    assert most[0] == min(START, concurrency)
    assert most == sorted(most)
    assert most[-1] == concurrency


def test_each_accepted_request_adds_a_part_of_a_place_in_flight() -> None:
    throttle, tickets = Throttle(64), []
    tickets = fill(throttle, 10.0)
    for ticket in tickets:
        throttle.accepted(ticket, 10.1)
    assert len(fill(throttle, 10.1)) == ceil(START * (1 + GROWTH))


def test_what_a_call_did_that_proves_refused_is_no_strike_against_a_cap_in_flight() -> None:
    throttle, tickets = exhausted()
    for ticket in tickets:
        throttle.accepted(ticket, 10.15)
    ticket, now = probe(throttle, 10.2)
    throttle.accepted(ticket, now + 0.1)
    for _ in range(STRIKES):  # each at a load that is safe
        now += 5.0
        ticket = throttle.depart(now)
        throttle.rejected(ticket, now + 0.1)
        for passing in fill(throttle, now + 0.2):
            throttle.accepted(passing, now + 0.3)
        throttle.rejected(throttle.depart(now + 0.4, ticket), now + 0.5)
    assert (throttle.state, throttle.learned_rate) == (OPEN, None)
    for _ in range(4):
        now += 1.0
        for passing in fill(throttle, now):
            throttle.accepted(passing, now + 0.1)
    assert len(fill(throttle, now + 1.0)) >= 8


def suspected() -> tuple[Throttle, float]:
    """Return a throttle that suspects a cap of 5 in flight, with nothing in flight, and the time."""
    throttle, tickets = exhausted()
    for ticket in tickets:
        throttle.accepted(ticket, 10.15)
    ticket, now = probe(throttle, 10.2)
    throttle.accepted(ticket, now + 0.1)
    for _ in range(4):
        now += 0.2
        for passing in fill(throttle, now):
            throttle.accepted(passing, now + 0.1)
    return throttle, now + 0.1


def test_a_call_strikes_once() -> None:
    """It may be refused, although nothing sent after its 429s has been accepted yet."""
    throttle, now = suspected()
    ticket = throttle.depart(now)
    for _ in range(STRIKES + 1):
        throttle.rejected(ticket, now + 0.1)
        now += 0.2
        throttle.depart(now, ticket)
    assert ticket.refusals == 0
    assert throttle.state == OPEN


def test_a_first_probe_accepted_suspects_a_cap_in_flight() -> None:
    throttle, tickets = exhausted()
    for ticket in tickets[:4]:
        throttle.accepted(ticket, 10.15)
    for ticket in tickets[4:]:
        throttle.rejected(ticket, 10.15)
    ticket, now = probe(throttle, 10.2)
    throttle.accepted(ticket, now + 0.1)
    for _ in range(16):
        now += 0.1
        for ticket in fill(throttle, now):
            throttle.accepted(ticket, now + 0.05)
    assert throttle.learned_rate is None
    assert 4 <= len(fill(throttle, now)) <= 5


def test_a_paced_session_in_which_only_probes_are_accepted_keeps_its_rate() -> None:
    """All others may be refused calls, unless a probe was answered 429 too."""
    rates = []
    for waited in (False, True):
        throttle, now = paced()
        for _ in range(40):
            ticket, now = probe(throttle, now)
            throttle.accepted(ticket, now)
        for _ in range(8):
            while throttle.state == PACED:
                ticket, now = probe(throttle, now)
                throttle.rejected(ticket, now)
            if waited:
                ticket, now = probe(throttle, now)
                throttle.rejected(ticket, now)
            ticket, now = probe(throttle, now)
            throttle.accepted(ticket, now)
        assert throttle.learned_rate is not None
        rates.append(throttle.learned_rate)
    assert rates[0] > 2 * rates[1]


@pytest.mark.parametrize("rate", [0.4, 1.0, 50.0])
def test_a_curve_lasts_for_as_many_requests_as_a_measured_rate_needs(rate: float) -> None:
    """Shorter, it would rise over a slow limit within a few requests, again and again."""
    pace = Pace(rate)
    pace.restart(0, 0.0)
    pace.start(0.0, pace.resume(Ticket(sent=100.0, number=50), rate, 1.1 * rate), 0.0)
    sent = 0
    while pace.due < pace.time:
        pace.depart(pace.due)
        sent += 1
    assert sent >= 0.8 * SAMPLE


def test_a_curve_of_a_rate_driven_down_far_rises_again_within_minutes() -> None:
    pace = Pace(1e-4)
    pace.start(0.0, pace.resume(Ticket(sent=100.0, number=50), 1e-4, 1.1e-4), 0.0)
    assert pace.at(300.0) > 1e-2


def test_where_only_probes_are_accepted_a_session_begins_anew() -> None:
    """All that it sent may be refused calls: they prove no cap, however many there are."""
    throttle, now = Throttle(32), 10.0
    for _ in range(4):
        tickets = fill(throttle, now)
        assert len(tickets) == START
        for ticket in tickets:
            throttle.rejected(ticket, now + 0.1)
        ticket, now = probe(throttle, now + 0.1)
        throttle.accepted(ticket, now + 0.1)
        now += 0.1
    throttle.accepted(throttle.depart(now), now)
    for ticket in fill(throttle, now):
        throttle.rejected(ticket, now + 0.1)
    ticket, now = probe(throttle, now + 0.1)
    throttle.accepted(ticket, now + 0.1)
    assert len(fill(throttle, now + 0.1)) == 3


def test_no_cap_in_flight_refuses_a_probe_that_is_alone() -> None:
    throttle = quiet(accepted=8)
    ticket, now = probe(throttle, 10.2)
    throttle.rejected(ticket, now + 0.05)
    ticket, now = probe(throttle, now + 0.05)
    assert now < 10.5
    throttle.accepted(ticket, now + 0.05)
    assert throttle.state == PACED


@pytest.mark.parametrize(("concurrency", "suspects"), [(64, False), (START, True)])
def test_isolated_429s_suspect_a_cap_in_flight_at_full_concurrency_only(
    concurrency: int, suspects: bool
) -> None:
    throttle, now = Throttle(concurrency), 10.0
    for _ in range(30):
        ticket, now = throttle.depart(now), now + 0.05
        throttle.accepted(ticket, now)
    throttle.rejected(throttle.depart(now), now + 0.05)
    assert (len(fill(throttle, now + 1.0)) < START) is suspects


@pytest.mark.parametrize(("before", "state"), [(0, PROBING), (1, QUOTA)])
def test_a_429_of_a_call_refused_twice_exhausts_no_quota_that_is_used_up(before: int, state: str) -> None:
    """Law 2; refused once may be a quota used up: many such calls, each sent at once, would not end."""
    throttle, now = with_quota()  # of 8, of which one was the probe
    for _ in range(6):
        throttle.accepted(throttle.depart(now), now + 0.05)
    throttle.rejected(throttle.depart(now, refused(before)), now + 0.1)
    assert throttle.state == state


@pytest.mark.parametrize("before", [None, 0, 2])
@pytest.mark.parametrize(("accepted", "state"), [(5, QUOTA), (6, PROBING)])
def test_a_429_uses_up_no_budget_of_a_quota_and_with_it_used_up_exhausts(
    accepted: int, state: str, before: int | None
) -> None:
    """Law 2, of calls that are refused, in the queue and beside."""
    throttle, now = with_quota()  # of 8, of which one was the probe
    throttle.rejected(throttle.depart(now, refused(before)), now + 0.1)
    for _ in range(accepted):
        now += 0.2
        throttle.accepted(throttle.depart(now), now + 0.1)
    throttle.rejected(throttle.depart(now + 0.2), now + 0.3)
    assert throttle.state == state


def test_a_429_of_a_call_sent_beside_adds_nothing_to_the_budget() -> None:
    """It took none, even if it counts as refused no longer."""
    throttle, now = with_quota()  # of 8, of which one was the probe
    throttle.rejected(throttle.depart(now, Ticket(refusals=2)), now + 0.1)
    for _ in range(6):
        now += 0.2
        throttle.accepted(throttle.depart(now), now + 0.1)
    throttle.rejected(throttle.depart(now + 0.2), now + 0.3)
    assert throttle.state == PROBING


@pytest.mark.parametrize(("before", "ready"), [(None, False), (2, True)])
def test_a_429_before_a_quota_is_used_up_lets_one_go_at_a_time_again(before: int | None, ready: bool) -> None:
    """A window that slides frees places one after the other."""
    throttle, now = with_quota()
    for _ in range(2):
        throttle.accepted(throttle.depart(now), now + 0.1)
    throttle.rejected(throttle.depart(now + 0.2, refused(before)), now + 0.3)
    throttle.depart(now + 0.3)
    assert (throttle.ready_at(now + 0.3) <= now + 0.3) is ready


def next_window(throttle: Throttle, now: float, rejects: int) -> float:
    """Use up a quota of 8 a minute after some 429s; return when the first request of the next is accepted."""
    opened = now
    for _ in range(rejects):
        ticket, now = probe(throttle, now)
        throttle.rejected(ticket, now + 0.05)
    for _ in range(7):
        ticket, now = probe(throttle, now)
        throttle.accepted(ticket, now + 0.05)
    ticket, now = probe(throttle, now)
    while now < opened + 60:
        throttle.rejected(ticket, now + 0.05)
        ticket, now = probe(throttle, now + 0.05)
    throttle.accepted(ticket, now + 0.05)
    return now + 0.05


@pytest.mark.parametrize("rejects", [0, 1, 2])
def test_429s_before_a_quota_is_used_up_delay_what_follows_the_first_of_each_later_window(
    rejects: int,
) -> None:
    """In a window that slides, places that were taken late become free late."""
    throttle, now = with_quota()
    now = next_window(throttle, now, rejects)
    for _ in range(2):
        assert throttle.ready_at(now) - now == pytest.approx(ALONE * rejects)
        now = next_window(throttle, now, 0)
    for _ in range(80):
        now = next_window(throttle, now, 2)
    assert 12 < throttle.ready_at(now) - now < 17


def test_a_429_at_a_load_that_was_safe_halves_it_at_once() -> None:
    throttle, now = suspected()
    tickets = fill(throttle, now)
    assert len(tickets) == 5
    throttle.rejected(tickets.pop(), now + 0.1)
    for ticket in tickets:
        throttle.failed(ticket, now + 0.1)
    tickets = fill(throttle, now + 0.1)
    assert len(tickets) == 2
    for later in (0.3, 0.6, 0.9):  # up to nine tenths of what was safe, and for a second no more
        for ticket in tickets:
            throttle.accepted(ticket, now + later)
        tickets = fill(throttle, now + later)
    assert len(tickets) == 4


def test_a_first_rate_is_not_that_of_one_request() -> None:
    """It is near no limit, and a session that begins while others use one up would stay behind them."""
    throttle = quiet(accepted=1)
    now = reopen(throttle, 10.2, 0.1)
    assert throttle.learned_rate == pytest.approx(FEWEST / (now - 10.0))


def test_a_quota_exhausted_for_a_third_of_its_window_is_measured_anew() -> None:
    throttle, now = with_quota(18.0)  # exhausted for less than makes a quota by itself
    opened = now
    for _ in range(3):
        throttle.accepted(throttle.depart(now), now + 0.05)
    while now < opened + 6.5:
        ticket, now = probe(throttle, now + 0.05)
        (throttle.accepted if now >= opened + 6.5 else throttle.rejected)(ticket, now + 0.05)
    assert throttle.state == QUOTA
    assert throttle.learned_rate == pytest.approx(4 / 6.5, rel=0.1)


def test_a_quota_exhausted_with_most_of_it_left_is_none() -> None:
    """The limit was shut for another reason, and is a rate."""
    throttle, now = with_quota(8.0)
    for _ in range(2):
        throttle.accepted(throttle.depart(now), now + 0.05)
    now += 0.1
    while throttle.state == QUOTA:
        ticket, now = probe(throttle, now)
        throttle.rejected(ticket, now + 0.05)
        now += 0.05
    ticket, now = probe(throttle, now)
    throttle.accepted(ticket, now + 0.05)
    assert throttle.state == PACED


def test_a_limit_of_which_no_probe_found_it_exhausted_is_no_quota() -> None:
    """A 503 paused the session, or the answers are slow."""
    throttle, tickets = exhausted(accepted=8)
    for ticket in tickets:
        throttle.failed(ticket, 10.1, LONG + 1)
    ticket, now = probe(throttle, 10.2)
    assert now > 10 + LONG
    throttle.accepted(ticket, now + 0.1)
    assert throttle.state == OPEN


def test_time_until_a_probe_is_accepted_does_not_raise_the_rate_of_a_paced_session() -> None:
    throttle, now = paced()
    rate = throttle.learned_rate
    assert rate is not None
    while throttle.state == PACED:
        ticket, now = probe(throttle, now)
        throttle.rejected(ticket, now)
    for _ in range(2):  # a probe that is lost for long
        ticket, now = probe(throttle, now)
        throttle.failed(ticket, now + 6)
        now += 6
    ticket, now = probe(throttle, now)
    throttle.accepted(ticket, now)
    assert throttle.learned_rate is not None
    assert throttle.learned_rate <= 1.5 * rate


def test_a_quota_that_is_used_up_is_waited_for_and_holds_again() -> None:
    throttle, now = with_quota()  # of 8, of which one was the probe
    for _ in range(7):
        now += 0.2
        throttle.accepted(throttle.depart(now), now + 0.1)
    throttle.rejected(throttle.depart(now + 0.2), now + 0.3)
    ticket, later = probe(throttle, now + 0.3)
    assert 50 < later - now < 61
    throttle.accepted(ticket, later + 0.1)
    assert throttle.state == QUOTA


# -- the pace


@given(
    rate=st.floats(1, 500),
    waits=st.lists(st.floats(0, 0.2), max_size=200),
    width=st.floats(0.01, 5),
)
def test_a_known_rate_is_exceeded_in_no_window_beyond_its_allowance(
    rate: float, waits: list[float], width: float
) -> None:
    throttle, now, departures = Throttle(1000, rate), 100.0, []
    for wait in waits:
        now += wait
        for ticket in fill(throttle, now):
            departures.append(now)
            throttle.accepted(ticket, now)
    allowance = 1 + rate * (width + EARLY + LATE)
    for first, start in enumerate(departures):
        inside = sum(1 for at in departures[first:] if at < start + width)
        assert inside <= allowance + 1e-6


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
    assert throttle.state == PROBING
    ticket, now = probe(throttle, now)
    throttle.accepted(ticket, now + 0.01)
    assert (throttle.state, throttle.learned_rate) == (PACED, 50.0)


def test_the_curve_comes_back_to_the_rate_and_rises_above_it() -> None:
    pace = Pace(1.0)
    pace.start(100.0, (20.0, 0.1, 5.0, 0.3), 100.0)
    want = [20 * exp((0.1 if t < 5 else 0.3) * (t / 5 - 1) ** 3) for t in (0, 0, 5, 10, 15)]
    assert [pace.at(100.0 + t) for t in (-9, 0, 5, 10, 15)] == pytest.approx(want)


def test_the_curve_stands_still_while_nothing_waits() -> None:
    pace = Pace(1.0)
    pace.start(0.0, (20.0, 0.1, 5.0, 0.1), 0.0)
    before = pace.at(0.0)
    pace.depart(0.0)
    pace.depart(3600.0)
    assert pace.at(3600.0) == pytest.approx(before, rel=0.01)


@pytest.mark.unmeasured
@pytest.mark.parametrize("dip", [0.1, 0.7])
def test_from_a_slow_rate_to_full_speed_in_a_minute_without_429s(dip: float) -> None:
    """Law 8."""
    pace = Pace(1.0)
    pace.start(0.0, (5.0, dip, SLOW, dip), 0.0)
    while pace.due < 60:
        pace.depart(pace.due)
    assert pace.at(60.0) > 700


@pytest.mark.parametrize("every", [10, 20])
def test_a_share_of_429s_at_any_pace_is_learnt_and_then_excessive_no_more(every: int) -> None:
    """Law 10."""
    pace = Pace(1.0)
    pace.enter(Ticket(10.0, 100, 1), 100.0)
    verdicts = []
    for number in range(101, 181):
        ticket = Ticket(10.0 + (number - 100) / 50, number, 1, 50.0)
        if number % every:
            pace.accepted(ticket)
        else:
            pace.rejected(ticket, counts=True)
            verdicts.append((pace.learnt(), pace.excessive(ticket)))
    assert [learnt for learnt, _ in verdicts].count(True) == 1
    assert verdicts[-1] == (False, False)


@pytest.mark.parametrize("answers", [19, 20])
def test_a_share_needs_a_sample(answers: int) -> None:
    """Law 10."""
    pace = Pace(1.0)
    pace.enter(Ticket(10.0, 100, 1), 100.0)
    for number in range(answers):
        ticket = Ticket(10.0 + number / 50, 101 + number, 1, 50.0)
        if number % 5:
            pace.accepted(ticket)
        else:
            pace.rejected(ticket, counts=True)
    assert pace.learnt() is (answers >= SAMPLE)


def test_a_share_learnt_from_the_traffic_of_others_is_forgotten_and_needs_twice_as_many_429s() -> None:
    """Law 11."""
    pace = Pace(1.0)
    needed = []
    for _ in range(3):
        pace.enter(Ticket(10.0, 100, 1), 100.0)
        number = 100
        while not pace.learnt():
            number += 1
            assert number < 1000
            ticket = Ticket(10.0 + (number - 100) / 50, number, 1, 50.0)
            if number % 20:
                pace.accepted(ticket)
            else:
                pace.rejected(ticket, counts=True)
        needed.append((number - 100) / 20)
        pace.restart(number, 30.0)
        pace.restart(number + SOON - 1, 30.2, exhausted=True)
        assert pace.known == 0
    assert needed == [3, 6, 12]


@pytest.mark.parametrize(("requests", "exhausted"), [(SOON, True), (SOON - 1, False)])
def test_a_share_of_429s_is_kept_unless_the_limit_is_exhausted_soon(requests: int, exhausted: bool) -> None:
    """Law 10: of so many requests some 429s in a row are chance."""
    pace = Pace(1.0)
    pace.restart(100, 10.0)
    pace.known = 0.1
    pace.restart(100 + requests, 20.0, exhausted=exhausted)
    assert pace.known == 0.1


@pytest.mark.parametrize("accepted", [True, False])
def test_only_429s_of_calls_not_accepted_since_are_tolerated_at_a_pace(accepted: bool) -> None:
    """Law 11."""
    pace = Pace(1.0)
    pace.enter(Ticket(10.0, 100, 1), 100.0)
    for number in range(101, 181):
        ticket = Ticket(10.0 + (number - 100) / 95, number, 1, 95.0)
        if number % 20:
            pace.accepted(ticket)
            continue
        pace.rejected(ticket, counts=True)
        if accepted:
            pace.accepted(ticket)
    assert pace.excessive(Ticket(11.0, 181, 1, 95.0)) is accepted


def corrected(rate: float, late: int) -> Pace:
    """Return a pace on the curve after an early correction and some that were not."""
    pace = Pace(rate)
    for early in (1, *(0,) * late):
        pace.start(0.0, pace.resume(Ticket(0.0, 100, 1), rate, pace.at(pace.time), early), 0.0)
    return pace


def test_among_others_each_session_gains_as_many_requests_whatever_its_rate() -> None:
    """Law 11."""
    slow, fast = [pace.at(2 * pace.time) - pace.rate for pace in (corrected(12.0, 0), corrected(48.0, 0))]
    assert slow == pytest.approx(fast, rel=0.35)
    assert fast == pytest.approx(RISE / corrected(48.0, 0).time, rel=0.2)


@pytest.mark.parametrize(("late", "others"), [(COMPANY - 1, True), (COMPANY, False)])
def test_a_session_whose_corrections_are_not_early_takes_the_limit_for_its_own(
    late: int, others: bool
) -> None:
    """Law 11: then it does not rise more than it dips, and slow ones take their time."""
    pace = corrected(12.0, late)
    assert (pace.rise > 2 * pace.dip) is others
    assert pace.time == pytest.approx(30 / 12 if others else 50 / 12)


@pytest.mark.parametrize(("accepted", "half"), [(0.85, True), (0.95, False)])
def test_a_rate_that_falls_and_falls_is_halved_to_see_whether_it_causes_the_429s(
    accepted: float, half: bool
) -> None:
    """Law 6: however late in its curve each correction comes."""
    pace = Pace(100.0)
    ticket = Ticket(10.0, 100, 1)
    curve = pace.enter(ticket, 100.0)
    for _ in range(4):
        pace.start(ticket.sent, curve, ticket.sent)
        seconds = pace.time
        ticket = Ticket(ticket.sent + seconds, ticket.number + int(accepted * pace.proven * seconds), 1)
        curve = pace.correct(ticket)
    pace.start(ticket.sent, curve, ticket.sent)
    assert (pace.at(ticket.sent) < 0.6 * pace.proven) is half


def test_no_correction_keeps_what_was_accepted_long_before() -> None:
    """Law 11: others took it."""
    pace = Pace(100.0)
    pace.enter(Ticket(10.0, 100, 1), 100.0)
    for at in (10.0, 11.0):  # the second comes before the curve is back
        number = 100 + 80 * int(at - 10)
        pace.start(at, pace.resume(Ticket(at, number, 1), 100.0, pace.at(at)), at)
    pace.correct(Ticket(12.0, 240, 1))
    assert pace.proven == pytest.approx(60)


@given(rate=st.floats(1, 500), count=st.integers(25, 400), lost=st.integers(0, 4))
def test_the_rate_between_two_exhaustions_is_exact_but_for_one_request(
    rate: float, count: int, lost: int
) -> None:
    """Law 7: a bucket with an exact clock, empty at both ends, has accepted its rate."""
    pace = Pace(1.0)
    pace.restart(100, 10.0)
    for number in range(lost):
        pace.rejected(Ticket(10.1, 101 + number, 1, inf), counts=True)
    last = Ticket(10.0 + count / rate, 100 + count + lost, 1, inf)
    assert pace.measured(last, 0.0) == pytest.approx(rate, rel=1 / count)


def test_a_first_rate_that_was_a_bursts_is_corrected_at_once() -> None:
    pace = Pace(1.0)
    pace.start(10.0, pace.enter(Ticket(10.0, 100, 1), 100.0), 10.0)
    for number in range(101, 105):
        pace.rejected(Ticket(10.1, number, 1, 60.0), counts=True)
    pace.correct(Ticket(10.8, 124, 1, 100.0))
    assert pace.proven == pytest.approx(20 / 0.8)


@pytest.mark.parametrize(("paced", "seconds", "enough"), [(1.0, 9, True), (1.0, 5, False), (inf, 9, False)])
def test_a_slow_rate_is_corrected_before_it_has_a_sample(paced: float, seconds: float, enough: bool) -> None:
    pace = Pace(1.0)
    pace.restart(100, 10.0)
    ticket = Ticket(10.0 + seconds, 109, 1, paced)
    pace.rejected(ticket, counts=True)
    assert pace.excessive(ticket) is enough


# -- estimates and news


def test_a_quota_is_told_as_a_rate() -> None:
    throttle, _ = with_quota()
    assert throttle.learned_rate == pytest.approx(8 / 61, rel=0.1)


def test_time_in_which_no_probe_waits_makes_no_quota() -> None:
    throttle = quiet(accepted=8)
    reopen(throttle, 10.2, 3600)
    assert throttle.state == PACED


def test_idle_time_of_a_paced_session_is_not_measured() -> None:
    throttle, now = paced()
    marked = throttle._pace.marked
    for _ in range(100):
        ticket, now = probe(throttle, now)
        throttle.accepted(ticket, now + 0.05)
    before = throttle.learned_rate
    assert before is not None
    assert throttle._pace.marked == marked  # it was busy
    now += 3600.0
    for _ in range(10):
        ticket, now = probe(throttle, now)
        throttle.accepted(ticket, now + 0.05)
    while throttle.state == PACED:
        ticket, now = probe(throttle, now)
        throttle.rejected(ticket, now + 0.05)
    ticket, now = probe(throttle, now)
    throttle.accepted(ticket, now + 0.05)
    assert throttle.learned_rate is not None
    assert throttle.learned_rate > before / 2


@pytest.mark.parametrize("idle", [0.0, 3600.0])
def test_time_before_the_first_request_and_idle_time_are_not_measured(idle: float) -> None:
    throttle = Throttle(32)
    if idle:
        for ticket in fill(throttle, 5.0):
            throttle.accepted(ticket, 5.1)
    tickets = fill(throttle, 5.0 + idle)
    for _ in range(8):
        throttle.accepted(tickets.pop(), 5.1 + idle)
    for ticket in tickets + fill(throttle, 5.1 + idle):
        throttle.rejected(ticket, 5.2 + idle)
    reopen(throttle, 6.0 + idle, 2)
    assert throttle.learned_rate is not None
    assert throttle.learned_rate > 2
