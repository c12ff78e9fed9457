"""Reports as files and pictures, and the errors where they cannot be written."""

from __future__ import annotations

import importlib
import os
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
from slashtag.report import check_path, write
from slashtag.report._caveats import caveats
from slashtag.report._draw import Painter
from tests.report.figures import HOSTILE, report


def size(png: bytes) -> tuple[int, int]:
    """The width and height of a picture, whose last bytes are there too."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_picture_is_as_large_as_its_scale() -> None:
    counts = {name: n for n, name in enumerate(HOSTILE, 1)}
    found = report(
        [5, 0, 50] * 20,
        top=HOSTILE,
        before=9,
        selection="x" * 300,
        device=counts,
        country=counts,
        referrer=counts,
    )
    width, height = size(found.to_png(scale=1))
    assert 1_150 <= width <= 1_400
    assert 700 <= height <= 1_400
    twice = size(found.to_png())
    assert twice[0] == pytest.approx(2 * width, abs=2)


def test_a_picture_holds_every_caveat(monkeypatch: pytest.MonkeyPatch) -> None:
    specs: list[Any] = []
    monkeypatch.setattr(Painter, "png", lambda self, chart, scale: specs.append(self._spec(chart)) or b"")
    note = f"Slashtags shared with other links: 2. {'Rows include them. ' * 20}".strip()
    found = replace(report([1, 2], notes=(note,)), end=date(2026, 1, 9), start=date(2026, 1, 1))
    found.to_png()
    ((spec,), rows) = specs, [row for rows in specs[0]["datasets"].values() for row in rows]
    drawn = " ".join(row["note"] for row in rows if "note" in row)
    assert drawn == " ".join(f"{head} {rest}" for head, rest in caveats(found))
    assert note in drawn
    assert "1 of 9 days over" in spec["title"]["subtitle"][0]


@pytest.mark.parametrize("days", [1, 1_500])
def test_any_span_has_a_picture(days: int) -> None:
    assert size(report([0] * days, links_clicked=0).to_png(scale=0.5))[0] > 500


@pytest.mark.parametrize("scale", [0, -1, 11, float("nan")])
def test_a_scale_that_cannot_be_is_refused(scale: float) -> None:
    with pytest.raises(ExportError, match="scale"):
        report([1]).to_png(scale=scale)


def test_files_are_written_whole_and_as_public_as_others(tmp_path: Path) -> None:
    found = report([1, 2])
    for name in ("a.html", "b.PNG"):
        target = tmp_path / name
        target.write_text("old")
        write(found, str(target))
        assert target.read_bytes()[:5] == (b"<!DOC" if name == "a.html" else b"\x89PNG\r")
        mask = os.umask(0)
        os.umask(mask)
        assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.PNG"]
    assert (tmp_path / "a.html").read_text("utf-8") == found.to_html()


def test_a_file_that_cannot_be_written_is_told_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = report([1, 2])
    with pytest.raises(ExportError, match="cannot write beside"):
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


@pytest.mark.parametrize("name", ["report.pdf", "report", ".html"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportError, match=r"ends in \.html or \.png"):
        check_path(tmp_path / name)
    with pytest.raises(ExportError):
        write(report([1]), tmp_path / name)


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_a_missing_extra_is_named(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def without(name: str, package: str | None = None) -> Any:
        if name == missing:
            raise ModuleNotFoundError(name)
        return importlib.import_module(name, package)

    monkeypatch.setattr("slashtag.report._draw.import_module", without)
    found = report([1, 2])
    for draw in (found.to_html, found.to_png, lambda: write(found, tmp_path / "a.html")):
        with pytest.raises(ExportError, match=r'pip install "slashtag\[report\]"'):
            draw()
    assert list(tmp_path.iterdir()) == []


def test_the_drawing_libraries_are_imported_when_something_is_drawn() -> None:
    code = "import sys, slashtag.report; sys.exit(bool({'altair', 'vl_convert'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
