"""Sessions that retry quickly, and the calls that tests of the sending layer make with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from slashtag import AsyncSession, RetryPolicy

APIKEY = "wirekey-0123456789abcdef"
APISECRET = "wiresecret_0123"
QUICK = RetryPolicy(max_attempts=5, backoff_base=0.001, backoff_cap=0.01)

PAGE = {"page": 1, "pageSize": 50, "items": []}
ROWS = {"rows_updated": 1}
TAG = {"id": 1, "name": "spring", "description": "", "createdAt": "2024-01-01 00:00:00"}

Operation = Callable[[AsyncSession], Coroutine[Any, Any, Any]]


def connect(server: Any, **options: Any) -> AsyncSession:
    """A session for a sandbox with its credentials, or for a wire or an address."""
    given = {
        "apikey": getattr(server, "apikey", APIKEY),
        "apisecret": getattr(server, "apisecret", APISECRET),
        "retry": QUICK,
        "timeout": 60,
    }
    return AsyncSession(getattr(server, "base_url", server), **given | options)


async def get(session: AsyncSession) -> Any:
    return await session.urls.page()


async def put(session: AsyncSession) -> Any:
    return await session.urls.update("spring", destination="https://elsewhere.example/")


async def rename(session: AsyncSession) -> Any:
    return await session.urls.update("spring", slashtag="summer")


async def post(session: AsyncSession) -> Any:
    return await session.tags.create("spring")


#: An operation by name, and the data of an answer to it.
OPERATIONS: dict[str, tuple[Operation, object]] = {
    "GET": (get, PAGE),
    "PUT": (put, ROWS),
    "rename": (rename, ROWS),
    "POST": (post, TAG),
}


async def turns(count: int = 10) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(reached: Callable[[], object], timeout: float = 60) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(timeout):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def until_idle(session: AsyncSession) -> None:
    """Wait until nothing is sent: nothing is under way, nor comes while the event loop turns 300 times.

    Whatever leads from an answer to the next request takes turns of the loop, not time.
    """
    metrics, idle = session.metrics, 0
    async with asyncio.timeout(60):
        while idle < 300:
            busy = bool(metrics.in_flight or metrics.waiting)
            idle = 0 if busy else idle + 1
            await asyncio.sleep(0.001 if busy else 0)
