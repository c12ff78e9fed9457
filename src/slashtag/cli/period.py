"""The arguments that say which days a command is about."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

import typer
from typer import Argument, Option

from .._internal import parse_span, parse_zone


@dataclass(frozen=True)
class Period:
    """Arguments of which days a command is about: a span, its two ends, or the last so many days."""

    start: Annotated[
        str | None,
        Argument(
            metavar="SPAN|START",
            help="Days: today, yesterday, this-week, last-month, 2024, 2024-06, 2024-06-01, "
            "2024-06-01..2024-06-30; with END, the first day.",
        ),
    ] = None
    end: Annotated[str | None, Argument(metavar="END", help="The last day, included.")] = None
    last: Annotated[
        str | None,
        Option(metavar="30d|4w|6m|1y", help="The last days, weeks, months or years, today included."),
    ] = None

    def dates(self, timezone: str | None, *, default: str | None = None) -> tuple[date, date]:
        """Return the first and the last day or second, in a time zone; raises InvalidRequestError."""
        span = self.start or self.last or default
        if not span or (self.last is not None and (self.start is not None or self.end is not None)):
            raise typer.BadParameter("give a SPAN such as last-month, START and END, or --last 30d")
        zone = parse_zone(timezone)
        text = span if self.end is None else f"{span}..{self.end}"
        return parse_span(text, datetime.now(zone).date(), zone)
