"""The commands and their options: few enough to choose from, each help one screen, each with an effect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import typer
from rich.progress import Progress, TaskID

from slashtag.cli.app import COMMANDS, make_app
from tests.support.tables import cells

from .conftest import Cli, Serve

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


#: What options are given; then commands with arguments that they can do, the bars that they draw, and values
#: that only they take.
VALUES = """
--keys a --keys-file keys --tag spring --timezone +09:00 --compare last-year --format csv --output new.csv
--country DE --limit 1 --search A.EXAMPLE --domain-id 2 --redirect-code 308 --new-slashtag c --input keys
--description text --top 0 --title ours --since 2024-07-01 --dataset other
"""
DONE = """
stats         | 2024-06                      | reading counting   | --by day
top           | 2024-06                      | reading            | --by growth
urls list     |                              | reading            |
urls update   | a --redirect-code 307        | updating           | --destination http://b.c
tags list     |                              | reading            |
tags create   | new                          |                    |
export urls   |                              | exporting          |
export tags   |                              | exporting          |
export clicks | 2024-06                      | exporting          | --by tag --rate 9
diff          | keys keys                    |                    |
doctor        |                              | checking           | --rate 1000 --verbose -v --quiet -q
api           | PUT urls/a destination=x://b |                    |
report        | 2024-06 -o a.html            | counting           | --output b.html
sync          | f/ --since 2024-06-01        | links clicks_daily | --destination duckdb --dimensions device
"""
#: What needs more than these arguments: other tests show its effect.
ELSEWHERE = {"--profile", "--from", "--yes", "--allow-shrink"}
SELECTING = {"--keys", "--keys-file", "--tag", "--untagged", "--country", "--compare", "--timezone"}


@pytest.mark.parametrize(("name", "arguments", "bars", "values"), cells(DONE))
def test_each_option_has_an_effect_and_progress_is_told(
    cli: Cli,
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: str,
    bars: str,
    values: str,
) -> None:
    if name == "sync":
        pytest.importorskip("dlt")
    advanced, update = dict[str, bool](), Progress.update

    def note(self: Progress, task: TaskID, **told: Any) -> None:
        if told.get("completed"):
            advanced[self.tasks[task].description] = True
        update(self, task, **told)

    monkeypatch.setattr(Progress, "update", note)
    monkeypatch.setenv("SLASHTAG_LINK_PASSWORD", "hush")

    def effect(*options: str) -> list[Any]:
        """Return what is sent, printed and written, but for numbers of stderr and pages: some are times."""
        monkeypatch.chdir(mkdtemp(dir=tmp_path))
        Path("keys").write_text('{"slashtag": "a"}')
        with serve(urls=0, clicks=0) as box:
            box.add_tag("spring", created_at="2024-01-01")
            for key, tag in (("a", "spring"), ("b", None)):
                box.add_url(key, destination=f"https://{key}.example/", tag=tag, created_at="2024-01-01")
                box.add_click(key, "2024-06-02T22:00:00", country="DE" if tag else "US")
            ran = cli(*name.split(), *arguments.split(), *options)
            sent = sorted((each.path, f"{each.query}", each.body) for each in box.requests)
        assert ran.code == 0, ran.err
        told = [ran.err, *(page.read_text("utf-8") for page in Path().glob("*.html"))]
        files = sorted(map(str, [*Path().glob("*"), *Path().glob("**/")]))
        # Without times of day: that of a new tag is the present.
        return [
            sent,
            re.sub(r"T[\d:]+", "", ran.out),
            [re.sub(r"/\S*|[\d.]+", "", text) for text in told],
            files,
        ]

    plain = effect()
    assert [*advanced] == bars.split()
    assert effect() == plain
    given = dict(re.findall(r"(--\S+)((?: (?!--)\S+)?)", f"{VALUES}{values}".replace("\n", " ")))
    for option in options_of(TREE[name]):
        if option not in ELSEWHERE and (option in given or option not in CONNECTION):
            found = effect(option, *given.get(option, "").split())
            assert found != plain, option
            # Not only on what is sent.
            assert found[1:] != plain[1:] or name == "sync" or option not in SELECTING, option
