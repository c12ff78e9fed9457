"""`slashtag urls`: short URLs, listed and changed, one or many from a file."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from os import environ
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

import typer
from msgspec.structs import astuple
from typer import Argument, Option

from ... import Change, InvalidRequestError, ShortUrl, SlashtagError
from ..._internal import check_change
from ..._wording import many
from ...bulk_update import (
    COLUMNS,
    BulkUpdate,
    ChangesError,
    Difference,
    DoubtfulChangesError,
    Preview,
    Problem,
    RowOutcome,
)
from ...export import NAMED_URLS, named_url_row
from ...tables import Column, Table
from ..output import OutputOptions
from ..run import Run, command

urls = typer.Typer()

_LINK = Column("line", "int"), Column("id", "int"), Column("slashtag")
DIFFERENCES = Table((*_LINK, Column("change"), Column("before"), Column("after")))
LEFT = Table((*_LINK, Column("status"), Column("error")))
PASSWORD_VARIABLE = "SLASHTAG_LINK_PASSWORD"  # noqa: S105 - its name
#: Columns that are drawn, each from this width of the terminal on.
WIDTHS = {
    "id": 100,
    "short_url": 0,
    "hits": 0,
    "redirect_code": 140,
    "tag_name": 120,
    "created_at": 80,
    "destination": 0,
}
#: The option that changes each member that a listing shows.
_OPTIONS = {
    "destination": "--destination",
    "slashtag": "--new-slashtag",
    "redirect_code": "--redirect-code",
}
#: What to do about values that are doubtful.
_CONFIRM = "correct it, or give --yes to send it all the same"
_which = partial(Option, rich_help_panel="Which links")


@dataclass
class FilterOptions:
    """Options of which links are listed; the service lists all, so all are read."""

    limit: int | None = _which(None, min=0, metavar="N", help="The most links to list; default: all.")
    tag: list[str] | None = _which(None, metavar="NAME", help="Links of this tag; may be repeated.")
    untagged: bool = _which(False, "--untagged", help="Links without a tag.")
    search: str | None = _which(
        None, metavar="TEXT", help="Links with this text in short URL or destination."
    )

    def __post_init__(self) -> None:
        if self.tag and self.untagged:
            raise InvalidRequestError("--untagged goes without --tag")

    def accepts(self, url: ShortUrl, names: Mapping[int, str]) -> bool:
        """Return whether a link is listed; `names` are those of the tags."""
        if (self.untagged and url.tag_id) or (self.tag and names.get(url.tag_id or 0) not in self.tag):
            return False
        text, texts = (self.search or "").casefold(), (url.slashtag, url.short_url, url.destination)
        return any(text in (part or "").casefold() for part in texts)


@urls.command("list")
@command
async def list_urls(run: Run, output: OutputOptions, filter_: FilterOptions) -> None:
    """List the short URLs of the account, oldest first."""
    count, limit = 0, filter_.limit
    async with run.session() as session:
        names = await session.tags.names(filter_.tag or ())
        with output.writer(NAMED_URLS, WIDTHS, run.end_bars) as writer, run.bars() as start_bar:
            listing = session.urls.list(progress=start_bar("reading", "rows"))
            async with listing.pages() as pages:
                async for page in pages:
                    rows = [named_url_row(url, names) for url in page.items if filter_.accepts(url, names)]
                    rows = rows if limit is None else rows[: limit - count]
                    writer.write(rows)
                    count += len(rows)
                    if count == limit:
                        break
            writer.about = run.about(session)
    if output.file is not None:
        run.say(f"{many(count, 'row')} to {output.file}; {run.cost()}")


@dataclass(frozen=True)
class MemberOptions:
    """Options of what is changed of one link; None stays as it is."""

    destination: str | None = Option(None, metavar="URL", help="Its new destination, in quotes.")
    slashtag: str | None = Option(None, "--new-slashtag", metavar="TEXT", help="Its new slashtag.")
    redirect_code: int | None = Option(
        None, metavar="CODE", help="Its new redirect code, such as 301 or 302."
    )
    domain_id: int | None = Option(None, min=0, metavar="ID", help="Its domain; 0: none.")
    password: bool | None = Option(
        None,
        "--password/--no-password",
        help=f"Protect it with a password, from {PASSWORD_VARIABLE} or a prompt; or with none.",
    )

    def change(self, key: str) -> Change:
        """Return the change of one link; asks for the password."""
        given: dict[str, Any] = vars(self).copy()
        if all(value is None for value in given.values()):
            file = f"; if it is a file of changes: --from {quote(key)}" if Path(key).is_file() else ""
            raise InvalidRequestError(f"nothing to change of the link {key!r}{file}")
        if self.password is not None:
            given["password"] = _password() if self.password else ""
        check_change(Change(1, **given))
        return Change(key, **given)


@urls.command("update")
@command
async def update_url(
    run: Run,
    members: MemberOptions,
    output: OutputOptions,
    key: str | None = Argument(None, metavar="KEY", help="The slashtag, short URL or id of the link."),
    source: Path | None = Option(
        None,
        "--from",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help=f"Changes of many links: a CSV file or workbook with columns of {', '.join(COLUMNS)}; or an "
        "edited copy of `urls list`, whose changed rows are sent. Outcomes are recorded beside it.",
    ),
    dry_run: bool = Option(False, "--dry-run", help="Show what would change, and change nothing."),
    yes: bool = Option(
        False, "--yes", help="Do not ask about what is doubtful, such as a scheme that browsers do not know."
    ),
) -> None:
    """Change one link, or with --from many.

    All is checked, and compared with the links as they are, before anything is sent. The present destination
    and redirect code are sent along where none is given. Each change is made at most once; one whose answer
    was lost is reported as unknown. Run again, the command does only what is left.
    """
    if (key is None) == (source is None):
        raise InvalidRequestError("give the KEY of one link, or --from FILE")
    if source is not None and any(value is not None for value in vars(members).values()):
        raise InvalidRequestError("with --from the file says which links are changed, and how")
    changes = [members.change(key or "")] if source is None else source
    confirm = partial(_confirm, run)
    try:
        async with run.session() as session:
            with run.bars() as start_bar, TemporaryDirectory() as folder:
                update = BulkUpdate(
                    session,
                    changes,
                    # Of one link there is nothing to go on with.
                    outcomes=None if source else Path(folder, "outcomes"),
                    confirm=yes or confirm,
                    or_id=key is not None,
                    progress=start_bar("updating", "rows"),
                )
                preview = await update.preview() if dry_run else None
                left = [] if dry_run else await _carry_out(run, update, key)
    except ChangesError as error:
        is_doubt = isinstance(error, DoubtfulChangesError)
        advice = f"; {_CONFIRM}" * is_doubt
        if key is not None:
            raise InvalidRequestError("; ".join(each.text for each in error.problems) + advice) from None
        found = many(len(error.problems), "doubtful value" if is_doubt else "error")
        told, last = _together(error.problems), f"{source} has {found}; nothing was sent{advice}"
        for text in (f"{told[0]}; {last}",) if len(told) == 1 else (*told, last):
            run.lines.error(text)
        raise typer.Exit(1) from None
    if preview is not None:
        _show(run, output, preview, [] if yes else preview.doubts)
    elif key is not None:
        _report_one(run, output, update, left, key)
    else:
        _report(run, output, update, left)


def _confirm(run: Run, doubts: Iterable[Problem]) -> bool:
    return run.confirm(_together(doubts))


def _together(problems: Iterable[Problem]) -> list[str]:
    """Return errors of rows as lines, equal ones as one with their number."""
    times, first = Counter[str](), dict[str, int]()
    for problem in problems:
        times[problem.text] += 1
        first.setdefault(problem.text, problem.line)
    return [
        f"line {first[text]}{f' and {n - 1:,} more rows' if n > 1 else ''}: {text}"
        for text, n in times.items()
    ]


def _password() -> str:
    """Return the password of a link, from the environment or a prompt that does not show it."""
    given = environ.get(PASSWORD_VARIABLE)
    if not given and not sys.stdin.isatty():
        raise InvalidRequestError(f"no terminal to ask for the password; set {PASSWORD_VARIABLE}")
    return given or typer.prompt("password of the link", hide_input=True, confirmation_prompt=True, err=True)


async def _carry_out(run: Run, update: BulkUpdate, key: str | None) -> list[RowOutcome]:
    """Send the changes and return the outcomes of those that were not made; print how one is undone."""
    if key is None:
        run.resumes_from(update.path)
    try:
        async with update:
            return sorted(
                [each async for each in update if each.status != "done"], key=lambda each: each.line
            )
    finally:
        # Also if the answer is not waited for.
        if key is not None and update.planned and update.planned.sent and not update.summary["failed"]:
            run.say(_undo(update.planned.differences))


def _undo(differences: Iterable[Difference]) -> str:
    """Return the command that changes a link back, as far as a listing shows what it was."""
    shown = {each.member: each for each in differences if each.now not in ("", "?")}
    hidden = [each.member for each in differences if each.member not in shown]
    options = [f"{_OPTIONS[name]} {quote(each.now)}" for name, each in shown.items()]
    id = next(each.id for each in differences)
    parts = [f"to undo it: slashtag urls update {id} {' '.join(options)}"] if options else []
    parts += [f"what it had as {' and '.join(hidden)} is not known, and cannot be undone"] if hidden else []
    return "; ".join(parts)


def _sum(differences: Iterable[Difference]) -> str:
    """Return in words how many changes of each kind there are, after a semicolon; empty for none."""
    names = {"redirect_code": "redirect code", "domain_id": "domain"}
    times = Counter(each.member for each in differences if each.member)
    kinds = [many(n, names.get(name, name)) for name, n in times.items()]
    return f"; {', '.join(kinds)}" if kinds else ""


def _show(run: Run, output: OutputOptions, preview: Preview, doubts: list[Problem]) -> None:
    """Print what the rows would change; the exit code is 3 where some would not be made."""
    for text in _together(doubts):
        run.warn(text, "doubtful: ")
    left = [(*_named(each), "", each.error, "") for each in preview.left]
    output.print(DIFFERENCES, sorted([*map(astuple, preview.differences), *left], key=itemgetter(0)))
    status = Counter(each.status for each in preview.left)
    run.say(
        f"{many(len(preview.sent), 'link')} would be changed, {preview.unchanged:,} are so already, "
        f"{status['changed']:,} changed by others since, {status['failed']:,} name no link or several"
        f"{_sum(preview.differences)}; nothing was sent{f'; {_CONFIRM}' if doubts else ''}"
    )
    if preview.left:
        run.mark_incomplete()


def _named(outcome: RowOutcome) -> tuple[int, int | None, str]:
    """Return line, id and slashtag of a row, or what it gives for these."""
    return outcome.line, outcome.id, outcome.slashtag or str(outcome.key)


def _report_one(
    run: Run, output: OutputOptions, update: BulkUpdate, left: list[RowOutcome], key: str
) -> None:
    for outcome in left:
        raise SlashtagError(f"{key}: {outcome.error}; `slashtag urls list` shows the links as they are")
    differences = update.planned.differences if update.planned else []
    output.print(DIFFERENCES, map(astuple, differences))
    told = f"1 link changed{_sum(differences)}" if differences else "the link is so already"
    run.say(f"{told}; {run.cost()}")


def _report(run: Run, output: OutputOptions, update: BulkUpdate, left: list[RowOutcome]) -> None:
    """Print what is left and what helps; the exit code is 3 where something is left."""
    if left or output.form != "table":
        output.print(LEFT, [(*_named(each), each.status, each.error) for each in left])
    n = update.summary
    run.say(
        f"{many(n['done'], 'link')} changed, {n['failed']:,} failed, {n['unknown']:,} unknown, "
        f"{n['changed']:,} changed by others since, {n['unchanged']:,} are so already; {run.cost()}; "
        f"outcomes in {update.path}"
    )
    if n["unknown"]:
        run.say("unknown: run the same command again, which looks first whether they were made")
    if update.undo_path is not None:
        undo = f"slashtag urls update --from {quote(f'{update.undo_path}')}"
        run.say(f"to undo the changes of {many(update.undoes, 'link')}: {undo}")
    if left:
        run.mark_incomplete()
