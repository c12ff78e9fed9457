"""`slashtag tags`: tags listed, and created once."""

from __future__ import annotations

import json
from pathlib import Path

from slashtag.sandbox import Sandbox

from .conftest import Cli, objects


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
