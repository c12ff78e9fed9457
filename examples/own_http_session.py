"""Send through your own aiohttp session: the place for a proxy, a certificate authority, traces."""

import asyncio
from types import SimpleNamespace

import aiohttp
from account import account

from slashtag import AsyncSession, Year


async def main() -> None:
    sent: list[str] = []

    async def note(
        _session: aiohttp.ClientSession, _context: SimpleNamespace, start: aiohttp.TraceRequestStartParams
    ) -> None:
        sent.append(start.url.path)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(note)
    connector = aiohttp.TCPConnector(limit=8)
    async with (
        aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as http,
        AsyncSession(http=http) as session,  # closes what is its own, never `http`
    ):
        links = await session.urls.list().to_list(limit=100)
        stats = await session.stats.collect(Year(2024), keys=links)
    print(f"{stats.total} clicks of {len(links)} links; requests: {', '.join(sent)}")


if __name__ == "__main__":
    with account():
        asyncio.run(main())
