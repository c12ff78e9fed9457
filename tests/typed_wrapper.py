"""A wrapper as an application writes it: mypy --strict and pyright --strict check it, nothing runs it.

It subclasses, annotates and uses every public name; tests/test_surface.py sees to that.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypedDict, TypeVar

import slashtag
from slashtag import (
    AllTime,
    APIError,
    AsyncSession,
    AuthenticationError,
    BadRequestError,
    Change,
    ClicksTable,
    ConfigurationError,
    CountryGeo,
    DateRange,
    Day,
    ExportError,
    Failure,
    GeoStats,
    InvalidRequestError,
    JournalError,
    Keys,
    LabelStats,
    Listing,
    Metrics,
    NotFoundError,
    OnError,
    OrderBy,
    Outcome,
    OutcomeUnknownError,
    Page,
    PageStream,
    PaginationError,
    PeriodStats,
    Plan,
    Progress,
    Query,
    QueueTimeoutError,
    RangeEnd,
    RangeStats,
    RateLimitError,
    RedirectCode,
    RequestFailedError,
    RequestTimeoutError,
    Results,
    RetryPolicy,
    ServerError,
    SessionClosedError,
    ShortUrl,
    SlashtagError,
    Statistics,
    Stats,
    StatsByTag,
    StatsRow,
    Tag,
    TagLimitError,
    Tags,
    TransportError,
    UnexpectedResponseError,
    UnknownTagError,
    Urls,
    Year,
    Zone,
    parse_zone,
    to_builtins,
)

R = TypeVar("R", bound=Statistics)
T = TypeVar("T")


class LinkError(SlashtagError):
    """An error of the application in the tree of the library's."""


class Link(TypedDict):
    """What an endpoint without a method answers."""

    id: int
    destination: str


class Session(AsyncSession):
    """A session with an option and an endpoint of its own."""

    def __init__(self, *, range_end: RangeEnd = "inclusive") -> None:
        super().__init__(range_end=range_end, retry=RetryPolicy(max_elapsed=5))

    async def create(self, destination: str, code: RedirectCode = 302) -> Link:
        body = {"destination": destination, "redirect_code": code}
        return await self.request("POST", "urls", json=body, params={"notify": True}, returns=Link)

    async def raw(self) -> object:
        found: object = await self.with_options(timeout=3).request("GET", "domains", params={"page": 1})
        return found


@dataclass
class Clicks:
    session: Session
    zone: Zone = None
    failures: list[Failure[RangeStats]] = field(default_factory=list[Failure[RangeStats]])

    async def quickly(self) -> Link:
        quick: Session = self.session.with_options(timeout=1)
        return await quick.create("https://example.com")

    def queries(self) -> list[Query[LabelStats]]:
        return [Year(2024), Day("2024-02-29"), AllTime(), DateRange("2024-01-01", date(2024, 6, 30))]

    async def any(self, query: Query, plan: Plan, tag: str) -> Statistics:
        return await (
            self.session.stats.run(plan) if tag == "" else self.session.stats.collect(query, tag=tag)
        )

    async def labels(self, recent: bool) -> dict[str, int]:
        query = Day("2024-02-29") if recent else Year(2024)
        stats = await self.session.stats.collect(query, tag="spring")
        return stats.country

    async def total(self, keys: Keys, on_error: OnError[RangeStats]) -> RangeStats:
        query = DateRange.last(30)
        stats = await self.session.stats.collect(query, keys=keys, timezone=self.zone, on_error=on_error)
        return await self.session.stats.retry(stats, self.failures)

    def each(self, stats: Stats, keys: Keys, progress: Progress) -> Results[tuple[str, PeriodStats]]:
        return stats.collect_each(Year(2024), keys=keys, progress=progress)

    async def places(self) -> tuple[GeoStats, date]:
        query = CountryGeo("US", "2024-01-01", "2024-06-30")
        return await self.session.stats.collect(query, tags=["spring"]), query.start

    async def planned(self, query: Query[R], keys: list[str]) -> R:
        plan: Plan[R] = self.session.stats.plan(query, keys=keys)
        first, *_ = plan.split(len(plan))
        return await self.session.stats.run(first)

    async def table(self, keys: Keys) -> ClicksTable:
        return await self.session.stats.table(Year(2024), keys=keys, timezone=self.zone)

    async def by_tag(self) -> RangeStats:
        found: StatsByTag[RangeStats] = await self.session.stats.by_tag(DateRange.last(7))
        return found.total

    def countries(self, stats: Statistics) -> list[StatsRow]:
        return [row for row in stats.rows() if row.dimension == "country"]

    def bounds(self, query: DateRange) -> tuple[date | datetime, date | datetime | None]:
        first, _ = query.resolve(parse_zone(self.zone), datetime.now()).bounds
        return first, query.end


async def copy_code(urls: Urls, source: ShortUrl, key: str) -> int:
    return await urls.update(key, redirect_code=source.redirect_code)


async def change_all(urls: Urls, changes: Iterable[Change]) -> list[Outcome]:
    return [each async for each in urls.update_many(changes) if each.status != "done"]


def listing(urls: Urls, order: OrderBy) -> tuple[Listing[ShortUrl], PageStream[ShortUrl]]:
    links = urls.list(orderby=order)
    return links, links.pages()


async def names(tags: Tags) -> AsyncIterator[str]:
    first: Page[Tag] = await tags.page(1)
    for tag in first.items:
        yield tag.name or ""


def numbers(metrics: Metrics) -> dict[str, float | None]:
    return metrics.to_dict() | {"left": metrics.paused_for, "code": len(slashtag.__version__)}


def status_of(error: SlashtagError) -> int:
    match error:
        case RateLimitError(retry_after=seconds) | QueueTimeoutError(retry_after=seconds):
            return 503 if seconds else 429
        case RequestTimeoutError() | TransportError() | ServerError() | UnexpectedResponseError():
            return 504 if isinstance(error, RequestTimeoutError) else 502
        case NotFoundError() | UnknownTagError() | BadRequestError() | TagLimitError():
            return error.status
        case AuthenticationError() | APIError() | OutcomeUnknownError() | RequestFailedError():
            return 500 if error.request_id is None else len(error.headers)
        case ConfigurationError() | InvalidRequestError() | SessionClosedError() | PaginationError():
            return 500
        case JournalError() | ExportError() | _:
            return 500


async def guarded(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    except SlashtagError as error:
        raise LinkError(to_builtins({"status": status_of(error)})) from error
