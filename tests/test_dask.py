"""A cluster gives the answer of one process, whatever becomes of its workers, and is never told a secret."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slashtag import (
    AsyncSession,
    AuthenticationError,
    ConfigurationError,
    DateRange,
    Plan,
    TransportError,
    UnknownTagError,
    Year,
)
from slashtag.dask import collect
from slashtag.sandbox import Sandbox

if not os.environ.get("CI"):
    pytest.importorskip("distributed")

import distributed

from tests.support.clusters import local_cluster
from tests.support.processes import wait_until
from tests.support.sandboxes import altered, forget, settle
from tests.support.sending import until

SPAN = DateRange("2023-01-01", "2023-12-31")
APIKEY, APISECRET = "environmentapikey0123456", "environmentsecret1"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Serve an account that the environment, and so every worker's, names."""
    with (
        Sandbox(urls=300, clicks=6_000, apikey=APIKEY, apisecret=APISECRET) as box,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("base_url", "apikey", "apisecret"):
            patch.setenv(f"SLASHTAG_{name.upper()}", getattr(box, name))
        yield box


@pytest.fixture(scope="module")
def cluster(box: Sandbox) -> Iterator[Any]:
    with local_cluster(workers=2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any, box: Sandbox) -> Iterator[Any]:
    forget(box)
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=90)
        yield client
        assert sum(client.run(sessions).values()) == 0
    box.latency, box.faults = 0.0, ()


def sessions(dask_worker: Any) -> int:
    """Count the sessions that jobs left open on a worker."""
    left = [session for name, session in vars(dask_worker).items() if name.startswith("slashtag-")]
    return sum(not session._transport.closed for session in left)


def plan_of(box: Sandbox, query: Any = SPAN, **selector: Any) -> Plan[Any]:
    session = AsyncSession(box.base_url, apikey=APIKEY, apisecret=APISECRET)
    keys = list(dict.fromkeys(link.slashtag for link in box.truth.urls()))
    return session.stats.plan(query, **(selector or {"keys": keys}))


def alone(box: Sandbox, plan: Plan[Any]) -> Any:
    """Run a plan in this process."""

    async def run() -> Any:
        async with AsyncSession(box.base_url, apikey=APIKEY, apisecret=APISECRET) as session:
            return await session.stats.run(plan)

    return asyncio.run(run())


@pytest.mark.parametrize("query", [SPAN, Year(2023)])
def test_the_answer_is_that_of_one_process_and_true(client: Any, box: Sandbox, query: Any) -> None:
    plan, nothing = plan_of(box, query), plan_of(box, query, keys=[])
    stats = collect(client, plan)
    assert len(box.requests) == len(plan)
    assert (stats, collect(client, nothing)) == (alone(box, plan), alone(box, nothing))
    assert stats.total == box.truth.range("2023-01-01", "2023-12-31").total_clicks


@pytest.mark.parametrize("is_lost", [False, True])
def test_workers_that_are_killed_change_nothing_or_are_an_error(
    cluster: Any, client: Any, box: Sandbox, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    plan, workers = plan_of(box), client.run(os.getpid)
    if is_lost:
        monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)

    def kill(_: Any, answer: Any) -> Any:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        alive.clear()
        return answer

    alive = [*workers.values()]
    with altered(box, kill):
        if is_lost:
            with pytest.raises(TransportError):
                collect(client, plan, concurrency=2)
        else:
            assert collect(client, plan, concurrency=2) == alone(box, plan)
    wait_until(lambda: len({*client.run(os.getpid, on_error="ignore").values()} - {*workers.values()}) == 2)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bytes]:
    """Record all that this process, client and scheduler, sends over connections."""
    from distributed.comm import tcp

    frames = list[bytes]()
    to_frames = tcp.to_frames

    async def record(*args: Any, **options: Any) -> Any:
        made = await to_frames(*args, **options)
        frames.extend(map(bytes, made))
        return made

    monkeypatch.setattr(tcp, "to_frames", record)
    return lambda: b"".join(frames)


def test_credentials_are_neither_sent_nor_logged(
    client: Any, box: Sandbox, sent: Callable[[], bytes]
) -> None:
    plan = plan_of(box)
    collect(client, plan)
    with Sandbox(urls=5, clicks=5) as other, pytest.raises(AuthenticationError):
        collect(client, plan, base_url=other.base_url)
    seen = sent() + repr(client.get_worker_logs()).encode() + repr(client.get_scheduler_logs()).encode()
    assert plan._selectors[0].keys[0].encode() in seen
    assert APIKEY.encode() not in seen
    assert APISECRET.encode() not in seen


def test_an_error_of_a_part_is_raised_as_it_is(client: Any, box: Sandbox) -> None:
    with pytest.raises(UnknownTagError) as raised:
        collect(client, plan_of(box, tags=["nobody-has-this"]))
    assert raised.value.status == 400


def test_options_are_checked_before_anything_is_sent(client: Any, box: Sandbox) -> None:
    for name in ("apikey", "apisecret", "journal", "http"):
        with pytest.raises(ConfigurationError, match=name):
            collect(client, plan_of(box), **{name: "x"})
    assert box.requests == []


def test_a_job_that_is_cancelled_ends_its_requests(cluster: Any, client: Any, box: Sandbox) -> None:
    plan, box.latency = plan_of(box), 1.0

    async def main() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as other:
            task = asyncio.ensure_future(collect(other, plan, concurrency=1))
            await until(lambda: box.requests)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    settle(box)
    assert len(box.requests) < len(plan)
