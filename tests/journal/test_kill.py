"""kill -9 at any moment costs a job no more than what came within the last commit interval."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from slashtag._journal.journal import COMMIT_SECONDS
from slashtag.sandbox import Sandbox

from ..support.journals import asked, committed
from ..support.processes import wait_until
from ..support.sandboxes import forget, settle

#: For each line it reads, a child of its own does the job: so that only the first has to import anything.
JOBS = """
import asyncio, json, os, sys
from slashtag import AsyncSession, DateRange

SPAN = DateRange("2022-01-01", "2024-12-31")

async def job(base_url, apikey, apisecret, path):
    credentials = dict(apikey=apikey, apisecret=apisecret)
    async with AsyncSession(base_url, **credentials, journal=path, concurrency=4) as job:
        urls = job.urls.list(pagesize=50, prefetch=1)
        table = {key: stats async for key, stats in job.stats.collect_each(SPAN, keys=urls)}
        days = {key: [str(day) for day, n in s.clicks.items() for _ in range(n)] for key, s in table.items()}
        return {"days": days, "replayed": job.metrics.replayed, "requests": job.metrics.requests}

for line in sys.stdin:
    *args, result = json.loads(line)
    child = os.fork()
    if not child:
        text = json.dumps(asyncio.run(job(*args)))
        with open(result, "w") as file:
            file.write(text)
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
KILLS = 4
#: What an answer may take from the service into the journal, on a busy machine, besides the interval.
SLACK = 0.8
# A job takes half a minute, of which it gets a few seconds before the last run: it is never over when killed.
LATENCY = 0.15


@pytest.fixture(scope="module")
def starter() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", JOBS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        yield starter


def start(starter: subprocess.Popen[str], *job: str) -> int:
    assert starter.stdin is not None
    assert starter.stdout is not None
    starter.stdin.write(json.dumps(job) + "\n")
    starter.stdin.flush()
    return int(starter.stdout.readline())


def status(starter: subprocess.Popen[str]) -> int:
    assert starter.stdout is not None
    return os.waitstatus_to_exitcode(int(starter.stdout.readline()))


def test_a_job_killed_again_and_again_ends_with_the_truth(
    starter: subprocess.Popen[str], tmp_path: Path
) -> None:
    rng = random.Random()
    result, journal = tmp_path / "result.json", tmp_path / "job.journal"
    held = set[bytes]()
    with Sandbox(urls=200, clicks=2_000, tags=2, latency=LATENCY) as box:
        job = (box.base_url, box.apikey, box.apisecret, str(journal), str(result))
        for kill in range(KILLS):
            forget(box)
            child = start(starter, *job)
            wait_until(lambda: len(box.requests) >= 2)
            time.sleep(rng.uniform(0.0, 0.7))
            # One run lasts long enough that something is safe also on a machine that is busy.
            if kill == 2:
                wait_until(lambda: safe(box))
            os.kill(child, signal.SIGKILL)
            assert status(starter) == -signal.SIGKILL, "the job was over before it was killed"
            assert not held & asked(box.requests, box.truth.urls()), (
                "what was committed is not asked for again"
            )
            held |= committed(journal)
            assert safe(box) <= held
        forget(box)
        box.latency = 0.0
        start(starter, *job)
        assert status(starter) == 0
        settle(box)
        assert not held & asked(box.requests, box.truth.urls())
        told = json.loads(result.read_text())
        # Which answers a search per link needs depends on the order in which others came, if only rarely.
        assert 0 < told["replayed"] <= len(held)
        assert told["replayed"] + len(box.requests) == told["requests"]
        truth = {key: true.clicks for key, true in box.truth.per_key("2022-01-01", "2024-12-31").items()}
    assert {key: Counter(days) for key, days in told["days"].items()} == {
        key: Counter({str(day): n for day, n in clicks.items() if n}) for key, clicks in truth.items()
    }


def safe(box: Sandbox) -> set[bytes]:
    """Name what was asked for longer ago than an answer may take into the journal, but for the listing.

    A job that rests asks for nothing: of a longer gap between two requests counts what an answer takes.
    """
    arrivals, age = list(box.requests), 0.0
    old = []
    for before, after in pairwise(reversed(arrivals)):
        age += min(before.at - after.at, LATENCY)
        if age > COMMIT_SECONDS + SLACK and "urls" not in after.path:
            old.append(after)
    return asked(old, box.truth.urls())
