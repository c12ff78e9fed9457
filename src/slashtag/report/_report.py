"""Reports as users hold them: figures, the page and the picture made of them, and their files."""

from __future__ import annotations

import os
from pathlib import Path

from .. import ExportError
from ..export import AtomicFile
from ._figures import Figures
from ._page import extra, page, picture

#: Endings of the files that a report can be written to.
FORMATS = (".html", ".png")


class Report(Figures, frozen=True, kw_only=True):
    """Figures of a report, and the documents that show them."""

    def to_html(self) -> str:
        """Return the report as one page that loads nothing and runs no script.

        Raises ExportError where the extra `report` is not installed.
        """
        return page(self)

    def to_png(self, scale: float = 2) -> bytes:
        """Return the main charts and all caveats as one picture, 1,200 x `scale` pixels wide.

        Raises ExportError where the extra `report` is not installed.
        """
        return picture(self, scale)


def check_ending(path: str | os.PathLike[str]) -> Path:
    """Return the path of a report; raises ExportError for another ending than FORMATS."""
    found = Path(path)
    if found.suffix.lower() not in FORMATS:
        raise ExportError(
            f"a report is written to a file that ends in {' or '.join(FORMATS)}, not {found.name}"
        )
    return found


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise ExportError if `write` would, before anything is requested."""
    found = check_ending(path)
    for name in ("jinja2", "vl_convert"):
        extra(name)
    AtomicFile(found).discard()


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html or .png file atomically.

    Raises ExportError for another ending, where the file cannot be written, and where the extra `report` is
    not installed.
    """
    target = check_ending(path)
    with AtomicFile(target) as file:
        file.write(report.to_png() if target.suffix.lower() == ".png" else report.to_html().encode())
