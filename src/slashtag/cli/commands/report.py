"""`slashtag report`: the clicks of a span as one page, picture or PDF."""

from pathlib import Path
from typing import Annotated

from typer import Option

from ... import DateRange
from ..._internal import many
from ...report import MAX_LOGO, Branding, build, check_path, write
from ..options import Connection, Timezone, command
from ..period import Period
from ..selection import SelectionOrAll


@command
async def report(
    period: Period,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File that ends in .html, .png or .pdf.")
    ],
    selection: SelectionOrAll,
    connection: Connection,
    timezone: Timezone = None,
    top: Annotated[
        int, Option(min=0, metavar="N", help="List the N links with most clicks; 0: far fewer requests.")
    ] = 10,
    hours: Annotated[
        bool,
        Option(
            "--hours", help="Show hours of the week, up to 32 days: a request for each hour and 100 links."
        ),
    ] = False,
    title: Annotated[str, Option(metavar="TEXT", help="Title of the report.", show_default=False)] = "",
    logo: Annotated[Path | None, Option(metavar="FILE", help="Logo: a PNG or JPEG file.")] = None,
    accent: Annotated[str, Option(metavar="COLOUR", help="Colour of charts and bars.")] = Branding().accent,
) -> None:
    """Write a report on the clicks of a span: one page that opens anywhere, a picture or a PDF.

    Shows clicks by day, week or month, the links with the most clicks, tags, destinations, countries,
    referrers, devices, browsers, platforms, and the change against the span before. By default it is about
    all links.
    """
    start, end = period.dates(timezone)
    DateRange(start, end)
    content = b""
    if logo is not None:
        with logo.open("rb") as file:
            content = file.read(MAX_LOGO + 1)
    branding = Branding(title=title, logo=content, accent=accent)
    check_path(output)
    async with connection.session() as session:
        with connection.bars() as begin:
            found = await build(
                session,
                start,
                end,
                **await selection.selector(connection, session, begin("checking")),
                timezone=timezone,
                places=top,
                hours=hours,
                branding=branding,
                confirm=lambda cost: connection.say(
                    f"hours of the days with clicks: {many(cost, 'request')}"
                ),
                progress=begin("counting"),
            )
    write(found, output)
    connection.say(f"{start} to {end}: {many(found.total, 'click')}; {connection.cost()}")
    if found.unfinished:
        connection.say(f"Not over yet: {found.unfinished}")
    for note in found.notes:
        connection.say(note)
    connection.say(f"written to {output}; open {output.resolve().as_uri()} in a browser")
