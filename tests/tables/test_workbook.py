"""A cell of a workbook holds text or a whole number, or is an error that names sheet and cell."""

from __future__ import annotations

import errno
import gc
import io
import tracemalloc
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook

from slashtag import ExportError, InvalidRequestError
from slashtag.tables import FORMATS, About, Column, Table, load_table, open_table

from .test_reading import rows_of
from .workbooks import row, xlsx

HEAD = ("slashtag", "destination", "created_at")
SAVED = Path(__file__).parent / "made_by_libreoffice.xlsx"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ('<c r="B2"><f>A1</f></c>', "a formula"),
        ('<c r="B2" t="e"><v>#N/A</v></c>', "#N/A"),
        ('<c r="B2" t="b"><v>1</v></c>', "TRUE"),
        ('<c r="B2" t="d"><v>2024-03-24T00:00:00</v></c>', "2024-03-24"),
        ('<c r="B2" t="d"><v>10:30:00</v></c>', "10:30"),
        ('<c r="B2"><v>9007199254740993</v></c>', "9007199254740992"),
        ('<c r="B2"><v>1.234567890123456E+18</v></c>', "1234567890123456"),
    ],
)
def test_another_cell_is_an_error_that_names_it(cell: str, says: str) -> None:
    data = xlsx(row(1, *HEAD) + row(2, "k0", cell))
    with pytest.raises(InvalidRequestError) as raised:
        rows_of(data)
    for told in ("line 2", "destination", says):
        assert told in str(raised.value)
    # Not in a column that nobody uses.
    assert rows_of(data, {"slashtag"}) == [{"slashtag": "k0"}]


def test_the_value_of_a_formula_is_read() -> None:
    cell = '<c r="B2" t="str"><f>A1</f><v>ab</v></c>'
    assert rows_of(xlsx(row(1, *HEAD) + row(2, "k0", cell)))[0]["destination"] == "ab"


@pytest.mark.parametrize("before", ["", '<dimension ref="A1"/>', '<dimension ref="A1:XFD1048576"/>'])
def test_the_cells_count_and_not_what_a_sheet_says_of_its_size(before: str) -> None:
    cells = "<row><c><v>7.0</v></c><c t='str'><v>https://x.example</v></c></row>"
    found = rows_of(
        xlsx(row(3, "ID", "Destination", "created at") + cells + row(9, "<c/>") + row(10, "8"), before=before)
    )
    assert found == [
        {"id": "7", "destination": "https://x.example", "created_at": ""},
        {"id": "8", "destination": "", "created_at": ""},
    ]


@pytest.mark.parametrize("shown", ["Due_x0020_Date", "_x0041_", "_x00+5_", "_x0020_x0041_"])
def test_what_looks_like_an_escape_is_one_only_for_what_xml_does_not_allow(shown: str) -> None:
    """Writers that escape nothing write such a text as it is; a space is never escaped."""
    assert rows_of(xlsx(row(1, "slashtag") + row(2, shown))) == [{"slashtag": shown}]
    escaped = shown.replace("_x", "_x005F_x") + "_x0007_"
    assert rows_of(xlsx(row(1, "slashtag") + row(2, escaped))) == [{"slashtag": shown + "\a"}]


def test_one_visible_sheet_has_the_rows() -> None:
    lists, table = row(1, "a list"), row(1, "slashtag") + row(2, "k0")
    assert rows_of(xlsx(lists, table, state="hidden")) == rows_of(xlsx("", table)) == [{"slashtag": "k0"}]
    for data in (xlsx(lists, table), xlsx(table, state="hidden")):
        with pytest.raises(InvalidRequestError, match="sheet"):
            rows_of(data)


def test_a_cell_far_away_costs_little() -> None:
    far = row(10_000, '<c r="XFD10000" s="0"/>')
    tracemalloc.start()
    assert rows_of(xlsx(row(1, "slashtag") + row(2, "k0") + far)) == [{"slashtag": "k0"}]
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()


def test_what_libreoffice_saved_is_read() -> None:
    (line, cells), *_ = load_table(SAVED).lines
    assert (line, [str(cell) for cell in cells[:3]]) == (
        2,
        ["7", "007", "https://a.example/?q=Due_x0020_Date&ü=€😀"],
    )
    with pytest.raises(InvalidRequestError, match="line 3, column"):
        list(load_table(SAVED).rows())


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_workbook_is_read_or_refused(seed: int) -> None:
    data, random = bytearray(SAVED.read_bytes()), Random(seed)
    for _ in range(random.randint(1, 6)):
        data[random.randrange(len(data))] = random.randrange(256)
    if seed % 5 == 0:
        del data[random.randrange(len(data)) :]
    with suppress(InvalidRequestError):
        list(load_table(io.BytesIO(bytes(data)), "x").rows({"id"}))


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04 and no more",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        xlsx(row(1, "slashtag")).replace(b"xl/workbook.xml", b"xl/workbook.bin"),
        xlsx(row(1, "slashtag"))[:-40],
        xlsx(row(1, "slashtag") + "<row><c>"),
        b"%PDF-1.4 \xff",
        b"\x1f\x8b\x08 gzip",
    ],
)
def test_what_is_no_whole_table_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="a file is"):
        rows_of(data)


def test_a_sheet_has_typed_cells_and_a_filter(tmp_path: Path) -> None:
    columns = Column("id", "int"), Column("clicks", "int"), Column("percent", "float"), Column("x")
    with open_table(tmp_path / "a.xlsx", Table(columns)) as file:
        file.write([(1_000_001, 12_345, 7.5, "=1+1")])
    (sheet,) = load_workbook(tmp_path / "a.xlsx").worksheets
    assert [cell.value for cell in sheet[1]] == ["id", "clicks", "percent", "x"]
    assert [(cell.value, cell.number_format, cell.data_type) for cell in sheet[2]] == [
        (1_000_001, "0", "n"),
        (12_345, "0", "n"),
        (7.5, "0.0", "n"),
        ("=1+1", "General", "s"),
    ]
    assert (sheet.auto_filter.ref, sheet.freeze_panes) == ("A1:D2", "A2")
    book = Workbook()
    book.active["A1"] = "slashtag"  # type: ignore[index]
    book.create_sheet("about")["A1"] = "notes of mine"
    book.save(tmp_path / "b.xlsx")
    assert load_table(tmp_path / "b.xlsx").columns == ["slashtag"]


class Full(io.BytesIO):
    """A file on a disk that is full once."""

    is_full = True

    def write(self, data: Any, /) -> int:
        was_full, self.is_full = self.is_full, False
        if was_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_a_disk_that_is_full_at_the_end_is_one_error() -> None:
    writer = FORMATS[".xlsx"](Full(), Table((Column("slashtag", "text"),)))
    writer.about = About(account="https://x.example", timezone="+00:00", span="2024-06-01")
    with pytest.raises(ExportError):
        writer.close()
    # What openpyxl leaves open is closed now, and would fail.
    del writer
    gc.collect()
