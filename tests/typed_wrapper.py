"""A wrapper as an application writes it: mypy --strict and pyright --strict check it, nothing runs it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeVar

from slashtag import (
    AllTime,
    APIError,
    AsyncSession,
    Change,
    CountryGeo,
    DateRange,
    Day,
    Failure,
    GeoStats,
    Keys,
    Listing,
    OnError,
    Outcome,
    Page,
    PeriodStats,
    Plan,
    Progress,
    Query,
    QueueTimeoutError,
    RangeStats,
    RateLimitError,
    Results,
    RetryPolicy,
    ShortUrl,
    SlashtagError,
    Statistics,
    Tag,
    Year,
    Zone,
    parse_zone,
)

R = TypeVar("R", bound=Statistics)
T = TypeVar("T")


class Session(AsyncSession):
    """A session with an option and an endpoint of its own."""

    def __init__(self, *, concurrency: int = 8) -> None:
        super().__init__(concurrency=concurrency, retry=RetryPolicy(max_elapsed=5))

    async def create(self, destination: str) -> dict[str, Any]:
        body = {"destination": destination}
        found: dict[str, Any] = await self.request("POST", "urls", json=body, params={"notify": True})
        return found


@dataclass
class Clicks:
    session: Session
    zone: Zone = None
    failures: list[Failure[RangeStats]] = field(default_factory=list[Failure[RangeStats]])

    async def quickly(self) -> dict[str, Any]:
        quick: Session = self.session.with_options(timeout=1)
        return await quick.create("https://example.com")

    async def any(self, query: Query, plan: Plan, tag: str) -> Statistics:
        return await (
            self.session.stats.run(plan) if tag == "" else self.session.stats.collect(query, tag=tag)
        )

    async def total(self, keys: Keys, on_error: OnError[RangeStats]) -> RangeStats:
        query = DateRange.last(30)
        stats = await self.session.stats.collect(query, keys=keys, timezone=self.zone, on_error=on_error)
        return await self.session.stats.retry(stats, self.failures)

    def each(self, keys: Keys, progress: Progress) -> Results[tuple[str, RangeStats]]:
        return self.session.stats.collect_each(DateRange.last(7), keys=keys, progress=progress)

    async def either(self, is_year: bool) -> tuple[PeriodStats, PeriodStats, Statistics]:
        stats = self.session.stats
        year, ever = await stats.collect(Year(2024), tag="a"), await stats.collect(AllTime(), tag="a")
        return year, ever, await stats.collect(Year(2024) if is_year else Day("2024-01-01"), keys=["a"])

    async def places(self) -> GeoStats:
        query = CountryGeo("US", "2024-01-01", "2024-06-30")
        return await self.session.stats.collect(query, tags=["spring"])

    async def planned(self, query: Query[R], keys: list[str]) -> R:
        plan: Plan[R] = self.session.stats.plan(query, keys=keys)
        first, *_ = plan.split(len(plan))
        return await self.session.stats.run(first)

    async def by_tag(self) -> dict[str | None, dict[str, int]]:
        found = await self.session.stats.by_tag(DateRange.last(7))
        return {tag: stats.country for tag, stats in found.items()}

    def bounds(self, query: DateRange) -> tuple[date | datetime, date | datetime]:
        first, last = query.resolve(parse_zone(self.zone), datetime.now()).bounds
        return first, last

    async def copy_code(self, source: ShortUrl, key: str) -> int:
        return await self.session.urls.update(key, redirect_code=source.redirect_code)

    async def change_all(self, changes: Iterable[Change]) -> list[Outcome]:
        return [each async for each in self.session.urls.update_many(changes) if each.status != "done"]

    def listing(self) -> Listing[ShortUrl]:
        return self.session.urls.list(orderby="-date")

    async def tags(self) -> list[str]:
        first: Page[Tag] = await self.session.tags.page(1)
        return [tag.name or "" for tag in first.items]


def status_of(error: SlashtagError) -> int:
    match error:
        case RateLimitError(retry_after=seconds) | QueueTimeoutError(retry_after=seconds):
            return 503 if seconds else 429
        case APIError():
            return error.status
        case _:
            return 500


async def guarded(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    except SlashtagError as error:
        raise RuntimeError(status_of(error)) from error
