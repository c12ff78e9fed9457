"""Compare the tags of an account by their clicks of a year, told as they complete."""

import asyncio

from account import account

from slashtag import AsyncSession, Failure, Year


async def main() -> None:
    failures: list[Failure] = []
    async with AsyncSession() as session:
        names = [tag.name async for tag in session.tags.list() if tag.name]
        # One tag that fails shall not cost the others.
        async for name, stats in session.stats.collect_each(Year(2024), tags=names, on_error=failures.append):
            print(f"{name}: {stats.total} clicks, {stats.clicks_unique} unique")
    for failure in failures:
        print(f"{failure.tag}: {failure.error}")


if __name__ == "__main__":
    with account():
        asyncio.run(main())
