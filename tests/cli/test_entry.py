"""The installed script: what it prints, how it ends, what it imports."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from slashtag import __version__
from slashtag.cli import main
from slashtag.sandbox import Sandbox

from .conftest import APIKEY, APISECRET

SCRIPT = str(Path(sys.executable).with_name("slashtag"))
WITHOUT_TYPER = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "typer" else find(name, *more)
from slashtag.cli import main
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def _environment(environment: dict[str, str]) -> None:
    """Set the variables of the account for the script."""


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    more.setdefault("capture_output", True)
    return subprocess.run([SCRIPT, *arguments], text=True, encoding="utf-8", check=False, timeout=60, **more)


@contextmanager
def started(*arguments: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start the script; kill it at the end."""
    with subprocess.Popen(
        [SCRIPT, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_tells_its_version() -> None:
    assert run("--version").stdout == f"slashtag {__version__}\n"


def test_help_names_the_commands_and_imports_nothing_heavy() -> None:
    code = "import sys; from slashtag.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    for command in ("demo", "sandbox", "login", "urls", "tags", "stats", "export", "report", "doctor"):
        assert f" {command} " in ran.stdout
    heavy = {
        "pyarrow",
        "altair",
        "vl_convert",
        "distributed",
        "dask",
        "uvloop",
        "aiohttp",
        "slashtag.sandbox",
    }
    assert heavy.isdisjoint(ran.stderr.split())


def test_help_breaks_no_value_of_an_option_on_a_narrow_terminal() -> None:
    shown = run("login", "--help", env={**os.environ, "COLUMNS": "60"}).stdout
    assert {"inclusive", "exclusive"} <= set(re.findall(r"\w+", shown))


#: The commands and their options, help aside: each is told by `--help`, and each command by the README.
SERVICE = (
    "allow-http base-url concurrency log-every log-format profile proxy quiet range-end rate timeout "
    "trust-env verbose"
)
SELECTION = "all check keys keys-file tag"
FILE = "excel format output"
OPTIONS = {
    "export clicks": f"{SERVICE} {SELECTION} {FILE} fresh by dimensions dry-run last max-failures timezone",
    "export tags": f"{SERVICE} {FILE} fresh",
    "export urls": f"{SERVICE} {FILE} fresh",
    "api": SERVICE,
    "doctor": f"{SERVICE} {FILE} keys",
    "login": f"{SERVICE} list remove status",
    "report": f"{SERVICE} {SELECTION} accent hours last logo output timezone title top",
    "stats alltime": f"{SERVICE} {SELECTION} by dry-run {FILE} timezone",
    "stats country": f"{SERVICE} {SELECTION} by dry-run {FILE} last timezone",
    "stats day": f"{SERVICE} {SELECTION} by dry-run {FILE} timezone",
    "stats range": f"{SERVICE} {SELECTION} by dry-run {FILE} last timezone",
    "stats year": f"{SERVICE} {SELECTION} by dry-run {FILE} timezone",
    "top": f"{SERVICE} {SELECTION} by {FILE} last limit timezone",
    "sync": f"{SERVICE} by-tag dataset destination dimensions lookback max-failures since timezone",
    "tags create": f"{SERVICE} description exist-ok {FILE}",
    "tags list": f"{SERVICE} columns {FILE} limit orderby",
    "urls list": f"{SERVICE} columns created-after {FILE} limit orderby search tag untagged updated-after",
    "diff": f"{FILE} columns",
    "urls update": f"{SERVICE} destination domain-id dry-run {FILE} from keep password redirect-code "
    "repeat-lost results slashtag",
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help_tells_every_option(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys, "argv", ["slashtag", *command.split(), "--help"])
    monkeypatch.setenv("COLUMNS", "120")
    assert main() == 0
    shown = capsys.readouterr().out
    assert set(re.findall(r"^│ \*? *--([\w-]+)", shown, re.M)) == {*OPTIONS[command].split(), "help"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell: str) -> None:
    words = {"COMP_WORDS": "slashtag export cl", "COMP_CWORD": "2"}
    typed = {"_TYPER_COMPLETE_ARGS": "slashtag export cl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ran = run(env={**os.environ, "_SLASHTAG_COMPLETE": f"complete_{shell}", **words, **typed})
    assert "clicks" in ran.stdout


@pytest.mark.parametrize(
    ("shell", "line"), [("bash", "COMPREPLY"), ("zsh", "#compdef slashtag"), ("fish", "complete --command")]
)
def test_the_completion_of_a_named_shell_is_shown(shell: str, line: str) -> None:
    ran = run("--show-completion", shell, env={**os.environ, "SHELL": "/bin/sh"})
    assert (ran.returncode, ran.stderr) == (0, "")
    assert line in ran.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [
        ("urls list", ""),
        ("urls list", "1"),
        ("tags list --limit 1", ""),
        ("export urls", ""),
        ("export tags --format csv", ""),
    ],
)
def test_a_full_disk_behind_stdout_is_one_line(command: str, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        ran = run(
            *command.split(), capture_output=False, stdout=full, stderr=subprocess.PIPE, env=environment
        )
        assert (ran.returncode, ran.stderr) == (1, "error: No space left on device\n")


def test_without_typer_it_says_what_to_install() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TYPER], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == 'The command line needs its extra: pip install "slashtag[cli]"\n'


def test_data_goes_to_stdout_and_errors_to_stderr() -> None:
    ran = run("urls", "list", "--limit", "2")
    assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == [1000001, 1000002]
    assert ran.stderr == ""
    ran = run("stats", "range", "2024-01-01", "2024-01-02", "--tag", "?")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")


def test_slashtags_come_through_a_pipe(box: Sandbox) -> None:
    keys = "\n".join(url.slashtag for url in box.truth.urls())
    ran = run("stats", "range", "2024-01-01", "2024-12-31", "--keys-file", "-", input=keys)
    total = box.truth.range("2024-01-01", "2024-12-31").total_clicks
    assert json.loads(ran.stdout.splitlines()[0])["clicks"] == total


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as stdout:
        ran = run("urls", "list", capture_output=False, stdout=stdout, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (1, "")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_files_are_no_error(closed: tuple[int, ...], tmp_path: Path) -> None:
    closing = "import os, sys; [os.close(n) for n in map(int, sys.argv[1].split(','))]"
    start = [
        sys.executable,
        "-c",
        f"{closing}; os.execv(sys.argv[2], sys.argv[2:])",
        ",".join(map(str, closed)),
    ]
    path = tmp_path / "links.jsonl"
    export = (("export", "urls", "-o", str(path)), 0)
    for command, code in (export, (("tags", "list"), 0), (("tags", "nothing"), 2))[: len(closed)]:
        ran = subprocess.run([*start, SCRIPT, *command], capture_output=True, check=False, timeout=60)
        assert (command, ran.returncode) == (command, code)
    assert all(json.loads(line)["id"] for line in path.read_text("utf-8").splitlines())


def test_a_terminal_gets_a_table() -> None:
    terminal, end = pty.openpty()
    try:
        process = subprocess.Popen([SCRIPT, "tags", "list", "--limit", "1"], stdout=end, stderr=end)
        shown = b""
        while process.poll() is None or select.select([terminal], [], [], 0)[0]:
            if select.select([terminal], [], [], 0.05)[0]:
                shown += os.read(terminal, 4096)
    finally:
        os.close(end)
        os.close(terminal)
    assert process.returncode == 0
    assert "created at" in shown.decode()


def test_the_sandbox_serves_until_ctrl_c() -> None:
    with started("sandbox", "--port", "0", "--urls", "7", "--clicks", "9", "--rate", "90") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().removeprefix("export ").rstrip().split("=", 1) for _ in range(3)]
        named = {name.removeprefix("SLASHTAG_").lower(): value for name, value in lines}
        url = f"{named.pop('base_url')}/api/v1/urls"
        with urlopen(Request(url, headers=named)) as answer:
            assert len(json.load(answer)["data"]["items"]) == 7
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (130, "")
    (line,) = err.splitlines()
    assert "7 links and 9 clicks" in line


def test_the_sandbox_keeps_its_account_and_fails_as_it_is_told(tmp_path: Path) -> None:
    account = ("sandbox", "--port", "0", "--store", str(tmp_path / "account.sqlite"))
    for options in (("--urls", "7", "--clicks", "9", "--seed", "3"), ("--fault", "500", "--fault", "reset")):
        with started(*account, *options) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3)]
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=100)
        assert all(line.startswith("export SLASHTAG_") for line in lines)
        assert "7 links and 9 clicks" in err
    with started(*account, "--fault", "meteor") as process:
        assert "meteor" in process.communicate(timeout=100)[1]
    assert process.returncode == 2


def test_the_demo_ends_cleanly_at_ctrl_c(tmp_path: Path) -> None:
    with started("demo", "--urls", "300", "--clicks", "900", "--rate", "3", cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ("stats", "range", "2022-01-01", "2024-12-31", "--all"),
        ("report", "2022-01-01", "2024-12-31", "-o", "report.html"),
        ("export", "clicks", "2022-01-01", "2024-12-31", "--all"),
    ],
)
def test_ctrl_c_is_told_in_one_word(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sandbox(urls=40, clicks=9, apikey=APIKEY, apisecret=APISECRET, latency=2.0) as slow:
        monkeypatch.setenv("SLASHTAG_BASE_URL", slow.base_url)
        with started(*command, cwd=tmp_path) as process:
            end = time.monotonic() + 30
            while not slow.requests and time.monotonic() < end:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, "stopped\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_before_a_command_begins_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("slashtag.cli.app.app", interrupt)
    assert main() == 130
