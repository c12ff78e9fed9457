"""The public names, and what the sandbox may import."""

import ast
from pathlib import Path

import pytest

import slashtag.sandbox

FOLDER = Path(slashtag.sandbox.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_imports_nothing_of_the_client(path: Path) -> None:
    depth = len(path.relative_to(FOLDER).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not [alias.name for alias in node.names if alias.name.split(".")[0] == "slashtag"]
        if isinstance(node, ast.ImportFrom):
            assert node.level <= depth
            assert node.level or (node.module or "").split(".")[0] != "slashtag"


def test_the_truth_shares_no_question_with_the_endpoints() -> None:
    tree = ast.parse((FOLDER / "truth.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
    assert modules == {"store"}
