"""Files appear whole or not at all, whatever their size, and say what is wrong."""

from __future__ import annotations

import io
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from slashtag import ExportError, InvalidRequestError
from slashtag.tables import (
    FORMATS,
    About,
    Column,
    Row,
    Table,
    check_table_path,
    load_table,
    open_table,
)

LINKS = Table((Column("id", "int"), Column("name"), Column("day", "date"), Column("at", "timestamp")))
ROW: Row = (1, "a", date(2024, 1, 1), datetime(2024, 1, 1, 2, 3, 4))


def written(form: str, rows: list[Row]) -> bytes:
    file = io.BytesIO()
    writer = FORMATS[form](file, LINKS)
    writer.write(iter(rows[: len(rows) // 2]))
    writer.write(rows[len(rows) // 2 :])
    writer.close()
    return file.getvalue()


def test_texts_are_what_other_programs_expect() -> None:
    assert written(".jsonl", [ROW]) == (
        b'{"id":1,"name":"a","day":"2024-01-01","at":"2024-01-01T02:03:04"}\n'
    )
    assert written(".csv", [(1, "=a\r", *ROW[2:])]) == (
        b'id,name,day,at\n1,"=a\r",2024-01-01,2024-01-01 02:03:04\n'
    )
    schema = parquet.read_schema(io.BytesIO(written(".parquet", [])))
    assert [str(field.type) for field in schema] == ["int64", "string", "date32[day]", "timestamp[us]"]


@pytest.mark.parametrize("count", [2**63, -(2**63) - 1, 10**30])
def test_a_count_over_int64_is_a_clear_error_of_parquet_alone(tmp_path: Path, count: int) -> None:
    row: Row = (count, *ROW[1:])
    with (
        pytest.raises(ExportError, match=r"Parquet hold .* \.jsonl or \.csv"),
        open_table(tmp_path / "out.parquet", LINKS) as out,
    ):
        out.write([ROW, row])
    assert list(tmp_path.iterdir()) == []
    assert f'"id":{count},'.encode() in written(".jsonl", [row])


@pytest.mark.parametrize(("form", "library"), [(".parquet", "pyarrow"), (".xlsx", "openpyxl")])
def test_a_library_that_is_missing_is_named(
    form: str, library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    whole.write_bytes(written(form, [ROW]))
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ExportError, match=rf'pip install "slashtag\[{form[1:]}\]"'):
        check_table_path(tmp_path / f"out{form}")
    if form == ".xlsx":
        with pytest.raises(InvalidRequestError, match="pip install"):
            load_table(whole)
    assert list(tmp_path.iterdir()) == [whole]


@pytest.mark.parametrize("name", ["out", "out.xml", "out.parquet.gz", "csv", "out.csv/x"])
def test_a_name_that_says_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"must end in one of \.jsonl"):
        check_table_path(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_more_rows_than_a_sheet_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag.tables._workbook.MOST_ROWS", 3)
    path = tmp_path / "out.xlsx"
    with open_table(path, LINKS) as out:
        out.write([ROW] * 3)
    whole = path.read_bytes()
    with pytest.raises(ExportError, match="a sheet holds 3 rows"), open_table(path, LINKS) as out:
        out.write([ROW] * 4)
    assert path.read_bytes() == whole


def members(form: str, data: bytes) -> object:
    """Return what a file holds, without the second in which a workbook was made."""
    if form != ".xlsx":
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != "docProps/core.xml"}


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_file_appears_whole_or_leaves_no_trace(tmp_path: Path, form: str) -> None:
    rows: list[Row] = [(n, f"tag {n}", None, datetime(2024, 1, 1)) for n in range(20)]
    path = tmp_path / f"out{form}"
    with open_table(path, LINKS) as out:
        out.write(rows[:10])
        out.write(rows[10:])
    whole = path.read_bytes()
    assert members(form, whole) == members(form, written(form, rows))
    with pytest.raises(RuntimeError), open_table(path, LINKS) as out:  # noqa: PT012
        out.write(rows[:3])
        raise RuntimeError
    del out  # formats that write their end when they are dropped write it nowhere
    assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("form", FORMATS)
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, form: str) -> None:
    def rows(n: int) -> Iterator[Row]:
        for i in range(n):
            yield (i, f"tag {i}", None, None)

    def peak(n: int) -> int:
        tracemalloc.start()
        with open_table(tmp_path / f"out{form}", LINKS) as file:
            file.write(rows(n))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert form != ".parquet" or parquet.read_metadata(tmp_path / "out.parquet").num_rows == n
        return top

    peak(10)  # what is imported at first use counts for neither
    # When every buffer is full: of 5,000 rows, in Parquet of some ten thousand, in sheets of few.
    rows_at_first = {".parquet": 26_000, ".xlsx": 1_500}.get(form, 11_000)
    assert peak(2 * rows_at_first) < peak(rows_at_first) + 200_000


def test_files_say_what_they_are_until_their_end(tmp_path: Path) -> None:
    about = About(account="https://go.example", span="2026-10-01..2026-10-31", complete=False)
    assert str(about) == "account: https://go.example, span: 2026-10-01..2026-10-31, complete: false"
    with open_table(tmp_path / "out.xlsx", LINKS) as out:
        out.about = about
    assert load_table(tmp_path / "out.xlsx").about == about
