"""The commands and their options: few enough to choose from, each help one screen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from slashtag.cli.app import COMMANDS, make_app

from .conftest import Cli

#: The most options that differ, the most that all commands have together, the most lines of a help.
DIFFERENT, TOGETHER, LINES = 45, 170, 45
CONNECTION = {"--profile", "--rate", "--verbose", "--quiet"}
OFFLINE = {"diff", "sandbox"}


def leaves(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Yield each command with the words that call it."""
    commands = getattr(command, "commands", None)
    if commands is None:
        yield " ".join(words), command
    for name in commands or ():
        yield from leaves(command.resolve_command(typer.Context(command), [name])[1], *words, name)


TREE = dict(leaves(typer.main.get_command(make_app())))


def options_of(command: Any) -> list[str]:
    return [each.opts[0] for each in command.params if each.param_type_name == "option"]


def test_there_are_few_options() -> None:
    found = Counter(name for command in TREE.values() for name in options_of(command))
    assert len(found) <= DIFFERENT, sorted(found)
    assert found.total() <= TOGETHER
    assert {name.partition(" ")[0] for name in TREE} == {*COMMANDS}


@pytest.mark.parametrize("name", TREE)
def test_a_command_has_of_the_connection_what_each_has(name: str) -> None:
    found = CONNECTION.intersection(options_of(TREE[name]))
    assert found == (set() if name in OFFLINE else CONNECTION) or name == "sandbox"


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", ["", *TREE])
def test_help_is_one_screen_and_names_every_option(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ran = cli(*name.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= LINES or width < 100
    assert "…" not in ran.out
    if name:
        assert {*options_of(TREE[name])} <= set(re.findall(r"--[\w-]+", ran.out))
