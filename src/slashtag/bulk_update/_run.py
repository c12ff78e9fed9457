"""Concurrent changes, each recorded before it is sent and once its outcome is known."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from .. import AsyncSession, Change, InvalidRequestError, Outcome, Progress, ShortUrl
from .._internal import Stream, Tasks, check_callback, check_local_path, in_thread
from ..export import URLS
from ..tables import Table, open_table
from ._changes import (
    ChangeRow,
    ChangesError,
    DoubtfulChangesError,
    LinkIndex,
    Problem,
    Sheet,
    checked,
    read_sheet,
)
from ._doubts import doubts
from ._outcome_file import OutcomeFile, RowOutcome, Status
from ._plan import Difference, PlannedRow, completed, find_differences, plan

_SENT_BEFORE = "an earlier run sent it without an answer, and the link is not known to be so: look at it"
_SENT_AGAIN = "an earlier run sent it and got no answer, this run sent it again: "
#: Is called with what is doubtful, and returns whether to send it.
Confirm = Callable[[Sequence[Problem]], bool]
#: A listing of links as they were, by which an update restores them.
_UNDO = ("id", "slashtag", "destination", "redirect_code", "created_at")


class BulkSummary(Struct, frozen=True, kw_only=True):
    """Numbers of rows by outcome in this run.

    `skipped` were done by an earlier one; `unchanged`, of an edited listing, are as their links: not sent.
    """

    done: int = 0
    failed: int = 0
    unknown: int = 0
    skipped: int = 0
    unchanged: int = 0


class Preview(Struct, frozen=True, kw_only=True):
    """Comparison of changes with the present links.

    A row that names no link, or several, has one difference without a member, whose `now` says so. `changed`,
    `unchanged` and `missing` count rows, `skipped` those done before, `unknown` those of the others that an
    earlier run sent without getting an answer. `doubts`: values that have to be confirmed. `links` has the
    link of each line, as it is.
    """

    differences: tuple[Difference, ...]
    changed: int
    unchanged: int
    missing: int
    skipped: int
    unknown: int
    doubts: tuple[Problem, ...] = ()
    links: dict[int, ShortUrl] = {}

    @property
    def kinds(self) -> Counter[str]:
        """The number of changes of each member, such as destination."""
        return Counter(each.member for each in self.differences if each.member)


class BulkUpdate(Stream[RowOutcome]):
    """Update of many links, each changed at most once; an async iterator over a RowOutcome for each.

    `changes`: Changes, or a file with some of COLUMNS, one of them `slashtag` or `id`: CSV with commas,
    semicolons or tabs, or a workbook (.xlsx, extra `xlsx`); an empty cell leaves its value as it is.
    Or the file is an edited listing of `slashtag urls list`, of which the rows are changes that differ from
    their link. `outcomes`: the file of outcomes; by default beside that of the changes.

    All links are listed first, and each change is sent by id. Rows that name no link, or several, fail. Rows
    that are "done" in the file of outcomes are skipped, but for rows of an edited listing that differ from
    their link. A link whose last change there has no answer is not changed, whatever its row is now: the row
    is "unknown", unless the link shows that the change was done. `repeat_lost` sends such rows, and repeats
    those whose answer is lost in this run. `keep` sends a link's present destination and redirect code if a
    change gives none, since it is undocumented whether the service resets what is left out; rows of an edited
    listing always do. Password and domain are not in the listing.

    `confirm` is called with what is doubtful, as a scheme that no browser knows, and returns whether to send
    it; True sends it, by default it is an error.

    Before the first change is sent, `undo_path` gets the links that are changed as they were: a listing,
    from which another update restores them, but for password and domain. `progress` is called with (links
    read, None), then with (rows done, total). Use it with `async with`, or leave it early with `aclose()`. A
    cancelled `anext`, as by a timeout, loses nothing.

    Raises ChangesError and InvalidRequestError before anything is sent, as for a new slashtag that another
    link on the domain has; UnexpectedResponseError for a listing that is older than the `updated_at` of rows
    allows; ExportError if the file of outcomes cannot be written, is of another apikey or service, or another
    run has it open; and errors of wrong credentials. See docs/service.md, Update a short URL.
    """

    def __init__(
        self,
        session: AsyncSession,
        changes: str | os.PathLike[str] | Iterable[Change],
        *,
        outcomes: str | os.PathLike[str] | None = None,
        keep: bool = False,
        repeat_lost: bool = False,
        confirm: Confirm | bool = False,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(Tasks())
        if not isinstance(confirm, bool):
            check_callback("confirm", confirm)
        self._session = session
        if isinstance(changes, str | os.PathLike):
            try:
                self._given = _read_changes(changes, is_confirmed=confirm is True)
            except InvalidRequestError as error:
                raise error.with_traceback(None) from None  # the frames below have passwords of links
            # Rows of a listing are compared with the links first; they have destination and redirect code.
            keep = keep or isinstance(self._given, Sheet)
            outcomes = outcomes or _beside(Path(changes))
        elif outcomes is None:
            raise TypeError("outcomes= names the file of outcomes where changes do not come from a file")
        else:
            rows, problems = checked([ChangeRow(n, change) for n, change in enumerate(changes, 1)])
            _check("the list of changes", problems, [] if confirm is True else _doubts_of(rows))
            self._given = rows
        check_local_path(outcomes)
        self.path = Path(outcomes)
        #: The file of the links as they were; None if no change was left to send.
        self.undo_path: Path | None = None
        self._keep = keep
        self._repeat_lost = repeat_lost
        self._confirm = confirm
        self._progress = progress
        self._counts: Counter[str] = Counter()
        #: The number of changes that were done of each member, such as destination.
        self.kinds: Counter[str] = Counter()
        self._results = self._run()
        #: What gives the next outcome, which a cancelled `anext` leaves to the one after it.
        self._pending: asyncio.Task[RowOutcome | None] | None = None

    @property
    def summary(self) -> BulkSummary:
        """Counts of the outcomes so far."""
        return BulkSummary(**self._counts)

    async def preview(self) -> Preview:
        """Compare the changes that are left with the links of the account, without sending any.

        A row that is `missing` would fail. See docs/service.md, List short URLs.
        """
        rows = await self._plan(OutcomeFile(self.path, self._session).read())
        left = [row for row in rows if not row.is_done]
        missing = sum(row.url is None for row in left)
        changed = sum(bool(row.differences) for row in left) - missing
        return Preview(
            differences=tuple(each for row in left for each in row.differences),
            changed=changed,
            unchanged=len(left) - changed - missing + self._equal(rows),
            missing=missing,
            skipped=len(rows) - len(left),
            unknown=sum(row.unanswered is not None for row in left),
            doubts=tuple(self._doubts(rows)),
            links={row.sent.line: row.url for row in left if row.url is not None},
        )

    async def _plan(self, file: OutcomeFile) -> list[PlannedRow]:
        rows, problems = await plan(
            self._session, self._given, file, self._progress, repeat_lost=self._repeat_lost
        )
        where = self._given.where if isinstance(self._given, Sheet) else "the list of changes"
        _check(where, problems, [] if self._confirm is True or not problems else self._doubts(rows))
        return rows

    def _equal(self, rows: list[PlannedRow]) -> int:
        """Return how many rows of an edited listing are not planned, as they equal their links."""
        return len(self._given) - len(rows)

    def _doubts(self, rows: list[PlannedRow]) -> list[Problem]:
        left = [row for row in rows if row.is_left(repeat_lost=self._repeat_lost)]
        return doubts((row.sent.line, row.change, row.differences) for row in left)

    async def _confirmed_plan(self, file: OutcomeFile) -> list[PlannedRow]:
        """Return the rows once there is no doubt about them; raises DoubtfulChangesError."""
        confirmed: set[Problem] = set()
        while True:
            rows = await self._plan(file)
            doubts = [] if self._confirm is True else self._doubts(rows)
            if confirmed.issuperset(doubts):
                return rows
            if isinstance(self._confirm, bool) or not self._confirm(doubts):
                raise DoubtfulChangesError("the list of changes", doubts)
            # Links may have been changed while somebody was asked.
            confirmed.update(doubts)

    async def _run(self) -> AsyncGenerator[RowOutcome, None]:
        with OutcomeFile(self.path, self._session) as file:
            todo: list[tuple[PlannedRow, ShortUrl]] = []
            rows = await self._confirmed_plan(file)
            self._counts["unchanged"] = self._equal(rows)
            for row in rows:
                if row.found_done is not None:
                    file.append(replace(row.found_done, status="done"))
                if row.is_done:
                    self._counts["skipped"] += 1
                elif row.unanswered is not None and not self._repeat_lost:
                    yield self._record(file, row, "unknown", _SENT_BEFORE)
                elif row.url is None:
                    yield self._record(file, row, "failed", row.differences[0].now)
                else:
                    todo.append((row, row.url))
            if todo:
                links = [url for _, url in todo]
                self.undo_path = await in_thread(partial(_write_links, self.path, links))
            row_of = {row.change.key: row for row, _ in todo}
            recorded: dict[str | int, RowOutcome] = {}

            def record(outcome: Outcome) -> None:
                row, error = row_of[outcome.change.key], str(outcome.error or "")
                recorded[row.change.key] = self._record(
                    file, row, outcome.status, error, outcome.rows_updated
                )

            updates = self._session.urls.update_many(
                [completed(row.change, url) if self._keep else row.change for row, url in todo],
                repeat_lost=self._repeat_lost,
                before=lambda change: file.announce(row_of[change.key].sent),
                on_send=lambda change: file.mark_sent(row_of[change.key].sent),
                after=record,
                progress=self._progress,
            )
            async with updates:
                async for outcome in updates:
                    yield recorded.pop(outcome.change.key)

    def _record(
        self,
        file: OutcomeFile,
        row: PlannedRow,
        status: Status,
        error: str = "",
        rows_updated: int | None = None,
    ) -> RowOutcome:
        sent, earlier = row.sent, row.unanswered
        if earlier is not None and (status == "failed" or error == _SENT_BEFORE):
            # Not done this time, so what may have been done is still what the earlier run sent.
            sent = replace(sent, id=earlier.id, members=earlier.members, fingerprint=earlier.fingerprint)
            error = f"{_SENT_AGAIN}{error}" if status == "failed" else error
            status = "unknown"
        outcome = replace(sent, status=status, error=error or None, rows_updated=rows_updated)
        file.append(outcome)
        self._counts[status] += 1
        if status == "done":
            self.kinds.update(each.member for each in row.differences)
        return outcome

    async def _next(self) -> RowOutcome:
        if self._pending is None:
            self._pending = self._tasks.spawn(self._advance())
        # Not awaited directly: a cancelled caller may continue, so the update goes on.
        await asyncio.wait((self._pending,))
        task, self._pending = self._pending, None
        if (outcome := self._outcome(task)) is None:
            raise StopAsyncIteration
        return outcome

    async def _advance(self) -> RowOutcome | None:
        return await anext(self._results, None)

    async def aclose(self) -> None:
        """Cancel what is under way and close the file of outcomes; safe to repeat."""
        await super().aclose()
        await self._results.aclose()


def _read_changes(path: str | os.PathLike[str], *, is_confirmed: bool) -> Sheet | list[ChangeRow]:
    sheet = read_sheet(path)
    if sheet.is_listing:
        return sheet
    rows, problems = sheet.changes(LinkIndex())
    _check(sheet.where, problems, [] if is_confirmed else _doubts_of(rows))
    return rows


def _doubts_of(rows: Iterable[ChangeRow]) -> list[Problem]:
    """Return what is doubtful of changes by themselves, whose links are not known yet."""
    nothing = ShortUrl(id=0)
    return doubts((row.line, row.change, find_differences(row.change, nothing)) for row in rows)


def _check(where: str, problems: Sequence[Problem], doubts: Sequence[Problem]) -> None:
    """Raise ChangesError for errors, with what is doubtful of the other rows."""
    if problems:
        raise ChangesError(where, problems, doubts)


def _beside(path: Path) -> Path:
    """Return where the outcomes of a file of changes are recorded; raises InvalidRequestError for a pipe."""
    if not path.is_file():
        told = "is no regular file, beside which outcomes can be recorded"
        raise InvalidRequestError(f"{path} {told}: save the changes as one")
    return path.with_name(f"{path.stem}.results.jsonl")


def _write_links(outcomes: Path, links: list[ShortUrl]) -> Path:
    """Write links as they are to a new file beside a file of outcomes; return its path."""
    stem = outcomes.name.removesuffix(".jsonl").removesuffix(".results")
    names = (f"{stem}.undo{f'-{n}' if n > 1 else ''}.csv" for n in count(1))
    path = next(path for path in map(outcomes.with_name, names) if not path.exists())
    with open_table(path, Table(tuple(column for column in URLS.columns if column.name in _UNDO))) as file:
        file.write([attrgetter(*_UNDO)(url) for url in links])
    return path
