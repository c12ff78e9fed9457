"""Bulk updates that are killed, again and again: each change is made once, and what became of it is told.

Whatever the file is, whichever columns it has in the next run, wherever a run is killed, however slow the
disk is, and whether the process ended or the machine did.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AsyncSession, RetryPolicy
from slashtag._sending.transport import Transport
from slashtag.bulk_update import BulkUpdate, RowOutcome, _outcome_file
from slashtag.bulk_update._outcome_file import OutcomeFile
from slashtag.sandbox import Sandbox

from ..support.laws import examples
from ..support.sending import until

MEMBERS = ("destination", "new_slashtag", "redirect_code", "password")


class Crash:
    """A machine on which a run ends after so many events: lines written, requests sent, answers received.

    After its end nothing is written any more and nothing is sent; what was sent is still carried out.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.left: int | None = None
        self.boot = "0"
        #: Length of the file of outcomes that survives a loss of power.
        self.durable = 0
        self.sent: list[str] = []
        self._slowness = 0.0
        self._forever = asyncio.Event()

    def begin(self, left: int | None, slowness: float) -> None:
        self.is_over, self.left, self._slowness = False, left, slowness

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            self.is_over |= self.left < 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        write, exchange = OutcomeFile._write, Transport.exchange

        def counted_write(file: OutcomeFile, entry: Any) -> None:
            if not self.is_over:
                write(file, entry)
                self._count()

        def slow_fsync(handle: int) -> None:
            size = os.fstat(handle).st_size
            Event().wait(self._slowness)
            if not self.is_over:
                self.durable = max(self.durable, size)

        async def counted_exchange(transport: Transport, call: Any, *args: Any, **options: Any) -> Any:
            if call.method == "PUT":
                self._count()
                if self.is_over:
                    await self._forever.wait()
                self.sent.append(call.path)
            answer = await exchange(transport, call, *args, **options)
            if call.method == "PUT":
                self._count()
            if self.is_over:
                await self._forever.wait()
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OutcomeFile, "_write", counted_write)
            patch.setattr(os, "fsync", slow_fsync)
            patch.setattr(Transport, "exchange", counted_exchange)
            patch.setattr(_outcome_file, "boot_id", lambda: self.boot)
            yield


class Example:
    """Random changes of an account, in a file whose columns differ from run to run."""

    def __init__(self, seed: int, folder: Path, box: Sandbox) -> None:
        self.rng = random.Random(seed)
        self.box, self.path, self.crash = box, folder / "changes.csv", Crash()
        self.outcomes = folder / "changes.results.jsonl"
        rng = self.rng
        self.links = {
            box.add_url(f"a{n}", destination=f"https://www.example/{n}", redirect_code=302, password="old"): n
            for n in range(rng.randint(3, 12))
        }
        self.form = rng.choice(("by slashtag", "by id", "listing"))
        self.wanted: dict[int, dict[str, str]] = {}
        for link, n in self.links.items():
            values = (f"https://new.example/{n}", f"b{n}", "307", f"new{n}")
            given = {name: value for name, value in zip(MEMBERS, values, strict=True) if rng.random() < 0.4}
            if given:
                self.wanted[link] = given
        self.untouched = [name for name in ("destination", "redirect_code") if rng.random() < 0.5]

    def write(self) -> None:
        """Write the file, its rows and columns in another order, with some columns that change nothing."""
        rng = self.rng
        untouched = [name for name in self.untouched if rng.random() < 0.6]
        names = {"by slashtag": ["slashtag"], "by id": ["id"], "listing": ["id", "slashtag", "created_at"]}[
            self.form
        ]
        rest = [
            name
            for name in MEMBERS
            if name in untouched or any(name in each for each in self.wanted.values())
        ]
        if self.form == "listing":
            rest = [name for name in rest if name != "new_slashtag"]
        columns = rng.sample([*names, *rest], len(names) + len(rest))
        rows: list[dict[str, str]] = []
        for link in rng.sample(sorted(self.wanted), len(self.wanted)):
            n, wanted = self.links[link], self.wanted[link]
            now = {"destination": f"https://www.example/{n}", "redirect_code": "302"}
            row = {"id": str(link), "slashtag": f"a{n}", "created_at": "2020-01-01"}
            row |= {name: now[name] for name in untouched} | wanted
            if self.form == "listing" and "new_slashtag" in wanted:
                row["slashtag"] = wanted["new_slashtag"]
            rows.append(row)
        lines = [columns, *([row.get(name, "") for name in columns] for row in rows)]
        self.path.write_text("".join(f"{','.join(line)}\n" for line in lines))

    async def run(self, left: int | None) -> list[RowOutcome] | None:
        """Run the update, to its end or until a crash; some outcomes are waited for with a short timeout."""
        self.write()
        self.crash.begin(left, self.rng.choice((0.0, 0.0, 0.002, 0.01)))
        box, rng = self.box, self.rng
        async with AsyncSession(
            box.base_url,
            apikey=box.apikey,
            apisecret=box.apisecret,
            concurrency=rng.choice((1, 2, 8)),
            retry=RetryPolicy(max_attempts=1),
        ) as session:
            task = asyncio.create_task(self.read(session))
            await until(lambda: task.done() or self.crash.is_over)
            if not self.crash.is_over:
                return await task
            # What was sent arrives.
            for _ in range(20):
                await asyncio.sleep(0.0005)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return None

    async def read(self, session: AsyncSession) -> list[RowOutcome]:
        found: list[RowOutcome] = []
        async with BulkUpdate(session, self.path) as update:
            while True:
                with suppress(TimeoutError):
                    try:
                        timeout = self.rng.choice((None, 0.0, 0.002))
                        found.append(await asyncio.wait_for(anext(update), timeout))
                    except StopAsyncIteration:
                        return found

    def lose(self, *, power: bool) -> None:
        """Leave of the file what is there after the process was killed, or after a loss of power."""
        if power:
            self.crash.boot += "+"
        if self.outcomes.exists():
            content = self.outcomes.read_bytes()
            kept = (
                self.rng.randint(min(self.crash.durable, len(content)), len(content))
                if power
                else len(content)
            )
            self.outcomes.write_bytes(content[:kept])
            self.crash.durable = min(self.crash.durable, kept)

    async def check(self) -> Counter[str]:
        """Run until nothing crashes any more; return what was wrong and how much is unknown."""
        rng, crashes, losses = self.rng, 0, 0
        for _ in range(rng.randint(1, 4)):
            if await self.run(rng.randint(0, 5 * len(self.wanted) + 4)) is None:
                is_loss = rng.random() < 0.3
                losses, crashes = losses + is_loss, crashes + 1
                self.lose(power=is_loss)
        outcomes = await self.run(None)
        assert outcomes is not None
        told = {outcome.id: outcome.status for outcome in outcomes}
        sent = Counter(int(path.rpartition("/")[2]) for path in self.crash.sent)
        now = {link.id: link for link in self.box.truth.urls()}
        tally = Counter(crashes=crashes, losses=losses, rows=len(self.wanted))
        for link, wanted in self.wanted.items():
            url = now[link]
            values = (url.destination, url.slashtag, str(url.redirect_code), url.password)
            is_made = wanted.items() <= dict(zip(MEMBERS, values, strict=True)).items()
            status = told.get(link, "done")
            tally["twice"] += sent[link] > 1
            tally["wrong"] += status not in ("done", "unknown") or (status == "done" and not is_made)
            tally["unknown"] += status == "unknown"
            tally["never sent"] += status == "unknown" and not sent[link]
        return tally


def try_law(seed: int) -> Counter[str]:
    async def run(folder: Path) -> Counter[str]:
        async with Sandbox(urls=0, clicks=0, tags=0) as box:
            example = Example(seed, folder, box)
            if not example.wanted:
                return Counter()
            with example.crash.installed():
                return await example.check()

    with TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder)))


@pytest.mark.unmeasured
@examples(12)
@given(seed=st.integers(0, 2**32 - 1))
def test_each_change_is_made_once_and_what_became_of_it_is_told(seed: int) -> None:
    tally = try_law(seed)
    assert (tally["wrong"], tally["twice"]) == (0, 0), tally
    # A process can be killed between a line and the request that it is about, one at a time. After a loss of
    # power what was announced may have been sent.
    assert tally["never sent"] <= tally["crashes"] + 8 * tally["losses"], tally
