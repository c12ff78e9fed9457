"""Concurrent changes, each recorded before it is sent and once its outcome is known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from .. import AsyncSession, AuthenticationError, Change, InvalidRequestError, Outcome, Progress
from .._internal import AsyncReadable
from ._links import Difference, Links, completed, differences
from ._outcome_file import UNANSWERED, OutcomeFile, RowOutcome, Status, read_outcomes, sent
from ._planning import ChangeRow, ChangesError, Problem, checked, read_changes

Changes = str | os.PathLike[str] | Iterable[Change | ChangeRow]

_SENT_BEFORE = "an earlier run sent it and got no answer: look whether it was done"
_SENT_AGAIN = "an earlier run sent it and got no answer, this run sent it again: "


class _Row(ChangeRow, frozen=True):
    """Change with its outcome "sent", which identifies it in the file of outcomes."""

    sent: RowOutcome


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
    rows, path = _prepare(session, changes, outcomes)
    statuses, _ = read_outcomes(path)
    left = [row for row in rows if statuses.get(row.sent.fingerprint) != "done"]
    unknown = sum(statuses.get(row.sent.fingerprint) in UNANSWERED for row in left)
    links = Links(await session.urls.list(progress=progress, anew=True).to_list())
    found: list[Difference] = []
    changed = missing = 0
    for row in left:
        try:
            altered = list(differences(row.line, row.change, links.find(row.change.key)))
            changed += bool(altered)
        except InvalidRequestError as error:
            altered = [Difference(row.line, row.change.key, "", str(error), "")]
            missing += 1
        found += altered
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
        self._rows, self.path = _prepare(session, changes, outcomes)
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
            left = [row for row in self._rows if file.statuses.get(row.sent.fingerprint) != "done"]
            self._counts["skipped"] = len(self._rows) - len(left)
            held = [row for row in left if self._is_held(file, row)]
            todo = [row for row in left if not self._is_held(file, row)]
            if self._keep:
                links = await self._session.urls.list(progress=self._progress, anew=True).to_list()
                todo = _completed(todo, Links(links))
            for row in held:
                yield self._record(file, row, "unknown", error=_SENT_BEFORE)
            done = 0
            # The first is sent alone: with wrong credentials it is the only one.
            for rows in (todo[:1], todo[1:]):
                async with aclosing(self._send(file, rows)) as outcomes:
                    async for outcome in outcomes:
                        done += 1
                        if self._progress is not None:
                            self._progress(done, len(todo))
                        yield outcome

    def _is_held(self, file: OutcomeFile, row: _Row) -> bool:
        """Return whether a row is not sent, as it may have been done; renames by slashtag never are again."""
        may_be_repeated = self._repeat_lost and row.change.call().repeat == "always"
        return file.statuses.get(row.sent.fingerprint) in UNANSWERED and not may_be_repeated

    async def _send(self, file: OutcomeFile, rows: list[_Row]) -> AsyncGenerator[RowOutcome, None]:
        row_of = {row.change.key: row for row in rows}
        updates = self._session.urls.update_many(
            [row.change for row in rows],
            repeat_lost=self._repeat_lost,
            before=lambda change: file.announce(row_of[change.key].sent),
        )
        try:
            async with updates as outcomes:
                async for outcome in outcomes:
                    yield self._take(file, row_of[outcome.change.key], outcome)
        except AuthenticationError as error:
            # The change that was answered with this error was not done.
            for row in rows:
                if row.change.call().path == error.path:
                    self._take(file, row, Outcome(row.change, "failed", error=error))
            raise

    def _take(self, file: OutcomeFile, row: _Row, outcome: Outcome) -> RowOutcome:
        status: Status = outcome.status
        # Without line breaks and control characters.
        text = "".join(c if c.isprintable() else " " for c in str(outcome.error))
        if status == "failed" and file.statuses.get(row.sent.fingerprint) in UNANSWERED:
            # Not done this time, but the earlier run may have done it.
            status, text = "unknown", f"{_SENT_AGAIN}{text}"
        error = text if outcome.error else None
        return self._record(file, row, status, rows_updated=outcome.rows_updated, error=error)

    def _record(self, file: OutcomeFile, row: _Row, status: Status, **more: Any) -> RowOutcome:
        outcome = replace(row.sent, status=status, **more)
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
) -> tuple[list[_Row], Path]:
    """Return the rows, and the path of their file of outcomes."""
    if isinstance(changes, str | os.PathLike):
        source = Path(changes)
        rows = read_changes(source)
        outcomes = outcomes or source.with_name(f"{source.stem}.results.jsonl")
    elif outcomes is None:
        raise TypeError("outcomes= names the file of outcomes where changes do not come from a file")
    else:
        numbered = enumerate(changes, 1)
        rows = checked([row if isinstance(row, ChangeRow) else ChangeRow(n, row) for n, row in numbered])
    return [_Row(row.line, row.change, sent(row.line, row.change, session)) for row in rows], Path(outcomes)


def _completed(rows: Iterable[_Row], links: Links) -> list[_Row]:
    """Return the rows with what the listing has of their links.

    Raises ChangesError for rows that name no link, several, or the link of another row.
    """
    found: dict[int, _Row] = {}
    problems: list[Problem] = []
    for row in rows:
        try:
            url = links.find(row.change.key)
            if (other := found.get(url.id)) is not None:
                raise InvalidRequestError(f"it is the link of line {other.line}")
            found[url.id] = replace(row, change=completed(row.change, url))
        except InvalidRequestError as error:
            problems.append(Problem(row.line, f"{row.change.key!r}: {error}"))
    if problems:
        raise ChangesError("the list of changes", problems)
    return list(found.values())
