"""A job on a cluster: its parts sent, followed, counted once each, and cancelled with whoever waits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from .._errors import ConfigurationError, TransportError
from .._fanout import log_late_failure
from ._worker import Done, GetCredentials, Sessions, Work, distributed, run_part

P = TypeVar("P")
T = TypeVar("T")
Progress = Callable[[int, int], object]

log = logging.getLogger("slashtag")

#: Seconds that the workers have to put down what was cancelled.
_PATIENCE = 30.0
_NEVER_SENT = {
    "apikey": "set SLASHTAG_APIKEY on the workers, or give credentials=, a callable that runs there",
    "apisecret": "set SLASHTAG_APISECRET on the workers, or give credentials=, a callable that runs there",
    "base_url": "it has an argument of its own",
    "http": "connections do not travel",
    "journal": "a journal is one process's file; the parts of an export are what survives",
}


class Job:
    """Run parts on the workers of a client, with one session on each for as long as it lasts.

    Raises ConfigurationError where `distributed` is not installed or an option cannot travel, TypeError for
    credentials that are not a callable.
    """

    def __init__(
        self,
        client: Any,
        what: str,
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
        self._what = what
        self._sessions = Sessions(base_url, credentials, options)
        self._futures: set[Any] = set()
        self._sent = 0

    def start(self, main: Callable[[Progress], Coroutine[Any, Any, T]], progress: Progress | None) -> Any:
        """Run the job's coroutine: to its end for a synchronous client, else as an awaitable."""
        if self._client.asynchronous:
            return self._live(main(progress or _quiet))
        return self._wait(main, progress or _quiet)

    async def threads(self) -> int:
        """Count the threads of the workers there are, each of which does a part at a time; at least one."""
        found: dict[str, int] = await self._client.nthreads()
        return max(1, sum(found.values()))

    async def run(
        self,
        work: Work[P, T],
        parts: Sequence[P],
        progress: Progress,
        *,
        done: int = 0,
        early: int | None = None,
        threads: int = 1,
        rest: Callable[[T, int], Sequence[P]] | None = None,
    ) -> list[Done[T]]:
        """Do parts on the workers; `progress` hears how many of all are done, `done` being so before.

        The `early` first parts, without it all, are sent at once; the others as long as fewer than `threads`
        are under way, so that none waits for a slow worker. `rest` takes each result instead of it being
        returned, and tells what the worker left of the part, cut for as many threads as are free. The
        scheduler runs a part again whose worker died; each result is taken once, as each is another future's.
        """
        found: dict[int, Done[T]] = {}
        places: dict[Any, int] = {}
        left = [1] * len(parts)
        total = done + len(parts)
        sent = len(parts) if early is None else early
        waiting = deque(enumerate(parts[sent:], sent))
        group = f"slashtag-{self._what}-{self._sessions.name[9:]}-{self._sent}"
        ended = distributed.as_completed([], loop=self._client.loop, with_results=True, raise_errors=False)

        def send(place: int, part: P) -> None:
            self._sent += 1
            key = (group, self._sent)
            future = self._client.submit(run_part, self._sessions.name, work, part, key=key, pure=False)
            places[future] = place
            self._futures.add(future)
            ended.add(future)

        for place, part in enumerate(parts[:sent]):
            send(place, part)
        while places or waiting:
            while waiting and len(places) < threads:
                send(*waiting.popleft())
            future, outcome = await anext(ended)
            result: Done[T] = self._checked(future, outcome)
            place = places.pop(future)
            self._futures.discard(future)
            future.release()
            left[place] -= 1
            if rest is None:
                found[place] = result
            elif result.value is not None:
                more = rest(result.value, threads - len(places) - len(waiting))
                left[place] += len(more)
                waiting.extend((place, part) for part in more)
            if not left[place]:
                done += 1
                progress(done, total)
        return [found[place] for place in sorted(found)]

    def _checked(self, future: Any, outcome: Any) -> Any:
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

    async def _live(self, main: Coroutine[Any, Any, T]) -> T:
        try:
            await self._begin()
            return await main
        finally:
            main.close()
            # A second cancellation leaves the end to the loop.
            await asyncio.shield(self._end())

    async def _begin(self) -> None:
        try:
            await self._client.register_plugin(self._sessions)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"a worker cannot load this version of slashtag ({error}): install it on all of them"
            ) from None

    async def _end(self) -> None:
        """Cancel what is left, and close the sessions: what they had under way ends with them."""
        try:
            async with asyncio.timeout(_PATIENCE):
                if left := [future for future in self._futures if not future.done()]:
                    await self._client.cancel(left, force=True)
                self._futures.clear()
                await self._client.unregister_worker_plugin(self._sessions.name)
        except Exception as error:
            # The cluster may be gone, and so the sessions; what the job brought or raised is what matters.
            log.info("the sessions on the workers were not closed: %s", type(error).__name__)

    def _wait(self, main: Callable[[Progress], Coroutine[Any, Any, T]], progress: Progress) -> T:
        """Run on the client's loop from another thread, the caller's, in which `progress` is called."""
        loop: asyncio.AbstractEventLoop = self._client.loop.asyncio_loop
        steps: SimpleQueue[tuple[int, int] | None] = SimpleQueue()

        def tell(done: int, total: int) -> None:
            steps.put((done, total))

        async def begin() -> asyncio.Task[T]:
            task = asyncio.ensure_future(self._live(main(tell)))
            task.add_done_callback(lambda _: steps.put(None))
            return task

        task = asyncio.run_coroutine_threadsafe(begin(), loop).result()
        try:
            while (step := _next(steps)) is not None:
                progress(*step)
        except BaseException:
            loop.call_soon_threadsafe(task.cancel)
            while _next(steps) is not None:
                pass
            log_late_failure(task)
            raise
        return task.result()


def _next(steps: SimpleQueue[tuple[int, int] | None]) -> tuple[int, int] | None:
    while True:
        try:
            # With an end, as Windows hears no Ctrl-C while it waits.
            return steps.get(timeout=1.0)
        except Empty:
            continue


def _quiet(*_: int) -> None:
    pass
