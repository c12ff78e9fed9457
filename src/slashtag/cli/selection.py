"""The options that say which days and links a command is about."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import typer
from typer import Argument, Option

from .. import (
    AsyncSession,
    ConfigurationError,
    DateRange,
    InvalidRequestError,
    Progress,
    Query,
    ShortUrl,
    Year,
    parse_zone,
)
from .._by_tag import ByTag, ByTagOfLinks
from .._internal import PREVIOUS, WantedLinks, check_slashtag, did_you_mean, find_zone, many
from .._shared_slashtags import Links
from ..export import NAMED_URLS
from ..tables import LoadedTable, load_table
from .other_words import meant_by_words
from .run import SOME_FAILED, Run


def _default_zone(context: typer.Context, given: str | None) -> str | None:
    """Return the zone that is given, or that of the login whose credentials are used.

    Raises InvalidRequestError for one that is none, and says where it stands.
    """
    where, zone = "--timezone", given
    if given is None:
        where = "`slashtag login --timezone` saved one that is none"
        with suppress(ConfigurationError):  # which the session raises
            zone = find_zone(context.params.get("profile")) or None
    elif getattr(context.get_parameter_source("timezone"), "name", "") == "ENVIRONMENT":
        where = "SLASHTAG_TIMEZONE"
    try:
        parse_zone(zone)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{where}: {error}") from None
    return zone


TIMEZONE = Option(
    None,
    envvar="SLASHTAG_TIMEZONE",
    callback=_default_zone,
    metavar="ZONE",
    help="+HH:MM, or a name such as Europe/Berlin. Default: that of `slashtag login --timezone`, or +00:00.",
)
COMPARE = Option(
    None,
    "--compare",
    metavar="SPAN",
    help="What the days are compared with: previous (the span before), last-year (the same months, or the "
    "same weekdays, a year earlier), or any SPAN.",
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


@dataclass(frozen=True)
class PeriodArguments:
    """Arguments of which days a command is about: the words of a span, or of its two ends."""

    words: list[str] | None = Argument(
        None,
        metavar="SPAN|START END",
        help="Days: today, last-week, last month, october, october 2024, this-quarter, 30d, 4w, 6m, 1y, "
        "2024, 2024-q3, 2024-06, 2024-06-01, 2024-06-01..2024-06-30; or the first and the last day.",
    )

    def resolve(self, timezone: str | None, compare: str | None = None, default: str = "") -> ResolvedPeriod:
        """Return what the arguments mean now in a time zone; raises InvalidRequestError.

        Of a span that has begun and is not over, the part that is over can be counted. It is compared with
        the span before, or what `compare` says (`DateRange.with_previous`). `default` is the span where none
        is given.
        """
        given = " ".join(self.words or ()) or default
        if not given:
            raise InvalidRequestError("give a SPAN such as last-month, october or 30d, or START and END")
        zone = parse_zone(timezone)
        now = datetime.now(zone)
        try:
            whole = DateRange.parse(given).resolve(zone, now)
        except InvalidRequestError as error:
            if not (told := meant_by_words(self.words or ())):
                raise
            # In place of all the forms that days have.
            raise InvalidRequestError(f"{str(error).partition('; give ')[0]}; {told}") from None
        if whole.span(zone)[0] > now.date():
            raise InvalidRequestError(f"{given} begins after today, {now.date()}: there are no clicks yet")
        so_far, before = whole.with_previous(zone, now, compare or PREVIOUS)
        text = _text(*so_far.bounds) + ", so far" * (so_far.bounds != whole.bounds)
        return ResolvedPeriod(whole, so_far, before, text, _text(*before.bounds), str(zone))


def query_of(session: AsyncSession, span: DateRange, timezone: str | None) -> Query[Any]:
    """Return the query of a span; a calendar year takes a twelfth of the requests as a Year."""
    year = span.bounds[0].year
    with suppress(InvalidRequestError):  # the zone has two offsets in this year
        if span.bounds == (date(year, 1, 1), date(year, 12, 31)):
            session.stats.plan(Year(year), keys=(), timezone=timezone)
            return Year(year)
    return span


def _text(start: date, end: date) -> str:
    texts = [f"{at:%Y-%m-%d %H:%M}" if isinstance(at, datetime) else str(at) for at in (start, end)]
    return " to ".join(dict.fromkeys(texts))


class GivenKey(NamedTuple):
    """Slashtag or short URL as given, and the id of its link where a file has it beside."""

    key: str
    id: int | None = None


class Selected(NamedTuple):
    """Links, or slashtags that were not looked up, or tags; where both are None, all links of the account.

    `listed` has all links of the account, if they were listed.
    """

    keys: list[str | ShortUrl] | None = None
    tags: list[str] | None = None
    listed: Links | None = None


async def read_by_tag(run: Run, session: AsyncSession, selected: Selected, progress: Progress) -> ByTag:
    """List all tags and links, or some; print how many tags are left out, and slashtags that several have."""
    if selected.keys is not None:
        of_links = await ByTagOfLinks.of(session, selected.keys, progress, selected.listed)
        if of_links.several:
            told = "which are counted together: their row names all these tags"
            run.say(f"{many(of_links.several, 'slashtag')} of links with different tags, {told}")
        return of_links
    by_tag = await ByTag.read(session, selected.tags, progress)
    if by_tag.unnamed:
        text = "not listed, or its name cannot be read, so it cannot be requested"
        run.warn(f"{many(by_tag.unnamed, 'tag')}: {text}", "left out: ")
    return by_tag


def report_overlap(run: Run, too_many: int, *, is_over: bool) -> None:
    """Print how many clicks the rows of tags have more, or fewer, than all links (`ByTag.count`).

    Of days that are over, for which no clicks come meanwhile, that is a contradiction.
    """
    text = f"the rows add up to {too_many:,} more than all clicks"
    if too_many > 0 and not is_over:
        run.say(f"{text}: clicks came meanwhile, or links have several tags")
    elif too_many > 0:
        run.warn(f"{text}, which the service does not count alike by tag and by slashtag", "inconsistent: ")
    if too_many < 0:
        run.warn(f"{many(-too_many, 'click')} of links whose tag is in no row", "left out: ")


def note_of_shared(count: int) -> str:
    """Return the note on slashtags of selected links that other links have too."""
    return (
        f"slashtags that several links share: {count:,}; the service counts clicks by slashtag, so the rows "
        "hold those of all selected links that have it"
    )


@dataclass
class SelectionOptions:
    """Options of which links a command is about, by default all, and of the zone of its days."""

    keys: str | None = _option(None, metavar="A,B,...", help="These slashtags.")
    keys_file: typer.FileBinaryRead | None = _option(
        None,
        metavar="FILE",
        lazy=False,
        help="Slashtags from a file, one a line, or a table with that column; - reads stdin.",
    )
    tag: list[str] | None = _option(None, metavar="NAME", help="The links of this tag; may be repeated.")
    untagged: bool = _option(False, "--untagged", help="The links without a tag.")
    timezone: str | None = TIMEZONE
    all_links: bool = _option(False, "--all", help="Every link of the account; the default.")
    no_check: bool = _option(
        False,
        "--no-check",
        help="Do not look up slashtags in the account; then a continued export does not notice those that "
        "other links got.",
    )

    def __post_init__(self) -> None:
        given = sum([self.keys is not None, self.keys_file is not None, bool(self.tag), self.untagged])
        given += self.all_links
        self.all_links = not given or self.all_links
        if given > 1:
            raise InvalidRequestError(
                "only one of --keys, --keys-file, --tag, --untagged and --all says which links"
            )
        #: What is given, read and checked before anything is sent or written; its slashtags and short URLs.
        self.given = [] if self.tag or self.untagged or self.all_links else self._given()
        self.slashtags = [each.key for each in self.given]

    @property
    def zone(self) -> str:
        """The zone of the days, in words."""
        return str(parse_zone(self.timezone))

    def require_tags(self) -> None:
        """Raise InvalidRequestError where slashtags are selected, for an export --by tag."""
        if not (self.tag or self.all_links):
            raise InvalidRequestError(
                "--by tag goes with --tag or --all; `stats` and `top` count other links by tag"
            )

    def advice_on_each(self, by: Iterable[str]) -> str:
        """Return how to count each of several tags or slashtags, which were counted together."""
        if len(self.tag or ()) > 1:
            names = [name for name in by if "hour" not in name]
            told = f"--by {','.join([*names[-1:], 'tag'])} counts each"
            return f"the {len(self.tag or ())} tags are counted together; {told}"
        if len(self.given) > 1:
            return f"the {len(self.given):,} links are counted together; `slashtag top` counts each"
        return ""

    async def resolve(
        self, run: Run, session: AsyncSession, progress: Progress, *, lists_all: bool = False
    ) -> Selected:
        """Return the links that the options select; what no link has is left out.

        With `lists_all`, which is for who needs them too, given slashtags are looked up among all links.
        """
        if self.tag or self.all_links:
            return Selected(tags=self.tag or None)
        if self.untagged:
            listed = await Links.read(session, progress=progress)
            return Selected(_untagged(run, listed), listed=listed)
        keys, looked_up, seen = self.slashtags, None, set[str]()
        has_urls = any("://" in key for key in keys)

        async def find(session: AsyncSession) -> tuple[dict[str, ShortUrl | None], Links | None]:
            if not (lists_all or has_urls):
                return await session.urls.find(keys, progress=progress, seen=seen), None
            listed, wanted = await Links.read(session, progress=progress), WantedLinks(keys)
            seen.update(listed.by_slashtag)
            for link in listed.all:
                wanted.take(link)
            return wanted.found, listed

        if has_urls:
            looked_up = await find(session)
        elif not self.no_check:
            # However many they are: a page of the listing has 500 links, a request for clicks 100 slashtags.
            looked_up = await session._optional("the check of slashtags", find)
        if looked_up is None:
            return Selected([*keys])
        found, all_links = looked_up
        unknown = [key for key, link in found.items() if link is None]
        if all_links is None:
            links = await _by_id(session, unknown, progress)
        else:
            links = {str(link.id): link for link in all_links.all}
        for key in unknown:
            if (link := links.get(key)) is not None:
                question = f"; it is the id of the link with the slashtag {link.slashtag!r}: give that"
            else:
                question = did_you_mean(key, seen) if len(unknown) <= ASKED else ""
            run.warn(f"no link has the slashtag {key!r}{question}", "left out: ")
        if len(unknown) == len(found):
            raise typer.Exit(SOME_FAILED)
        _warn_of_moved(run, self.given, found)
        by_url = [link for key, link in found.items() if link is not None and "://" in key]
        if all_links is not None:
            _warn_of_shared(run, by_url, all_links)
        return Selected([link for link in found.values() if link is not None], listed=all_links)

    def _given(self) -> list[GivenKey]:
        """Return what is given; raises InvalidRequestError for what statistics cannot name."""
        if self.keys_file is None:
            where, found = "--keys", [GivenKey(key.strip()) for key in (self.keys or "").split(",")]
            found = [each for each in found if each.key]
        else:
            name = getattr(self.keys_file, "name", "<stdin>")
            where = f"--keys-file {'-' if name == '<stdin>' else name}"
            found = _keys_of(load_table(self.keys_file, where))
        if not found:
            # Statistics of no links are zeros, and an export would replace a file by its header.
            raise InvalidRequestError(f"{where} holds no slashtags; --all selects every link")
        for key, _ in found:
            if "://" not in key:
                try:
                    check_slashtag(key)
                except InvalidRequestError as error:
                    raise InvalidRequestError(f"{where}: {error}") from None
            elif self.no_check:
                raise InvalidRequestError(f"{where}: {key!r} is a short URL, whose slashtag is looked up")
        return found


def _untagged(run: Run, links: Links) -> list[str | ShortUrl]:
    """Return the links without a tag; raises InvalidRequestError where there are none."""
    chosen = [link for of in links.by_slashtag.values() for link in of if link.tag_id is None]
    for link in links.uncountable:
        if link.tag_id is None:
            run.warn(f"statistics cannot be requested for {link.slashtag!r}", "left out: ")
    if not chosen:
        raise InvalidRequestError("there are no links without a tag")
    _warn_of_shared(run, chosen, links)
    return [*chosen]


def _warn_of_moved(run: Run, given: Iterable[GivenKey], found: Mapping[str, ShortUrl | None]) -> None:
    """Warn of slashtags that another link has than the one whose id the file has beside.

    A column id in which no row names the link of its slashtag is about something else.
    """
    ids: dict[str, set[int]] = {}
    for key, id in given:
        if id is not None:
            ids.setdefault(key, set()).add(id)
    links = {key: link for key in ids if (link := found.get(key)) is not None}
    moved = [key for key, link in links.items() if link.id not in ids[key]]
    are_of_links = len(moved) < len(links) or any(links[key].id in chain(*ids.values()) for key in moved)
    for key in moved if are_of_links else ():
        text = f"the slashtag {key!r} is that of the link {links[key].id}, whose clicks are counted"
        run.warn(f"{text}; the file has it beside the id {', '.join(map(str, sorted(ids[key])))}", "moved: ")


def _warn_of_shared(run: Run, asked: Collection[ShortUrl], links: Links) -> None:
    """Warn of links that were named by short URL and share their slashtag with one that was not."""
    ids = {link.id for link in asked}
    for link in asked:
        others = [each for each in links.by_slashtag.get(link.slashtag or "", ()) if each.id not in ids]
        if others:
            named = ", ".join(each.short_url or str(each.id) for each in others)
            run.warn(f"the clicks of {link.short_url} are counted together with those of {named}", "shared: ")


async def _by_id(session: AsyncSession, keys: list[str], progress: Progress) -> dict[str, ShortUrl]:
    """Return the links whose ids were given for slashtags, by what was given; lists links if any may be."""
    wanted = {key for key in keys if key.isascii() and key.isdecimal()}

    async def find(session: AsyncSession) -> dict[str, ShortUrl]:
        found: dict[str, ShortUrl] = {}
        async with session.urls.list(progress=progress) as links:
            async for link in links:
                if str(link.id) in wanted:
                    found[str(link.id)] = link
                if len(found) == len(wanted):
                    break
        return found

    return (await session._optional("the look-up of ids", find) if wanted else None) or {}


def _keys_of(table: LoadedTable) -> list[GivenKey]:
    """Return the slashtags of a table with that column, or of a list without a header, one a line.

    Raises InvalidRequestError for other tables, and for rows of a table without a slashtag.
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
        if is_list and key.startswith("#"):
            continue
        if key:
            is_number = given_id.isascii() and given_id.isdecimal() and len(given_id) < 20
            found.append(GivenKey(key, int(given_id) if is_number else None))
        elif not is_list:
            raise InvalidRequestError(f"{table.where}, line {line}: a row without a slashtag")
    return found
