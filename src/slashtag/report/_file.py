"""Writing of a report to a file, atomically."""

from __future__ import annotations

import os
from pathlib import Path

from .. import ExportError
from ..export import AtomicFile
from ._draw import Painter
from ._report import Report

#: Endings of the files that a report can be written to.
FORMATS = (".html", ".png")


def check_ending(path: str | os.PathLike[str]) -> Path:
    """Return the path of a report; raises ExportError for another ending than FORMATS."""
    found = Path(path)
    if found.suffix.lower() not in FORMATS:
        raise ExportError(
            f"a report is written to a file that ends in {' or '.join(FORMATS)}, not {found.name}"
        )
    return found


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a report if it can be written; raises ExportError as `write` would."""
    found = check_ending(path)
    Painter()  # raises ExportError if the extra is missing
    AtomicFile(found).discard()
    return found


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html or .png file atomically.

    Raises ExportError for another ending, where the file cannot be written, and where the extra `report` is
    not installed.
    """
    target = check_ending(path)
    with AtomicFile(target) as file:
        file.file.write(report.to_png() if target.suffix.lower() == ".png" else report.to_html().encode())
