"""Concurrent changes, each recorded before it is sent and once its outcome is known."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from .. import AsyncSession, Change, InvalidRequestError, Outcome, Progress, Results
from .._internal import Tasks, WorkerPool, check_callback, check_local_path, in_thread
from ..tables import Column, Table, open_table
from ._changes import ChangesError, DoubtfulChangesError, Problem, read_rows, row_of
from ._doubts import doubts
from ._links import LinkIndex
from ._outcome_file import OutcomeFile, RowOutcome, locked
from ._plan import VISIBLE, Difference, PlannedRow, plan

#: Is called with what is doubtful, and returns whether to send it.
Confirm = Callable[[Sequence[Problem]], bool]
#: Changes that undo others: the id, and VISIBLE.
_UNDO = Table(
    (Column("id", "int"), Column("destination"), Column("new_slashtag"), Column("redirect_code", "int"))
)


class BulkSummary(Struct, frozen=True, kw_only=True):
    """Numbers of rows by outcome; `unchanged` are those whose link was as they want it."""

    done: int = 0
    failed: int = 0
    unknown: int = 0
    changed: int = 0
    unchanged: int = 0


class Preview(Struct, frozen=True, kw_only=True):
    """Comparison of changes with the present links.

    `summary` is that of a run in which the service makes each change; `doubts` have to be confirmed.
    """

    differences: tuple[Difference, ...]
    summary: BulkSummary
    doubts: tuple[Problem, ...]


class BulkUpdate(Results[RowOutcome]):
    """Update of many links, each changed at most once; an async iterator over a RowOutcome for each.

    `changes`: Changes, or a file that `read_table` reads with some of COLUMNS, one of them `slashtag` or
    `id`; an empty cell leaves its value as it is. Or the file is an edited listing of `slashtag urls list`,
    of which the rows are changes that differ from their link. `outcomes`: the file of outcomes; by default
    beside that of the changes; of Changes None keeps nothing.

    All links are listed first, and each change is sent by id, with the link's present destination and
    redirect code if it gives none: it is undocumented whether the service resets what is left out. Password
    and domain are not in the listing. Before the first change is sent, the links are recorded as they are. A
    row is not sent if its link is as it wants it, nor if somebody else has changed the link since a run first
    saw it. A row that names no link, or several, fails. With `or_id`, digits that are no slashtag are an id.

    `confirm` is called with what is doubtful, as a scheme that no browser knows, and returns whether to send
    it; True sends it, by default it is an error. `differences` has what this run changes, once it begins;
    `undo_path` is the file of changes that restores what all runs changed of `undoes` links, but for
    passwords and domains. `progress` is called with (links read, None), then with (rows done, total). Use it
    with `async with`, or leave it early with `aclose()`. A cancelled `anext`, as by a timeout, loses nothing.

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
        confirm: Confirm | bool = False,
        or_id: bool = False,
        progress: Progress | None = None,
    ) -> None:
        # Not held back by who reads them: outcomes are recorded as they come.
        super().__init__(Tasks(), WorkerPool((None,), self._run, 1), asyncio.Queue())
        if not isinstance(confirm, bool):
            check_callback("confirm", confirm)
        self._session, self._confirm, self._or_id, self._progress = session, confirm, or_id, progress
        self._where = "the list of changes"
        if isinstance(changes, str | os.PathLike):
            self._where = os.fspath(changes)
            try:
                self._rows = read_rows(changes)
            except InvalidRequestError as error:
                raise error.with_traceback(None) from None  # the frames below have passwords of links
            outcomes = outcomes or Path(changes).with_name(f"{Path(changes).stem}.results.jsonl")
        else:
            self._rows = [row_of(n, change) for n, change in enumerate(changes, 1)]
        check_local_path(outcomes or "")
        self.path = Path(outcomes) if outcomes else None
        self.differences: tuple[Difference, ...] = ()
        self.undo_path: Path | None = None
        self.undoes = 0
        self._counts: Counter[str] = Counter()

    @property
    def summary(self) -> BulkSummary:
        """Counts of the outcomes so far."""
        return BulkSummary(**self._counts)

    async def preview(self) -> Preview:
        """Compare the changes with the links of the account, without sending any.

        See docs/service.md, List short URLs.
        """
        rows, found = await self._plan(OutcomeFile(self.path, self._session))
        counts = Counter("done" if row.change else row.decision for row in rows)
        return Preview(
            differences=tuple(each for row in rows for each in row.differences),
            summary=BulkSummary(**counts),
            doubts=tuple(found),
        )

    async def _plan(self, file: OutcomeFile) -> tuple[list[PlannedRow], list[Problem]]:
        """Return what is to become of the rows, by a listing of now, and what is doubtful."""
        has_tags = any("tag_name" in row.listed for row in self._rows)
        tags = await self._session.tags.names() if has_tags else {}
        links = LinkIndex(await self._session._list_on_request(self._progress).to_list())
        rows, problems = plan(self._rows, links, tags, file, or_id=self._or_id)
        if problems:
            raise ChangesError(self._where, problems)
        return rows, doubts(rows, links)

    async def _confirmed_plan(self, file: OutcomeFile) -> list[PlannedRow]:
        confirmed: set[Problem] = set()
        while True:
            rows, found = await self._plan(file)
            if self._confirm is True or confirmed.issuperset(found):
                return rows
            if self._confirm is False or not self._confirm(found):
                raise DoubtfulChangesError(self._where, found)
            # Links may have been changed while somebody was asked.
            confirmed.update(found)

    async def _run(self, _: None) -> None:
        with locked(self.path):
            file = OutcomeFile(self.path, self._session)
            rows = await self._confirmed_plan(file)
            try:
                await in_thread(partial(self._record_links, file, rows))
                await self._send(file, rows)
            finally:
                file.close()

    def _record_links(self, file: OutcomeFile, rows: list[PlannedRow]) -> None:
        """Record the links as they are, and write the file that undoes the changes of all runs."""
        path = file.undo_path
        file.see(row.seen for row in rows if row.seen)
        changed = {row.url.id for row in rows if row.url and row.decision == "changed"}
        undo = {id: known.undo for id, known in file.known.items() if known.undo and id not in changed}
        if undo and path:
            with open_table(path, _UNDO) as table:
                table.write([(id, *map(undo[id].get, VISIBLE)) for id in undo])
            self.undo_path, self.undoes = path, len(undo)

    async def _send(self, file: OutcomeFile, rows: list[PlannedRow]) -> None:
        sent = {row.change.key: row for row in rows if row.change}
        self.differences = tuple(each for row in sent.values() for each in row.differences)
        for row in rows:
            if row.decision in ("failed", "changed"):
                self._put(file, row.outcome(row.decision, row.differences[0].now))
            elif row.decision == "unchanged":
                self._counts["unchanged"] += 1

        def record(outcome: Outcome) -> None:
            row, error = sent[outcome.change.key], str(outcome.error or "")
            self._put(file, row.outcome(outcome.status, error, outcome.rows_updated))

        changes = [row.change for row in sent.values() if row.change]
        async with self._session.urls.update_many(changes, after=record, progress=self._progress) as outcomes:
            async for _ in outcomes:
                pass

    def _put(self, file: OutcomeFile, outcome: RowOutcome) -> None:
        file.append(outcome)
        self._counts[outcome.status] += 1
        self._queue.put_nowait(outcome)
