"""The variables of the functions in a traceback show no credential, however a request is cancelled."""

from __future__ import annotations

import asyncio
import pickle
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import aiohttp
import anyio
import pytest

from slashtag import AllTime, AsyncSession, ConfigurationError, RetryPolicy
from tests.support import wire as wires
from tests.support.sending import connect, turns, until
from tests.support.wire import Wire, envelope

APIKEY = "hidden-key-0123456789abc"
APISECRET = "hidden-secret-0123"
PROXY_PASSWORD = "hidden-password"
HIDDEN = "hidden-"

Work = Callable[[], Awaitable[object]]


# --- what can be seen of a traceback --------------------------------------------------------------------


def chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An error, and all that it names as its cause, its context or its parts."""
    if error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
            yield from chain(other, seen)


def texts(value: object, depth: int = 6) -> Iterator[str]:
    """What tools show of a variable: they take collections apart."""
    if isinstance(value, bytes | bytearray):
        yield bytes(value).decode("latin-1")
    elif isinstance(value, str):
        yield repr(value)
    elif isinstance(value, Mapping) and depth:
        for name, each in value.items():
            yield from texts(name, depth - 1)
            yield from texts(each, depth - 1)
    elif isinstance(value, Sequence | Set) and depth:
        for each in value:
            yield from texts(each, depth - 1)
    with suppress(Exception):  # a session that is not complete has no repr
        yield repr(value)
    with suppress(Exception):
        yield pickle.dumps(value, protocol=0).decode("latin-1")


def shown(error: BaseException) -> list[str]:
    """The variables that show a secret, of the functions of slashtag and of aiohttp."""
    found = []
    for each in chain(error, set()):
        entry = each.__traceback__
        while entry is not None:
            frame = entry.tb_frame
            module = frame.f_globals["__name__"]
            if module.partition(".")[0] in ("slashtag", "aiohttp"):
                for name, value in frame.f_locals.items():
                    if any(HIDDEN in text for text in texts(value)):
                        found.append(f"{module}.{frame.f_code.co_name}: {name}")
            entry = entry.tb_next
    return found


# --- ways of cancelling ---------------------------------------------------------------------------------


async def cancel(work: Work, begun: Work) -> None:
    task = asyncio.ensure_future(work())
    await begun()
    task.cancel()
    await task


async def timeout(work: Work, begun: Work) -> None:
    async with asyncio.timeout(None) as limit:

        async def end() -> None:
            await begun()
            limit.reschedule(0)

        ended = asyncio.ensure_future(end())
        await work()
    await ended


async def wait_for(work: Work, begun: Work) -> None:
    await asyncio.wait_for(work(), 0.1)


async def cancel_scope(work: Work, begun: Work) -> None:
    with anyio.fail_after(60) as scope:

        async def end() -> None:
            await begun()
            scope.deadline = 0

        ended = asyncio.ensure_future(end())
        await work()
    await ended


async def task_group(work: Work, begun: Work) -> None:
    kept: list[BaseException] = []

    async def keep() -> None:
        try:
            await work()
        except BaseException as error:
            kept.append(error)
            raise

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(keep())
            await begun()
            raise OSError("another task failed")
    raise kept[0]


WAYS = [cancel, timeout, wait_for, cancel_scope, task_group]

# --- where a request is when it is cancelled ------------------------------------------------------------

#: What the server does, and whether it is meant to speak TLS, which it does not.
STAGES: dict[str, tuple[Any, str]] = {
    "connecting": (wires.stall(), "https"),
    "waiting for the answer": (wires.stall(), "http"),
    "reading the body": (wires.stall(headers_sent=True), "http"),
    "waiting for admission": (envelope(429, "Too many.", None, headers=[("Retry-After", "60")]), "http"),
    "waiting for the next attempt": (wires.html(502), "http"),
}
POLICY = RetryPolicy(backoff_base=60, backoff_cap=60)


def page(session: AsyncSession) -> Awaitable[object]:
    return session.urls.page(1)


def update(session: AsyncSession) -> Awaitable[object]:
    return session.urls.update("spring", destination="https://elsewhere.example/")


def collect(session: AsyncSession) -> Awaitable[object]:
    return session.stats.collect(AllTime(), keys=[f"k{n}" for n in range(250)])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("path", "operation"), [("fast", collect), ("session", update), ("given", page), ("proxy", page)]
)
async def test_a_cancellation_shows_no_credential(
    way: Any, stage: str, path: str, operation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLASHTAG_FAST_PATH", "0" if path == "session" else "1")
    answer, scheme = STAGES[stage]
    options: dict[str, Any] = {"apikey": APIKEY, "apisecret": APISECRET, "retry": POLICY, "timeout": 30}
    async with Wire(answer) as wire, aiohttp.ClientSession() as http:
        address = wire.base_url.replace("http", scheme, 1)
        if path == "given":
            options["http"] = http
        if path == "proxy":
            options |= {"allow_http": True, "proxy": wire.base_url.replace("//", f"//name:{PROXY_PASSWORD}@")}
        async with connect(address, **options) as session:

            async def begun() -> None:
                await until(lambda: bool(wire.connections if scheme == "https" else wire.requests))
                await turns(20)

            with pytest.raises((asyncio.CancelledError, TimeoutError)) as told:
                await way(lambda: operation(session), begun)
    assert shown(told.value) == []


@pytest.mark.parametrize("path", ["fast", "session"])
def test_ctrl_c_shows_no_credential(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLASHTAG_FAST_PATH", "0" if path == "session" else "1")

    async def main() -> None:
        async with Wire(wires.stall()) as wire, connect(wire, apikey=APIKEY, apisecret=APISECRET) as session:

            async def interrupt() -> None:
                await until(lambda: bool(wire.requests))
                signal.raise_signal(signal.SIGINT)

            ended = asyncio.ensure_future(interrupt())
            await session.urls.page(1)
            await ended

    with pytest.raises(KeyboardInterrupt) as told:
        asyncio.run(main())
    assert shown(told.value) == []


async def test_an_error_of_a_middleware_keeps_its_own_functions() -> None:
    async def broken(request: Any, handler: Any) -> Any:
        raise RuntimeError("mine")

    async with (
        Wire([]) as wire,
        aiohttp.ClientSession(middlewares=[broken]) as http,
        connect(wire, http=http, apikey=APIKEY, apisecret=APISECRET) as session,
    ):
        with pytest.raises(RuntimeError, match="mine") as told:
            await session.urls.page(1)
    assert shown(told.value) == []
    assert told.traceback[-1].name == "broken"


async def test_an_error_that_the_caller_handles_meanwhile_keeps_its_traceback() -> None:
    async with Wire(wires.stall()) as wire, connect(wire) as session, aiohttp.ClientSession() as http:
        texts: list[list[str]] = []
        try:
            await http.get("http://127.0.0.1:1")
        except aiohttp.ClientError as error:
            texts.append(traceback.format_exception(error))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.urls.page(1), 0.05)
            texts.append(traceback.format_exception(error))
    before, after = texts
    assert before == after


@pytest.mark.parametrize(
    "options",
    [
        {"apikey": f"{APIKEY} é"},
        {"apisecret": APISECRET * 2},
        {"base_url": "nowhere"},
        {"concurrency": 0},
        {"proxy": f"socks5://name:{PROXY_PASSWORD}@127.0.0.1"},
        {"proxy": f"http://name:{PROXY_PASSWORD}@127.0.0.1"},
    ],
    ids=str,
)
def test_what_a_session_refuses_shows_no_credential(options: dict[str, Any]) -> None:
    given = {"base_url": "http://127.0.0.1", "apikey": APIKEY, "apisecret": APISECRET}
    with pytest.raises(ConfigurationError) as told:
        AsyncSession(**given | options)
    assert shown(told.value) == []
