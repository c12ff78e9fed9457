"""A cell of a workbook holds text or a whole number, or is an error that names sheet and cell."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from openpyxl.styles import Font

from slashtag import InvalidRequestError
from slashtag.tables import LoadedTable, _xlsx_flaws, load_table
from slashtag.tables._flaws import Wrong
from slashtag.tables._reading import _text as as_text

from .workbooks import MAIN, ods, ods_row, row, text, xlsx

HEAD = ("slashtag", "destination", "created_at")
NEVER = '<calcPr fullCalcOnLoad="1"/>'


def read(data: bytes, used: set[str] | None = None) -> list[dict[str, str]]:
    return [cells for _, cells in load_table(io.BytesIO(data), "a.xlsx").rows(used)]


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ('<c r="B2"><f>A1</f></c>', "a formula without a value"),
        ('<c r="B2"><f>A1</f><v/></c>', "a formula without a value"),
        ('<c r="B2" t="str"><f>A1</f></c>', "a formula without a value"),
        ('<c r="B2" t="e"><v>#N/A</v></c>', "#N/A"),
        ('<c r="B2" t="e"><f>A1</f><v>#REF!</v></c>', "#REF!"),
        ('<c r="B2" t="e"/>', ""),
        ('<c r="B2" t="b"><v>1</v></c>', "TRUE"),
        ('<c r="B2" t="d"><v>2024-03-24T00:00:00</v></c>', "2024-03-24"),
        ('<c r="B2" t="d"><v>2024-03-24</v></c>', "2024-03-24"),
        ('<c r="B2" t="d"><v>10:30:00</v></c>', "10:30"),
        ('<c r="B2"><v>1.5</v></c>', "1.5"),
        ('<c r="B2"><v>0.15</v></c>', "0.15"),
        ('<c r="B2"><v>9007199254740993</v></c>', "9007199254740992"),
        ('<c r="B2"><v>1.234567890123456E+18</v></c>', "1234567890123456"),
        ("", ""),
    ],
)
def test_another_cell_is_an_error_that_names_it(cell: str, says: str) -> None:
    data = xlsx(row(1, *HEAD) + row(2, "k0", cell or "<c/>"))
    if not says:
        assert read(data) == [dict.fromkeys(HEAD, "") | {"slashtag": "k0"}]
        return
    with pytest.raises(InvalidRequestError) as raised:
        read(data)
    assert "'S1'" in str(raised.value)
    assert "B2" in str(raised.value)
    assert says in str(raised.value)
    # Not in a column that nobody uses.
    assert read(data, {"slashtag"}) == [{"slashtag": "k0"}]


@pytest.mark.parametrize("column", ["new_slashtag", "password"])
@pytest.mark.parametrize("error", ["#N/A", "#REF!", "#NAME?"])
def test_error_values_that_became_texts_are_never_meant(column: str, error: str) -> None:
    for data in (
        f"slashtag,{column}\nspring,{error}\n".encode(),
        xlsx(row(1, "id", column) + row(2, "7", error)),
    ):
        with pytest.raises(InvalidRequestError, match=column):
            read(data)
    assert read(f"slashtag,tag_name\nspring,{error}\n".encode())[0]["tag_name"] == error


def test_no_error_shows_a_password() -> None:
    data = xlsx(row(1, "slashtag", "password") + row(2, "k0", '<c r="B2"><v>1234.5</v></c>'))
    with pytest.raises(InvalidRequestError) as raised:
        read(data)
    assert "B2" in str(raised.value)
    assert "1234" not in str(raised.value)


def test_values_of_formulas_are_read_if_they_were_calculated() -> None:
    cell = '<c r="B2" t="str"><f>"a"&amp;"b"</f><v>ab</v></c>'
    rows = row(1, "slashtag", "destination") + row(2, "k0", cell)
    assert read(xlsx(rows)) == [{"slashtag": "k0", "destination": "ab"}]
    assert read(xlsx(rows.replace(">ab<", "><"))) == [{"slashtag": "k0", "destination": ""}]
    with pytest.raises(InvalidRequestError, match="B2"):
        read(xlsx(rows, book=NEVER))
    assert read(xlsx(row(1, "slashtag") + row(2, "k0"), book=NEVER)) == [{"slashtag": "k0"}]


def test_dates_and_times_are_read_in_columns_of_time_and_fractions_in_percent() -> None:
    cells = ['<c r="B2" t="d"><v>2024-03-24T01:02:03</v></c>', '<c r="C2"><v>12.5</v></c>']
    data = xlsx(row(1, "id", "created_at", "percent") + row(2, '<c r="A2"><v>7.0</v></c>', *cells))
    assert read(data) == [{"id": "7", "created_at": "2024-03-24T01:02:03", "percent": "12.5"}]


@pytest.mark.parametrize("dimension", ["", '<dimension ref="A1"/>', '<dimension ref="A1:XFD1048576"/>'])
def test_the_cells_count_and_not_what_a_sheet_says_of_its_size(dimension: str) -> None:
    rows = "".join(row(n, f"k{n}") for n in range(2, 7))
    found = read(xlsx(row(1, "slashtag") + rows, dimension=dimension))
    assert [cells["slashtag"] for cells in found] == ["k2", "k3", "k4", "k5", "k6"]


def test_cells_without_a_name_follow_each_other() -> None:
    rows = row(1, *HEAD) + "<row><c><v>1</v></c><c><f>A1</f></c></row>"
    with pytest.raises(InvalidRequestError, match="B2"):
        read(xlsx(rows))


def test_a_table_may_begin_anywhere_on_its_sheet() -> None:
    rows = row(4, "<c/>", "<c/>", text("C4", "Slashtag")) + row(5, "<c/>", "<c/>", '<c r="C5" t="e"/>')
    rows += row(9, "<c/>", "<c/>", text("C9", "k0"))
    assert load_table(io.BytesIO(xlsx(rows)), "x").rows() == [(9, {"slashtag": "k0"})]


def test_a_formatted_cell_far_away_costs_nothing() -> None:
    book = Workbook()
    book.active["A1"], book.active["A2"] = "slashtag", "k0"  # type: ignore[index]
    book.active["XFD1048576"].font = Font(bold=True)  # type: ignore[index]
    file = io.BytesIO()
    book.save(file)
    tracemalloc.start()
    assert read(file.getvalue()) == [{"slashtag": "k0"}]
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("last", ['<c r="XFD1048576"><v>1</v></c>', text("XFD1048576", "")])
def test_cells_too_far_apart_are_refused_before_they_fill_the_memory(last: str) -> None:
    rows = row(1, "slashtag") + row(2, "k0") + row(1_048_576, last)
    with pytest.raises(InvalidRequestError, match="1,048,576"):
        read(xlsx(rows))
    far = '<table:table-cell table:number-columns-repeated="16383"/>'
    with pytest.raises(InvalidRequestError, match="1,048,576"):
        read(ods(ods_row("slashtag") + ods_row(far, repeated=1_048_574) + ods_row(far, "x")))


def test_merged_cells_are_errors_but_for_their_first() -> None:
    rows = row(1, *HEAD) + row(2, "k0", "https://x.example") + row(3, "k1")
    after = '<mergeCells><mergeCell ref="B2:B3"/></mergeCells>'
    with pytest.raises(InvalidRequestError, match="B3"):
        read(xlsx(rows, after=after))
    assert len(read(xlsx(rows, after=after.replace("B2:B3", "F2:XFD1048576")))) == 2


def test_hidden_sheets_are_not_read() -> None:
    lists, table = row(1, "a list"), row(1, "slashtag") + row(2, "k0")
    assert read(xlsx(lists, table, state="hidden")) == [{"slashtag": "k0"}]
    assert read(xlsx("", table)) == [{"slashtag": "k0"}]
    for data in (xlsx(lists, table), xlsx(table, state="hidden"), xlsx(table, "", state="veryHidden")):
        with pytest.raises(InvalidRequestError, match="sheet"):
            read(data)


@pytest.mark.parametrize("shown", ["Due_x0020_Date", "_x0041_", "_x00+5_", "_x0020_x0041_"])
def test_what_looks_like_an_escape_is_one_only_for_what_xml_does_not_allow(shown: str) -> None:
    """Writers that escape nothing write such a text as it is; a space is never escaped."""
    cell = '<c r="A2" t="s"><v>1</v></c>'
    shared = f"<si><t>slashtag</t></si><si><r><t>{shown[:3]}</t></r><r><t>{shown[3:]}</t></r></si>"
    data = xlsx(row(1, '<c r="A1" t="s"><v>0</v></c>') + row(2, cell), shared=shared)
    assert read(data) == read(xlsx(row(1, "slashtag") + row(2, shown))) == [{"slashtag": shown}]
    escaped = shown.replace("_x", "_x005F_x") + "_x0007_"
    assert read(xlsx(row(1, "slashtag") + row(2, escaped))) == [{"slashtag": shown + "\a"}]


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ('table:formula="of:=NA()" office:value-type="string" office:string-value="" '
         'calcext:value-type="error"><text:p>#N/A</text:p>', "#N/A"),
        ('table:formula="of:=[.A1]">', "formula"),
        ('office:value-type="boolean" office:boolean-value="true"><text:p>TRUE</text:p>', "TRUE"),
        ('table:formula="of:=TRUE()" office:value-type="float" office:value="1">', "TRUE"),
        ('office:value-type="date" office:date-value="2024-03-24"><text:p>24.3.</text:p>', "2024-03-24"),
        ('office:value-type="percentage" office:value="0.5"><text:p>50%</text:p>', "0.5"),
        ('office:value-type="float" office:value="1234567890123456789">', "12345678901234"),
        ('office:value-type="string"><text:p>a<text:tab/>b</text:p>', "tab"),
    ],
)  # fmt: skip
def test_cells_of_ods_follow_the_same_rules(cell: str, says: str) -> None:
    made = f"<table:table-cell {cell}</table:table-cell>"
    data = ods(ods_row(*HEAD) + ods_row(repeated=3) + ods_row("k0", made) + ods_row("k1", "x"))
    with pytest.raises(InvalidRequestError) as raised:
        read(data)
    assert "cell B5" in str(raised.value)
    assert says in str(raised.value)
    assert read(data, {"slashtag"}) == [{"slashtag": "k0"}, {"slashtag": "k1"}]


def test_covered_cells_of_ods_are_errors() -> None:
    covered = "<table:covered-table-cell/>"
    with pytest.raises(InvalidRequestError, match="B3"):
        read(ods(ods_row(*HEAD) + ods_row("k0", "https://x.example") + ods_row("k1", covered, "")))


@pytest.mark.parametrize("ending", ["xlsx", "ods", "xls"])
def test_a_workbook_that_libreoffice_saved_is_the_same_in_each_format(ending: str) -> None:
    path = Path(__file__).parent / f"made_by_libreoffice.{ending}"
    table = load_table(path)
    with pytest.raises(InvalidRequestError, match="sheet 'Links', cell B3") as raised:
        table.rows()
    assert "and 4 more" in str(raised.value)
    held = {line: cells[2 if line == 11 else 0 if line == 8 else 1] for line, cells in table.lines}
    wrong = [line for line, cell in held.items() if isinstance(as_text(cell, "slashtag"), Wrong)]
    assert wrong == [3, 4, 5, 6, 7, 8, 11]
    assert (held[3], held[4], held[9], held[12]) == (Wrong("#N/A"), Wrong("#DIV/0!"), "k0", "last")
    whole = LoadedTable(where="x", lines=[table.lines[0], table.lines[1]])
    (cells,) = [cells for _, cells in whole.rows()]
    assert cells.pop("created_at") == "2024-01-02T03:04:05"
    assert list(cells.values()) == ["7", "007", "https://a.example/?q=Due_x0020_Date&ü=€😀"]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_workbook_is_read_or_refused(seed: int) -> None:
    data = bytearray(
        (Path(__file__).parent / f"made_by_libreoffice.{['xls', 'ods', 'xlsx'][seed % 3]}").read_bytes()
    )
    random = Random(seed)
    for _ in range(random.randint(1, 6)):
        data[random.randrange(len(data))] = random.randrange(256)
    if seed % 5 == 0:
        del data[random.randrange(len(data)) :]
    with suppress(InvalidRequestError):
        load_table(io.BytesIO(bytes(data)), "x").rows({"id"})


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04 and no more",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        xlsx(row(1, "slashtag"))[:-40],
        xlsx(row(1, "slashtag") + "<row><c>"),
        b"<html><table><tr><td>k0</td></tr></table></html>",
        b'<?xml version="1.0"?><Workbook/>',
        b"%PDF-1.4 \xff",
        b"\x1f\x8b\x08 gzip",
    ],
)
def test_what_is_no_whole_table_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"a\.xlsx"):
        read(data)


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_sheets_in_another_encoding_are_refused_and_not_empty(encoding: str) -> None:
    file, data = io.BytesIO(), xlsx(row(1, "slashtag") + row(2, "kö"))
    with zipfile.ZipFile(io.BytesIO(data)) as made, zipfile.ZipFile(file, "w") as archive:
        for name in made.namelist():
            part = made.read(name)
            if "sheet1" in name:
                declared = f'<?xml version="1.0" encoding="{encoding}"?>'
                part = f"{declared}{part.decode()}".encode(encoding)
            archive.writestr(name, part)
    with pytest.raises(InvalidRequestError, match="UTF-8"):
        read(file.getvalue())


CELLS = st.sampled_from(
    [
        '<c r="{}" t="e"><v>#N/A</v></c>',
        "<c r='{}' t='e'><v>#N/A</v></c>",
        '<c r="{}" t = "e"><v>#N/A</v></c>',
        '<c t="e" r="{}"><v>#N/A</v></c>',
        '<x:c r="{}" xmlns:x="' + MAIN + '" t="e"><x:v>#N/A</x:v></x:c>',
        '<c r="{}" t="str"><f>A1</f><v>ab</v></c>',
        '<c r="{}"><f/></c>',
        '<c r="{}" t="s"><v>2</v></c>',
        '<c r="{}" t="s"><v>1</v></c>',
        '<c r="{}" t="inlineStr"><is><t>_x005F_x0041_</t></is></c>',
        '<c r="{}" t="inlineStr"><is><r><t>_x00</t></r><r><t>20_</t></r></is></c>',
        '<c r="{}"><v>7</v></c>',
        '<c r="{}" s="1"/>',
        "<c/>",
        "<!-- a comment --><c><v>7</v></c>",
    ]
)


def flaws(data: bytes) -> list[object]:
    archive = zipfile.ZipFile(io.BytesIO(data))
    names = {name.lower(): name for name in archive.namelist()}
    return [*_xlsx_flaws.flaws_of_xlsx(archive, names)["S1"].areas]


@given(st.lists(st.tuples(st.booleans(), CELLS), max_size=6), st.booleans())
def test_a_sheet_that_is_not_read_in_full_has_nothing_to_be_found(
    rows: list[tuple[bool, str]], is_escaped: bool
) -> None:
    shared = "<si><t>slashtag</t></si><si><t>b_x</t></si><si><t>%s</t></si>" % ("_x0007_" * is_escaped)
    made = "".join(
        f'<row r="{n}">{cell.format(f"A{n}")}</row>' if is_named else f"<row>{cell.format(f'A{n}')}</row>"
        for n, (is_named, cell) in enumerate(rows, 2)
    )
    data = xlsx(row(1, '<c r="A1" t="s"><v>0</v></c>') + made, shared=shared)
    quick = flaws(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_xlsx_flaws, "_is_plain", lambda *_: False)
        assert flaws(data) == quick
