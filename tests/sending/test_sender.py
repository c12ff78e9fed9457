"""One call from its first attempt to its end: what is told, what is sent again, what the server sees."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from email.utils import formatdate
from functools import partial
from itertools import pairwise
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aioresponses import aioresponses, core

from slashtag import (
    APIError,
    AsyncSession,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    OutcomeUnknownError,
    QueueTimeoutError,
    RateLimitError,
    RequestFailedError,
    RequestTimeoutError,
    RetryPolicy,
    ServerError,
    SlashtagError,
    TagLimitError,
    TransportError,
    UnexpectedResponseError,
)

from ..support import wire as wires
from ..support.sending import (
    OPERATIONS,
    PAGE,
    TAG,
    connect,
    get,
    health_of,
    post,
    put,
    run_out,
    spend,
    turns,
    until,
)
from ..support.wire import Answer, Request, Wire, envelope, html, ok

ONCE = RetryPolicy(max_attempts=1)
TAG_LIMIT = "The maximum allowed number of tags is reached. Please contact support to have it raised."


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[aioresponses]:
    # aioresponses 0.7.9 does not pass the `stream_writer` that aiohttp 3.14 requires.
    writer = SimpleNamespace(output_size=0)
    kind = partial(core.ClientResponse, stream_writer=writer)
    monkeypatch.setattr(core, "ClientResponse", kind)
    with aioresponses() as mock:
        yield mock


@pytest.fixture
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every backoff be as long as it can be."""
    monkeypatch.setattr("slashtag._sending.sender.random.random", lambda: 1.0)


def sent(answers: aioresponses) -> list[str]:
    return [method for (method, _), calls in answers.requests.items() for _ in calls]


# --- what is sent again --------------------------------------------------------------------------------

AGAIN, LOST, FINAL, UNKNOWN = "again", "lost", "final", "unknown"

#: Failures by name: how the server fails, and whether that is repeated for GET and PUT (AGAIN), the same
#: with the answer to a write lost (LOST), or not repeated, where a write has failed (FINAL) or may have been
#: done (UNKNOWN).
FAILURES: dict[str, tuple[Answer, str, type[SlashtagError]]] = {
    **{
        str(status): (envelope(status, "Oops.", None), AGAIN, APIError if status == 408 else ServerError)
        for status in (408, 500, 503, 507)
    },
    "408 in a 200": (envelope(408, "Late.", None, http_status=200), AGAIN, APIError),
    "500 in a 200": (envelope(500, "Oops.", None, http_status=200), AGAIN, ServerError),
    "503 in a 200": (envelope(503, "Oops.", None, http_status=200), AGAIN, ServerError),
    # Not the service's: something in between answered after, or instead of, the service.
    "HTML 408": (html(408), LOST, APIError),
    "HTML 404": (html(404), LOST, UnexpectedResponseError),
    **{f"HTML {status}": (html(status), LOST, ServerError) for status in (500, 502, 503, 504, 520)},
    "JSON 503 without a message": (wires.response(503, b'{"status": 503}'), LOST, ServerError),
    "JSON 500 of another status": (envelope(200, "ok", None, http_status=500), LOST, ServerError),
    "JSON 404 of a gateway": (
        wires.response(404, b'{"message": "no Route matched with those values"}'),
        LOST,
        UnexpectedResponseError,
    ),
    "502": (envelope(502, "Oops.", None), LOST, ServerError),
    "522": (envelope(522, "Oops.", None), LOST, ServerError),
    "502 in a 200": (envelope(502, "Oops.", None, http_status=200), LOST, ServerError),
    "reset": (wires.reset(), LOST, TransportError),
    "hang-up": (wires.hang_up(), LOST, TransportError),
    "truncated": (wires.truncated(), LOST, TransportError),
    "truncated without a length": (wires.no_length(), LOST, UnexpectedResponseError),
    "empty 200": (wires.response(200, b""), LOST, UnexpectedResponseError),
    "HTML 200": (html(200), LOST, UnexpectedResponseError),
    "no envelope": (wires.response(200, b"[1, 2]"), LOST, UnexpectedResponseError),
    "no data": (wires.response(200, b'{"status": 200, "message": "ok"}'), LOST, UnexpectedResponseError),
    "data of another shape": (ok({"page": "one"}), LOST, UnexpectedResponseError),
    "null data": (ok(None), LOST, UnexpectedResponseError),
    "bad UTF-8": (wires.bad_utf8(), LOST, UnexpectedResponseError),
    "deep nesting": (wires.deep_nesting(), LOST, UnexpectedResponseError),
    "stall": (wires.stall(), LOST, RequestTimeoutError),
    "stall after the headers": (wires.stall(headers_sent=True), LOST, RequestTimeoutError),
    "slow loris": (wires.slow_loris(), LOST, RequestTimeoutError),
    **{
        f"bad framing: {kind}": (wires.bad_framing(kind), LOST, TransportError) for kind in wires.BAD_FRAMINGS
    },
    "400": (envelope(400, "Bad request.", None), FINAL, BadRequestError),
    "400 in a 200": (envelope(400, "Bad request.", None, http_status=200), FINAL, BadRequestError),
    "401": (envelope(401, "Api key and secret is not valid or missing."), FINAL, AuthenticationError),
    "401 in a 200": (envelope(401, "No.", http_status=200), FINAL, AuthenticationError),
    "404": (envelope(404, "Not found.", None), FINAL, NotFoundError),
    "HTML 401": (html(401), FINAL, AuthenticationError),
    "HTML 400": (html(400), UNKNOWN, BadRequestError),
    "HTML 403": (html(403), UNKNOWN, APIError),
    "HTML 414": (html(414), UNKNOWN, APIError),
    "redirect": (wires.redirect("/elsewhere"), FINAL, UnexpectedResponseError),
    "redirect in a 200": (envelope(302, "Found.", None, http_status=200), FINAL, UnexpectedResponseError),
    "201": (envelope(201, "Created.", TAG), UNKNOWN, UnexpectedResponseError),
    "204": (wires.raw(b"HTTP/1.1 204 No Content\r\n\r\n", keep_alive=True), UNKNOWN, UnexpectedResponseError),
}


def outcome(name: str, failure: str) -> tuple[int, type[SlashtagError] | None]:
    """How many requests arrive where the second would be answered, and what is raised."""
    _, fate, kind = FAILURES[failure]
    if fate in (FINAL, UNKNOWN):
        return 1, OutcomeUnknownError if fate == UNKNOWN and name != "GET" else kind
    if name == "POST" or (name == "rename" and fate == LOST):
        return 1, OutcomeUnknownError if fate == LOST else kind
    return 2, None


#: After these aiohttp sends a read once more by itself, at once.
DROPPED = ("reset", "hang-up", "bad framing: head cut")


#: One failure of each fate, tried with all operations; the others with two that tell the fates apart.
EACH = ("408", "truncated", "400", "204")


@pytest.mark.unmeasured
@pytest.mark.parametrize("failure", FAILURES)
async def test_what_failed_once_is_sent_again_exactly_where_that_is_safe(failure: str) -> None:
    for name in OPERATIONS if failure in EACH else ("GET", "rename"):
        await send_again(name, failure)


async def send_again(name: str, failure: str) -> None:
    operation, data = OPERATIONS[name]
    answer, _, kind = FAILURES[failure]
    requests, error = outcome(name, failure)
    async with Wire([answer, *([ok(data)] * (requests - 1))]) as wire, connect(wire) as session:
        call = asyncio.create_task(operation(session))
        if kind is RequestTimeoutError:
            await wire.arrived(1)
            await asyncio.sleep(0.02)  # part of the answer comes
            run_out(session)
        if error is None:
            await call
        else:
            with pytest.raises(SlashtagError) as told:
                await call
            assert type(told.value) is error
            assert told.value.attempts == 1  # type: ignore[attr-defined]
            if error is OutcomeUnknownError:
                assert type(told.value.__cause__) is kind
        assert len(wire.requests) == requests
        assert session.metrics.attempts == (1 if name == "GET" and failure in DROPPED else requests)
        assert session.metrics.in_flight == 0
        assert len({(request.method, request.target, request.body) for request in wire.requests}) == 1


@pytest.mark.unmeasured
@pytest.mark.parametrize("failure", ["500", "502", "reset", "HTML 200", "truncated"])
@pytest.mark.parametrize("name", ["GET", "PUT", "rename by id"])
async def test_what_fails_for_ever_is_given_up_after_max_attempts(name: str, failure: str) -> None:
    answer, fate, kind = FAILURES[failure]
    async with Wire(answer) as wire, connect(wire) as session:
        with pytest.raises(SlashtagError) as told:
            await OPERATIONS[name][0](session)
        assert told.value.attempts == 5  # type: ignore[attr-defined]
        assert len(wire.requests) == (10 if name == "GET" and failure in DROPPED else 5)
        assert session.metrics.retries == 4
    assert type(told.value) is (OutcomeUnknownError if name != "GET" and fate == LOST else kind)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_refused_connection_is_tried_again_for_everyone(name: str) -> None:
    refusing = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = refusing.sockets[0].getsockname()[1]
    refusing.close()
    await refusing.wait_closed()
    async with connect(f"http://127.0.0.1:{port}") as session:
        with pytest.raises(TransportError) as told:
            await OPERATIONS[name][0](session)
    assert type(told.value) is TransportError
    assert told.value.unsent
    assert told.value.attempts == 5


async def test_a_tls_handshake_that_fails_sent_nothing() -> None:
    async with Wire(wires.hang_up(before_request=True)) as wire:
        async with connect(wire.base_url.replace("http:", "https:")) as session:
            with pytest.raises(TransportError) as told:
                await post(session)
        assert told.value.unsent
        assert wire.connections == told.value.attempts == 5


# --- hidden repetitions --------------------------------------------------------------------------------


async def passing(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    return await handler(request)


@pytest.mark.unmeasured
@pytest.mark.parametrize("own", [True, False], ids=["own session", "given session"])
@pytest.mark.parametrize(("name", "arrivals"), [("PUT", 5), ("rename", 1), ("POST", 1)])
@pytest.mark.parametrize("answer", [wires.hang_up(), wires.reset()], ids=["hang-up", "reset"])
async def test_a_dropped_write_arrives_once_an_attempt(
    answer: Answer, name: str, arrivals: int, own: bool
) -> None:
    operation = OPERATIONS[name][0]
    async with (
        Wire(answer) as wire,
        aiohttp.ClientSession(middlewares=[passing, passing]) as http,
        connect(wire, http=None if own else http) as session,
    ):
        with pytest.raises(OutcomeUnknownError):
            await operation(session)
        assert len(wire.requests) == session.metrics.attempts == arrivals


# --- 429 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("http_status", [429, 200])
async def test_the_limit_of_tags_costs_one_request_and_slows_nothing(http_status: int) -> None:
    limit = envelope(429, TAG_LIMIT, None, http_status=http_status, headers=[("Retry-After", "60")])
    async with (
        Wire(lambda request: limit if request.method == "POST" else ok(PAGE)) as wire,
        connect(wire) as session,
    ):
        with pytest.raises(TagLimitError) as told:
            await post(session)
        assert (told.value.attempts, told.value.status, told.value.message) == (1, 429, TAG_LIMIT)
        async with asyncio.timeout(5):
            await get(session)
        assert len(wire.requests) == 2
        assert session.metrics.throttled == 0


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *((name, html(429)) for name in OPERATIONS),
        ("GET", wires.response(429, b"")),
        ("PUT", envelope(429, "Too many requests. Please slow down.", None)),
        ("POST", envelope(429, "Too many requests.", http_status=200)),
    ],
)
async def test_a_rate_limit_is_waited_for_by_everyone_and_costs_no_attempt(name: str, limit: Answer) -> None:
    operation, data = OPERATIONS[name]
    # Before the third attempt of create tag another request finds out whether the limit is open.
    others = [ok(PAGE)] if name == "POST" else []
    async with Wire([limit, limit, *others, ok(data)]) as wire, connect(wire, retry=ONCE) as session:
        await operation(session)
        metrics = session.metrics
        assert len(wire.requests) == metrics.attempts == 3 + len(others)
        assert (metrics.requests, metrics.throttled, metrics.retries) == (1 + len(others), 2, 0)


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


async def test_a_429_of_one_request_delays_only_that_one() -> None:
    def script(request: Request) -> Answer:
        first = request.query["page"] == ["1"] and pages_of(wire).count(1) == 1
        return html(429, retry_after=1) if first else ok(PAGE)

    async with Wire(script) as wire, connect(wire, concurrency=1) as session:
        await asyncio.gather(*(session.urls.page(n) for n in range(1, 9)))
        assert pages_of(wire) == [1, 2, 3, 4, 5, 6, 7, 8, 1]
        assert wire.requests[-1].at >= wire.requests[0].at + 0.99


async def test_a_call_that_met_a_429_keeps_its_place_before_those_that_wait() -> None:
    async def script(request: Request) -> Answer:
        first = request.query["page"] == ["1"] and pages_of(wire).count(1) == 1
        if request.query["page"] == ["2"]:  # until the first call waits for its turn again
            await asyncio.sleep(0.5)
        return html(429) if first else ok(PAGE)

    async with Wire(script) as wire, connect(wire, concurrency=1) as session:
        await asyncio.gather(*(session.urls.page(n) for n in range(1, 9)))
        assert pages_of(wire) == [1, 2, 1, 3, 4, 5, 6, 7, 8]


def pages_of(wire: Wire) -> list[int]:
    return [int(request.query["page"][0]) for request in wire.requests]


RETRY_AFTER = ("Retry-After", "30")
DATES = [("Date", http_date(0)), ("Retry-After", http_date(30))]


@pytest.mark.parametrize(
    "answer",
    [
        html(503, retry_after=30),
        envelope(503, "Down.", None, headers=DATES),
        envelope(503, "Down.", None, http_status=200, headers=[RETRY_AFTER]),
    ],
)
async def test_a_503_that_says_how_long_pauses_the_session(answer: Answer) -> None:
    async with Wire(answer) as wire, connect(wire) as session:
        calls = [asyncio.create_task(get(session))]
        await until(lambda: session.metrics.paused_for)
        calls += [asyncio.create_task(get(session)) for _ in range(5)]
        await until(lambda: session.metrics.waiting >= 5)
        assert session.metrics.paused_for == pytest.approx(30, abs=5)
        assert len(wire.requests) == 1
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


@pytest.mark.parametrize("status", [500, 502, 504, 400])
async def test_retry_after_of_any_other_status_pauses_nobody(status: int) -> None:
    async with Wire([html(status, retry_after=30)]) as wire, connect(wire, retry=ONCE) as session:
        with pytest.raises(APIError):
            await get(session)
        assert session.metrics.paused_for == 0


# --- max_wait, max_elapsed, timeout --------------------------------------------------------------------


async def shut(session: AsyncSession, wire: Wire, seconds: int = 60) -> None:
    """Pause the session by a 503, in answer to a call that is then abandoned."""
    call = asyncio.create_task(get(session))
    await until(lambda: session.metrics.paused_for)
    call.cancel()
    await asyncio.wait([call])


async def test_what_would_wait_too_long_fails_at_once_and_unsent() -> None:
    async with Wire(html(503, retry_after=60)) as wire, connect(wire) as session:
        await shut(session, wire)
        quick = session.with_options(retry=RetryPolicy(max_wait=30))
        async with asyncio.timeout(5):
            with pytest.raises(QueueTimeoutError) as told:
                await get(quick)
        assert told.value.attempts == 0
        assert told.value.unsent
        assert told.value.path == "urls"
        assert told.value.retry_after == pytest.approx(60, abs=5)
        assert len(wire.requests) == 1
        assert session.metrics.waiting == session.metrics.in_flight == 0


async def test_a_full_session_is_waited_for_no_longer_than_max_wait() -> None:
    async with Wire(wires.stall()) as wire, connect(wire, concurrency=1) as session:
        stalled = asyncio.create_task(get(session))
        await wire.arrived(1)
        with pytest.raises(QueueTimeoutError) as told:
            await get(session.with_options(retry=RetryPolicy(max_wait=0.05)))
        assert (told.value.attempts, told.value.retry_after, told.value.unsent) == (0, None, True)
        stalled.cancel()
        await asyncio.wait([stalled])


@pytest.mark.parametrize("bound", [{"max_wait": 1}, {"max_elapsed": 5}])
@pytest.mark.parametrize("seconds", [60, 86_400])
async def test_a_503_whose_retry_after_cannot_be_met_fails_at_once(
    bound: dict[str, float], seconds: int
) -> None:
    policy = RetryPolicy(backoff_base=0, **bound)
    async with Wire(html(503, retry_after=seconds)) as wire, connect(wire, retry=policy) as session:
        with pytest.raises(ServerError) as told:
            await get(session)
        assert told.value.retry_after == seconds
        assert told.value.attempts == len(wire.requests) == 1


async def test_max_elapsed_counts_attempts_and_backoff(no_jitter: None) -> None:
    policy = RetryPolicy(max_attempts=100, max_elapsed=0.9, backoff_base=0.3, backoff_cap=0.3)
    async with Wire(html(500)) as wire, connect(wire, retry=policy) as session:
        with pytest.raises(ServerError) as told:
            await get(session)
    assert told.value.attempts in (2, 3)
    policy = RetryPolicy(max_attempts=100, max_elapsed=1.25, backoff_base=0)
    async with Wire(wires.delayed(0.5, html(500))) as wire, connect(wire, retry=policy) as session:
        with pytest.raises(RequestTimeoutError) as late:
            await get(session)
    assert late.value.attempts == 3


@pytest.mark.unmeasured
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "script",
    [
        wires.stall(),
        wires.stall(headers_sent=True),
        wires.slow_loris(),
        wires.delayed(0.1, html(500)),
        wires.delayed(0.1, wires.hang_up()),
        wires.delayed(0.1, html(503, retry_after=20)),
    ],
)
async def test_no_request_takes_longer_than_max_elapsed(script: Answer, operation: str) -> None:
    policy = RetryPolicy(max_attempts=1_000, max_elapsed=0.25, backoff_cap=60)
    async with Wire(script) as wire, connect(wire, retry=policy, timeout=60) as session:
        async with asyncio.timeout(20):
            with pytest.raises(RequestFailedError):
                await OPERATIONS[operation][0](session)


async def test_the_time_of_a_429_is_part_of_max_wait() -> None:
    policy = RetryPolicy(max_wait=0.3)
    slow = wires.delayed(0.2, envelope(429, "Too many requests.", None))
    async with Wire(slow) as wire, connect(wire, retry=policy) as session:
        with pytest.raises(RateLimitError):
            await get(session)
    assert len(wire.requests) <= 2


async def test_max_elapsed_does_not_count_waiting_for_admission(no_jitter: None) -> None:
    policy = RetryPolicy(max_elapsed=0.9, backoff_base=0.001)
    script = [html(500), html(429, retry_after=1), html(500), ok(PAGE)]
    async with Wire(script) as wire, connect(wire, retry=policy) as session:
        await get(session)
        assert wire.requests[-1].at - wire.requests[0].at >= 0.99


async def test_the_backoff_doubles_up_to_its_cap(no_jitter: None, caplog: pytest.LogCaptureFixture) -> None:
    policy = RetryPolicy(max_attempts=5, backoff_base=0.02, backoff_cap=0.05)
    with caplog.at_level(logging.INFO, "slashtag"):
        async with Wire(html(500)) as wire, connect(wire, retry=policy) as session:
            with pytest.raises(ServerError):
                await get(session)
    times = [request.at for request in wire.requests]
    waits = [after - before for before, after in pairwise(times)]
    assert all(wait >= least - 0.001 for wait, least in zip(waits, [0.02, 0.04, 0.05, 0.05], strict=True))
    told = [record.getMessage().rpartition("again in ")[2] for record in caplog.records]
    assert told == ["0.02 s", "0.04 s", "0.05 s", "0.05 s"]


async def test_a_retry_that_finds_no_turn_in_time_tells_the_last_failure() -> None:
    policy = RetryPolicy(max_elapsed=0.05, backoff_base=0.001)
    async with Wire([html(500)]) as wire, connect(wire, retry=policy) as session:
        spend(health_of(session))
        with pytest.raises(ServerError) as told:
            await get(session)
        assert told.value.attempts == 1
        assert session.metrics.retries == 0


async def test_the_timeout_counts_from_admission() -> None:
    async with (
        Wire(wires.delayed(0.12, ok(PAGE))) as wire,
        connect(wire, timeout=1.0, concurrency=1, retry=ONCE) as session,
    ):
        await asyncio.gather(*(get(session) for _ in range(10)))
        assert wire.requests[-1].at - wire.requests[0].at >= 1.0


# --- many calls and a service that is down ------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("answer", [html(503), wires.hang_up()], ids=["503", "hang-up"])
async def test_a_thousand_calls_to_a_service_that_is_down_cost_at_most_two_thousand_requests(
    answer: Answer,
) -> None:
    policy = RetryPolicy(max_elapsed=1.0, backoff_base=0.01, backoff_cap=0.1)
    async with Wire(answer) as wire, connect(wire, retry=policy) as session:
        calls = [get(session) for _ in range(1_000)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(error) for error in errors} <= {ServerError, TransportError}
        assert 1_000 <= session.metrics.attempts <= 2_000
        assert session.metrics.in_flight == session.metrics.waiting == 0


@pytest.mark.unmeasured
async def test_an_outage_of_a_second_is_survived_by_all_with_few_requests() -> None:
    def script(request: Request) -> Answer:
        return html(503) if request.at < wire.requests[0].at + 1.2 else ok(PAGE)

    async with Wire(script) as wire, connect(wire, retry=RetryPolicy()) as session:
        pages = await asyncio.gather(*(get(session) for _ in range(1_000)))
        assert len(pages) == 1_000
        assert len(wire.requests) <= 2_200
        assert (
            session.metrics.attempts
            == len(wire.requests)
            == session.metrics.requests + session.metrics.retries
        )


async def test_a_service_that_answers_nothing_for_long_gets_one_request_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "RETRIES_AT_ONCE": 0.0,
        "PROBE_INTERVAL": 0.2,
        "backoff": lambda *_, jitter: 0.001,
    }.items():
        monkeypatch.setattr(f"slashtag._sending.health.{name}", value)
    is_down = True
    policy = RetryPolicy(max_attempts=1_000, max_elapsed=0.3, backoff_base=0.001, backoff_cap=0.001)
    async with (
        Wire(lambda _: html(503) if is_down else ok(PAGE)) as wire,
        connect(wire, retry=policy) as session,
    ):

        async def ask() -> list[Any]:
            return await asyncio.gather(*(get(session) for _ in range(100)), return_exceptions=True)

        def unsent(told: list[Any]) -> int:
            return sum(isinstance(error, TransportError) and error.unsent for error in told)

        while not unsent(await ask()):
            pass
        before, began = len(wire.requests), perf_counter()
        told = await ask()
        assert unsent(told) >= 90
        # One request finds out whether the service is back, and is answered.
        refused = [error for error in told if type(error) is TransportError]
        assert all(error.path == "urls" and not error.attempts for error in refused)
        assert len(wire.requests) <= before + 1 + (perf_counter() - began) / 0.2
        is_down = False
        while unsent(await ask()):
            pass
        assert not any(isinstance(found, BaseException) for found in await ask())


# --- what is counted and logged ------------------------------------------------------------------------


@pytest.mark.unmeasured
async def test_metrics_add_up() -> None:
    def script(request: Request) -> Answer:
        n = len(wire.requests)
        return html(429) if n % 7 == 0 else html(500) if n % 5 == 0 else ok(PAGE)

    # One in five attempts fails: with few attempts a call would now and then use them up.
    patient = RetryPolicy(max_attempts=50, backoff_base=0.001, backoff_cap=0.01)
    async with Wire(script) as wire, connect(wire, retry=patient) as session:
        await asyncio.gather(*(get(session) for _ in range(200)))
        metrics = session.metrics
        assert metrics.requests == 200
        assert metrics.attempts == len(wire.requests)
        assert metrics.attempts == metrics.requests + metrics.retries + metrics.throttled
        assert metrics.throttled == len(wire.requests) // 7
        assert (metrics.in_flight, metrics.waiting) == (0, 0)
        assert metrics.statuses.total() == metrics.attempts
        assert metrics.statuses[200] == 200
        assert metrics.failures == {"ServerError": metrics.retries, "RateLimitError": metrics.throttled}
        assert json.loads(json.dumps(metrics.to_dict()))["statuses"]["500"] == metrics.statuses[500]


async def test_requests_are_logged_at_debug_and_retries_and_throttling_at_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "slashtag")
    script = [html(500), html(429), ok(PAGE), envelope(404, "Not found.", None)]
    async with Wire(script) as wire, connect(wire) as session:
        await session.urls.page(3)
        with pytest.raises(NotFoundError):
            await put(session)
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "slashtag"]
    size = len(wires.body_of(200, "ok", PAGE))
    told = [(level, re.sub(r", [0-9.]+ s$", "", text)) for level, text in told]
    assert ("DEBUG", "GET urls?page=3&pagesize=50: 500 ServerError") in told
    assert ("INFO", "GET urls: 429, back to the queue") in told
    assert ("DEBUG", f"GET urls?page=3&pagesize=50: 200, {size} bytes") in told
    assert ("DEBUG", "PUT urls/spring: 404 NotFoundError") in told
    retries = [text for level, text in told if level == "WARNING" and "attempt 1 failed, again in" in text]
    assert len(retries) == 1
    records = [vars(record) for record in caplog.records if record.name == "slashtag"]
    (answer,) = (record for record in records if "bytes" in record)
    assert (answer["method"], answer["path"], answer["status"], answer["bytes"]) == ("GET", "urls", 200, size)
    (retry,) = (record for record in records if "attempt" in record)
    assert (retry["error"], retry["attempt"], retry["seconds"] > 0) == ("ServerError", 1, True)
    failed = [record for record in records if "duration" in record]
    assert [record.get("status") for record in failed] == [500, 429, 200, 404]
    assert all(0 < record["duration"] < 60 for record in failed)


@pytest.mark.unmeasured
@pytest.mark.parametrize("debug", [False, True])
async def test_many_calls_at_once_over_every_fault(debug: bool) -> None:
    """Reset, hang up, cut, stall, refuse: every call ends, and every place is given back."""
    asyncio.get_running_loop().set_debug(debug)
    faults = [answer for answer, fate, _ in FAILURES.values() if fate in (AGAIN, LOST)]

    def script(request: Request) -> Answer:
        n = len(wire.requests)
        return faults[n // 3 % len(faults)] if n % 3 == 0 else ok(PAGE)

    policy = RetryPolicy(max_attempts=50, backoff_base=0.001, backoff_cap=0.01)
    async with Wire(script) as wire, connect(wire, timeout=0.5, retry=policy) as session:
        await asyncio.gather(*(get(session) for _ in range(150)))
        metrics = session.metrics
        assert metrics.attempts == metrics.requests + metrics.retries
        assert (metrics.in_flight, metrics.waiting) == (0, 0)
    await turns()
