"""Differences of two files foot, whatever their formats; files about other clicks are refused."""

from __future__ import annotations

import logging
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slashtag import InvalidRequestError
from slashtag.tables import (
    About,
    Column,
    Row,
    RowDifference,
    Table,
    compare_files,
    open_table,
)

LINKS = Table(
    (
        Column("id", "int"),
        Column("slashtag"),
        Column("destination"),
        Column("hits", "int"),
        Column("created_at", "timestamp"),
    )
)
CLICKS = Table(
    (
        Column("slashtag"),
        Column("tag"),
        Column("date", "date"),
        Column("clicks", "int"),
        Column("percent", "float"),
    )
)
FIRST = date(2026, 10, 1)
AT = datetime(2024, 1, 1, 2, 3, 4)


def write(path: Path, rows: list[Row], table: Table = CLICKS, about: About | None = None) -> Path:
    with open_table(path, table) as file:
        file.about = about
        file.write(rows)
    return path


def rows_of(counts: dict[tuple[str, int], int]) -> list[Row]:
    return [(key, None, FIRST + timedelta(n), clicks, 9.5) for (key, n), clicks in counts.items()]


def found(old: Path, new: Path) -> list[RowDifference]:
    with compare_files(old, new) as comparison:
        return list(comparison)


@pytest.mark.parametrize("old", [".csv", ".jsonl", ".xlsx"])
@pytest.mark.parametrize("new", [".csv", ".xlsx"])
def test_listings_are_compared_by_id_in_any_format(tmp_path: Path, old: str, new: str) -> None:
    first, second, third = (
        (1, "a", "https://x.example", 5, AT),
        (2, "b", "=1+1", 0, None),
        (3, "c", "y", 0, AT),
    )
    before = write(tmp_path / f"old{old}", [first, second], LINKS)
    after = write(tmp_path / f"new{new}", [second, (*first[:2], "z", 9, AT), third], LINKS)
    assert found(before, after) == [
        RowDifference("changed", "1", "a", "destination", "https://x.example", "z"),
        RowDifference("added", "3", "c"),
    ]
    assert RowDifference("gone", "3", "c") in found(after, before)
    assert found(after, after) == []


COUNTS = st.dictionaries(st.tuples(st.sampled_from(["a", "b", "c, d"]), st.integers(1, 3)), st.integers(0, 5))
FORM = st.sampled_from([".csv", ".jsonl", ".xlsx"])


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS, FORM, FORM)
def test_differences_of_clicks_foot(
    old: dict[tuple[str, int], int], new: dict[tuple[str, int], int], form: str, other: str
) -> None:
    """The row of a link with both days of the span is in each file, so that the days are the same."""
    old, new = (counts | {("a", 0): 1, ("a", 4): 1} for counts in (old, new))
    with TemporaryDirectory() as folder:
        paths = [
            write(
                Path(folder, name),
                [(key, None, FIRST + timedelta(n), clicks, 9.5) for (key, n), clicks in counts.items()],
            )
            for name, counts in ((f"old{form}", old), (f"new{other}", new))
        ]
        with compare_files(*paths) as comparison:
            *rows, last = comparison
    sums = sum(old.values()), sum(new.values())
    assert last == RowDifference("sum", "", "", "clicks", *sums, sums[1] - sums[0])
    assert last.difference == sum(row.difference or 0 for row in rows)
    assert (comparison.rows, comparison.clicks) == ((len(old), len(new)), {"clicks": sums})
    told = {row.key: (row.change, row.old, row.new) for row in rows}
    expected = {
        f"{key[0]}, {FIRST + timedelta(key[1])}": (
            "added" if key not in old else "gone" if key not in new else "changed",
            old.get(key),
            new.get(key),
        )
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    }
    assert told == expected
    assert comparison.count.total() == len(expected)
    assert [row.change for row in rows] == sorted(
        (row.change for row in rows), key=lambda change: change != "gone"
    )


EDITED = [
    "slashtag,date,clicks\na,2026-10-01,7\nb,2026-10-02,8\n",
    "Clicks;Date;Slashtag;mine\r\n7;01.10.2026;a;x\r\n;;;\r\n8;2.10.2026;b;\r\n",
    "# counted on Monday\n\ndate\tslashtag\tclicks\n2026-10-01 00:00:00\ta\t7.00\n2026-10-02\tb\t8\n",
    '{"slashtag": "a", "date": "2026-10-01", "clicks": 7.0}\n'
    '{"clicks": 8, "date": "2026-10-02", "slashtag": "b"}',
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", EDITED)
def test_what_people_do_to_a_table_is_no_difference(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "old").write_text(EDITED[0])
    (tmp_path / "new").write_bytes(text.encode(encoding))
    with compare_files(tmp_path / "old", tmp_path / "new") as comparison:
        assert [row.change for row in comparison] == ["sum"]
    assert (comparison.count.total(), comparison.clicks) == (0, {"clicks": (15, 15)})


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("b,10/02/2026,8", "line 3, column date: '10/02/2026'"),
        ("b,45932,8", "45932"),
        ('b,2026-10-02,"1,234"', "line 3, column clicks: '1,234'"),
        ("b,2026-10-02,many", "many"),
        ("b,2026-10-02", "line 3: 2 cells"),
        ("a,2026-10-01,8", "several rows of a, 2026-10-01"),
    ],
)
def test_a_cell_that_cannot_be_compared_is_named(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "old").write_text(EDITED[0])
    (tmp_path / "new").write_text(f"slashtag,date,clicks\na,2026-10-01,7\n{row}\n")
    with pytest.raises(InvalidRequestError) as raised:
        found(tmp_path / "old", tmp_path / "new")
    assert str(tmp_path / "new") in str(raised.value)
    assert says in str(raised.value)


OCTOBER = About(span="2026-10-01..2026-10-31", timezone="+00:00", compared_with="2026-09-01..2026-09-30")


@pytest.mark.parametrize(
    "other",
    [
        {"span": "2026-11-01..2026-11-30"},
        {"timezone": "Europe/Berlin"},
        {"compared_with": ""},
        {"selected": "tag spring"},
        {"complete": False},
    ],
)
def test_files_that_say_that_they_are_about_other_clicks_are_refused(
    tmp_path: Path, other: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    said = {"span": OCTOBER.span, "timezone": "+00:00", "compared_with": OCTOBER.compared_with} | other
    old = write(tmp_path / "old.xlsx", [("a", None, FIRST, 1, None)], about=OCTOBER)
    new = write(tmp_path / "new.xlsx", [("a", None, FIRST, 1, None)], about=About(**said))  # type: ignore[arg-type]
    if "complete" in other:
        with caplog.at_level(logging.WARNING, "slashtag"):
            assert len(found(old, new)) == 1
        assert str(new) in caplog.text
        return
    with pytest.raises(InvalidRequestError) as raised:
        found(old, new)
    for told in (str(old), str(new), *(getattr(OCTOBER, name) for name in other), *other.values()):
        assert told in str(raised.value)


def test_other_days_are_refused_by_the_rows_where_a_file_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def days(name: str, first: int, last: int, about: About | None = None) -> Path:
        rows: list[Row] = [("a", None, FIRST + timedelta(n), 1, None) for n in range(first, last + 1)]
        return write(tmp_path / name, [*rows, ("left over", None, None, 0, None)], about=about)

    old = days("old.csv", 0, 30)
    assert len(found(old, days("same.csv", 0, 30))) == 1
    # As neither says of which zone and links it is.
    assert [str(old) in each.getMessage() for each in caplog.records] == [True, False]
    for first, last, about in ((31, 60, None), (0, 31, OCTOBER), (1, 30, None)):
        new = days("new.xlsx", first, last, about)
        for pair in ((old, new), (new, old)):
            with pytest.raises(InvalidRequestError, match="2026-10-01 to 2026-10-31"):
                found(*pair)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("id,slashtag,destination", "id,name", ("links", "tags")),
        ("id,slashtag", "slashtag,date,clicks", ("links", "clicks")),
        ("slashtag,date,clicks", "tag,date,clicks", ("slashtag", "tag")),
        ("tag,date,clicks", "tag,dimension,label,clicks", ("date", "dimension")),
    ],
)
def test_tables_of_different_kinds_are_refused(
    tmp_path: Path, old: str, new: str, kinds: tuple[str, str]
) -> None:
    (tmp_path / "old").write_text(old)
    (tmp_path / "new").write_text(new)
    paths = [tmp_path / "old", tmp_path / "new"]
    for pair in (paths, paths[::-1]):
        with pytest.raises(InvalidRequestError, match="kind") as raised:
            found(*pair)
        assert all(named in str(raised.value) for named in (*map(str, paths), *kinds))


def test_a_table_needs_a_column_that_names_a_row(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InvalidRequestError, match="x, y"):
        found(tmp_path / "odd.csv", tmp_path / "odd.csv")


def test_a_link_that_got_another_tag_is_a_change_and_a_wrong_cell_matters_only_if_it_is_compared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text('{"slashtag": "a", "tag": "x", "clicks": 3, "mine": true}')
    new.write_text('{"slashtag": "a", "tag": "y", "clicks": 3}')
    assert found(old, new)[0] == RowDifference("changed", "a", "", "tag", "x", "y")
    assert "mine" in caplog.text
    with pytest.raises(InvalidRequestError, match="mine"):
        found(old, old)


def test_each_dimension_has_a_sum_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("dimension,label,clicks\ncountry,DE,5\nstate,x,0\n")
    with compare_files(tmp_path / "file", tmp_path / "file") as comparison:
        assert comparison.clicks == {"clicks by country": (5, 5), "clicks by state": (0, 0)}
