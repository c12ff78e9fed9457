"""A session on an event loop in a thread of its own, for code that is not asynchronous."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from .. import AsyncSession

T = TypeVar("T")


@contextmanager
def in_own_thread(session: AsyncSession) -> Generator[tuple[BlockingPortal, AsyncSession], None, None]:
    """Open a session in an event loop of its own; give what calls functions there, and the session."""
    options = {"use_uvloop": find_spec("uvloop") is not None}
    with (
        start_blocking_portal(backend_options=options) as portal,
        portal.wrap_async_context_manager(session) as opened,
    ):
        yield portal, opened


def wait_for(portal: BlockingPortal, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Return what a coroutine function returns there; cancel it where the wait for it is interrupted."""
    running = portal.start_task_soon(function, *arguments)
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise
