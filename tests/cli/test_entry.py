"""The installed script: what it prints, how it ends, what it imports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from slashtag import __version__
from slashtag.cli.app import COMMANDS
from slashtag.sandbox import Sandbox
from tests.support.processes import LONGEST, python, run, wait_until

from .conftest import Cli, Serve

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


@contextmanager
def started(*arguments: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Start the script; kill it at the end."""
    with subprocess.Popen(
        [SCRIPT, *arguments],
        **more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_script_prints_data_and_errors_apart() -> None:
    assert run(SCRIPT, "--version").stdout == f"slashtag {__version__}\n"
    ran = run(SCRIPT, "urls", "list", "--limit", "2")
    assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == [1000001, 1000002]
    assert ran.stderr == ""
    ran = run(SCRIPT, "stats", "2024-01-01..2024-01-02", "--tag", "?")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")


def test_help_names_the_commands_and_imports_nothing_heavy() -> None:
    code = "import sys; from slashtag.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    ran = python("-c", code, "--help")
    assert all(f" {command} " in ran.stdout for command in COMMANDS)
    heavy = {"pyarrow", "altair", "vl_convert", "distributed", "dask", "uvloop", "aiohttp"}
    assert {*heavy, "slashtag.sandbox"}.isdisjoint(ran.stderr.split())


def test_without_a_command_help_is_printed(cli: Cli) -> None:
    assert all("Usage: slashtag" in cli(*words).out for words in ((), ("-h",)))
    assert cli("urls").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(cli: Cli, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    words = {"COMP_WORDS": "slashtag export cl", "COMP_CWORD": "2"}
    typed = {"_TYPER_COMPLETE_ARGS": "slashtag export cl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for name, value in {"_SLASHTAG_COMPLETE": f"complete_{shell}", **words, **typed}.items():
        monkeypatch.setenv(name, value)
    assert "clicks" in cli().out


def test_without_typer_it_says_what_to_install() -> None:
    ran = python("-c", WITHOUT_TYPER)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == 'The command line needs its extra: pip install "slashtag[cli]"\n'


def test_the_sandbox_serves_and_keeps_its_account_until_ctrl_c(tmp_path: Path) -> None:
    account = ("sandbox", "--port", "0", "--store", str(tmp_path / "account.sqlite"))
    for options in ("--urls 7 --clicks 9", "--urls 1"):
        with started(*account, *options.split()) as process:
            assert process.stdout is not None
            assert all(process.stdout.readline().startswith("export SLASHTAG_") for _ in range(3))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=LONGEST)
        assert (process.returncode, "7 links and 9 clicks" in err) == (130, True)


def test_the_sandbox_has_what_is_given(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict[str, Any]()

    def refuse(**options: Any) -> None:
        found.update(options)
        raise ValueError

    monkeypatch.setattr("slashtag.cli.commands.sandbox.Sandbox", refuse)
    given = {"port": 1, "urls": 7, "clicks": 9, "rate": 0.5, "latency": 0.25, "seed": 3, "store": Path("x")}
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    assert cli("sandbox", *options, "--fault", "500", "--fault", "reset").code == 2
    assert [(fault.kind, fault.share) for fault in found["faults"]] == [("500", 0.1), ("reset", 0.1)]
    assert {name: found[name] for name in given} == given


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_are_told_in_one_word(
    serve: Serve, tmp_path: Path, number: int, code: int
) -> None:
    command = ("report", "2024", "-o", "report.html")
    with serve(urls=40, latency=2.0) as slow, started(*command, cwd=tmp_path) as process:
        arrived(slow)
        process.send_signal(number)
        _, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, err) == (code, "stopped\n")
    assert not list(tmp_path.iterdir())


def arrived(box: Sandbox, count: int = 1) -> None:
    """Wait until so many requests have arrived."""
    wait_until(lambda: len(box.requests) >= count)


def test_the_module_is_the_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["slashtag", "--version"])
    with pytest.raises(SystemExit) as ended:
        import_module("slashtag.__main__")
    assert ended.value.code == 0
