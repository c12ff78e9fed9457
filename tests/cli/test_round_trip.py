"""A listing of links that is sent back: whatever is in it, nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, puts

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
    own.add_tag("spring")
    own.add_url("tagged", tag="spring")
    for n, destination in enumerate(ODD):
        own.add_url(f"odd{n}", destination=destination, redirect_code=302)
    path = str(tmp_path / f"links.{ending}")
    assert cli("urls", "list", "-o", path).code == 0
    ran = cli("urls", "update", "--from", path, "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    ran = cli("urls", "update", "--from", path)
    assert (ran.code, ran.out, puts(own)) == (0, "", [])
    assert f"{len(own.truth.urls())} are so already; " in ran.err
    assert cli("diff", path, path).code == 0
