"""How clicks by one or two dimensions are requested: of all, of each tag, or of each day, week or month.

The service counts each dimension alone. A tag has statistics of its own, and so have the days of each week,
which take requests of their own.
"""

from datetime import date
from typing import Any, NamedTuple

from msgspec.structs import replace

from .. import (
    AsyncSession,
    CountryGeo,
    DateRange,
    GeoStats,
    InvalidRequestError,
    Progress,
    Query,
    RangeStats,
    ShortUrl,
    Statistics,
    Year,
)
from .._wording import did_you_mean
from ..counts import ROLLED, Rows, count, dates_of, days_of, label_of, no_tag_beside
from ..export import hourly_clicks
from .selection import Selected, SelectionOptions

#: What is counted of years and of all time alone.
OF_YEARS = ("language", "timezone")
_DIMENSIONS, _PLACES = RangeStats.SUMS, GeoStats.SUMS
#: Groups of days, which take requests of their own.
_UNITS = ("day", "week", "month")
#: What is counted of days, of all time and of the days of a country: by group, "" for none, and dimension.
COUNTED: dict[str, dict[str, tuple[str, ...]]] = {
    "days": {
        "": (*_DIMENSIONS, *OF_YEARS, *ROLLED, "hour", "tag"),
        "tag": (*_DIMENSIONS, *OF_YEARS, *ROLLED),
        **dict.fromkeys(_UNITS, _DIMENSIONS),
    },
    "alltime": {"": (*_DIMENSIONS, *OF_YEARS, "month", "tag"), "tag": (*_DIMENSIONS, *OF_YEARS, "month")},
    "a country": {"": (*_PLACES, "tag"), **dict.fromkeys(_UNITS, (*_PLACES, ""))},
}


class Breakdown(NamedTuple):
    """What clicks are counted by: the labels of `dimension`, or each of `group` by these; "" for none."""

    group: str = ""
    dimension: str = ""

    @property
    def names(self) -> list[str]:
        """Those that there are, the group first."""
        return [name for name in self if name]

    @property
    def needs_days(self) -> bool:
        """Whether a year has to be counted by days."""
        return any(name in ("hour", "day", "week", "weekday") for name in self) or self.group == "month"

    @classmethod
    def parse(cls, given: str | None, kind: str) -> "Breakdown":
        """Return the dimensions of --by, as `week,tag`, for a kind of COUNTED; raises InvalidRequestError."""
        names = {*(given or "").replace(",", " ").split()}
        every = [cls(group, each) for group, dimensions in COUNTED[kind].items() for each in dimensions]
        for by in every:
            if names == {*by.names}:
                return by
        if not names:
            return cls()
        known = sorted({name for by in every for name in by.names})
        hints = "".join(did_you_mean(name, known) for name in names if name not in known)
        told = f"--by {given} is not counted of {kind}{hints}; there are {', '.join(known)}"
        raise InvalidRequestError(
            f"{told}; of two dimensions one is tag, day, week or month; `slashtag top` counts each link"
        )


class Counted(NamedTuple):
    """Statistics of all, and the clicks of each label, of days where these are rolled up."""

    total: Statistics
    rows: Rows


def queries_of(
    session: AsyncSession,
    spans: list[DateRange],
    timezone: str | None,
    by: Breakdown,
    country: str | None = None,
) -> list[Query[Any]]:
    """Return the queries of spans, all of one kind; whole years take a twelfth of the requests as Years."""
    if country is not None:
        return [CountryGeo(country, *dates_of(span)) for span in spans]
    years = [Year(span.bounds[0].year) for span in spans]
    are_years = all(
        span.bounds == (date(of.year, 1, 1), date(of.year, 12, 31))
        for span, of in zip(spans, years, strict=True)
    )
    try:
        # Refused where the zone has two offsets in a year.
        for year in years if are_years else ():
            session.stats.plan(year, keys=(), timezone=timezone)
    except InvalidRequestError:
        are_years = False
    if by.dimension in OF_YEARS and not are_years:
        raise InvalidRequestError(
            f"--by {by.dimension}: give alltime or a whole year, in a zone of one offset"
        )
    return [*years] if are_years and not by.needs_days else [*spans]


def _parts(query: Any, unit: str) -> dict[str, Any]:
    """Return a query of the same kind for each day, week or month of a span."""
    first, last = dates_of(DateRange(query.start, query.end))
    found: dict[str, list[date]] = {}
    for day in days_of(first, last):
        found.setdefault(label_of(str(day), unit), []).append(day)
    return {
        # The last day may be cut.
        label: replace(query, start=days[0], end=query.end if days[-1] == last else days[-1])
        for label, days in found.items()
    }


class Question(NamedTuple):
    """Clicks of some links, by one or two dimensions."""

    session: AsyncSession
    by: Breakdown
    selected: Selected
    selection: SelectionOptions
    progress: Progress

    async def answer(self, query: Query[Any]) -> Counted:
        """Request the clicks."""
        group, dimension = self.by
        if "tag" in self.by:
            each = await self._each_tag(query)
        elif group:
            each = {name: await self._collect(part) for name, part in _parts(query, group).items()}
        elif dimension == "hour" and isinstance(query, DateRange):
            # Hours do not tell of links that cannot be requested.
            total: Statistics = await self.session.stats.collect(query, **self._of, **self._options)
            start, end = query.bounds
            hours = await hourly_clicks(self.session, start, end, **self._of, **self._options)
            # That of the rows: clicks may have come since.
            total = replace(total, total_clicks=sum(hours.values()))
            return Counted(total, {(hour.isoformat(timespec="minutes"),): n for hour, n in hours.items()})
        else:
            total = await self._collect(query)
            return Counted(total, count(total, dimension))
        total = next(iter(each.values())).merge(each.values())
        return Counted(total, count(each, dimension if group else ""))

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

    async def _each_tag(self, query: Query[Any]) -> dict[str, Statistics]:
        """Return the statistics of each tag, the most first, then of the links without one."""
        stats, (keys, tags, _) = self.session.stats, self.selected
        found: dict[Any, Statistics] = {}
        if tags is not None:
            found |= await stats.collect_each(query, tags=tags, **self._options).to_dict()
        elif self.selection.untagged:
            found[None] = await self._collect(query)
        elif keys is None:
            found |= await stats.by_tag(query, **self._options)
        else:
            for name, of in (await self._groups(keys)).items():
                found[name] = await stats.collect(query, keys=of, **self._options)
        label = no_tag_beside(found)
        names = sorted(found, key=lambda name: (name is None, -found[name].total, name or ""))
        return {label if name is None else name: found[name] for name in names}

    async def _groups(self, links: list[ShortUrl]) -> dict[str | None, list[ShortUrl]]:
        """Return given links by their tag; a slashtag of links with different tags names all of these."""
        names = await self.session.tags.names()
        no_tag = no_tag_beside(names.values())
        tags: dict[str | None, set[str]] = {}
        for link in links:
            tags.setdefault(link.slashtag, set()).add(names.get(link.tag_id or 0, no_tag))
        found: dict[str | None, list[ShortUrl]] = {}
        for link in links:
            name = ", ".join(sorted(tags[link.slashtag]))
            found.setdefault(None if name == no_tag else name, []).append(link)
        return found
