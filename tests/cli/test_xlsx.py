"""Tables and exports as workbooks, and CSV for Excel."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from slashtag import ExportError
from slashtag.export import Column, Table, TableFile, _xlsx
from slashtag.sandbox import Sandbox

from .conftest import Cli, names, objects


def sheet(path: Path) -> list[tuple[Any, ...]]:
    book = load_workbook(path)
    (found,) = book.worksheets
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
        ("urls", "list", "--columns", "slashtag,hits"),
        ("tags", "list", "--columns", "name"),
        ("top", "2024-06"),
        ("stats", "range", "2024-06", "--all", "--by", "country"),
        ("stats", "year", "2024", "--all"),
    ],
)
@pytest.mark.parametrize("ending", ["xlsx", "json", "csv"])
def test_every_table_goes_to_a_file(cli: Cli, tmp_path: Path, command: tuple[str, ...], ending: str) -> None:
    rows = objects(cli(*command).out)
    path = tmp_path / f"table.{ending}"
    ran = cli(*command, "-o", str(path))
    assert (ran.code, ran.out) == (0, "")
    if ending == "json":
        assert json.loads(path.read_text()) == rows
    elif ending == "xlsx":
        header, *cells = sheet(path)
        assert [dict(zip(header, row, strict=True)) for row in cells] == rows
    else:
        assert len(path.read_text().splitlines()) == len(rows) + 1


def test_a_file_of_another_format_is_refused_before_anything_is_sent(cli: Cli, box: Sandbox) -> None:
    before = len(box.requests)
    assert cli("top", "-o", "top.xls").code == 2
    assert len(box.requests) == before


@pytest.mark.parametrize(
    "command",
    [("top", "2024"), ("tags", "list"), ("tags", "create", "new"), ("stats", "year", "2024", "--all")],
)
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("-o", "a.csv", "--format", "csv"), 2, "--format is for stdout"),
        (("-o", "a.xlsx", "--excel"), 2, "--excel is for CSV"),
        (("-o", "missing/a.csv"), 1, "No such file"),
    ],
)
def test_a_table_and_an_export_refuse_the_same_before_anything_is_sent(
    cli: Cli, box: Sandbox, command: tuple[str, ...], options: tuple[str, ...], code: int, says: str
) -> None:
    for each in (command, ("export", "tags")):
        ran = cli(*each, *options)
        assert (ran.code, ran.out) == (code, "")
        assert says in ran.error
    assert box.requests == []


def test_texts_are_never_formulas_and_large_numbers_stay_exact(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    rows = [("=1+1", 2**60), ("https://example.com/", 7), ("@x\x07", None)]
    with TableFile(path, Table((Column("text"), Column("n", "int")))) as file:
        file.write(rows)
    assert sheet(path)[1:3] == [("=1+1", str(2**60)), ("https://example.com/", 7)]
    (found,) = load_workbook(path).worksheets
    assert found["A2"].data_type == "s"


@pytest.mark.parametrize(
    ("rows", "says"), [([("a",)] * 4, "holds 3 rows"), ([("x" * 32_768,)], "32,767 characters")]
)
def test_more_than_a_sheet_holds_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str]], says: str
) -> None:
    monkeypatch.setattr(_xlsx, "MOST_ROWS", 3)
    with (
        pytest.raises(ExportError, match=says),
        TableFile(tmp_path / "a.xlsx", Table((Column("t"),))) as file,
    ):
        file.write(rows)
    assert names(tmp_path) == []


def test_dimensions_are_rows_of_one_sheet(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "labels.xlsx"
    command = ("export", "clicks", "2024-06", "--all", "--dimensions")
    assert cli(*command, "-o", str(path)).code == 0
    header, *rows = sheet(path)
    days = ("window_start", "window_end")
    assert [dict(zip(header, row, strict=True)) for row in rows] == [
        row | {name: datetime.fromisoformat(row[name]) for name in days} for row in objects(cli(*command).out)
    ]


def test_more_rows_than_a_sheet_holds_are_refused_and_the_old_file_stays(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clicks.xlsx"
    path.write_text("kept")
    monkeypatch.setattr(_xlsx, "MOST_ROWS", 59)
    ran = cli("export", "clicks", "2024-06", "--all", "-o", str(path))
    assert ran.code == 1
    assert ".parquet" in ran.err.splitlines()[-1]
    assert "run the same command again" not in ran.err
    assert path.read_text() == "kept"


def test_without_xlsxwriter_the_extra_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    assert 'pip install "slashtag[xlsx]"' in cli("export", "urls", "-o", str(tmp_path / "a.xlsx")).error


def test_csv_for_excel_begins_with_a_bom(cli: Cli, tmp_path: Path) -> None:
    plain, excel, table = (tmp_path / name for name in ("plain.csv", "excel.csv", "table.csv"))
    assert cli("export", "tags", "-o", str(plain)).code == 0
    assert cli("export", "tags", "-o", str(excel), "--excel").code == 0
    assert cli("tags", "list", "-o", str(table), "--excel").code == 0
    assert table.read_bytes() == excel.read_bytes()
    assert not plain.read_bytes().startswith(b"\xef\xbb\xbf")
    assert excel.read_bytes().startswith(b"\xef\xbb\xbfid,name")
    assert json.loads(cli("export", "tags", "--format", "json").out) == objects(cli("tags", "list").out)
