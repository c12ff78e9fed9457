"""What holds up the event loop takes turns, so that what is due in between is done in between."""

from __future__ import annotations

import asyncio
from collections import deque

#: Passes of the loop from the end of a task, over whoever waited for it, to the request that follows from it.
PASSES = 3
#: Seconds that these passes may take. Where they take longer, others hold up the loop, and to wait for each
#: turn would multiply that.
PATIENCE = 0.005


class Turns:
    """Let those who wait go on one by one, and what follows from each before the next."""

    def __init__(self) -> None:
        self._taken = False
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for a turn; it ends by itself."""
        loop = asyncio.get_running_loop()
        if self._taken:
            turn: asyncio.Future[None] = loop.create_future()
            self._line.append(turn)
            await turn
        else:
            self._taken = True
            loop.call_soon(self._begun, loop)

    def _begun(self, loop: asyncio.AbstractEventLoop) -> None:
        # Whoever has the turn has done its work in this pass.
        loop.call_soon(self._passed, loop, PASSES - 1, loop.time() + PATIENCE)

    def _passed(self, loop: asyncio.AbstractEventLoop, left: int, until: float) -> None:
        if loop.time() > until:
            while self._next():
                pass
        elif left:
            loop.call_soon(self._passed, loop, left - 1, until)
            return
        elif self._next():
            loop.call_soon(self._begun, loop)
            return
        self._taken = False

    def _next(self) -> bool:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False
