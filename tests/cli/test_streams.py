"""Streams that are closed, full, or read by nobody: no file gets their numbers, no data is lost unsaid."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, Serve
from .test_entry import SCRIPT

WITHOUT_UVLOOP = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "uvloop" else find(name, *more)
from slashtag.cli import main
sys.exit(main())
"""
ALL_CLOSED = "<&- >&- 2>&-"
pytestmark = pytest.mark.usefixtures("environment")


def shell(command: Sequence[str], redirections: str, **more: object) -> subprocess.CompletedProcess[str]:
    """Run a command with these redirections of a shell; a stream that they do not name is captured."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("way", "closed"),
    [
        ([SCRIPT], "2>&-"),
        ([SCRIPT], ALL_CLOSED),
        ([sys.executable, "-c", WITHOUT_UVLOOP], ALL_CLOSED),
    ],
)
def test_a_file_is_whole_whatever_streams_are_closed(way: list[str], closed: str, tmp_path: Path) -> None:
    file = tmp_path / "links.jsonl"
    ran = shell([*way, "export", "urls", "-o", str(file)], closed)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ("130 rows" in ran.stderr) is ("2>&-" not in closed)
    assert [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()] == [
        *range(1000001, 1000131)
    ]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


LISTING, UPDATE = ["urls", "list"], ["urls", "update", "k", "--destination", "https://x.y"]
CREATION = ["tags", "create", "x"]


@pytest.mark.parametrize(
    ("redirection", "command"),
    [
        (">&-", UPDATE),
        (">&- 2>&-", CREATION),
        (">/dev/full", LISTING),
        (">/dev/full", ["--help"]),
        (">&-", ["--version"]),
    ],
)
def test_data_that_nobody_gets_is_an_error_before_anything_is_sent(
    redirection: str, command: list[str], box: Sandbox
) -> None:
    ran = shell([SCRIPT, *command], redirection)
    assert (ran.returncode, ran.stdout) == (1, "")
    if command[0][0] != "-":
        assert ("stdout" in ran.stderr) is ("2>&-" not in redirection)
    assert not list(box.requests)


@pytest.mark.parametrize("command", [LISTING, UPDATE, CREATION])
def test_a_stdout_that_is_closed_is_told_by_each_command(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    write = os.write

    def closed(number: int, data: bytes) -> int:
        if number == 1:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return write(number, data)

    monkeypatch.setattr("os.write", closed)
    ran = cli(*command)
    assert (ran.code, "stdout" in ran.error) == (1, True)
    assert not list(box.requests)


def test_data_is_whole_without_stdin_or_stderr() -> None:
    for closed in ("<&-", "<&- 2>&-"):
        ran = shell([SCRIPT, "urls", "list"], closed)
        assert (ran.returncode, len(ran.stdout.splitlines()), ran.stderr) == (0, 130, "")


def test_nothing_is_read_from_a_stdin_that_is_closed(box: Sandbox) -> None:
    ran = shell([SCRIPT, "login", "--base-url", box.base_url], "<&-")
    assert (ran.returncode, ran.stderr) == (2, "error: no apikey on stdin\n")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_a_stderr_that_takes_nothing_changes_nothing(redirection: str) -> None:
    ran = shell([SCRIPT, "urls", "list", "-vv", "--limit", "3"], redirection)
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 3)


def test_an_error_that_stderr_does_not_take_has_its_exit_code() -> None:
    assert shell([SCRIPT, "tags", "list", "-q", "--nothing"], "2>/dev/full").returncode == 2


def test_a_stderr_that_nobody_reads_changes_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as broken:
        ran = subprocess.run(
            [SCRIPT, "urls", "list", "-vv"], stdout=subprocess.PIPE, stderr=broken, text=True, check=False
        )
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 130)


# --- progress -------------------------------------------------------------------------------------------


def on_terminal(line: str) -> str:
    """What a terminal shows of a line of a shell."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm"
        os.execvp("sh", ["sh", "-c", line.replace("slashtag ", f"'{SCRIPT}' ", 1)])
    shown = b""
    # It ends with an error where nobody writes any more.
    with suppress(OSError):
        while more := os.read(terminal, 65_536):
            shown += more
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return shown.decode()


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("line", "name", "first"),
    [
        ("slashtag urls list | head -n 2", "reading", '{"id":1000001'),
        ("slashtag urls list --format jsonl", "reading", '{"id":1000001'),
        ("slashtag export urls | head -n 1", "exporting", '{"id":1000001'),
        ("slashtag doctor --format jsonl | cat", "checking", '{"check":"credentials"'),
    ],
)
def test_progress_is_gone_before_rows_are_written(serve: Serve, line: str, name: str, first: str) -> None:
    # Slow enough that progress is drawn before the first answer.
    with serve(urls=700, clicks=50, latency=0.2):
        shown = on_terminal(line)
    progress, found, rows = shown.partition(first)
    assert found
    assert name in progress
    # The line was erased, and no later one was drawn.
    assert re.search(r"\x1b\[2K[^━]*$", progress)
    assert "━" not in rows


def test_progress_stays_while_rows_go_to_a_file(serve: Serve, tmp_path: Path) -> None:
    with serve(urls=1_200, clicks=0, latency=0.2):
        shown = on_terminal(f"slashtag urls list > '{tmp_path}/links.jsonl'")
    assert "rows" in shown
    assert re.search(r"reading .* [1-9][\d,]* rows", shown)
    assert len((tmp_path / "links.jsonl").read_bytes().splitlines()) == 1_200


@pytest.mark.parametrize(
    ("name", "options", "is_told"),
    [
        ("x.csv", [], True),
        ("x.xlsx", ["--format", "csv"], True),
        ("x.csv", ["--format", "csv"], False),
        ("x.jsonl", [], False),
        ("x.txt", [], False),
        (None, [], False),
    ],
)
def test_a_terminal_is_told_where_the_shell_writes_another_format(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str | None,
    options: list[str],
    is_told: bool,
) -> None:
    def readlink(path: str) -> str:
        if name is None:
            raise OSError
        return str(tmp_path / name)

    with (tmp_path / "stdout").open("wb") as file:
        monkeypatch.setattr("slashtag.cli.output.os.fstat", lambda _: os.stat(file.name))
        monkeypatch.setattr("slashtag.cli.output.os.readlink", readlink)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        ran = cli("tags", "list", *options)
    assert (ran.code, f"{name} gets" in ran.err) == (0, is_told)
    assert ran.out


def test_the_file_to_which_the_shell_writes_is_found(tmp_path: Path) -> None:
    terminal, other_end = pty.openpty()
    with (tmp_path / "x.csv").open("wb") as file:
        ran = subprocess.run(
            [SCRIPT, "tags", "list"], stdout=file, stderr=other_end, stdin=subprocess.DEVNULL, check=False
        )
    os.close(other_end)
    shown = b""
    with suppress(OSError):  # the terminal's other end is closed
        while chunk := os.read(terminal, 4096):
            shown += chunk
    os.close(terminal)
    assert (ran.returncode, b"x.csv gets" in shown) == (0, True)
    assert (tmp_path / "x.csv").stat().st_size > 0
