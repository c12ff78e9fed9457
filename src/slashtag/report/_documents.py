"""Files of a report: an HTML page without scripts or anything else to load, a PNG, a PDF."""

from __future__ import annotations

import os
from pathlib import Path

from .. import InvalidRequestError
from ..export import AtomicFile
from ._render import extra
from ._report import Report

#: Endings of the files that a report can be written to.
FORMATS = (".html", ".png", ".pdf")


def check_path(path: str | os.PathLike[str]) -> None:
    """Check that `write` can write this file, before anything is requested.

    Raises InvalidRequestError for another ending than FORMATS, ExportError where the file cannot be written
    or the extra `report` is not installed.
    """
    found = Path(path)
    if found.suffix.lower() not in FORMATS:
        endings = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise InvalidRequestError(f"a report is written to a file that ends in {endings}, not {found.name}")
    for name in ("jinja2", "vl_convert"):
        extra(name)
    AtomicFile(found).discard()


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report to a .html, .png or .pdf file atomically; raises what `check_path` raises."""
    check_path(path)
    ending = Path(path).suffix.lower()
    with AtomicFile(Path(path)) as file:
        if ending == ".html":
            file.write(report.to_html().encode())
        else:
            file.write(report.to_png() if ending == ".png" else report.to_pdf())
