"""The commands of docs/tour.md run on the sandbox that it starts, and print what it shows."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from openpyxl import load_workbook

from slashtag._saved_logins import login_path

from .conftest import Cli
from .test_entry import SCRIPT

TOUR = (Path(__file__).parents[2] / "docs" / "tour.md").read_text("utf-8")
CONSOLE = "".join(re.findall(r"^```console\n(.*?)^```", TOUR, re.M | re.S))
#: Each command, and what it shows.
SHOWN = re.findall(r"^\$ slashtag (.+)\n((?:(?!\$ ).*\n)*)", CONSOLE, re.M)


def shape(text: str) -> list[str]:
    """The lines of a text without what depends on the day, the machine and the width."""
    text = re.sub("\x1b\\[[\\d;]*m|─+|[█▉▊▋▌▍▎▏]+", "", text)
    text = re.sub(r"\d[\d,.]*", "0", text)
    lines = [
        re.sub(r" (.+?)( {2,}(?:[-+]?0|new)(?= |$))+ *", "a row", line).split() for line in text.splitlines()
    ]
    return sorted(" ".join(line) for line in lines if line)


def set_redirect_codes(file: Path) -> int:
    """Edit the workbook as the tour says; return its number of links."""
    book = load_workbook(file)
    header, *rows = book.active.iter_rows()
    column = [cell.value for cell in header].index("redirect_code")
    for row in rows:
        row[column].value = 307
    book.save(file)
    return len(rows)


def clicks_in(text: str) -> int:
    """The number of clicks that a command tells."""
    return int(re.findall(r": ([\d,]+) clicks", text)[0].replace(",", ""))


def clicks_of_rows(file: Path) -> int:
    """The sum of the clicks, the last column, in a workbook that is too large to be read cell by cell."""
    sheet = ZipFile(file).read("xl/worksheets/sheet1.xml")
    return sum(map(int, re.findall(rb"<v>(\d+)</v></c></row>", sheet)))


def test_a_morning_goes_as_the_tour_shows(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (serve, told), *commands = SHOWN
    arguments = [SCRIPT, *serve.replace("--port 8080", "--port 0").split()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as box:
        try:
            assert box.stdout is not None
            exports = [box.stdout.readline() for _ in range(3)]
            monkeypatch.chdir(tmp_path)
            for name in ("SLASHTAG_BASE_URL", "SLASHTAG_APIKEY", "SLASHTAG_APISECRET"):
                monkeypatch.delenv(name)
            typed = "".join(line.partition("=")[2] for line in exports)
            monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
            monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
            known = {str(login_path()): "~/.config/slashtag/credentials.json", str(tmp_path): "/home/ana"}
            clicks = list[int]()
            for command, shown in commands:
                ran = cli(*command.split())
                assert ran.code == 0, ran.err
                printed = ran.out + ran.err
                for found, instead in known.items():
                    printed = printed.replace(found, instead)
                assert shape(printed) == shape(shown), command
                if command.startswith(("top", "report")):
                    clicks.append(clicks_in(printed))
                if command.startswith("urls list"):
                    assert set_redirect_codes(tmp_path / "links.xlsx") == 5
        finally:
            box.send_signal(signal.SIGINT)
        assert box.stderr is not None
        assert shape("".join([*box.stderr, *exports])) == shape(told)
    assert clicks == [clicks_of_rows(tmp_path / "clicks.xlsx")] * 2
    assert clicks[0] > 100
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
