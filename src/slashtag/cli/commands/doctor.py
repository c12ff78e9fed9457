"""`slashtag doctor`: how the service behaves where its document leaves it open.

A reading of the service is reported only if two independent places in the click history agree on it;
otherwise the finding is "unknown". Only GETs are sent, one after the other.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal, NamedTuple, TypeVar

from typer import Option

from ... import (
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
from ..._internal import MAX_PAGESIZE, check_slashtag, flattened, last_day, midnight
from ...export import Column, Table
from ..options import Connection, command
from ..output import Output

Reading = Literal["inclusive", "exclusive", "unclear"]
#: Returns the clicks from one second to another, both sent as they are.
Count = Callable[[datetime, datetime], Awaitable[int]]
T = TypeVar("T")

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3_600, 86_400))

#: Waits for a rate limit, but does not spend minutes on a service that is down.
RETRY = RetryPolicy(max_attempts=3, max_wait=10.0)
#: Links with the most hits, whose clicks are counted together unless --keys names others.
LINKS = 20
#: Pages of this size are compared with one large page.
SMALL_PAGE = 10
#: Months searched for days with clicks, and days searched for clicks.
MONTHS, DAYS = 12, 4
NOT_CONFIRMED = "fewer than two clicks on days that are over agree on it; name links with more by --keys"


class Finding(NamedTuple):
    """Result of one check."""

    check: str
    result: Literal["ok", "differs", "unknown", "failed"]
    found: str


FINDINGS = Table(tuple(map(Column, Finding._fields)))
ENDS: dict[Reading, Finding] = {
    "inclusive": Finding("range end", "ok", "inclusive: the last second of a range is counted"),
    "exclusive": Finding(
        "range end",
        "differs",
        "exclusive: the last second of a range is not counted; use --range-end exclusive, in Python "
        'range_end="exclusive"',
    ),
    "unclear": Finding("range end", "unknown", NOT_CONFIRMED),
}
ZONE_OBEYED = Finding("timezone", "ok", "days are those of the zone asked for")
ZONE_IGNORED = Finding("timezone", "differs", "days ignore `timezone`: leave it out")


@command
async def diagnose(
    connection: Connection,
    output: Output,
    keys: Annotated[
        str | None,
        Option(metavar="A,B,...", help="Links with clicks to ask about; default: those with the most hits."),
    ] = None,
) -> None:
    """Find out how the service behaves where its document leaves it open, and which options to use.

    Sends about 100 read requests, one after the other. Exit code 1 if the credentials are refused, 3 if a
    check failed.
    """
    chosen_keys = tuple(key.strip() for key in (keys or "").split(",") if key.strip())
    async with connection.session() as session:
        with output.writer(FINDINGS) as writer, connection.bars() as start:
            report = start("checking")
            async for finding in Doctor(session, chosen_keys).examine():
                connection.left_out |= finding.result == "failed"
                writer.write([finding])
                report(session.metrics.requests, None)
    connection.say(connection.cost())


class Doctor:
    """Series of checks of one service; `examine` yields each finding as it is known."""

    def __init__(self, session: AsyncSession, keys: tuple[str, ...] = ()) -> None:
        self._session = session.with_options(retry=RETRY)
        self._keys = keys
        #: Seconds with a click, and how ends of ranges are read if two of them agree on it.
        self._seconds: list[datetime] = []
        self._reading: Reading = "unclear"

    async def examine(self) -> AsyncIterator[Finding]:
        """Yield the findings; raises AuthenticationError, and what keeps the first request from an answer."""
        oldest = await self._session.urls.page(1, pagesize=MAX_PAGESIZE, orderby="date")
        yield Finding("credentials", "ok", "accepted")
        tags = await self._session.tags.page(1, pagesize=MAX_PAGESIZE)
        sizes = {"links": oldest.page_size, "tags": tags.page_size}
        lowered = [f"{size} {name}" for name, size in sizes.items() if size != MAX_PAGESIZE]
        found = f"up to {MAX_PAGESIZE} a page, as documented"
        if lowered:
            found = f"at most {' and '.join(lowered)} a page instead of {MAX_PAGESIZE}; listings adapt to it"
        yield Finding("page size", "differs" if lowered else "ok", found)
        if not self._keys:
            newest = await self._session.urls.page(1, pagesize=MAX_PAGESIZE, orderby="-date")
            self._keys = _most_clicked(oldest.items + newest.items)
        for name, check in (
            ("paging", self._check_paging),
            ("range end", self._check_range_end),
            ("timezone", self._check_timezone),
        ):
            try:
                finding = await check()
            except AuthenticationError:
                raise
            except SlashtagError as error:
                finding = Finding(name, "failed", str(error))
            yield finding

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
        spans = await self._days_with_clicks()
        readings: dict[datetime, Reading] = {}
        # What is left of a span is searched after the other spans, so that days differ where they can.
        for low, high in spans:
            second = await first_second(self._count, low, high)
            if second is None:
                continue
            spans.append((second + SECOND, high))
            reading = await read_end(self._count, second)
            if reading != "unclear":
                readings[second] = reading
            if len(readings) == 2 or len(spans) == 2 * DAYS:
                break
        self._seconds, self._reading = list(readings), agreed(list(readings.values())) or "unclear"
        return ENDS[self._reading]

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
        days: list[Finding] = []
        for second in self._seconds if self._reading != "unclear" else []:
            last = second if self._reading == "inclusive" else second + SECOND
            if second.hour >= 10:
                offset, local, start, end = "+14:00", second.date() + DAY, second - DAY - HOUR, last
            else:
                offset, local, start, end = "-11:00", second.date() - DAY, second, last + DAY + HOUR
            counted = await self._range(start, end, offset)
            if counted.days_complete:
                days.append(ZONE_OBEYED if counted.clicks.get(local) else ZONE_IGNORED)
        return agreed(days) or Finding("timezone", "unknown", NOT_CONFIRMED)

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


async def first_second(count: Count, low: datetime, high: datetime) -> datetime | None:
    """Return the first second with a click from `low` to before `high`, None if there is none.

    Takes about 2 + log2(seconds between) requests.
    """
    end = high + SECOND
    most = await count(low, end)
    if most <= await count(high, end):
        return None
    while high - low > SECOND:
        middle = low + (high - low) // SECOND // 2 * SECOND
        if await count(middle, end) < most:
            high = middle
        else:
            low = middle
    return low


async def read_end(count: Count, second: datetime) -> Reading:
    """Tell how ends are read from two ways of cutting a range at a second with clicks.

    Where ends are included, the whole range is "up to the second" plus "from the next second"; where they
    are not, "up to the second" plus "from the second". The two differ in nothing but the clicks of that
    second, so other clicks do not matter, however many there are. A service that counts whole days includes
    the last second.
    """
    start, end = second - MINUTE, second + MINUTE
    whole, until = await count(start, end), await count(start, second)
    since, following = await count(second, end), await count(second + SECOND, end)
    if until + since == whole > until + following:
        return "exclusive"
    if until + since > whole == until + following:
        return "inclusive"
    return "unclear"


def agreed(votes: Sequence[T]) -> T | None:
    """Return the vote that at least two places gave and none contradicted."""
    return votes[0] if len(votes) >= 2 and len(set(votes)) == 1 else None
