"""The throttle's promises, one by one, told `now` by the test."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.throttle.estimate import RateEstimate
from slashtag._core.throttle.hypotheses import CLUSTER, ConcurrencyCap, Losses
from slashtag._core.throttle.schedule import EARLY, LATE, Schedule, Ticket
from slashtag._core.throttle.throttle import CAPPED, PACED, PROBING, QUOTA, START, UNPACED, Throttle


def fill(throttle: Throttle, now: float) -> list[Ticket]:
    """Let everything depart that may at `now`."""
    tickets: list[Ticket] = []
    while throttle.ready_at(now) <= now:
        tickets.append(throttle.depart(now))
        assert len(tickets) <= 10_000
    return tickets


def exhausted(concurrency: int = 32, retry_after: float | None = None) -> tuple[Throttle, list[Ticket]]:
    """Return a throttle that sent a first burst at 10.0 and met a cluster of 429s."""
    throttle = Throttle(concurrency)
    tickets = fill(throttle, 10.0)
    for _ in range(int(CLUSTER) + 1):
        throttle.rejected(tickets.pop(), 10.1, retry_after)
    return throttle, tickets


def probe(throttle: Throttle, now: float) -> tuple[Ticket, float]:
    """Wait for the next probe; return it with the time of its departure."""
    at = max(now, throttle.ready_at(now))
    assert at < inf
    return throttle.depart(at), at


def accept_probes(throttle: Throttle, now: float, count: int = 3) -> float:
    for _ in range(count):
        ticket, now = probe(throttle, now)
        now += 0.1
        throttle.accepted(ticket, now)
    return now


# -- concurrency


def test_starts_at_sixteen_and_grows_by_accepts_to_the_concurrency() -> None:
    throttle = Throttle(64)
    now, most = 0.0, []
    for _ in range(20):
        tickets = fill(throttle, now)
        most.append(throttle.in_flight)
        now += 0.1
        for ticket in tickets:
            throttle.accepted(ticket, now)
    assert most[0] == START
    assert most == sorted(most)
    assert most[-1] == 64


@pytest.mark.parametrize("concurrency", [1, 2, 3, 16, 64])
def test_never_more_in_flight_than_the_concurrency(concurrency: int) -> None:
    throttle = Throttle(concurrency)
    assert len(fill(throttle, 1.0)) == min(concurrency, START)
    assert throttle.ready_at(1.0) == inf


@pytest.mark.parametrize("bad", [0, -1])
def test_a_concurrency_below_one_is_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="concurrency"):
        Throttle(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, inf, float("nan")])
def test_a_rate_that_is_no_rate_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        Throttle(4, bad)


def test_every_way_back_gives_the_place_back() -> None:
    throttle = Throttle(4)
    one, two, three, four = fill(throttle, 0.0)
    throttle.accepted(one, 0.1)
    throttle.failed(two, 0.1)
    throttle.cancelled(three, 0.1)
    throttle.rejected(four, 0.1)
    assert throttle.in_flight == 0
    assert throttle.throttled == 1


# -- the gate


def test_retry_after_stops_everybody() -> None:
    throttle, _ = exhausted(retry_after=2.0)
    assert throttle.paused_until == throttle.ready_at(10.2) == pytest.approx(12.1)


def test_the_longest_retry_after_counts() -> None:
    throttle, tickets = exhausted(retry_after=2.0)
    throttle.rejected(tickets[0], 10.2, 1.0)
    assert throttle.paused_until == pytest.approx(12.1)


@pytest.mark.parametrize("retry_after", [None, 0.0])
def test_without_retry_after_the_pause_is_one_and_a_half_round_trips(retry_after: float | None) -> None:
    throttle, _ = exhausted(retry_after=retry_after)
    assert throttle.ready_at(10.1) == pytest.approx(10.25)


def test_a_huge_retry_after_is_kept() -> None:
    throttle = Throttle(4)
    throttle.rejected(throttle.depart(1.0), 1.1, 86_400.0)
    assert throttle.ready_at(2.0) == pytest.approx(86_401.1)


def test_a_503_with_retry_after_sets_the_gate_and_cuts_no_rate() -> None:
    throttle = Throttle(4)
    one, two, *_ = fill(throttle, 0.0)
    throttle.failed(one, 0.1)
    assert throttle.ready_at(0.1) <= 0.1
    throttle.failed(two, 0.1, 5.0)
    assert throttle.ready_at(0.2) == pytest.approx(5.1)
    assert throttle.state == UNPACED


def test_paused_until_is_zero_once_the_gate_is_open() -> None:
    throttle = Throttle(4)
    throttle.failed(throttle.depart(0.0), 0.1, 1.0)
    assert throttle.ready_at(2.0) <= 2.0
    assert throttle.paused_until == 0.0


# -- probing


def test_after_the_gate_one_request_goes_and_nobody_else() -> None:
    throttle, _ = exhausted()
    _, at = probe(throttle, 10.1)
    assert throttle.state == PROBING
    assert throttle.ready_at(at) > at
    assert throttle.ready_at(at + 1) == inf


def test_an_answer_to_a_request_from_before_the_gate_opens_nothing() -> None:
    throttle, tickets = exhausted()
    for ticket in tickets:
        throttle.accepted(ticket, 10.15)
    assert throttle.ready_at(10.16) == pytest.approx(10.25)
    _, at = probe(throttle, 10.16)
    assert throttle.ready_at(at + 1) == inf
    assert throttle.state == PROBING


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_probe_that_ends_without_an_answer_gives_its_place_back(end: str) -> None:
    throttle, _ = exhausted()
    ticket, at = probe(throttle, 10.1)
    getattr(throttle, end)(ticket, at + 0.1)
    assert throttle.ready_at(at + 0.1) < at + 1


def test_the_429s_of_one_event_are_only_counted() -> None:
    throttle, tickets = exhausted()
    for ticket in tickets:
        throttle.rejected(ticket, 10.2)
    assert throttle.throttled == START
    assert throttle.ready_at(10.2) == pytest.approx(10.25)


def test_probes_are_further_and_further_apart_up_to_seconds() -> None:
    throttle, tickets = exhausted()
    for ticket in tickets:
        throttle.cancelled(ticket, 10.1)
    now, departures = 10.1, []
    for _ in range(25):
        ticket, now = probe(throttle, now)
        departures.append(now)
        throttle.rejected(ticket, now + 0.05)
    gaps = [round(b - a, 6) for a, b in pairwise(departures)]
    assert gaps == sorted(gaps)
    assert 2 < gaps[-1] <= 5


# -- a cap in flight


def test_a_first_probe_accepted_after_several_were_suspects_a_cap_in_flight() -> None:
    throttle, tickets = exhausted()
    for ticket in tickets[:8]:
        throttle.accepted(ticket, 10.15)
    for ticket in tickets[8:]:
        throttle.rejected(ticket, 10.15)
    now = accept_probes(throttle, 10.2)
    assert throttle.state == CAPPED
    for _ in range(10):
        for ticket in fill(throttle, now):
            throttle.accepted(ticket, now + 0.05)
        now += 0.05
    assert len(fill(throttle, now)) == 8


def test_a_cap_never_falls_below_one() -> None:
    cap = ConcurrencyCap()
    assert cap.suspect(0, 0.0) >= 1
    assert min(cap.rejected(1, float(n)) for n in range(100)) == 1
    assert cap.safe == 1
    assert cap.disproved


def test_a_429_over_the_safe_number_is_no_strike_and_delays_the_next_try() -> None:
    cap = ConcurrencyCap()
    cap.suspect(8, 0.0)
    assert cap.accepted(8, 2.0, 8) == 9
    assert cap.rejected(9, 2.1) == 8
    assert cap.strikes == 0
    assert cap.accepted(8, 3.9, 8) == 8
    assert cap.accepted(8, 4.2, 8) == 9


# -- the pace


def test_a_known_rate_is_kept_from_the_first_request_on() -> None:
    throttle = Throttle(64, rate=100.0)
    assert throttle.state == PACED
    assert len(fill(throttle, 50.0)) <= 1 + 100 * EARLY + 1e-9


@given(
    rate=st.floats(1, 500),
    waits=st.lists(st.floats(0, 0.2), max_size=200),
    width=st.floats(0.01, 5),
)
def test_a_known_rate_is_exceeded_in_no_window_beyond_its_allowance(
    rate: float, waits: list[float], width: float
) -> None:
    throttle = Throttle(1000, rate)
    now, departures = 100.0, []
    for wait in waits:
        now += wait
        for ticket in fill(throttle, now):
            departures.append(now)
            throttle.accepted(ticket, now)
    allowance = 1 + rate * (width + EARLY + LATE)
    for first, start in enumerate(departures):
        inside = sum(1 for at in departures[first:] if at < start + width)
        assert inside <= allowance + 1e-6


def test_a_known_rate_catches_up_with_late_timers() -> None:
    throttle = Throttle(64, rate=50.0)
    now, sent = 10.0, 0
    while now < 30.0:
        for ticket in fill(throttle, now):
            sent += 1
            throttle.accepted(ticket, now)
        now = throttle.ready_at(now) + 0.004
    assert sent == pytest.approx(1000, abs=3)


def test_a_known_rate_survives_429s() -> None:
    throttle = Throttle(64, rate=50.0)
    now = 0.0
    for _ in range(200):
        now = max(now, throttle.ready_at(now))
        throttle.rejected(throttle.depart(now), now + 0.01, 0.5)
        now += 0.01
    while throttle.state != PACED:
        ticket, now = probe(throttle, now)
        now += 0.01
        throttle.accepted(ticket, now)
    assert throttle.learned_rate == 50.0


def test_a_known_rate_probes_a_dry_service_and_comes_back_to_the_rate() -> None:
    throttle = Throttle(64, rate=50.0)
    now = 0.0
    for _ in range(20):
        now = max(now, throttle.ready_at(now))
        throttle.rejected(throttle.depart(now), now + 0.01)
        now += 0.01
    assert throttle.state == PROBING
    accept_probes(throttle, now, 1)
    assert throttle.state == PACED
    assert throttle.learned_rate == 50.0


def test_the_curve_comes_back_to_the_rate_and_probes_above_it() -> None:
    schedule = Schedule()
    schedule.start(100.0, 20.0, 0.1, 5.0, 100.0)
    assert [round(schedule.at(100.0 + t), 2) for t in (-9, 0, 5, 10, 15)] == [18.0, 18.0, 20.0, 22.0, 36.0]


def test_the_curve_stands_still_while_nobody_asks() -> None:
    schedule = Schedule()
    schedule.start(0.0, 20.0, 0.1, 5.0, 0.0)
    schedule.depart(0.0)
    schedule.depart(3600.0)
    assert schedule.at(3600.0) == pytest.approx(18.0, rel=0.01)


def test_the_curve_starts_anew_where_it_has_come_to_so_that_a_limit_that_is_gone_is_forgotten() -> None:
    schedule = Schedule()
    schedule.start(0.0, 20.0, 0.1, 5.0, 0.0)
    now = 0.0
    while schedule.rate < 200.0 and now < 60.0:
        now = max(now, schedule.due)
        schedule.depart(now)
    assert now < 20.0


def test_the_rate_is_measured_between_two_exhaustions() -> None:
    estimate = RateEstimate()
    estimate.restart(Ticket(10.0, 100, 1))
    estimate.lost = 5
    assert estimate.measured(Ticket(12.0, 145, 1)) == pytest.approx(20.0)


def test_the_measurement_looks_back_as_far_as_it_has_to() -> None:
    estimate = RateEstimate()
    estimate.restart(Ticket(10.0, 100, 1))
    estimate.advance(Ticket(15.0, 200, 1))
    estimate.lost = 8
    estimate.advance(Ticket(15.5, 210, 1))
    estimate.lost = 2
    assert estimate.measured(Ticket(16.0, 232, 1)) == pytest.approx(20 / 0.5)
    assert estimate.measured(Ticket(16.0, 232, 1), 1.0) == pytest.approx((32 - 10) / 1.0)
    assert estimate.measured(Ticket(16.0, 212, 1)) == pytest.approx((112 - 10) / 6.0)


# -- quota


def test_a_limit_exhausted_for_long_is_a_window_with_a_quota() -> None:
    throttle = Throttle(8)
    told: list[str] = []
    throttle.notify = told.append
    tickets = fill(throttle, 0.0)
    for ticket in tickets[:6]:
        throttle.accepted(ticket, 0.1)
    for ticket in tickets[6:]:
        throttle.rejected(ticket, 0.1, 30.0)
    assert accept_probes(throttle, 0.2) > 30
    assert throttle.state == QUOTA
    assert throttle.learned_rate == pytest.approx(6 / 30, rel=0.02)
    assert told == ["the service allows about 6 requests in 30 s"]


def test_what_was_learnt_is_told_while_a_probe_is_under_way() -> None:
    throttle = known_quota()
    learnt = throttle.learned_rate
    throttle.rejected(throttle.depart(61.5), 61.6, 58.0)
    assert throttle.state == PROBING
    assert throttle.learned_rate == learnt


# -- 429s that come at any pace


def test_a_429_among_accepts_is_no_cluster_and_many_in_a_row_are() -> None:
    losses = Losses()
    for number in range(200):
        losses.accepted()
        if number % 10 == 0:
            losses.rejected(Ticket(0.0, number, 1))
            assert not losses.clustered(0)
    for number in range(int(CLUSTER)):
        losses.rejected(Ticket(0.0, 200 + number, 1))
    assert losses.clustered(0)


def test_429s_that_cuts_do_not_prevent_are_learnt_and_tolerated() -> None:
    losses = Losses()
    assert [losses.judge(2, 20, in_vain=True) for _ in range(2)] == [False, True]
    assert losses.share == pytest.approx(0.125)
    losses.rejected(Ticket(0.0, 1, 1))
    assert not losses.excessive


def test_429s_that_a_cut_prevents_are_not_tolerated() -> None:
    losses = Losses()
    assert not any(
        losses.judge(2, 20, in_vain=in_vain) for in_vain in (True, False, True, False, True, False)
    )
    assert losses.share == 0.0
    losses.rejected(Ticket(0.0, 1, 1))
    assert losses.excessive


def test_a_tolerated_share_is_forgotten_once_the_429s_stay_away() -> None:
    losses = Losses()
    for _ in range(2):
        losses.judge(2, 20, in_vain=True)
    losses.rejected(Ticket(0.0, 10, 1))
    losses.rejected(Ticket(0.0, 1000, 1))
    assert losses.share == 0.0


def test_a_lone_429_just_after_another_keeps_only_its_own_request_back() -> None:
    throttle = Throttle(32)
    first, *others = fill(throttle, 10.0)
    throttle.rejected(first, 10.1)
    for ticket in others:
        throttle.cancelled(ticket, 10.1)
    assert throttle.rejected(throttle.depart(10.2), 10.3, 2.0) == pytest.approx(12.3)
    assert throttle.ready_at(10.3) <= 10.3


def test_a_lone_429_keeps_only_its_own_request_back() -> None:
    throttle = Throttle(32)
    tickets = fill(throttle, 10.0)
    assert throttle.rejected(tickets.pop(), 10.1, 2.0) == pytest.approx(12.1)
    for ticket in tickets[:4]:
        throttle.accepted(ticket, 10.11)
    assert throttle.ready_at(10.12) <= 10.12


# -- estimates


def known_quota() -> Throttle:
    throttle = Throttle(8)
    tickets = fill(throttle, 0.0)
    for ticket in tickets:
        throttle.accepted(ticket, 0.1)
    throttle.rejected(throttle.depart(0.2), 0.3, 60.0)
    accept_probes(throttle, 0.3)
    return throttle


@pytest.mark.parametrize(
    "throttle",
    [Throttle(8), Throttle(8, 5.0), exhausted()[0], exhausted(retry_after=9.0)[0], known_quota()],
    ids=["unpaced", "known", "probing", "gate", "quota"],
)
def test_the_estimate_is_finite_and_does_not_fall_with_the_place_in_the_queue(throttle: Throttle) -> None:
    estimates = [throttle.ready_at(70.0, ahead) for ahead in range(1, 300)]
    assert estimates == sorted(estimates)
    assert estimates[0] >= 70.0
    assert estimates[-1] < inf


@given(rate=st.floats(1, 300), queued=st.integers(1, 200))
def test_the_estimate_at_a_known_rate_is_honest(rate: float, queued: int) -> None:
    throttle = Throttle(1000, rate)
    throttle.depart(10.0)
    estimate = throttle.ready_at(10.0, queued)
    now = 10.0
    for _ in range(queued + 1):
        now = max(now, throttle.ready_at(now))
        throttle.depart(now)
    assert estimate <= now + 1e-6
    assert now - estimate <= 2 * EARLY + 1 / rate


def test_a_request_beyond_the_quota_waits_for_a_later_window() -> None:
    throttle = known_quota()
    first = throttle.ready_at(61.0, 1)
    assert first == 61.0
    assert throttle.ready_at(61.0, 9) > 110
    assert throttle.ready_at(61.0, 20) > throttle.ready_at(61.0, 9) + 50


def test_a_session_that_wakes_after_an_age_counts_its_cycle_anew() -> None:
    throttle = Throttle(8)
    for ticket in fill(throttle, 0.0):
        throttle.accepted(ticket, 0.1)
    tickets = fill(throttle, 3600.0)
    for ticket in tickets[:4]:
        throttle.accepted(ticket, 3600.1)
    for ticket in tickets[4:]:
        throttle.rejected(ticket, 3600.1)
    ticket, now = probe(throttle, 3600.9)
    throttle.rejected(ticket, now + 0.1)
    accept_probes(throttle, now + 0.1)
    assert throttle.learned_rate is not None
    assert throttle.learned_rate > 3
