"""`slashtag tags`: tags, listed and created."""

import typer
from typer import Argument, Option

from ... import InvalidRequestError
from ...export import TAGS, tag_row
from ..output import OutputOptions
from ..run import Run, command

app = typer.Typer()
#: Columns that are drawn, each from this width of the terminal on.
WIDTHS = {"id": 60, "name": 0, "created_at": 80, "description": 0}


@app.command("list")
@command
async def list_tags(run: Run, output: OutputOptions) -> None:
    """List the tags of the account."""
    async with run.session() as session:
        with run.bars() as start_bar:
            tags = await session.tags.list(progress=start_bar("reading", "tags")).to_list()
    output.print(TAGS, map(tag_row, tags), WIDTHS)


@app.command("create")
@command
async def create_tag(
    run: Run,
    output: OutputOptions,
    name: str = Argument(metavar="NAME", help="Its name, at most 25 characters."),
    description: str | None = Option(None, metavar="TEXT", help="At most 255 characters."),
    yes: bool = Option(False, "--yes", help="Create it also beside a tag whose name looks alike."),
) -> None:
    """Create a tag and show it.

    A name that differs from that of another tag only in case, accents, spaces, hyphens and the like is asked
    about on a terminal, and refused elsewhere: a campaign with two tags is counted in two rows.
    """
    async with run.session() as session:
        alike = [] if yes else await session.tags.similar(name)
        if alike:
            names = ", ".join(repr(tag.name) for tag in alike)
            doubt = f"there is the tag {names} already, which {name!r} looks like"
            if not run.confirm([doubt], "Create it all the same?"):
                raise InvalidRequestError(f"{doubt}; use that, or give --yes to create it all the same")
        tag = await session.tags.create(name, description=description)
    output.print(TAGS, [tag_row(tag)], WIDTHS)
