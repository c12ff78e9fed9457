"""What a sandbox in a thread of its own was sent: all of it, also what is still on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Set
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec

from slashtag.sandbox import Sandbox

from .sending import turns, until


def settle(box: Sandbox, timeout: float = 60) -> None:
    """Wait until all has arrived that was sent, and whoever sent it has hung up.

    A caller may give up a request, and be gone, before the sandbox comes to read it. One whose session stays
    open keeps this waiting, until TimeoutError.
    """
    server, listener = box._server, box._listener

    async def settled() -> None:
        # A turn takes in what the system holds: connections first, then what was sent over them.
        await turns(50)
        # One whose answer is still being waited for is listed, though it is gone.
        await until(lambda: all(one.transport is None for one in server.connections), timeout)
        # An answer that nobody waits for any more is made all the same, and counts as in flight.
        await until(lambda: not box._tasks, timeout)

    asyncio.run_coroutine_threadsafe(settled(), listener.get_loop()).result(3 * timeout)


def forget(box: Sandbox) -> None:
    """Forget what arrived, and what is still to arrive of it."""
    settle(box)
    box.requests.clear()


def refused_links(box: Sandbox, slashtags: Set[str], status: int) -> AbstractContextManager[None]:
    """Answer statistics of these slashtags, and of all requested with them, with an error."""
    return _refused(box, lambda query: not slashtags.isdisjoint(query.get("url_keys", "").split(",")), status)


def refused_tag(box: Sandbox, tag: str, status: int) -> AbstractContextManager[None]:
    """Answer statistics of a tag with an error."""
    return _refused(box, lambda query: query.get("tag") == tag, status)


def _refused(box: Sandbox, is_refused: Callable[[Any], bool], status: int) -> AbstractContextManager[None]:
    def refuse(asked: Any, answered: Any) -> Any:
        if not is_refused(asked.query):
            return answered
        return msgspec.structs.replace(answered, status=status, message="An error.", data=[])

    return altered(box, refuse)


@contextmanager
def altered(box: Sandbox, alter: Callable[[Any, Any], Any]) -> Generator[None]:
    """Have each answer pass `alter(request, answer)`, which returns it or another one."""
    before = box.middleware
    box.middleware = lambda arrival, answer: alter(arrival, before(arrival, answer))
    try:
        yield
    finally:
        box.middleware = before
