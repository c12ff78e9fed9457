"""What a failure costs: the rest of a question, or only what failed where failures are told."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from slashtag import (
    AsyncSession,
    AuthenticationError,
    BadRequestError,
    Change,
    DateRange,
    Failure,
    InvalidRequestError,
    PeriodStats,
    RangeStats,
    RetryPolicy,
    ServerError,
    ShortUrl,
    Year,
)
from slashtag.sandbox import Fault
from tests.resources.accounts import YEARS, Account, client, serving, slowly
from tests.support.sending import turns


@pytest.mark.unmeasured
async def test_the_first_failure_cancels_the_rest_and_names_batch_and_window(account: Account) -> None:
    keys = [*account.keys[:150], "nobody-has-this"]
    async with account.serve(unknown_keys="error", latency=0.002) as box, client(box, concurrency=4) as api:
        with pytest.raises(BadRequestError) as caught:
            await api.stats.collect(YEARS, keys=keys)
        # What was sent before may still arrive.
        await turns(100)
        requests = len(box.requests)
        await asyncio.sleep(0.05)
        assert requests == len(box.requests) < 150
        assert api.metrics.in_flight == 0
    assert type(caught.value) is BadRequestError
    (note,) = caught.value.__notes__
    assert "slashtag 'nobody-has-this', 2023-" in note


@pytest.mark.parametrize("on_error", [None, list[Failure]().append])
async def test_wrong_credentials_are_raised_always(account: Account, on_error: Any) -> None:
    async with account.serve() as box, client(box, apikey="w" * 20) as api:
        with pytest.raises(AuthenticationError):
            await api.stats.collect(YEARS, keys=account.keys, on_error=on_error)
        with pytest.raises(AuthenticationError):
            async for _ in api.stats.collect_each(YEARS, keys=account.keys, on_error=on_error):
                pass
        assert len(box.requests) <= 64


async def test_failures_of_the_service_are_told_and_the_rest_goes_on(account: Account) -> None:
    failures: list[Failure] = []
    keys = account.keys[:200]
    async with account.serve() as box, client(box, concurrency=1) as api:
        quick = api.with_options(retry=RetryPolicy(max_attempts=1))
        # The batch, both halves and all quarters fail.
        box.faults = [Fault(kind="500", times=7)]
        stats = await quick.stats.collect(
            DateRange("2024-01-01", "2024-01-31"), keys=keys, on_error=failures.append
        )
        assert stats.total == box.truth.range("2024-01-01", "2024-01-31", keys=keys[100:]).total_clicks
    assert [key for failure in failures for key in failure.keys] == keys[:100]
    assert len(failures) == 4
    assert isinstance(failures[0].error, ServerError)


@pytest.mark.unmeasured
@pytest.mark.parametrize("query", [DateRange("2024-01-01", "2024-06-30"), Year(2024)], ids=["range", "year"])
@pytest.mark.parametrize("way", ["collect", "asynchronous", "parts"])
async def test_what_failed_is_requested_and_completes_the_sum(
    account: Account, way: str, query: DateRange | Year
) -> None:
    failures: list[Failure] = []
    again: list[Failure] = []
    keys = account.keys[:900]
    async with account.serve() as box, client(box, retry=RetryPolicy(max_attempts=1)) as api:
        whole = await api.stats.collect(query, keys=keys)
        box.faults = [Fault(kind="302", every=3)]
        if way == "parts":
            plans = api.stats.plan(query, keys=keys).split(5)
            part: Any = sum([await api.stats.run(plan, on_error=failures.append) for plan in plans])
        else:
            selected = slowly(keys) if way == "asynchronous" else keys
            part = await api.stats.collect(query, keys=selected, on_error=failures.append)
        assert 0 < part.missing == len(failures)
        assert not pickle.loads(pickle.dumps(part)).complete
        part = await api.stats.retry(part, pickle.loads(pickle.dumps(failures)), on_error=again.append)
        assert 0 < part.missing == len(again) < len(failures)
        box.faults = []
        sent = len(box.requests)
        part = await api.stats.retry(part, again)
        assert len(box.requests) == sent + len(again)
        assert part == whole
        assert part.complete


@pytest.mark.unmeasured
@pytest.mark.parametrize("query", [YEARS, DateRange("2024-02-01", "2024-02-20"), Year(2024)], ids=str)
@pytest.mark.parametrize("selects", ["slashtags", "tags"])
async def test_what_failed_of_results_by_slashtag_or_tag_is_added(
    account: Account, selects: str, query: DateRange | Year
) -> None:
    failures: list[Failure] = []
    async with account.serve() as box, client(box, retry=RetryPolicy(max_attempts=1)) as api:
        names: list[str] = account.keys[:8]
        if selects == "tags":
            names = [tag.name for tag in box.truth.tags()]
        which: Any = {"keys" if selects == "slashtags" else "tags": names}
        whole = {name: stats async for name, stats in api.stats.collect_each(query, **which)}
        box.faults = [Fault(kind="500", every=5)]
        partial = {
            name: stats
            async for name, stats in api.stats.collect_each(
                query, **which, inferred=False, on_error=failures.append
            )
        }
        again: list[Failure] = []
        before = partial.copy()
        more = await api.stats.retry(partial, pickle.loads(pickle.dumps(failures)), on_error=again.append)
        assert partial == before
        assert before.items() <= more.items() <= whole.items()
        box.faults = []
        assert await api.stats.retry(more, again) == whole
        plan = failures[0].plan
        assert plan is not None
        assert await api.stats.run(plan) == whole[(failures[0].keys or (failures[0].tag,))[0]]  # type: ignore[index]
    assert before.keys() < whole.keys()


@pytest.mark.parametrize("dimensions", [False, True])
@pytest.mark.parametrize("query", [YEARS, Year(2024)], ids=str)
async def test_what_failed_of_a_table_is_added(
    account: Account, query: DateRange | Year, dimensions: bool
) -> None:
    failures: list[Failure] = []
    links = [*account.keys[:8], ShortUrl(id=1, slashtag="a,b")]
    async with account.serve() as box, client(box, retry=RetryPolicy(max_attempts=1)) as api:
        whole = await api.stats.table(query, keys=account.keys[:8], dimensions=dimensions)
        box.faults = [Fault(kind="500", every=5)]
        partial = await api.stats.table(
            query, keys=links, dimensions=dimensions, inferred=False, on_error=failures.append
        )
        assert 1 < partial.missing == len(failures)
        rows = len(partial)
        box.faults = []
        table = await api.stats.retry(partial, failures)
        # What cannot be requested is missing still.
        assert (len(partial), table.missing, table.complete) == (rows, 1, False)
        assert [*table.rows()] == [*whole.rows()]


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize(
    "days", [("2011-12-30", "2012-02-03"), ("2011-11-20", "2011-12-30"), ("2011-12-28", "2011-12-31")]
)
async def test_what_failed_of_a_range_with_a_day_that_its_zone_skipped_is_added(
    days: tuple[str, str], inferred: bool
) -> None:
    """Samoa went from December 29 to December 31; the range may begin or end with the day between."""
    failures: list[Failure] = []
    query = DateRange(*days)
    options: dict[str, Any] = {"keys": [f"s{n}" for n in range(6)], "timezone": "Pacific/Apia"}
    async with serving(session={"retry": RetryPolicy(max_attempts=1)}) as (box, api):
        for n, key in enumerate(options["keys"]):
            box.add_url(key)
            box.add_click(key, "2011-12-30T09:30:00+00:00", times=n)
            box.add_click(key, "2011-12-30T10:30:00+00:00", times=n)
        whole = await api.stats.collect_each(query, **options).to_dict()
        assert sum(stats.total for stats in whole.values()) == 15 * (1 + (days[0] == "2011-12-28"))
        box.faults = [Fault(kind="500", every=2)]
        each = api.stats.collect_each(query, **options, inferred=inferred, on_error=failures.append)
        partial = await each.to_dict()
        box.faults = []
        assert failures
        assert await api.stats.retry(partial, failures) == whole


async def test_failures_of_another_result_are_an_error_and_nothing_is_sent(account: Account) -> None:
    failures: list[Failure] = []
    each: list[Failure] = []
    keys = account.keys[:4]
    async with account.serve() as box, client(box, retry=RetryPolicy(max_attempts=1)) as api:
        box.faults = [Fault(kind="400")]
        part = await api.stats.collect(YEARS, keys=keys, on_error=failures.append)
        results = {
            key: stats async for key, stats in api.stats.collect_each(YEARS, keys=keys, on_error=each.append)
        }
        table = await api.stats.table(YEARS, keys=keys, on_error=[].append)
        months = await api.stats.table(Year(2024), keys=keys, on_error=[].append)
        box.faults = []
        box.requests.clear()
        wrong: list[tuple[Any, list[Failure]]] = [
            (part, [*failures, failures[0]]),  # twice
            (part, [*pickle.loads(pickle.dumps(failures[:1])), *failures]),
            (RangeStats(), failures),  # of another sum, or of one that is whole already
            (PeriodStats(missing=100), failures),  # of another query
            ({}, failures),  # of a sum
            ({}, failures[:1]),
            (table, failures),
            (months, each),
            (table, [*each, *each]),
            ({keys[0]: RangeStats()}, each),  # which has one of them
            ({"other": PeriodStats()}, each),
            (sum(results.values(), RangeStats()), each),
        ]
        for partial, those in wrong:
            with pytest.raises(InvalidRequestError):
                await api.stats.retry(partial, those)
        with pytest.raises(TypeError):
            await api.stats.retry(failures, failures)  # type: ignore[call-overload]
        assert not box.requests
        # Without failures a result is what it was.
        assert await api.stats.retry(part, []) == part
        assert await api.stats.retry(results, []) == results
        assert await api.stats.retry(table, []) is table


async def test_a_slashtag_that_cannot_be_asked_for_leaves_a_sum_incomplete(account: Account) -> None:
    failures: list[Failure] = []
    links = [ShortUrl(id=n, slashtag=key) for n, key in enumerate([account.keys[0], "a,b", "c,d"])]
    async with account.serve() as box, client(box) as api:
        for stats in (
            await api.stats.collect(Year(2024), keys=links),
            await api.stats.collect(Year(2024), keys=slowly(links), on_error=failures.append),
            sum([await api.stats.run(part) for part in api.stats.plan(Year(2024), keys=links).split(3)]),
        ):
            assert (stats.missing, stats.complete) == (2, False)
        # Nor does that change: there is nothing to request.
        assert [failure.plan for failure in failures] == [None, None]
        assert await api.stats.retry(stats, failures) == stats


async def test_an_unknown_tag_is_told_and_the_others_are_counted(account: Account) -> None:
    failures: list[Failure] = []
    async with account.serve() as box, client(box) as api:
        name = box.truth.tags()[0].name
        stats = await api.stats.collect(Year(2024), tags=["nobody's", name], on_error=failures.append)
        assert stats.total == box.truth.year(2024, tag=name).clicks_total
    assert [failure.tag for failure in failures] == ["nobody's"]


async def total_of_each(api: AsyncSession, query: Year, **options: Any) -> int:
    return sum([stats.total async for _, stats in api.stats.collect_each(query, **options)])


async def total_of_sum(api: AsyncSession, query: Year, **options: Any) -> int:
    return (await api.stats.collect(query, **options)).total


TOTALS = pytest.mark.parametrize("total", [total_of_each, total_of_sum])


@pytest.mark.unmeasured
@TOTALS
async def test_asynchronous_slashtags_that_cannot_be_asked_for_are_told(
    account: Account, total: Callable[..., Coroutine[Any, Any, int]]
) -> None:
    keys = [*account.keys[:50], "a,b", "", *account.keys[50:60]]
    failures: list[Failure] = []
    async with account.serve() as box, client(box) as api:
        counted = await total(api, Year(2024), keys=slowly(keys), on_error=failures.append)
        assert counted == sum(box.truth.year(2024, keys=[key]).clicks_total for key in account.keys[:60])
        with pytest.raises(InvalidRequestError, match="comma"):
            await total(api, Year(2024), keys=slowly(keys))
        with pytest.raises(TypeError, match="slashtags or ShortUrls"):
            await total(api, Year(2024), keys=slowly([None]), on_error=failures.append)
    assert [(failure.label, type(failure.error)) for failure in failures] == [
        ("slashtag 'a,b'", InvalidRequestError),
        ("slashtag ''", InvalidRequestError),
    ]


@TOTALS
async def test_what_a_source_or_a_callback_raises_surfaces_as_itself(
    account: Account, total: Callable[..., Coroutine[Any, Any, int]]
) -> None:
    class Boom(Exception):
        pass

    async def source() -> AsyncIterator[str]:
        yield account.keys[0]
        raise Boom

    def fail(*_: object) -> None:
        raise Boom

    async with account.serve(unknown_keys="error") as box, client(box) as api:
        for options in (
            {"keys": source()},
            {"keys": account.keys[:5], "progress": fail},
            {"keys": ["nobody-has-this"], "on_error": fail},
        ):
            with pytest.raises(Boom):
                await total(api, Year(2024), **options)


async def test_a_cancelled_collect_leaves_nothing_under_way(account: Account) -> None:
    async with account.serve(latency=0.05) as box, client(box) as api:
        for keys in (account.keys, api.urls.list(pagesize=100)):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.12):
                    await api.stats.collect(YEARS, keys=keys)
            assert api.metrics.in_flight == 0
            assert api.metrics.waiting == 0


DAY = DateRange("2024-01-01", "2024-01-01")
CALLS: dict[str, Callable[[AsyncSession, Any], AsyncIterable[Any] | Coroutine[Any, Any, Any]]] = {
    "on_error": lambda api, call: api.stats.collect(YEARS, keys=["nobody"], on_error=call),
    "progress of each": lambda api, call: api.stats.collect_each(DAY, keys=api.urls.list(), progress=call),
    "progress of links": lambda api, call: api.urls.list(progress=call),
    "progress of changes": lambda api, call: api.urls.update_many([Change("nobody", "x://y")], progress=call),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_callback_that_would_have_to_be_awaited_is_refused(account: Account, call: Any) -> None:
    async def dropped(*_: object) -> None:
        raise AssertionError

    async def work(api: AsyncSession) -> None:
        made = call(api, dropped)
        _ = [item async for item in made] if isinstance(made, AsyncIterable) else await made

    async with account.serve(unknown_keys="error") as box, client(box) as api:
        with pytest.raises(TypeError, match="awaited"):
            await work(api)
        assert not box.requests
