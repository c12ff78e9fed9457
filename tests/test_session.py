"""A session is made or refused, has views, and ends; nothing hangs, leaks or goes on without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slashtag import (
    AllTime,
    AsyncSession,
    ConfigurationError,
    OutcomeUnknownError,
    RequestTimeoutError,
    RetryPolicy,
    SessionClosedError,
    UnexpectedResponseError,
)

from .support import wire as wires
from .support.sending import (
    APIKEY,
    APISECRET,
    PAGE,
    connect,
    get,
    post,
    put,
    turns,
    until,
)
from .support.wire import Wire, html, ok

BASE = "https://links.example"
VARIABLES = ("SLASHTAG_BASE_URL", "SLASHTAG_APIKEY", "SLASHTAG_APISECRET")


def make(base_url: str | None = BASE, **options: Any) -> AsyncSession:
    return AsyncSession(base_url, **{"apikey": APIKEY, "apisecret": APISECRET} | options)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


# --- what is made, and what is refused -----------------------------------------------------------------

#: A base URL, and what it becomes.
ADDRESSES = """
https://links.example             https://links.example/api/v1/
https://links.example/api/v1      https://links.example/api/v1/
https://links.example/api/v1/     https://links.example/api/v1/
https://links.example/deep/er/    https://links.example/deep/er/api/v1/
https://links.example/xapi/v1     https://links.example/xapi/v1/api/v1/
https://links.example/a%2Fb/      https://links.example/a%2Fb/api/v1/
HTTPS://Links.Example:443         https://links.example/api/v1/
https://bücher.example            https://xn--bcher-kva.example/api/v1/
https://[2001:db8::1]:8443/       https://[2001:db8::1]:8443/api/v1/
http://127.0.0.1:8080             http://127.0.0.1:8080/api/v1/
http://box.localhost              http://box.localhost/api/v1/
http://[::1]:8080                 http://[::1]:8080/api/v1/
"""


@pytest.mark.parametrize("line", ADDRESSES.strip().splitlines())
def test_a_base_url_ends_in_the_prefix_of_the_service(line: str) -> None:
    given, told = line.split()
    assert make(f"\ufeff {given}\r\n").base_url == told


@pytest.mark.parametrize("host", ["links.example", "0.0.0.0", "127.0.0.1.links.example", "notlocalhost"])
def test_plain_http_is_for_loopback_unless_allowed(host: str) -> None:
    with pytest.raises(ConfigurationError, match="in the clear"):
        make(f"http://{host}")
    make(f"http://{host}", allow_http=True)
    with pytest.raises(ConfigurationError, match="plain http"):
        make("http://127.0.0.1", proxy=f"http://{host}")
    for end in ("/path", "?query", "#fragment"):  # of a password that is not encoded, say
        with pytest.raises(ConfigurationError, match="end with its port"):
            make(proxy=f"http://{host}{end}")


@pytest.mark.parametrize("length", [20, 30])
def test_credentials_of_any_documented_length_and_visible_characters_will_do(length: int) -> None:
    make(apikey="!~" * (length // 2), apisecret='"' * (length * 2 // 3 - 1))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("apikey", (b"k" * 20,)),
        ("apisecret", (123456789012,)),
        ("concurrency", (0, 1.5, True, "8")),
        ("timeout", (0, -1, float("inf"), aiohttp.ClientTimeout(total=5))),
        ("max_response_bytes", (0, "8")),
        ("rate", (0, float("inf"), "5")),
        ("range_end", ("open",)),
        ("retry", (0, 5)),
        ("journal", (7,)),
        ("journal_max_age", ("1d", -1)),
        ("allow_http", ("no",)),
        ("http", (BASE,)),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_its_name(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(ConfigurationError, match=name):
            make(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_attempts", 0), ("max_elapsed", None), ("backoff_base", float("nan")), ("max_wait", -1)],
)
def test_a_retry_policy_that_cannot_work_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RetryPolicy(**{name: value})


async def test_the_environment_stands_in_for_what_is_not_passed_and_blanks_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = ("e" * 20, "s" * 12), (APIKEY, APISECRET)
    async with Wire(ok(PAGE)) as wire:
        for variable, value in zip(VARIABLES, (wire.base_url, *pairs[0]), strict=True):
            monkeypatch.setenv(variable, f"\ufeff{value}\r\n")
        apikey, apisecret = (f"\u200b{each}\t" for each in pairs[1])
        for given in ({}, {"apikey": apikey, "apisecret": apisecret}):
            async with AsyncSession(**given) as session:
                await get(session)
    assert tuple((each.headers["apikey"], each.headers["apisecret"]) for each in wire.requests) == pairs


# --- what a session is ---------------------------------------------------------------------------------


def drive(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine as an event loop that is not asyncio's would."""
    try:
        coroutine.send(None)
    finally:
        coroutine.close()


@pytest.mark.parametrize(
    "use",
    [
        get,
        put,
        lambda session: session.__aenter__(),
        lambda session: session.urls.list().to_list(),
        lambda session: session.stats.collect_each(AllTime(), keys=["a"]).__anext__(),
    ],
)
def test_without_asyncio_a_session_says_so(use: Callable[[AsyncSession], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"no asyncio event loop is running.*trio"):
        drive(use(make()))


def in_another_loop(work: Coroutine[Any, Any, Any]) -> BaseException | None:
    """Run a coroutine in a loop of a thread of its own; return what it raised."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).exception()


async def closed(session: AsyncSession) -> Any:
    await session.aclose()


@pytest.mark.parametrize("name", ["get", "put", "listing", "journal", "enter", "close", "given session"])
async def test_another_loop_or_thread_is_refused_before_anything_is_sent(name: str, tmp_path: Path) -> None:
    use = {"put": put, "listing": listed, "enter": entered, "close": closed}.get(name, get)
    async with Wire(ok(PAGE)) as wire, aiohttp.ClientSession() as http:
        options = {"journal": {"journal": tmp_path / "journal"}, "given session": {"http": http}}.get(
            name, {}
        )
        async with connect(wire, **options) as session:
            await get(session)
            for one in (session, session.with_options(timeout=1)):
                error = await asyncio.to_thread(in_another_loop, use(one))
                assert type(error) is ConfigurationError
                assert "event loop" in str(error)
            await session.urls.page(2)  # it still works where it belongs
        assert len(wire.requests) == 2


# --- views ---------------------------------------------------------------------------------------------


async def test_a_view_shares_connections_metrics_and_credentials_and_is_left_alone() -> None:
    class Mine(AsyncSession):
        pass

    async with Wire(ok(PAGE)) as wire, Mine(wire.base_url, apikey=APIKEY, apisecret=APISECRET) as session:
        await get(session)
        async with session.with_options(timeout=1) as view:
            assert type(view) is Mine
            await get(view.with_options(max_response_bytes=1_000))
        await get(session)
        assert wire.connections == 1
        assert view.metrics is session.metrics
        assert session.metrics.requests == 3
        assert {request.headers["apikey"] for request in wire.requests} == {APIKEY}


async def test_a_view_has_its_own_timeout_retry_and_size() -> None:
    async with Wire(wires.delayed(0.1, ok(PAGE))) as wire, connect(wire) as session:
        quick = session.with_options(timeout=0.02, retry=RetryPolicy(max_attempts=1))
        small = session.with_options(max_response_bytes=10)
        with pytest.raises(RequestTimeoutError):
            await get(quick)
        with pytest.raises(UnexpectedResponseError):
            await get(small.with_options(timeout=10))
        await get(session)
        # A view of a view keeps what it does not change.
        with pytest.raises(RequestTimeoutError) as told:
            await get(quick.with_options(max_response_bytes=1_000))
        assert told.value.attempts == 1


# --- the end -------------------------------------------------------------------------------------------


async def listed(session: AsyncSession) -> Any:
    return await session.urls.list().to_list()


async def collected(session: AsyncSession) -> Any:
    return await session.stats.collect(AllTime(), keys=["a"])


async def collected_each(session: AsyncSession) -> Any:
    return [pair async for pair in session.stats.collect_each(AllTime(), keys=["a"])]


async def entered(session: AsyncSession) -> Any:
    async with session:
        return None


USES = [get, put, post, listed, collected, collected_each, entered]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("by_view", [False, True])
async def test_a_closed_session_refuses_every_use(use: Callable[[AsyncSession], Any], by_view: bool) -> None:
    async with Wire([ok(PAGE)]) as wire:
        session = connect(wire)
        view = session.with_options(timeout=1)
        await get(session)
        await asyncio.gather(*((view if by_view else session).aclose() for _ in range(5)))
        await session.aclose()
        for one in (session, view, session.with_options(timeout=1)):
            with pytest.raises(SessionClosedError):
                await use(one)
        await wire.abandoned()
        assert wire.connections == 1
    assert repr(session).endswith("(closed)>")


async def test_a_cancelled_end_is_an_end() -> None:
    async with Wire(wires.stall()) as wire:
        session = connect(wire)
        stream = aiter(session.urls.list())
        consumer = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
        await wire.arrived(1)
        ending = asyncio.create_task(session.aclose())
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait([ending])
        with pytest.raises(SessionClosedError):
            await consumer
        await wire.abandoned()
        await session.aclose()


@pytest.fixture(params=[False, True], ids=["own session", "given session"])
async def http(request: pytest.FixtureRequest) -> AsyncIterator[aiohttp.ClientSession | None]:
    if not request.param:
        yield None
        return
    async with aiohttp.ClientSession() as http:
        yield http


async def ended(session: AsyncSession, calls: list[asyncio.Task[Any]]) -> list[type[BaseException]]:
    """Close a session under its calls; what they end with."""
    await session.aclose()
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert session.metrics.in_flight == session.metrics.waiting == 0
    return [type(error) for error in errors]


def begin(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(call) for call in calls]


@pytest.mark.parametrize("headers_sent", [False, True])
async def test_closing_ends_what_is_under_way_and_refuses_those_who_wait(
    http: aiohttp.ClientSession | None, headers_sent: bool
) -> None:
    async with Wire(wires.stall(headers_sent=headers_sent)) as wire:
        session = connect(wire, http=http, concurrency=3)
        calls = begin(get(session.with_options(timeout=50)), put(session), post(session))
        await wire.arrived(3)
        calls += begin(*(get(session) for _ in range(20)))
        await turns()
        errors = await ended(session, calls)
        assert errors[:3] == [SessionClosedError, OutcomeUnknownError, OutcomeUnknownError]
        assert set(errors[3:]) == {SessionClosedError}
        await wire.abandoned()
        assert len(wire.requests) == 3
        assert http is None or not http.closed


async def test_closing_ends_a_backoff(
    http: aiohttp.ClientSession | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag._sending.sender.random.random", lambda: 1.0)
    async with Wire(html(502)) as wire:
        session = connect(wire, http=http, retry=RetryPolicy(backoff_base=60, backoff_cap=60))
        calls = begin(get(session), put(session))
        await until(lambda: session.metrics.attempts == 2 and not session.metrics.in_flight)
        await turns()
        assert await ended(session, calls) == [SessionClosedError, OutcomeUnknownError]
        assert len(wire.requests) == session.metrics.attempts == 2
