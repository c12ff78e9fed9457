"""`slashtag report`: the clicks of a span as one page, picture or PDF."""

from pathlib import Path

from typer import Option

from ..._internal import PREVIOUS, many
from ...report import Branding, build, check_path, write
from ..run import Run, command
from ..selection import COMPARE, PeriodArguments, SelectionOptions


@command
async def report(
    period: PeriodArguments,
    selection: SelectionOptions,
    run: Run,
    compare: str | None = COMPARE,
    output: Path = Option(
        ..., "--output", "-o", metavar="FILE", help="File that ends in .html, .png or .pdf."
    ),
    top: int = Option(
        10, min=0, metavar="N", help="List the N links with most clicks; 0: far fewer requests."
    ),
    hours: bool = Option(
        False, "--hours", help="Show hours of the week, up to 32 days: a request for each hour and 100 links."
    ),
    title: str = Option("", metavar="TEXT", help="Title of the report.", show_default=False),
    logo: Path | None = Option(None, metavar="FILE", help="Logo: a PNG or JPEG file."),
    accent: str = Option(
        Branding().accent,
        metavar="COLOUR",
        help="Colour of charts and bars: a name such as teal, or 0a7f5a.",
    ),
) -> None:
    """Write a report on the clicks of a span: one page that opens anywhere, a picture or a PDF.

    Shows clicks by day, week or month, the links with the most clicks, tags, destinations, countries,
    referrers, devices, browsers, platforms, and the change against the span before, or against --compare. By
    default it is about all links.
    """
    span = period.resolve(selection.timezone, compare).whole
    branding = Branding(title=title, logo=logo.read_bytes() if logo else b"", accent=accent)
    check_path(output)
    async with run.session() as session:
        with run.bars() as start_bar:
            selected = await selection.resolve(run, session, start_bar("checking", "links"))
            found = await build(
                session,
                span,
                keys=selected.keys,
                tags=selected.tags,
                timezone=selection.timezone,
                compare=compare or PREVIOUS,
                top=top,
                hours=hours,
                branding=branding,
                progress=start_bar("counting", "steps"),
            )
    write(found, output)
    if found.uncountable or not found.stats.complete:
        run.mark_incomplete()
    run.report_cut(found.stats)
    run.say(f"{found.start} to {found.end} ({found.zone}): {many(found.total, 'click')}; {run.cost()}")
    if found.unfinished:
        run.say(f"Not over yet: {found.unfinished}")
    for note in found.notes:
        run.say(note)
    run.say(f"written to {output}; open {output.resolve().as_uri()} in a browser")
