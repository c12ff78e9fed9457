"""`slashtag tags`: tags listed, and created once."""

from __future__ import annotations

import json

from slashtag.sandbox import Sandbox

from .conftest import Cli, objects


def test_a_tag_is_created_once_and_shown(cli: Cli, own: Sandbox) -> None:
    tag = json.loads(cli("tags", "create", "made here", "--description", "by a test").out)
    assert (tag["name"], tag["description"]) == ("made here", "by a test")
    assert cli("tags", "create", "made here").code == 1
    assert [row["name"] for row in objects(cli("tags", "list").out)] == [tag.name for tag in own.truth.tags()]
