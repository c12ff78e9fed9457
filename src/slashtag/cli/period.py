"""The arguments that say which days a command is about."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, NamedTuple

from typer import Argument, Option

from .. import DateRange, InvalidRequestError
from .._internal import parse_zone

Bounds = tuple[date, date]


class Counted(NamedTuple):
    """A span, what can be counted of it now, what that is compared with, and both in words."""

    whole: Bounds
    query: DateRange
    before: DateRange
    text: str
    text_before: str


@dataclass(frozen=True)
class Period:
    """Arguments of which days a command is about: a span, its two ends, or the last so many days."""

    start: Annotated[
        str | None,
        Argument(
            metavar="SPAN|START",
            help="Days: today, last-week, last-month, last-quarter, 2024, 2024-q3, 2024-06, 2024-06-01, "
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
            raise InvalidRequestError("give a SPAN such as last-month, START and END, or --last 30d")
        zone = parse_zone(timezone)
        text = span if self.end is None else f"{span}..{self.end}"
        return DateRange.parse(text).resolve(zone, datetime.now(zone)).bounds

    def counted(self, timezone: str | None, *, default: str | None = None) -> Counted:
        """Return the part of the span that is over, or the whole one if it has not begun."""
        whole, zone = self.dates(timezone, default=default), parse_zone(timezone)
        query, before = DateRange(*whole).with_previous(zone, datetime.now(zone))
        state = ", so far" if query.bounds != whole else ""
        return Counted(whole, query, before, f"{_text(*query.bounds)}{state}", _text(*before.bounds))


def _text(start: date, end: date) -> str:
    texts = [f"{at:%Y-%m-%d %H:%M}" if isinstance(at, datetime) else str(at) for at in (start, end)]
    return " to ".join(dict.fromkeys(texts))
