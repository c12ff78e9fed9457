"""`slashtag report`: the clicks of a span as one page."""

from pathlib import Path

from typer import Option

from ..._wording import many
from ...report import build, check_path, write
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, SelectionOptions, in_words, warn_of_shared


@command
async def report(
    period: PeriodArguments,
    selection: SelectionOptions,
    run: Run,
    compare: str | None = COMPARE,
    output: Path = Option(..., "--output", "-o", metavar="FILE", help="File that ends in .html."),
    top: int = Option(
        10, min=0, metavar="N", help="List the N links with most clicks; 0: far fewer requests."
    ),
    title: str = Option("", metavar="TEXT", help="Title of the report.", show_default=False),
) -> None:
    """Write a report on the clicks of a span: one page that opens anywhere and prints well.

    Shows clicks by day, week or month, the links with most clicks, tags, destinations, countries, referrers,
    devices, browsers, platforms and weekdays, each beside the span before, or what --compare says.
    """
    resolved = period.resolve(selection.timezone, compare)
    check_path(output)
    async with run.session() as session:
        with run.bars() as start_bar:
            selected = await selection.resolve(run, session, start_bar("checking", "links"))
            found = await build(
                session,
                resolved.whole,
                keys=None if selection.untagged else selected.keys,
                untagged=selection.untagged,
                tags=selected.tags,
                timezone=selection.timezone,
                compare=compare or "previous",
                top=top,
                title=title,
                progress=start_bar("counting", "steps"),
            )
    write(found, output)
    for each in (found.stats, found.before):
        run.note_statistics(each)
    if not found.complete:
        run.is_incomplete = True
    if not selection.untagged:
        warn_of_shared(run, selected.shared)
    told = f"{in_words(resolved, selection.timezone)}: {many(found.stats.total, 'click')}; {run.cost()}"
    run.say(f"{told}; open {output.resolve().as_uri()} in a browser")
