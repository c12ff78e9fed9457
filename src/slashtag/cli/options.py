"""Options that several commands share, and the arguments that say which days a command is about."""

from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from typer import Argument, Option

from .. import DateRange, InvalidRequestError, parse_zone

_option = partial(Option, rich_help_panel="The service")

MAX_FAILURES = Option(100, min=0, metavar="N", help="Stop if more requests fail than this.")
TIMEZONE = Option(None, metavar="ZONE", help="+HH:MM, or a name such as Europe/Berlin; default +00:00.")


@dataclass(frozen=True)
class SessionOptions:
    """Options of which service is used, how fast, and what is printed on stderr."""

    base_url: str | None = _option(
        None, envvar="SLASHTAG_BASE_URL", metavar="URL", help="Address of the service."
    )
    concurrency: int = _option(32, min=1, metavar="N", help="Most requests in flight.")
    rate: float | None = _option(
        None, min=0.001, metavar="N", help="Requests/s that the service allows; learnt if not given."
    )
    timeout: float = _option(30.0, min=0.001, metavar="SECONDS", help="Seconds that one attempt may take.")
    range_end: Literal["inclusive", "exclusive"] = _option(
        "inclusive",
        metavar="RULE",
        help="Whether the service counts the last second of a range: inclusive or exclusive.",
    )
    allow_http: bool = _option(
        False, "--allow-http", help="Send credentials unencrypted, also off this machine."
    )
    proxy: str | None = _option(
        None, envvar="SLASHTAG_PROXY", metavar="URL", help="Send requests through this HTTP proxy."
    )
    profile: str | None = _option(
        None,
        envvar="SLASHTAG_PROFILE",
        metavar="NAME",
        help="The account that `slashtag login --profile NAME` saved, whatever the environment has.",
    )
    verbose: int = Option(
        0,
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        metavar="",
        help="Log retries and throttling; -vv: every request.",
    )
    quiet: bool = Option(False, "--quiet", "-q", help="Print nothing but errors.")
    log_format: Literal["text", "json"] = Option("text", help="Form of the lines on stderr.")

    def of_session(self) -> dict[str, Any]:
        """Return the options of AsyncSession but for the credentials."""
        names = ("concurrency", "rate", "timeout", "range_end", "allow_http", "proxy")
        return {name: getattr(self, name) for name in names}


class Counted(NamedTuple):
    """A span, what can be counted of it now, what that is compared with, and both in words."""

    whole: DateRange
    query: DateRange
    before: DateRange
    text: str
    text_before: str
    is_over: bool


@dataclass(frozen=True)
class Period:
    """Arguments of which days a command is about: a span, or its two ends."""

    start: str | None = Argument(
        None,
        metavar="SPAN|START",
        help="Days: today, last-week, last-month, last-quarter, 30d, 4w, 6m, 1y, 2024, 2024-q3, 2024-06, "
        "2024-06-01, 2024-06-01..2024-06-30; with END, the first day.",
    )
    end: str | None = Argument(None, metavar="END", help="The last day, included.")

    def counted(self, timezone: str | None) -> Counted:
        """Return what the arguments mean now in a time zone; raises InvalidRequestError.

        Of a span that has begun and is not over, the part that is over can be counted.
        """
        if not self.start:
            raise InvalidRequestError("give a SPAN such as last-month or 30d, or START and END")
        text = self.start if self.end is None else f"{self.start}..{self.end}"
        zone = parse_zone(timezone)
        now = datetime.now(zone)
        whole = DateRange.parse(text).resolve(zone, now)
        if whole.span(zone)[0] > now.date():
            raise InvalidRequestError(f"{text} begins after today, {now.date()}: there are no clicks yet")
        query, before = whole.with_previous(zone, now)
        is_over = query.bounds == whole.bounds
        text = _text(*query.bounds) + ", so far" * (not is_over)
        return Counted(whole, query, before, text, _text(*before.bounds), is_over)


def _text(start: date, end: date) -> str:
    texts = [f"{at:%Y-%m-%d %H:%M}" if isinstance(at, datetime) else str(at) for at in (start, end)]
    return " to ".join(dict.fromkeys(texts))
