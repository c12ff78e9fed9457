"""Take clicks as tables of polars, pandas, DuckDB and pyarrow."""

import asyncio

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from account import account

from slashtag import AsyncSession, DateRange


async def main() -> None:
    async with AsyncSession() as session:
        clicks = await session.stats.table(DateRange("2024-01-01", "2024-12-31"), keys=session.urls.list())

    by_polars = pl.DataFrame(clicks)
    months = by_polars.group_by(pl.col("date").dt.month()).agg(pl.col("clicks").sum())
    print(f"polars: {dict(by_polars.schema)}; {months.height} months, {months['clicks'].sum()} clicks")

    by_pandas = pd.DataFrame.from_arrow(clicks).astype({"date": "datetime64[s]"})
    by_month = by_pandas.groupby(by_pandas["date"].dt.month)["clicks"].sum()
    print(f"pandas: {dict(by_pandas.dtypes)}; {len(by_month)} months, {by_month.sum()} clicks")

    # DuckDB finds tables by the names of variables.
    types = [row[:2] for row in duckdb.sql("DESCRIBE SELECT * FROM clicks").fetchall()]
    ((count, total),) = duckdb.sql("SELECT count(DISTINCT month(date)), sum(clicks) FROM clicks").fetchall()
    print(f"DuckDB: {dict(types)}; {count} months, {total} clicks")

    by_arrow = pa.table(clicks)
    names = dict(zip(by_arrow.column_names, map(str, by_arrow.schema.types), strict=True))
    print(f"pyarrow: {names}; {by_arrow.num_rows} rows, {sum(by_arrow['clicks'].to_pylist())} clicks")


if __name__ == "__main__":
    with account():
        asyncio.run(main())
