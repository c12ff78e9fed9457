"""`slashtag doctor`: how the service behaves where its document leaves it open."""

import sys
from dataclasses import astuple
from typing import Annotated

import typer

from ... import AuthenticationError
from ...export import Column, Table
from ..doctor import Doctor, Finding
from ..errors import many, tell
from ..options import Connection, command
from ..output import FormatOption, Output, chosen

FINDINGS = Table(tuple(map(Column, ("check", "result", "found", "option", "argument"))))
DRAWN = ("check", "result", "found")
MOST_KEYS = 100


def _parse_keys(text: str | None) -> tuple[str, ...]:
    keys = tuple(key for key in (text or "").split(",") if key)
    if len(keys) > MOST_KEYS:
        raise typer.BadParameter(f"--keys takes at most {MOST_KEYS} slashtags here")
    return keys


@command
async def diagnose(
    connection: Connection,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="Links with clicks to ask about; default: those with most hits."
        ),
    ] = None,
    no_limit: Annotated[bool, typer.Option("--no-limit", help="Do not look for a rate limit.")] = False,
    form: FormatOption = None,
) -> None:
    """Find out how the service behaves where its document leaves it open, and which options to use.

    Only reads, with about 60 requests one after the other; then a burst of at most 150 in 5 s looks for a
    rate limit, unless --no-limit or --rate is given. Exit code 1 where the credentials are refused.
    """
    form = chosen(form)
    fresh = None if no_limit or connection.rate is not None else connection.session
    out = Output(FINDINGS, form, drawn=DRAWN)
    findings: list[Finding] = []
    refused: AuthenticationError | None = None
    async with connection.session() as session:
        doctor = Doctor(session, _parse_keys(keys), fresh)
        with connection.bars() as start:
            report = start("asking")
            try:
                async for finding in doctor.examine():
                    findings.append(finding)
                    out.write([astuple(finding)])
                    report(session.metrics.requests, None)
            except AuthenticationError as error:
                refused = error
        requests = session.metrics.requests + doctor.requests
        throttled = session.metrics.throttled + doctor.throttled
    out.close()
    if refused is not None:
        sys.stdout.flush()
        tell(refused)
        raise typer.Exit(1)
    if form == "table":
        _advise(findings)
    connection.say(f"{many(requests, 'request')}, {throttled:,} times 429")


def _advise(findings: list[Finding]) -> None:
    options = [finding for finding in findings if finding.option]
    if not options:
        print("Options to use: none, the defaults fit.")
        return
    print(f"Options to use: {' '.join(str(finding.option) for finding in options)}")
    print(f"In Python:      AsyncSession({', '.join(str(finding.argument) for finding in options)})")
