"""`slashtag urls`: the short URLs of the account."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import partial
from os import environ
from typing import Annotated

import typer
from typer import Argument, Option

from ... import InvalidRequestError, ShortUrl
from ..._internal import REDIRECT_CODES, optional, parse_span
from ...export import NAMED_URLS, Column, Table, named_url_row, names_of_tags
from ..bulk import Bulk, update_from
from ..options import option
from ..output import Listed, Output, print_listing
from ..run import Run, command

app = typer.Typer(help="Short URLs of the account.", no_args_is_help=True)

UPDATED = Table((Column("key"), Column("rows_updated", "int")))
PASSWORD_VARIABLE = "SLASHTAG_LINK_PASSWORD"  # noqa: S105 - its name
#: Ids that fit into 64 bits; the library refuses longer ones as slashtags.
_ID = re.compile("[0-9]{1,18}")
#: Columns that are drawn, each from this width of the terminal on.
SHOWN = {
    "id": 100,
    "short_url": 0,
    "hits": 0,
    "redirect_code": 140,
    "tag_name": 120,
    "created_at": 80,
    "destination": 0,
}
_option = partial(option, rich_help_panel="Which links")


@dataclass
class Filter:
    """Options of which links are listed; the service lists all, so all are read."""

    tag: list[str] | None = _option(None, metavar="NAME", help="Links of this tag; may be repeated.")
    untagged: bool = _option(False, "--untagged", help="Links without a tag.")
    search: str | None = _option(
        None, metavar="TEXT", help="Links with this text in short URL or destination."
    )
    created_after: str | None = _option(
        None,
        metavar="DATE",
        help="Links created since: 2024-06-01, 2024-06, 30d, last-month; with --orderby -date older ones "
        "are not read.",
    )
    updated_after: str | None = _option(None, metavar="DATE", help="Links updated since, as --created-after.")

    def __post_init__(self) -> None:
        if self.tag and self.untagged:
            raise InvalidRequestError("--untagged goes without --tag")
        # The first moments of creation and of the last update.
        self.created_since = _first_moment(self.created_after)
        self.updated_since = _first_moment(self.updated_after)

    def is_older(self, url: ShortUrl) -> bool:
        """Return whether a link is known to be older than those that are listed."""
        return url.created_at is not None and url.created_at < self.created_since

    def accepts(self, url: ShortUrl, names: Mapping[int, str]) -> bool:
        """Return whether a link is listed; `names` are those of the tags."""
        is_tagged = not self.tag or (url.tag_id is not None and names.get(url.tag_id) in self.tag)
        is_tagged &= not self.untagged or url.tag_id is None
        is_recent = (url.created_at or datetime.min) >= self.created_since
        is_recent &= (url.updated_at or datetime.min) >= self.updated_since
        text, texts = (self.search or "").casefold(), (url.slashtag, url.short_url, url.destination)
        return is_tagged and is_recent and any(text in (part or "").casefold() for part in texts)


def _first_moment(text: str | None) -> datetime:
    if text is None:
        return datetime.min
    since = parse_span(text, datetime.now(UTC).date())[0]
    if not isinstance(since, datetime):
        return datetime.combine(since, time())
    if since.tzinfo is not None:
        raise InvalidRequestError(f"{text} has an offset; the service's times bear no zone")
    return since


@app.command("list")
@command
async def list_urls(run: Run, listed: Listed, filter_: Filter) -> None:
    """List the short URLs of the account."""
    async with run.session() as session:
        names: dict[int, str] = {}
        if filter_.tag:
            names = await names_of_tags(session, filter_.tag)
        elif "tag_name" in (listed.names or ["tag_name"]):
            names = await optional(session, "names of tags", names_of_tags) or {}
        await print_listing(
            run,
            listed,
            session.urls,
            lambda url: named_url_row(url, names),
            NAMED_URLS,
            SHOWN,
            wanted=None if filter_ == Filter() else lambda url: filter_.accepts(url, names),
            is_last=filter_.is_older if listed.orderby == "-date" else None,
        )


@app.command("update")
@command
async def update_url(
    run: Run,
    bulk: Bulk,
    output: Output,
    key: Annotated[
        str | None, Argument(metavar="KEY", help="The slashtag of the link; all digits: its id.")
    ] = None,
    destination: Annotated[str | None, Option(metavar="URL", help="Its new destination.")] = None,
    slashtag: Annotated[str | None, Option(metavar="TEXT", help="Its new slashtag.")] = None,
    redirect_code: Annotated[
        int | None, Option(metavar="CODE", help=f"One of {', '.join(map(str, REDIRECT_CODES))}.")
    ] = None,
    domain_id: Annotated[int | None, Option(min=0, metavar="ID", help="Its domain; 0: none.")] = None,
    password: Annotated[
        bool | None,
        Option(
            "--password/--no-password",
            help=f"Protect it with a password, from {PASSWORD_VARIABLE} or a prompt; or with none.",
        ),
    ] = None,
) -> None:
    """Change one link, or with --from many. Only what is given is sent.

    The service does not say whether it resets what is left out: give every member that must keep its value. A
    file of changes is checked as a whole before anything is sent. Each change is made at most once; one whose
    answer was lost is reported as unknown. Run again, the command does only what is left.
    """
    if bulk.source is not None:
        members = (key, destination, slashtag, redirect_code, domain_id, password)
        if any(member is not None for member in members):
            raise InvalidRequestError("with --from the file says which links are changed, and how")
        await update_from(run, bulk, bulk.source, output)
        return
    if key is None:
        raise InvalidRequestError("give the KEY of one link, or --from FILE")
    new_password = _password() if password else None if password is None else ""
    async with run.session() as session:
        rows = await session.urls.update(
            int(key) if _ID.fullmatch(key) else key,
            destination=destination,
            slashtag=slashtag,
            redirect_code=redirect_code,  # type: ignore[arg-type]  # `update` checks it
            password=new_password,
            domain_id=domain_id,
        )
    output.print(UPDATED, [(key, rows)])


def _password() -> str:
    """Return the password of a link, from the environment or a prompt that does not show it."""
    if given := environ.get(PASSWORD_VARIABLE):
        return given
    if not sys.stdin.isatty():
        raise InvalidRequestError(f"no terminal to ask for the password; set {PASSWORD_VARIABLE}")
    return str(typer.prompt("password of the link", hide_input=True, confirmation_prompt=True, err=True))
