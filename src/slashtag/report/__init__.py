"""Reports on clicks: figures and charts as one page that opens anywhere, or as a picture.

report = await build(session, "2024-01-01", "2024-12-31")
write(report, "report.html")
"""

from ._build import build
from ._figures import TopLink
from ._report import FORMATS, Report, check_ending, check_path, write

__all__ = ["FORMATS", "Report", "TopLink", "build", "check_ending", "check_path", "write"]
