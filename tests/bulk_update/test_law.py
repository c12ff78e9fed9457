"""Bulk updates that are killed, whose answers are lost, while others change the links and the file changes.

A model of each link, kept from what the service holds and what it was sent: no link is sent a change whose
present value is neither what it was, nor what a row wanted; nothing is made twice that a listing shows;
nothing is lost, nor restored wrongly.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import RetryPolicy, SlashtagError
from slashtag.bulk_update import BulkUpdate, RowOutcome
from slashtag.sandbox import Fault, Sandbox

from ..support.laws import examples
from ..support.sending import connect, turns, until

State = dict[str, object]
#: When the links were last updated, as the file says if it is a listing.
LISTED = datetime(2024, 1, 1, tzinfo=UTC)
#: Members that a listing shows, by their columns.
COLUMNS = {"destination": "destination", "slashtag": "new_slashtag", "redirect_code": "redirect_code"}


class Model:
    """What one link was when runs began, what its row gave then, and what it is to have."""

    def __init__(self, now: State) -> None:
        self.first = now
        self.starts = list[State]()
        self.wants = list[State]()
        self.wanted: State = {}
        self.password: str | None = None
        #: Whether the row was carried out, and nobody has changed link or row since.
        self.is_made = False
        #: Whether that was answered.
        self.is_answered = False
        self.was_edited = False


class Example:
    """Random changes of an account in a file, random edits by others, crashes and lost answers."""

    def __init__(self, seed: int, folder: Path, box: Sandbox) -> None:
        self.rng = rng = random.Random(seed)
        self.box, self.path = box, folder / "changes.csv"
        self.form = rng.choice(("slashtag", "id", "listing", "listing"))
        for n in range(rng.randint(2, 8)):
            box.add_url(f"a{n}", destination=f"https://old.example/{n}", redirect_code=302, password="old")
        box.store.write("UPDATE link SET updated_at = ?", (LISTED.timestamp(),))
        self.is_dated = self.form == "listing" and rng.random() < 0.7
        self.links = {id: Model(now) for id, now in self.now().items()}
        for model in self.links.values():
            self.edit_row(model)
        self.durable = dict[str, int]()
        self.tally = Counter[str]()

    def now(self) -> dict[int, State]:
        return {url.id: {name: getattr(url, name) for name in COLUMNS} for url in self.box.truth.urls()}

    def values(self, model: Model) -> State:
        """Return a value for each member: that of the beginning, or one of two others."""
        name, n = str(model.first["slashtag"]), self.rng.randint(1, 2)
        others: State = {"destination": f"https://new.example/{name}/{n}", "slashtag": f"{name}-{n}"}
        others["redirect_code"] = 306 + n
        return self.rng.choice((model.first, others))

    def edit_row(self, model: Model) -> None:
        values, rng = self.values(model), self.rng
        if self.form == "listing":
            model.wanted = model.first | values
        else:
            model.wanted = {name: values[name] for name in COLUMNS if rng.random() < 0.5}
        model.password = rng.choice((None, "new", "other")) if model.wanted else "new"
        model.is_made = model.is_answered = False

    def edit_link(self, id: int, model: Model) -> None:
        """Let somebody else change a link."""
        name = self.rng.choice(list(COLUMNS))
        value = self.values(model)[name]
        change = f"UPDATE link SET {name} = ?, updated_at = updated_at + 1 WHERE id = ?"
        self.box.store.write(change, (value, id))
        model.is_made = model.is_answered = False
        model.was_edited = True

    def write(self) -> None:
        """Write the file; its rows come in another order each time."""
        time = "updated_at" if self.is_dated else "created_at"
        names = ["id", "slashtag", *COLUMNS.values(), "password", time]
        if self.form != "listing":
            names = [self.form, *names[2:-1]]
        lines = [",".join(names)]
        for id, model in self.rng.sample(sorted(self.links.items()), len(self.links)):
            cells = {COLUMNS[name]: value for name, value in model.wanted.items()}
            cells |= {"id": id, "slashtag": model.first["slashtag"], "password": model.password or ""}
            cells["updated_at"] = f"{LISTED:%Y-%m-%d %H:%M:%S}"
            lines.append(",".join(str(cells.get(name, "")) for name in names))
        self.path.write_text("\n".join(lines))

    @contextmanager
    def watched(self) -> Generator[None]:
        """Note how much of each file survives a loss of power."""
        fsync = os.fsync

        def note(handle: int) -> None:
            fsync(handle)
            name = os.readlink(f"/proc/self/fd/{handle}")
            self.durable[name] = os.fstat(handle).st_size

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", note)
            yield

    def files(self, *, power: bool) -> dict[Path, bytes]:
        """Return what is on the disk once the process is killed, or the machine."""
        found = dict[Path, bytes]()
        for path in self.path.parent.iterdir():
            with suppress(FileNotFoundError):  # a thread goes on
                found |= {} if path.suffix == ".lock" else {path: path.read_bytes()}
        results = self.path.with_name("changes.results.jsonl")
        if power and results in found:
            least = self.durable.get(str(results.resolve()), 0)
            size = len(found[results])
            found[results] = found[results][: self.rng.randint(min(least, size), size)]
        return found

    async def run(self, crash: int | None) -> tuple[list[RowOutcome], int] | None:
        """Run the update, to its end or until the loop has turned so often; check what was sent."""
        self.write()
        before, arrived = self.now(), len(self.box.requests)
        recorded = {id: self.recorded(id, model) for id, model in self.links.items()}
        for id, model in self.links.items():
            model.starts.append(before[id])
            model.wants.append(model.wanted)
        box, one_try = self.box, RetryPolicy(max_attempts=1)
        async with connect(box, concurrency=self.rng.choice((1, 2, 8)), retry=one_try) as session:
            update = BulkUpdate(session, self.path, confirm=True)
            task = asyncio.create_task(self.read(update))
            for _ in range(-1 if crash is None else crash):
                if task.done():
                    break
                await asyncio.sleep(0)
            if crash is None or task.done():
                outcomes: list[RowOutcome] | None = await task
            else:
                kept = self.files(power=self.rng.random() < 0.3)
                await update.aclose()
                task.cancel()
                with suppress(asyncio.CancelledError, SlashtagError):
                    await task
                for path in self.path.parent.iterdir():
                    path.unlink()
                for path, content in kept.items():
                    path.write_bytes(content)
                outcomes = None
        # What was sent arrives, and is carried out.
        await turns(50)
        await until(lambda: all(one.transport is None for one in box._server.connections))
        await until(lambda: not box._tasks)
        self.check_sent(before, recorded, list(box.requests)[arrived:])
        if outcomes is None:
            return None
        for outcome in outcomes:
            if outcome.id is not None:
                self.links[outcome.id].is_answered = outcome.status == "done"
        return outcomes, update.summary["unchanged"]

    async def read(self, update: BulkUpdate) -> list[RowOutcome]:
        found = list[RowOutcome]()
        while True:
            with suppress(TimeoutError):
                try:
                    timeout = self.rng.choice((None, 0.0, 0.002))
                    found.append(await asyncio.wait_for(anext(update), timeout))
                except StopAsyncIteration:
                    return found

    def recorded(self, id: int, model: Model) -> list[State]:
        """Return what the file of outcomes says that a link was, and was to be."""
        path, found = self.path.with_name("changes.results.jsonl"), list[State]()
        # The last line may be cut.
        for line in path.read_text().split("\n")[:-1] if path.exists() else ():
            if f'"link","id":{id},' in line:
                entry = json.loads(line)
                assert entry["base"] in model.starts
                assert entry["after"] in [entry["base"] | wanted for wanted in model.wants]
                found += [entry["base"], entry["after"]]
        return found

    def check_sent(
        self, before: dict[int, State], recorded: dict[int, list[State]], arrivals: list[Any]
    ) -> None:
        """What arrived was to be changed, by a link as it was or as a row left it, and no link twice."""
        sent = {int(each.path.rpartition("/")[2]): each for each in arrivals if each.method == "PUT"}
        self.tally["puts"] += len(sent)
        assert len(sent) == sum(each.method == "PUT" for each in arrivals), "twice in one run"
        after = self.now()
        passwords = {url.id: url.password for url in self.box.truth.urls()}
        for id, model in self.links.items():
            now, wanted = before[id], model.wanted
            if arrival := sent.get(id):
                body = json.loads(arrival.body)
                as_wanted = wanted.items() <= now.items()
                is_known = any(all(now[name] == each[name] for name in wanted) for each in recorded[id])
                is_as_listed = not (recorded[id] or (self.is_dated and model.was_edited))
                assert as_wanted or is_known or is_as_listed, "changed since, and sent"
                assert self.recorded(id, model), "not recorded, and sent"
                assert not (model.is_made and (model.password is None or model.is_answered)), "made twice"
                assert not (as_wanted and model.password is None), "nothing to change"
                assert (now | body).items() >= (now | wanted).items()
                assert body.keys() >= {"destination", "redirect_code"}
                is_made = wanted.items() <= after[id].items()
                model.is_made = is_made and model.password in (None, passwords[id])

    async def check(self) -> Counter[str]:
        rng, box = self.rng, self.box
        with self.watched():
            for _ in range(rng.randint(1, 5)):
                kind, after_work = rng.choice((("reset", True), ("reset", False), ("400", False)))
                fault = Fault(kind=kind, method="PUT", after_work=after_work, share=0.5)
                box.faults = [fault] if rng.random() < 0.6 else []
                over = await self.run(rng.choice((None, None, rng.randint(0, 60), rng.randint(0, 600))))
                self.tally["crashes"] += over is None
                if over is not None:
                    self.check_told(*over)
                box.faults = []
                for id, model in self.links.items():
                    if rng.random() < 0.15:
                        self.edit_link(id, model)
                    if rng.random() < 0.25:
                        self.edit_row(model)
            over = await self.run(None)
            assert over is not None
            self.check_told(*over)
            await self.check_undo()
        return self.tally

    def check_told(self, outcomes: list[RowOutcome], unchanged: int) -> None:
        """Each row has one outcome, or its link is as it wants it."""
        id_of = {model.first["slashtag"]: id for id, model in self.links.items()}
        told = {outcome.id or id_of[outcome.key]: outcome.status for outcome in outcomes}
        assert len(told) == len(outcomes)
        assert all((outcome.status == "done") is (outcome.error is None) for outcome in outcomes)
        assert len(outcomes) + unchanged == len(self.links)
        now = {url.id: url for url in self.box.truth.urls()}
        for id, model in self.links.items():
            status = told.get(id, "done")
            self.tally[status] += 1
            if status == "done":
                is_made = all(getattr(now[id], name) == value for name, value in model.wanted.items())
                assert is_made, "told as done, and is not"
                assert model.password in (None, now[id].password), "a password was lost"
            else:
                # Somebody else may have renamed a link before the first run.
                of_faults = ["unknown" if fault.kind == "reset" else "failed" for fault in self.box.faults]
                assert status in of_faults or model.was_edited

    async def check_undo(self) -> None:
        """The one file for undoing restores each link that nobody else has changed."""
        undo = self.path.with_name("changes.undo.csv")
        if undo.exists():
            async with connect(self.box) as session:
                async for outcome in BulkUpdate(session, undo, confirm=True):
                    assert outcome.status in ("done", "changed")
        now = self.now()
        for id, model in self.links.items():
            assert model.was_edited or now[id] == model.first, "not undone"


def try_law(seed: int) -> Counter[str]:
    async def run(folder: Path) -> Counter[str]:
        async with Sandbox(urls=0, clicks=0, tags=0, seed=seed) as box:
            return await Example(seed, folder, box).check()

    with TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder)))


@examples(25)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_change_of_others_is_overwritten_and_none_is_made_twice_or_lost(seed: int) -> None:
    try_law(seed)
