"""What is written is read back unchanged, and tables of other programs are read by one set of rules."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slashtag import InvalidRequestError
from slashtag.tables import FORMATS, About, Column, Row, Table, load_table

TABLE = Table(
    (
        Column("id", "int"),
        Column("slashtag"),
        Column("destination"),
        Column("percent", "float"),
        Column("date", "date"),
        Column("created_at", "timestamp"),
    )
)
PIECES = [
    "'=1", "''-1", "=1+1", "+1", "@x", "-1", "'a", "_x0020_", "Due_x0020_Date", "_x0020_x0041_", "_x005F_",
    "_x005f_x0041_", "_x00+5_", "_xFFFE_", "_x", "<r>", "</r>", "<r>a</r>", "&amp;", "]]>", "\r", "\n",
    "\r\n", "\t", "\0", "\a", "\x1f", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "\uffff", "\xa0",
    " ", "007", "1e5", "1.0", "50%", "TRUE", "null", "NaN", "#N/A", "#x", "sep=;", "2024-01-01",
    "2024-01-01 00:00:00", "12345678901234567890", ",", ";", '"', "[1]", '{"a": 1}',
    "https://a.example/?x=1&y=<2>", "é", "e\u0301", "😀", "\U0010ffff", "العربية",
]  # fmt: skip
TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(PIECES)
    | st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
    | st.text("_x0041F5 <r>/\r\n\t", max_size=25)
)
DAYS = st.dates(date(1901, 1, 1))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 10**15 + 1])
ROWS = st.lists(
    st.tuples(
        st.none() | NUMBERS,
        st.none() | TEXTS,
        TEXTS,
        st.none() | st.integers(0, 1000).map(lambda n: n / 10),
        st.none() | DAYS,
        st.none() | st.datetimes(datetime(1901, 1, 1)).map(lambda at: at.replace(microsecond=0)),
    ),
    max_size=6,
)


def as_text(name: str, value: object) -> str:
    """Return a value as a table holds it, in one of the forms in which formats write it."""
    text = "" if value is None else str(value)
    if name == "percent":
        return text.removesuffix(".0")
    return text.replace(" ", "T").removesuffix("T00:00:00") if name == "created_at" else text


ABOUTS = st.builds(About, account=TEXTS, span=TEXTS, complete=st.booleans(), missing=TEXTS)


@pytest.mark.parametrize("form", FORMATS)
@settings(deadline=None)
@given(ROWS, ABOUTS)
@example([(2**53, "_x0007_", "=1", 0.5, date(2024, 2, 29), datetime(2024, 1, 1, 2, 3, 4))], About())
def test_what_is_written_is_read_back_unchanged(form: str, rows: list[Row], about: About) -> None:
    file = io.BytesIO()
    writer = FORMATS[form](file, TABLE)
    writer.about = about
    writer.write(rows)
    writer.close()
    file.seek(0)
    if form == ".parquet":
        arrow = pyarrow.parquet.read_table(file)
        assert [tuple(row.values()) for row in arrow.to_pylist()] == rows
        told = pyarrow.parquet.read_metadata(file).metadata
        assert told.items() >= {
            (f"slashtag.{name}".encode(), text.encode()) for name, text in about.texts.items()
        }
        return
    table = load_table(file, "x")
    assert table.columns == [*TABLE.names] or (form, rows) == (".jsonl", [])
    expected = [
        {name: as_text(name, value) for name, value in zip(TABLE.names, row, strict=True)} for row in rows
    ]
    read = [{name: as_text(name, text) for name, text in cells.items()} for _, cells in table.rows()]
    assert read == [cells for cells in expected if any(cells.values())]
    if form == ".xlsx":
        assert table.about is not None
        assert (table.about.complete, table.about.timezone) == (about.complete, "")


def rows_of(data: bytes, used: set[str] | None = None) -> list[dict[str, str]]:
    return [cells for _, cells in load_table(io.BytesIO(data), "a file").rows(used)]


ID = "1234567890123456789"
EXPECTED = [{"id": ID, "slashtag": "k0"}, {"id": "7", "slashtag": "#sale"}]


@pytest.mark.parametrize(
    "content",
    [
        f"id,slashtag\n{ID},k0\n7,#sale\n",
        f"\ufeffID;Slashtag\r\n{ID};k0\r\n7;#sale\r\n",
        f"id\tslashtag\n{ID}\tk0\n7\t#sale",
        f'"id","slashtag"\n"{ID}","k0"\n"7","#sale"\n',
        f"# exported; yesterday, and so on\n\n  # again\nid;slashtag\n{ID};k0\n7;#sale\n",
        f"\nid,slashtag,,\n{ID},k0,,\n,,,\n7,#sale,,\n",
        f",id,slashtag\n,{ID},k0\n,7,#sale\n",
        f"id,slashtag\n{ID},k0\n7.0,#sale\n",
        f'{{"id": {ID}, "slashtag": "k0"}}\n{{"id": 7.0, "slashtag": "#sale"}}\n',
    ],
)
def test_every_delimiter_and_kind_of_text_is_told_from_the_content(content: str) -> None:
    assert rows_of(content.encode()) == EXPECTED
    # As Excel saves "Unicode text".
    assert rows_of(content.removeprefix("\ufeff").encode("utf-16")) == EXPECTED
    assert rows_of(b"\xfe\xff" + content.removeprefix("\ufeff").encode("utf-16-be")) == EXPECTED


def test_records_of_json_may_lack_members() -> None:
    rows = rows_of(b'{"id": 7}\n{"id": 8, "slashtag": "k0"}\n')
    assert rows == [{"id": "7", "slashtag": ""}, {"id": "8", "slashtag": "k0"}]


def test_a_row_keeps_the_number_of_its_line() -> None:
    content = b'# about\n\nslashtag,destination\n\nk0,"a\nb"\nk1,c\n'
    records = b'{"slashtag": "k0"}\n\n{"slashtag": "k1"}\n'
    for data, lines in ((content, [5, 7]), (records, [1, 3])):
        assert [line for line, _ in load_table(io.BytesIO(data), "x").rows()] == lines


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("slashtag,destination\nk0\n", "line 2"),
        ("slashtag\nk0,k1\n", "line 2"),
        ("slashtag,\nk0,k1\n", "line 2"),
        ("slashtag,Slashtag\nk0,k1\n", "slashtag"),
        ('slashtag\n"k0\n', "whole"),
        ('{"slashtag": true}', "slashtag: TRUE"),
        ('{"slashtag": ["k0"]}\n', "list"),
        ('{"slashtag": 1e300}', "rounded"),
        ("[1]", "JSON"),
        ('{"slashtag": "k0"}\n{"slash', "JSON"),
    ],
)
def test_other_tables_are_refused_also_where_only_some_columns_are_used(content: str, says: str) -> None:
    for used in (None, {"slashtag"}):
        with pytest.raises(InvalidRequestError) as raised:
            list(load_table(io.BytesIO(content.encode()), "a.csv").rows(used))
        assert says in str(raised.value)


def test_a_path_and_a_stream_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text("\n".join(map(json.dumps, EXPECTED)))
    table = load_table(path)
    assert (table.columns, [cells for _, cells in table.rows()]) == (["id", "slashtag"], EXPECTED)
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        load_table(tmp_path / "missing.csv")
    (tmp_path / "empty.csv").write_text("\n # nothing\n")
    empty = load_table(tmp_path / "empty.csv")
    assert (empty.columns, [*empty.rows()]) == ([], [])
