"""Loads are whole: what readers see while they run or fail, and what each says of itself."""

from __future__ import annotations

from datetime import UTC, datetime
from datetime import time as clock_time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from slashtag import ExportError, Failure, RetryPolicy
from slashtag.dlt import Monitor, ShrunkListingError, _files
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import altered, forget, refused_link
from tests.support.warehouses import START, Clock, Target, sql_rows, truth

TABLES = ("links", "tags", "clicks_daily", "clicks_by_tag", "clicks_by_dimension", "loads")


def said(target: Target) -> list[dict[str, Any]]:
    """The rows of `loads`, the oldest first."""
    with target.pipeline().sql_client() as client:
        names = "complete, missing_links, missing, requests, since, through, timezone, version, tables"
        table = client.make_qualified_table_name("loads")
        rows = client.execute_sql(f"SELECT {names} FROM {table} ORDER BY loaded_at") or ()
        return [dict(zip(names.split(", "), row, strict=True)) for row in rows]


@pytest.mark.unmeasured
@pytest.mark.parametrize("target", ["duckdb", "sqlite", "postgres"], indirect=True)
def test_each_load_says_what_it_was(box: Sandbox, clock: Clock, target: Target) -> None:
    failures: list[Failure] = []
    one = box.truth.urls()[0].slashtag
    retry = {"retry": RetryPolicy(max_attempts=1)}
    with refused_link(box, one, 500):
        target.load(box, Monitor(on_error=failures.append), session_options=retry)
    monitor = Monitor()
    target.load(box, monitor, by_tag=True)
    first, second = said(target)
    assert (first["complete"], first["missing_links"], first["missing"]) == (False, 1, one)
    assert (second["complete"], second["missing_links"], second["missing"]) == (True, 0, None)
    assert monitor.metrics is not None
    assert second["requests"] == monitor.metrics.attempts
    assert (str(second["since"]), str(second["through"])) == (str(START), str(clock.today))
    assert (first["tables"], second["tables"]) == (
        "links,tags,clicks_daily",
        "links,tags,clicks_daily,clicks_by_tag",
    )
    # All documented tables are there.
    assert [bool(sql_rows(target, table)) for table in TABLES] == [True] * 4 + [False, True]


@pytest.mark.unmeasured
def test_tables_of_postgres_have_primary_keys(
    box: Sandbox, clock: Clock, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", postgres)
    target = Target({"destination": "postgres", "dataset": "keys", "pipelines_dir": tmp_path}, sql_rows)
    for _ in range(2):
        target.load(box, since=clock.today)
    with target.pipeline().sql_client() as client:
        found = client.execute_sql(
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'p' AND connamespace = 'keys'::regnamespace"
        )
    assert {name.removeprefix("keys."): keys for name, keys in found or ()} == {
        "links": "PRIMARY KEY (id)",
        "tags": "PRIMARY KEY (id)",
        "clicks_daily": "PRIMARY KEY (slashtag, date)",
        "clicks_by_tag": "PRIMARY KEY (tag, date)",
        "clicks_by_dimension": "PRIMARY KEY (slashtag, month, dimension, label)",
    }


@pytest.mark.parametrize(
    "target", ["filesystem", pytest.param("sqlite", marks=pytest.mark.unmeasured)], indirect=True
)
def test_a_listing_that_shrank_is_not_loaded_unless_that_is_allowed(
    box: Sandbox, clock: Clock, target: Target
) -> None:
    target.load_first(box, since=clock.today)
    for url in box.truth.urls()[:14]:
        box.remove_url(url.id)
    forget(box)
    with pytest.raises(ShrunkListingError, match="116 links"):
        target.load(box, since=clock.today)
    assert len(rows_of(target, "links")) == 130
    assert target.load(box, since=clock.today, allow_shrink=True)["links"] == 116
    assert len(rows_of(target, "links")) == 116
    # An empty listing empties the table.
    for url in box.truth.urls():
        box.remove_url(url.id)
    target.load(box, since=clock.today, allow_shrink=True)
    assert rows_of(target, "links") == []


def rows_of(target: Target, table: str) -> list[tuple[Any, ...]]:
    if target.arguments["destination"] != "filesystem":
        return sql_rows(target, table)
    return duckdb.sql(f"FROM '{target.arguments['path']}/slashtag/{table}/*.parquet'").fetchall()


@pytest.mark.unmeasured
def test_files_of_a_folder_appear_whole(
    box: Sandbox, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"destination": None, "path": f"{tmp_path}/clicks/", "pipelines_dir": tmp_path / "p"}
    target = Target(arguments, sql_rows)
    target.load(box)
    months = sorted(path.name for path in (tmp_path / "clicks/slashtag/clicks_daily").iterdir())
    assert months == ["2024-02", "2024-03"]
    # What writes fails midway: no part of a file is there, and a later load is not stopped by it.
    before = {path: path.read_bytes() for path in tmp_path.joinpath("clicks").rglob("*") if path.is_file()}
    box.add_click(box.truth.urls()[0].id, datetime.combine(clock.today, clock_time(9), UTC))
    with monkeypatch.context() as patched:
        patched.setattr(_files.AtomicFile, "write", full_disk)
        with pytest.raises(ExportError, match="No space left"):
            target.load(box)
    after = {path: path.read_bytes() for path in tmp_path.joinpath("clicks").rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if path in before} == before
    assert not [path for path in after.keys() - before.keys() if path.suffix == ".parquet"]
    target.load(box)
    assert len(rows_of(Target({**arguments, "destination": "filesystem"}, sql_rows), "links")) == 130


def full_disk(*_: object) -> int:
    raise ExportError("x cannot be written: No space left on device")


@pytest.mark.unmeasured
@pytest.mark.parametrize("lags", ["- + +", "+ - -"])
def test_a_listing_of_a_backend_that_lags_behind_is_not_taken_for_whole(
    box: Sandbox, clock: Clock, duck: Target, lags: str
) -> None:
    listings: list[Any] = []
    newest = sorted(box.truth.urls(), key=lambda url: (url.created_at, url.id))[-9:]

    def lag(asked: Any, answered: Any) -> Any:
        if asked.path.endswith("/urls"):
            if asked.query.get("page", "1") == "1":
                listings.append(asked)
            if lags.split()[len(listings) - 1 :][:1] == ["+"]:
                hidden = {url.id for url in newest}
                items = [item for item in answered.data["items"] if int(item["id"]) not in hidden]
                answered.data["items"] = items
        return answered

    failures: list[Failure] = []
    with altered(box, lag):
        duck.load(box, Monitor(on_error=failures.append))
    agreed = lags == "+ - -"
    assert len(rows_of(duck, "links")) == 130
    assert [failure.label for failure in failures] == ([] if agreed else ["links"])
    assert said(duck)[-1]["complete"] is agreed
    failures.clear()
    duck.load(box, Monitor(on_error=failures.append))
    assert not failures
    assert said(duck)[-1]["complete"]
    assert duck.daily() == truth(box, clock.today)
