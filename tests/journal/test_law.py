"""A job that is run again sends what is missing plus a few, loses nothing and counts nothing twice.

Whatever happened between two runs: a crash at any request, links added, removed, renamed, given other tags or
clicked, another order of a set, a rotated secret, a wrong clock of the service or of this machine, answers of
a cache.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AsyncSession, DateRange, RetryPolicy, _session
from slashtag._core import batches as _batches
from slashtag._journal import journal as _journal
from slashtag._resources import stats as _stats
from slashtag._sending import sender as _sender
from slashtag.export import export_clicks
from slashtag.sandbox import Sandbox

from ..export.test_exports import Kept
from ..support.journals import committed
from ..support.laws import examples
from ..support.sending import connect, until

KINDS = ("collect", "keys", "each", "export", "tags")
STEPS = (
    *("add", "remove", "rename", "swap", "share", "tag"),
    *("old click", "new click", "late", "rotate", "clock", "service's clock"),
)
DAY = 86_400
WINDOWS = 3


class Job:
    """A job on an account that others change between its runs."""

    def __init__(self, seed: int, box: Sandbox, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.rng = random.Random(seed)
        self.box, self.folder, self.patch = box, folder, patch
        self.kind = self.rng.choice(KINDS)
        self.runs, self.changes, self.removed, self.links = 0, 0, 0, 0
        #: Seconds that this machine's clock is ahead, and the service's.
        self.skew, self.service_skew = 0, 0
        self.tags = [box.store.add_tag(f"t{n}", "", 0).id for n in range(3)]
        self.was_fresh = False
        today = datetime.now(UTC).date()
        # Two windows that are over, the second since yesterday, and today.
        self.first, self.yesterday, self.today = today - timedelta(64), today - timedelta(1), today
        self.span = DateRange(self.first, today)
        for n in range(self.rng.randint(5, 40)):
            self.add(f"k{n}")

    def add(self, slashtag: str, domain: int = 0) -> None:
        link = self.box.add_url(slashtag, domain_id=domain)
        self.links += 1
        self.tag(link)
        for _ in range(self.rng.choice((0, 0, 1, 4))):
            day = self.first + timedelta(self.rng.randrange(64))
            self.box.add_click(link, datetime(day.year, day.month, day.day, 12, tzinfo=UTC))

    def tag(self, link: int) -> None:
        tag = self.rng.choice((None, *self.tags))
        self.box.store.write("UPDATE link SET tag_id = ? WHERE id = ?", (tag, link))

    def slashtags(self) -> list[str]:
        return [link.slashtag for link in self.box.truth.urls()]

    # What others do between two runs.

    def disturb(self) -> None:
        rng, box = self.rng, self.box
        links = box.truth.urls()
        one, other = rng.sample(links, 2)
        kind = rng.choice(STEPS)
        self.skew = self.service_skew = 0
        if kind == "add":
            self.add(f"new{self.links}")
        elif kind == "remove" and len(links) > 4:
            box.remove_url(one.id)
            self.removed += 1
        elif kind == "rename":
            self.rename(one.id, f"renamed{one.id}-{self.changes}")
            # A slashtag alone does not say which link it belongs to: the old one is gone.
            self.removed += self.kind == "keys"
        elif self.kind == "keys" and kind in ("swap", "share"):
            pass  # slashtags alone do not say which links they belong to
        elif kind == "share" and (free := self.free_domains(one.slashtag)):
            self.add(one.slashtag, rng.choice(free))
        elif kind == "swap" and one.domain_id == other.domain_id:
            self.rename(one.id, "swapping")
            self.rename(other.id, one.slashtag)
            self.rename(one.id, other.slashtag)
        elif kind == "old click":
            box.add_click(one.id, "2020-01-01T12:00:00", times=rng.randint(1, 50))
        elif kind == "new click":
            box.add_click(one.id, datetime.now(UTC))
        elif kind == "rotate":
            box.apisecret = f"secret{rng.randrange(10**9):09}"
        elif kind == "tag":
            self.tag(one.id)
            self.tag(other.id)
        elif kind == "clock":
            self.skew = rng.choice((-30, -1, 1, 30)) * DAY
        elif kind == "service's clock":
            self.service_skew = rng.choice((-30 * DAY, -DAY, -32_400, 32_400, DAY, 30 * DAY))
        elif kind == "late" and not self.was_fresh:
            # Until now all answers were those of a cache, from before this click.
            noon = datetime(self.yesterday.year, self.yesterday.month, self.yesterday.day, 12, tzinfo=UTC)
            box.add_click(one.id, noon)
        self.changes += kind in ("add", "remove", "rename", "swap", "share")
        self.changes += kind == "tag" and self.kind == "tags"

    def free_domains(self, slashtag: str) -> list[int]:
        taken = {link.domain_id for link in self.box.truth.urls() if link.slashtag == slashtag}
        return sorted({0, 1, 2, 3} - taken)

    def rename(self, link: int, slashtag: str) -> None:
        self.box.store.write("UPDATE link SET slashtag = ? WHERE id = ?", (slashtag, link))

    # The runs.

    async def work(self, session: AsyncSession) -> Any:
        listing = session.urls.list(pagesize=7, prefetch=2)
        if self.kind == "collect":
            return (await session.stats.collect(self.span, keys=listing)).clicks
        if self.kind == "keys":
            keys = self.slashtags()
            self.rng.shuffle(keys)
            return (await session.stats.collect(self.span, keys=keys)).clicks
        if self.kind == "each":
            each = session.stats.collect_each(self.span, keys=await listing.to_list())
            return {key: stats.clicks async for key, stats in each}
        kept, by = Kept(), "tag" if self.kind == "tags" else "slashtag"
        await export_clicks(session, self.span, kept, by=by)  # type: ignore[arg-type]
        table = dict[str, dict[date, int]]()
        for row in kept.rows:
            assert row[-2] not in table.setdefault(str(row[0]), {}), "a row twice"
            table[str(row[0])][row[-2]] = row[-1]  # type: ignore[index, assignment]
        return table

    def skewed_now(self, zone: tzinfo) -> datetime:
        return datetime.now(zone) + timedelta(seconds=self.skew)

    async def run(self, crash: int | None, *, journal: bool = True) -> Any:
        """Run the job, to its end or until so many requests have arrived; what is on disk then stays."""
        box, before = self.box, len(self.box.requests)
        path = self.folder / f"{self.runs}.journal"
        now = time.time
        if self.service_skew:
            box.headers["Date"] = formatdate(now() + self.service_skew, usegmt=True)
        with pytest.MonkeyPatch.context() as clock:
            clock.setattr(_journal, "time", SimpleNamespace(time=lambda: now() + self.skew))
            for module in (_sender, _session):
                clock.setattr(module, "time", lambda: now() + self.skew)
            clock.setattr(_stats, "datetime", Mock(now=self.skewed_now))
            async with connect(
                box,
                concurrency=2,
                journal=path if journal else None,
                journal_max_age=100 * DAY,
                retry=RetryPolicy(max_attempts=1),
            ) as session:
                task = asyncio.create_task(self.work(session))
                await until(
                    lambda: task.done() or (crash is not None and len(box.requests) - before >= crash)
                )
                if crash is None:
                    return await task
                for turn in range(self.rng.randrange(20)):
                    await asyncio.sleep(0.001 * (turn % 5 == 0))
                for file in self.folder.glob(f"{self.runs}.*"):
                    _, _, rest = file.name.partition(".")
                    shutil.copy(file, self.folder / f"{self.runs + 1}.{rest}")
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self.runs += 1
        return None

    async def example(self) -> None:
        rng, box = self.rng, self.box
        for _ in range(rng.randint(1, 4)):
            is_cached = not self.was_fresh and rng.random() < 0.3
            box.headers = {"Age": str(3 * DAY)} if is_cached else {}
            await self.run(rng.randint(1, 30))
            self.was_fresh |= not is_cached
            self.disturb()
        box.headers = {}
        held = committed(self.folder / f"{self.runs}.journal")
        box.requests.clear()
        wrong = self.wrong(await self.run(None))
        sent = sum("stats" in each.path for each in box.requests)
        box.requests.clear()
        await self.run(None, journal=False)
        fresh = sum("stats" in each.path for each in box.requests)
        missing = max(0, fresh - len(held))
        # A link that is gone moves those after it into other batches.
        slack = 2 + 2 * WINDOWS * self.changes + self.removed * fresh
        if self.kind in ("each", "export", "tags"):
            # Which sets are needed depends on the order of links, which a change alters for this run and not
            # for a new one; what is compared by tag is asked past the journal.
            slack += fresh if self.changes else fresh // 2
        assert (wrong, max(0, sent - missing - slack)) == (0, 0), (self.kind, sent, missing, slack)

    def wrong(self, result: Any) -> int:
        """Return the number of wrong rows."""
        box = self.box
        truth: dict[str, Any] = dict(box.truth.per_key(self.first, self.today))
        if self.kind == "tags":
            # Links without a tag have what the tags leave of all clicks, also of slashtags that both have.
            left = Counter[date]()
            for one in truth.values():
                left.update(one.clicks)
            truth = {
                tag.name: box.truth.range(self.first, self.today, tag=tag.name) for tag in box.truth.tags()
            }
            for one in truth.values():
                left.subtract(one.clicks)
            truth["no tag"] = SimpleNamespace(clicks=left)
        if self.kind in ("collect", "keys"):
            total = Counter[date]()
            for one in truth.values():
                total.update(one.clicks)
            return sum(result.get(day, 0) != total[day] for day in result.keys() | total.keys())
        return sum(
            any(result.get(key, {}).get(day, -1) != n for day, n in true.clicks.items())
            for key, true in truth.items()
        ) + len(result.keys() - truth.keys())


@examples(8)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_job_survives_whatever_happens_between_its_runs(seed: int) -> None:
    async def run(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_batches, "MAX_KEYS", 5)
            patch.setattr(_journal, "COMMIT_SECONDS", 0.0)
            async with Sandbox(urls=0, clicks=0, tags=0) as box:
                await Job(seed, box, folder, patch).example()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
