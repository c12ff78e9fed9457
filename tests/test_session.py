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
    DateRange,
    OutcomeUnknownError,
    RequestTimeoutError,
    RetryPolicy,
    SessionClosedError,
    SlashtagError,
    UnexpectedResponseError,
)

from .support import wire as wires
from .support.sending import (
    APIKEY,
    APISECRET,
    OPERATIONS,
    PAGE,
    Operation,
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


# --- where requests go ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "told"),
    [
        ("https://links.example", "https://links.example/api/v1/"),
        ("https://links.example/", "https://links.example/api/v1/"),
        ("https://links.example/api/v1", "https://links.example/api/v1/"),
        ("https://links.example/api/v1/", "https://links.example/api/v1/"),
        ("https://links.example/deep/er/", "https://links.example/deep/er/api/v1/"),
        ("https://links.example/xapi/v1", "https://links.example/xapi/v1/api/v1/"),
        ("https://links.example/a%2Fb/", "https://links.example/a%2Fb/api/v1/"),
        ("https://links.example/ ", "https://links.example/api/v1/"),
        ("\ufeffhttps://links.example\r\n", "https://links.example/api/v1/"),
        ("HTTPS://Links.Example:443", "https://links.example/api/v1/"),
        ("https://bücher.example", "https://xn--bcher-kva.example/api/v1/"),
        ("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/api/v1/"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v1/"),
        ("http://localhost:1", "http://localhost:1/api/v1/"),
        ("http://box.localhost", "http://box.localhost/api/v1/"),
        ("http://[::1]:8080", "http://[::1]:8080/api/v1/"),
    ],
)
def test_a_base_url_ends_in_the_prefix_of_the_service(base_url: str, told: str) -> None:
    assert repr(make(base_url)).startswith(f"<AsyncSession {told}")


@pytest.mark.parametrize(
    "base_url",
    [
        "http://links.example",
        "http://0.0.0.0",
        "http://127.0.0.1.links.example",
        "http://localhost.links.example",
        "http://notlocalhost",
        "http://127.1",
    ],
)
def test_plain_http_is_for_loopback_unless_allowed(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="in the clear"):
        make(base_url)
    make(base_url, allow_http=True)


# --- what is refused -----------------------------------------------------------------------------------

#: What no message may show.
HIDE = "hunter2-hunter2"


@pytest.mark.parametrize(
    "base_url",
    [
        f"https://user:{HIDE}@links.example",
        f"https://{HIDE}@links.example",
        f"user:{HIDE}@links.example",
        HIDE,
        f"ftp://links.example/{HIDE}",
        f"https:///{HIDE}",
        "",
        f"https://links.example/?key={HIDE}",
        f"https://links.example:{HIDE}/",
        f"https://{HIDE}..example/",
        f"http://{HIDE}.example/",
        f"https://links.example/{HIDE} x",
        f"https://links.example/\n{HIDE}",
        42,
        None,
    ],
)
def test_a_base_url_that_cannot_work_is_refused_without_being_shown(base_url: Any) -> None:
    with pytest.raises(ConfigurationError) as told:
        make(base_url)
    assert HIDE not in shown(told.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("apikey", None),
        ("apikey", HIDE.ljust(19, "x")),
        ("apikey", HIDE.ljust(31, "x")),
        ("apikey", f"{HIDE} 56789"),
        ("apikey", f"{HIDE}\r\nx: 89"),
        ("apikey", f"{HIDE}5678é"),
        ("apikey", f"{HIDE}56789".encode()),
        ("apisecret", None),
        ("apisecret", HIDE[:11]),
        ("apisecret", HIDE.ljust(21, "x")),
        ("apisecret", 123456789012),
    ],
)
def test_a_credential_that_cannot_work_is_refused_by_its_name_without_being_shown(
    name: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=name) as told:
        make(**{name: value})
    assert HIDE[:11] not in shown(told.value)
    assert "123456789012" not in shown(told.value)


@pytest.mark.parametrize("around", ["{}\n", " {} ", "\ufeff{}\r\n", "\u200b{}\t"])
async def test_what_surrounds_a_credential_unseen_is_not_part_of_it(
    around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = APIKEY, APISECRET
    for name, value in zip(VARIABLES[1:], values, strict=True):
        monkeypatch.setenv(name, around.format(value))
    async with Wire(ok(PAGE)) as wire:
        for given in ({}, {"apikey": around.format(APIKEY), "apisecret": around.format(APISECRET)}):
            async with AsyncSession(wire.base_url, **given) as session:
                await get(session)
    assert {(each.headers["apikey"], each.headers["apisecret"]) for each in wire.requests} == {values}


def shown(error: SlashtagError) -> str:
    return f"{error!s} {error!r} {error.args} {error.__dict__} {error.__cause__!r} {error.__context__!r}"


@pytest.mark.parametrize("length", [20, 30])
def test_credentials_of_any_documented_length_and_visible_characters_will_do(length: int) -> None:
    make(apikey="!~" * (length // 2), apisecret='"' * (length * 2 // 3 - 1))


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"concurrency": True},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("inf")},
        {"max_response_bytes": 0},
        {"rate": 0},
        {"rate": float("inf")},
        {"range_end": "open"},
        {"concurrency": "8"},
        {"timeout": aiohttp.ClientTimeout(total=5)},
        {"max_response_bytes": "8"},
        {"rate": "5"},
        {"retry": 0},
        {"retry": 5},
        {"journal": 7},
        {"journal_max_age": "1d"},
        {"journal_max_age": -1},
        {"allow_http": "no"},
        {"http": "https://links.example"},
    ],
    ids=str,
)
def test_an_option_that_cannot_work_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        make(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": "8"},
        {"max_elapsed": float("inf")},
        {"max_elapsed": None},
        {"backoff_base": float("nan")},
        {"backoff_cap": -0.1},
        {"max_wait": -1},
    ],
    ids=str,
)
def test_a_retry_policy_that_cannot_work_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        RetryPolicy(**options)


# --- the environment -----------------------------------------------------------------------------------


async def test_the_environment_stands_in_for_what_is_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Wire(ok(PAGE)) as wire:
        for variable, value in zip(VARIABLES, (wire.base_url, "e" * 20, "s" * 12), strict=True):
            monkeypatch.setenv(variable, value)
        async with AsyncSession() as session:
            await get(session)
        async with AsyncSession(wire.base_url, apikey=APIKEY, apisecret=APISECRET) as session:
            await get(session)
    sent = [(request.headers["apikey"], request.headers["apisecret"]) for request in wire.requests]
    assert sent == [("e" * 20, "s" * 12), (APIKEY, APISECRET)]


# --- what a session is ---------------------------------------------------------------------------------


def test_a_session_is_made_without_an_event_loop_and_shows_no_credential() -> None:
    session = make()
    for text in (repr(session), str(session), repr(session.__dict__), repr(vars(session._transport))):
        assert APIKEY not in text
        assert APISECRET not in text


def drive(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine as an event loop that is not asyncio's would."""
    try:
        coroutine.send(None)
    finally:
        coroutine.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.__aenter__(),
        lambda session: session.urls.list().to_list(),
        lambda session: session.stats.collect_each(AllTime(), keys=["a"]).__anext__(),
        *(operation for operation, _ in OPERATIONS.values()),
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


@pytest.mark.parametrize("given", [False, True], ids=["own session", "given session"])
@pytest.mark.parametrize("name", [*OPERATIONS, "listing", "journal", "enter", "close"])
async def test_another_loop_or_thread_is_refused_before_anything_is_sent(
    name: str, given: bool, tmp_path: Path
) -> None:
    uses: dict[str, Operation] = {"listing": listed, "journal": get, "enter": entered, "close": closed}
    use = uses[name] if name in uses else OPERATIONS[name][0]
    options: dict[str, Any] = {"journal": tmp_path / "journal"} if name == "journal" else {}
    async with Wire(ok(PAGE)) as wire, aiohttp.ClientSession() as http:
        async with connect(wire, http=http if given else None, **options) as session:
            await get(session)
            for one in (session, session.with_options(timeout=1)):
                error = await asyncio.to_thread(in_another_loop, use(one))
                assert type(error) is ConfigurationError
                assert "event loop" in str(error)
            await session.urls.page(2)  # it still works where it belongs
        assert len(wire.requests) == 2


# --- views ---------------------------------------------------------------------------------------------


async def test_a_view_shares_connections_metrics_and_credentials() -> None:
    async with Wire(ok(PAGE)) as wire, connect(wire) as session:
        view = session.with_options(timeout=1)
        await get(session)
        await get(view)
        await get(view.with_options(max_response_bytes=1_000))
        assert wire.connections == 1
        assert view.metrics is session.metrics
        assert session.metrics.requests == 3
        assert {request.headers["apikey"] for request in wire.requests} == {APIKEY}


async def test_leaving_a_view_leaves_a_session_of_a_subclass_open() -> None:
    class Mine(AsyncSession):
        pass

    async with Wire(ok(PAGE)) as wire, Mine(wire.base_url, apikey=APIKEY, apisecret=APISECRET) as session:
        async with session.with_options(timeout=1) as view:
            assert type(view) is Mine
            await get(view)
        await get(session)


async def test_a_view_has_its_own_timeout_retry_and_size() -> None:
    async with Wire(wires.delayed(0.1, ok(PAGE))) as wire, connect(wire) as session:
        quick = session.with_options(timeout=0.02, retry=RetryPolicy(max_attempts=1))
        small = session.with_options(max_response_bytes=10)
        with pytest.raises(RequestTimeoutError):
            await get(quick)
        with pytest.raises(UnexpectedResponseError):
            await get(small)
        with pytest.raises(UnexpectedResponseError):
            await get(small.with_options(timeout=10))
        await get(session)
        # A view of a view keeps what it does not change.
        with pytest.raises(RequestTimeoutError) as told:
            await get(quick.with_options(max_response_bytes=1_000))
        assert told.value.attempts == 1


async def test_a_view_shares_life_both_ways() -> None:
    for close_view in (False, True):
        async with Wire(ok(PAGE)) as wire:
            session = connect(wire)
            view = session.with_options(timeout=1)
            await get(session)
            await (view if close_view else session).aclose()
            for one in (session, view, session.with_options(timeout=2)):
                with pytest.raises(SessionClosedError):
                    await get(one)
            await wire.abandoned()


# --- the end -------------------------------------------------------------------------------------------


async def listed(session: AsyncSession) -> Any:
    return await session.urls.list().to_list()


async def iterated(session: AsyncSession) -> Any:
    return [url async for url in session.urls.list()]


async def collected(session: AsyncSession) -> Any:
    return await session.stats.collect(AllTime(), keys=["a"])


async def collected_each(session: AsyncSession) -> Any:
    return [pair async for pair in session.stats.collect_each(AllTime(), keys=["a"])]


async def ran(session: AsyncSession) -> Any:
    return await session.stats.run(session.stats.plan(DateRange("2024-01-01", "2024-01-31"), tag="spring"))


async def entered(session: AsyncSession) -> Any:
    async with session:
        return None


async def ensured(session: AsyncSession) -> Any:
    return await session.tags.ensure("spring")


USES = [
    *(operation for operation, _ in OPERATIONS.values()),
    listed,
    iterated,
    collected,
    collected_each,
    ran,
    entered,
    ensured,
]


@pytest.mark.parametrize("use", USES)
async def test_a_closed_session_refuses_every_use(use: Callable[[AsyncSession], Any]) -> None:
    async with Wire([]) as wire:
        session = connect(wire)
        await session.aclose()
        for one in (session, session.with_options(timeout=1)):
            with pytest.raises(SessionClosedError):
                await use(one)
        assert wire.connections == 0
    assert repr(session).endswith("(closed)>")


async def test_closing_again_and_at_once_is_safe() -> None:
    async with Wire(ok(PAGE)) as wire:
        session = connect(wire)
        await get(session)
        await asyncio.gather(*(session.aclose() for _ in range(5)))
        await session.aclose()
        await wire.abandoned()


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
    async with asyncio.timeout(5):
        await session.aclose()
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert session.metrics.in_flight == session.metrics.waiting == 0
    return [type(error) for error in errors]


def begin(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(call) for call in calls]


@pytest.mark.parametrize("headers_sent", [False, True])
async def test_closing_ends_what_is_under_way(http: aiohttp.ClientSession | None, headers_sent: bool) -> None:
    async with Wire(wires.stall(headers_sent=headers_sent)) as wire:
        session = connect(wire, http=http, timeout=60)
        calls = begin(get(session), get(session.with_options(timeout=50)), put(session), post(session))
        await wire.arrived(4)
        errors = await ended(session, calls)
        assert errors == [SessionClosedError, SessionClosedError, OutcomeUnknownError, OutcomeUnknownError]
        await wire.abandoned()
        assert len(wire.requests) == 4
        assert http is None or not http.closed


async def test_closing_refuses_those_who_wait_for_a_place(http: aiohttp.ClientSession | None) -> None:
    async with Wire(wires.stall()) as wire:
        session = connect(wire, http=http, concurrency=1)
        calls = begin(*(get(session) for _ in range(20)))
        await wire.arrived(1)
        assert set(await ended(session, calls)) == {SessionClosedError}
        assert len(wire.requests) == 1


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
        assert len(wire.requests) == 2


async def test_no_timer_outlives_a_session() -> None:
    loop = asyncio.get_running_loop()
    async with Wire(html(429, retry_after=60)) as wire:
        before = {id(timer) for timer in loop._scheduled if not timer.cancelled()}  # type: ignore[attr-defined]
        session = connect(wire, timeout=60)
        calls = begin(*(get(session) for _ in range(3)))
        await until(lambda: session.metrics.throttled and not session.metrics.in_flight)
        await ended(session, calls)
        await wire.abandoned()
        left = [
            timer
            for timer in loop._scheduled  # type: ignore[attr-defined]
            if not timer.cancelled() and id(timer) not in before and "slashtag" in repr(timer)
        ]
        assert left == []
