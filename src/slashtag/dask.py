"""Statistics collected by the workers of a Dask cluster.

    from distributed import Client
    from slashtag.dask import collect

    plan = session.stats.plan(DateRange("2022-01-01", "2024-12-31"), tags=names)
    with Client("tcp://scheduler:8786") as client:
        stats = collect(client, plan)

Needs the extra `dask`, and slashtag in the same version on scheduler and workers. When it helps, and when
not: docs/python.md.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from anyio.from_thread import start_blocking_portal

from . import (
    AsyncSession,
    ConfigurationError,
    Plan,
    SessionClosedError,
    SlashtagError,
    Statistics,
    TransportError,
)
from ._internal import empty_sum

__all__ = ["collect"]

distributed: Any = import_module("distributed")
log = logging.getLogger("slashtag")

#: Requests of a part: at least, as many as a session sends at once; at most, to be lost if its worker dies.
_FEWEST, _MOST = 32, 512
#: Parts for each thread of the workers, so that none has much left to do at the end.
_PARTS = 8
#: Seconds that the workers have to end cancelled parts.
_CLOSE_TIMEOUT = 30.0
#: Options of a session that workers cannot be sent: secrets, and what is given elsewhere or cannot be shared.
_NOT_SENT = {"apikey", "apisecret", "base_url", "http", "journal"}


class WorkerSession(distributed.WorkerPlugin):  # type: ignore[misc]
    """Worker plugin that holds one session for as long as a job lasts.

    The session runs on an event loop in a thread of its own: the worker goes on talking to the scheduler
    while answers are decoded, and Dask's profiler, which walks the stacks of the worker's own loop a hundred
    times a second, does not slow it down. Missing credentials are an error of the job and not of the worker.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.name = f"slashtag-{secrets.token_hex(8)}"
        self._options = dict(options)

    def setup(self, worker: object) -> None:
        """Start the event loop."""
        self._stack = ExitStack()
        uvloop = {"use_uvloop": find_spec("uvloop") is not None}
        self.portal = self._stack.enter_context(start_blocking_portal(backend_options=uvloop))
        try:
            self.session: AsyncSession | SlashtagError = AsyncSession(**self._options)
            self._stack.callback(self.portal.call, self.session.aclose)
        except SlashtagError as error:
            self.session = error

    async def teardown(self, worker: object) -> None:
        """Close the session, which ends its requests, and the loop's thread."""
        await asyncio.to_thread(self._stack.close)


def run_part(name: str, part: Plan[Any]) -> Statistics | SlashtagError:
    """Run one part of a job on a worker; errors of this library are returned, not raised."""
    plugin: WorkerSession | None = distributed.get_worker().plugins.get(name)
    if plugin is None:
        # The part began after the job had ended, so nobody waits for it.
        return SessionClosedError("the job is over")
    if isinstance(plugin.session, SlashtagError):
        return plugin.session
    try:
        result: Statistics = plugin.portal.call(plugin.session.stats.run, part)
    except SessionClosedError:
        # Either the worker is closing, and another one runs the part, or the job has ended.
        raise distributed.Reschedule from None
    except SlashtagError as error:
        # A value, so that no worker logs the error with the requests it names.
        return error
    return result


def collect(
    client: Any,
    plan: Plan[Any],
    *,
    base_url: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    session_options: Mapping[str, Any] | None = None,
) -> Any:
    """Run a plan on the workers of a `distributed.Client` and return the sum.

    The result is that of `session.stats.run(plan)`, or an awaitable of it with an asynchronous client.
    Cancelling that, or Ctrl-C while a synchronous client waits, ends the requests on the workers too.

    Each worker opens one session with `base_url` and `session_options`. The credentials, and `base_url` by
    default, come from the workers' environment (SLASHTAG_BASE_URL, SLASHTAG_APIKEY, SLASHTAG_APISECRET): no
    credential is sent.

    Each thread of the workers gets one part of the plan after the other, of 32 to 512 requests. A part whose
    worker died is run again by another one, as often as the cluster allows
    (`distributed.scheduler.allowed-failures`), and counted once.
    `progress` is called with (requests done, requests) by the client's event loop, which is another thread's
    for a synchronous client.

    Raises what `run` raises, by the first part that fails; TransportError if a part's workers died too often
    or the cluster was lost; ConfigurationError for an option that cannot be sent. See docs/service.md,
    Statistics: common selector.
    """
    if wrong := _NOT_SENT.intersection(session_options or ()):
        raise ConfigurationError(
            f"session_options cannot hold {', '.join(sorted(wrong))}: workers have credentials in their "
            "environment and their own connections, base_url is an argument, and a journal is of one process"
        )
    options = {**(session_options or {}), "base_url": base_url}
    ended = threading.Event()

    async def run() -> Any:
        session, futures = WorkerSession(options), dict[Any, int]()
        try:
            await client.register_plugin(session)
            threads = sum((await client.nthreads()).values()) or 1
            size = min(_MOST, max(_FEWEST, len(plan) // (_PARTS * threads)))
            # The scheduler gives each part to the worker with the least to do. Bound to a worker, it would
            # never be run if all workers died. Equal parts of two jobs would be one task if they were pure.
            for part in plan.split(-(-len(plan) // size)) if plan else ():
                futures[client.submit(run_part, session.name, part, pure=False)] = len(part)
            total, done = empty_sum(plan.query, plan.span), 0
            results = distributed.as_completed(futures, with_results=True, raise_errors=False)
            async for future, result in results:
                total.add(_checked(future, result))
                done += futures.pop(future)
                future.release()
                if progress is not None:
                    progress(done, len(plan))
            return total.result()
        except OSError as error:
            if isinstance(error, SlashtagError):  # a RequestTimeoutError
                raise
            raise TransportError(f"the cluster was lost: {error}") from None
        finally:
            # Shielded: a second cancellation must not leave requests running on the workers.
            await asyncio.shield(_close_sessions(client, session, futures))
            ended.set()

    try:
        return client.sync(run)
    except KeyboardInterrupt:
        # It is being cancelled by the client, on its loop in another thread.
        ended.wait(2 * _CLOSE_TIMEOUT)
        raise


def _checked(future: Any, result: Any) -> Any:
    """Return the result of a finished part, or raise its error."""
    # Not by the future's status, which may be "lost" already if the worker died right after its part.
    if isinstance(result, Statistics):
        return result
    if isinstance(result, SlashtagError):
        raise result
    if future.status != "error":
        raise TransportError("the scheduler was lost, or somebody cancelled the job there")
    error = result[1]
    if isinstance(error, distributed.KilledWorker):
        times = error.allowed_failures + 1
        raise TransportError(f"a part was given up: workers died over it {times} time(s)") from None
    raise error


async def _close_sessions(client: Any, session: WorkerSession, futures: Iterable[Any]) -> None:
    """Cancel the parts that are left, and close the sessions, which ends their requests."""
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            if left := [future for future in futures if not future.done()]:
                await client.cancel(left, force=True)
            await client.unregister_worker_plugin(session.name)
    except Exception as error:
        # The cluster may be gone, and the sessions with it; the result or error of the job must not be lost.
        log.info("the sessions on the workers were not closed: %s", type(error).__name__)
