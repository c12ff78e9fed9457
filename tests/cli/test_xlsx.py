"""Tables and exports as workbooks."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from slashtag.sandbox import Sandbox
from slashtag.tables import _workbook

from .conftest import Cli, names, objects


def sheet(path: Path) -> list[tuple[Any, ...]]:
    book = load_workbook(path)
    found = book.worksheets[0]
    assert found.freeze_panes == "A2"
    rows = list(found.iter_rows(values_only=True))
    book.close()
    return rows


def test_links_are_exported_as_typed_cells(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "links.xlsx"
    assert cli("export", "urls", "-o", str(path)).code == 0
    header, *rows = sheet(path)
    listed = objects(cli("urls", "list").out)
    assert list(header) == list(listed[0])
    for row, url in zip(rows, listed, strict=True):
        times = {name: datetime.fromisoformat(url[name]) for name in ("created_at", "updated_at")}
        assert dict(zip(header, row, strict=True)) == url | times
    assert names(tmp_path) == ["links.xlsx"]


@pytest.mark.parametrize(
    "command",
    [
        ("top", "2024-06"),
        ("stats", "2024-06", "--by", "country"),
        ("stats", "2024"),
    ],
)
def test_every_table_goes_to_a_file(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    rows = objects(cli(*command).out)
    paths = {ending: tmp_path / f"table.{ending}" for ending in ("xlsx", "jsonl", "csv")}
    for path in paths.values():
        ran = cli(*command, "-o", str(path))
        assert (ran.code, ran.out) == (0, "")
    assert objects(paths["jsonl"].read_text()) == rows
    header, *cells = sheet(paths["xlsx"])
    filled = [{name: cell for name, cell in row.items() if cell not in (None, "")} for row in rows]
    found = [dict(zip(header, row, strict=True)) for row in cells]
    assert [{name: cell for name, cell in row.items() if cell is not None} for row in found] == filled
    assert len(paths["csv"].read_text().splitlines()) == len(rows) + 1


@pytest.mark.parametrize("command", [("top", "2024"), ("tags", "create", "new"), ("export", "tags")])
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("-o", "a.csv", "--format", "jsonl"), 2, "--format jsonl"),
        (("-o", "a.csv", "--format", "table"), 2, "--format table"),
        (("-o", "a.xlsx", "--format", "csv"), 2, "--format csv"),
        (("-o", "a.xls"), 2, "its name must end in"),
        (("-o", "missing/a.csv"), 1, "No such file"),
    ],
)
def test_a_table_and_an_export_refuse_the_same_before_anything_is_sent(
    cli: Cli, box: Sandbox, command: tuple[str, ...], options: tuple[str, ...], code: int, says: str
) -> None:
    ran = cli(*command, *options)
    assert (ran.code, says in ran.error) == (code, True)
    assert box.requests == []


def test_more_rows_than_a_sheet_holds_are_refused_and_the_old_file_stays(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clicks.xlsx"
    path.write_text("kept")
    monkeypatch.setattr(_workbook, "MOST_ROWS", 59)
    ran = cli("export", "clicks", "2024-06", "-o", str(path))
    assert ran.code == 1
    assert ".parquet" in ran.err.splitlines()[-1]
    assert "run the same command again" not in ran.err
    assert path.read_text() == "kept"
