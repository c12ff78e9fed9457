"""`slashtag sandbox`: a made-up account, served until Ctrl-C."""

import asyncio

from ..sandbox import Sandbox
from .errors import say
from .options import run_async


def run(
    *, port: int, urls: int, clicks: int, seed: int, rate: float | None, burst: int, latency: float
) -> None:
    """Serve until cancelled; the lines to copy go to stdout."""
    box = Sandbox(port=port, urls=urls, clicks=clicks, seed=seed, rate=rate, burst=burst, latency=latency)
    run_async(_serve(box, f"{urls:,} links and {clicks:,} clicks"))


async def _serve(box: Sandbox, account: str) -> None:
    async with box:
        say(f"An account of {account} is at {box.base_url} until Ctrl-C. In another terminal:")
        print(f"export SLASHTAG_BASE_URL={box.base_url}")
        print(f"export SLASHTAG_APIKEY={box.apikey}")
        print(f"export SLASHTAG_APISECRET={box.apisecret}", flush=True)
        await asyncio.get_running_loop().create_future()
