"""Exports, read by libraries for data."""

from __future__ import annotations

from .tools import BIN, ROOT, WORK, run


def prove_files() -> str:
    """Read every format of an export with DuckDB, pandas and polars; run the example of data frames."""
    import duckdb
    import pandas as pd
    import polars as pl

    from slashtag.sandbox import Sandbox

    found: dict[str, list[int]] = {}
    with Sandbox(urls=300, clicks=5_000) as box:
        account = {
            f"SLASHTAG_{name.upper()}": getattr(box, name) for name in ("base_url", "apikey", "apisecret")
        }
        for ending in ("csv", "jsonl", "parquet"):
            file = WORK / f"links.{ending}"
            file.unlink(missing_ok=True)
            run("slashtag", "export", "urls", "-o", file, **account)
            read = {
                "csv": (pd.read_csv, pl.read_csv),
                "jsonl": (lambda path: pd.read_json(path, lines=True), pl.read_ndjson),
                "parquet": (pd.read_parquet, pl.read_parquet),
            }[ending]
            rows = [len(reader(str(file))) for reader in read]
            rows += [duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall()[0][0]]
            assert rows == [300] * 3, (ending, rows)
            found[ending] = rows
        printed = run(BIN / "python", ROOT / "examples" / "data_frames.py", **account)
        total = box.truth.range("2024-01-01", "2024-12-31").total_clicks
    lines = printed.strip().splitlines()
    assert [line.rpartition("; ")[2].split(", ")[1] for line in lines] == [f"{total} clicks"] * 4, printed
    return f"300 links with pandas, polars and DuckDB from each of {', '.join(found)}; {'; '.join(lines)}"
