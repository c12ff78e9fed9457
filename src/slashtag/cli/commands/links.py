"""`slashtag urls`: short URLs, listed and changed, one or many from a file."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from os import environ
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import typer
from typer import Argument, Option

from ... import (
    AsyncSession,
    Change,
    DateRange,
    InvalidRequestError,
    OutcomeUnknownError,
    Progress,
    ShortUrl,
)
from ..._internal import MAX_SLASHTAG, find_doubts, find_problems, many
from ...bulk_update import (
    COLUMNS,
    BulkUpdate,
    ChangesError,
    Difference,
    DoubtfulChangesError,
    Problem,
    find_differences,
)
from ...export import NAMED_URLS, named_url_row, names_of_tags
from ...tables import Column, Table
from ..output import OutputOptions
from ..run import Run, command

urls = typer.Typer()

_LINK = Column("id", "int"), Column("slashtag")
_CHANGE = *_LINK, Column("change"), Column("before"), Column("after")
UPDATED = Table(_CHANGE)
LEFT = Table((Column("line", "int"), *_LINK, Column("status"), Column("error")))
DIFFERENCES = Table((Column("line", "int"), *_CHANGE))
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
_which = partial(Option, rich_help_panel="Which links")
_bulk = partial(Option, rich_help_panel="Many links")
#: So many equal errors are told one by one.
MOST_EQUAL = 3
#: What to do about values that are doubtful.
_CONFIRM = "correct it, or give --yes to send it all the same"


@dataclass
class FilterOptions:
    """Options of which links are listed, and in which order; the service lists all, so all are read."""

    orderby: Literal["date", "-date"] = _which(
        "date", help="date: oldest first, complete even while links are added; -date: latest first."
    )
    limit: int | None = _which(None, min=0, metavar="N", help="The most links to list; default: all.")
    tag: list[str] | None = _which(None, metavar="NAME", help="Links of this tag; may be repeated.")
    untagged: bool = _which(False, "--untagged", help="Links without a tag.")
    no_clicks: bool = _which(
        False, "--no-clicks", help="Links that were never clicked; in a span: `slashtag top --no-clicks`."
    )
    search: str | None = _which(
        None, metavar="TEXT", help="Links with this text in short URL or destination."
    )
    created_after: str | None = _which(
        None, metavar="SPAN", help="Links created since: 2024-06-01, 2024-06, 30d, last-month."
    )
    updated_after: str | None = _which(None, metavar="SPAN", help="Links updated since, as --created-after.")

    def __post_init__(self) -> None:
        if self.tag and self.untagged:
            raise InvalidRequestError("--untagged goes without --tag")
        self.first_created = _first_day(self.created_after)
        self.first_updated = _first_day(self.updated_after)

    def accepts(self, url: ShortUrl, names: Mapping[int, str]) -> bool:
        """Return whether a link is listed; `names` are those of the tags."""
        is_tagged = not self.tag or (url.tag_id is not None and names.get(url.tag_id) in self.tag)
        is_tagged &= not self.untagged or url.tag_id is None
        is_tagged &= not self.no_clicks or url.hits == 0
        is_recent = (url.created_at or datetime.min).date() >= self.first_created
        is_recent &= (url.updated_at or datetime.min).date() >= self.first_updated
        text, texts = (self.search or "").casefold(), (url.slashtag, url.short_url, url.destination)
        return is_tagged and is_recent and any(text in (part or "").casefold() for part in texts)


def _first_day(text: str | None) -> date:
    """Return the first day of a span in UTC, as the service's times bear no zone."""
    return date.min if text is None else DateRange.parse(text).resolve(UTC, datetime.now(UTC)).span(UTC)[0]


@urls.command("list")
@command
async def list_urls(run: Run, output: OutputOptions, filter_: FilterOptions) -> None:
    """List the short URLs of the account."""
    count, limit = 0, filter_.limit
    idle, clicked = set[str | None](), set[str | None]()
    async with run.session() as session:
        if filter_.tag:
            names = await names_of_tags(session, filter_.tag)
        else:
            names = await session._optional("names of tags", names_of_tags) or {}
        with output.writer(NAMED_URLS, WIDTHS, run.end_bars) as writer, run.bars() as start_bar:
            progress = start_bar("reading", "rows")
            listing = session.urls.list(orderby=filter_.orderby, progress=progress)
            async with listing.pages() as pages:
                async for page in pages:
                    found = [url for url in page.items if filter_.accepts(url, names)]
                    rows = [named_url_row(url, names) for url in found]
                    if filter_.no_clicks:
                        idle.update(url.slashtag for url in found)
                        clicked.update(url.slashtag for url in page.items if url.hits)
                    rows = rows if limit is None else rows[: limit - count]
                    writer.write(rows)
                    count += len(rows)
                    if count == limit:
                        break
    if shared := (idle & clicked) - {None}:
        run.say(
            f"slashtags of these that links with clicks have too: {len(shared):,}; the service counts clicks "
            "by slashtag, so `stats` and `top` show the clicks of both"
        )
    if output.file is not None:
        run.say(f"{many(count, 'row')} to {output.file}; {run.cost()}")


@dataclass(frozen=True)
class BulkOptions:
    """Options of an update from a file."""

    source: Path | None = _bulk(
        None,
        "--from",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help=f"Changes: a CSV file or workbook with columns of {', '.join(COLUMNS)}; or an edited copy "
        "of `urls list`, whose changed rows are sent. Outcomes are recorded beside it.",
    )
    dry_run: bool = _bulk(False, "--dry-run", help="Show what would change, and change nothing.")
    keep: bool = _bulk(
        False, "--keep", help="Send the present destination and redirect code where a row has none."
    )
    repeat_lost: bool = _bulk(
        False,
        "--repeat-lost",
        help="Send again changes whose answer was lost, in this run and in earlier ones.",
    )

    def __post_init__(self) -> None:
        if self.source is None and (self.dry_run or self.keep or self.repeat_lost):
            raise InvalidRequestError("--dry-run, --keep and --repeat-lost belong to --from")


@dataclass(frozen=True)
class MemberOptions:
    """Options of what is changed of one link; None stays as it is."""

    destination: str | None = Option(
        None, metavar="URL", help="Its new destination; in quotes, as a shell ends it at &."
    )
    slashtag: str | None = Option(
        None, "--new-slashtag", "--slashtag", metavar="TEXT", help="Its new slashtag."
    )
    redirect_code: int | None = Option(
        None, metavar="CODE", help="Its new redirect code, such as 301 or 302."
    )
    domain_id: int | None = Option(None, min=0, metavar="ID", help="Its domain; 0: none.")
    password: bool | None = Option(
        None,
        "--password/--no-password",
        help=f"Protect it with a password, from {PASSWORD_VARIABLE} or a prompt; or with none.",
    )


@urls.command("update")
@command
async def update_url(
    run: Run,
    bulk: BulkOptions,
    members: MemberOptions,
    output: OutputOptions,
    key: str | None = Argument(None, metavar="KEY", help="The slashtag of the link; all digits: its id."),
    yes: bool = Option(
        False,
        "--yes",
        help="Do not ask about a destination with a scheme that browsers do not know, as of an app, or a "
        "slash in a slashtag.",
    ),
) -> None:
    """Change one link, or with --from many. Only what is given is sent.

    The service does not say whether it resets what is left out: give what must keep its value. A
    file of changes is checked as a whole before anything is sent. Each change is made at most once; one whose
    answer was lost is reported as unknown. Run again, the command does only what is left.
    """
    if bulk.source is not None:
        if key is not None or any(member is not None for member in vars(members).values()):
            raise InvalidRequestError("with --from the file says which links are changed, and how")
        try:
            async with run.session() as session:
                await (_show if bulk.dry_run else _update)(run, session, bulk, bulk.source, output, yes)
        except ChangesError as error:
            for doubt in error.doubts:
                run.warn(str(doubt), "doubtful: ")
            advice = f"; {_CONFIRM}" * isinstance(error, DoubtfulChangesError)
            for text in (*_together(error.problems), error.summary + advice):
                run.lines.error(text)
            raise typer.Exit(1) from None
        return
    if key is None:
        raise InvalidRequestError("give the KEY of one link, or --from FILE")
    changes: dict[str, Any] = vars(members).copy()
    if all(member is None for member in changes.values()) and Path(key).is_file():
        raise InvalidRequestError(
            f"nothing to change of the link {key!r}; if it is a file of changes: --from {key}"
        )
    if members.password is not None:
        changes["password"] = _password() if members.password else ""
    # A longer number is no id; the library refuses it as a slashtag.
    link = int(key) if key.isascii() and key.isdecimal() and len(key) <= MAX_SLASHTAG else key
    change = Change(link, **changes)
    problems = [problem for _, problem in find_problems([(1, change)], "change")]
    doubts = [] if yes else list(find_doubts(change))
    if problems or (doubts and not run.confirm(doubts)):
        raise InvalidRequestError("; ".join([*problems, *doubts, *([] if problems else [_CONFIRM])]))
    async with run.session() as session:
        with run.bars() as start_bar:
            find = partial(_present, key=link, progress=start_bar("reading", "links"))
            same = await session._optional("the link as it is", find) or []
        if len(same) > 1:
            told = ", ".join(f"{each.id} ({each.short_url})" for each in same)
            raise InvalidRequestError(f"several links have the slashtag {key!r}; give the id of one: {told}")
        now = same[0] if same else None
        # Without the listing all is a difference, and nothing of what it was is known.
        differences = list(find_differences(change, now or ShortUrl(id=0)))
        try:
            rows = await session.urls.update(link, **changes)
        except OutcomeUnknownError:
            if now is not None:
                run.say(f"the change may have been made; {_undo(now, differences)}")
            raise
    named = _named(key, now)
    output.print(
        UPDATED,
        [(*named, each.member, each.now if now else "?", each.new) for each in differences],
    )
    run.say(f"{many(rows, 'link')} changed{_sum(Counter(each.member for each in differences))}; {run.cost()}")
    if now is not None:
        run.say(_undo(now, differences))
    if not rows:
        run.warn("the service says that it changed no link: it may have refused it", "unchanged: ")


def _together(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield errors of rows, equal ones of many rows once, with their number."""
    problems = [*problems]
    times, told = Counter(problem.text for problem in problems), set[str]()
    for problem in problems:
        others = times[problem.text] - 1
        if others < MOST_EQUAL:
            yield str(problem)
        elif problem.text not in told:
            told.add(problem.text)
            yield f"{problem}; so in {others:,} more rows"


async def _present(session: AsyncSession, *, key: str | int, progress: Progress) -> list[ShortUrl]:
    """Return the links with a slashtag or an id as they are."""
    links = await session.urls.list(progress=progress, anew=True).to_list()
    return [link for link in links if key in (link.id, link.slashtag)]


def _undo(link: ShortUrl, differences: Iterable[Difference]) -> str:
    """Return the command that changes a link back, as far as a listing shows what it was."""
    shown = {each.member: each.now for each in differences if each.now not in ("", "?")}
    hidden = [each.member for each in differences if each.member not in shown]
    options = [f"{_OPTIONS[name]} {quote(was)}" for name, was in shown.items()]
    parts = [f"to undo it: slashtag urls update {link.id} {' '.join(options)}"] if options else []
    parts += [f"what it had as {' and '.join(hidden)} is not known, and cannot be undone"] if hidden else []
    return "; ".join(parts) or "the link was so before"


def _sum(members: Mapping[str, int]) -> str:
    """Return in words how many changes of each kind there are, after a semicolon; empty for none."""
    names = {"redirect_code": "redirect code", "domain_id": "domain"}
    kinds = [many(n, names.get(name, name)) for name, n in members.items()]
    return f"; {', '.join(kinds)}" if kinds else ""


def _password() -> str:
    """Return the password of a link, from the environment or a prompt that does not show it."""
    given = environ.get(PASSWORD_VARIABLE)
    if not given and not sys.stdin.isatty():
        raise InvalidRequestError(f"no terminal to ask for the password; set {PASSWORD_VARIABLE}")
    return given or typer.prompt("password of the link", hide_input=True, confirmation_prompt=True, err=True)


async def _show(
    run: Run, session: AsyncSession, bulk: BulkOptions, source: Path, output: OutputOptions, yes: bool
) -> None:
    """Print what the rows would change; the exit code is 3 where some would fail or stay unknown."""
    with run.bars() as start_bar:
        bar = start_bar("reading", "links")
        preview = await BulkUpdate(session, source, repeat_lost=bulk.repeat_lost, progress=bar).preview()
    doubts = () if yes else preview.doubts
    for doubt in doubts:
        run.warn(str(doubt), "doubtful: ")
    if doubts:
        run.say(_CONFIRM)
    rows = [
        (each.line, *_named(each.key, preview.links.get(each.line)), each.member, each.now, each.new)
        for each in preview.differences
    ]
    output.print(DIFFERENCES, rows)
    run.say(
        f"{many(preview.changed, 'link')} would be changed, {preview.unchanged:,} would stay as they are, "
        f"{preview.missing:,} name no link or several, {preview.skipped:,} were done before"
        f"{_sum(preview.kinds)}; nothing was sent"
    )
    if preview.unknown:
        run.say(
            f"an earlier run sent {preview.unknown:,} of them without an answer; where a difference is "
            "listed, the change was not made, or was overwritten since"
        )
    if preview.missing or (preview.unknown and not bulk.repeat_lost):
        run.mark_incomplete()


def _named(key: str | int, link: ShortUrl | None = None) -> tuple[int | None, str | None]:
    """Return the id and the slashtag of a link, or the one that was given."""
    if link is not None:
        return link.id, link.slashtag
    return (key, None) if isinstance(key, int) else (None, key)


async def _update(
    run: Run, session: AsyncSession, bulk: BulkOptions, source: Path, output: OutputOptions, yes: bool
) -> None:
    """Send the changes, and print what is left and what helps; the exit code is 3 where something is left."""
    with run.bars() as start_bar:
        bar = start_bar("updating", "rows")
        update = BulkUpdate(
            session,
            source,
            keep=bulk.keep,
            repeat_lost=bulk.repeat_lost,
            confirm=yes or run.confirm,
            progress=bar,
        )
        run.resumes_from(update.path)
        async with update:
            left = [outcome async for outcome in update if outcome.status != "done"]
    if left or output.form != "table":
        rows = [
            (each.line, *((each.id, each.slashtag) if each.id else _named(each.key)), each.status, each.error)
            for each in sorted(left, key=lambda each: each.line)
        ]
        output.print(LEFT, rows)
    summary, kinds = update.summary, _sum(update.kinds)
    unchanged = f", {summary.unchanged:,} as they are" * bool(summary.unchanged)
    run.say(
        f"{many(summary.done, 'link')} changed, {summary.failed:,} failed, {summary.unknown:,} unknown, "
        f"{summary.skipped:,} done before{unchanged}{kinds}; {run.cost()}; outcomes in {update.path}"
    )
    # Those that name no link, or several, fail again whenever they are sent.
    unnamed = sum(each.status == "failed" and each.id is None for each in left)
    # What an undo changes back, its own undo changes again.
    to_undo = "to make the change again" if source.name.count(".undo") % 2 else "to undo it"
    advice = {
        f"{to_undo}: slashtag urls update --from {quote(f'{update.undo_path}')}": update.undo_path,
        "password and domain are not in the listing: a row that has none sent none, and they are lost if the "
        "service resets them": bulk.keep,
        f"{summary.unknown:,} unknown: --dry-run shows what they would still change; --repeat-lost sends "
        "them again": summary.unknown,
        f"{many(unnamed, 'row')} without a link of its own: correct the file; `slashtag urls list` shows the "
        "links that exist": unnamed,
        "run the same command again to try what failed": summary.failed - unnamed,
    }
    for text, applies in advice.items():
        if applies:
            run.say(text)
    if left:
        run.mark_incomplete()
