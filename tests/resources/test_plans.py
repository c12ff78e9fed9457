"""Plans: what a question costs, before it is asked; parts that are asked elsewhere."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from slashtag import DateRange
from tests.resources.accounts import YEARS, Account, client, counts
from tests.support.processes import python


async def test_a_plan_sends_nothing_and_its_length_is_the_number_of_requests(account: Account) -> None:
    keys = tuple(account.keys[:150])
    async with account.serve() as box, client(box) as api:
        plan = api.stats.plan(YEARS, keys=keys)
        assert box.requests == []
        assert len(plan) == 70
        told = list[tuple[int, int | None]]()
        stats = await api.stats.run(plan, progress=lambda *done: told.append(done))
        assert len(box.requests) == 70
        assert told[-1] == (70, 70)
    assert counts(stats) == counts(account.truth(None, keys))


RUN = """
import asyncio, pickle, sys
from slashtag import AsyncSession

base_url, apikey, apisecret, plan = pickle.load(sys.stdin.buffer)

async def main():
    async with AsyncSession(base_url, apikey=apikey, apisecret=apisecret) as session:
        return await session.stats.run(plan)

pickle.dump(asyncio.run(main()), sys.stdout.buffer)
"""


def test_a_plan_is_run_by_another_process(account: Account) -> None:
    keys = account.keys[:250]
    with account.serve() as box:

        async def plan() -> Any:
            async with client(box) as api:
                return api.stats.plan(DateRange("2024-01-01", "2024-03-31"), keys=keys)

        job = (box.base_url, box.apikey, box.apisecret, asyncio.run(plan()))
        ran = python("-c", RUN, input=pickle.dumps(job), encoding=None, check=True)
        truth = box.truth.range("2024-01-01", "2024-03-31", keys=keys)
    assert counts(pickle.loads(ran.stdout)) == counts(truth)
