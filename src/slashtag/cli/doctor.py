"""What `slashtag doctor` finds out: how this service behaves where its document leaves it open."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from math import floor
from typing import Literal

from .. import AsyncSession, AuthenticationError, ShortUrl, SlashtagError
from .._core.call import MAX_PAGESIZE
from .._core.selectors import check_slashtag
from .._core.split import Month, midnight
from .._errors import InvalidRequestError
from .probes import (
    DAY,
    PATIENCE,
    SECOND,
    Observer,
    Prober,
    after,
    days_of,
    first_end,
    months_of,
    percentile,
    read_end,
    start_of,
)
from .rate_probe import Burst

Result = Literal["ok", "differs", "unknown", "failed"]

#: So many links with most hits are asked about together.
KEYS = 20
#: GETs whose time is taken, one after the other.
TIMED = 20
#: Months without all-time statistics that are looked at for a click, and ended ones with clicks.
MONTHS_BACK, MONTHS_TRIED = 12, 3
_NO_CLICK = "no link with a click was found: give one with --keys"


@dataclass(frozen=True)
class Finding:
    """Hold what was found, and the option to use for it on the command line and in Python."""

    check: str
    result: Result
    found: str
    option: str | None = None
    argument: str | None = None


class Doctor:
    """Ask step by step; each finding is given as it is known.

    `fresh` makes the session of the burst that looks for a limit; None: it is not looked for. `requests` and
    `throttled` count those of that burst.
    """

    def __init__(
        self, session: AsyncSession, keys: tuple[str, ...], fresh: Callable[[], AsyncSession] | None
    ) -> None:
        self._session = session.with_options(retry=PATIENCE)
        self._observer = Observer(session)
        self._prober = Prober(self._session, keys)
        self._fresh = fresh
        self.requests = 0
        self.throttled = 0
        self._alltime: str | None = None
        self._months: dict[Month, int] = {}
        self._month: datetime | None = None
        self._day: date | None = None
        self._end: datetime | None = None
        self._exclusive = False

    async def examine(self) -> AsyncIterator[Finding]:
        """Yield the findings; ends at wrong credentials, as nothing else can be asked then."""
        steps: list[tuple[str, Callable[[], Awaitable[list[Finding]]]]] = [
            ("credentials", self._credentials),
            ("paths", self._paths),
            ("one day", self._one_day),
            ("range end", self._range_end),
            ("timezone, days", self._zone_of_days),
            ("timezone, months", self._zone_of_months),
            ("latency", self._latency),
        ]
        if self._fresh is not None:
            steps.append(("rate limit", partial(self._limit, self._fresh)))
        for name, step in steps:
            try:
                for finding in await step():
                    yield finding
            except AuthenticationError as error:
                yield Finding(name, "failed", f"refused: {error.status} {error.message}")
                raise
            except SlashtagError as error:
                if name == "credentials":
                    raise
                yield Finding(name, "failed", str(error))

    async def _credentials(self) -> list[Finding]:
        """Read the oldest links: with what is accepted come the page size and links to ask about."""
        urls = await self._session.urls.page(1, pagesize=MAX_PAGESIZE, orderby="date")
        tags = await self._session.tags.page(1, pagesize=MAX_PAGESIZE)
        if not self._prober.keys:
            newest = await self._session.urls.page(1, pagesize=MAX_PAGESIZE, orderby="-date")
            self._prober = Prober(self._session, _most_clicked(urls.items + newest.items))
        lowered = {
            name: size
            for name, size in (("links", urls.page_size), ("tags", tags.page_size))
            if size != MAX_PAGESIZE
        }
        pages = f"up to {MAX_PAGESIZE} a page, as documented"
        if lowered:
            sizes = " and ".join(f"{size} {name}" for name, size in lowered.items())
            pages = f"{MAX_PAGESIZE} are asked for and at most {sizes} come; listings heed it"
        return [
            Finding("credentials", "ok", "accepted"),
            Finding("page size", "differs" if lowered else "ok", pages),
        ]

    async def _paths(self) -> list[Finding]:
        if not self._prober.keys:
            return [Finding("paths", "unknown", "the account has no link to ask about")]
        year = str(datetime.now(UTC).year)
        findings: list[Finding] = []
        for check, params in (("yearly", {"year": year}), ("alltime", {})):
            stated = await self._prober.period(f"stats/{check}", **params)
            sampled = await self._prober.period("stats", **params)
            if check == "alltime" and (answer := stated or sampled):
                self._alltime = "stats/alltime" if stated else "stats"
                self._months = months_of(answer)
            if stated:
                also = ", also on that of the samples" if sampled else ""
                findings.append(Finding(f"path, {check}", "ok", f"answers on its stated path{also}"))
            elif sampled:
                found = "answers on the path of the samples, /stats, only; it is found by itself"
                findings.append(Finding(f"path, {check}", "differs", found))
            else:
                findings.append(Finding(f"path, {check}", "differs", "answers on neither path"))
        return findings

    async def _one_day(self) -> list[Finding]:
        """Find a month and a day with a click, and ask for that day alone."""
        if not self._prober.keys:
            return [Finding("one day", "unknown", _NO_CLICK)]
        found: list[Finding] = []
        async for month, end in self._months_to_try():
            answer = await self._prober.range(month, end)
            if answer.total_clicks:
                days = days_of(answer)
                self._month, self._day = month, min(days) if days else None
                if not days:
                    found = [Finding("several days", "differs", "answers leave the days out")]
                break
        alone = await self._prober.day(self._day or (datetime.now(UTC) - DAY).date())
        if days_of(alone) is not None:
            found.append(Finding("one day", "ok", "the answer for one day bears `clicks`"))
        elif alone.total_clicks:
            found.append(
                Finding("one day", "ok", "the answer for one day has no `clicks`; its total is taken")
            )
        else:
            found.append(Finding("one day", "unknown", _NO_CLICK))
        return found

    async def _months_to_try(self) -> AsyncIterator[tuple[datetime, datetime]]:
        """Yield months that have clicks, or may have some, as ranges; those that have ended first."""
        now = datetime.now(UTC)
        present: Month = (now.year, now.month)
        if self._alltime is None:
            months = [_back(present, n) for n in range(MONTHS_BACK)]
        else:
            ended = sorted((month for month in self._months if month < present), reverse=True)
            months = [*ended[:MONTHS_TRIED], *([present] if present in self._months else [])]
        for month in months:
            yield start_of(month), start_of(after(month)) - SECOND

    async def _range_end(self) -> list[Finding]:
        if self._month is None:
            return [Finding("range end", "unknown", _NO_CLICK)]
        count = self._prober.count
        # From an hour before, so that no click is of the very second in which the range begins.
        start = self._month - timedelta(hours=1)
        end: datetime | None = None
        if self._day is not None:
            low = midnight(self._day) - SECOND
            end = await first_end(count, start, low, low + DAY)
        if end is None:
            following = after((self._month.year, self._month.month))
            end = await first_end(count, start, start, start_of(following))
        reading = "unclear" if end is None or end <= start + SECOND else await read_end(count, end)
        if end is None or reading == "unclear":
            return [
                Finding("range end", "unknown", "the counts of ranges around a click contradict each other")
            ]
        if reading == "days":
            return [Finding("range end", "differs", "whole days count: the time of day is not heeded")]
        self._exclusive = reading == "exclusive"
        self._end = end
        if self._exclusive:
            return [
                Finding(
                    "range end",
                    "differs",
                    "exclusive: the last second of a range is not counted",
                    "--range-end exclusive",
                    'range_end="exclusive"',
                )
            ]
        return [Finding("range end", "ok", "inclusive: the last second of a range is counted")]

    async def _zone_of_days(self) -> list[Finding]:
        """Ask for two days that begin or end with a click, in a zone where that click is of another date."""
        check = "timezone, days"
        if self._end is None:
            return [
                Finding(check, "unknown", _NO_CLICK if self._month is None else "no single click was found")
            ]
        click = self._end - SECOND if self._exclusive else self._end
        if click.hour >= 10:
            offset, local = "+14:00", click.date() + DAY
            answer = await self._prober.range(click - 25 * DAY / 24, self._end, offset)
        else:
            offset, local = "-11:00", click.date() - DAY
            answer = await self._prober.range(click, click + 25 * DAY / 24, offset)
        days = days_of(answer)
        if days is None:
            return [Finding(check, "unknown", "answers leave the days out")]
        if local in days:
            return [Finding(check, "ok", f"days are those of the zone asked for ({offset})")]
        return [Finding(check, "differs", f"days do not follow `timezone` ({offset}): ask without one")]

    async def _zone_of_months(self) -> list[Finding]:
        """Compare all-time months under two zones; where they are equal, look for clicks that had to move."""
        check, offset, moved = "timezone, months", "+14:00", timedelta(hours=14)
        if self._alltime is None or not self._months:
            return [Finding(check, "unknown", "all-time statistics tell no month with clicks")]
        answer = await self._prober.period(self._alltime, timezone=offset)
        if answer is None:
            return [Finding(check, "differs", "all-time statistics refuse `timezone`")]
        now = datetime.now(UTC)
        there = {month: n for month, n in months_of(answer).items() if month < (now.year, now.month)}
        here = {month: n for month, n in self._months.items() if month < (now.year, now.month)}
        if there != here:
            return [Finding(check, "ok", f"all-time months are those of the zone asked for ({offset})")]
        for month in sorted(here, reverse=True)[: 2 * MONTHS_TRIED]:
            ends = [start_of(month), start_of(after(month))]
            came, went = [
                await self._prober.count(end - moved, end if self._exclusive else end - SECOND)
                for end in ends
            ]
            if came != went:
                return [
                    Finding(check, "differs", "all-time months do not follow `timezone`: ask without one")
                ]
        return [Finding(check, "unknown", "no click lies close enough to the end of a month to tell")]

    async def _latency(self) -> list[Finding]:
        self._observer.seconds.clear()
        for _ in range(TIMED):
            await self._session.urls.page(1, pagesize=1)
        median, high = (1000 * percentile(self._observer.seconds, share) for share in (0.5, 0.95))
        packed = sorted(self._observer.encodings - {"identity"})
        return [
            Finding("latency", "ok", f"median {median:.0f} ms, 95 % within {high:.0f} ms"),
            Finding(
                "compression",
                "ok",
                f"answers are compressed ({', '.join(packed)})" if packed else "answers are not compressed",
            ),
        ]

    async def _limit(self, fresh: Callable[[], AsyncSession]) -> list[Finding]:
        check = "rate limit"
        async with fresh() as session:
            burst = Burst(session)
            try:
                await burst.run()
            finally:
                self.requests += session.metrics.requests
                self.throttled += session.metrics.throttled
        if burst.stated is not None:
            # Not rounded up: a rate above the limit would be refused for ever.
            rate = f"{floor(1000 * burst.stated) / 1000:g}"
            found = f"{rate} requests/s, as the headers of its answers state"
            return [Finding(check, "differs", found, f"--rate {rate}", f"rate={rate}")]
        if burst.stopped is not None:
            wait = burst.stopped.retry_after
            asks = f" and asks to wait {wait:.0f} s" if wait else ""
            return [Finding(check, "differs", f"refuses after {burst.answered} requests{asks}")]
        if not burst.limited:
            return [Finding(check, "ok", f"none found up to {burst.speed:.0f} requests/s")]
        least = floor(burst.kept) if burst.kept >= 10 else floor(10 * burst.kept) / 10
        # With a lower bound as its --rate a job would be slower than it has to be, for ever.
        return [Finding(check, "differs", f"at least {least} requests/s; the client learns the limit")]


def _most_clicked(urls: list[ShortUrl]) -> tuple[str, ...]:
    """Choose slashtags of links with most hits, of those that can be asked about."""
    chosen: dict[str, int] = {}
    for url in sorted(urls, key=lambda url: -url.hits):
        try:
            chosen[check_slashtag(url)] = url.hits
        except InvalidRequestError:
            continue
        if len(chosen) == KEYS:
            break
    return tuple(chosen)


def _back(month: Month, n: int) -> Month:
    count = 12 * month[0] + month[1] - 1 - n
    return count // 12, count % 12 + 1
