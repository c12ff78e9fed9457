"""`slashtag tags`: tags, listed and created."""

import typer
from typer import Argument, Option

from ...export import TAGS, tag_row
from ..output import OutputOptions
from ..run import Run, command

app = typer.Typer()
#: Columns that are drawn.
DRAWN = ("id", "name", "created_at", "description")


@app.command("list")
@command
async def list_tags(run: Run, output: OutputOptions) -> None:
    """List the tags of the account."""
    async with run.session() as session:
        with run.bars() as start_bar:
            tags = await session.tags.list(progress=start_bar("reading", "tags")).to_list()
    if written := output.print(TAGS, map(tag_row, tags), DRAWN, run.about(session)):
        run.say(f"{written}{run.cost()}")


@app.command("create")
@command
async def create_tag(
    run: Run,
    output: OutputOptions,
    name: str = Argument(metavar="NAME", help="Its name, at most 25 characters."),
    description: str | None = Option(None, metavar="TEXT", help="At most 255 characters."),
) -> None:
    """Create a tag and show it."""
    async with run.session() as session:
        tag = await session.tags.create(name, description=description)
    output.print(TAGS, [tag_row(tag)], DRAWN)
