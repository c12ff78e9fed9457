"""A cluster gives the answer of one process, whatever becomes of its workers, and is never told a secret."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slashtag import (
    AsyncSession,
    AuthenticationError,
    ConfigurationError,
    DateRange,
    Plan,
    RangeStats,
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
from tests.support.sandboxes import forget, settle
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
        patch.setenv("SLASHTAG_BASE_URL", box.base_url)
        patch.setenv("SLASHTAG_APIKEY", APIKEY)
        patch.setenv("SLASHTAG_APISECRET", APISECRET)
        yield box


@pytest.fixture(scope="module")
def cluster(box: Sandbox) -> Iterator[Any]:
    with local_cluster(workers=2) as cluster:
        yield cluster


SplitInto = Callable[[int], int]


@pytest.fixture
def split_into(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> SplitInto:
    """Have plans of the account split into so many equal parts; gives their number, which may be less."""

    def patch(parts: int) -> int:
        requests = len(plan_of(box))
        size = -(-requests // parts)
        monkeypatch.setattr("slashtag.dask._MOST", size)
        return -(-requests // size)

    return patch


@pytest.fixture
def client(cluster: Any, box: Sandbox) -> Iterator[Any]:
    forget(box)
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=90)
        yield client
        assert sessions_on(client) == 0
    box.latency, box.faults = 0.0, ()


def sessions_on(client: Any) -> int:
    """Count what jobs left on the workers."""

    def count(dask_worker: Any) -> int:
        return sum(
            "slashtag-" in name and "(closed)" not in repr(one) for name, one in vars(dask_worker).items()
        )

    return sum(client.run(count).values())


def keys_of(box: Sandbox) -> list[str]:
    return list(dict.fromkeys(link.slashtag for link in box.truth.urls()))


def plan_of(box: Sandbox, query: Any = SPAN, **selector: Any) -> Plan[Any]:
    session = AsyncSession(box.base_url, apikey=APIKEY, apisecret=APISECRET)
    return session.stats.plan(query, **(selector or {"keys": keys_of(box)}))


def alone(box: Sandbox, plan: Plan[Any]) -> Any:
    """Run a plan in this process."""

    async def run() -> Any:
        async with AsyncSession(box.base_url, apikey=APIKEY, apisecret=APISECRET) as session:
            return await session.stats.run(plan)

    return asyncio.run(run())


def is_true(box: Sandbox, stats: RangeStats) -> bool:
    true = box.truth.range("2023-01-01", "2023-12-31", keys=keys_of(box))
    return (stats.total_clicks, {day: n for day, n in stats.clicks.items() if n}) == (
        true.total_clicks,
        {day: n for day, n in true.clicks.items() if n},
    )


@pytest.mark.parametrize("parts", [None, 1, 7, 1000])
def test_the_answer_is_that_of_one_process_and_true(
    client: Any, box: Sandbox, parts: int | None, split_into: SplitInto
) -> None:
    plan = plan_of(box)
    number = None if parts is None else split_into(parts)
    steps: list[tuple[int, int]] = []
    stats = collect(client, plan, progress=lambda *step: steps.append(step))
    assert is_true(box, stats)
    assert len(box.requests) == len(plan)
    assert stats == alone(box, plan)
    assert steps == sorted(set(steps))
    assert steps[-1] == (len(plan), len(plan))
    assert number in (None, len(steps))


def test_other_questions_are_answered_alike_and_none_without_a_request(
    client: Any, box: Sandbox, split_into: SplitInto
) -> None:
    split_into(3)
    plan = plan_of(box, Year(2023))
    assert collect(client, plan) == alone(box, plan)
    forget(box)
    nothing = plan_of(box, keys=[])
    assert collect(client, nothing).total == 0
    assert not box.requests


def test_the_parts_on_a_worker_share_one_session(client: Any, box: Sandbox, split_into: SplitInto) -> None:
    split_into(6)
    box.latency = 0.1  # for those of the two workers to meet
    collect(client, plan_of(box), concurrency=2)
    assert max(arrival.in_flight for arrival in box.requests) == 4  # of four parts at a time


def test_workers_that_are_killed_change_nothing(client: Any, box: Sandbox, split_into: SplitInto) -> None:
    number = split_into(8)
    plan, box.latency = plan_of(box), 0.02
    pids = client.run(os.getpid)
    steps: list[int] = []

    def kill(done: int, total: int) -> None:
        steps.append(done)
        if len(steps) == 2:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)

    stats = collect(client, plan, progress=kill, concurrency=2)
    assert is_true(box, stats)
    assert (len(steps), steps[-1]) == (number, len(plan))
    assert stats == alone(box, plan)
    client.wait_for_workers(2, timeout=90)


def test_a_part_that_kills_every_worker_is_an_error_of_ours(box: Sandbox, split_into: SplitInto) -> None:
    split_into(1)
    box.latency = 0.05
    with local_cluster(workers=1) as cluster, distributed.Client(cluster) as client:
        cluster.scheduler.allowed_failures = 0
        (pid,) = client.run(os.getpid).values()
        forget(box)

        def kill() -> None:
            while not box.requests:
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(TransportError, match=r"lost"):
            collect(client, plan_of(box), base_url=box.base_url)
        killer.join()
    box.latency = 0.0


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bytes]:
    """Record all that this process, client and scheduler, sends over connections."""
    from distributed.comm import tcp

    frames: list[bytes] = []
    to_frames = tcp.to_frames

    async def record(*args: Any, **options: Any) -> Any:
        made = await to_frames(*args, **options)
        frames.extend(map(bytes, made))
        return made

    monkeypatch.setattr(tcp, "to_frames", record)
    return lambda: b"".join(frames)


def test_credentials_are_neither_sent_nor_logged(
    client: Any, box: Sandbox, sent: Callable[[], bytes], split_into: SplitInto
) -> None:
    split_into(4)
    plan = plan_of(box)
    collect(client, plan)
    with Sandbox(urls=5, clicks=5) as other, pytest.raises(AuthenticationError):
        collect(client, plan, base_url=other.base_url)
    seen = sent() + repr(client.get_worker_logs()).encode() + repr(client.get_scheduler_logs()).encode()
    assert plan._selectors[0].keys[0].encode() in seen
    for hidden in (APIKEY, APISECRET):
        assert hidden.encode() not in seen


def test_an_error_of_a_part_is_raised_as_it_is(client: Any, box: Sandbox, split_into: SplitInto) -> None:
    split_into(2)
    with pytest.raises(UnknownTagError) as raised:
        collect(client, plan_of(box, tags=["nobody-has-this", "nor-this"]))
    assert raised.value.status == 400
    assert "nobody-has-this" in str(raised.value.__notes__) or "nor-this" in str(raised.value.__notes__)
    with pytest.raises(ConfigurationError, match="range_end"):
        collect(client, plan_of(box), range_end="neither")


def test_what_cannot_travel_is_refused_before_anything_is_sent(client: Any, box: Sandbox) -> None:
    plan = plan_of(box)
    for name in ("apikey", "apisecret", "journal", "http"):
        with pytest.raises(ConfigurationError, match=name):
            collect(client, plan, **{name: "x"})
    assert not box.requests


def test_an_interrupt_ends_the_requests_on_the_workers(
    client: Any, box: Sandbox, split_into: SplitInto
) -> None:
    split_into(12)
    plan, box.latency = plan_of(box), 0.1

    def interrupt(done: int, total: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        collect(client, plan, progress=interrupt, concurrency=1)
    settle(box)
    assert len(box.requests) < len(plan)


def test_an_asynchronous_client_gives_an_awaitable_that_can_be_cancelled(
    cluster: Any, client: Any, box: Sandbox, split_into: SplitInto
) -> None:
    number = split_into(4)
    plan = plan_of(box)
    want = alone(box, plan)

    async def main() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True) as other:
            steps: list[int] = []
            assert await collect(other, plan, progress=lambda done, _: steps.append(done)) == want
            assert (len(steps), steps[-1]) == (number, len(plan))
            forget(box)
            # So much that the plan cannot end before it is cancelled.
            box.latency = 1.0
            task = asyncio.ensure_future(collect(other, plan, concurrency=1))
            await until(lambda: box.requests, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    settle(box)
    assert len(box.requests) < len(plan)


def test_a_job_waits_for_the_first_worker(box: Sandbox, split_into: SplitInto) -> None:
    split_into(4)
    forget(box)
    with local_cluster(workers=0, processes=False) as cluster, distributed.Client(cluster) as client:
        starter = threading.Timer(0.5, cluster.scale, [1])
        starter.start()
        assert is_true(box, collect(client, plan_of(box), base_url=box.base_url))
        starter.join()
        with pytest.raises(UnknownTagError):
            collect(client, plan_of(box, tag="nobody has it"))
        with pytest.raises(ConfigurationError, match="timeout"):
            collect(client, plan_of(box), timeout=-1)
