"""Changes of many links, each made at most once, however often the update is run again.

    from slashtag import AsyncSession
    from slashtag.bulk_update import BulkUpdate

    async with AsyncSession() as session, BulkUpdate(session, "changes.csv") as update:
        async for outcome in update:
            print(outcome.line, outcome.key, outcome.status, outcome.error)
    print(update.summary)

Changes come from a CSV file or as `Change`s, and are all checked before the first is sent. A rerun, even
after a crash, goes by the file of their outcomes, by default `changes.results.jsonl`: see
docs/bulk-updates.md.
"""

from ._changes import COLUMNS, ChangesError, Problem
from ._outcome_file import RowOutcome, Status
from ._planning import Difference
from ._run import BulkSummary, BulkUpdate, Preview

__all__ = [
    "COLUMNS",
    "BulkSummary",
    "BulkUpdate",
    "ChangesError",
    "Difference",
    "Preview",
    "Problem",
    "RowOutcome",
    "Status",
]
