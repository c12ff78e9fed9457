"""List every link of an account, oldest first, and find the most clicked."""

import asyncio

from account import account

from slashtag import AsyncSession, ShortUrl


async def main() -> None:
    top: ShortUrl | None = None
    count = 0
    async with AsyncSession() as session:
        async for url in session.urls.list():
            count += 1
            # A member that the service sends in another form is None.
            if top is None or (url.hits or 0) > (top.hits or 0):
                top = url
    print(f"{count} links")
    if top is not None:
        print(f"most clicked: {top.short_url} with {top.hits} clicks")


if __name__ == "__main__":
    with account():
        asyncio.run(main())
