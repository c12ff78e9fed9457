"""The arguments that say which days a command is about."""

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

import typer
from typer import Argument, Option

from .._internal import parse_span, parse_zone

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


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

    def dates(
        self, timezone: str | None, *, until_today: bool = False, default: str | None = None
    ) -> tuple[date, date]:
        """Return the first and the last day or second, in a time zone; raises InvalidRequestError.

        With `until_today` a single date is the first of the days until today.
        """
        span = self.start or self.last or default
        if not span or (self.last is not None and (self.start is not None or self.end is not None)):
            raise typer.BadParameter("give a SPAN such as last-month, START and END, or --last 30d")
        zone = parse_zone(timezone)
        end = "today" if until_today and self.end is None and _DAY.fullmatch(span) else self.end
        return parse_span(span if end is None else f"{span}..{end}", datetime.now(zone).date(), zone)
