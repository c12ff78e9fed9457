"""Every format gives back the rows that were written."""

from __future__ import annotations

import csv
import io
import re
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from slashtag import ExportError, InvalidRequestError
from slashtag.export import (
    FORMATS,
    TAGS,
    URLS,
    Column,
    Row,
    Table,
    check_table_path,
    open_table,
    open_writer,
)
from slashtag.tables import CsvStyle

parquet = pytest.importorskip("pyarrow.parquet")

ALL = Table((Column("text"), Column("n", "int"), Column("day", "date"), Column("at", "timestamp")))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\r", "a\rb", "a\nb", "a\r\nb", '"', ",", "=1+1", "'", "", "\0", "\u2028"]
)
ROWS = st.lists(
    st.tuples(
        st.none() | TEXT,
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.dates(),
        st.none() | st.datetimes(),
    ),
    max_size=12,
)


def written(form: str, table: Table, rows: list[Row], csv: CsvStyle | None = None) -> bytes:
    file = io.BytesIO()
    writer = open_writer(form, file, table, csv)
    writer.write(iter(rows[: len(rows) // 2]))
    writer.write(rows[len(rows) // 2 :])
    writer.close()
    return file.getvalue()


def read_parquet(raw: bytes) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in parquet.read_table(io.BytesIO(raw)).to_pylist()]


@given(ROWS)
def test_json_lines_give_back_the_rows(rows: list[Row]) -> None:
    lines = written(".jsonl", ALL, rows).split(b"\n")
    assert lines.pop() == b""
    kinds = tuple[str | None, int | None, date | None, datetime | None]
    read = [msgspec.convert(tuple(msgspec.json.decode(line).values()), kinds) for line in lines]
    assert read == rows


@given(ROWS)
def test_csv_gives_back_the_rows_as_text(rows: list[Row]) -> None:
    read = list(csv.reader(io.StringIO(written(".csv", ALL, rows).decode(), newline="")))
    assert read == [list(ALL.names), *(["" if v is None else as_csv(v) for v in row] for row in rows)]


def as_csv(value: object) -> str:
    """A value as it is, but for a text that looks as if an apostrophe had been put before a formula."""
    text = str(value)
    return f"'{text}" if isinstance(value, str) and re.match("'+[=+@\t\r-]", text) else text


@given(ROWS)
def test_a_spreadsheet_finds_no_formula_in_csv_that_is_written_for_it(rows: list[Row]) -> None:
    raw = written(".csv", ALL, rows, CsvStyle(decimal="comma", excel=True))
    assert raw.startswith(b"\xef\xbb\xbf")
    read = list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), delimiter=";"))
    assert read[0] == list(ALL.names)
    assert not [cells[0] for cells in read if cells[0].startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert len(read) == len(rows) + 1


def test_fractions_have_a_comma_where_that_is_asked_for() -> None:
    table = Table((Column("slashtag"), Column("percent", "float"), Column("clicks", "int")))
    rows: list[Row] = [("a,b", -3.6, 12_345)]
    assert (
        written(".csv", table, rows, CsvStyle(decimal="comma"))
        == b"slashtag;percent;clicks\na,b;-3,6;12345\n"
    )
    assert written(".csv", table, rows) == b'slashtag,percent,clicks\n"a,b",-3.6,12345\n'


@pytest.mark.parametrize("style", [CsvStyle(decimal="comma"), CsvStyle(excel=True)])
def test_a_whole_fraction_is_written_for_a_spreadsheet_as_a_count_is(style: CsvStyle) -> None:
    table = Table((Column("clicks_per_day", "float"), Column("clicks", "int")))
    rows: list[Row] = [(20.0, 20), (-100.0, 0), (0.0, 7)]
    cells = written(".csv", table, rows, style).decode("utf-8-sig").replace(";", ",").splitlines()
    assert cells[1:] == ["20,20", "-100,0", "0,7"]


def test_a_workbook_has_formats_a_filter_and_a_name_without_a_row_of_its_own() -> None:
    table = Table(
        (Column("id", "int"), Column("clicks", "int"), Column("percent", "float")),
        "clicks: 2026-10-01..2026-10-31 [all]",
    )
    book = load_workbook(io.BytesIO(written(".xlsx", table, [(1_000_001, 12_345, 7.5)])))
    (sheet,) = book.worksheets
    assert sheet.title == "clicks  2026-10-01..2026-10-31"
    assert [cell.value for cell in sheet[1]] == [*table.names]
    assert [(cell.value, cell.number_format) for cell in sheet[2]] == [
        (1_000_001, "0"),
        (12_345, "#,##0"),
        (7.5, "#,##0.0"),
    ]
    assert sheet.auto_filter.ref == "A1:C2"
    assert "2026-10-31" in sheet.oddHeader.left.text
    # The name of a sheet has 31 characters; what is cut off is whole words.
    for title, name in (
        ("stats 2026-11-01..2026-11-26 19:55, so far", "stats 2026-11-01..2026-11-26"),
        ("weekday-hour 2026-10-01..2026-10-31", "weekday-hour"),
        ("postalcode DE, 2026-07-01..2026-09-30", "postalcode DE"),
        ("x" * 99, "x" * 31),
    ):
        book = load_workbook(io.BytesIO(written(".xlsx", Table(table.columns, title), [])))
        assert book.sheetnames == [name]
    for title in ("", "'", "History", "a\x00b"):
        written(".xlsx", Table(table.columns, title), [])


@pytest.mark.unmeasured
@given(ROWS)
def test_parquet_gives_back_the_rows(rows: list[Row]) -> None:
    assert read_parquet(written(".parquet", ALL, rows)) == rows


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_make_a_whole_file(form: str) -> None:
    raw = written(form, URLS, [])
    if form == ".parquet":
        assert parquet.read_table(io.BytesIO(raw)).column_names == list(URLS.names)
    elif form == ".xlsx":
        (sheet,) = load_workbook(io.BytesIO(raw)).worksheets
        assert list(sheet.iter_rows(values_only=True)) == [URLS.names]
    else:
        assert raw.decode() == (",".join(URLS.names) + "\n" if form == ".csv" else "")


@pytest.mark.parametrize("form", [".jsonl", ".parquet"])
def test_a_row_of_another_length_is_refused(form: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        written(form, TAGS, [(1, "x")])


# --- parquet ------------------------------------------------------------------------------------------


def test_parquet_is_typed() -> None:
    schema = parquet.read_schema(io.BytesIO(written(".parquet", ALL, [])))
    assert [(field.name, str(field.type)) for field in schema] == [
        ("text", "string"),
        ("n", "int64"),
        ("day", "date32[day]"),
        ("at", "timestamp[us]"),
    ]


@pytest.mark.parametrize("count", [2**63, -(2**63) - 1, 10**30])
def test_a_count_over_int64_is_a_clear_error_of_parquet_alone(tmp_path: Path, count: int) -> None:
    row = ("x", count, None, None)
    with (
        pytest.raises(ExportError, match=r"Parquet hold .* \.jsonl or \.csv"),
        open_table(tmp_path / "out.parquet", ALL) as out,
    ):
        out.write([("x", 2**63 - 1, None, None), row])
    assert list(tmp_path.iterdir()) == []
    assert f'"n":{count},'.encode() in written(".jsonl", ALL, [row])
    assert f",{count},".encode() in written(".csv", ALL, [row])


def test_without_pyarrow_parquet_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r'pip install "slashtag\[parquet\]"'):
        check_table_path(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out", "out.xml", "out.gz", "out.parquet.gz", "csv", "out.csv/x"])
def test_a_name_that_says_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"must end in one of \.jsonl"):
        check_table_path(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


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
    with open_table(path, TAGS) as out:
        out.write(rows)
    whole = path.read_bytes()
    assert members(form, whole) == members(form, written(form, TAGS, rows))
    with pytest.raises(RuntimeError), open_table(path, TAGS) as out:  # noqa: PT012
        out.write(rows[:3])
        raise RuntimeError
    del out  # formats that write their end when they are dropped write it nowhere
    assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.unmeasured
@pytest.mark.parametrize("form", FORMATS)
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, form: str) -> None:
    def rows(n: int) -> Iterator[Row]:
        for i in range(n):
            yield (i, f"tag {i}", "about", None)

    def peak(n: int) -> int:
        tracemalloc.start()
        with open_table(tmp_path / f"out{form}", TAGS) as file:
            file.write(rows(n))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(10)  # what is imported at first use counts for neither
    # From some ten thousand rows on, when every buffer is full; sheets are slow, and buffered less.
    rows_at_first = 3_000 if form == ".xlsx" else 26_000
    assert peak(2 * rows_at_first) < peak(rows_at_first) + 500_000


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_packages_of_a_bucket_are_named(scheme: str) -> None:
    with (
        pytest.raises(ExportError, match=rf"slashtag\[{scheme}\]"),
        open_table(f"{scheme}://bucket/n.csv", Table((Column("n", "int"),))),
    ):
        pass
