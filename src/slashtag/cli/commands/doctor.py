"""`slashtag doctor`: how the service behaves where its document leaves it open."""

from typing import Annotated

import typer
from typer import Option

from ...export import Column, Table
from ..doctor import Doctor, Finding
from ..options import Connection, command
from ..output import FormatOption, chosen, output

FINDINGS = Table(tuple(map(Column, Finding._fields)))
MAX_KEYS = 100


@command
async def diagnose(
    connection: Connection,
    keys: Annotated[
        str | None,
        Option(metavar="A,B,...", help="Links with clicks to ask about; default: those with the most hits."),
    ] = None,
    form: FormatOption = None,
) -> None:
    """Find out how the service behaves where its document leaves it open, and which options to use.

    Sends about 100 read requests, one after the other. Exit code 1 if the credentials are refused.
    """
    chosen_keys = tuple(key.strip() for key in (keys or "").split(",") if key.strip())
    if len(chosen_keys) > MAX_KEYS:
        raise typer.BadParameter(f"--keys takes at most {MAX_KEYS} slashtags here")
    form = chosen(form)
    findings: list[Finding] = []
    # The options follow a table; other forms have them in their columns.
    table = Table(FINDINGS.columns[:3]) if form == "table" else FINDINGS
    async with connection.session() as session:
        with output(table, form) as write, connection.bars() as start:
            report = start("checking")
            async for finding in Doctor(session, chosen_keys).examine():
                findings.append(finding)
                write([finding])
                report(session.metrics.requests, None)
    if form == "table":
        options = [finding for finding in findings if finding.option]
        print("Options to use:", *([str(each.option) for each in options] or ["none, the defaults fit."]))
        if options:
            print(f"In Python:      AsyncSession({', '.join(str(each.argument) for each in options)})")
    connection.say(connection.cost(session))
