"""A job with a bit of everything, run as a program on an event loop of some kind: eager, debug, uvloop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from slashtag import AsyncSession, Change, DateRange, RequestTimeoutError, RetryPolicy
from slashtag.export import clicks_table, export_clicks
from slashtag.sandbox import Sandbox
from slashtag.tables import open_table

SPAN = "2024-01-01", "2024-03-31"
QUERY = DateRange(*SPAN)


def check(what: str, right: bool) -> None:
    """Fail by more than `assert`, which -O leaves out."""
    if not right:
        sys.exit(f"not so: {what}")


async def main(box: Sandbox, folder: Path) -> None:
    named = {"apikey": box.apikey, "apisecret": box.apisecret}
    truth = box.truth.range(*SPAN)
    async with AsyncSession(box.base_url, **named) as session:
        urls = await session.urls.list(pagesize=20).to_list()
        check("every link is listed", [url.id for url in urls] == [url.id for url in box.truth.urls()])
        # Two domains may have the same slashtag.
        keys = list(dict.fromkeys(url.slashtag for url in urls))

        stats = await session.stats.collect(QUERY, keys=session.urls.list())
        check("a sum is the truth", stats.clicks == truth.clicks)
        total = 0
        async for key, stats in session.stats.collect_each(QUERY, keys=keys):
            total += stats.total
            check(f"{key} is true", stats.clicks == box.truth.range(*SPAN, keys=[key]).clicks)
        check("they add up", total == truth.total_clicks)

        changes = [Change(url.id, destination=f"https://example.com/{url.id}") for url in urls]
        outcomes = [outcome.status async for outcome in session.urls.update_many(changes)]
        check("all are changed", outcomes == ["done"] * len(urls))

        await export(session, folder / "clicks.csv")
        rows = (folder / "clicks.csv").read_text("utf-8").splitlines()[1:]
        check("all is exported", sum(int(row.rsplit(",", 1)[1]) for row in rows) == truth.total_clicks)

        async for _ in session.urls.list(pagesize=5).pages():
            break
        async for _ in session.stats.collect_each(QUERY, keys=keys):
            break

        for work in (
            lambda: session.stats.collect(QUERY, keys=keys * 50),
            lambda: session.urls.list(pagesize=1).to_list(),
            lambda: export(session, folder / "cancelled.csv"),
        ):
            await cancelled_midway(box, work)
        check("a cancelled export leaves no file", sorted(os.listdir(folder)) == ["clicks.csv"])
        check(
            "the session goes on", (await session.stats.collect(QUERY, keys=keys)).total == truth.total_clicks
        )

        once = RetryPolicy(max_attempts=1)
        # So few that they are no outage, which would be told.
        hasty = [session.with_options(timeout=n * 2e-5, retry=once) for n in range(1, 5)]
        box.latency = 0.5
        ends = await asyncio.gather(*(view.urls.page() for view in hasty), return_exceptions=True)
        check("attempts end in time", {type(end) for end in ends} == {RequestTimeoutError})


async def export(session: AsyncSession, path: Path) -> None:
    with open_table(path, clicks_table()) as file:
        await export_clicks(session, QUERY, file)


async def cancelled_midway(box: Sandbox, work: Callable[[], Awaitable[object]]) -> None:
    """Cancel some work once its first request has arrived."""
    box.requests.clear()
    box.latency = 0.05
    task = asyncio.ensure_future(work())
    while not box.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    box.latency = 0.0
    check("what was cancelled is", task.cancelled())


def loop_of(kind: str) -> asyncio.AbstractEventLoop:
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    loop = asyncio.new_event_loop()
    if kind == "eager":
        loop.set_task_factory(asyncio.eager_task_factory)
    loop.set_debug(kind == "debug")
    return loop


if __name__ == "__main__":
    # Debug mode warns of what holds a loop up, as a busy machine does; its errors still show.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    with (
        Sandbox(urls=30, clicks=2_000) as box,
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=lambda: loop_of(sys.argv[1])) as runner,
    ):
        runner.run(main(box, Path(folder)))
    print("all so")
