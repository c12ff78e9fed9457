"""Concurrent changes, each recorded before it is sent and once its outcome is known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from .. import AsyncSession, AuthenticationError, Change, Outcome
from .._internal import AsyncReadable, Progress
from ._outcome_file import UNANSWERED, OutcomeFile, RowOutcome, Status, sent
from ._planning import ChangeRow, Difference, Links, completed, differences, read_changes, rows_of

Changes = str | os.PathLike[str] | Iterable[Change | ChangeRow]

_SENT_BEFORE = "an earlier run sent it and got no answer: look whether it was done"
_SENT_AGAIN = "an earlier run sent it and got no answer, this run sent it again: "


class BulkSummary(Struct, frozen=True, kw_only=True):
    """Numbers of rows by outcome in this run; `skipped` were done by an earlier one."""

    done: int = 0
    failed: int = 0
    unknown: int = 0
    skipped: int = 0


class Preview(Struct, frozen=True, kw_only=True):
    """Comparison of changes with the present links.

    A row that names no link, or several, has one difference without a member, whose `now` says so. `changed`,
    `unchanged` and `missing` count rows, `skipped` those done before, `unknown` those of the others that an
    earlier run sent without getting an answer.
    """

    differences: tuple[Difference, ...]
    changed: int
    unchanged: int
    missing: int
    skipped: int
    unknown: int


async def preview(
    session: AsyncSession,
    changes: Changes,
    *,
    outcomes: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Preview:
    """Compare the remaining changes with the links of the account, without sending any.

    Arguments and errors as BulkUpdate; `progress` is called with (links read, None). Lists all links. See
    docs/service.md, List short URLs.
    """
    rows, marks, path = _prepare(session, changes, outcomes)
    with OutcomeFile(path, writable=False) as file:
        left = [row for row in rows if file.status(marks[row.line]) != "done"]
        unknown = sum(file.status(marks[row.line]) in UNANSWERED for row in left)
    links = Links(await session.urls.list(progress=progress).to_list())
    found: list[Difference] = []
    changed = missing = 0
    for row in left:
        urls = links.find(row.change.key)
        if len(urls) == 1:
            found += (altered := list(differences(row, urls[0])))
            changed += bool(altered)
        else:
            missing += 1
            why = "several links: give the id" if urls else "no such link"
            found.append(Difference(row.line, row.change.key, "", why, ""))
    return Preview(
        differences=tuple(found),
        changed=changed,
        unchanged=len(left) - changed - missing,
        missing=missing,
        skipped=len(rows) - len(left),
        unknown=unknown,
    )


class BulkUpdate(AsyncReadable):
    """Update of many links, each changed at most once; an async iterator over a RowOutcome for each.

    `changes`: a CSV file (see `read_changes`) or Changes. `outcomes`: the file of outcomes; by default beside
    the CSV file. Rows that are "done" in it are skipped, those that an earlier run sent without getting an
    answer are "unknown" and not sent. `repeat_lost` sends the latter again, and those whose answer is lost in
    this run, but never a rename by slashtag. `keep` lists all links first, names each by its id and sends its
    present destination and redirect code if a change gives none, since it is undocumented whether the service
    resets omitted members. Password and domain are not in the listing.

    The first change is sent alone, so that wrong credentials cost one request. `progress` is called with
    (links read, None) while `keep` lists them, then with (rows done, total). Use it with `async with`, or
    leave it early with `aclose()`.

    Raises ChangesError and InvalidRequestError before anything is sent, ExportError if the file of outcomes
    cannot be written or another run has it open, and errors of wrong credentials. See docs/service.md, Update
    a short URL.
    """

    def __init__(
        self,
        session: AsyncSession,
        changes: Changes,
        *,
        outcomes: str | os.PathLike[str] | None = None,
        keep: bool = False,
        repeat_lost: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._session = session
        self._rows, self._marks, self.path = _prepare(session, changes, outcomes)
        self._keep = keep
        self._repeat_lost = repeat_lost
        self._progress = progress
        self._counts: Counter[str] = Counter()
        self._outcomes = self._run()

    @property
    def summary(self) -> BulkSummary:
        """Counts of the outcomes so far."""
        return BulkSummary(**self._counts)

    async def _run(self) -> AsyncGenerator[RowOutcome, None]:
        with OutcomeFile(self.path) as file:
            left = [row for row in self._rows if file.status(self._marks[row.line]) != "done"]
            self._counts["skipped"] = len(self._rows) - len(left)
            # Rows that are not sent because they may have been done. A rename by slashtag is never repeated.
            held = {
                row.line
                for row in left
                if file.status(self._marks[row.line]) in UNANSWERED
                and not (self._repeat_lost and row.change.call().repeat == "always")
            }
            if self._keep:
                left = await self._completed(held, left)
            for row in left:
                if row.line in held:
                    yield self._record(file, row, "unknown", error=_SENT_BEFORE)
            todo = [row for row in left if row.line not in held]
            done = count(1)

            def report(*_: object) -> None:
                if self._progress is not None:
                    self._progress(next(done), len(todo))

            # The first is sent alone: with wrong credentials it is the only one.
            for rows in (todo[:1], todo[1:]):
                async with aclosing(self._send(file, rows, report)) as outcomes:
                    async for outcome in outcomes:
                        yield outcome

    async def _completed(self, held: set[int], left: Sequence[ChangeRow]) -> list[ChangeRow]:
        """Return the rows, those to be sent with what the listing has of their links."""
        links = Links(await self._session.urls.list(progress=self._progress).to_list())
        found = links.resolve(row for row in left if row.line not in held)
        return [
            ChangeRow(row.line, completed(row.change, found[row.line])) if row.line in found else row
            for row in left
        ]

    async def _send(
        self, file: OutcomeFile, rows: Sequence[ChangeRow], report: Progress
    ) -> AsyncGenerator[RowOutcome, None]:
        by_key = {row.change.key: row for row in rows}

        async def announce(change: Change) -> None:
            await file.announce(self._marks[by_key[change.key].line])

        updates = self._session.urls.update_many(
            [row.change for row in rows], repeat_lost=self._repeat_lost, before=announce, progress=report
        )
        try:
            async with updates as outcomes:
                async for outcome in outcomes:
                    yield self._take(file, by_key[outcome.change.key], outcome)
        except AuthenticationError as error:
            # The change that was answered with this error was not done.
            for row in rows:
                if row.change.call().path == error.path:
                    self._take(file, row, Outcome(row.change, "failed", error=error))
            raise

    def _take(self, file: OutcomeFile, row: ChangeRow, outcome: Outcome) -> RowOutcome:
        status: Status = outcome.status
        error = None if outcome.error is None else _one_line(str(outcome.error))
        if status == "failed" and file.status(self._marks[row.line]) in UNANSWERED:
            # Not done this time, but the earlier run may have done it.
            status, error = "unknown", f"{_SENT_AGAIN}{error}"
        return self._record(file, row, status, rows_updated=outcome.rows_updated, error=error)

    def _record(self, file: OutcomeFile, row: ChangeRow, status: Status, **more: Any) -> RowOutcome:
        outcome = msgspec.structs.replace(self._marks[row.line], status=status, **more)
        file.append(outcome)
        self._counts[status] += 1
        return outcome

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RowOutcome:
        return await anext(self._outcomes)

    async def aclose(self) -> None:
        """Cancel what is under way and close the file of outcomes; safe to repeat."""
        await self._outcomes.aclose()


def _prepare(
    session: AsyncSession, changes: Changes, outcomes: str | os.PathLike[str] | None
) -> tuple[list[ChangeRow], dict[int, RowOutcome], Path]:
    """Return the rows, by line the outcome "sent" of each, and the path of their file of outcomes."""
    if isinstance(changes, str | os.PathLike):
        source = Path(changes)
        rows = read_changes(source)
        outcomes = outcomes or source.with_name(f"{source.stem}.results.jsonl")
    elif outcomes is None:
        raise TypeError("outcomes= names the file of outcomes where changes do not come from a file")
    else:
        rows = rows_of(changes)
    return rows, {row.line: sent(row.line, row.change, session) for row in rows}, Path(outcomes)


def _one_line(text: str) -> str:
    """Return a text without line breaks and control characters."""
    return "".join(c if c.isprintable() else " " for c in text)
