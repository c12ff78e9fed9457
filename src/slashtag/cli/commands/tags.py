"""`slashtag tags`: the tags of the account."""

import typer
from typer import Argument, Option

from ...export import TAGS, tag_row
from ..output import Output
from ..run import Run, command

app = typer.Typer(help="Tags of the account.", no_args_is_help=True)

#: Columns that are drawn, each from this width of the terminal on.
SHOWN = {"id": 60, "name": 0, "created_at": 80, "description": 0}


@app.command("list")
@command
async def list_tags(run: Run, output: Output) -> None:
    """List the tags of the account."""
    async with run.session() as session:
        with run.bars() as start:
            tags = await session.tags.list(progress=start("reading", "tags")).to_list()
    output.print(TAGS, map(tag_row, tags), SHOWN)


@app.command("create")
@command
async def create_tag(
    run: Run,
    output: Output,
    name: str = Argument(metavar="NAME", help="Its name, at most 25 characters."),
    description: str | None = Option(None, metavar="TEXT", help="At most 255 characters."),
    exist_ok: bool = Option(
        False, "--exist-ok", help="If a tag of this name exists, show it instead of an error."
    ),
) -> None:
    """Create a tag and show it."""
    async with run.session() as session:
        create = session.tags.ensure if exist_ok else session.tags.create
        tag = await create(name, description=description)
    output.print(TAGS, [tag_row(tag)], SHOWN)
