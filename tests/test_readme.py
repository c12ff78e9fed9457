"""README and docs: their Python runs, their commands parse, their links resolve, their tables agree."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from benchmarks._measure import Row

import slashtag
from slashtag.cli.app import make_app
from slashtag.sandbox import Sandbox

from .cli.test_options import TREE
from .support.processes import python

ROOT = Path(__file__).parent.parent
APP: Any = typer.main.get_command(make_app())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FILES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in FILES}
README = PAGES["README.md"]
SPEED = PAGES["docs/speed.md"]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


PYTHON = [(page, block) for page, text in PAGES.items() for block in blocks("python", text)]
SCRIPTS = [(page, block) for page, block in PYTHON if "asyncio.run(" in block]
TESTS = [(page, block) for page, block in PYTHON if "def test_" in block]
#: Other blocks of a page run one after the other, within one session.
FRAGMENTS = {
    page: [block for of, block in PYTHON if of == page and (page, block) not in SCRIPTS + TESTS]
    for page in PAGES
}
COMMANDS = [
    line[2:]
    for text in PAGES.values()
    for block in blocks("console", text)
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """Serve the account that the code of the pages finds in the environment."""
    with Sandbox(urls=30, clicks=500) as box:
        for slashtag in ("a-slashtag", "another"):
            box.add_url(slashtag)
        box.add_tag("autumn")
        monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
        monkeypatch.setenv("SLASHTAG_APIKEY", box.apikey)
        monkeypatch.setenv("SLASHTAG_APISECRET", box.apisecret)
        yield box


@pytest.mark.parametrize(("page", "script"), SCRIPTS, ids=[page for page, _ in SCRIPTS])
def test_a_script_runs(box: Sandbox, page: str, script: str) -> None:
    ran = python("-W", "error", "-c", script)
    assert (ran.returncode, ran.stderr) == (0, "")
    if page == "README.md":
        total = box.truth.range("2024-01-01", "2024-12-31").total_clicks
        assert ran.stdout.startswith(f"{total} clicks of 32 links; from Germany: ")


@pytest.mark.parametrize("page", [page for page, found in FRAGMENTS.items() if found])
def test_the_code_of_a_page_runs_within_a_session(
    box: Sandbox, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = list[object]()
    names: dict[str, Any] = {name: getattr(slashtag, name) for name in slashtag.__all__}
    names["print"] = lambda *values, sep=" ": printed.append(values)

    async def run() -> None:
        async with slashtag.AsyncSession() as session:
            names["session"] = session
            for fragment in FRAGMENTS[page]:
                code = compile(fragment, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                printed.clear()
                done: Any = eval(code, names)
                if inspect.isawaitable(done):
                    await done
                # An example of an error raises it, and prints it.
                assert printed or not re.search("^except ", fragment, re.M), fragment

    asyncio.run(run())


def test_the_tests_of_the_pages_pass(tmp_path: Path) -> None:
    for n, (_, test) in enumerate(TESTS):
        (tmp_path / f"test_{n}.py").write_text(test, "utf-8")
    options = (
        *("-q", "-p", "no:cacheprovider", "-W", "error"),
        *("-o", "asyncio_default_fixture_loop_scope=function"),
    )
    ran = python("-m", "pytest", *options, tmp_path, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{sum(test.count('def test_') for _, test in TESTS)} passed" in ran.stdout


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_a_command_is_real(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"[\w-]+\.(?:csv|xlsx|json)", line):
        Path(name).touch()
    for part in line.partition(" > ")[0].split(" | "):
        words = shlex.split(part)
        if words[0] == "slashtag":
            parse(words[1:])
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
        elif words[:2] == ["pip", "install"]:
            extras = re.findall(r"\[(.*)\]", words[2])
            assert set(",".join(extras).split(",")) - {""} <= set(PROJECT["optional-dependencies"])
        else:
            assert words[0] == "cut"


def parse(words: list[str]) -> None:
    """Parse a command line without running it; raises for an option that does not exist."""
    command = APP
    context = command.make_context("slashtag", list(words))
    while hasattr(command, "commands"):
        _, command, words = command.resolve_command(context, words)
        context = command.make_context(command.name, list(words), parent=context)
    context.close()


def test_every_command_is_documented() -> None:
    documented = [part for line in COMMANDS for part in line.split("slashtag ", 1)[1:]]
    for name in TREE:
        assert any(part == name or part.startswith(f"{name} ") for part in documented), name


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[page]):
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text("utf-8")), target


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(page.removeprefix("docs/") for page in PAGES if page.startswith("docs/"))


def test_sections_of_the_service_that_the_code_cites_exist() -> None:
    sections = set(re.findall(r"^#+ (.+)$", PAGES["docs/service.md"], re.M))
    cited = {
        section
        for path in (ROOT / "src").rglob("*.py")
        for found in re.findall(r"docs/service\.md, ([^.]+)\.", path.read_text("utf-8"))
        for section in re.split(r"; ", " ".join(found.split()))
    }
    assert len(cited) > 10
    assert cited <= sections


ARCHITECTURE = PAGES["docs/architecture.md"]
SRC = ROOT / "src" / "slashtag"


def names_in_code() -> Iterator[tuple[str, Path | None]]:
    """Each name in backticks of a row or an item of the architecture, and the file that stands before it."""
    for item in re.findall(r"^(?:\||\d+\. |- ).*(?:\n +\S.*)*", ARCHITECTURE, re.M):
        file = None
        for name in re.findall(r"`([^`]+)`", item):
            if "/" in name or name.endswith(".py"):
                (file,) = [root / name for root in (ROOT, SRC) if (root / name).exists()]
            elif re.fullmatch(r"[A-Za-z_][\w.]*", name):
                yield name, file


@cache
def defined(file: Path) -> set[str]:
    """The names that a file defines, those of its classes as `Class.name`."""
    found = set[str]()

    def read(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.update((prefix + child.name, child.name))
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                found.update((prefix + child.id, child.id))
            read(child, f"{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    read(ast.parse(file.read_text("utf-8")), "")
    return found


def test_the_number_of_files_that_suffice_for_a_trace() -> None:
    """It is that of the files in bold, with those of the traces that it names."""
    bold = dict[str, set[str]]()
    for title, text in re.findall(r"^## (One .*)\n((?:(?!## ).*\n)+)", ARCHITECTURE, re.M):
        (number,) = re.findall(r"(\d+) files suffice", text)
        (told,) = re.findall(r"files suffice[:,] .*", text)
        named = [of for name, of in bold.items() if name.lower() in told or "all traces" in told]
        bold[title] = set(re.findall(r"\*\*`([^`]+)`\*\*", text)).union(*named)
        assert len(bold[title]) == int(number), title
    assert bold


def test_what_the_architecture_finds_in_a_file_is_there() -> None:
    """A file that its tables, traces and lists name exists, and defines the names that stand after it."""
    for name, file in names_in_code():
        assert file is None or name in defined(file), (name, file)


def test_every_error_is_documented() -> None:
    errors = {error for text in PAGES.values() for error in re.findall(r"`(\w+Error)\b", text)}
    everything = {name for name in slashtag.__all__ if name.endswith("Error") and name != "OnError"}
    assert everything <= errors


def rows(text: str) -> list[list[str]]:
    """The rows of the table of measurements of a page."""
    table = text.partition("| what | figure | goal | met |\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_table_of_results_says_of_each_goal_whether_it_is_met() -> None:
    measured = rows(SPEED)
    for what, figure, goal, met in measured:
        assert met == ("yes" if Row(what, float(figure.split()[0]), goal=goal).met else "**no**")
    assert measured
    assert all(row in measured for row in rows(README))
