"""Rows on stdout and in files: the same values in each form, safe to look at on a terminal."""

from __future__ import annotations

import os
import pty
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE

import pytest
from openpyxl import load_workbook

from slashtag.sandbox import Sandbox
from slashtag.tables import _workbook, load_table
from tests.support.processes import run
from tests.support.tables import cells

from .conftest import Cli, Serve, objects
from .test_entry import SCRIPT

QUESTION = ("stats", "2024-06", "--by", "country", "--compare", "previous")
FULL = Path("/dev/full")


def from_parquet(path: Path) -> list[list[object]]:
    rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return [list(row.values()) for row in rows]


READ: dict[str, Callable[[Path], list[list[object]]]] = {
    "jsonl": lambda path: [list(row.values()) for row in objects(path.read_text("utf-8"))],
    "xlsx": lambda path: [
        list(row) for row in list(load_workbook(path).worksheets[0].iter_rows(values_only=True))[1:]
    ],
    "parquet": from_parquet,
}


@pytest.mark.parametrize("command", [QUESTION, ("top", "2024-06")])
@pytest.mark.parametrize("form", READ)
def test_a_file_has_the_rows_of_stdout(cli: Cli, tmp_path: Path, form: str, command: tuple[str, ...]) -> None:
    expected = [list(row.values()) for row in objects(cli(*command).out)]
    path = tmp_path / f"x.{form}"
    ran = cli(*command, "-o", str(path))
    assert (ran.code, ran.out) == (0, "")
    assert f"{len(expected)} rows to {path}; " in ran.err
    assert "span: 2024-06-01..2024-06-30, compared with: 2024-05-01..2024-05-31, complete: true" in ran.err
    assert READ[form](path) == expected


#: A command, and the zone, the days compared with and the links of which it says that its file is.
TOLD = """
urls list                                           |        |                        |
tags list                                           |        |                        |
export urls                                         |        |                        |
export tags                                         |        |                        |
stats 2024-06 --untagged --timezone +02:00          | +02:00 |                        | no tag
stats 2024-06 --tag TAG --compare 2024-01           | +00:00 | 2024-01-01..2024-01-31 | tag TAG
stats 2024-06 --country us --by city                | +00:00 |                        | from US
top 2024-06 --tag TAG                               | +00:00 | 2024-05-01..2024-05-31 | tag TAG
export clicks 2024-06 --tag TAG --timezone +02:00   | +02:00 |                        | tag TAG
"""


@pytest.mark.parametrize(("arguments", "zone", "before", "selected"), cells(TOLD))
def test_a_file_says_what_it_is(
    cli: Cli, box: Sandbox, tmp_path: Path, arguments: str, zone: str, before: str, selected: str
) -> None:
    path, urls = tmp_path / "x.xlsx", box.truth.urls()
    number = Counter(url.slashtag for url in urls)
    of = next(url.tag_id for url in urls if url.tag_id and number[url.slashtag] > 1)
    tag = next(each.name for each in box.truth.tags() if each.id == of)
    ran = cli(*(tag if word == "TAG" else word for word in arguments.split()), "-o", str(path))
    about = load_table(path).about
    assert about is not None
    assert about.complete == (ran.code == 0)
    assert datetime.fromisoformat(about.collected).tzinfo == UTC
    assert (about.account, about.timezone) == (f"{box.base_url}/api/v1/", zone)
    assert (about.compared_with, about.selected) == (before, selected.replace("TAG", tag))
    assert about.span == "2024-06-01..2024-06-30" * bool(zone)


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize(
    "command",
    [
        QUESTION,
        ("stats", "2024-06"),
        ("top", "2024"),
        ("urls", "list"),
        ("stats", "2024-q2", "--by", "tag,week"),
        ("stats", "2024-07", "--by", "week", "--compare", "previous"),
    ],
)
def test_a_table_fits_the_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ran = cli(*command, "--format", "table")
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= width


def test_a_table_shows_the_numbers_of_the_rows(cli: Cli) -> None:
    drawn = cli(*QUESTION, "--format", "table").out
    for row in objects(cli(*QUESTION).out)[:5]:
        (line,) = [line.split() for line in drawn.splitlines() if line.split()[:1] == [row["country"]]]
        assert line[1:4] == [f"{row['clicks']:,}", f"{row['percent']:.1f}", f"{row['clicks_before']:,}"]


@pytest.mark.parametrize("command", [("top", "2024"), ("tags", "create", "new"), ("export", "tags")])
@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("-o", "a.csv", "--format", "jsonl"), 2, "leave out --format"),
        (("-o", "a.xls"), 2, "a.xls"),
        (("-o", "missing/a.csv"), 1, "missing/a.csv"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before_anything_is_sent(
    cli: Cli, box: Sandbox, command: tuple[str, ...], options: tuple[str, ...], code: int, says: str
) -> None:
    ran = cli(*command, *options)
    assert (ran.code, says in ran.error, box.requests) == (code, True, [])


def test_more_rows_than_a_sheet_holds_are_refused_and_the_old_file_stays(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clicks.xlsx"
    path.write_text("kept")
    monkeypatch.setattr(_workbook, "MOST_ROWS", 59)
    ran = cli("export", "clicks", "2024-06", "-o", str(path))
    assert (ran.code, ".parquet" in ran.error, "same command again" in ran.error) == (1, True, False)
    assert path.read_text() == "kept"


def on_terminal(line: str, answers: Iterable[tuple[str, str]] = ()) -> str:
    """What a terminal shows of a line of a shell, of which questions are answered."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm"
        os.execvp("sh", ["sh", "-c", line.replace("slashtag ", f"'{SCRIPT}' ", 1)])
    shown, left = b"", [*answers]
    # It ends with an error where nobody writes any more.
    with suppress(OSError):
        while more := os.read(terminal, 65_536):
            shown += more
            if left and left[0][0].encode() in shown:
                os.write(terminal, f"{left.pop(0)[1]}\n".encode())
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return shown.decode()


def test_a_terminal_gets_a_table_and_no_control_characters_of_the_service(own: Sandbox, cli: Cli) -> None:
    own.add_url("evil", destination="https://x.example/\x1b]0;title\x07\x7f")
    own.add_click("evil", "2024-01-01", times=1234)
    for form in ("", "--format jsonl", "--format csv"):
        shown = on_terminal(f"slashtag urls list --search evil {form} -q")
        assert ["x.example" in shown, "───" in shown, " 1,234 " in shown] == [True, not form, not form]
        assert not re.search("\x1b\\]|\x07|\x7f", shown)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("slashtag urls list | head -n 2", '{"id":1000001'),
        ("slashtag export urls --format jsonl", '{"id":1000001'),
        ("slashtag doctor --format jsonl | cat", '{"check":"credentials"'),  # of 28 answers
    ],
)
def test_progress_is_gone_before_rows_are_written(serve: Serve, line: str, first: str) -> None:
    # Slow enough that progress is drawn before the first answer.
    with serve(urls=700, clicks=50, latency=0.1 if "doctor" in line else 0.2):
        shown = on_terminal(line)
    progress, found, rows = shown.partition(first)
    assert found
    # The line was erased, and no later one was drawn.
    assert re.search(r"\x1b\[2K[^━]*$", progress)
    assert "━" not in rows


@pytest.mark.usefixtures("environment")
@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(("command", "unbuffered"), [("urls list", "1"), ("tags list", ""), ("--help", "")])
def test_a_full_disk_behind_stdout_is_an_error(command: str, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "SLASHTAG_LOG_FORMAT": "json"}
    with FULL.open("wb") as full:
        ran = run(SCRIPT, *command.split(), capture_output=False, stdout=full, stderr=PIPE, env=environment)
    error, *summary = objects(ran.stderr)
    assert (ran.returncode, "No space left on device" in error["message"]) == (1, True)
    assert [each["exit_code"] for each in summary] == [1] * (command != "--help")


@pytest.mark.usefixtures("environment")
def test_a_stderr_that_nobody_reads_changes_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as broken:
        ran = run(SCRIPT, "urls", "list", "-vv", capture_output=False, stdout=PIPE, stderr=broken)
    assert (ran.returncode, len(objects(ran.stdout))) == (0, 130)


def test_bars_are_as_long_as_the_clicks_are_many(cli: Cli) -> None:
    drawn = cli("stats", "2024-06", "--by", "country", "--format", "table").out
    bars = [line.count("█") for line in drawn.splitlines() if "█" in line]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > 2 * bars[-1]


def test_labels_that_are_not_drawn_are_in_one_row(cli: Cli, box: Sandbox) -> None:
    drawn = cli("stats", "alltime", "--format", "table").out
    for name in ("country", "referrer"):
        rows = re.findall(rf"^ ?{name} +(.+?) +([\d,]+) ", drawn, re.MULTILINE)
        assert len(rows) == 9
        assert sum(int(n.replace(",", "")) for _, n in rows) == box.truth.alltime().clicks_total
