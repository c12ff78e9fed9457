"""Concurrent changes, each recorded before it is sent and once its outcome is known."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from .. import AsyncSession, Change, InvalidRequestError, Outcome, Progress, Results
from .._files import check_local_path
from .._internal import Tasks, check_change, in_thread
from ..tables import Column, Row, Table, open_table
from ._changes import ChangeRow, DoubtfulChangesError, read_rows
from ._doubts import doubts
from ._outcome_file import OutcomeFile, RowOutcome, opened
from ._plan import VISIBLE, LinkIndex, Preview, plan

#: Changes that undo others: the id, and VISIBLE.
_UNDO = Table(tuple(map(Column, ("id", "destination", "new_slashtag", "redirect_code"))))


class BulkUpdate(Results[RowOutcome]):
    """Update of many links, each changed at most once; an async iterator over a RowOutcome for each.

    `changes`: Changes, or a file that `load_table` reads with some of COLUMNS, one of them `slashtag` or
    `id`; an empty cell leaves its value as it is. Or the file is an edited listing of `slashtag urls list`,
    of which the rows are changes that differ from their link. `outcomes`: the file of outcomes, by default
    beside that of the changes.

    All links are listed first, and each change is sent by id, with the link's present destination and
    redirect code if it gives none: it is undocumented whether the service resets what is left out. Password
    and domain are not in the listing. Before the first change is sent, the links are recorded as they are. A
    row is not sent if its link is as it wants it, nor if somebody else has changed the link since a run first
    saw it. A row that names no link, or several, fails.

    What is doubtful, as a scheme that no browser knows, is an error unless `confirm` is True. `planned` has
    what becomes of the rows, once they are sent; `undo_path` is the file of changes that restores what all
    runs changed of `undoes` links, but for passwords, domains, and links that had what no update may give.
    `progress` is called with (links read, None), then with (rows done, total). Use it with `async with`, or
    leave it early with `aclose()`. A cancelled `anext`, as by a timeout, loses nothing.

    Raises ChangesError and InvalidRequestError before anything is sent, as for a new slashtag that another
    link on the domain has; ExportError if the file of outcomes cannot be written, is of another apikey or
    service, or another run has it open; and errors of wrong credentials. See docs/service.md, Update a short
    URL.
    """

    def __init__(
        self,
        session: AsyncSession,
        changes: str | os.PathLike[str] | Iterable[Change],
        *,
        outcomes: str | os.PathLike[str] | None = None,
        confirm: bool = False,
        progress: Progress | None = None,
    ) -> None:
        # Not held back by who reads them: outcomes are recorded as they come.
        super().__init__(Tasks(), self._run_once, asyncio.Queue())
        self._session, self._confirm, self._progress = session, confirm, progress
        if isinstance(changes, str | os.PathLike):
            try:
                self._rows = read_rows(changes)
            except InvalidRequestError as error:
                raise error.with_traceback(None) from None  # the frames below have passwords of links
            # The file that undoes changes goes on with their record: so it leaves what others have changed.
            outcomes = outcomes or Path(changes).with_name(
                f"{Path(changes).stem.removesuffix('.undo')}.results.jsonl"
            )
        else:
            self._rows = [ChangeRow(n, change) for n, change in enumerate(changes, 1)]
        if outcomes is None:
            raise TypeError("outcomes= names the file of outcomes where changes do not come from a file")
        check_local_path(outcomes)
        self.path = Path(outcomes)
        self.planned: Preview | None = None
        self.undo_path: Path | None = None
        self.undoes = 0
        #: Rows by status, and "unchanged": those whose link was as they want it.
        self.summary = Counter[str]()

    async def preview(self) -> Preview:
        """Compare the changes with the links of the account, without sending any.

        See docs/service.md, List short URLs.
        """
        return await self._plan(OutcomeFile(self.path, self._session))

    async def _plan(self, file: OutcomeFile) -> Preview:
        tags = await self._session.tags.names() if any(row.listed for row in self._rows) else {}
        links = LinkIndex(await self._session._list_on_request(self._progress).to_list())
        found = plan(self._rows, links, tags, file)
        found.doubts = doubts(found, links)
        return found

    async def _run_once(self) -> None:
        with opened(self.path, self._session) as file:
            found = await self._plan(file)
            if found.doubts and not self._confirm:
                raise DoubtfulChangesError(found.doubts)
            await in_thread(self._record_links, file, found)
            await self._send(file, found)

    def _record_links(self, file: OutcomeFile, found: Preview) -> None:
        """Record the links as they are, and write the file that undoes the changes of all runs."""
        path = file.undo_path
        file.see(found.seen)
        left = {each.id for each in found.left}
        undo = list[Row]()
        for id, values in file.undo.items():
            with suppress(InvalidRequestError):  # of nothing, or what only the service can give a link
                check_change(Change(id, **values))
                if id not in left:
                    undo.append((id, *map(values.get, VISIBLE)))
        if undo:
            with open_table(path, _UNDO) as table:
                table.write(undo)
            self.undo_path, self.undoes = path, len(undo)

    async def _send(self, file: OutcomeFile, found: Preview) -> None:
        self.planned = found
        self.summary["unchanged"] = found.unchanged
        for outcome in found.left:
            self._put(file, outcome)
        planned = {row.change.key: row.outcome for row in found.sent}

        def record(outcome: Outcome) -> None:
            told = replace(
                planned[outcome.change.key],
                status=outcome.status,
                rows_updated=outcome.rows_updated,
                error=str(outcome.error) if outcome.error else None,
            )
            self._put(file, told)

        changes = [row.change for row in found.sent]
        async with self._session.urls.update_many(changes, after=record, progress=self._progress) as outcomes:
            async for _ in outcomes:
                pass

    def _put(self, file: OutcomeFile, outcome: RowOutcome) -> None:
        file.append(outcome)
        self.summary[outcome.status] += 1
        self._queue.put_nowait(outcome)
