"""Errors are one line that says what to do, usage errors exit with 2, and no credential is shown."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from pathlib import Path

import pytest

import slashtag
from slashtag.cli import errors, main
from slashtag.cli.lines import Lines
from slashtag.sandbox import Fault, Sandbox

from .conftest import APIKEY, APISECRET, Cli

RANGE = ("stats", "range", "2024-01-01", "2024-03-31")


def test_missing_variables_are_named_all_at_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLASHTAG_BASE_URL")
    monkeypatch.setenv("SLASHTAG_APIKEY", "")
    ran = cli("tags", "list")
    assert ran.code == 1
    assert "SLASHTAG_BASE_URL, SLASHTAG_APIKEY;" in ran.error
    assert "slashtag sandbox" in ran.error


def test_wrong_credentials_say_which_variables_to_check(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLASHTAG_APISECRET", "another-secret-42")
    ran = cli("urls", "list")
    assert ran.code == 1
    assert ran.error.startswith("error: GET")
    assert ran.error.endswith("check SLASHTAG_APIKEY and SLASHTAG_APISECRET")
    assert "another-secret-42" not in ran.err


def test_an_unknown_tag_says_where_the_tags_are(cli: Cli) -> None:
    ran = cli(*RANGE, "--tag", "no such tag")
    assert ran.code == 2
    assert "`slashtag tags list`" in ran.error


@pytest.mark.parametrize("command", [RANGE, ("urls", "list"), ("export", "clicks", *RANGE[2:])])
def test_a_misspelt_tag_is_asked_about(cli: Cli, box: Sandbox, command: tuple[str, ...]) -> None:
    name = box.truth.tags()[0].name
    ran = cli(*command, "--tag", f"{name[:-1]}{name[-1] * 2}")
    assert ran.code == 2
    assert f"(did you mean {name!r}?)" in ran.error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stats", "range", "2024-13-01", "2024-12-31", "--all"), "'2024-13-01' is not a date range"),
        (("stats", "range", "20240101", "2024-12-31", "--all"), "'20240101' is not a date range"),
        (("stats", "range", "2024-01-01T24:00", "2024-12-31", "--all"), "is not a date range"),
        (("stats", "range", "2024-02-01", "2024-01-01", "--all"), "ends"),
        (("stats", "country", "Germany", "2024-01-01", "2024-02-01", "--all"), "Germany"),
        ((*RANGE, "--keys", "a", "--timezone", "+99:00"), "timezone"),
        ((*RANGE, "--keys", "a", "--timezone", "+2"), "Europe/Berlin"),
        (("stats", "year", "2024", "--keys", "a", "--timezone", "Europe/Berlin"), "offset"),
        (("tags", "list", "--base-url", "http://example.com"), "allow http"),
        (("tags", "list", "--base-url", "ftp://example.com"), "base URL"),
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


@pytest.mark.parametrize("command", [RANGE, ("export", "clicks", *RANGE[2:]), ("report", *RANGE[2:])])
@pytest.mark.parametrize(
    "selection", [("--keys", ""), ("--keys", ","), ("--keys-file", "-"), ("--keys-file",)]
)
def test_no_slashtags_at_all_are_refused_before_anything_is_sent(
    cli: Cli,
    box: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    selection: tuple[str, ...],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    (tmp_path / "keys").write_text("\ufeff\r\n \n", "utf-8")
    if len(selection) == 1:
        selection = (*selection, str(tmp_path / "keys"))
    target = tmp_path / "c.html"
    if command[0] == "export":
        target = tmp_path / "c.csv"
    if command[0] != "stats":
        command = (*command, "-o", str(target))
    target.write_text("of an earlier run")
    before = len(box.requests)
    ran = cli(*command, *selection)
    assert ran.code == 2
    assert "holds no slashtags" in ran.error
    assert target.read_text() == "of an earlier run"
    assert len(box.requests) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (RANGE, "exactly one of --keys, --keys-file, --tag and --all"),
        ((*RANGE, "--all", "--keys", "a"), "exactly one of"),
        ((*RANGE, "--all", "--timezone", "Mars/Olympus"), "such as Europe/Berlin, not 'Mars/Olympus'"),
        ((*RANGE, "--all", "--timezone", "../x"), "such as Europe/Berlin"),
        ((*RANGE, "--keys-file", "no-such-file"), "no-such-file"),
        (("urls", "list", "--format", "xml"), "xml"),
        (("urls", "list", "--limit", "-1"), "--limit"),
        (("urls", "lists"), "lists"),
        (("stats", "year", "24", "--all"), "1000"),
        (("urls", "list", "--apikey", "x"), "--apikey"),
        (("urls", "list", "--concurrency", "0"), "--concurrency"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    ran = cli(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert says in " ".join(ran.err.replace("│", " ").split())


def test_a_file_of_slashtags_must_be_text(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"fine\nfine too\nnot \xff\xfe\xfa\n")
    ran = cli(*RANGE, "--keys-file", str(tmp_path / "keys"))
    assert ran.code == 2
    assert f"{tmp_path / 'keys'}, line 3: not UTF-8 text" in ran.error


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
    ],
)
def test_each_kind_of_error_says_what_to_do(error: slashtag.SlashtagError, advice: str) -> None:
    assert advice in errors.describe(error)[0]


def test_an_error_stays_one_line_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    error = slashtag.SlashtagError("a\nb\x1b[31mc\r" + "x" * 300)
    error.add_note("while\tasking")
    Lines().print(errors.describe(error)[0])
    (line,) = capsys.readouterr().err.splitlines()
    assert "\x1b" not in line
    assert line.endswith("; while asking")


def test_a_failing_service_is_reported_without_a_traceback(cli: Cli, box: Sandbox) -> None:
    box.faults = [Fault(kind="envelope-400", path="/api/v1/tags")]
    try:
        ran = cli("tags", "list")
    finally:
        box.faults = ()
    assert ran.code == 1
    assert ran.error.startswith("error: GET")


def test_what_the_system_refuses_is_one_line(cli: Cli, box: Sandbox) -> None:
    ran = cli("sandbox", "--port", str(box.port), "--urls", "1", "--clicks", "0")
    assert ran.code == 1
    assert ran.error.endswith("choose another with --port")


def test_an_error_of_the_system_is_reported_as_it_is() -> None:
    assert errors.describe(OSError("odd")) == ("odd", 1)
    full = OSError(errno.ENOSPC, "No space left on device", "x.csv")
    assert errors.describe(full) == ("x.csv: No space left on device", 1)


def test_a_bug_shows_a_traceback_without_credentials(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("slashtag._resources.listing.Resource.list", fail)
    with pytest.raises(RuntimeError) as caught:
        cli("urls", "list")
    sys.excepthook(RuntimeError, caught.value, caught.tb)
    shown = capsys.readouterr().err + "".join(traceback.format_exception(caught.value))
    assert "a bug" in shown
    assert APIKEY not in shown
    assert APISECRET not in shown


def test_whoever_stops_reading_ends_the_command_quietly(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("excepthook", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    # Much output fails while it is written, little when it is flushed at the end.
    for arguments in (["urls", "list"], ["tags", "list", "--limit", "1"], ["export", "tags"]):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            monkeypatch.setattr(sys, "argv", ["slashtag", *arguments])
            assert main() == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("environment_says", [False, True])
def test_requests_go_through_a_proxy(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch, environment_says: bool
) -> None:
    # The sandbox stands in for the proxy: nobody else resolves this name.
    monkeypatch.setenv("SLASHTAG_BASE_URL", "http://service.example")
    monkeypatch.setenv("http_proxy", box.base_url)
    options = (
        ["--trust-env"] if environment_says else ["--proxy", box.base_url.replace("//", "//name:pass-word@")]
    )
    cli("tags", "list", "--allow-http", *options)
    assert {arrival.path for arrival in box.requests} == {"http://service.example/api/v1/tags"}
    assert "the credentials in plain http" in cli("tags", "list", "--base-url", box.base_url, *options).error


@pytest.mark.usefixtures("quick_retries")
def test_a_proxy_is_used_only_where_it_is_asked_for(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert cli("tags", "list").code == 0
    monkeypatch.setenv("SLASHTAG_PROXY", "http://name:pass-word@127.0.0.1:1")
    ran = cli("tags", "list", "--allow-http")
    assert ran.code == 1
    assert "127.0.0.1:1" in ran.err
    assert "pass-word" not in ran.err


@pytest.mark.parametrize("proxy", ["name:pass-word@host", "socks5://name:pass-word@host", "http://", "x"])
def test_a_proxy_that_is_none_is_refused_without_showing_it(cli: Cli, proxy: str) -> None:
    ran = cli("tags", "list", "--proxy", proxy)
    assert ran.error == "error: the proxy must be a URL such as http://proxy.example:3128"
