"""`slashtag doctor`: how the service behaves where its document leaves it open."""

import sys
from dataclasses import astuple
from typing import Annotated

import typer

from ... import AuthenticationError
from ...export import Column, Table
from ..doctor import Doctor, Finding
from ..errors import many, print_error
from ..options import Connection, command
from ..output import FormatOption, Output, chosen

FINDINGS = Table(tuple(map(Column, ("check", "result", "found", "option", "argument"))))
DRAWN = ("check", "result", "found")
MAX_KEYS = 100


def _parse_keys(text: str | None) -> tuple[str, ...]:
    keys = tuple(key for each in (text or "").split(",") if (key := each.strip()))
    if len(keys) > MAX_KEYS:
        raise typer.BadParameter(f"--keys takes at most {MAX_KEYS} slashtags here")
    return keys


@command
async def diagnose(
    connection: Connection,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="Links with clicks to ask about; default: those with the most hits."
        ),
    ] = None,
    form: FormatOption = None,
) -> None:
    """Find out how the service behaves where its document leaves it open, and which options to use.

    Sends about 100 read requests, one after the other. Exit code 1 if the credentials are refused.
    """
    form = chosen(form)
    out = Output(FINDINGS, form, drawn=DRAWN)
    findings: list[Finding] = []
    refused: AuthenticationError | None = None
    async with connection.session() as session:
        doctor = Doctor(session, _parse_keys(keys))
        with connection.bars() as start:
            report = start("checking")
            try:
                async for finding in doctor.examine():
                    findings.append(finding)
                    out.write([astuple(finding)])
                    report(session.metrics.requests, None)
            except AuthenticationError as error:
                refused = error
        metrics = session.metrics
    out.close()
    if refused is not None:
        sys.stdout.flush()
        print_error(refused)
        raise typer.Exit(1)
    if form == "table":
        _print_advice(findings)
    connection.say(f"{many(metrics.requests, 'request')}, {many(metrics.throttled, 'time')} 429")


def _print_advice(findings: list[Finding]) -> None:
    options = [finding for finding in findings if finding.option]
    if not options:
        print("Options to use: none, the defaults fit.")
        return
    print(f"Options to use: {' '.join(str(finding.option) for finding in options)}")
    print(f"In Python:      AsyncSession({', '.join(str(finding.argument) for finding in options)})")
