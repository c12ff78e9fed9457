"""What is asked about: slashtags and tags from anywhere, in requests that the service can take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from slashtag import (
    AsyncSession,
    CountryGeo,
    DateRange,
    Failure,
    GeoStats,
    InvalidRequestError,
    PeriodStats,
    ShortUrl,
    Year,
)
from tests.resources.accounts import END, START, YEARS, Account, client, counts, scripted, slowly

SPAN = "2024-01-01", "2024-03-31"


def collectors(api: AsyncSession, query: Any = YEARS, **selector: Any) -> Iterator[Callable[[], Any]]:
    async def collect() -> Any:
        return await api.stats.collect(query, **selector)

    async def each() -> Any:
        return [item async for item in api.stats.collect_each(query, **selector)]

    yield collect
    yield each
    yield lambda: asyncio.sleep(0, api.stats.plan(query, **selector))


WRONG: dict[type[Exception], list[dict[str, Any]]] = {
    TypeError: [
        *({}, {"keys": ["a"], "tag": "t"}, {"keys": ["a"], "tags": ["t"]}, {"tag": "t", "tags": ["t"]}),
        *({"keys": "abc"}, {"keys": b"abc"}, {"tags": "abc"}, {"keys": ["a", 5]}),
    ],
    InvalidRequestError: [
        *({"keys": ["a", key]} for key in ("b,c", "", "https://a.b", "a\n", "\ra", "\ud800", "x" * 8_000)),
        *({"tag": tag} for tag in (5, "", "\ud800")),
        *({"tags": ["t", tag]} for tag in (None, "")),
        *({"keys": ["a"], "timezone": zone} for zone in ("Europe/Nowhere", 2)),
    ],
}


@pytest.mark.parametrize("error", WRONG)
async def test_a_wrong_selector_is_refused_before_anything_is_sent(error: type[Exception]) -> None:
    async with scripted(()) as (server, api):
        for selector in WRONG[error]:
            for collect in collectors(api, **selector):
                with pytest.raises(error):
                    await collect()
        assert server.requests == []


@pytest.mark.parametrize("keys", [[], set(), iter(())])
async def test_no_slashtags_give_empty_statistics_without_a_request(keys: Any) -> None:
    async with scripted(()) as (_, api):
        stats = await api.stats.collect(YEARS, keys=keys)
        assert (stats.total, len(stats.clicks)) == (0, 1096)
        assert await api.stats.collect(Year(2024), tags=[]) == PeriodStats()
        assert await api.stats.collect(CountryGeo("US", START, END), keys=[]) == GeoStats()
        assert await api.stats.collect(YEARS, keys=slowly([])) == stats
        for given in (keys, slowly([])):
            assert [item async for item in api.stats.collect_each(YEARS, keys=given)] == []


async def test_slashtags_may_come_from_anywhere_and_count_once(account: Account) -> None:
    keys = account.keys[:150]
    # That of a data frame has no truth value.
    column: Any = type("Column", (tuple,), dict.fromkeys(["__bool__", "__eq__"]))
    async with account.serve() as box, client(box) as api:
        truth = counts(box.truth.range(*SPAN, keys=keys))
        links = [ShortUrl(id=n, slashtag=key) for n, key in enumerate(keys)]
        for given in (column(keys), keys + keys[:70], iter(keys), set(keys), links, dict.fromkeys(keys)):
            assert counts(await api.stats.collect(DateRange(*SPAN), keys=given)) == truth
        for given in (slowly(keys), slowly(links + links)):
            box.requests.clear()
            assert counts(await api.stats.collect(DateRange(*SPAN), keys=given)) == truth
            assert len(box.requests) == 6


async def test_a_day_that_a_zone_left_out_has_no_clicks_and_costs_no_request() -> None:
    zone, day = ZoneInfo("Pacific/Apia"), "2011-12-30"
    async with scripted(()) as (_, api):
        assert (await api.stats.collect(DateRange(day, day), keys=["a"], timezone=zone)).total == 0
        assert (await api.stats.collect(DateRange(day, day), keys=slowly(["a"]), timezone=zone)).total == 0
        each = api.stats.collect_each(DateRange(day, day), keys=["a"], timezone=zone)
        assert [(key, stats.total) async for key, stats in each] == [("a", 0)]


# --- long targets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", [None, list[Failure]().append])
async def test_a_414_halves_the_batch(account: Account, on_error: Any) -> None:
    keys = account.keys[:100]
    progress = list[tuple[int, int | None]]()
    async with account.serve(max_target=900) as box, client(box) as api:
        stats = await api.stats.collect(
            DateRange(*SPAN),
            keys=keys,
            on_error=on_error,
            progress=lambda *done: progress.append(done),
        )
        assert counts(stats) == counts(box.truth.range(*SPAN, keys=keys))
        answered = sum(arrival.status == 200 for arrival in box.requests)
        assert answered < len(box.requests) < 2 * answered
    assert progress[-1] == (answered, answered)


@pytest.mark.parametrize("query", ["2024-01-01", Year, None, 2024])
async def test_only_a_query_is_a_query(query: Any) -> None:
    async with scripted(()) as (_, api):
        for keys in (["a"], slowly(["a"])):
            for collect in collectors(api, query, keys=keys):
                with pytest.raises(InvalidRequestError):
                    await collect()
