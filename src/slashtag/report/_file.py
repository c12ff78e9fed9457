"""A report as a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from .._errors import ExportError
from ..export import AtomicFile
from ._draw import Painter
from ._figures import Report

#: What a report can be written as, by the end of the file's name.
FORMATS = (".html", ".png")


def check_ending(path: str | os.PathLike[str]) -> Path:
    """Return the path of a report; raises ExportError where its name says no format."""
    found = Path(path)
    if found.suffix.lower() not in FORMATS:
        raise ExportError(
            f"a report is written to a file that ends in {' or '.join(FORMATS)}, not {found.name}"
        )
    return found


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a report, before anything is asked for it; raises ExportError as `write` would."""
    found = check_ending(path)
    Painter()  # says which extra is missing
    AtomicFile(found).discard()
    return found


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html or .png file, beside it first: a reader never sees half of one.

    Raises ExportError for another ending, where the file cannot be written, and where the extra `report` is
    not installed.
    """
    target = check_ending(path)
    with AtomicFile(target) as file:
        file.file.write(report.to_png() if target.suffix.lower() == ".png" else report.to_html().encode())
