"""The options that say which days and links a command is about."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo
from functools import partial
from itertools import chain
from typing import NamedTuple

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
from .._saved_logins import settings
from .._wording import did_you_mean
from ..counts import Spans, between
from ..export import NAMED_URLS
from ..tables import LoadedTable, load_table
from .run import SOME_FAILED, Run


def _default_zone(context: typer.Context, given: str | None) -> str | None:
    """Return the zone that is given, or that of the environment or of the login whose credentials are used.

    Raises InvalidRequestError for one that is none, and says where it stands.
    """
    where, zone = "--timezone", given
    if given is None:
        where = "SLASHTAG_TIMEZONE, or `slashtag login`"
        with suppress(ConfigurationError):  # which the session raises
            zone = settings(context.params.get("profile")).get("timezone")
    try:
        parse_zone(zone)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{where}: {error}") from None
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
#: So many unknown slashtags are asked about: did you mean another?
ASKED = 3


class ResolvedPeriod(NamedTuple):
    """A whole span, what there is of it so far, what it is compared with; these two and the zone in words."""

    whole: DateRange
    so_far: DateRange
    before: DateRange
    text: str
    text_before: str
    zone: str

    @property
    def is_over(self) -> bool:
        """Whether no clicks can come any more."""
        return self.so_far == self.whole

    @property
    def spans(self) -> Spans:
        """The days of both spans."""
        (first, last), (first_before, last_before) = map(dates_of, (self.so_far, self.before))
        end = self.before.bounds[1]
        is_cut_before = isinstance(end, datetime) and end.time() != time(23, 59, 59)
        return Spans(first, last, first_before, last_before, not self.is_over, is_cut_before)

    @property
    def days(self) -> str:
        """The days that are counted, as files say them."""
        return between(*map(str, dates_of(self.so_far)))


@dataclass(frozen=True)
class PeriodArguments:
    """The argument of which days a command is about."""

    words: list[str] | None = Argument(
        None,
        metavar="SPAN",
        help="today, last-month, this-year, 30d, 2024, 2024-q3, 2024-06, 2024-06-01, 2024-06-01..2024-06-30.",
    )

    def resolve(self, timezone: str | None, compare: str | None = None, default: str = "") -> ResolvedPeriod:
        """Return what the argument means now in a time zone; raises InvalidRequestError.

        Of a span that has begun and is not over, the part that is over can be counted. It is compared with
        the span before, or what `compare` says (`DateRange.with_previous`). `default` is the span where none
        is given.
        """
        words = self.words or [default]
        if len(words) > 1:
            joined = f": {words[0]}..{words[1]}" if len(words) == 2 and words[1][:1].isdigit() else ""
            raise InvalidRequestError(f"{' '.join(words)!r}: give the days as one SPAN{joined or ', A..B'}")
        if not words[0]:
            raise InvalidRequestError("give a SPAN such as last-month, 30d or 2024-06-01..2024-06-30")
        zone = parse_zone(timezone)
        now = now_in(zone)
        whole = DateRange.parse(words[0]).resolve(zone, now)
        if whole.span(zone)[0] > now.date():
            raise InvalidRequestError(f"{words[0]} begins after today, {now.date()}: there are no clicks yet")
        so_far, before = whole.with_previous(zone, now, compare or "previous")
        text = _text(so_far) + ", so far" * (so_far.bounds != whole.bounds)
        return ResolvedPeriod(whole, so_far, before, text, _text(before), str(zone))


def now_in(zone: tzinfo) -> datetime:
    """Return the present time in a zone."""
    return datetime.now(zone)


def dates_of(span: DateRange) -> tuple[date, date]:
    """Return the first and the last day of a span."""
    first, last = (bound.date() if isinstance(bound, datetime) else bound for bound in span.bounds)
    return first, last


def _text(span: DateRange) -> str:
    texts = [f"{at:%Y-%m-%d %H:%M}" if isinstance(at, datetime) else str(at) for at in span.bounds]
    return " to ".join(dict.fromkeys(texts))


class GivenKey(NamedTuple):
    """Slashtag or short URL as given, and the id of its link where a file has it beside."""

    key: str
    id: int | None = None


class Selected(NamedTuple):
    """Links, or tags by name; where both are None, all links of the account.

    `listed` are all links of the account, if they were listed.
    """

    keys: list[str | ShortUrl] | None = None
    tags: list[str] | None = None
    listed: list[ShortUrl] | None = None

    @property
    def shared(self) -> set[str]:
        """Slashtags of the links that other links of the account have too: the service counts both."""
        chosen = [link for link in self.keys or () if isinstance(link, ShortUrl)]
        ids, wanted = {link.id for link in chosen}, {link.slashtag for link in chosen}
        others = [link for link in self.listed or () if link.id not in ids and link.slashtag in wanted]
        return {link.slashtag for link in others if link.slashtag is not None}


def note_of_shared(slashtags: Iterable[str]) -> str:
    """Return the note on slashtags of selected links that other links have too; empty without any."""
    names = sorted(slashtags)
    named = ", ".join(names[:ASKED]) + ", ..." * (len(names) > ASKED)
    told = f"slashtags that several links share: {named}; the service counts the clicks of these together"
    return told * bool(names)


@dataclass
class SelectionOptions:
    """Options of which links a command is about, by default all, and of the zone of its days."""

    keys: str | None = _option(None, metavar="A,B,...", help="These slashtags or short URLs.")
    keys_file: typer.FileBinaryRead | None = _option(
        None,
        metavar="FILE",
        lazy=False,
        help="Slashtags from a list or table; - is stdin.",
    )
    tag: list[str] | None = _option(None, metavar="NAME", help="The links of this tag; repeatable.")
    untagged: bool = _option(False, "--untagged", help="The links without a tag.")
    timezone: str | None = TIMEZONE

    def __post_init__(self) -> None:
        given = [self.keys is not None, self.keys_file is not None, bool(self.tag), self.untagged]
        if sum(given) > 1:
            raise InvalidRequestError(
                "only one of --keys, --keys-file, --tag and --untagged says which links"
            )
        #: Whether every link of the account is selected.
        self.all_links = not any(given)
        #: What is given, read and checked before anything is sent or written; its slashtags and short URLs.
        self.given = self._given() if given[0] or given[1] else []
        self.slashtags = [each.key for each in self.given]

    @property
    def zone(self) -> str:
        """The zone of the days, in words."""
        return str(parse_zone(self.timezone))

    def require_tags(self) -> None:
        """Raise InvalidRequestError where slashtags are selected, for an export --by tag."""
        if not (self.tag or self.all_links):
            raise InvalidRequestError("--by tag goes with --tag or all links; `stats` counts others by tag")

    async def resolve(self, run: Run, session: AsyncSession, progress: Progress) -> Selected:
        """Return the links that the options select, as the account has them; what no link has is left out."""
        if self.tag:
            await session.tags.names(self.tag)  # each exists
        if self.tag or self.all_links:
            return Selected(tags=self.tag or None)
        listed = await session.urls.list(progress=progress).to_list()
        if self.untagged:
            chosen: list[str | ShortUrl] = [link for link in listed if link.tag_id is None]
            if not chosen:
                raise InvalidRequestError("there are no links without a tag")
            return Selected(chosen, listed=listed)
        found: dict[str, list[ShortUrl]] = {key: [] for key in self.slashtags}
        for link in listed:
            for name in (link.slashtag, link.short_url):
                if name in found:
                    found[name].append(link)
        unknown = [key for key, links in found.items() if not links]
        for key in unknown:
            question = ""
            if of_id := [link for link in listed if str(link.id) == key]:
                question = f"; it is the id of the link with the slashtag {of_id[0].slashtag!r}: give that"
            elif len(unknown) <= ASKED:
                question = did_you_mean(key, (link.slashtag or "" for link in listed))
            run.warn(f"no link has the slashtag {key!r}{question}", "left out: ")
        if len(unknown) == len(found):
            raise typer.Exit(SOME_FAILED)
        if {link.id for link in listed}.intersection(id for _, id in self.given):
            # Otherwise the column id is about something else.
            _warn_of_moved(run, self.given, found)
        return Selected([*dict.fromkeys(chain(*found.values()))], listed=listed)

    def _given(self) -> list[GivenKey]:
        """Return what is given; raises InvalidRequestError if that is nothing."""
        if self.keys_file is None:
            where, found = "--keys", [GivenKey(key.strip()) for key in (self.keys or "").split(",")]
            found = [each for each in found if each.key]
        else:
            name = getattr(self.keys_file, "name", "<stdin>")
            where = f"--keys-file {'-' if name == '<stdin>' else name}"
            found = _keys_of(load_table(self.keys_file, where))
        if not found:
            # Statistics of no links are zeros, and an export would replace a file by its header.
            raise InvalidRequestError(f"{where} holds no slashtags; without it every link is selected")
        return found


def _warn_of_moved(run: Run, given: Iterable[GivenKey], found: Mapping[str, list[ShortUrl]]) -> None:
    """Warn of slashtags that another link has than the one whose id the file has beside."""
    for key, id in given:
        ids = [link.id for link in found[key]]
        if id is not None and ids and id not in ids:
            told = f"the slashtag {key!r} is that of the link {ids[0]}, whose clicks are counted"
            run.warn(f"{told}; the file has it beside the id {id}", "moved: ")


def _keys_of(table: LoadedTable) -> list[GivenKey]:
    """Return the slashtags of a table with that column, or of a list without a header, one a line.

    In a list, lines that begin with # are comments. Raises InvalidRequestError for other tables, and for rows
    of a table without a slashtag.
    """
    columns = table.columns
    is_list = len(columns) == 1 and not table.is_named and columns[0] not in NAMED_URLS.names
    if is_list:
        table = table.as_list("slashtag")
    elif columns and "slashtag" not in columns:
        told = f"has no column slashtag, but {','.join(columns)!r}"
        raise InvalidRequestError(f"{table.where} is no list, and {told}")
    found: list[GivenKey] = []
    for line, row in table.rows({"slashtag", "id"}):
        key, given_id = row["slashtag"].strip(), row.get("id", "")
        if key and not (is_list and key.startswith("#")):
            is_number = given_id.isascii() and given_id.isdecimal() and len(given_id) < 20
            found.append(GivenKey(key, int(given_id) if is_number else None))
        elif not is_list:
            raise InvalidRequestError(f"{table.where}, line {line}: a row without a slashtag")
    return found
