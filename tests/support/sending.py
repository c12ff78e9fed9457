"""Sessions that retry quickly, and the calls that tests of the sending layer make with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from slashtag import AsyncSession, RetryPolicy

APIKEY = "wirekey-0123456789abcdef"
APISECRET = "wiresecret_0123"
QUICK = RetryPolicy(max_attempts=5, backoff_base=0.001, backoff_cap=0.01)

PAGE = {"page": 1, "pageSize": 50, "items": []}
ROWS = {"rows_updated": 1}
TAG = {"id": 1, "name": "spring", "description": "", "createdAt": "2024-01-01 00:00:00"}

Operation = Callable[[AsyncSession], Coroutine[Any, Any, Any]]


class Server(Protocol):
    """What a session is made for: a Wire or a Sandbox."""

    @property
    def base_url(self) -> str: ...


def connect(server: Server | str, **options: Any) -> AsyncSession:
    """A session with credentials of the server's, or of the wire's."""
    base_url = server if isinstance(server, str) else server.base_url
    given = {
        "apikey": getattr(server, "apikey", APIKEY),
        "apisecret": getattr(server, "apisecret", APISECRET),
        "retry": QUICK,
        "timeout": 5,
    }
    return AsyncSession(base_url, **given | options)


async def get(session: AsyncSession) -> Any:
    return await session.urls.page()


async def put(session: AsyncSession) -> Any:
    return await session.urls.update("spring", destination="https://elsewhere.example/")


async def rename(session: AsyncSession) -> Any:
    return await session.urls.update("spring", slashtag="summer")


async def rename_by_id(session: AsyncSession) -> Any:
    return await session.urls.update(7, slashtag="summer")


async def post(session: AsyncSession) -> Any:
    return await session.tags.create("spring")


#: An operation by name, and the data of an answer to it.
OPERATIONS: dict[str, tuple[Operation, object]] = {
    "GET": (get, PAGE),
    "PUT": (put, ROWS),
    "rename": (rename, ROWS),
    "rename by id": (rename_by_id, ROWS),
    "POST": (post, TAG),
}


def run_out(session: AsyncSession) -> None:
    """Let the time of all attempts that are under way be over."""
    for deadline in session._sender.transport._deadlines:
        deadline.reschedule(0)


async def turns(count: int = 10) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(reached: Callable[[], object], timeout: float = 60) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(timeout):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def until_idle(session: AsyncSession, turns: int = 300) -> None:
    """Wait until nothing is sent: nothing is under way, nor comes while the event loop turns so many times.

    Whatever leads from an answer to the next request takes turns of the loop, not time.
    """
    metrics, idle = session.metrics, 0
    async with asyncio.timeout(60):
        while idle < turns:
            busy = bool(metrics.in_flight or metrics.waiting)
            idle = 0 if busy else idle + 1
            await asyncio.sleep(0.001 if busy else 0)


def others() -> set[asyncio.Task[Any]]:
    """The tasks of the loop, without the one that asks."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
