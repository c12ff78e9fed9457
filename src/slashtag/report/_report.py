"""The report as users hold it: its figures, and the page and picture made of them."""

from __future__ import annotations

from ._draw import picture
from ._figures import Figures
from ._page import page


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
