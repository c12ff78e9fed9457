"""Send requests beside others that are always answered 429, over loopback: `python benchmarks/refused.py`.

The service has no limit. 200 GETs at 50 a second are sent by a session that also has 1 to 20 calls which are
refused: tags.create, the statistics of one slashtag, one page of links. No GET may fail or wait over 0.5 s,
and each refused call must end by its max_wait.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slashtag import AsyncSession, DateRange, RateLimitError, RetryPolicy, TagLimitError

LATENCY = 0.05  # seconds of each answer
GETS, RATE = 200, 50
COUNTS = (1, 3, 5, 20)  # refused calls, each number at a session of its own
LONGEST = 0.5  # seconds that a GET may wait
MAX_WAIT = 6.0  # seconds of a refused call, and the Retry-After that it is told
DAYS = DateRange("2024-01-01", "2024-01-31")

REFUSED: dict[str, Callable[[AsyncSession], Coroutine[Any, Any, Any]]] = {
    "tags.create": lambda session: session.tags.create("spring"),
    "one slashtag": lambda session: session.stats.collect(DAYS, keys=["spring"]),
    "one page": lambda session: session.urls.page(1),
}


async def answer(request: web.Request) -> web.Response:
    """Answer pages from the second on, and 429 whatever else is asked for."""
    await asyncio.sleep(LATENCY)
    if request.path.endswith("/urls") and request.query["page"] != "1":
        data = {"page": int(request.query["page"]), "pageSize": 1, "items": []}
        return web.json_response({"status": 200, "message": "OK", "data": data})
    told = request.match_info["told"]
    headers = {} if told == "none" else {"Retry-After": told}
    return web.json_response({"status": 429, "message": "No.", "data": None}, status=429, headers=headers)


async def beside(base_url: str, kind: str, count: int, max_wait: float) -> tuple[int, float, int]:
    """Return the GETs that failed, the longest wait in seconds, and the refused calls that did not end."""
    failed, waits = 0, [0.0]
    async with AsyncSession(base_url, apikey="k" * 25, apisecret="s" * 16, concurrency=64) as session:

        async def get(page: int) -> None:
            nonlocal failed
            await asyncio.sleep(page / RATE)
            start = perf_counter()
            try:
                await session.urls.page(2 + page, pagesize=1)
            except RateLimitError:
                failed += 1
            waits.append(perf_counter() - start - LATENCY)

        patient = session.with_options(retry=RetryPolicy(max_wait=max_wait))
        refused = [asyncio.create_task(REFUSED[kind](patient)) for _ in range(count)]
        await asyncio.gather(*map(get, range(GETS)))
        done, _ = await asyncio.wait(refused, timeout=max_wait)
        ended = sum(isinstance(task.exception(), RateLimitError | TagLimitError) for task in done)
        return failed, max(waits), count - ended


async def main() -> int:
    app = web.Application()
    app.router.add_route("*", "/{told}/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    met = True
    await beside(f"http://127.0.0.1:{port}/none", "one page", 1, 0.0)  # what is imported late is not measured
    print(f"{GETS} GETs at {RATE}/s: those that failed, and the longest wait; goal 0 and {LONGEST} s")
    print(f"{'refused':14}{'Retry-After':>12}" + "".join(f"{count:>6} calls" for count in COUNTS))
    for kind, told in product(REFUSED, ("none", "1", "60")):
        url = f"http://127.0.0.1:{port}/{told}"
        max_wait = MAX_WAIT + (0 if told == "none" else int(told))
        found = await asyncio.gather(*(beside(url, kind, count, max_wait) for count in COUNTS))
        met &= all(not failed and wait <= LONGEST and not open for failed, wait, open in found)
        figures = "".join(
            f"{failed:>5}{wait:>5.2f} s" + (f" ({open} go on)" if open else "")
            for failed, wait, open in found
        )
        print(f"{kind:14}{told:>12}{figures}", flush=True)
    await runner.cleanup()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
