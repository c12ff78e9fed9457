"""Yearly and all-time statistics: the stated path first, the samples' path on a 404, and what was learnt."""

from __future__ import annotations

import asyncio

import pytest

from slashtag import (
    AllTime,
    BadRequestError,
    NotFoundError,
    PeriodStats,
    RetryPolicy,
    UnknownTagError,
    Year,
)
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import Account, client, period, scripted
from tests.support import wire

STATED = {"year": "/api/v1/stats/yearly", "all": "/api/v1/stats/alltime"}
SAMPLES = "/api/v1/stats"
PERIOD = {"clicks_total": 2, "clicks_unique": 1, "clicks_repeated": 1, "clicks_breakdown": {"2024": {"5": 2}}}


def paths(server: Sandbox | wire.Wire) -> list[str]:
    return [request.path for request in server.requests]


async def test_a_404_leads_to_the_path_of_the_samples_which_is_remembered(account: Account) -> None:
    keys = account.keys[:10]
    async with account.serve(paths="samples") as box, client(box) as api:
        for _ in range(3):
            year = await api.stats.collect(Year(2024), keys=keys, timezone="+02:00")
            every = await api.stats.collect(AllTime(), keys=keys, timezone="+02:00")
        # Each of the two paths is learnt for itself.
        assert paths(box) == [STATED["year"], SAMPLES, STATED["all"], *[SAMPLES] * 5]
        assert period(year) == period(box.truth.year(2024, keys=keys, timezone="+02:00"))
        assert period(every) == period(box.truth.alltime(keys=keys, timezone="+02:00"))
        # A view of the session knows it too.
        box.requests.clear()
        await api.with_options(timeout=5).stats.collect(Year(2023), keys=keys)
        assert paths(box) == [SAMPLES]


async def test_without_either_path_the_404_is_raised_and_remembered(account: Account) -> None:
    # /stats answers "Date is required" here: it does not read these questions.
    async with account.serve() as box, client(box) as api:
        box.faults = [Fault(kind="404", path="/api/v1/stats/*")]
        for _ in range(2):
            with pytest.raises(NotFoundError) as caught:
                await api.stats.collect(Year(2024), keys=["a"])
            assert caught.value.path == "stats/yearly"
            assert [note.endswith("slashtag 'a', year 2024") for note in caught.value.__notes__] == [True]
        assert paths(box) == [STATED["year"], SAMPLES, STATED["year"]]
        # A path that comes back is found.
        box.faults = []
        assert isinstance(await api.stats.collect(Year(2024), keys=["a"]), PeriodStats)


async def test_a_router_that_does_not_know_the_path_need_not_answer_as_the_service_does() -> None:
    def script(request: wire.Request) -> wire.Answer:
        return wire.ok(PERIOD) if request.path == SAMPLES else wire.html(404)

    async with scripted(script, retry=RetryPolicy(max_attempts=3, backoff_base=0.001)) as (server, api):
        for _ in range(2):
            assert (await api.stats.collect(Year(2024), tag="spring")).total == 2
        assert paths(server)[-2:] == [SAMPLES, SAMPLES]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("Bad request. Tag does not exists.", UnknownTagError),
        ("Bad request. URL key does not exist: save-the-date", BadRequestError),
    ],
)
async def test_a_refusal_for_another_reason_shows_that_the_path_is_read(
    message: str, error: type[Exception]
) -> None:
    script = [wire.envelope(404, "Not found.", []), wire.envelope(400, message, []), wire.ok(PERIOD)]
    async with scripted(script) as (server, api):
        with pytest.raises(error):
            await api.stats.collect(Year(2024), tag="spring")
        assert (await api.stats.collect(Year(2024), tag="summer")).total == 2
        assert paths(server) == [STATED["year"], SAMPLES, SAMPLES]


async def test_a_question_whose_404_comes_after_another_has_learnt_the_path_is_answered() -> None:
    learnt = asyncio.Event()

    async def script(request: wire.Request) -> wire.Answer:
        if request.path == SAMPLES:
            learnt.set()
            return wire.ok(PERIOD)
        if request.query["tag"] == ["late"]:
            await learnt.wait()
        return wire.envelope(404, "Not found.", [])

    async with scripted(script) as (_, api):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(api.stats.collect(AllTime(), tag=tag)) for tag in ("late", "spring")]
        assert [task.result().total for task in tasks] == [2, 2]
