"""`slashtag urls update --from`: many changes, side by side, each told what became of it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from .. import AsyncSession, Change, Outcome, SlashtagError
from .._credentials import parse_base_url
from ..export import Column, Table
from .changes import COLUMNS, Links, Problems, Row, differences, fingerprint, kept, read_changes
from .errors import one_line, say
from .kept import credentials
from .options import Connection
from .outcomes import Entry, OutcomeFile, Status
from .output import Format, Output

BULK = "Many links"
#: What some links failed in is told by this exit code.
SOME_FAILED = 3

LEFT = Table("left", (Column("line", "int"), Column("key"), Column("status"), Column("error")))
DIFFERENCES = Table(
    "differences",
    (Column("line", "int"), Column("key"), Column("member"), Column("now"), Column("new")),
)
_SENT_BEFORE = "an earlier run sent it and got no answer: look whether it was done"


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
        if self.source is None and (self.dry_run or self.keep or self.results):
            raise typer.BadParameter("--dry-run, --keep and --results belong to --from")


async def update_from(connection: Connection, bulk: Bulk, source: Path, form: Format) -> None:
    """Make the changes of a file that are left to make; exit with 3 where some failed or may not be done."""
    problems = Problems()
    rows = read_changes(source, problems)
    _refuse(problems, source)
    base_url, apikey, apisecret = credentials(connection.base_url)
    base = str(parse_base_url(base_url, allow_http=True))
    marks = {row.line: fingerprint(row.change, base, apikey, apisecret) for row in rows}
    path = bulk.results or source.with_name(f"{source.stem}.results.jsonl")
    async with connection.session() as session:
        with OutcomeFile(path, writable=not bulk.dry_run) as file:
            update = _Update(connection, session, file, marks, source)
            left = [row for row in rows if update.status(row) != "done"]
            if bulk.dry_run:
                await update.show(left, form, skipped=len(rows) - len(left))
                return
            try:
                if bulk.keep:
                    left = await update.keep(left)
                await update.run(left)
            except asyncio.CancelledError:
                connection.say(f"stopped; run the same command again to go on: {path} tells what was done")
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
        marks: Mapping[int, str],
        source: Path,
    ) -> None:
        self._connection = connection
        self._session = session
        self._file = file
        self._marks = marks
        self._source = source
        self._done = 0
        self._left: list[Entry] = []

    def status(self, row: Row) -> str | None:
        """Return what earlier runs told of a row."""
        entry = self._file.before.get(self._marks[row.line])
        return None if entry is None else entry.status

    def _is_open(self, row: Row) -> bool:
        """Tell whether a row may have been done by an earlier run, so that it must not be repeated."""
        return self.status(row) in ("sent", "unknown") and not row.change.call().repeatable

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
            f"{changed:,} rows would change a link, {same:,} would change nothing, {missing:,} name no link "
            f"or several, {skipped:,} were done before; nothing was sent"
        )

    async def keep(self, rows: Sequence[Row]) -> list[Row]:
        """Complete changes by what the listing tells."""
        links = await self._links()
        gone = [row for row in rows if self._is_open(row) and not links.find(row.change.key)]
        here = [row for row in rows if row not in gone]
        problems = Problems()
        found = links.resolve(here, problems)
        _refuse(problems, self._source)
        self._connection.say(
            "password and domain are not in the listing: a row that has none sends none, and should the "
            "service reset them, they are gone"
        )
        return [*gone, *(replace(row, change=kept(row.change, found[row.line])) for row in here)]

    async def run(self, rows: Sequence[Row]) -> None:
        """Make changes; those that must not be repeated are told to be under way before they are sent."""
        open_ = [row for row in rows if self._is_open(row)]
        for row in open_:
            self._left.append(self._entry(row, "unknown", error=_SENT_BEFORE))
        self._file.append(self._left)
        todo = [row for row in rows if row not in open_]
        repeatable = [row for row in todo if row.change.call().repeatable]
        once = [row for row in todo if not row.change.call().repeatable]
        with self._connection.bars() as start:
            report, done = start("updating"), count(1)

            def tell(*_: object) -> None:
                report(next(done), len(todo))

            await self._send(repeatable, tell)
            step = self._connection.concurrency
            for n in range(0, len(once), step):
                part = once[n : n + step]
                self._file.append([self._entry(row, "sent") for row in part], durable=True)
                await self._send(part, tell)

    async def _send(self, rows: Sequence[Row], tell: Callable[..., object]) -> None:
        by_key = {row.change.key: row for row in rows}
        changes: list[Change] = [row.change for row in rows]
        async with self._session.urls.update_many(changes, progress=tell) as outcomes:
            async for outcome in outcomes:
                self._take(by_key[outcome.change.key], outcome)

    def _take(self, row: Row, outcome: Outcome) -> None:
        error = None if outcome.error is None else one_line(str(outcome.error))
        entry = self._entry(row, outcome.status, rows_updated=outcome.rows_updated, error=error)
        self._file.append([entry])
        if outcome.status == "done":
            self._done += 1
        else:
            self._left.append(entry)

    def _entry(
        self, row: Row, status: Status, *, rows_updated: int | None = None, error: str | None = None
    ) -> Entry:
        return Entry(
            line=row.line,
            key=row.change.key,
            status=status,
            rows_updated=rows_updated,
            error=error,
            fingerprint=self._marks[row.line],
        )

    def conclude(self, form: Format, *, skipped: int) -> None:
        """Print what is left, say how it went, and exit with 3 where something is left."""
        out = Output(LEFT, form)
        out.write(self._rows())
        if self._left or form != "table":
            out.close()
        unknown = sum(entry.status == "unknown" for entry in self._left)
        failed = len(self._left) - unknown
        metrics = self._session.metrics
        self._connection.say(
            f"{self._done:,} rows done, {failed:,} failed, {unknown:,} outcome unknown, "
            f"{skipped:,} done before; {metrics.attempts:,} requests, {metrics.throttled:,} times 429; "
            f"told in {self._file.path}"
        )
        if failed:
            self._connection.say("run the same command again to try what failed")
        if self._left:
            raise typer.Exit(SOME_FAILED)

    def _rows(self) -> Iterator[tuple[int, str, str, str | None]]:
        for entry in sorted(self._left, key=lambda entry: entry.line):
            yield entry.line, str(entry.key), entry.status, entry.error
