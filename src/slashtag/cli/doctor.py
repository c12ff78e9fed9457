"""What `slashtag doctor` checks: how the service behaves where its document leaves it open.

A reading of the service is reported only if two independent places in the click history agree on it;
otherwise the finding is "unknown". Only GETs are sent, one after the other.
"""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from statistics import median
from time import perf_counter
from typing import Literal, NamedTuple

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
from .._internal import MAX_PAGESIZE, check_slashtag, flattened, last_day, midnight
from .range_end import DAY, HOUR, SECOND, Reading, agreed, first_second, read_end

#: Waits for a rate limit, but does not spend minutes on a service that is down.
RETRY = RetryPolicy(max_attempts=3, max_wait=10.0)
#: Links with the most hits, whose clicks are counted together unless --keys names others.
LINKS = 20
#: Pages of this size are compared with one large page.
SMALL_PAGE = 10
#: Months searched for days with clicks, days searched for clicks, and requests timed.
MONTHS, DAYS, TIMED = 12, 4, 10
NOT_CONFIRMED = "fewer than two clicks on days that are over agree on it; name links with more by --keys"


class Finding(NamedTuple):
    """Result of one check, with the option to use on the command line and the argument in Python."""

    check: str
    result: Literal["ok", "differs", "unknown", "failed"]
    found: str
    option: str | None = None
    argument: str | None = None


class Doctor:
    """Series of checks of one service; `examine` yields each finding as it is known."""

    def __init__(self, session: AsyncSession, keys: tuple[str, ...] = ()) -> None:
        self._session = session.with_options(retry=RETRY)
        self._keys = keys
        #: Seconds with a click that agreed on the reading of range ends.
        self._seconds: list[datetime] = []
        self._reading: Reading = "unclear"

    async def examine(self) -> AsyncIterator[Finding]:
        """Yield the findings; raises AuthenticationError, and what keeps the first request from an answer."""
        for finding in await self._check_credentials():
            yield finding
        for name, check in (
            ("paging", self._check_paging),
            ("range end", self._check_range_end),
            ("timezone", self._check_timezone),
            ("latency", self._check_latency),
            ("rate limit", self._check_rate_limit),
        ):
            try:
                finding = await check()
            except AuthenticationError:
                raise
            except SlashtagError as error:
                finding = Finding(name, "failed", str(error))
            yield finding

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

    async def _check_paging(self) -> Finding:
        """Compare the links on small pages with those on a large one."""
        urls, check = self._session.urls, "paging"
        try:
            large = await urls.list(pagesize=MAX_PAGESIZE).to_list(limit=3 * SMALL_PAGE)
            small = await urls.list(pagesize=SMALL_PAGE).to_list(limit=3 * SMALL_PAGE)
            # Past the first large page, where a service that lowers page sizes in silence shows it.
            await urls.list(pagesize=MAX_PAGESIZE).to_list(limit=MAX_PAGESIZE + 1)
        except PaginationError as error:
            return Finding(check, "differs", f"listings fail, as pages cannot be told apart: {error}")
        if [url.id for url in small] == [url.id for url in large]:
            return Finding(check, "ok", "pages of different sizes list the same links")
        sizes = f"pages of {SMALL_PAGE} and of {MAX_PAGESIZE}"
        return Finding(check, "differs", f"{sizes} list different links: listings may be incomplete")

    async def _check_range_end(self) -> Finding:
        check = "range end"
        spans = await self._days_with_clicks()
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
            if len(readings) == 2 or len(spans) == 2 * DAYS:
                break
        self._reading = agreed(readings) or "unclear"
        if self._reading == "inclusive":
            return Finding(check, "ok", "inclusive: the last second of a range is counted")
        if self._reading == "exclusive":
            found = "exclusive: the last second of a range is not counted"
            return Finding(check, "differs", found, "--range-end exclusive", 'range_end="exclusive"')
        return Finding(check, "unknown", NOT_CONFIRMED)

    async def _days_with_clicks(self) -> list[tuple[datetime, datetime]]:
        """Return the start and end of days that are over and have clicks, the end not included."""
        found: list[tuple[datetime, datetime]] = []
        if not self._keys:
            return found
        ever = await self._session.stats.collect(AllTime(), keys=self._keys)
        months = sorted((month for month, n in flattened(ever.clicks_breakdown).items() if n), reverse=True)
        yesterday = datetime.now(UTC).date() - DAY
        for month in months[:MONTHS]:
            first, last = date(*month, 1), min(last_day(month), yesterday)
            # A day more: a service that excludes the end of a range would hide the last second.
            clicks = (await self._range(first, last + DAY)).clicks if first <= last else {}
            days = [day for day, n in clicks.items() if n and day <= last]
            found += [(midnight(day), midnight(day + DAY)) for day in days]
            if len(found) >= DAYS:
                break
        return found[:DAYS]

    async def _check_timezone(self) -> Finding:
        """Ask for 25 hours before or after a click, in a zone where its date is another one."""
        check = "timezone"
        days: list[Literal["asked", "UTC"]] = []
        for second in self._seconds if self._reading != "unclear" else []:
            last = second if self._reading == "inclusive" else second + SECOND
            if second.hour >= 10:
                offset, local, start, end = "+14:00", second.date() + DAY, second - DAY - HOUR, last
            else:
                offset, local, start, end = "-11:00", second.date() - DAY, second, last + DAY + HOUR
            counted = await self._range(start, end, offset)
            if counted.days_complete:
                days.append("asked" if counted.clicks.get(local) else "UTC")
        match agreed(days):
            case "asked":
                return Finding(check, "ok", "days are those of the zone asked for")
            case "UTC":
                return Finding(check, "differs", "days ignore `timezone`: leave it out")
            case _:
                return Finding(check, "unknown", NOT_CONFIRMED)

    async def _check_latency(self) -> Finding:
        times: list[float] = []
        for _ in range(TIMED):
            began = perf_counter()
            await self._session.urls.page(1, pagesize=1)
            times.append(1000 * (perf_counter() - began))
        found = f"median {median(times):.0f} ms, at most {max(times):.0f} ms, of {TIMED} requests"
        return Finding("latency", "ok", found)

    async def _check_rate_limit(self) -> Finding:
        metrics = self._session.metrics
        found = f"{metrics.throttled} of {metrics.attempts} requests were refused with 429"
        if metrics.learned_rate is not None:
            found += f"; about {metrics.learned_rate:.3g} requests/s are allowed"
        limited = metrics.throttled or metrics.learned_rate is not None
        return Finding("rate limit", "differs" if limited else "ok", f"{found}; the client adapts to a limit")

    async def _range(
        self, start: date | datetime, end: date | datetime, offset: str | None = None
    ) -> RangeStats:
        return await self._session.stats.collect(DateRange(start, end), keys=self._keys, timezone=offset)

    async def _count(self, start: datetime, end: datetime) -> int:
        return (await self._range(start, end)).total


def _most_clicked(urls: list[ShortUrl]) -> tuple[str, ...]:
    """Return slashtags of the links with the most hits, leaving out those that statistics cannot name."""
    chosen: dict[str, None] = {}
    for url in sorted(urls, key=lambda url: -url.hits):
        try:
            chosen[check_slashtag(url)] = None
        except InvalidRequestError:
            continue
    return tuple(chosen)[:LINKS]
