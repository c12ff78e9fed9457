"""What `slashtag doctor` checks: how the service behaves where its document leaves it open.

A reading of the service is reported only if two independent places in the click history agree on it;
otherwise the finding is "unknown". Only GETs are sent, one after the other.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import median
from time import perf_counter
from typing import Literal

from .. import (
    AllTime,
    AsyncSession,
    AuthenticationError,
    DateRange,
    InvalidRequestError,
    PaginationError,
    RangeStats,
    RetryPolicy,
    ShortUrl,
    SlashtagError,
)
from .._internal import MAX_PAGESIZE, Month, check_slashtag, flattened, last_day, midnight
from .range_end import DAY, HOUR, SECOND, Reading, agreed, first_second, read_end

Result = Literal["ok", "differs", "unknown", "failed"]
#: Waits for a rate limit, but does not spend minutes on a service that is down.
RETRY = RetryPolicy(max_attempts=3, max_wait=10.0)
#: Links with the most hits, whose clicks are counted together unless --keys names others.
LINKS = 20
#: Pages of this size are compared with one large page.
SMALL_PAGE = 10
#: Months and clicks examined at most for one finding, and requests timed.
MONTHS, CLICKS, TIMED = 6, 4, 10
NO_CLICK = "no click on a day that is over was found; name a link with clicks by --keys"
NOT_CONFIRMED = "fewer than two clicks agree on it; name a link with more clicks by --keys"


@dataclass(frozen=True)
class Finding:
    """Result of one check, with the option to use on the command line and the argument in Python."""

    check: str
    result: Result
    found: str
    option: str | None = None
    argument: str | None = None


class Doctor:
    """Series of checks of one service; `examine` yields each finding as it is known."""

    def __init__(self, session: AsyncSession, keys: tuple[str, ...] = ()) -> None:
        self._session = session.with_options(retry=RETRY)
        self._keys = keys
        #: Clicks by month, as all-time statistics count them in UTC.
        self._months: dict[Month, int] = {}
        #: Seconds with a click that agreed on the reading of range ends.
        self._seconds: list[datetime] = []
        self._reading: Reading = "unclear"

    async def examine(self) -> AsyncIterator[Finding]:
        """Yield the findings; raises AuthenticationError after the finding that names it."""
        steps: dict[str, Callable[[], Awaitable[list[Finding]]]] = {
            "credentials": self._check_credentials,
            "paging": self._check_paging,
            "range end": self._check_range_end,
            "timezone, days": self._check_zone_of_days,
            "timezone, months": self._check_zone_of_months,
            "latency": self._check_latency,
        }
        for name, step in steps.items():
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

    async def _check_credentials(self) -> list[Finding]:
        oldest = await self._session.urls.page(1, pagesize=MAX_PAGESIZE, orderby="date")
        tags = await self._session.tags.page(1, pagesize=MAX_PAGESIZE)
        if not self._keys:
            newest = await self._session.urls.page(1, pagesize=MAX_PAGESIZE, orderby="-date")
            self._keys = _most_clicked(oldest.items + newest.items)
        sizes = {"links": oldest.page_size, "tags": tags.page_size}
        lowered = [f"{size} {name}" for name, size in sizes.items() if size != MAX_PAGESIZE]
        found = f"up to {MAX_PAGESIZE} a page, as documented"
        if lowered:
            found = f"at most {' and '.join(lowered)} a page instead of {MAX_PAGESIZE}; listings adapt to it"
        return [
            Finding("credentials", "ok", "accepted"),
            Finding("page size", "differs" if lowered else "ok", found),
        ]

    async def _check_paging(self) -> list[Finding]:
        """Compare the links on small pages with those on a large one."""
        urls = self._session.urls
        try:
            large = await urls.list(pagesize=MAX_PAGESIZE).to_list(limit=3 * SMALL_PAGE)
            small = await urls.list(pagesize=SMALL_PAGE).to_list(limit=3 * SMALL_PAGE)
            # Past the first large page, where a service that lowers page sizes in silence shows it.
            await urls.list(pagesize=MAX_PAGESIZE).to_list(limit=MAX_PAGESIZE + 1)
        except PaginationError as error:
            return [Finding("paging", "differs", f"listings fail, as pages cannot be told apart: {error}")]
        if [url.id for url in small] == [url.id for url in large]:
            return [Finding("paging", "ok", "pages of different sizes list the same links")]
        found = (
            f"pages of {SMALL_PAGE} and of {MAX_PAGESIZE} list different links: listings may be incomplete"
        )
        return [Finding("paging", "differs", found)]

    async def _check_range_end(self) -> list[Finding]:
        check = "range end"
        spans = await self._spans_with_clicks()
        readings: list[Reading] = []
        # What is left of a span is searched after the other spans, so that days differ where they can.
        for low, high in spans:
            second = await first_second(self._count, low, high)
            if second is None:
                continue
            spans.append((second + SECOND, high))
            reading = await read_end(self._count, second)
            if reading != "unclear":
                readings.append(reading)
                self._seconds.append(second)
            if len(readings) == 2 or len(spans) == 2 * CLICKS:
                break
        self._reading = agreed(readings) or "unclear"
        if self._reading == "inclusive":
            return [Finding(check, "ok", "inclusive: the last second of a range is counted")]
        if self._reading == "exclusive":
            found = "exclusive: the last second of a range is not counted"
            return [Finding(check, "differs", found, "--range-end exclusive", 'range_end="exclusive"')]
        if self._reading == "whole days":
            return [Finding(check, "differs", "whole days are counted: the time of day is ignored")]
        return [Finding(check, "unknown", NOT_CONFIRMED if spans else NO_CLICK)]

    async def _spans_with_clicks(self) -> list[tuple[datetime, datetime]]:
        """Return days that are over and have clicks; a month where the service does not count days.

        Each is (start, end), the end not included.
        """
        spans: list[tuple[datetime, datetime]] = []
        yesterday = datetime.now(UTC).date() - DAY
        for month in (await self._months_with_clicks(yesterday)) if self._keys else []:
            first, last = date(*month, 1), min(last_day(month), yesterday)
            # A day more: a service that excludes the end of a range would hide the last second.
            counted = await self._range(first, last + DAY)
            if counted.days_complete:
                clicked = [day for day, clicks in counted.clicks.items() if clicks and day <= last]
                spans += [(midnight(day), midnight(day + DAY)) for day in clicked]
            elif counted.total:
                spans.append((midnight(first), midnight(last + DAY)))
            if len(spans) >= CLICKS:
                break
        return spans[:CLICKS]

    async def _months_with_clicks(self, before: date) -> list[Month]:
        """Return months that have clicks, the latest first; the last twelve if it does not say."""
        try:
            self._months = await self._alltime(None)
        except SlashtagError:
            latest = before.year * 12 + before.month - 1
            return [(n // 12, n % 12 + 1) for n in range(latest, latest - 2 * MONTHS, -1)]
        months = (month for month in self._months if date(*month, 1) <= before)
        return sorted(months, reverse=True)[: 2 * MONTHS]

    async def _check_zone_of_days(self) -> list[Finding]:
        """Ask for 25 hours before or after a click, in a zone where its date is another one."""
        check = "timezone, days"
        votes: list[Literal["zone", "UTC"]] = []
        if self._reading not in ("inclusive", "exclusive"):
            return [Finding(check, "unknown", "no click is known to the second")]
        for second in self._seconds:
            last = second if self._reading == "inclusive" else second + SECOND
            if second.hour >= 10:
                offset, local, start, end = "+14:00", second.date() + DAY, second - DAY - HOUR, last
            else:
                offset, local, start, end = "-11:00", second.date() - DAY, second, last + DAY + HOUR
            counted = await self._range(start, end, offset)
            if counted.days_complete:
                votes.append("zone" if counted.clicks.get(local) else "UTC")
        vote = agreed(votes)
        if vote is None:
            return [Finding(check, "unknown", NOT_CONFIRMED)]
        if vote == "zone":
            return [Finding(check, "ok", "days are those of the zone asked for")]
        return [Finding(check, "differs", "days ignore `timezone`: leave it out")]

    async def _check_zone_of_months(self) -> list[Finding]:
        """Compare all-time months in UTC and 14 hours ahead, where clicks had to move between months."""
        check, ahead = "timezone, months", timedelta(hours=14)
        if self._reading not in ("inclusive", "exclusive") or not self._months:
            return [Finding(check, "unknown", "no month with clicks is known")]
        moved = await self._alltime("+14:00")
        now = datetime.now(UTC)
        votes: list[Literal["zone", "UTC"]] = []
        over = sorted((month for month in self._months if month < (now.year, now.month)), reverse=True)
        for month in over[:MONTHS]:
            counted = self._months[month]
            edges = midnight(date(*month, 1)), midnight(last_day(month) + DAY)
            came, went = [
                await self._count(edge - ahead, edge if self._reading == "exclusive" else edge - SECOND)
                for edge in edges
            ]
            if came != went and moved.get(month, 0) in (counted, counted + came - went):
                votes.append("UTC" if moved.get(month, 0) == counted else "zone")
            if len(votes) == 2:
                break
        vote = agreed(votes)
        if vote is None:
            return [
                Finding(
                    check, "unknown", "fewer than two months have clicks near their ends that agree on it"
                )
            ]
        if vote == "zone":
            return [Finding(check, "ok", "all-time months are those of the zone asked for")]
        return [Finding(check, "differs", "all-time months ignore `timezone`: leave it out")]

    async def _check_latency(self) -> list[Finding]:
        times: list[float] = []
        for _ in range(TIMED):
            began = perf_counter()
            await self._session.urls.page(1, pagesize=1)
            times.append(1000 * (perf_counter() - began))
        found = f"median {median(times):.0f} ms, at most {max(times):.0f} ms, of {TIMED} requests"
        metrics = self._session.metrics
        limit = f"no request of {metrics.attempts} was refused"
        if metrics.throttled:
            limit = f"{metrics.throttled} of {metrics.attempts} requests were refused with 429"
        if metrics.learned_rate is not None:
            limit += f"; about {metrics.learned_rate:.3g} requests/s are allowed"
        limited = metrics.throttled or metrics.learned_rate is not None
        return [
            Finding("latency", "ok", found),
            Finding("rate limit", "differs" if limited else "ok", f"{limit}; the client adapts to a limit"),
        ]

    async def _range(
        self, start: date | datetime, end: date | datetime, offset: str | None = None
    ) -> RangeStats:
        return await self._session.stats.collect(DateRange(start, end), keys=self._keys, timezone=offset)

    async def _count(self, start: datetime, end: datetime) -> int:
        return (await self._range(start, end)).total

    async def _alltime(self, offset: str | None) -> dict[Month, int]:
        stats = await self._session.stats.collect(AllTime(), keys=self._keys, timezone=offset)
        return {month: clicks for month, clicks in flattened(stats.clicks_breakdown).items() if clicks}


def _most_clicked(urls: list[ShortUrl]) -> tuple[str, ...]:
    """Return slashtags of the links with the most hits, leaving out those that statistics cannot name."""
    chosen: dict[str, None] = {}
    for url in sorted(urls, key=lambda url: -url.hits):
        try:
            chosen[check_slashtag(url)] = None
        except InvalidRequestError:
            continue
        if len(chosen) == LINKS:
            break
    return tuple(chosen)
