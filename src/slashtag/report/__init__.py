"""Reports on clicks: figures, charts, one page that opens anywhere.

report = await build(session, "2024-01-01", "2024-12-31")
write(report, "report.html")
"""

from ._build import build
from ._figures import Report, TopLink
from ._file import FORMATS, check_path, write

__all__ = ["FORMATS", "Report", "TopLink", "build", "check_path", "write"]
