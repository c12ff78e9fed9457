"""HTTP server on a socket of this machine, in the current event loop or in a thread of its own."""

import asyncio
from contextlib import ExitStack
from typing import Self

from aiohttp import web
from anyio.from_thread import BlockingPortal, start_blocking_portal

# Above any `max_target`, so that the option decides and not the web server's own limit.
_MAX_LINE = 2**20
# Seconds that an answer under way has to finish when the server stops.
_GRACE = 1.0


class LocalServer:
    """Life cycle of a server: `async with` or `start` and `stop` in the current loop, `with` in a thread."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._running: tuple[web.Server, asyncio.Server] | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._thread = ExitStack()
        self._portal: BlockingPortal | None = None

    def _open(self) -> None:
        """Get ready to handle requests."""
        raise NotImplementedError

    def _close(self) -> None:
        """Undo `_open`, even if that failed."""
        raise NotImplementedError

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port it listens on. Raises RuntimeError while it does not run."""
        if self._running is None:
            raise RuntimeError("the sandbox is not running")
        _server, listener = self._running
        return int(listener.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        """Base address, without a path. Raises RuntimeError while it does not run."""
        host = self._address[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Generate or open the account and listen. Raises OSError where the port is taken."""
        if self._running is not None:
            raise RuntimeError("the sandbox is running already")
        server = web.Server(self._track, access_log=None, max_line_size=_MAX_LINE)
        try:
            self._open()
            listener = await asyncio.get_running_loop().create_server(server, *self._address)
        except BaseException:
            self._close()
            raise
        self._running = server, listener

    async def stop(self) -> None:
        """Close all connections and stop. May be called again."""
        if self._portal is None:
            await self._stop()
        else:
            self.close()  # it runs in another loop

    async def _stop(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        server, listener = running
        # Stop accepting before the listener is closed. A connection accepted just before is known to the
        # server only some iterations of the loop later; without them it would stay open.
        for sock in listener.sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
        for _turn in range(3):
            await asyncio.sleep(0)
        listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.pre_shutdown()
        await server.shutdown(_GRACE)
        self._close()

    def close(self) -> None:
        """End the thread that `with` started. May be called again."""
        self._portal = None
        self._thread.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            portal.call(self.start)
            stack.callback(portal.call, self._stop)
            self._portal, self._thread = portal, stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _track(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await self._handle(request)
        finally:
            self._tasks.discard(task)
