"""The command writes a report with the true numbers, and refuses early what would stop it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli

JULY = ("report", "2024-07")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.unmeasured
def test_it_is_about_all_links_and_says_how_to_open_it(cli: Cli, box: Sandbox, folder: Path) -> None:
    total = box.truth.range("2024-07-01", "2024-07-31").total_clicks
    ran = cli(*JULY, "-o", "report.html")
    assert (ran.code, ran.out) == (0, "")
    first, *_, last = ran.err.splitlines()
    assert f": {total:,} clicks; " in first
    target = folder / "report.html"
    assert last == f"written to report.html; open {target.resolve().as_uri()} in a browser"
    page = target.read_text("utf-8")
    assert f"{total:,}" in page
    assert "all links of the account" in page.lower()


@pytest.mark.unmeasured
@pytest.mark.parametrize("selection", ["--keys", "--tag"])
def test_links_can_be_selected(cli: Cli, box: Sandbox, folder: Path, selection: str) -> None:
    if selection == "--keys":
        value = max(box.truth.urls(), key=lambda url: url.hits).slashtag
        total = box.truth.range("2024-07-01", "2024-07-31", keys=[value]).total_clicks
    else:
        value = box.truth.tags()[0].name
        total = box.truth.range("2024-07-01", "2024-07-31", tag=value).total_clicks
    ran = cli(*JULY, "-o", "report.html", selection, value, "--top", "2")
    assert f": {total:,} clicks; " in ran.err
    shown = "1 chosen link" if selection == "--keys" else f"links tagged {value.lower()}"
    assert shown in Path("report.html").read_text("utf-8").lower()


def test_what_is_to_be_said_with_it_is_told_too(cli: Cli, own: Sandbox) -> None:
    own.add_tag("t")
    own.add_url("a0", tag="t", domain_id=1)
    own.add_click("a0", "2024-07-02T00:00:00")
    note = "Slashtags shared with other links: 1, marked *."
    assert note in cli(*JULY, "-o", "report.html", "--tag", "t").err
    assert "Slashtags shared with other links:" in Path("report.html").read_text("utf-8")


def test_a_span_that_is_not_over_is_said(cli: Cli) -> None:
    today = datetime.now(UTC).date()
    ran = cli("report", f"{today - timedelta(days=3)}..{today + timedelta(days=3)}", "-o", "report.html")
    assert "3 of 7 days over" in ran.err
    assert "3 of 7 days over" in Path("report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("report.txt", ".png"),
        ("folder.html", "folder.html cannot be written: it is a folder"),
        ("missing/report.html", "missing/report.html cannot be written: No such file or directory"),
    ],
)
def test_a_target_that_will_not_do_is_told_before_anything_is_asked(
    cli: Cli, box: Sandbox, output: str, problem: str
) -> None:
    Path("folder.html").mkdir()
    asked = len(box.requests)
    ran = cli(*JULY, "-o", output)
    assert ran.code == (2 if output.endswith(".txt") else 1)
    assert problem in ran.error
    assert len(box.requests) == asked


def test_without_the_extra_it_is_named(cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = len(box.requests)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    ran = cli(*JULY, "-o", "report.html")
    assert ran.code == 1
    assert 'pip install "slashtag[report]"' in ran.error
    assert len(box.requests) == asked
