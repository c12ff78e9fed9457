"""One call from its first attempt to its end: how often it is sent, when, and what becomes of it.

In virtual time, so that minutes of backoff, of a limit or of an outage are exact; the last part over HTTP.
Which error is sent again is a table of `tests/core/test_retry.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from email.utils import formatdate
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import (
    APIError,
    BadRequestError,
    OutcomeUnknownError,
    QueueTimeoutError,
    RateLimitError,
    RetryPolicy,
    ServerError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
)
from tests.support import wire as wires
from tests.support.laws import examples
from tests.support.sending import OPERATIONS, connect
from tests.support.virtual_time import (
    LATENCY,
    OK,
    TOO_MANY,
    Answer,
    Service,
    call,
    down,
    in_virtual_time,
    job,
    now,
    outcome,
    sender,
)
from tests.support.wire import Wire, envelope, html, ok


def paths(count: int) -> list[str]:
    return [str(n) for n in range(count)]


@in_virtual_time
async def one(answer: Answer, policy: RetryPolicy) -> tuple[SlashtagError | None, Service, float]:
    """Send one call whose answer is always the same; return its error, the service, and the time it took."""
    service = Service(lambda _: answer)
    return await outcome(sender(service, policy).send(call())), service, now()


# --- attempts and time ---------------------------------------------------------------------------------


@examples(50)
@given(
    attempts=st.integers(1, 6),
    base=st.floats(0, 3),
    cap=st.floats(0, 10),
    elapsed=st.floats(0.03, 30),
    answer=st.sampled_from([down(500), down(503), TransportError("lost"), (408, "Late.", None)]),
)
def test_a_call_that_fails_for_ever_keeps_to_its_policy(
    attempts: int, base: float, cap: float, elapsed: float, answer: Answer
) -> None:
    policy = RetryPolicy(max_attempts=attempts, max_elapsed=elapsed, backoff_base=base, backoff_cap=cap)
    error, service, took = one(answer, policy)
    # What is left of max_elapsed ends an attempt too.
    assert isinstance(error, ServerError | TransportError | APIError)
    assert error.attempts == len(service.sent) <= attempts
    assert took <= elapsed + 1e-6
    pauses = [after - before - LATENCY for before, after in pairwise(service.times())]
    assert all(pause <= min(cap, base * 2**n) + 1e-6 for n, pause in enumerate(pauses))
    # It is given up for one of the two reasons only: another attempt would have been too many, or too late.
    assert len(service.sent) == attempts or took + min(cap, base * 2 ** len(pauses)) + LATENCY >= elapsed


@pytest.mark.parametrize("max_wait", [0.3, 5, 60, 900])
def test_a_429_is_no_attempt_and_max_wait_bounds_it(max_wait: float) -> None:
    error, service, took = one(TOO_MANY, RetryPolicy(max_attempts=1, max_elapsed=0.2, max_wait=max_wait))
    assert isinstance(error, RateLimitError)
    assert error.retry_after is not None
    assert took <= max_wait + LATENCY + 1e-3
    assert took + error.retry_after + LATENCY >= max_wait
    assert len(service.sent) > max_wait / 4


@pytest.mark.parametrize("max_wait", [0, 5])
@in_virtual_time
async def test_a_full_session_is_waited_for_no_longer_than_max_wait(max_wait: float) -> None:
    service = Service(lambda _: OK, latency=10)
    sends = sender(service, RetryPolicy(max_wait=max_wait), concurrency=1)
    first = asyncio.create_task(sends.send(call()))
    await asyncio.sleep(0)
    error = await outcome(sends.send(call()))
    assert now() == pytest.approx(max_wait, abs=1e-6)
    await first
    assert isinstance(error, QueueTimeoutError)
    assert (error.attempts, error.unsent, len(service.sent)) == (0, True, 1)
    # Nor is a call that waits several times, as each is answered 429.
    await job(sender(Service(lambda _: TOO_MANY), sends.retry, concurrency=1), paths(32))
    assert now() <= 10 + max_wait + LATENCY + 1e-3


@in_virtual_time
async def test_a_call_that_failed_is_sent_again_before_those_that_were_not_sent_yet() -> None:
    service = Service(lambda _: OK if service.sent[1:] else down())
    sends = sender(service, RetryPolicy(backoff_base=0), concurrency=1)
    await asyncio.gather(*(sends.send(call(path)) for path in "abcde"))
    assert "".join(sent.path for _, sent in service.sent) == "abacde"


# --- one request at fault ------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [down(500), down(503, 60), TransportError("lost"), TOO_MANY])
@pytest.mark.parametrize("bad", [1, 24])
def test_a_call_that_is_always_answered_so_costs_others_nothing(answer: Answer, bad: int) -> None:
    """A failure, or a 429, is charged to the request that meets it: beside a job and single pages."""
    at_fault = {str(n) for n in range(100, 100 + bad)}

    @in_virtual_time
    async def ends(answer: Answer) -> dict[str, float]:
        ended = dict[str, float]()
        sends = sender(
            Service(lambda sent: answer if sent.path in at_fault else OK),
            RetryPolicy(max_attempts=4, max_wait=20),
        )

        async def page(n: int) -> None:
            await asyncio.sleep(n / 10)
            await sends.send(call(f"page {n}"))
            ended[f"page {n}"] = now()

        pages = [asyncio.create_task(page(n)) for n in range(50)]
        found = await job(sends, paths(300))
        assert {path for path, error in found.items() if error} == (at_fault if answer != OK else set())
        await asyncio.gather(*pages)
        return ended

    healthy, beside = ends(OK), ends(answer)
    # A round of the other calls at most: a harmless request finds out whether the service answers.
    assert all(beside[page] <= at + 3 * LATENCY for page, at in healthy.items())


@pytest.mark.parametrize("told", [None, 60])
@in_virtual_time
async def test_one_that_always_fails_and_is_alone_is_told_from_a_service_that_is_down(
    told: float | None,
) -> None:
    service = Service(lambda sent: OK if sent.path == "tags" else down(503, told))
    error = await outcome(sender(service).send(call()))
    assert isinstance(error, ServerError)
    assert error.attempts == len(service.times("page")) == RetryPolicy().max_attempts
    assert len(service.times("tags")) == 1


# --- a service that does not answer --------------------------------------------------------------------


@pytest.mark.parametrize("failure", [down(503), TransportError("refused", unsent=True)])
@pytest.mark.parametrize("calls", [1, 40, 1000])
@pytest.mark.parametrize("seconds", [8, 30, 280])
@in_virtual_time
async def test_an_outage_is_survived_for_max_elapsed_with_few_requests(
    seconds: float, calls: int, failure: Answer
) -> None:
    service = Service(lambda _: failure if now() < seconds else OK)
    assert not any((await job(sender(service), paths(calls))).values())
    assert now() - calls / 300 - 1 <= 2 * seconds
    assert sum(at < seconds for at in service.times()) <= 100


@in_virtual_time
async def test_a_dead_service_gets_few_requests_and_then_all_fail_at_once() -> None:
    service = Service(lambda _: OK if now() > 2000 else down())
    sends = sender(service)
    assert all((await job(sends, paths(5000))).values())
    assert 300 <= now() <= 330
    assert len(service.sent) <= 100
    began, sent = now(), len(service.sent)
    assert isinstance(await outcome(sends.send(call())), TransportError)
    assert (round(now() - began, 3), len(service.sent)) == (0, sent)
    # Long after that it is asked anew.
    await asyncio.sleep(2000 - now())
    assert not any((await job(sends, paths(200))).values())


@in_virtual_time
async def test_no_write_finds_out_whether_the_service_answers() -> None:
    """Its answer would be lost, and nobody could say whether it was done."""
    service = Service(lambda _: down(502) if 10 <= now() < 60 else OK)
    sends = sender(service)

    async def write(n: int) -> SlashtagError | None:
        await asyncio.sleep(15 + n)
        return await outcome(sends.send(call(method="POST", repeat="if unsent")))

    tasks = [asyncio.create_task(write(n)) for n in range(20)]
    await asyncio.sleep(10)
    assert not any((await job(sends, paths(50))).values())
    assert await asyncio.gather(*tasks) == [None] * 20
    assert all(not 10 <= at < 60 for at, sent in service.sent if sent.method == "POST")


@pytest.mark.parametrize(
    ("told", "max_wait", "is_met"),
    [(600, 900, True), (1800, 900, False), (1800, None, True), (86_400, None, True), (5, 1, False)],
)
@in_virtual_time
async def test_a_maintenance_is_waited_for_as_told_up_to_max_wait(
    told: float, max_wait: float | None, is_met: bool
) -> None:
    policy = RetryPolicy(max_wait=max_wait)
    service = Service(lambda _: down(503, told) if now() < told - 1 else OK)
    error = await outcome(sender(service, policy).send(call()))
    assert len(service.sent) == 1 + is_met
    if is_met:
        assert error is None
    else:
        assert isinstance(error, ServerError)
        assert (error.retry_after, error.attempts) == (told, 1)
    # Of many calls the others find out that it is over, if it is earlier than told.
    end = now() + told / 4
    service = Service(lambda _: down(503, told) if now() < end else OK)
    found = await job(sender(service, policy), paths(100))
    assert len(service.times()) <= 250 + told / 4 / 60  # one a minute, if it takes hours
    assert not is_met or not any(found.values())


# --- what is counted and logged ------------------------------------------------------------------------


@examples(30)
@given(
    st.lists(st.sampled_from([OK, OK, OK, TOO_MANY, down(500), TransportError("lost")]), min_size=1),
    st.lists(st.sampled_from([0, 5, 999]), min_size=1),
)
@in_virtual_time
async def test_metrics_add_up(answers: list[Answer], ages: list[int]) -> None:
    made = list[int]()

    def headers() -> dict[str, str]:
        n = len(service.sent)
        age = ages[n % len(ages)]
        made.extend([-age] * (answers[n % len(answers)] == OK))
        return {"Date": formatdate(0, usegmt=True), "Age": f"{age}"}

    service = Service(lambda _: answers[len(service.sent) % len(answers)], headers=headers)
    sends = sender(service, RetryPolicy(max_attempts=50, backoff_base=0.01, max_elapsed=20, max_wait=30))
    # The oldest answers, of a cache, are refused.
    await job(sends, paths(50), made_after=time.time() - 500)
    metrics, asked = sends.metrics, len(service.times("tags"))
    assert metrics.requests == 50 + asked
    assert metrics.attempts == len(service.sent) == metrics.failures.total() + metrics.statuses[200]
    assert metrics.attempts <= metrics.requests + metrics.retries + metrics.throttled
    assert (metrics.in_flight, metrics.waiting) == (0, 0)
    assert (metrics.oldest_answer, metrics.last_success is None) == (min(made, default=None), not made)
    assert service.most_in_flight <= 32


@pytest.mark.parametrize("answer", [TOO_MANY, down(500)])
@in_virtual_time
async def test_the_first_failure_of_a_session_is_a_warning_that_has_the_services_words(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [answer, answer, OK, answer, OK]
    caplog.set_level(logging.INFO, "slashtag")
    sends = sender(Service(lambda _: answers.pop(0)))
    await sends.send(call())
    await sends.send(call())
    told = [vars(record) for record in caplog.records if answer[1] in record.getMessage()]
    assert [each["levelname"] for each in told] == ["WARNING", "INFO", "INFO"]
    # Twenty accounts may be in one process.
    assert all(each["session"] == "shop" and each["message"].startswith("shop: GET ") for each in told)


# --- create tag ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("others_pass", [False, True])
@in_virtual_time
async def test_429s_of_create_tag_are_the_tag_limit_if_others_pass(others_pass: bool) -> None:
    service = Service(lambda sent: OK if now() > 20 or (others_pass and sent.path != "tags") else TOO_MANY)
    sends = sender(service)
    pages = asyncio.create_task(job(sends, paths(1000)))
    error = await outcome(sends.send(call("tags", "POST", repeat="if unsent")))
    if others_pass:
        assert isinstance(error, TagLimitError)
        assert error.attempts == len(service.times("tags")) == 3
    else:
        assert error is None
    assert not any((await pages).values())


# --- over HTTP -----------------------------------------------------------------------------------------

AGAIN, LOST, FINAL, UNKNOWN = "again", "lost", "final", "unknown"
#: Failures of each column of the table in `_core/retry.py`, and what their errors are.
FAILURES: dict[str, tuple[wires.Answer, str, type[SlashtagError]]] = {
    "of the service": (envelope(503, "Oops.", None), AGAIN, ServerError),
    "reset": (wires.reset(), LOST, TransportError),
    "hang-up": (wires.hang_up(), LOST, TransportError),
    "cut": (wires.truncated(), LOST, TransportError),
    "garbage": (wires.raw(b"\x16\x03\x01 this is not HTTP\r\n\r\n"), LOST, TransportError),
    "not gzip": (wires.response(200, b"{}", [("Content-Encoding", "gzip")]), LOST, TransportError),
    "of a proxy": (html(404), LOST, UnexpectedResponseError),
    "refused": (envelope(400, "Bad request.", None), FINAL, BadRequestError),
    "refused by a proxy": (html(403), UNKNOWN, APIError),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_what_failed_once_is_sent_again_exactly_where_that_is_safe(
    name: str, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "slashtag")
    (operation, data), (answer, fate, kind) = OPERATIONS[name], FAILURES[failure]
    is_again = name != "POST" and (fate == AGAIN or (fate == LOST and name != "rename"))
    is_unknown = name != "GET" and fate in (LOST, UNKNOWN)
    async with Wire([answer, *[ok(data)] * is_again]) as wire, connect(wire) as session:
        error = await outcome(operation(session))
        assert (error is None) is is_again
        assert is_again or type(error) is (OutcomeUnknownError if is_unknown else kind)
        assert len(wire.requests) == 1 + is_again
        assert session.metrics.in_flight == 0
    if name != "GET":  # which aiohttp sends once more by itself after a hang-up
        assert session.metrics.attempts == 1 + is_again
        # Each attempt is a record, as docs/python.md has it.
        told = [vars(record) for record in caplog.records if "duration" in vars(record)]
        assert [record.get("error") for record in told] == [kind.__name__, *[None] * is_again]


@pytest.mark.parametrize("between", [(), ("of the service",)])
async def test_that_an_answer_was_lost_is_not_forgotten_at_the_next_failure(between: tuple[str, ...]) -> None:
    answers = [FAILURES[name][0] for name in ("reset", *between, "refused")]
    async with Wire(answers) as wire, connect(wire) as session:
        error = await outcome(session.urls.update(7, redirect_code=301))
    assert (type(error), len(wire.requests)) == (OutcomeUnknownError, 2 + len(between))
