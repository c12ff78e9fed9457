"""The options that say which days and links a command is about."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from itertools import chain
from typing import NamedTuple
from zlib import crc32

import typer
from typer import Argument, Option

from .. import (
    AsyncSession,
    ConfigurationError,
    DateRange,
    InvalidRequestError,
    Progress,
    ShortUrl,
    parse_zone,
)
from .._saved_logins import Login, find_login
from .._wording import did_you_mean, many
from ..counts import Period
from ..export import NAMED_URLS
from ..tables import load_table
from .run import SOME_FAILED, Run


def _default_zone(context: typer.Context, given: str | None) -> str | None:
    """Return the zone that is given, or that of the environment or of the login that is used."""
    zone = given
    if given is None:
        with suppress(ConfigurationError):  # which the session raises
            zone = find_login(Login(), context.params.get("profile")).timezone
    parse_zone(zone)
    return zone


TIMEZONE = Option(
    None,
    callback=_default_zone,
    metavar="ZONE",
    help="Zone of the days, as Europe/Berlin or +HH:MM. Default: SLASHTAG_TIMEZONE, the login's, or UTC.",
)
COMPARE = Option(
    None,
    "--compare",
    metavar="SPAN",
    help="Compare with previous (the span before), last-year, or any SPAN.",
)
_option = partial(Option, rich_help_panel="Which links (one of these; default: all)")
#: So many slashtags are named or asked about: did you mean another?
NAMED = 3


@dataclass(frozen=True)
class PeriodArguments:
    """The argument of which days a command is about."""

    words: list[str] | None = Argument(
        None,
        metavar="SPAN",
        help="today, last-month, this-year, 30d, 2024, 2024-q3, 2024-06, 2024-06-01, 2024-06-01..2024-06-30.",
    )

    def resolve(self, timezone: str | None, compare: str | None = None, default: str = "") -> Period:
        """Return what the argument, or the default, means now in a time zone; raises InvalidRequestError.

        It is compared with the span before, or what `compare` says.
        """
        given = " ".join(self.words or [default])
        if given == "alltime":
            raise InvalidRequestError("only `slashtag stats alltime` counts all time")
        if not given or " " in given:
            forms = "last-month, 30d, 2024-06 or 2024-06-01..2024-06-30; a country goes as --country CC"
            raise InvalidRequestError(f"{given!r}: give the days as one SPAN, such as {forms}")
        return Period.at(now_in(parse_zone(timezone)), DateRange.parse(given), compare or "previous")


def now_in(zone: tzinfo) -> datetime:
    """Return the present time in a zone."""
    return datetime.now(zone)


def in_words(period: Period, timezone: str | None) -> str:
    """Return the days that are counted, and their zone, for a summary."""
    return f"{period.days}{', so far' * (not period.is_over)} ({parse_zone(timezone)})"


def tags_in_words(tags: Iterable[str] | None, *, untagged: bool) -> str:
    """Return which tags were selected, for what a file says of itself; empty for all links."""
    return "no tag" if untagged else ", ".join(f"tag {name}" for name in sorted(tags or ()))


class Selected(NamedTuple):
    """Links, or tags by name; where both are None, all links of the account.

    `listed` are all links of the account, if they were listed.
    """

    keys: list[ShortUrl] | None = None
    tags: list[str] | None = None
    listed: list[ShortUrl] | None = None

    @property
    def shared(self) -> set[str]:
        """Slashtags of the links that other links of the account have too: the service counts both."""
        ids = {link.id for link in self.keys or ()}
        wanted = {link.slashtag for link in self.keys or ()}
        others = [link.slashtag for link in self.listed or () if link.id not in ids]
        return {slashtag for slashtag in others if slashtag in wanted and slashtag is not None}


def warn_of_shared(run: Run, slashtags: Iterable[str]) -> None:
    """Warn of slashtags of selected links that other links have too."""
    if names := sorted(slashtags):
        named = ", ".join(names[:NAMED]) + ", ..." * (len(names) > NAMED)
        run.warn(f"{named}: other links have the same slashtag; the service counts both together", "shared: ")


@dataclass
class SelectionOptions:
    """Options of which links a command is about, by default all, and of the zone of its days."""

    keys: list[str] | None = _option(None, metavar="A,B,...", help="These slashtags or short URLs.")
    keys_file: typer.FileBinaryRead | None = _option(
        None,
        metavar="FILE",
        help="Slashtags from a list or table; - is stdin.",
    )
    tag: list[str] | None = _option(None, metavar="NAME", help="The links of this tag; repeatable.")
    untagged: bool = _option(False, "--untagged", help="The links without a tag.")
    timezone: str | None = TIMEZONE

    def __post_init__(self) -> None:
        given = [bool(self.keys), self.keys_file is not None, bool(self.tag), self.untagged]
        if sum(given) > 1:
            raise InvalidRequestError(
                "only one of --keys, --keys-file, --tag and --untagged says which links"
            )
        #: Whether every link of the account is selected.
        self.all_links = not any(given)
        #: Whether the file says of itself that it lacks some.
        self._is_part = False
        #: What is given, read and checked before anything is sent or written; slashtags and short URLs.
        self.slashtags = [key.strip() for each in self.keys or () for key in each.split(",") if key.strip()]
        if self.keys_file is not None:
            self.slashtags = self._read_file(self.keys_file)
        if (given[0] or given[1]) and not self.slashtags:
            # Statistics of no links are zeros, and an export would replace a file by its header.
            raise InvalidRequestError("no slashtags are given; without any option every link is selected")

    @property
    def told(self) -> dict[str, str]:
        """What a file says of the zone, and of which links: of slashtags how many, and a checksum."""
        selected = tags_in_words(self.tag, untagged=self.untagged)
        if names := sorted(set(self.slashtags)):
            selected = f"{many(len(names), 'slashtag')} ({crc32(chr(10).join(names).encode()):08x})"
        return {"timezone": self.timezone or "+00:00", "selected": selected}

    async def resolve(self, run: Run, session: AsyncSession, progress: Progress) -> Selected:
        """Return the links that the options select, as the account has them; what no link has is left out."""
        if self.tag:
            await session.tags.names(self.tag)  # each exists
        if self.tag or self.all_links:
            return Selected(tags=self.tag or None)
        listed = await session.urls.list(progress=progress).to_list()
        if self.untagged:
            chosen = [link for link in listed if link.tag_id is None]
            if not chosen:
                raise InvalidRequestError("there are no links without a tag")
            return Selected(chosen, listed=listed)
        if self._is_part:
            run.warn("--keys-file says of itself that it is not complete", "incomplete: ")
        found: dict[str | None, list[ShortUrl]] = {key: [] for key in self.slashtags}
        for link in listed:
            for name in found.keys() & {link.slashtag, link.short_url}:
                found[name].append(link)
        unknown = [key for key in self.slashtags if not found[key]]
        for key in unknown:
            slashtags = (link.slashtag or "" for link in listed if len(unknown) <= NAMED)
            run.warn(f"no link has the slashtag {key!r}{did_you_mean(key, slashtags)}", "left out: ")
        if not any(found.values()):
            raise typer.Exit(SOME_FAILED)
        return Selected([*dict.fromkeys(chain(*found.values()))], listed=listed)

    def _read_file(self, file: typer.FileBinaryRead) -> list[str]:
        """Return the slashtags of a table with that column, or of a list without a header, one a line.

        In a list, lines that begin with # are comments. Raises InvalidRequestError for other tables, and for
        rows of a table without a slashtag.
        """
        name = getattr(file, "name", "<stdin>")
        table = load_table(file, f"--keys-file {'-' if name == '<stdin>' else name}")
        self._is_part = table.about is not None and not table.about.complete
        columns = table.columns
        if len(columns) == 1 and columns[0] not in NAMED_URLS.names:
            rows = (row[columns[0]] for _, row in table.rows())
            keys = [str(cell).strip() for cell in (*table.header[1], *rows) if cell]
            return [key for key in keys if key and not key.startswith("#")]
        if columns and "slashtag" not in columns:
            told = f"has no column slashtag, but {','.join(columns)!r}"
            raise InvalidRequestError(f"{table.where} is no list, and {told}")
        # The short URL of a listing names one link, and its slashtag all that share it.
        found = {
            line: (row.get("short_url") or row["slashtag"]).strip()
            for line, row in table.rows({"slashtag", "short_url"})
        }
        for line, key in found.items():
            if not key:
                raise InvalidRequestError(f"{table.where}, line {line}: a row without a slashtag")
        return [*found.values()]
