"""`slashtag urls`: short URLs, listed and changed, one or many from a file."""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
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
from ...export import NAMED_URLS, named_url_row
from ..output import OutputOptions, table_of
from ..run import Run, command
from ..selection import tags_in_words

urls = typer.Typer()

#: What changes of a link, or why its row is left.
ROWS = table_of(("line", "id", "slashtag", "change", "before", "after", "status", "error"))
PASSWORD_VARIABLE = "SLASHTAG_LINK_PASSWORD"  # noqa: S105 - its name
#: Columns that are drawn.
DRAWN = ("short_url", "hits", "destination", "tag_name")
_which = partial(Option, rich_help_panel="Which links")


@dataclass
class FilterOptions:
    """Options of which links are listed; the service itself cannot select them."""

    limit: int | None = _which(None, min=0, metavar="N", help="The most links to list; default: all.")
    tag: list[str] | None = _which(None, metavar="NAME", help="Links of this tag; may be repeated.")
    untagged: bool = _which(False, "--untagged", help="Links without a tag.")
    search: str | None = _which(
        None, metavar="TEXT", help="Links with this text in short URL or destination."
    )

    def __post_init__(self) -> None:
        if self.tag and self.untagged:
            raise InvalidRequestError("--untagged goes without --tag")

    @property
    def told(self) -> str:
        """What a file says of which links it has."""
        search = f"with {self.search!r}" if self.search else ""
        limit = "" if self.limit is None else f"{self.limit} at most"
        return ", ".join(filter(None, (tags_in_words(self.tag, untagged=self.untagged), search, limit)))

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
        with output.writer(NAMED_URLS, DRAWN, run.end_bars) as writer, run.bars() as start_bar:
            listing = session.urls.list(progress=start_bar("reading", "rows"))
            async with listing.pages() as pages:
                async for page in pages:
                    rows = [named_url_row(url, names) for url in page.items if filter_.accepts(url, names)]
                    rows = rows if limit is None else rows[: limit - count]
                    writer.write(rows)
                    count += len(rows)
                    if count == limit:
                        break
            writer.about = run.about(session, selected=filter_.told)
    if output.file is not None:
        run.say(f"{many(count, 'row')} to {output.place}; {writer.about}; {run.cost()}")


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
            told = f"nothing to change of the link {key!r}"
            raise InvalidRequestError(f"{told}; a file of changes is given with --from FILE")
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
    key: str | None = Argument(None, metavar="KEY", help="The slashtag or short URL of the link."),
    source: Path | None = Option(
        None,
        "--from",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="Changes of many links: an edited copy of `urls list`, whose changed rows are sent; or a table "
        "of slashtag or id, and what is new: destination, new_slashtag, redirect_code, password, domain_id. "
        "Outcomes are recorded beside it.",
    ),
    dry_run: bool = Option(False, "--dry-run", help="Show what would change, and change nothing."),
    yes: bool = Option(
        False, "--yes", help="Send also what is doubtful, such as a scheme that browsers do not know."
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
    changes = source or [members.change(key or "")]
    # Imported here: a listing does not need it.
    bulk = import_module("...bulk_update", __package__)
    try:
        async with run.session() as session:
            with run.bars() as start_bar, TemporaryDirectory() as folder:
                update = bulk.BulkUpdate(
                    session,
                    changes,
                    # Of one link there is nothing to go on with.
                    outcomes=None if source else Path(folder, "outcomes"),
                    confirm=yes,
                    progress=start_bar("updating", "rows"),
                )
                run.resumes_from = update.path
                if dry_run:
                    plan = await update.preview()
                    made, left = len(plan.sent), plan.left
                else:
                    async with update:
                        left = [each async for each in update if each.status != "done"]
                    plan, made = update.planned, update.summary["done"]
    except bulk.DoubtfulChangesError as error:
        error.add_note("correct it, or give --yes to send it all the same")
        raise
    shown: list[Any] = plan.differences if dry_run or key is not None else []
    rows: list[Any] = [(*astuple(each), None, None) for each in shown]
    rows += [_left(each) for each in left if key is None]
    if rows or output.file is not None:
        output.print(ROWS, sorted(rows, key=itemgetter(0)))
    if key is not None and left:
        raise SlashtagError(f"{key}: {left[0].error}; `slashtag urls list` shows the links as they are")
    if dry_run and plan.doubts and not yes:
        run.warn(str(bulk.DoubtfulChangesError(plan.doubts)), "doubtful: ")
    if left:
        run.is_incomplete = True
    n = Counter(each.status for each in left)
    told = f"{many(made, 'link')} {'would be ' * dry_run}changed, {n['failed']:,} failed"
    told += f", {n['unknown']:,} unknown, {n['changed']:,} changed by others since"
    run.say(f"{told}, {plan.unchanged:,} are so already; {run.cost()}")
    if source is not None and update.undo_path not in (None, source):
        undo = f"slashtag urls update --from {quote(f'{update.undo_path}')}"
        run.say(f"outcomes in {update.path}; to undo the changes of {many(update.undoes, 'link')}: {undo}")


def _left(outcome: Any) -> tuple[Any, ...]:
    """Return the row of a change that is not made."""
    name = outcome.slashtag or str(outcome.key)
    return outcome.line, outcome.id, name, None, None, None, outcome.status, outcome.error


def _password() -> str:
    """Return the password of a link, from the environment or a prompt that does not show it."""
    given = environ.get(PASSWORD_VARIABLE)
    if not given and not sys.stdin.isatty():
        raise InvalidRequestError(f"no terminal to ask for the password; set {PASSWORD_VARIABLE}")
    return given or typer.prompt("password of the link", hide_input=True, confirmation_prompt=True, err=True)
