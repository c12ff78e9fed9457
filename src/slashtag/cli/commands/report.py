"""`slashtag report`: the clicks of a span as one page."""

from pathlib import Path

from typer import Option

from ..._wording import many
from ...report import build, check_path, write
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, SelectionOptions, note_of_shared


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
    span = period.resolve(selection.timezone, compare).whole
    check_path(output)
    async with run.session() as session:
        with run.bars() as start_bar:
            selected = await selection.resolve(run, session, start_bar("checking", "links"))
            found = await build(
                session,
                span,
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
    run.note_statistics(found.stats)
    if selected.shared and not selection.untagged:
        run.warn(note_of_shared(selected.shared), "shared: ")
    first, last = found.spans.first, found.spans.last
    run.say(f"{first} to {last} ({found.zone}): {many(found.stats.total, 'click')}; {run.cost()}")
    if found.spans.is_cut:
        run.say(f"Not over yet: clicks until {found.asked_at:%Y-%m-%d %H:%M}")
    run.say(f"written to {output}; open {output.resolve().as_uri()} in a browser")
