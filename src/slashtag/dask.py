"""Statistics collected by the workers of a Dask cluster; needs the extra `dask`. See docs/python.md."""

import secrets
import threading
from importlib import import_module
from typing import Any

from . import AsyncSession, ConfigurationError, Plan, SlashtagError, Statistics, TransportError

distributed: Any = import_module("distributed")
#: Requests of a part, at most: those that are lost if its worker dies.
_MOST = 128


async def _run(name: str, options: dict[str, Any], part: Plan[Any]) -> Any:
    worker: Any = distributed.get_worker()
    try:
        if not hasattr(worker, name):
            setattr(worker, name, AsyncSession(**options))
        return await getattr(worker, name).stats.run(part)
    except SlashtagError as error:
        return error  # a value: a worker would log the requests that it names


async def _close(name: str, dask_worker: Any) -> None:
    # It stays, closed: a part that begins late must not open another.
    if session := getattr(dask_worker, name, None):
        await session.aclose()


def collect(client: Any, plan: Plan[Any], **options: Any) -> Any:
    """Run a plan on the workers of a `distributed.Client`; return the sum, or an awaitable of it.

    A worker has a session with these `options` and its credentials. Raises what `Stats.run` raises.
    """
    if wrong := sorted({"apikey", "apisecret", "http", "journal"} & options.keys()):
        raise ConfigurationError(f"workers have their own {', '.join(wrong)}")
    name, ended = f"slashtag-{secrets.token_hex()}", threading.Event()

    async def run() -> Any:
        parts = plan.split(-(-len(plan) // _MOST) or 1)
        futures = [client.submit(_run, name, options, part, pure=False) for part in parts]
        found = list[Any]()
        try:
            async for _, result in distributed.as_completed(futures, with_results=True, raise_errors=False):
                if not isinstance(result, Statistics):
                    lost = TransportError(f"a part was lost with its workers: {result!r:.99}")
                    raise result if isinstance(result, SlashtagError) else lost
                found.append(result)
            return sum(found[1:], found[0])
        finally:
            await client.cancel(futures, force=True)
            await client.run(_close, name, on_error="ignore")  # a worker may be dead
            ended.set()

    try:
        return client.sync(run)
    except KeyboardInterrupt:
        ended.wait(30)  # the client cancels it, in a thread
        raise
