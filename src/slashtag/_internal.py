"""The internal names that cli, export, report, dask and bulk_update may import.

These packages use what `slashtag` itself offers, and beyond it only this list; tests/test_layers.py checks
that. The names carry no promise to users. Add one here only where the public interface will not do.
"""

from ._core.call import MAX_PAGESIZE, REDIRECT_CODES, check_int
from ._core.change import conflicts
from ._core.guide import Guide
from ._core.plan import StatsRequest
from ._core.selectors import check_slashtag
from ._core.spans import parse_span
from ._core.split import (
    Month,
    by_month,
    days,
    flattened,
    format_offset,
    last_day,
    midnight,
    month_of,
    months,
    parse_zone,
)
from ._credentials import parse_base_url
from ._journal.file import JournalInUseError, UnfitJournalError
from ._resources.collect import Key, Keys, OnError
from ._resources.collect_each import GUIDED_FROM
from ._resources.listing import Progress, Resource
from ._threads import in_thread

__all__ = [
    "GUIDED_FROM",
    "MAX_PAGESIZE",
    "REDIRECT_CODES",
    "Guide",
    "JournalInUseError",
    "Key",
    "Keys",
    "Month",
    "OnError",
    "Progress",
    "Resource",
    "StatsRequest",
    "UnfitJournalError",
    "by_month",
    "check_int",
    "check_slashtag",
    "conflicts",
    "days",
    "flattened",
    "format_offset",
    "in_thread",
    "last_day",
    "midnight",
    "month_of",
    "months",
    "parse_base_url",
    "parse_span",
    "parse_zone",
]
