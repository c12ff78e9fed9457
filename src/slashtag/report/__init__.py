"""Reports on clicks: figures, bars and tables as one page that opens anywhere and prints well.

report = await build(session, DateRange("2024-01-01", "2024-12-31"))
write(report, "report.html")
"""

from ._figures import Report as Report
from ._figures import TopLink as TopLink
from ._figures import build as build
from ._page import check_path as check_path
from ._page import to_html as to_html
from ._page import write as write
