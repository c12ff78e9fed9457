"""The structure of the package: imports point down, and each concern has one place.

Each rule yields the problems of a parsed file. What only one file may import stands in the settings of the
linter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "slashtag"

# A unit is a file or folder of the package. It may import itself and what stands in a line above its own.
LEVELS = """
_errors _version _wording
_files _arrow
_records
_summed_statistics
_clicks_table
_core
_fanout
_credentials
_saved_logins
_journal
_sending
_resources
_session
_public _internal
__init__
tables counts
export pytest_plugin
bulk_update report dask dlt
cli
__main__
"""
LEVEL_OF = {unit: level for level, units in enumerate(LEVELS.split("\n")) for unit in units.split()}
UNITS = {*LEVEL_OF, "sandbox"}
SANDBOX_USERS = {"sandbox", "pytest_plugin", "cli"}
# Packages around the client. They import public names, and of the internal ones those that `_internal` lists.
SATELLITES = {
    "bulk_update",
    "cli",
    "counts",
    "dask",
    "dlt",
    "export",
    "report",
    "tables",
}
#: Modules that know nothing of the service, which satellites may import too.
LEAVES = {"_arrow", "_files", "_saved_logins", "_wording"}
HEAVY = {
    "tenacity",
    "platformdirs",
    "pyarrow",
    "altair",
    "vl_convert",
    "distributed",
    "dask",
    "dlt",
    "duckdb",
    "uvloop",
}
#: Of the standard library, what the core may not import, beside all of other distributions but these.
IMPURE = {"asyncio", "concurrent", "multiprocessing", "random", "secrets", "select", "socket", "ssl"}
IMPURE |= {"subprocess", "threading", "time", "uuid"}
OF_THE_CORE = {"msgspec", "typing_extensions"}
MOST_LINES = 400
SAYING_NOTHING = {"utils", "helpers", "common", "base", "manager"}


class Import(NamedTuple):
    """An imported name; `module` is that of ours that has it, without the package, or None."""

    line: int
    name: str
    module: str | None

    @property
    def unit(self) -> str:
        """The unit of ours, or the distribution."""
        if self.module is None:
            return self.name.partition(".")[0]
        return self.module.partition(".")[0] or (self.name if self.name in UNITS else "__init__")


class File:
    """A parsed file of the package."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text("utf-8")
        parts = path.relative_to(SRC).with_suffix("").parts
        package = parts[:-1]
        self.module = ".".join(package if parts[-1] == "__init__" else parts)
        self.unit = self.module.partition(".")[0] or "__init__"
        self.nodes = list(ast.walk(ast.parse(self.text)))
        self.imports = list[Import]()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                self.imports += [Import(node.lineno, alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1]
                name = ".".join([*above * (node.level > 0), *filter(None, [node.module])])
                for alias in node.names:
                    ours = node.level > 0
                    found = alias.name if ours else f"{name}.{alias.name}"
                    self.imports.append(Import(node.lineno, found, name if ours else None))

    def private_names(self) -> set[str]:
        """The private names that it defines: functions, classes, variables, attributes."""
        names = {str(getattr(node, "name", "")) for node in self.nodes}
        stored = (node for node in self.nodes if isinstance(getattr(node, "ctx", None), ast.Store))
        names |= {getattr(node, "id", "") or getattr(node, "attr", "") for node in stored}
        return {name for name in names if name.startswith("_")}


#: Not the version that a build has written.
FILES = [File(path) for path in sorted(SRC.rglob("*.py")) if path.name != "_built.py"]


def imports_point_down(file: File) -> Iterator[str]:
    if file.unit not in UNITS:
        yield "it has no place in the list of layers"
        return
    for found in file.imports:
        if found.module is None or found.unit == file.unit:
            if found.unit == "slashtag":
                yield f"line {found.line}: not imported relatively"
        elif "sandbox" in (file.unit, found.unit):
            if file.unit == "sandbox" or file.unit not in SANDBOX_USERS:
                yield f"line {found.line}: imports between {file.unit} and {found.unit}"
        elif LEVEL_OF.get(found.unit, len(LEVEL_OF)) >= LEVEL_OF[file.unit]:
            yield f"line {found.line}: {found.unit} is not below"


def satellites_use_what_is_public_or_meant_for_them(file: File) -> Iterator[str]:
    """Of AsyncSession they use those private methods only that are marked for them."""
    if file.unit not in SATELLITES:
        return
    for found in file.imports:
        if found.module is None or found.unit in {file.unit, "__init__", "_internal", *LEAVES}:
            continue
        if found.module not in {"", "sandbox", *SATELLITES} or found.name.startswith("_"):
            yield f"line {found.line}: {found.module}.{found.name} is not declared in _internal"
    session = next(each.text for each in FILES if each.module == "_session")
    section = session.partition("    # -- for what is built on top")[2].partition("    # -- ")[0]
    known = {"_replace", *re.findall(r"^    (?:async )?def (\w+)", section, re.MULTILINE)}
    known |= {name for each in FILES if each.unit == file.unit for name in each.private_names()}
    for node in file.nodes:
        if not isinstance(node, ast.Attribute) or not re.match("_(?!_)", node.attr) or node.attr in known:
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
            yield f"line {node.lineno}: {ast.unparse(node)} is private to another unit"


def core_is_pure(file: File) -> Iterator[str]:
    if file.unit != "_core":
        return
    for found in file.imports:
        is_known = found.unit in sys.stdlib_module_names | OF_THE_CORE and found.unit not in IMPURE
        if found.module is None and not is_known:
            yield f"line {found.line}: the core imports {found.unit}"
    for node in file.nodes:
        called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if called in {"now", "today", "utcnow", "print"}:
            yield f"line {node.lineno}: the core reads a clock or does I/O"
        if isinstance(node, ast.AsyncFunctionDef):
            yield f"line {node.lineno}: the core is async"


def functions_import_only_heavy_extras(file: File) -> Iterator[str]:
    """But --help and other people's test runs do not load all, nor a session without a journal sqlite3."""
    functions = (node for node in file.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    inside = {getattr(node, "lineno", 0) for each in functions for node in ast.walk(each)}
    for found in file.imports:
        late = file.unit in {"cli", "pytest_plugin"} and found.module is not None
        late = late or (file.unit, found.unit) == ("_session", "_journal")
        if found.line in inside and found.unit not in HEAVY and not late:
            yield f"line {found.line}: {found.name} is imported inside a function"


def files_are_short_and_their_names_say_what_is_inside(file: File) -> Iterator[str]:
    if (lines := file.text.count("\n")) > MOST_LINES:
        yield f"{lines} lines, more than {MOST_LINES}"
    if SAYING_NOTHING.intersection(part.strip("_") for part in file.module.split(".")):
        yield "a name under which anything may stand"


RULES: list[Callable[[File], Iterator[str]]] = [
    imports_point_down,
    satellites_use_what_is_public_or_meant_for_them,
    core_is_pure,
    functions_import_only_heavy_extras,
    files_are_short_and_their_names_say_what_is_inside,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Callable[[File], Iterator[str]]) -> None:
    assert {file.module: found for file in FILES if (found := list(rule(file)))} == {}


def test_every_name_that_is_declared_for_satellites_is_used() -> None:
    declared = next(file.text for file in FILES if file.module == "_internal")
    names = set(re.findall(r"import (\w+) as \1", declared))
    assert len(names) <= 10
    used = {found.name for file in FILES if file.unit in SATELLITES for found in file.imports}
    assert names - used == set()


def test_no_modules_import_each_other() -> None:
    """Also inside one folder, and for types only."""
    known = {file.module for file in FILES}
    graph = {file.module: set[str]() for file in FILES}
    for file in FILES:
        for found in file.imports:
            if found.module is not None:
                name = f"{found.module}.{found.name}".lstrip(".")
                graph[file.module].add(name if name in known else found.module)
        graph[file.module].discard(file.module)
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_drawing_of_the_layers_has_their_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawn = re.findall(r"(\w+)(?:\.py|/)", page.partition("```text\n")[2].partition("```")[0])
    assert set(drawn) == UNITS - {"__main__"}
    levels = [LEVEL_OF[unit] for unit in drawn if unit != "sandbox"]
    assert levels == sorted(levels, reverse=True)


def test_folders_of_tests_are_those_of_the_package() -> None:
    def folders(root: Path) -> set[str]:
        return {path.parent.relative_to(root).as_posix() for path in root.rglob("*.py")} - {"."}

    # Commands are tested as the command line has them.
    expected = {path.removeprefix("_") for path in folders(SRC)} - {"cli/commands"}
    assert folders(ROOT / "tests") - {"support"} == expected
