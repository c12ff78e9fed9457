"""What `collect` sends to a service that refuses some batches, or all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slashtag import AsyncSession, DateRange, Failure, SlashtagError, UnknownTagError, Year
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import serving, slowly

DAYS = DateRange("2024-01-01", "2024-03-31")
MOST = 64


@pytest.mark.parametrize("status", [400, 403, 404, 413, 414])
@pytest.mark.parametrize("concurrency", [1, 100])
@pytest.mark.parametrize("query", [DAYS, Year(2024)], ids=["range", "year"])
async def test_a_service_that_refuses_all_is_soon_left_alone(
    status: int, concurrency: int, query: DateRange | Year
) -> None:
    keys = [f"k{n}" for n in range(2_000)]
    options = {"concurrency": concurrency}
    # A 404 is requested once more, and then from the path of the document's samples.
    most = 3 * MOST if status == 404 else MOST
    async with serving(faults=[Fault(kind=str(status))], session=options) as (box, api):
        with pytest.raises(SlashtagError) as told:
            await api.stats.collect(query, keys=keys)
        assert len(box.requests) <= most
        assert told.value.__notes__
        box.requests.clear()
        failures: list[Failure] = []
        progress: list[int] = []
        stats: Any = await api.stats.collect(
            query, keys=slowly(keys), on_error=failures.append, progress=lambda done, _: progress.append(done)
        )
        assert len(box.requests) <= most
        assert not stats.complete
        # Each is told once, and can be retried.
        missing = [key for failure in failures for key in failure.keys]
        assert len(missing) == len({*missing}) * (3 if query is DAYS else 1) == sum(map(slices, failures))
        assert {*missing} == {*keys}
        assert stats.missing == len(failures)
        box.faults = []
        whole: Any = await api.stats.retry(stats, failures)
        assert whole.complete


def slices(failure: Failure) -> int:
    assert failure.plan is not None
    return len(failure.plan._selectors[0].keys) * len(failure.plan)


def faulty(box: Sandbox, good: int, *, clicked: int) -> list[str]:
    keys = [f"k{n}" for n in range(good)]
    for key in keys:
        box.add_url(key)
    for key in keys[::clicked]:
        box.add_click(key, "2024-01-05")
    return keys


async def missing_of(api: AsyncSession, keys: list[str]) -> tuple[int, set[str]]:
    failures: list[Failure] = []
    stats = await api.stats.collect(
        DateRange("2024-01-01", "2024-01-31"), keys=keys, on_error=failures.append
    )
    return stats.total, {key for failure in failures for key in failure.keys}


@pytest.mark.unmeasured
@pytest.mark.parametrize("concurrency", [1, 32])
@pytest.mark.parametrize(
    ("good", "bad", "where"),
    [
        (1_999, 1, "anywhere"),
        (1_990, 10, "anywhere"),
        (1_980, 20, "one a batch"),
        (1_900, 100, "a whole batch"),
        (99, 1, "first"),
        (90, 10, "every tenth"),
        (50, 50, "every second"),
    ],
)
async def test_slashtags_at_fault_cost_themselves_only(
    concurrency: int, good: int, bad: int, where: str
) -> None:
    async with serving(unknown_keys="error", session={"concurrency": concurrency}) as (box, api):
        keys, wrong = faulty(box, good, clicked=10), [f"bad{n}" for n in range(bad)]
        mixed = [*wrong, *keys]
        if where == "anywhere":
            random.Random(bad).shuffle(mixed)
        elif where != "a whole batch" and bad > 1:
            size = good // bad
            mixed = [key for n in range(bad) for key in (*keys[n * size : (n + 1) * size], wrong[n])]
        clicks, missing = await missing_of(api, mixed)
        assert (clicks, missing) == (len(keys[::10]), {*wrong})
        with pytest.raises(SlashtagError, match="bad"):
            await api.stats.collect(DAYS, keys=mixed)


async def test_tags_that_do_not_exist_say_nothing_about_others() -> None:
    async with serving(urls=20, clicks=200, tags=1) as (box, api):
        names = [*(f"unknown {n}" for n in range(60)), *(tag.name for tag in box.truth.tags())]
        failures: list[Failure] = []
        stats = await api.stats.collect(Year(2024), tags=names, on_error=failures.append)
        assert {type(failure.error) for failure in failures} == {UnknownTagError}
        assert len(failures) == 60
        assert stats.total == (await api.stats.collect(Year(2024), tags=names[-1:])).total


async def test_failures_of_another_kind_do_not_end_a_run() -> None:
    keys = [f"k{n}" for n in range(2_000)]
    async with serving(faults=[Fault(kind="302", times=15)]) as (box, api):
        failures: list[Failure] = []
        stats = await api.stats.collect(Year(2024), keys=keys, on_error=failures.append)
        assert stats.missing == len(failures) == 15
        assert len(box.requests) == 20
