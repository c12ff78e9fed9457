"""One answer a slashtag or tag: equal to the truth of each, as it is known, and some may fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from slashtag import (
    AllTime,
    BadRequestError,
    CountryGeo,
    DateRange,
    Day,
    Failure,
    RangeStats,
    RetryPolicy,
    ShortUrl,
    UnknownTagError,
    Year,
)
from slashtag.sandbox import Fault
from tests.resources.accounts import (
    END,
    START,
    YEARS,
    Account,
    client,
    counts,
    period,
    places,
    scripted,
    serving,
)
from tests.support import wire
from tests.support.sandboxes import refused_links
from tests.support.sending import turns, until_idle

MAY = Day("2024-05-05")
MARCH = DateRange("2024-03-01", "2024-03-31")
SPRING = DateRange("2024-03-01", "2024-05-31")
ONCE = RetryPolicy(max_attempts=1, max_elapsed=0.5)


async def gather(each: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in each]


# --- the truth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
async def test_tags_each_equal_the_truth(account: Account, ordered: bool) -> None:
    async with account.serve() as box, client(box) as api:
        names = [tag.name for tag in box.truth.tags()[:6]]
        answers = await gather(api.stats.collect_each(Year(2024), tags=[*names, *names], ordered=ordered))
        assert {name: period(stats) for name, stats in answers} == {
            name: period(box.truth.year(2024, tag=name)) for name in names
        }
        assert len(answers) == len(names)
        if ordered:
            assert [name for name, _ in answers] == names
        ((_, stats),) = await gather(api.stats.collect_each(YEARS, tag=names[0]))
        assert counts(stats) == counts(box.truth.range(START, END, tag=names[0]))
        with pytest.raises(UnknownTagError):
            await gather(api.stats.collect_each(YEARS, tags=[*names, "nobody's"]))


async def test_years_all_time_and_countries_are_asked_once_a_slashtag(account: Account) -> None:
    keys = account.keys[5:10]
    async with account.serve(places=10_000) as box, client(box) as api:
        years = await api.stats.collect_each(Year(2024), keys=keys).to_dict()
        times = await api.stats.collect_each(AllTime(), keys=keys, timezone="-03:30").to_dict()
        lands = await api.stats.collect_each(CountryGeo("US", START, END), keys=keys).to_dict()
        assert len(box.requests) == 15
        for key in keys:
            truth = box.truth.year(2024, keys=[key])
            assert period(years[key]) == period(truth)
            assert (years[key].clicks_unique, years[key].unique_is_exact) == (truth.clicks_unique, True)
            assert period(times[key]) == period(box.truth.alltime(keys=[key], timezone="-03:30"))
            assert places(lands[key]) == places(box.truth.range(START, END, country="US", keys=[key]))


@pytest.mark.parametrize("inferred", [False, True])
async def test_ordered_keeps_the_order_asked_and_passes_over_what_failed(inferred: bool) -> None:
    async with serving(latency=0.003) as (box, api):
        keys = [f"s{n}" for n in range(110)]
        for n, key in enumerate(keys):
            box.add_url(key)
            box.add_click(key, f"2024-0{n % 3 + 3}-01T00:00:00", times=n % 3 + 1)
        with refused_links(box, {"s0", "s17", "s109"}, 400):
            each = api.stats.collect_each(
                SPRING, keys=keys, ordered=True, inferred=inferred, on_error=lambda _: None
            )
            answers = [(key, stats.total) async for key, stats in each]
    assert answers == [(f"s{n}", n % 3 + 1) for n in range(110) if n not in (0, 17, 109)]


async def test_fresh_statistics_pass_caches() -> None:
    async with scripted(wire.ok({"total_clicks": 0})) as (server, api):
        await api.stats.collect(MAY, keys=["a"], fresh=True)
        assert all("no-cache" in request.headers["cache-control"] for request in server.requests)
        await api.stats.collect(MAY, keys=["a"])
        assert "cache-control" not in server.requests[-1].headers


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("status", [404, 500])
async def test_slashtags_at_fault_are_told_once_and_cost_themselves_only(
    account: Account, inferred: bool, status: int
) -> None:
    keys = account.keys[:150]
    wrong = {keys[37], keys[38], keys[149]}
    failures = list[Failure]()
    told = list[tuple[int, int | None]]()
    policy = RetryPolicy(max_attempts=3, backoff_base=0.001, backoff_cap=0.002)
    async with account.serve() as box, client(box, retry=policy) as api:
        with refused_links(box, wrong, status):
            each = api.stats.collect_each(
                SPRING,
                keys=keys,
                inferred=inferred,
                on_error=failures.append,
                progress=lambda *done: told.append(done),
            )
            answers = await each.to_dict()
        rest = [key for key in keys if key not in wrong]
        truth = box.truth.range(SPRING.start, SPRING.end, keys=rest)
        requests = len(box.requests)
        assert {key for failure in failures for key in failure.keys} == wrong
        assert len(failures) == 3
        # What the failures are of can be requested.
        for failure in failures:
            assert failure.plan is not None
            assert len(failure.plan) == 3
    assert sorted(answers) == sorted(rest)
    assert counts(RangeStats.merge(answers.values())) == counts(truth)
    assert requests < 150 * 3 + 30
    assert told == [(n, 450) for n in range(1, 451)]


async def test_the_first_failure_ends_the_iterator_and_names_slashtag_and_window(account: Account) -> None:
    keys = [*account.keys[:40], "nobody-has-this", *account.keys[40:60]]
    async with account.serve(unknown_keys="error") as box, client(box, concurrency=3) as api:
        each = api.stats.collect_each(MARCH, keys=keys)
        with pytest.raises(BadRequestError) as caught:
            await gather(each)
        assert "slashtag 'nobody-has-this', 2024-03-01..2024-03-31" in "".join(caught.value.__notes__)
        # What was sent before may still arrive.
        await turns(100)
        requests = len(box.requests)
        assert [item async for item in each] == []
        await asyncio.sleep(0.05)
        assert requests == len(box.requests) < 50
        assert api.metrics.in_flight == 0


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("status", ["403", "500"])
async def test_a_service_that_answers_nothing_gets_at_most_100_requests(inferred: bool, status: str) -> None:
    keys = [f"s{n}" for n in range(2_000)]
    async with serving(faults=[Fault(kind=status)], session={"retry": ONCE}) as (box, api):
        failures = list[Failure]()
        each = api.stats.collect_each(SPRING, keys=keys, inferred=inferred, on_error=failures.append)
        assert await gather(each) == []
        assert len(box.requests) <= 100
    missing = Counter(key for failure in failures for key in failure.keys)
    assert missing == Counter(keys)
    assert all(len(failure.plan or ()) == 3 for failure in failures)


@pytest.mark.parametrize("inferred", [False, True])
async def test_nothing_that_was_delivered_is_told_as_failed(inferred: bool) -> None:
    # After some answers nothing is answered any more.
    served = set[str]()

    def answer(request: wire.Request) -> wire.Answer:
        if len(served) >= 105:
            return wire.envelope(400, "No.", None)
        served.update(request.query["url_keys"][0].split(","))
        return wire.ok({"total_clicks": 0})

    failures = list[Failure]()
    async with scripted(answer, concurrency=1, retry=ONCE) as (_, api):
        keys = [f"s{n}" for n in range(1_000)]
        found = await api.stats.collect_each(
            MAY, keys=keys, inferred=inferred, on_error=failures.append
        ).to_dict()
    told = Counter(key for failure in failures for key in failure.keys)
    assert told + Counter([*found]) == Counter(keys)


# --- results as they are known -----------------------------------------------------------------------


async def test_what_is_not_inferred_is_delivered_link_by_link(account: Account) -> None:
    async with account.serve() as box, client(box, concurrency=2) as api:
        query = DateRange("2024-01-01", "2024-02-29")
        async with api.stats.collect_each(query, keys=account.keys[:100], inferred=False) as each:
            await anext(each)
            # Two windows, and what was under way meanwhile.
            assert len(box.requests) < 20


@pytest.mark.parametrize("count", [1_000, 5_000])
@pytest.mark.parametrize("hits", [True, False])
async def test_a_tenth_of_the_results_is_there_after_a_quarter_of_the_requests(
    count: int, hits: bool
) -> None:
    clicked = {f"s{n * 7 % count}" for n in range(count // 20)}
    links = [ShortUrl(id=n, slashtag=f"s{n}", hits=int(f"s{n}" in clicked)) for n in range(count)]

    def answer(request: wire.Request) -> wire.Answer:
        total = sum(key in clicked for key in request.query["url_keys"][0].split(","))
        return wire.ok({"total_clicks": total, "country": {"US": total}})

    async with scripted(answer) as (server, api):
        at = list[int]()
        told = list[int]()
        keys: list[Any] = [*links] if hits else [link.slashtag for link in links]
        each = api.stats.collect_each(MAY, keys=keys, progress=lambda *_: told.append(len(server.requests)))
        async for key, stats in each:
            assert stats.total == int(key in clicked)
            at.append(len(server.requests))
    assert len(at) == count
    assert at[count // 10] <= at[-1] / 4
    assert len(set(told)) > 5


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("inferred", [False, True])
async def test_results_do_not_pile_up_before_a_slow_consumer(
    account: Account, ordered: bool, inferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag._resources.collect_each.MOST", 1)
    async with account.serve() as box, client(box, concurrency=4) as api:
        each = api.stats.collect_each(MAY, keys=account.keys[:600], ordered=ordered, inferred=inferred)
        async with each:
            await anext(each)
            await until_idle(api)
            # 64 results may wait; two groups of 100 are known besides.
            assert len(box.requests) <= 400
            assert len([item async for item in each]) == 600 - 1
