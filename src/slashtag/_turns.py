"""What holds up the event loop takes turns, so that what is due in between is done in between."""

from __future__ import annotations

import asyncio

#: Passes of the loop from the end of a task, over whoever waited for it, to the request that follows from it.
PASSES = 3


class Turns:
    """Let those who wait go on one by one, and what follows from each before the next."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Wait for a turn; it ends by itself."""
        await self._lock.acquire()
        self._end(asyncio.get_running_loop(), PASSES)

    def _end(self, loop: asyncio.AbstractEventLoop, passes: int) -> None:
        if passes:
            loop.call_soon(self._end, loop, passes - 1)
        else:
            self._lock.release()
