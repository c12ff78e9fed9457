"""Slashtags that no link has are named, and what is typed or piped is read as it was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from slashtag.cli.errors import SOME_FAILED
from slashtag.sandbox import Sandbox

from .conftest import Cli, Ran, names, objects

SPAN = ("2022-01-01", "2025-12-31")
RANGE = ("stats", "range", *SPAN)


def total(ran: Ran) -> int:
    return int(objects(ran.out)[0]["clicks"])


@pytest.fixture
def keys(box: Sandbox) -> list[str]:
    """Two slashtags with clicks."""
    return [url.slashtag for url in sorted(box.truth.urls(), key=lambda url: -url.hits)[:2]]


@pytest.fixture
def clicks(box: Sandbox, keys: list[str]) -> int:
    return box.truth.range(*SPAN, keys=keys).total_clicks


@pytest.mark.parametrize("command", ["range", "country"])
def test_a_slashtag_that_no_link_has_is_named(cli: Cli, box: Sandbox, keys: list[str], command: str) -> None:
    country = ["DE"] if command == "country" else []
    ran = cli("stats", command, *country, *SPAN, "--keys", f"{keys[0]},nosuch,{box.truth.urls()[0].id}")
    alone = cli("stats", command, *country, *SPAN, "--keys", keys[0])
    assert (ran.code, alone.code) == (SOME_FAILED, 0)
    assert "'nosuch'" in ran.err
    assert repr(str(box.truth.urls()[0].id)) in ran.err
    assert (ran.out, alone.err.count("left out")) == (alone.out, 0)


def test_where_no_slashtag_exists_nothing_is_counted_or_replaced(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text("kept")
    for command in (RANGE, ("export", "clicks", *SPAN, "-o", str(file))):
        ran = cli(*command, "--keys", "nosuch")
        assert ran.code == SOME_FAILED
        assert "'nosuch'" in ran.error
    assert file.read_text() == "kept"
    assert names(tmp_path) == ["clicks.csv"]


@pytest.mark.parametrize("more", [("--quiet",), ()])
def test_an_export_leaves_unknown_slashtags_out(
    cli: Cli, keys: list[str], tmp_path: Path, more: tuple[str, ...]
) -> None:
    ran = cli(
        "export", "clicks", *SPAN, "--keys", f"{keys[0]},nosuch", "-o", str(tmp_path / "c.jsonl"), *more
    )
    assert ran.code == SOME_FAILED
    assert "'nosuch'" in ran.err
    assert {row["slashtag"] for row in objects((tmp_path / "c.jsonl").read_text())} == {keys[0]}


@pytest.mark.parametrize(
    "command",
    [
        ("urls", "list"),
        RANGE,
        (*RANGE, "--by", "tag"),
        ("top", "2024"),
        ("export", "clicks", *SPAN),
        ("export", "clicks", *SPAN, "--by", "tag"),
        ("report", *SPAN, "-o", "report.html"),
    ],
)
def test_a_tag_that_does_not_exist_is_wrong_usage_of_every_command(
    cli: Cli, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli(*command, "--tag", "nobody has it")
    assert (ran.code, ran.out) == (2, "")
    assert " tag " in ran.err.lower()
    assert names(tmp_path) == []


def test_unknown_slashtags_are_counted_on_request(cli: Cli, box: Sandbox) -> None:
    ran = cli(*RANGE, "--keys", "nosuch", "--no-check")
    assert (ran.code, total(ran)) == (0, 0)
    assert {arrival.path for arrival in box.requests} == {"/api/v1/stats"}


def test_many_slashtags_are_checked_on_request(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("\n".join(f"no-such-{n}" for n in range(1_001)))
    assert cli(*RANGE, "--keys-file", str(file)).code == 0
    assert "/api/v1/urls" not in {arrival.path for arrival in box.requests}
    ran = cli(*RANGE, "--keys-file", str(file), "--check")
    assert ran.code == SOME_FAILED
    assert "and 991 more" in ran.error


def test_blanks_around_slashtags_do_not_count(cli: Cli, keys: list[str], clicks: int) -> None:
    assert total(cli(*RANGE, "--keys", f" {keys[0]} , {keys[1]},, ")) == clicks


@pytest.mark.parametrize(
    "header", ["", "slashtag\n", "# exported yesterday\nSlashtag \n", "\ufeffslashtag\n"]
)
def test_comments_and_a_header_of_a_file_are_skipped(
    cli: Cli, keys: list[str], clicks: int, tmp_path: Path, header: str
) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"{header}{keys[0]}\t\r\n\n  # the other one\n  {keys[1]}\n", "utf-8")
    ran = cli(*RANGE, "--keys-file", str(file))
    assert (ran.code, total(ran)) == (0, clicks)


def test_short_urls_of_the_account_stand_for_their_slashtags(
    cli: Cli, box: Sandbox, keys: list[str], clicks: int
) -> None:
    urls = {url.slashtag: url.short_url for url in box.truth.urls()}
    ran = cli(
        *RANGE,
        "--keys",
        f"{urls[keys[0]]},{urls[keys[1]].upper().split('://')[0]}://{urls[keys[1]].split('://')[1]}/",
    )
    assert (ran.code, total(ran)) == (0, clicks)
    ran = cli(*RANGE, "--keys", "https://elsewhere.example/x")
    assert ran.code == SOME_FAILED
    box.requests.clear()
    ran = cli(*RANGE, "--keys", urls[keys[0]], "--no-check")
    assert (ran.code, len(box.requests)) == (2, 0)
    assert "short URL" in ran.error


def test_slashtags_that_cannot_be_asked_for_are_refused_before_anything_is_sent(
    cli: Cli, box: Sandbox, tmp_path: Path
) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("a,b\n")
    ran = cli(*RANGE, "--keys-file", str(file))
    assert (ran.code, len(box.requests)) == (2, 0)
    assert "'a,b'" in ran.error


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_one_slashtag_with_a_comma_does_not_stop_all(cli: Cli, box: Sandbox, how: tuple[str, ...]) -> None:
    counted = cli(*RANGE, "--all")
    box.add_url("a,b")
    try:
        ran = cli(*RANGE, "--all", *how)
    finally:
        box.remove_url("a,b")
    assert ran.code == SOME_FAILED
    assert "'a,b'" in ran.err
    if not how:
        assert ran.out == counted.out
