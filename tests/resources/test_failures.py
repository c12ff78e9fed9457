"""What a failure costs: the rest of a question, or only what failed where failures are told."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from slashtag import (
    AsyncSession,
    AuthenticationError,
    Change,
    DateRange,
    Failure,
    ShortUrl,
    Year,
)
from tests.resources.accounts import YEARS, Account, client, slowly


@pytest.mark.parametrize("on_error", [None, list[Failure]().append])
async def test_wrong_credentials_are_raised_always(account: Account, on_error: Any) -> None:
    async with account.serve() as box, client(box, apikey="w" * 20) as api:
        with pytest.raises(AuthenticationError):
            await api.stats.collect(YEARS, keys=account.keys, on_error=on_error)
        with pytest.raises(AuthenticationError):
            async for _ in api.stats.collect_each(YEARS, keys=account.keys, on_error=on_error):
                pass
        assert len(box.requests) <= 64


async def test_a_slashtag_that_cannot_be_asked_for_leaves_a_sum_incomplete(
    account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    failures = list[Failure]()
    links = [ShortUrl(id=n, slashtag=key) for n, key in enumerate([account.keys[0], "a,b", "c,d"])]
    async with account.serve() as box, client(box, name="shop") as api:
        for stats in (
            await api.stats.collect(Year(2024), keys=links),
            await api.stats.collect(Year(2024), keys=slowly(links), on_error=failures.append),
            sum([await api.stats.run(part) for part in api.stats.plan(Year(2024), keys=links).split(3)]),
        ):
            assert (stats.missing, stats.complete) == (2, False)
        assert "shop: " in caplog.text
        assert "'a,b'" in caplog.text
        assert [failure.keys for failure in failures] == [("a,b",), ("c,d",)]
        # Nor does that change: there is nothing to request.
        assert await api.stats.retry(stats, failures) == stats


async def total_of_each(api: AsyncSession, query: Year, **options: Any) -> int:
    return sum([stats.total async for _, stats in api.stats.collect_each(query, **options)])


async def total_of_sum(api: AsyncSession, query: Year, **options: Any) -> int:
    return (await api.stats.collect(query, **options)).total


TOTALS = pytest.mark.parametrize("total", [total_of_each, total_of_sum])


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


DAY = DateRange("2024-01-01", "2024-01-01")
CALLS: dict[str, Callable[[AsyncSession, Any], AsyncIterable[Any] | Coroutine[Any, Any, Any]]] = {
    "on_error": lambda api, call: api.stats.collect(YEARS, keys=["nobody"], on_error=call),
    "progress of each": lambda api, call: api.stats.collect_each(DAY, keys=api.urls.list(), progress=call),
    "progress of links": lambda api, call: api.urls.list(progress=call),
    "progress of changes": lambda api, call: api.urls.update_many([Change("nobody", "x://y")], progress=call),
    "after a change": lambda api, call: api.urls.update_many([Change("nobody", "x://y")], after=call),
    "by tag": lambda api, call: api.stats.by_tag(DAY, on_error=call),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_callback_that_cannot_be_called_or_would_have_to_be_awaited_is_refused(
    account: Account, call: Any
) -> None:
    async def dropped(*_: object) -> None:
        raise AssertionError

    async def work(api: AsyncSession, wrong: object) -> None:
        made = call(api, wrong)
        _ = [item async for item in made] if isinstance(made, AsyncIterable) else await made

    async with account.serve(unknown_keys="error") as box, client(box) as api:
        for wrong in (dropped, []):
            with pytest.raises(TypeError):
                await work(api, wrong)
        assert not box.requests
