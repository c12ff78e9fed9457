"""`slashtag report`: the clicks of a span as one page or picture."""

from pathlib import Path
from typing import Annotated

from typer import Option

from ... import DateRange
from ..._internal import many
from ...report import build, check_ending, check_path, write
from ..errors import as_usage
from ..options import Connection, RangeEnd, Timezone, command
from ..period import Period
from ..selection import SelectionOrAll


@command
async def report(
    period: Period,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File, its name in .html or .png.")
    ],
    selection: SelectionOrAll,
    connection: Connection,
    timezone: Timezone = None,
    top: Annotated[
        int, Option(min=0, metavar="N", help="List the N links with most clicks; 0: far fewer requests.")
    ] = 10,
    range_end: RangeEnd = "inclusive",
) -> None:
    """Write a report on the clicks of a span: one page that opens anywhere, or a picture.

    Shows clicks by day, month and weekday, the links with the most clicks, countries, devices, browsers,
    platforms, referrers, and the change against the span before. By default it is about all links.
    """
    start, end = period.dates(timezone)
    DateRange(start, end)
    with as_usage():
        check_ending(output)
    check_path(output)
    async with connection.session(range_end=range_end) as session:
        with connection.bars() as begin:
            found = await build(
                session,
                start,
                end,
                **await selection.selector(session, begin("checking")),
                timezone=timezone,
                places=top,
                progress=begin("counting"),
            )
    write(found, output)
    connection.say(f"{start} to {end}: {many(found.total, 'click')}; {connection.cost(session)}")
    if found.unfinished:
        connection.say(f"Not over yet: {found.unfinished}")
    for note in found.notes:
        connection.say(note)
    connection.say(f"written to {output}; open {output.resolve().as_uri()} in a browser")
