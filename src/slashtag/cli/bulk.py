"""`slashtag urls update --from`: many changes, side by side, each made once and told what became of it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from .. import AsyncSession, AuthenticationError, Change, Outcome, SlashtagError
from .._credentials import parse_base_url
from ..export import Column, Table
from .changes import (
    COLUMNS,
    Links,
    Problems,
    Row,
    completed,
    differences,
    fingerprint,
    link_marks,
    read_changes,
)
from .credentials_file import credentials
from .errors import SOME_FAILED, many, one_line, say
from .options import Connection
from .outcomes import Entry, OutcomeFile, Status
from .output import Format, Output

BULK = "Many links"

LEFT = Table((Column("line", "int"), Column("key"), Column("status"), Column("error")))
DIFFERENCES = Table(
    (Column("line", "int"), Column("key"), Column("member"), Column("now"), Column("new")),
)
_SENT_BEFORE = "an earlier run sent it and got no answer: look whether it was done"
_SENT_AGAIN = "an earlier run sent it and got no answer, this run sent it again: "


@dataclass(frozen=True)
class Bulk:
    """Say which changes are made, and how."""

    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help=f"Changes as CSV with some of the columns {', '.join(COLUMNS)}.",
            rich_help_panel=BULK,
            show_default=False,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would change, and change nothing.", rich_help_panel=BULK),
    ] = False
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Read all links first, and send destination and redirect code again where a row has none.",
            rich_help_panel=BULK,
        ),
    ] = False
    repeat_lost: Annotated[
        bool,
        typer.Option(
            "--repeat-lost",
            help="Send again changes whose answer was lost, in this run and those an earlier run told as "
            "unknown; never a rename by slashtag.",
            rich_help_panel=BULK,
        ),
    ] = False
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where is told what became of each row, and read what is left. Default: beside FILE.",
            rich_help_panel=BULK,
            show_default=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.source is None and (self.dry_run or self.keep or self.repeat_lost or self.results):
            raise typer.BadParameter("--dry-run, --keep, --repeat-lost and --results belong to --from")


async def update_from(connection: Connection, bulk: Bulk, source: Path, form: Format) -> None:
    """Make the changes of a file that are left to make; exit with 3 where some failed or may not be done."""
    problems = Problems()
    rows = read_changes(source, problems)
    _refuse(problems, source)
    base_url, apikey, apisecret = credentials(connection.base_url)
    account = (str(parse_base_url(base_url, allow_http=True)), apikey, apisecret)
    marks = {row.line: (fingerprint(row.change, *account), link_marks(row.change, *account)) for row in rows}
    path = bulk.results or source.with_name(f"{source.stem}.results.jsonl")
    async with connection.session() as session:
        with OutcomeFile(path, writable=not bulk.dry_run) as file:
            update = _Update(connection, session, file, marks, source, repeat_lost=bulk.repeat_lost)
            left = [row for row in rows if update.status(row) != "done"]
            if bulk.dry_run:
                await update.show(left, form, skipped=len(rows) - len(left))
                return
            try:
                if bulk.keep:
                    left = await update.keep(left)
                await update.run(left)
            except asyncio.CancelledError:
                connection.stop(f"stopped; run the same command again to go on: {path} tells what was done")
                raise
            except SlashtagError as error:
                error.add_note("run the same command again to go on")
                raise
    update.conclude(form, skipped=len(rows) - len(left))


def _refuse(problems: Problems, source: Path) -> None:
    if problems.found:
        for text in problems.told():
            say(text, label="error: ", style="bold red")
        errors = f"{len(problems.found):,} error{'s' if len(problems.found) > 1 else ''}"
        say(f"{source} has {errors}; nothing was sent", label="error: ", style="bold red")
        raise typer.Exit(1)


class _Update:
    """Make changes, telling a file what becomes of each."""

    def __init__(
        self,
        connection: Connection,
        session: AsyncSession,
        file: OutcomeFile,
        marks: Mapping[int, tuple[str, tuple[str, ...]]],
        source: Path,
        *,
        repeat_lost: bool,
    ) -> None:
        self._connection = connection
        self._session = session
        self._file = file
        self._marks = marks
        self._source = source
        self._repeat_lost = repeat_lost
        self._done = 0
        self._left: list[tuple[Row, Entry]] = []

    def status(self, row: Row) -> str | None:
        """Return what earlier runs told of a row."""
        entry = self._file.before.get(self._marks[row.line][0])
        return None if entry is None else entry.status

    def _is_open(self, row: Row) -> bool:
        """Tell whether a row may have been done by an earlier run, which got no answer."""
        return self.status(row) in ("sent", "unknown")

    def _is_kept_back(self, row: Row) -> bool:
        """Tell whether a row is not sent since it may have been done."""
        return self._is_open(row) and not (self._repeat_lost and _is_repeatable(row))

    async def _links(self) -> Links:
        with self._connection.bars() as start:
            return Links(await self._session.urls.list(progress=start("reading")).to_list())

    async def show(self, rows: Sequence[Row], form: Format, *, skipped: int) -> None:
        """Print what rows would change of what the account has."""
        links = await self._links()
        out = Output(DIFFERENCES, form)
        changed = missing = 0
        for row in rows:
            urls = links.find(row.change.key)
            if len(urls) != 1:
                missing += 1
                told = "several links: give the id" if urls else "no such link"
                out.write([(row.line, str(row.change.key), "", told, "")])
                continue
            found = list(differences(row.change, urls[0]))
            changed += bool(found)
            out.write((row.line, str(row.change.key), *difference) for difference in found)
        out.close()
        same = len(rows) - changed - missing
        self._connection.say(
            f"{many(changed, 'row')} would change a link, {same:,} would change nothing, "
            f"{missing:,} name no link or several, {skipped:,} were done before; nothing was sent"
        )
        if unknown := sum(map(self._is_open, rows)):
            self._connection.say(
                f"{unknown:,} of them were sent before and got no answer: where destination, slashtag or "
                "redirect code would change, they were not done, or somebody has changed it since"
            )

    async def keep(self, rows: Sequence[Row]) -> list[Row]:
        """Complete changes by what the listing tells."""
        links = await self._links()
        # A link that still has the slashtag was not renamed: it can be, by its id.
        back = [
            row
            for row in rows
            if self._is_kept_back(row) and not (self._repeat_lost and links.find(row.change.key))
        ]
        here = _without(rows, back)
        problems = Problems()
        found = links.resolve(here, problems)
        _refuse(problems, self._source)
        self._connection.say(
            "password and domain are not in the listing: a row that has none sends none, and should the "
            "service reset them, they are gone"
        )
        return [*back, *(replace(row, change=completed(row.change, found[row.line])) for row in here)]

    async def run(self, rows: Sequence[Row]) -> None:
        """Make changes, each told to be under way before it is sent."""
        back = [row for row in rows if self._is_kept_back(row)]
        for row in back:
            self._left.append((row, self._entry(row, "unknown", error=_SENT_BEFORE)))
        self._file.append(entry for _, entry in self._left)
        todo = _without(rows, back)
        with self._connection.bars() as start:
            report, done = start("updating"), count(1)

            def tell(*_: object) -> None:
                report(next(done), len(todo))

            # The first goes alone: should the credentials be wrong, it is the only one that was sent.
            await self._send(todo[:1], tell)
            await self._send(todo[1:], tell)

    async def _send(self, rows: Sequence[Row], tell: Callable[..., object]) -> None:
        by_key = {row.change.key: row for row in rows}

        async def announce(change: Change) -> None:
            await self._file.announce(self._entry(by_key[change.key], "sent"))

        updates = self._session.urls.update_many(
            [row.change for row in rows], repeat_lost=self._repeat_lost, before=announce, progress=tell
        )
        try:
            async with updates as outcomes:
                async for outcome in outcomes:
                    self._take(by_key[outcome.change.key], outcome)
        except AuthenticationError as error:
            # Of those under way this one is known not to be done.
            for row in rows:
                if row.change.call().path == error.path:
                    self._take(row, Outcome(row.change, "failed", error=error))
            raise

    def _take(self, row: Row, outcome: Outcome) -> None:
        status = outcome.status
        error = None if outcome.error is None else one_line(str(outcome.error))
        if status == "failed" and self._is_open(row):
            # This time it was not done, but it may have been done by the earlier run.
            status, error = "unknown", f"{_SENT_AGAIN}{error}"
        entry = self._entry(row, status, rows_updated=outcome.rows_updated, error=error)
        self._file.append([entry])
        if status == "done":
            self._done += 1
        else:
            self._left.append((row, entry))

    def _entry(
        self, row: Row, status: Status, *, rows_updated: int | None = None, error: str | None = None
    ) -> Entry:
        # Of the row as the file has it: --keep names its link by id.
        mark, links = self._marks[row.line]
        return Entry(
            line=row.line,
            key=row.change.key,
            status=status,
            rows_updated=rows_updated,
            error=error,
            fingerprint=mark,
            links=links,
        )

    def conclude(self, form: Format, *, skipped: int) -> None:
        """Print what is left, say how it went, and exit with 3 where something is left."""
        out = Output(LEFT, form)
        out.write(self._rows())
        if self._left or form != "table":
            out.close()
        unknown = [row for row, entry in self._left if entry.status == "unknown"]
        failed = len(self._left) - len(unknown)
        metrics = self._session.metrics
        self._connection.say(
            f"{many(self._done, 'row')} done, {failed:,} failed, {len(unknown):,} outcome unknown, "
            f"{skipped:,} done before; {many(metrics.attempts, 'request')}, {metrics.throttled:,} times 429; "
            f"told in {self._file.path}"
        )
        if lost := sum(map(_is_repeatable, unknown)):
            self._connection.say(
                f"{lost:,} unknown: see with --dry-run what they would change, then send them again with "
                "--repeat-lost"
            )
        if renames := len(unknown) - lost:
            self._connection.say(
                f"{many(renames, 'unknown rename')} by slashtag: see with --dry-run which links still have "
                "the old one, then rename these by id with --keep --repeat-lost"
            )
        if failed:
            self._connection.say("run the same command again to try what failed")
        if self._left:
            raise typer.Exit(SOME_FAILED)

    def _rows(self) -> Iterator[tuple[int, str, str, str | None]]:
        for _, entry in sorted(self._left, key=lambda left: left[1].line):
            yield entry.line, str(entry.key), entry.status, entry.error


def _without(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    lines = {row.line for row in others}
    return [row for row in rows if row.line not in lines]


def _is_repeatable(row: Row) -> bool:
    """Tell whether a row can be sent again: a rename by slashtag would not find its link."""
    return row.change.call().repeatable
