"""The command writes a report with the true numbers, and refuses early what would stop it."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import pytest

from slashtag import parse_zone
from slashtag.sandbox import Sandbox

from .conftest import Cli

JULY = ("report", "2024-07-01..2024-07-31", "-o")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_the_clicks_of_the_links_that_are_selected(cli: Cli, box: Sandbox) -> None:
    tag = box.truth.tags()[0].name
    total = box.truth.range("2024-07-01", "2024-07-31", tag=tag, timezone="+09:00").total_clicks
    options = ("--tag", tag, "--title", "July <at> us", "--compare", "2024-03", "--timezone", "+09:00")
    ran = cli(*JULY, "report.html", *options)
    assert (ran.code, f"{total:,} click" in ran.err) == (0, True)
    page = Path("report.html").read_text("utf-8")
    assert f'<data id="total" value="{total}">' in page
    assert "1 Mar 2024 to 31 Mar 2024" in page
    assert "<h1><bdi>July &lt;at&gt; us</bdi></h1>" in page


# In one of these it is another day now than in UTC.
@pytest.mark.parametrize("zone", ["+14:00", "-12:00"])
def test_a_span_that_is_not_over_is_said(cli: Cli, zone: str) -> None:
    today = datetime.now(parse_zone(zone)).date()
    ran = cli("report", "today", "-o", "report.html", "--timezone", zone)
    assert f"{today}, so far" in ran.err
    assert "Not over yet" in Path("report.html").read_text("utf-8")


def test_a_slashtag_that_other_links_share_or_that_cannot_be_requested_is_told(
    cli: Cli, own: Sandbox
) -> None:
    own.add_url("a0", domain_id=1)
    assert cli(*JULY, "a.html", "--keys", "https://sho.example/a0").code == 3
    own.add_tag("odd")
    own.add_url("b,c", tag="odd")
    assert cli(*JULY, "a.html", "--tag", "odd").code == 3


@pytest.mark.parametrize(("output", "code"), [("report.pdf", 2), ("folder.html", 1), ("missing/r.html", 1)])
def test_a_target_that_will_not_do_is_told_before_anything_is_asked(
    cli: Cli, box: Sandbox, output: str, code: int
) -> None:
    Path("folder.html").mkdir()
    ran = cli(*JULY, output)
    assert (ran.code, Path(output).name in ran.error) == (code, True)
    assert box.requests == []


def test_without_the_extra_it_is_named(cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    ran = cli(*JULY, "report.html")
    assert ran.code == 1
    assert 'pip install "slashtag[report]"' in ran.error
    assert box.requests == []
