"""A job on a cluster: its parts sent, their results taken once each, and all cancelled with the caller."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import wait
from typing import Any, TypeVar

from .. import ConfigurationError, SlashtagError, TransportError
from ._worker import Done, GetCredentials, Sessions, Work, distributed, run_part

P = TypeVar("P")
T = TypeVar("T")
Progress = Callable[[int, int], object]

log = logging.getLogger("slashtag")

#: Seconds that the workers have to end what was cancelled.
_PATIENCE = 30.0
#: How often a job tries to begin on all workers, and seconds in between for the scheduler to miss a dead one.
_BEGINNINGS, _PAUSE = 5, 0.3
_NEVER_SENT = {
    "apikey": "set SLASHTAG_APIKEY on the workers, or give credentials=, a callable that runs there",
    "apisecret": "set SLASHTAG_APISECRET on the workers, or give credentials=, a callable that runs there",
    "base_url": "it has an argument of its own",
    "http": "connections do not travel",
    "journal": "a journal is one process's file; the parts of an export are what survives",
}


class Job:
    """Parts that run on the workers of a client, with one session on each for as long as the job lasts.

    Raises ConfigurationError where `distributed` is not installed or an option cannot be sent, TypeError for
    credentials that are not a callable.
    """

    def __init__(
        self,
        client: Any,
        *,
        base_url: str | None,
        credentials: GetCredentials | None,
        session_options: Mapping[str, Any] | None,
    ) -> None:
        if distributed is None:
            raise ConfigurationError('slashtag.dask needs distributed: pip install "slashtag[dask]"')
        if credentials is not None and not callable(credentials):
            raise TypeError("credentials= is a callable that runs on the workers; no key or secret is sent")
        options = dict(session_options or {})
        for name, instead in _NEVER_SENT.items():
            if name in options:
                raise ConfigurationError(f"session_options cannot hold {name}: {instead}")
        self._client = client
        self._sessions = Sessions(base_url, credentials, options)
        self._futures: set[Any] = set()
        self._sent = 0

    def start(self, main: Callable[[], Coroutine[Any, Any, T]]) -> Any:
        """Run the job's coroutine: to its end for a synchronous client, else as an awaitable."""
        return self._live(main) if self._client.asynchronous else self._wait(main)

    async def threads(self) -> int:
        """Return the number of threads of all workers, each of which runs one part at a time; at least 1."""
        found: dict[str, int] = await self._client.nthreads()
        return max(1, sum(found.values()))

    async def run(self, work: Work[P, T], parts: Iterable[P]) -> AsyncGenerator[tuple[int, Done[T]], None]:
        """Run parts on the workers; yield the place of each and its result as they complete.

        The scheduler runs a part again whose worker died. Each result is taken once.
        """
        places: dict[Any, int] = {}
        for place, part in enumerate(parts):
            self._sent += 1
            key = (f"{self._sessions.name}-part", self._sent)
            future = self._client.submit(run_part, self._sessions.name, work, part, key=key, pure=False)
            places[future] = place
            self._futures.add(future)
        ended = distributed.as_completed(
            places, loop=self._client.loop, with_results=True, raise_errors=False
        )
        while places:
            future, outcome = await anext(ended)
            result: Done[T] = _checked(future, outcome)
            self._futures.discard(future)
            future.release()
            yield places.pop(future), result

    async def _live(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            await self._begin()
            return await main()
        except OSError as error:
            if isinstance(error, SlashtagError):  # a RequestTimeoutError
                raise
            raise TransportError(f"the cluster was lost: {error}") from None
        finally:
            # A second cancellation leaves the end to the loop.
            await asyncio.shield(self._end())

    async def _begin(self) -> None:
        for left in reversed(range(_BEGINNINGS)):
            try:
                await self._client.register_plugin(self._sessions)
            except (ImportError, AttributeError) as error:
                raise ConfigurationError(
                    f"a worker cannot load this version of slashtag ({error}): install it on all of them"
                ) from None
            except OSError:
                # A worker has died, and the scheduler does not know it yet.
                if not left:
                    raise
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _end(self) -> None:
        """Cancel what is left, and close the sessions: what they had under way ends with them."""
        try:
            async with asyncio.timeout(_PATIENCE):
                if left := [future for future in self._futures if not future.done()]:
                    await self._client.cancel(left, force=True)
                self._futures.clear()
                await self._client.unregister_worker_plugin(self._sessions.name)
        except Exception as error:
            # The cluster may be gone, and the sessions with it; the result or the error of the job matters.
            log.info("the sessions on the workers were not closed: %s", type(error).__name__)

    def _wait(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run on the client's loop, which is another thread's; Ctrl-C cancels and waits for the end."""
        ended = threading.Event()

        async def live() -> T:
            try:
                return await self._live(main)
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(live(), self._client.loop.asyncio_loop)
        try:
            # With a timeout, as Windows hears no Ctrl-C in an endless wait.
            while not wait([future], timeout=1.0).done:
                pass
        except BaseException:
            future.cancel()
            ended.wait(2 * _PATIENCE)
            raise
        return future.result()


def _checked(future: Any, outcome: Any) -> Any:
    if future.status == "finished":
        if outcome.error is not None:
            raise outcome.error
        return outcome
    if future.status == "error":
        error = outcome[1]
        if isinstance(error, distributed.KilledWorker):
            times = error.allowed_failures + 1
            raise TransportError(f"a part was given up: workers died over it {times} time(s)") from None
        raise error
    raise TransportError("the scheduler was lost, or somebody cancelled the job there")
