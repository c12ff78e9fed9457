"""What `collect` sends where some of it fails: slashtags at fault cost themselves only."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from slashtag import (
    AsyncSession,
    DateRange,
    Failure,
    InvalidRequestError,
    RetryPolicy,
    SlashtagError,
    UnknownTagError,
    Year,
)
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import client, serving, slowly
from tests.support.sandboxes import altered, refused_links

DAYS = DateRange("2024-01-01", "2024-03-31")
HALF_YEAR = DateRange("2024-01-01", "2024-06-30")
ONCE = RetryPolicy(max_attempts=1)
#: Statuses of a refusal, and of other failures.
STATUSES = [404, 500]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("concurrency", [1, 100])
@pytest.mark.parametrize("query", [DAYS, Year(2024)], ids=["range", "year"])
async def test_a_service_that_answers_nothing_gets_at_most_100_requests(
    status: int, concurrency: int, query: DateRange | Year, caplog: pytest.LogCaptureFixture
) -> None:
    keys = [f"k{n}" for n in range(1_000)]
    policy = RetryPolicy(max_attempts=1, max_elapsed=0.5)
    options = {"concurrency": concurrency, "retry": policy, "name": "shop"}
    async with serving(faults=[Fault(kind=str(status))], session=options) as (box, api):
        with pytest.raises(SlashtagError) as told:
            await api.stats.collect(query, keys=keys)
        assert told.value.__notes__
        assert told.value.session == "shop"
        failures = list[Failure]()
        progress = list[tuple[int, int | None]]()
        box.requests.clear()
        stats: Any = await api.stats.collect(
            query, keys=slowly(keys), on_error=failures.append, progress=lambda *step: progress.append(step)
        )
        # Of 100 that are under way at once the first all fail.
        assert len(box.requests) <= max(100, 50 + concurrency)
        # Each is told once, with all its days.
        plans = [(failure.keys, failure.plan) for failure in failures if failure.plan is not None]
        missing = Counter((key, part) for of, plan in plans for key in of for part in plan.split(len(plan)))
        assert len(missing) == len(keys) * (3 if query is DAYS else 1)
        assert set(missing.values()) == {1}
        assert stats.missing == sum(len(failure.plan or ()) for failure in failures)
        assert progress[-1][0] == progress[-1][1]
        # That is an outage, unless they are refused.
        assert [record.session for record in caplog.records][:1] == ["shop"] * (status == 500)
        box.faults = []
        # Another session: this one may wait for the end of an outage.
        async with client(box) as other:
            assert (await other.stats.retry(stats, failures)).complete


@pytest.mark.parametrize(("status", "concurrency"), [(400, 1), (400, 32), (500, 1), (500, 32)])
@pytest.mark.parametrize(
    ("good", "bad", "where"),
    [
        (1_999, 1, "anywhere"),
        (1_980, 20, "one a batch"),
        (1_900, 100, "at the beginning"),
        (70, 30, "at the beginning"),
        (200, 100, "in the middle"),
        (99, 1, "first"),
        (50, 50, "every second"),
    ],
)
async def test_slashtags_at_fault_cost_themselves_only(
    concurrency: int, good: int, bad: int, where: str, status: int
) -> None:
    session = {"concurrency": concurrency, "retry": RetryPolicy(max_attempts=2, backoff_base=0.001)}
    async with serving(session=session) as (box, api):
        keys, wrong = [f"k{n}" for n in range(good)], [f"bad{n}" for n in range(bad)]
        for key in keys[::10]:
            box.add_click(box.add_url(key), "2024-01-05")
        mixed = [*wrong, *keys]
        if where == "anywhere":
            random.Random(bad).shuffle(mixed)
        elif where == "in the middle":
            mixed = [*keys[:100], *wrong, *keys[100:]]
        elif where != "at the beginning" and bad > 1:
            size = good // bad
            mixed = [key for n in range(bad) for key in (*keys[n * size : (n + 1) * size], wrong[n])]
        with refused_links(box, {*wrong}, status):
            failures = list[Failure]()
            stats = await api.stats.collect(DAYS, keys=mixed, on_error=failures.append)
            missing = Counter(key for failure in failures for key in failure.keys)
            assert (stats.total, missing) == (len(keys[::10]), Counter(wrong))
            assert stats.missing == sum(len(failure.plan or ()) for failure in failures)
            with pytest.raises(SlashtagError, match="bad" if status == 400 else None):
                await api.stats.collect(DAYS, keys=mixed)


async def test_a_slashtag_that_always_fails_is_asked_alone_in_the_rest_of_the_run() -> None:
    policy = RetryPolicy(max_attempts=4, backoff_base=0.001, backoff_cap=0.001)
    async with serving(session={"retry": policy, "concurrency": 4}) as (box, api):
        keys = [f"k{n}" for n in range(200)]
        for key in keys:
            box.add_click(box.add_url(key), "2024-01-05")
        with refused_links(box, {"k17"}, 500):
            failures = list[Failure]()
            stats = await api.stats.collect(HALF_YEAR, keys=keys, on_error=failures.append)
        assert [failure.keys for failure in failures] == [("k17",)]
        assert (stats.total, stats.missing, len(failures[0].plan or ())) == (199, 6, 6)
        # The batch and itself with all attempts; once each in the four windows begun at first: the halves,
        # and in the others itself. Twice twelve windows without it.
        asked = [arrival for arrival in box.requests if arrival.path != "/api/v1/tags"]
        assert len(asked) <= 12 + 4 * (4 + 2 * 7) + 4 + 6
        assert (await api.stats.retry(stats, failures)).total == 200


async def test_slashtags_of_a_batch_that_failed_and_are_answered_again_have_all_attempts() -> None:
    policy = RetryPolicy(max_attempts=3, backoff_base=0.001, max_elapsed=5)
    async with serving(session={"concurrency": 1, "retry": policy}) as (box, api):
        for key in "ab":
            box.add_click(box.add_url(key), "2024-03-05")
        asked = set[str]()

        def fail(arrival: Any, answered: Any) -> Any:
            """Fail the batch in the first window always, and whatever else is asked once."""
            window, keys = arrival.query["date_range"], arrival.query["url_keys"]
            is_bad = window + keys not in asked or ("," in keys and window[:7] == "2024-01")
            asked.add(window + keys)
            return msgspec.structs.replace(answered, status=500, data=[]) if is_bad else answered

        failures = list[Failure]()
        with altered(box, fail):
            stats = await api.stats.collect(DAYS, keys=["a", "b"], on_error=failures.append)
    # Three attempts of the batch, two of its halves, and of the batch in each of the other windows.
    assert (stats.total, failures, len(box.requests)) == (2, [], 3 + 2 * 2 + 2 * 2)


async def test_where_failures_are_not_told_no_part_of_a_batch_that_fails_is_sent() -> None:
    async with serving(session={"retry": ONCE}) as (box, api):
        with refused_links(box, {"k17"}, 500), pytest.raises(SlashtagError):
            await api.stats.collect(Year(2024), keys=[f"k{n}" for n in range(50)])
        assert len(box.requests) == 1


async def test_tags_that_do_not_exist_say_nothing_about_others() -> None:
    async with serving(urls=20, clicks=200, tags=1) as (box, api):
        names = [*(f"unknown {n}" for n in range(120)), *(tag.name for tag in box.truth.tags())]
        failures = list[Failure]()
        stats = await api.stats.collect(Year(2024), tags=names, on_error=failures.append)
        assert {type(failure.error) for failure in failures} == {UnknownTagError}
        assert len(failures) == 120
        assert stats.total == (await api.stats.collect(Year(2024), tags=names[-1:])).total


async def partial_sum(box: Sandbox, api: AsyncSession) -> tuple[Any, list[Failure]]:
    for key in ("a", "b", "c"):
        box.add_click(box.add_url(key), "2024-01-05")
    failures = list[Failure]()
    with refused_links(box, {"b", "c"}, 400):
        stats = await api.stats.collect(DAYS, keys=["a", "b", "c"], on_error=failures.append)
    return stats, failures


async def test_retry_adds_what_was_missing_and_nothing_twice() -> None:
    async with serving() as (box, api):
        stats, failures = await partial_sum(box, api)
        assert (stats.total, stats.missing, len(failures)) == (1, 6, 2)
        box.requests.clear()
        again = list[Failure]()
        with refused_links(box, {"c"}, 400):
            better = await api.stats.retry(stats, [*failures, failures[0]], on_error=again.append)
        assert (better.total, better.missing, [failure.keys for failure in again]) == (2, 3, [("c",)])
        whole = await api.stats.retry(better, again)
        assert (whole.total, whole.complete) == (3, True)
        assert whole == await api.stats.collect(DAYS, keys=["a", "b", "c"])


async def test_failures_of_another_result_are_refused_before_anything_is_sent() -> None:
    async with serving() as (box, api):
        stats, failures = await partial_sum(box, api)
        year = await api.stats.collect(Year(2024), keys=["a"])
        box.requests.clear()
        for other in (year, await api.stats.collect(DAYS, keys=[]), {"a": stats}, None):
            with pytest.raises(InvalidRequestError):
                await api.stats.retry(other, failures)  # type: ignore[type-var]
        # Nor is one that lacks less: some were retried before.
        with pytest.raises(InvalidRequestError):
            await api.stats.retry(stats, [*failures, Failure("x", InvalidRequestError("x"))])
        assert not box.requests
