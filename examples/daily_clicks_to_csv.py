"""Write the clicks of every day of a year, over all links of an account, as CSV to stdout."""

import asyncio
import csv
import sys

from account import account

from slashtag import AsyncSession, DateRange


async def main() -> None:
    async with AsyncSession() as session:
        # Any number of links over any span: cut into requests that the service allows, and added up again.
        stats = await session.stats.collect(DateRange("2024-01-01", "2024-12-31"), keys=session.urls.list())
    writer = csv.writer(sys.stdout)
    writer.writerow(["date", "clicks"])
    writer.writerows(stats.clicks.items())
    print(f"{stats.total} clicks; days complete: {stats.days_complete}", file=sys.stderr)


if __name__ == "__main__":
    with account():
        asyncio.run(main())
