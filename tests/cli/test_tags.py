"""`slashtag tags`: tags listed, and created once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, answer, objects


def test_a_tag_is_created_once(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    ran = cli("tags", "create", "made here", "--description", "by a test")
    tag = json.loads(ran.out)
    assert (tag["name"], tag["description"]) == ("made here", "by a test")
    ran = cli("tags", "create", "made here")
    assert (ran.code, "already exists" in ran.error) == (1, True)
    assert "to a table" in cli("tags", "create", "to a table", "--format", "table").out
    file = tmp_path / "tag.jsonl"
    assert cli("tags", "create", "to a file", "-o", str(file)).out == ""
    assert json.loads(file.read_text())["name"] == "to a file"
    assert [row["name"] for row in objects(cli("tags", "list").out)] == [tag.name for tag in own.truth.tags()]


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 2)])
def test_a_tag_that_looks_like_another_is_asked_about(
    cli: Cli, own: Sandbox, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    own.add_tag("Black Friday")
    assert cli("tags", "create", "black-friday").code == 2
    assert cli("tags", "create", "bl\u00e4ck friday", "--yes").code == 0
    answer(monkeypatch, typed)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert cli("tags", "create", "black-friday").code == code
