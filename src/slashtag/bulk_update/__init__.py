"""Changes of many links, each made at most once, however often the update is run again.

    from slashtag import AsyncSession
    from slashtag.bulk_update import BulkUpdate

    async with AsyncSession() as session, BulkUpdate(session, "changes.csv") as update:
        async for outcome in update:
            print(outcome.line, outcome.key, outcome.status, outcome.error)
    print(update.summary)

Changes come from a file or as `Change`s, and are all checked before the first is sent. A rerun, even after a
crash, compares three values of each link: what it was when the first run saw it, what the row wants, and what
it is now. See docs/bulk-updates.md.
"""

from ._changes import COLUMNS as COLUMNS
from ._changes import ChangesError as ChangesError
from ._changes import DoubtfulChangesError as DoubtfulChangesError
from ._changes import Problem as Problem
from ._outcome_file import RowOutcome as RowOutcome
from ._outcome_file import Status as Status
from ._plan import Difference as Difference
from ._plan import PlannedRow as PlannedRow
from ._plan import Preview as Preview
from ._run import BulkUpdate as BulkUpdate
