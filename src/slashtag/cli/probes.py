"""Single questions to the service, asked to learn how it behaves, and what follows from the answers."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
from msgspec import UNSET

from .. import AsyncSession, BadRequestError, Call, NotFoundError, RetryPolicy, UnexpectedResponseError
from .._core.payloads import PeriodAnswer, RangeAnswer
from .._core.split import Month, flattened, midnight
from .._core.tally import breakdown_of
from .._core.throttle.headers import rate_hint

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
#: Enough for a limit, not so much that a service out of order takes minutes.
PATIENCE = RetryPolicy(max_attempts=3, max_wait=10.0)
#: Counts the clicks of a range as the service does, its ends as they are sent.
Count = Callable[[datetime, datetime], Awaitable[int]]
Reading = Literal["inclusive", "exclusive", "days", "unclear"]


class Observer:
    """Note the time and the encoding of every answer that a session gets, whatever it waited before.

    `stated` is the limit in requests/s, where headers tell a number of requests and a window for them.
    """

    def __init__(self, session: AsyncSession) -> None:
        self.seconds: list[float] = []
        self.encodings: set[str] = set()
        self.stated: float | None = None
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._began)
        trace.on_request_end.append(self._ended)
        trace.freeze()
        session._wiring.http().trace_configs.append(trace)

    async def _began(self, _: object, context: SimpleNamespace, __: object) -> None:
        context.began = perf_counter()

    async def _ended(self, _: object, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
        hint = rate_hint(end.response.headers)
        if hint is not None and hint.limit and hint.window:
            self.stated = hint.limit / hint.window
        if end.response.status == 200:
            self.seconds.append(perf_counter() - context.began)
            self.encodings.add(end.response.headers.get("Content-Encoding", "identity"))


@dataclass(frozen=True)
class Prober:
    """Ask for the statistics of some links, one request at a time and as it is."""

    session: AsyncSession
    keys: tuple[str, ...]

    async def _send(self, path: str, returns: type[Any], *params: tuple[str, str]) -> Any:
        selector = ("url_keys", ",".join(self.keys))
        return await self.session.send(
            Call(method="GET", path=path, params=(selector, *params), returns=returns, label=path)
        )

    async def range(self, start: datetime, end: datetime, offset: str | None = None) -> RangeAnswer:
        """Ask for a range."""
        params = [("date_range", f"{start.isoformat()},{end.isoformat()}")]
        if offset is not None:
            params.append(("timezone", offset))
        answer: RangeAnswer = await self._send("stats", RangeAnswer, *params)
        return answer

    async def count(self, start: datetime, end: datetime) -> int:
        """Count the clicks of a range."""
        return (await self.range(start, end)).total_clicks

    async def day(self, day: date) -> RangeAnswer:
        """Ask for one day."""
        answer: RangeAnswer = await self._send("stats", RangeAnswer, ("date", f"{day}T00:00:00+00:00"))
        return answer

    async def period(self, path: str, **params: str) -> PeriodAnswer | None:
        """Ask for a year or for all time; None where this path does not answer that."""
        try:
            answer: PeriodAnswer = await self._send(path, PeriodAnswer, *params.items())
        except (NotFoundError, BadRequestError, UnexpectedResponseError):
            return None
        return answer


def days_of(answer: RangeAnswer) -> dict[date, int] | None:
    """Return the days with clicks that an answer bears, None where it bears no days at all."""
    if answer.clicks is UNSET:
        return None
    days = answer.clicks
    return {day: n for day, n in days.items() if n} if isinstance(days, dict) else {}


def months_of(answer: PeriodAnswer) -> dict[Month, int]:
    """Return the months with clicks of an answer."""
    return {month: n for month, n in flattened(breakdown_of(answer)).items() if n}


def start_of(month: Month) -> datetime:
    """Return the first instant of a month."""
    return midnight(date(*month, 1))


def after(month: Month) -> Month:
    """Return the next month."""
    return (month[0] + month[1] // 12, month[1] % 12 + 1)


async def first_end(count: Count, start: datetime, low: datetime, high: datetime) -> datetime | None:
    """Return the first end, after `low` and up to `high`, with which a range from `start` has clicks.

    None where there is none. It takes about 2 + log2(seconds between) requests.
    """
    if not await count(start, high):
        return None
    seconds = int((high - low).total_seconds())
    none, some = 0, seconds
    while some - none > 1:
        middle = (none + some) // 2
        if await count(start, low + middle * SECOND):
            some = middle
        else:
            none = middle
    return low + some * SECOND


async def read_end(count: Count, end: datetime) -> Reading:
    """Tell how the end of a range is read, by the first end with which a range has clicks.

    Where the end counts, those clicks are of that second, otherwise of the second before. "days": the time
    of day is not heeded.
    """
    until, since = await count(end - SECOND, end), await count(end, end + SECOND)
    both = await count(end - SECOND, end + SECOND)
    if not until or both not in (since, since + until):
        return "unclear"
    if both != since:
        return "exclusive"
    noon = end + DAY / 2
    if end == midnight(end) and await count(noon, noon + SECOND) == since:
        return "days"
    return "inclusive"


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which a share of the values lie, the nearest that occurs."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
