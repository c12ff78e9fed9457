"""Reports as files and pictures, and the errors where they cannot be written."""

from __future__ import annotations

import importlib
import os
import re
import stat
import struct
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from slashtag import ExportError
from slashtag.report import _format, write
from tests.report.figures import HOSTILE, read, report
from tests.report.test_page import walk


def size(png: bytes) -> tuple[int, int]:
    """The width and height of a picture, whose last bytes are there too."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_picture_holds_every_caveat_and_labels_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("vl_convert.svg_to_png", lambda svg, scale: drawn.append(svg) or b"")
    counts = dict.fromkeys(HOSTILE, 1)
    found = replace(
        report([1, 2], foreign=2, top=HOSTILE, country=counts, selection=HOSTILE[0]),
        start=date(2026, 1, 1),
        end=date(2026, 1, 9),
    )
    found.to_png()
    root = read(drawn[-1])
    lines = " ".join(element.text for element in root.all("text"))
    assert " ".join(f"{head} {rest}" for head, rest in found.caveats()) in lines
    assert found.notes[0] in lines
    assert "1 of 9 days over" in lines
    assert HOSTILE[0][:20] in lines
    assert not {"script", "img", "b", "image"} & {element.tag for element in walk(root)}


def test_labels_of_days_are_the_same_in_every_time_zone_of_the_machine() -> None:
    code = """if True:
        import re
        from tests.report.figures import report
        for days in (3, 100, 150):
            print(re.findall(">([^<>]+ (?:Jan|Feb|Mar))<", report([1] * days).to_html())[:3])
    """
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TZ": "Pacific/Auckland"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.splitlines() == [
        "['1 Jan', '2 Jan', '3 Jan']",
        "['1 Jan', '15 Jan', '29 Jan']",
        "['7 Jan', '14 Jan', '21 Jan']",
    ]


@pytest.mark.unmeasured
@pytest.mark.parametrize("days", [1, 7_000])
def test_any_span_has_a_picture_and_a_page_of_a4_or_longer(days: int) -> None:
    found = report([1] * days, start=date(1990, 1, 1), links_clicked=0)
    assert [size(found.to_png(scale=scale))[0] for scale in (0.5, 1)] == [600, 1_200]
    (box,) = re.findall(rb"/MediaBox \[([^]]*)\]", found.to_pdf())
    left, lower, right, upper = map(float, box.split())
    assert (left, lower, right) == (0, 0, 595)
    assert upper == 842 if days == 1 else upper > 842


@pytest.mark.unmeasured
def test_files_are_written_whole_and_as_public_as_others(tmp_path: Path) -> None:
    found = report([1, 2])
    starts = {"a.html": b"<!DOC", "b.PNG": b"\x89PNG\r", "c.pdf": b"%PDF-"}
    for name, start in starts.items():
        target = tmp_path / name
        target.write_text("old")
        write(found, str(target))
        assert target.read_bytes()[:5] == start
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    assert sorted(path.name for path in tmp_path.iterdir()) == [*starts]
    assert (tmp_path / "a.html").read_text("utf-8") == found.to_html()


def test_a_file_that_cannot_be_written_is_told_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = report([1, 2])
    with pytest.raises(ExportError, match="cannot be written"):
        write(found, tmp_path / "no folder" / "a.html")
    (tmp_path / "a.html").mkdir()
    with pytest.raises(ExportError, match="cannot be written"):
        write(found, tmp_path / "a.html")
    (tmp_path / "a.html").rmdir()

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(found, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["jinja2", "vl_convert"])
def test_a_missing_extra_is_named(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def without(name: str, package: str | None = None) -> Any:
        if name == missing:
            raise ModuleNotFoundError(name)
        return importlib.import_module(name, package)

    monkeypatch.setattr("slashtag._arrow.import_module", without)
    found = report([1, 2])
    _format._templates.cache_clear()
    for draw in (found.to_html, found.to_png, found.to_pdf, lambda: write(found, tmp_path / "a.html")):
        with pytest.raises(ExportError, match=r'pip install "slashtag\[report\]"'):
            draw()
    assert list(tmp_path.iterdir()) == []
