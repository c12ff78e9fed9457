"""Reports on clicks: figures and charts as one page that opens anywhere, as a picture or as a PDF.

report = await build(session, "2024-01-01", "2024-12-31")
write(report, "report.html")
"""

from ._branding import MAX_LOGO, Branding
from ._build import build
from ._report import FORMATS, Report, TopLink, check_path, write

__all__ = [
    "FORMATS",
    "MAX_LOGO",
    "Branding",
    "Report",
    "TopLink",
    "build",
    "check_path",
    "write",
]
