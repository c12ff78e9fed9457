"""How clicks by one or two dimensions are requested: of all, of each tag, or of each day, week or month.

The service counts each dimension alone. A tag has statistics of its own, and so have the days of each week,
which take requests of their own.
"""

from collections import Counter
from datetime import date
from typing import Any, NamedTuple

from .. import (
    AsyncSession,
    CountryGeo,
    DateRange,
    GeoStats,
    InvalidRequestError,
    PeriodStats,
    Progress,
    Query,
    RangeStats,
    ShortUrl,
    Statistics,
    Year,
)
from .._wording import did_you_mean, many
from ..counts import DAY, ROLLED, Rows, count, label_of
from ..export import hourly_clicks
from .run import Run
from .selection import Selected, SelectionOptions, dates_of

#: The label of the clicks of links without a tag.
NO_TAG = "no tag"
#: Groups of days that take requests of their own, the longest first, and the most of them.
UNITS, MOST_UNITS = ("month", "week", "day"), 100
OF_YEARS = ("language", "timezone")
_PLACES = tuple(GeoStats.DIMENSIONS)


class By(NamedTuple):
    """What clicks are counted by: the labels of `label`, or each of `group` by these; "" for neither."""

    group: str = ""
    label: str = ""

    @property
    def names(self) -> list[str]:
        """Those that there are, the group first."""
        return [name for name in self if name]

    @property
    def needs_days(self) -> bool:
        """Whether a year has to be counted by days."""
        return any(name in ("hour", "day", "week", "weekday") for name in self) or self.group == "month"

    @classmethod
    def parse(cls, given: str | None, *, alltime: bool, country: bool) -> "By":
        """Return the dimensions of --by, as `week,tag`; raises InvalidRequestError for impossible ones."""
        names = given.replace(",", " ").split() if given else []
        known = {"tag", *(_PLACES if country else PeriodStats.DIMENSIONS.values())}
        known |= {"month"} if alltime else {*UNITS} if country else {*ROLLED, "hour"}
        told = f"--by {given}"
        for name in names:
            if name not in known:
                meant = "; `slashtag top` counts each link" if name in ("link", "slashtag", "url") else ""
                meant = meant or f"{did_you_mean(name, known)}; there are {', '.join(sorted(known))}"
                raise InvalidRequestError(f"{told}: {name} is not counted here{meant}")
        if len(names) < 2:
            # The service has no days of a country: each is requested by itself.
            return cls(*names) if country and names and names[0] in UNITS else cls("", *names)
        group = next((name for name in ("tag", *UNITS) if name in names), "")
        label = next((name for name in names if name != group), "")
        if len(names) > 2 or not group or not label or (group != "tag" and label in (*ROLLED, *OF_YEARS)):
            raise InvalidRequestError(f"{told}: of two dimensions one is tag, day, week or month")
        if label == "hour" or (alltime and group != "tag") or (country and group == "tag"):
            raise InvalidRequestError(f"{told}: {label} is not counted for each {group} here")
        return cls(group, label)


class Counted(NamedTuple):
    """Statistics of all, and the clicks of each label, of days where these are rolled up."""

    total: Statistics
    rows: Rows


def query_of(
    session: AsyncSession, span: DateRange, timezone: str | None, by: By, country: str | None
) -> Query[Any]:
    """Return the query of a span; a calendar year takes a twelfth of the requests as a Year."""
    if country is not None:
        return CountryGeo(country, *dates_of(span))
    year = span.bounds[0].year
    if by.needs_days or span.bounds != (date(year, 1, 1), date(year, 12, 31)):
        return span
    try:
        # Refused where the zone has two offsets in this year.
        session.stats.plan(Year(year), keys=(), timezone=timezone)
    except InvalidRequestError:
        return span
    return Year(year)


def spans_of(span: DateRange, unit: str) -> dict[str, DateRange]:
    """Return the days, weeks or months of a span; raises InvalidRequestError for too many."""
    (start, end), (first, last) = span.bounds, dates_of(span)
    found: dict[str, list[date]] = {}
    for n in range((last - first).days + 1):
        day = first + n * DAY
        found.setdefault(label_of(str(day), unit), []).append(day)
    if len(found) > MOST_UNITS:
        told = f"each {unit} takes requests of its own, and these are {len(found):,}, of at most {MOST_UNITS}"
        raise InvalidRequestError(f"{told}: give fewer days{', or --by month' * (unit != 'month')}")
    return {
        label: DateRange(start if days[0] == first else days[0], end if days[-1] == last else days[-1])
        for label, days in found.items()
    }


class Question(NamedTuple):
    """Clicks of some links, by one or two dimensions."""

    session: AsyncSession
    run: Run
    by: By
    selected: Selected
    selection: SelectionOptions
    progress: Progress

    async def answer(self, query: Query[Any]) -> Counted:
        """Request the clicks; prints how many requests there are for days, weeks or months one by one."""
        group, label = self.by
        if "tag" in self.by:
            total, each = await self._each_tag(query)
            return Counted(total, count(each, label if group else ""))
        if group:
            return await self._each_unit(query)
        if label == "hour" and isinstance(query, DateRange):
            start, end = query.bounds
            hours = await hourly_clicks(self.session, start, end, **self._of, **self._options)
            days = Counter({hour.date(): 0 for hour in hours})
            for hour, n in hours.items():
                days[hour.date()] += n
            total = RangeStats(total_clicks=days.total(), clicks=dict(days))
            return Counted(total, {(hour.isoformat(timespec="minutes"),): n for hour, n in hours.items()})
        total = await self._collect(query)
        return Counted(total, count(total, label))

    @property
    def _options(self) -> dict[str, Any]:
        return {"timezone": self.selection.timezone, "progress": self.progress}

    @property
    def _of(self) -> dict[str, Any]:
        keys, tags, listed = self.selected
        return {"tags": tags} if tags is not None else {"keys": listed if keys is None else keys}

    async def _collect(self, query: Query[Statistics]) -> Statistics:
        """Return the statistics of all that is selected together."""
        if self.selection.untagged and self.selected.shared:
            # Links with a tag have these too: what all tags leave is the clicks of those without one.
            return (await self.session.stats.by_tag(query, **self._options))[None]
        return await self.session.stats.collect(query, **self._of, **self._options)

    async def _each_tag(self, query: Query[Any]) -> tuple[Statistics, dict[str, Statistics]]:
        """Return the statistics of all, and of each tag, the most first, then of the links without one."""
        stats, (keys, tags, _) = self.session.stats, self.selected
        found: dict[Any, Statistics] = {}
        if tags is not None:
            found |= await stats.collect_each(query, tags=tags, **self._options).to_dict()
        elif keys is None or self.selection.untagged:
            found |= await stats.by_tag(query, **self._options)
            found = {None: found[None]} if self.selection.untagged else found
        else:
            groups = await self._groups(keys)
            zone = self.selection.timezone
            for name, of in groups.items():
                found[name] = await stats.collect(query, keys=of, timezone=zone)
        label = NO_TAG
        while label in found:
            label = f"({label})"
        names = sorted(found, key=lambda name: (name is None, -found[name].total, name or ""))
        each = {label if name is None else name: found[name] for name in names}
        first = next(iter(each.values()))
        return first.merge(each.values()), each

    async def _groups(self, keys: list[str | ShortUrl]) -> dict[str | None, list[ShortUrl]]:
        """Return given links by their tag; a slashtag of links with different tags names all of these."""
        names = await self.session.tags.names()
        by_slashtag: dict[str | None, list[ShortUrl]] = {}
        for link in keys:
            if isinstance(link, ShortUrl):
                by_slashtag.setdefault(link.slashtag, []).append(link)
        found: dict[str | None, list[ShortUrl]] = {}
        for links in by_slashtag.values():
            tags = sorted({names.get(link.tag_id or 0, NO_TAG) for link in links})
            found.setdefault(None if tags == [NO_TAG] else ", ".join(tags), []).extend(links)
        return found

    async def _each_unit(self, query: Any) -> Counted:
        """Return the clicks of the days, weeks or months of a span, which are requested one by one."""
        unit, label = self.by
        each: dict[str, Statistics] = {}
        spans = spans_of(_span_of(query), unit)
        self.run.say(f"each of {many(len(spans), unit)} is requested by itself")
        for n, (name, of) in enumerate(spans.items()):
            self.progress(n, len(spans))
            is_country = isinstance(query, CountryGeo)
            each[name] = await self._collect(CountryGeo(query.iso_code, *dates_of(of)) if is_country else of)
        first = next(iter(each.values()))
        total = first.merge(each.values())
        return Counted(total, count(each, label))


async def check(session: AsyncSession, query: Any, timezone: str | None, by: By) -> None:
    """Raise InvalidRequestError for what cannot be asked, before anything is sent."""
    session.stats.plan(query, keys=(), timezone=timezone)
    if by.group in UNITS:
        spans_of(_span_of(query), by.group)
    if by.label == "hour":
        await hourly_clicks(session, *query.bounds, keys=(), timezone=timezone)


def _span_of(query: Any) -> DateRange:
    return DateRange(query.start, query.end) if isinstance(query, CountryGeo) else query
