"""Errors are one line that says what to do; the exit code tells their kind; no credential is shown."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

import slashtag
from slashtag import RangeStats
from slashtag.cli import errors, main
from slashtag.cli.run import Run
from slashtag.cli.stderr import Lines
from slashtag.sandbox import Sandbox
from tests.support.tables import cells

from .conftest import Cli, objects

ERRORS: list[tuple[Exception, int, str]] = [
    (slashtag.ServerError("down", status=503, retry_after=30), 1, "wait 30 s"),
    (slashtag.RateLimitError("slow", status=429), 1, "--rate"),
    (slashtag.AuthenticationError("no", status=401), 1, "slashtag login"),
    (slashtag.RequestTimeoutError("late"), 1, "SLASHTAG_TIMEOUT"),
    (slashtag.TransportError("Cannot connect"), 1, "SLASHTAG_PROXY"),
    (slashtag.OutcomeUnknownError("lost"), 1, "before you repeat it"),
    (slashtag.UnknownTagError("no", status=400), 2, "tags list"),
    (slashtag.InvalidRequestError("no such day"), 2, "no such day"),
    (slashtag.SlashtagError("a\nb\x1b[31mc\r" + "x" * 300), 1, "a b [31mc xxx"),
    (OSError(errno.ENOSPC, "No space left on device", "x.csv"), 1, "x.csv: No space left on device"),
]


@pytest.mark.parametrize(("error", "code", "advice"), ERRORS)
def test_each_kind_of_error_is_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int, advice: str
) -> None:
    assert errors.report(error, Lines())[1] == code
    (line,) = capsys.readouterr().err.splitlines()
    assert (line.isprintable(), advice in line) == (True, True)


#: What is typed, and a part of the error.
USAGE = """
urls lists                               | `slashtag urls --help`
urls list --format xml                   | --format
urls list --apikey x                     | --apikey
export clicks 2024-02-01..2024-01-01     | ends
stats 2024 --keys-file no-such-file      | no-such-file
sandbox --latency -1                     | --latency
sandbox --fault meteor                   | meteor
stats range 2024-06                      | 2024-06-01..2024-06-30
stats country GB 2024-06                 | --country CC
stats last month                         | last-month
top alltime                              | slashtag stats alltime
stats 2024 --base-url x                  | SLASHTAG_BASE_URL
stats --since 2024-06-01                 | 2024-06-01..2024-06-30
stats 2024 --keys-file /dev/null -o /dev/null | another file
urls update --from /dev/null -o /dev/null | another file
diff /dev/zero /dev/null -o /dev/null    | another file
"""


@pytest.mark.parametrize(("arguments", "says"), cells(USAGE))
def test_wrong_usage_exits_with_2_and_sends_nothing(
    cli: Cli, box: Sandbox, arguments: str, says: str
) -> None:
    ran = cli(*arguments.split())
    assert (ran.code, says in ran.error) == (2, True), ran.err
    assert not list(box.requests)


def ended(work: Callable[[Run], object]) -> int:
    """Return the exit code of a command that does some work."""
    run = Run(None, None, 0, quiet=True)
    try:
        with run.running("slashtag stats"):
            work(run)
    except typer.Exit as end:
        return end.exit_code
    return 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (slashtag.ServerError("down", status=500), 3),
        (slashtag.RequestTimeoutError("late"), 3),
        (slashtag.TransportError("Cannot connect"), 1),
    ],
)
def test_a_failure_is_left_out_unless_the_service_is_not_reached(
    environment: dict[str, str], error: slashtag.SlashtagError, code: int
) -> None:
    assert ended(lambda run: run.note_failure(slashtag.Failure("x", error))) == code


CUT = {name: {"one": 3} for name in RangeStats.SUMS} | {"country": {"DE": 2}}


@pytest.mark.parametrize(
    ("members", "by", "code"),
    [
        ({"missing": 1}, "tag", 3),
        ({"reconciles": False}, "tag", 3),
        (CUT, "country", 3),
        (CUT, "device", 0),
    ],
)
def test_figures_that_are_not_whole_end_with_3(
    environment: dict[str, str], members: dict[str, Any], by: str, code: int
) -> None:
    stats = RangeStats(total_clicks=3, **members)
    assert ended(lambda run: run.note_statistics(stats, [by])) == code


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_bug_shows_a_traceback_without_credentials(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("slashtag._resources.listing.Resource.list", fail)
    monkeypatch.setenv("SLASHTAG_LOG_FORMAT", form)
    # `cli` looks for credentials in what is printed.
    ran = cli("urls", "list")
    assert (ran.code, "RuntimeError: a bug" in ran.err) == (1, True)
    if form == "json":
        line, summary = objects(ran.err)
        assert (line["level"], summary["exit_code"], summary["error"]) == ("error", 1, "RuntimeError: a bug")
        assert line["traceback"].startswith("Traceback")


def test_whoever_stops_reading_ends_the_command_quietly(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("excepthook", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    # Much output fails while it is written, little when it is flushed at the end.
    for arguments in (["urls", "list"], ["tags", "list"]):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            monkeypatch.setattr(sys, "argv", ["slashtag", *arguments])
            assert main() == 1
    assert capsys.readouterr().err == ""
