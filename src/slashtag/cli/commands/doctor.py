"""`slashtag doctor`: how the service behaves where its document leaves it open.

What the click history does not show is "unknown". Only GETs are sent.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta

from ... import AllTime, AsyncSession, DateRange, RetryPolicy, SlashtagError
from ...tables import Row
from ..output import OutputOptions, table_of
from ..run import Run, command

#: Returns the clicks from one second to another, both sent as they are.
CountBetween = Callable[[datetime, datetime], Awaitable[int]]

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
#: Waits for a rate limit, but does not spend minutes on a service that is down.
RETRY = RetryPolicy(max_attempts=3, max_wait=10.0)
#: Links with the most hits, of the oldest, whose clicks are counted together.
MOST_COUNTED = 20
#: The most that a page may hold. See docs/service.md, Limits.
PAGE_SIZE = 500
#: Days of the click history that are read, and days with clicks among them that are searched for clicks.
HISTORY, MOST_SEARCHED = timedelta(days=365), 4

FINDINGS = table_of(("check", "result", "found"))
#: A result, "ok", "differs", "unknown" or "failed", and what was found.
Finding = tuple[str, str]
INCLUSIVE = "ok", "inclusive: the last second of a range is counted"
EXCLUSIVE = (
    "differs",
    "exclusive: the last second of a range is not counted; `slashtag login --set range_end=exclusive`, in "
    'Python range_end="exclusive"',
)
ZONE_OBEYED = "ok", "days are those of the zone asked for"
ZONE_IGNORED = "differs", "days ignore `timezone`: leave it out"
UNKNOWN = "unknown", "the oldest links have not enough clicks to tell"


@command
async def diagnose(run: Run, output: OutputOptions) -> None:
    """Find out how the service behaves where its document leaves it open, and which settings to use.

    Sends about 35 read requests. Exit code 1 if the credentials are refused, 3 if a check failed.
    """
    rows: list[Row] = []
    async with run.session() as session:
        with run.bars() as start_bar:
            advance = start_bar("checking", "requests")
            async for check, (result, found) in examine(session.with_options(retry=RETRY)):
                if result == "failed":
                    run.is_incomplete = True
                rows.append((check, result, found))
                advance(session.metrics.requests, None)
    run.say(output.print(FINDINGS, rows) + run.cost())


async def examine(session: AsyncSession) -> AsyncIterator[tuple[str, Finding]]:
    """Yield the findings by check; raises what keeps the first requests from an answer."""
    oldest = await session.urls.page(1, pagesize=PAGE_SIZE, orderby="date")
    yield "credentials", ("ok", "accepted")
    size = oldest.page_size
    lowered = "differs", f"at most {size} a page instead of {PAGE_SIZE}; listings adapt to it"
    yield "page size", lowered if size < PAGE_SIZE else ("ok", f"up to {PAGE_SIZE} a page, as documented")
    links = sorted(oldest.items, key=lambda url: -(url.hits or 0))
    # A slashtag with a comma cannot be requested.
    keys = [url.slashtag for url in links if url.slashtag and "," not in url.slashtag][:MOST_COUNTED]
    days: list[date] = []
    for name, check in CHECKS.items():
        try:
            days = days or await days_with_clicks(session, keys)
            yield name, await check(session, keys, days) or UNKNOWN
        except SlashtagError as error:
            yield name, ("failed", str(error))


async def check_range_end(session: AsyncSession, keys: Sequence[str], days: Sequence[date]) -> Finding | None:
    """Read how ends of ranges are treated at the first click of a day."""

    async def count(start: datetime, end: datetime) -> int:
        return (await session.stats.collect(DateRange(start, end), keys=keys)).total

    for day in days:
        if (found := await read_end(count, _midnight(day), _midnight(day + DAY))) is not None:
            return found
    return None


async def read_end(count: CountBetween, start: datetime, end: datetime) -> Finding | None:
    """Return how ends are read, from the first click of a span; None if that is unclear.

    The shortest range from `start` on that counts it ends at its second if ends are included, else a second
    later, where the following range has lost it. A service that counts whole days includes the last second.
    Takes about 3 + log2(seconds of the span) requests.
    """
    whole = await count(start, end)
    if not whole:
        return None
    too_short, last = start - SECOND, end
    while last - too_short > SECOND:
        middle = too_short + (last - too_short) // SECOND // 2 * SECOND
        if await count(start, middle):
            last = middle
        else:
            too_short = middle
    until, since = await count(start, last), await count(last, end)
    if since == whole:
        return INCLUSIVE
    return EXCLUSIVE if until + since == whole else None


async def check_timezone(session: AsyncSession, keys: Sequence[str], days: Sequence[date]) -> Finding | None:
    """Check whether the clicks of a UTC day get the dates of the zone asked for."""
    if not days:
        return None
    day, is_other = days[0], False
    for zone, first, other in (("+13:00", day - DAY, day + DAY), ("-11:00", day, day - DAY)):
        # Two days, as an answer for one may come without `clicks`.
        span = DateRange(_midnight(first), _midnight(first + 2 * DAY) - SECOND)
        clicks = (await session.stats.collect(span, keys=keys, timezone=zone)).clicks
        is_other |= bool(clicks.get(other))
    # In one of the two zones any click has another date than in UTC.
    return ZONE_OBEYED if is_other else ZONE_IGNORED


#: Each is called with the session, the slashtags and the latest days on which they have clicks.
CHECKS = {"range end": check_range_end, "timezone": check_timezone}


async def days_with_clicks(session: AsyncSession, keys: Sequence[str]) -> list[date]:
    """Return the latest days that are over and have clicks."""
    ever = (await session.stats.collect(AllTime(), keys=keys)).clicks_breakdown
    active = [(year, month) for year, months in ever.items() for month, n in months.items() if n]
    if not active:
        return []
    last = min(DateRange.parse("{:04}-{:02}".format(*max(active))).bounds[1], datetime.now(UTC).date() - DAY)
    # A day more: a service that excludes the end of a range would hide the last second.
    stats = await session.stats.collect(DateRange(last - HISTORY, last + DAY), keys=keys)
    return sorted((day for day, n in stats.clicks.items() if n and day <= last), reverse=True)[:MOST_SEARCHED]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
