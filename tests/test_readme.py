"""What the README shows works: its Python, its commands, its transcript of the demo, its links."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer.main
from benchmarks._measure import Row

import slashtag
from slashtag import cli
from slashtag.cli.app import app
from slashtag.sandbox import Sandbox

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


PYTHON = blocks("python")
SCRIPTS = [block for block in PYTHON if "asyncio.run(" in block]
TESTS = [block for block in PYTHON if "def test_" in block]
FRAGMENTS = [block for block in PYTHON if block not in SCRIPTS + TESTS]
COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """Give the account that the code of the README finds in the environment."""
    with Sandbox(urls=30, clicks=500) as box:
        for slashtag in ("a-slashtag", "another"):
            box.add_url(slashtag)
        box.add_tag("autumn")
        monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
        monkeypatch.setenv("SLASHTAG_APIKEY", box.apikey)
        monkeypatch.setenv("SLASHTAG_APISECRET", box.apisecret)
        yield box


def test_every_block_is_tested() -> None:
    assert len(SCRIPTS) == len(TESTS) == 1
    assert len(FRAGMENTS) == 3
    assert len(re.findall("^```", README, re.M)) == 2 * len(PYTHON + blocks("console"))


def test_the_example_is_short_and_runs(box: Sandbox) -> None:
    (script,) = SCRIPTS
    assert len([line for line in script.splitlines() if line.strip()]) <= 12
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    total = box.truth.range("2024-01-01", "2024-12-31").total_clicks
    assert ran.stderr == ""
    assert ran.stdout.startswith(f"{total} clicks of 32 links; from Germany: ")


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_runs_within_a_session(box: Sandbox, fragment: str) -> None:
    names = {name: getattr(slashtag, name) for name in slashtag.__all__}
    code = compile(fragment, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        async with slashtag.AsyncSession() as session:
            done: Any = eval(code, names | {"session": session})
            if inspect.isawaitable(done):
                await done

    asyncio.run(run())


def test_the_test_passes(tmp_path: Path) -> None:
    (tmp_path / "test_report.py").write_text(TESTS[0], "utf-8")
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        "-W",
        "error",
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_links_and_tags_of_the_commands_are_those_of_the_sandbox() -> None:
    words = [word for line in COMMANDS for word in shlex.split(line)]
    after = list(pairwise(words))
    named = {key for option, value in after if option in ("--keys", "update") for key in value.split(",")}
    # The account of `slashtag sandbox`, whose links do not depend on the clicks.
    with Sandbox(urls=5_000, clicks=0, seed=7) as box:
        links = {name for url in box.truth.urls() for name in (url.slashtag, str(url.id))}
        tags = {tag.name for tag in box.truth.tags()}
    assert {name for name in named if not name.startswith("-")} <= links
    assert {value for option, value in after if option == "--tag"} <= tags


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_real(line: str) -> None:
    for part in line.partition(" > ")[0].split(" | "):
        words = shlex.split(part)
        if words[0] == "slashtag":
            parse(words[1:])
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
        else:
            assert words[0] == "cut"


def parse(words: list[str]) -> None:
    """Parse a command line without running it; raises for an option that does not exist."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("slashtag", list(words))
    while hasattr(command, "commands"):
        command = command.get_command(context, words.pop(0))
        context = command.make_context(command.name, list(words), parent=context)


def leaves(command: Any, *above: str) -> Iterator[str]:
    for name in getattr(command, "commands", {}):
        yield from leaves(command.get_command(None, name), *above, name)
    if not hasattr(command, "commands"):
        yield " ".join(above)


def test_every_command_is_documented() -> None:
    documented = [part for line in COMMANDS for part in line.split("slashtag ", 1)[1:]]
    for name in leaves(typer.main.get_command(app)):
        assert any(part == name or part.startswith(f"{name} ") for part in documented), name


def test_the_transcript_is_what_the_demo_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["demo", "--urls", "1500", "--clicks", "20000", "--rate", "250", "--output", "slashtag-demo"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys, "argv", ["slashtag", *arguments])
    monkeypatch.setattr("slashtag._sending.metrics.Metrics.learned_rate", property(lambda _: 60.0))
    assert cli.main() == 0
    (transcript,) = re.findall(r"\$ make demo\n\S+ demo\n(.*?)\$ make test\n", README, re.S)
    assert shape(transcript) == shape(capsys.readouterr().out)


def shape(text: str) -> list[str]:
    """Leave out what depends on the account, the machine and the width: numbers, tags, spaces, rules."""
    text = re.sub(r"\d[\d,.]*", "0", text.replace("─", ""))
    text = re.sub(r"tag \S+( \S)?(?=  )", "tag", text)
    return text.split()


def test_every_extra_is_documented() -> None:
    table = README.partition("## Extras")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(PROJECT["optional-dependencies"])


def test_links_point_to_files() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_names_in_backticks_exist() -> None:
    errors = set(re.findall(r"`(\w+Error)`", README))
    assert errors <= set(slashtag.__all__)
    everything = {name for name in slashtag.__all__ if name.endswith("Error")}
    assert everything - errors <= {"SlashtagError", "APIError"}


def test_hosts_are_placeholders() -> None:
    hosts = re.findall(r"https?://([\w.-]+)", README + (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert {host for host in hosts if not host.endswith(("example.com", ".example"))} == set()


def test_the_changelog_tells_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{PROJECT['version']}]" in changelog
    assert PROJECT["version"] == slashtag.__version__


def test_the_table_of_results_says_of_each_goal_whether_it_is_met() -> None:
    lines = README.partition("\n## Speed\n")[2].partition("\n## ")[0].splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    rows = [[cell.strip() for cell in row] for row in cells[2:]]
    assert len(rows) > 20
    for what, figure, goal, met in rows:
        assert met == ("yes" if Row(what, float(figure.split()[0]), goal=goal).met else "**no**")
