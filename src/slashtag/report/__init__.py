"""Reports on clicks: figures and charts as one page that opens anywhere, as a picture or as a PDF.

report = await build(session, "2024-01-01", "2024-12-31")
write(report, "report.html")
"""

from ._branding import Branding as Branding
from ._figures import build as build
from ._report import FORMATS as FORMATS
from ._report import Report as Report
from ._report import TopLink as TopLink
from ._report import check_path as check_path
from ._report import write as write
