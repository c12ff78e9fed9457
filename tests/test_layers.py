"""The structure of the package: imports point down, and each concern has one place.

Each rule is a function that yields the problems of a parsed file. What only one file
may import stands in the settings of the linter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "slashtag"

# A unit is a file or folder of the package. It may import itself and what stands in a line above its own.
LEVELS = [
    {"_errors", "_version", "_wording"},
    {"_files", "_arrow"},
    {"_records"},
    {"_summed_statistics"},
    {"_clicks_table"},
    {"_core"},
    {"_fanout"},
    {"_credentials"},
    {"_saved_logins"},
    {"_journal"},
    {"_sending"},
    {"_resources"},
    {"_session"},
    {"_public", "_internal"},
    {"__init__"},
    {"tables", "counts"},
    {"export", "pytest_plugin"},
    {"bulk_update", "report", "dask", "dlt"},
    {"cli"},
    {"__main__"},
]
LEVEL_OF = {unit: level for level, units in enumerate(LEVELS) for unit in units}
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
HEAVY = {"tenacity", "pyarrow", "altair", "vl_convert", "distributed", "dask", "dlt", "duckdb", "uvloop"}
IMPURE = {
    "aiohttp",
    "anyio",
    "asyncio",
    "concurrent",
    "multiprocessing",
    "random",
    "secrets",
    "select",
    "socket",
}
IMPURE |= {"ssl", "subprocess", "tenacity", "threading", "time", "uuid", "uvloop"}
# Of a module; data files may have more.
MOST_LINES = 450
SAYING_NOTHING = {"utils", "helpers", "common", "base", "manager"}


@dataclass(frozen=True)
class File:
    """A file of the package, named by its path below it."""

    path: str
    text: str

    @property
    def parts(self) -> list[str]:
        """Its module, from the package on: `[]` for the package, `["_core", "call"]`."""
        parts = list(Path(self.path).with_suffix("").parts)
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def unit(self) -> str:
        return self.parts[0] if self.parts else "__init__"

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of its syntax tree, outer ones first."""
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def private_names(self) -> set[str]:
        """Private names that it defines: functions, classes, variables, attributes."""
        names = {str(getattr(node, "name", "")) for node in self.nodes}
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(_last_name(node))
        return {name for name in names if name.startswith("_")}

    @cached_property
    def imports(self) -> list[Import]:
        return list(self._imports())

    def _imports(self) -> Iterator[Import]:
        package = self.parts if self.path.endswith("__init__.py") else self.parts[:-1]
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(node.lineno, alias.name, None)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                for alias in node.names:
                    yield Import(node.lineno, f"{node.module}.{alias.name}", None)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1]
                start = above + (node.module.split(".") if node.module else [])
                for alias in node.names:
                    unit = start[0] if start else alias.name if alias.name in UNITS else "__init__"
                    yield Import(node.lineno, alias.name, unit, ".".join(start))


@dataclass(frozen=True)
class Import:
    """One imported name: of another distribution (dotted), or of a unit and a module of ours."""

    line: int
    name: str
    unit: str | None
    module: str = ""

    @property
    def root(self) -> str:
        return "" if self.unit else self.name.partition(".")[0]


Rule = Callable[[File], Iterator[str]]


def imports_point_down(file: File) -> Iterator[str]:
    if file.unit not in UNITS:
        yield f"{file.unit} has no place in the list of layers"
        return
    for found in file.imports:
        if found.unit is None or found.unit == file.unit:
            continue
        if "sandbox" in (file.unit, found.unit):
            if file.unit not in SANDBOX_USERS:
                yield f"line {found.line}: {file.unit} imports the sandbox"
            elif file.unit == "sandbox":
                yield f"line {found.line}: the sandbox imports {found.unit}"
        elif found.unit not in LEVEL_OF:
            yield f"line {found.line}: {found.unit} has no place in the list of layers"
        elif LEVEL_OF[found.unit] >= LEVEL_OF[file.unit]:
            yield f"line {found.line}: {file.unit} imports {found.unit}, which is not below it"


def satellites_import_declared_names(file: File) -> Iterator[str]:
    if file.unit not in SATELLITES:
        return
    for found in file.imports:
        if found.unit in {None, file.unit, "__init__", "_internal", *LEAVES}:
            continue
        if found.module not in {"", "sandbox", *SATELLITES} or found.name.startswith("_"):
            yield f"line {found.line}: {found.module}.{found.name} is not declared in _internal"


def satellites_use_no_private_members(file: File) -> Iterator[str]:
    """Of others they use those methods of AsyncSession only that are marked for them."""
    if file.unit not in SATELLITES:
        return
    own = {name for each in files() if each.unit == file.unit for name in each.private_names}
    for node in file.nodes:
        if not isinstance(node, ast.Attribute) or not re.match("_(?!_)", node.attr):
            continue
        is_inherited = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        # Of named tuples, and of other distributions.
        if not (is_inherited or node.attr in own | marked_methods() or node.attr == "_replace"):
            yield f"line {node.lineno}: {ast.unparse(node)} is private to another unit"


def imports_of_ours_are_relative(file: File) -> Iterator[str]:
    for found in file.imports:
        if found.root == "slashtag":
            yield f"line {found.line}: {found.name} is not imported relatively"


def core_is_pure(file: File) -> Iterator[str]:
    if file.unit != "_core":
        return
    for found in file.imports:
        foreign = (
            found.root not in {"", "msgspec", "slashtag", "typing_extensions"}
            and found.root not in sys.stdlib_module_names
        )
        if found.root in IMPURE or foreign:
            yield f"line {found.line}: the core imports {found.root}"
    for node in file.nodes:
        if isinstance(node, ast.Call) and _last_name(node.func) in {"now", "today", "utcnow", "print"}:
            yield f"line {node.lineno}: the core reads a clock or does I/O"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"line {node.lineno}: the core is async"


def functions_import_only_heavy_extras(file: File) -> Iterator[str]:
    for function in file.nodes:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = {node.lineno for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)}
        for found in file.imports:
            # --help and other people's test runs do not load what a command or a fixture needs, nor does a
            # session without a journal load sqlite3.
            late = file.unit in {"cli", "pytest_plugin"} and found.unit is not None
            late = late or (file.unit, found.unit) == ("_session", "_journal")
            if found.line in lines and found.root not in HEAVY and not late:
                yield f"line {found.line}: {found.name} is imported inside a function"


def files_are_short(file: File) -> Iterator[str]:
    if (lines := file.text.count("\n")) > MOST_LINES:
        yield f"{lines} lines, more than {MOST_LINES}"


def names_say_what_is_inside(file: File) -> Iterator[str]:
    if SAYING_NOTHING.intersection(part.strip("_") for part in file.parts):
        yield "a name under which anything may stand"


def _last_name(node: ast.expr) -> str:
    """`b` of `b` and of `a.b`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


RULES: list[Rule] = [
    imports_point_down,
    satellites_import_declared_names,
    satellites_use_no_private_members,
    imports_of_ours_are_relative,
    core_is_pure,
    functions_import_only_heavy_extras,
    files_are_short,
    names_say_what_is_inside,
]


@cache
def marked_methods() -> set[str]:
    """The private methods of AsyncSession for what is built on top: those of the section that says so."""
    (session,) = (file for file in files() if file.path == "_session.py")
    section = session.text.partition("    # -- for what is built on top")[2].partition("    # -- ")[0]
    return set(re.findall(r"^    (?:async )?def (\w+)", section, re.MULTILINE))


@cache
def files() -> list[File]:
    """Parse the package, once for all rules."""
    # Not the version that a build has written.
    paths = [path for path in SRC.rglob("*.py") if path.name != "_built.py"]
    return [File(path.relative_to(SRC).as_posix(), path.read_text("utf-8")) for path in paths]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    assert {file.path: found for file in files() if (found := list(rule(file)))} == {}


def test_every_name_that_is_declared_for_satellites_is_used() -> None:
    (declared,) = (file for file in files() if file.path == "_internal.py")
    names = set(re.findall(r"import (\w+) as \1", declared.text))
    assert len(names) <= 10
    used = {found.name for file in files() if file.unit in SATELLITES for found in file.imports}
    assert names - used == set()


def circles(given: Iterable[File]) -> list[str]:
    """Return the modules that import each other, also those inside one folder and for types only."""
    known = {".".join(file.parts): file for file in given}
    graph = {
        module: {
            name if name in known else found.module
            for found in file.imports
            if found.unit is not None and (name := f"{found.module}.{found.name}".lstrip("."))
        }
        - {module}
        for module, file in known.items()
    }
    left = list(graph)
    while left:
        # A module that imports none of the others, or is imported by none, is in no circle.
        imported = {name for module in left for name in graph[module]}
        kept = [module for module in left if module in imported and not graph[module].isdisjoint(left)]
        if kept == left:
            break
        left = kept
    return left


def test_no_modules_import_each_other() -> None:
    assert circles(files()) == []


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
