"""The internal names that cli, export, report, dask, dlt and bulk_update may import.

They use public names of `slashtag` and otherwise only these; tests/test_layers.py checks that. These names
may change without notice. Add one only if the public interface is not sufficient.
"""

from ._core.batches import check_slashtag
from ._core.bounds import parse_span
from ._core.call import MAX_PAGESIZE, REDIRECT_CODES, SETTLING_SECONDS
from ._core.change import conflicts
from ._core.guide import Guide
from ._core.windows import (
    by_month,
    days,
    flattened,
    format_offset,
    halves,
    last_day,
    midnight,
    months,
    parse_zone,
)
from ._credentials import parse_base_url
from ._fanout import WorkerPool
from ._file_lock import HAS_LOCKS, lock_file
from ._journal.file import JournalInUseError, UnfitJournalError, remove_journal
from ._resources.collect import AsyncByActivity, Key, Keys, OnError
from ._resources.collect_each import GUIDED_FROM
from ._resources.listing import Progress, Resource
from ._session import account_digest
from ._threads import in_thread

__all__ = [
    "GUIDED_FROM",
    "HAS_LOCKS",
    "MAX_PAGESIZE",
    "REDIRECT_CODES",
    "SETTLING_SECONDS",
    "AsyncByActivity",
    "Guide",
    "JournalInUseError",
    "Key",
    "Keys",
    "OnError",
    "Progress",
    "Resource",
    "UnfitJournalError",
    "WorkerPool",
    "account_digest",
    "by_month",
    "check_slashtag",
    "conflicts",
    "days",
    "flattened",
    "format_offset",
    "halves",
    "in_thread",
    "last_day",
    "lock_file",
    "midnight",
    "months",
    "parse_base_url",
    "parse_span",
    "parse_zone",
    "remove_journal",
]
