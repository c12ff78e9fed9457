"""Read links and clicks into polars, pandas and DuckDB."""

import asyncio

import duckdb
import pandas as pd
import polars as pl
from account import account

from slashtag import AsyncSession, DateRange


async def main() -> None:
    async with AsyncSession() as session:
        found = await session.urls.list().to_list()
        stats = await session.stats.collect(DateRange("2024-01-01", "2024-12-31"), keys=session.urls.list())
    columns, rows = ["dimension", "label", "clicks"], list(stats.rows())
    links = pl.DataFrame([link.to_dict() for link in found])  # noqa: F841

    months = (
        pl.DataFrame(rows, schema=columns, orient="row")
        .filter(pl.col("dimension") == "day")
        .group_by(pl.col("label").str.slice(0, 7).alias("month"))
        .agg(pl.col("clicks").sum())
        .sort("month")
    )
    print(f"polars: {months.height} months, {months['clicks'].sum()} clicks")

    devices = pd.DataFrame(rows, columns=columns).query("dimension == 'device'")
    print(f"pandas: {len(devices)} devices, {devices['clicks'].sum()} clicks")

    # DuckDB finds tables by the names of variables.
    ((count, hits),) = duckdb.sql("SELECT count(*), sum(hits) FROM links").fetchall()
    print(f"DuckDB: {count} links, {hits} hits")


if __name__ == "__main__":
    with account():
        asyncio.run(main())
