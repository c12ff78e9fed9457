"""Errors are one line that says what to do, usage errors exit with 2, and no credential is shown."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest

import slashtag
from slashtag.cli import main, run
from slashtag.cli.stderr import Lines
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import forget

from .conftest import Cli, objects

RANGE = ("stats", "range", "2024-01-01", "2024-03-31")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stats", "range", "2024-13-01", "2024-12-31", "--all"), "'2024-13-01' is not a date range"),
        (("stats", "range", "20240101", "2024-12-31", "--all"), "'20240101' is not a date range"),
        (("stats", "range", "2024-01-01T24:00", "2024-12-31", "--all"), "is not a date range"),
        (("stats", "range", "2024-02-01", "2024-01-01", "--all"), "ends"),
        (("stats", "country", "Atlantis", "2024-01-01", "2024-02-01", "--all"), "Atlantis"),
        ((*RANGE, "--keys", "a", "--timezone", "+99:00"), "timezone"),
        ((*RANGE, "--keys", "a", "--timezone", "+2"), "Europe/Berlin"),
        (("stats", "year", "2024", "--keys", "a", "--timezone", "Europe/Berlin"), "offset"),
        (("urls", "update", "a", "--redirect-code", "305"), "305"),
        (("export", "clicks", "2024-02-01", "2024-01-01", "--all"), "ends"),
    ],
)
def test_an_invalid_request_is_wrong_usage_in_one_line(
    cli: Cli, box: Sandbox, arguments: tuple[str, ...], says: str
) -> None:
    before = len(box.requests)
    ran = cli(*arguments)
    assert ran.code == 2
    assert says in ran.error
    assert "base_url" not in ran.error
    assert "tzinfo" not in ran.error
    assert len(box.requests) == before


def test_credentials_that_are_missing_or_wrong_say_what_to_do(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLASHTAG_APISECRET", "another-secret-42")
    ran = cli("urls", "list")
    assert ran.code == 1
    assert ran.error.startswith("error: GET")
    assert ran.error.endswith("check SLASHTAG_APIKEY and SLASHTAG_APISECRET")
    assert "another-secret-42" not in ran.err
    for url, says in {"http://example.com": "--allow-http", "ftp://example.com": "base URL"}.items():
        ran = cli("tags", "list", "--base-url", url)
        assert (ran.code, says in ran.error) == (1, True)
    monkeypatch.delenv("SLASHTAG_BASE_URL")
    monkeypatch.setenv("SLASHTAG_APIKEY", "")
    ran = cli("tags", "list")
    assert ran.code == 1
    assert "SLASHTAG_BASE_URL, SLASHTAG_APIKEY;" in ran.error
    assert "slashtag sandbox" in ran.error


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("lats_month", "last-month"),
        ("octobre", "october"),
        ("this-quater", "this-quarter"),
        ("this-yera", "this-year"),
        ("lastweek", "last-week"),
    ],
)
@pytest.mark.parametrize("command", ["stats", "top", "report -o x.html"])
def test_a_misspelt_span_is_asked_about(cli: Cli, box: Sandbox, command: str, given: str, meant: str) -> None:
    asked = len(box.requests)
    ran = cli(*command.split(), given)
    assert (ran.code, f"(did you mean {meant!r}?)" in ran.error, "2024-q3" in ran.error) == (2, True, True)
    assert len(box.requests) == asked


def test_stats_asks_about_a_misspelt_command_and_says_which_days_there_are(cli: Cli) -> None:
    assert "(did you mean 'country'?)" in cli("stats", "contry").error
    ran = cli("stats", "tuesday")
    assert (ran.code, "2024-q3" in ran.error) == (2, True)


@pytest.mark.parametrize("command", [RANGE, ("urls", "list"), ("export", "clicks", *RANGE[2:])])
def test_a_misspelt_tag_is_asked_about(cli: Cli, box: Sandbox, command: tuple[str, ...]) -> None:
    name = box.truth.tags()[0].name
    ran = cli(*command, "--tag", f"{name[:-1]}{name[-1] * 2}")
    assert ran.code == 2
    assert f"(did you mean {name!r}?)" in ran.error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("export", "clicks", "2024", "--tag", "a", "--all"),
            "only one of --keys, --keys-file, --tag, --untagged and --all",
        ),
        ((*RANGE, "--all", "--keys", "a"), "only one of"),
        ((*RANGE, "--all", "--timezone", "Mars/Olympus"), "such as Europe/Berlin, not 'Mars/Olympus'"),
        ((*RANGE, "--keys-file", "no-such-file"), "no-such-file"),
        (("urls", "list", "--format", "xml"), "error: Invalid value for '--format': 'xml' is not one of"),
        (("urls", "list", "--limit", "-1"), "--limit"),
        (("urls", "lists"), "Did you mean 'list'?; see `slashtag urls --help`"),
        (("stats", "year", "24", "--all"), "1000"),
        (("urls", "list", "--apikey", "x"), "--apikey; see `slashtag urls list --help`"),
        (("export", "clicks", *RANGE[2:], "--keys", "a", "--by", "tag"), "goes with --tag or --all"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    ran = cli(*arguments)
    assert (ran.code, says in ran.error) == (2, True), ran.err


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (slashtag.ServerError("down", status=503, retry_after=30), "asks to wait 30 s"),
        (slashtag.ServerError("down", status=500), "try again later"),
        (slashtag.RateLimitError("slow", status=429), "--rate"),
        (slashtag.NotFoundError("no", status=404), "--base-url"),
        (slashtag.RequestTimeoutError("late"), "--timeout"),
        (slashtag.TransportError("Cannot connect"), "check --base-url and the network"),
        (slashtag.UnexpectedResponseError("not JSON", status=200, excerpt=b"<html>\n"), "--base-url"),
        (slashtag.PaginationError("the listing does not advance"), "does not advance"),
        (OSError("odd"), "odd"),
        (OSError(errno.ENOSPC, "No space left on device", "x.csv"), "x.csv: No space left on device"),
        (slashtag.SlashtagError("a\nb\x1b[31mc\r" + "x" * 300), "a b [31mc xxx"),
    ],
)
def test_each_kind_of_error_is_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], error: Exception, advice: str
) -> None:
    text, code = run.describe(error)
    Lines().error(text)
    (line,) = capsys.readouterr().err.splitlines()
    assert (code, line.isprintable()) == (1, True)
    assert advice in line


def test_what_the_system_refuses_is_one_line(cli: Cli, box: Sandbox) -> None:
    ran = cli("sandbox", "--port", str(box.port), "--urls", "1", "--clicks", "0")
    assert ran.code == 1
    assert ran.error.endswith("choose another with --port")


def test_a_bug_shows_a_traceback_without_credentials_and_has_a_summary(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("slashtag._resources.listing.Resource.list", fail)
    file = tmp_path / "run.json"
    # `cli` looks for credentials in what is printed.
    ran = cli("urls", "list", "--summary", str(file))
    assert ran.code == 1
    assert ran.err.startswith("Traceback")
    assert "RuntimeError: a bug" in ran.err
    found = json.loads(file.read_text("utf-8"))
    assert (found["exit_code"], found["complete"], found["error"]) == (1, False, "RuntimeError: a bug")
    ran = cli("urls", "list", "--log-format", "json")
    line, summary = objects(ran.err)
    assert (ran.code, line["level"], summary["exit_code"]) == (1, "error", 1)
    assert line["traceback"].startswith("Traceback")


def test_whoever_stops_reading_ends_the_command_quietly(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("excepthook", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    # Much output fails while it is written, little when it is flushed at the end.
    for arguments in (["urls", "list"], ["tags", "list"], ["export", "tags"]):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            monkeypatch.setattr(sys, "argv", ["slashtag", *arguments])
            assert main() == 1
    assert capsys.readouterr().err == ""


def test_requests_go_through_a_proxy_where_it_is_asked_for(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sandbox stands in for the proxy: nobody else resolves this name.
    options = ["--proxy", box.base_url.replace("//", "//name:pass-word@")]
    forget(box)
    cli("tags", "list", "--base-url", "http://service.example", "--allow-http", *options)
    assert {arrival.path for arrival in box.requests} == {"http://service.example/api/v1/tags"}
    assert "the credentials in plain http" in cli("tags", "list", *options).error
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert cli("tags", "list").code == 0


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    "proxy",
    ["http://name:pass-word@127.0.0.1:1", "name:pass-word@host", "socks5://name:pass-word@host", "http://"],
)
def test_a_proxy_that_will_not_do_is_told_without_its_password(cli: Cli, proxy: str) -> None:
    ran = cli("tags", "list", "--proxy", proxy, "--allow-http")
    assert ran.code == 1
    assert ("127.0.0.1:1" if proxy.endswith("1") else "such as http://proxy.example:3128") in ran.err
    assert "pass-word" not in ran.err
