"""Differences of two files, whatever their formats."""

from __future__ import annotations

import sys
from datetime import date, datetime
from pathlib import Path

import pytest
from openpyxl import load_workbook

from slashtag import InvalidRequestError
from slashtag.export import (
    FORMATS,
    TAGS,
    URLS,
    RowDifference,
    clicks_table,
    compare_files,
    dimensions_table,
    open_table,
)
from slashtag.tables import Column, Table

LINK = (
    1,
    "a",
    "https://s.example/a",
    "https://x.example",
    5,
    301,
    7,
    datetime(2024, 1, 1),
    datetime(2024, 1, 2),
)
OTHER = (2, "b", "https://s.example/b", "=1+1", 0, None, None, datetime(2024, 1, 1, 2, 3), None)
THIRD = (3, "c", "https://s.example/c", "https://y.example", 0, 302, None, None, None)


def write(path: Path, rows: list[tuple[object, ...]], table: object = URLS) -> Path:
    with open_table(path, table) as file:  # type: ignore[arg-type]
        file.write(rows)  # type: ignore[arg-type]
    return path


@pytest.mark.unmeasured
@pytest.mark.parametrize("old", FORMATS)
@pytest.mark.parametrize("new", [".csv", ".xlsx", ".parquet"])
def test_formats_do_not_matter(tmp_path: Path, old: str, new: str) -> None:
    before = write(tmp_path / f"old{old}", [LINK, OTHER])
    after = write(tmp_path / f"new{new}", [OTHER, (*LINK[:4], 9, 302, *LINK[6:]), THIRD])
    assert list(compare_files(before, after)) == [
        RowDifference("changed", "1", "a", "redirect_code", "301", "302"),
        RowDifference("added", "3", "c"),
    ]
    assert RowDifference("gone", "3", "c") in compare_files(after, before)
    assert list(compare_files(after, after)) == []


@pytest.mark.parametrize("form", [".csv", ".xlsx"])
def test_clicks_are_compared_by_slashtag_and_day(tmp_path: Path, form: str) -> None:
    table, first, second = clicks_table("slashtag"), date(2024, 6, 1), date(2024, 6, 2)
    before = write(tmp_path / "old.parquet", [("a", first, 3), ("a", second, 0)], table)
    after = write(tmp_path / f"new{form}", [("a", first, 3), ("a", second, 1)], table)
    assert list(compare_files(before, after)) == [
        RowDifference("changed", "a, 2024-06-02", "", "clicks", "0", "1")
    ]


@pytest.mark.parametrize("form", [".csv", ".xlsx", ".parquet"])
def test_shares_that_change_with_other_rows_are_not_compared(tmp_path: Path, form: str) -> None:
    table = Table((Column("tag"), Column("clicks", "int"), Column("percent", "float")))
    before = write(tmp_path / f"old{form}", [("a", 3, 75.0), ("b", 1, 25.0)], table)
    after = write(tmp_path / f"new{form}", [("a", 3, 50.0), ("b", 3, 50.0)], table)
    assert list(compare_files(before, after)) == [RowDifference("changed", "b", "", "clicks", "1", "3")]


def test_files_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    links = write(tmp_path / "links.csv", [LINK])
    with pytest.raises(InvalidRequestError, match="several rows"):
        list(compare_files(links, write(tmp_path / "twice.csv", [LINK, LINK])))
    (tmp_path / "odd.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InvalidRequestError, match="column"):
        list(compare_files(tmp_path / "odd.csv", tmp_path / "odd.csv"))
    (tmp_path / "tags.jsonl").write_text('{"tag": "spring", "clicks": 7}\n')
    for old, new in ((links, tmp_path / "tags.jsonl"), (tmp_path / "tags.jsonl", tmp_path / "odd.csv")):
        with pytest.raises(InvalidRequestError) as raised:
            list(compare_files(old, new))
        assert "tag, clicks" in str(raised.value)
        assert ("x, y" if new.name == "odd.csv" else "id, slashtag, short_url") in str(raised.value)
    for name in ("cut.parquet", "cut.xlsx", "cut.json"):
        (tmp_path / name).write_bytes(b"{")
        with pytest.raises(InvalidRequestError):
            list(compare_files(links, tmp_path / name))


DAY = date(2024, 6, 1)


@pytest.mark.unmeasured
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("forms", [(".csv", ".xlsx"), (".parquet", ".jsonl")])
@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ((URLS, [LINK]), (TAGS, [(1, "spring", None, None)]), ("links", "tags")),
        ((URLS, [LINK]), (clicks_table("slashtag"), [("a", DAY, 3)]), ("links", "clicks")),
        (
            (TAGS, [(1, "spring", None, None)]),
            (clicks_table("tag"), [("spring", DAY, 3)]),
            ("tags", "clicks"),
        ),
        (
            (clicks_table("slashtag"), [("a", DAY, 3)]),
            (clicks_table("tag"), [("a", DAY, 3)]),
            ("slashtag", "tag"),
        ),
        (
            (clicks_table("tag"), [("a", DAY, 3)]),
            (dimensions_table("tag"), [("a", DAY, DAY, "country", "DE", 3)]),
            ("date", "dimension"),
        ),
    ],
)
def test_tables_of_different_kinds_are_refused(
    tmp_path: Path,
    forms: tuple[str, str],
    old: tuple[Table, list[tuple[object, ...]]],
    new: tuple[Table, list[tuple[object, ...]]],
    kinds: tuple[str, str],
    turned: bool,
) -> None:
    paths = [
        write(tmp_path / f"{n}{form}", rows, table)
        for n, (form, (table, rows)) in enumerate(zip(forms, (old, new), strict=True))
    ]
    with pytest.raises(InvalidRequestError, match="different kinds") as raised:
        list(compare_files(*(reversed(paths) if turned else paths)))
    for named in (*map(str, paths), *kinds):
        assert named in str(raised.value)


def test_several_rows_of_a_key_say_what_the_files_have(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [("a", DAY, 3), ("a", date(2024, 6, 2), 3)]
    days = write(tmp_path / "days.csv", rows, clicks_table("slashtag"))
    (tmp_path / "top.csv").write_text("slashtag,clicks\na,6\n")
    with pytest.raises(InvalidRequestError, match="several rows of a") as raised:
        list(compare_files(days, tmp_path / "top.csv"))
    assert "slashtag, date, clicks" in str(raised.value)


@pytest.mark.parametrize("form", [".csv", ".parquet"])
def test_days_that_one_file_has_not_are_told(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    def days(name: str, first: int, last: int) -> Path:
        rows = [(key, date(2024, 10, n), 1) for key in "ab" for n in range(first, last + 1)]
        return write(tmp_path / name, [*rows], clicks_table("slashtag"))

    early, late, same = days("early.csv", 1, 5), days(f"late{form}", 3, 8), days(f"same{form}", 1, 5)
    assert list(compare_files(early, same)) == []
    assert not caplog.messages
    assert len(list(compare_files(early, late))) == 10
    (said,) = caplog.messages
    for named in (str(early), "2024-10-01 to 2024-10-05", str(late), "2024-10-03 to 2024-10-08"):
        assert named in said
    assert "--compare" not in said
    caplog.clear()
    # Of two weeks no row is the same: a comparison of spans is another command.
    assert len(list(compare_files(early, days(f"next{form}", 8, 12)))) == 20
    (said,) = caplog.messages
    assert "--compare" in said


def test_a_workbook_needs_its_library_and_has_one_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "links.xlsx", [LINK])
    book = load_workbook(path)
    book.create_sheet("more").append(["slashtag"])
    book.save(path)
    with pytest.raises(InvalidRequestError, match="several sheets"):
        list(compare_files(path, path))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InvalidRequestError, match="pip install"):
        list(compare_files(path, path))


def test_writers_differ_in_how_they_write_times_and_fractions(tmp_path: Path) -> None:
    same = ("2024-01-02 03:04:05", "2024-01-02T03:04:05", "2024-01-02T03:04:05.000", "2024-01-02 3:04:05")
    other = ("2024-01-02 03:04:50", "2024-01-02 03:04:05.5", "2024-01-02")
    for n, at in enumerate((*same, *other)):
        (tmp_path / f"{n}.csv").write_text(
            f"id,created_at,change_percent,name\n1,{at},{'5' if n else '5.0'},{at[:0]}\n"
        )
        found = list(compare_files(tmp_path / "0.csv", tmp_path / f"{n}.csv"))
        assert [each.column for each in found] == (["created_at"] if at in other else [])


def test_a_wrong_cell_stops_only_if_its_column_is_compared(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text('[{"id": 1, "slashtag": "a", "hits": 1.5, "mine": true}]')
    new.write_text('[{"id": 1, "slashtag": "b", "hits": true}]')
    assert list(compare_files(old, new)) == [RowDifference("changed", "1", "b", "slashtag", "a", "b")]
    with pytest.raises(InvalidRequestError, match="mine"):
        list(compare_files(old, old))
