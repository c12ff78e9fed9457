"""A listing of links, edited in a spreadsheet and sent back: only what was edited is sent."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from slashtag.sandbox import Sandbox
from tests.support.sandboxes import forget

from .conftest import Cli, objects

Rows = list[dict[str, str]]


@pytest.fixture
def listed(cli: Cli, own: Sandbox) -> Rows:
    assert cli("tags", "create", "spring").code == 0
    for n in range(4):
        own.add_url(
            f"b{n}", destination=f"https://www.example/{n}", redirect_code=302, created_at="2024-01-01"
        )
    own.add_url("tagged", tag="spring")
    return list(csv.DictReader(io.StringIO(cli("urls", "list", "--format", "csv").out)))


def puts(box: Sandbox) -> dict[str, Any]:
    return {a.path.rpartition("/")[2]: json.loads(a.body) for a in box.requests if a.method == "PUT"}


def edit(rows: Rows) -> dict[str, Any]:
    """Edit three rows; return what is to be sent."""
    rows[0]["destination"] = "https://new.example/"
    rows[1]["redirect_code"] = "308"
    rows[2]["slashtag"] = "renamed"
    return {
        rows[0]["id"]: {"destination": "https://new.example/", "redirect_code": 302},
        rows[1]["id"]: {"destination": "https://www.example/1", "redirect_code": 308},
        rows[2]["id"]: {"destination": "https://www.example/2", "redirect_code": 302, "slashtag": "renamed"},
    }


def workbook(rows: Rows, path: Path) -> None:
    book = Workbook()
    sheet: Any = book.active
    sheet.append(list(rows[0]))
    for row in rows:
        sheet.append([int(cell) if cell.isdigit() else cell or None for cell in row.values()])
    book.save(path)


def test_only_edited_rows_are_sent(cli: Cli, own: Sandbox, listed: Rows, tmp_path: Path) -> None:
    path = tmp_path / "links.xlsx"
    update = ("urls", "update", "--from", str(path))
    workbook(listed, path)
    assert cli(*update).err.startswith("0 links changed")
    expected = edit(listed)
    workbook(listed, path)
    shown = objects(cli(*update, "--dry-run").out)
    assert [(row["change"], row["after"]) for row in shown] == [
        ("destination", "https://new.example/"),
        ("redirect_code", "308"),
        ("slashtag", "renamed"),
    ]
    assert puts(own) == {}
    for sent in (expected, {}):
        # Run again, nothing is left to send, although the links bear new times and short URLs.
        forget(own)
        assert (cli(*update).code, puts(own)) == (0, sent)


ODD = [
    "https://www.example/?SortField=Due_x0020_Date",
    "https://www.example/_x0020_x0041_/_x005F_/_x00e9_",
    "=1+1",
    "+49 30",
    "-5",
    "@home",
    "'quoted'",
    'a "b", c; d\te',
    " blanks ",
    "two\nlines\r\nand\rmore\t",
    "\0\a\x1f\x7f\x85\u2028\ufffe",
    "<r>markup</r>",
    "007",
    "1e5",
    "12345678901234567890",
    "2024-01-01",
    "2024-01-01 00:00:00",
    "1/2",
    "50%",
    "TRUE",
    "#N/A",
    "https://www.example/üé€😀\U0010ffff?a=1&b=%20#c",
    "x" * 32_767,
]


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_listing_sent_back_as_it_is_changes_nothing(
    cli: Cli, own: Sandbox, tmp_path: Path, ending: str
) -> None:
    for n, destination in enumerate(ODD):
        own.add_url(f"odd{n}", destination=destination, redirect_code=302)
    path = str(tmp_path / f"links.{ending}")
    assert cli("urls", "list", "-o", path).code == 0
    ran = cli("urls", "update", "--from", path, "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    ran = cli("urls", "update", "--from", path)
    assert (ran.code, ran.out, puts(own)) == (0, "", {})
    assert f"{len(own.truth.urls())} are so already; " in ran.err
    assert cli("diff", path, path).code == 0
