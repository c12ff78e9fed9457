"""Draw the pictures of the documentation, on a sandbox: python docs/pictures.py."""

import asyncio
from pathlib import Path

from slashtag import AsyncSession
from slashtag.report import build
from slashtag.sandbox import Sandbox

DOCS = Path(__file__).parent


async def main() -> None:
    async with (
        Sandbox(urls=1_000, clicks=80_000) as box,
        AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session,
    ):
        report = await build(session, "2024-01-01", "2024-12-31")
    (DOCS / "report.png").write_bytes(report.to_png(scale=1))


if __name__ == "__main__":
    asyncio.run(main())
