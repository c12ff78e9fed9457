"""Changes of many links from Python: planned, made once, and gone on with by the next run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from slashtag import AsyncSession, Change, ExportError, InvalidRequestError
from slashtag.bulk_update import BulkSummary, BulkUpdate, ChangesError, Difference, RowOutcome
from slashtag.sandbox import Fault, Sandbox
from tests.support.sending import connect, until
from tests.support.wire import Answer, Request, Wire, ok

OTHER = "https://other.example/"
ACCOUNT = {"urls": 0, "clicks": 0}
CSV = "slashtag,destination,new_slashtag\na1,https://other.example/,\na2,,b2\n"


@pytest.fixture
def box(box: Sandbox) -> Sandbox:
    for n in range(20):
        box.add_url(f"a{n}", destination=f"https://www.example/{n}", redirect_code=302)
    return box


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "changes.csv"
    path.write_text(CSV, "utf-8")
    return path


def puts(box: Sandbox) -> int:
    return sum(arrival.method == "PUT" for arrival in box.requests)


async def test_a_file_is_carried_out_and_the_next_run_skips_what_is_done(
    box: Sandbox, session: AsyncSession, source: Path
) -> None:
    async with BulkUpdate(session, source) as update:
        outcomes = [outcome async for outcome in update]
    assert sorted((each.line, each.key, each.status, each.rows_updated) for each in outcomes) == [
        (2, "a1", "done", 1),
        (3, "a2", "done", 1),
    ]
    assert update.summary == BulkSummary(done=2)
    assert update.path == source.with_name("changes.results.jsonl")
    links = {url.slashtag: url.destination for url in box.truth.urls()}
    assert (links["a1"], links["b2"]) == (OTHER, "https://www.example/2")
    async with BulkUpdate(session, str(source)) as again:
        assert [outcome async for outcome in again] == []
    assert again.summary == BulkSummary(skipped=2)
    assert puts(box) == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"slashtag":"a1","redirect_code":301}\n{"slashtag":"a2","destination":"https://other.example/"}\n',
        '[{"slashtag":"a1","redirect_code":301.0},{"slashtag":"a2","destination":"https://other.example/"}]',
    ],
    ids=["jsonl", "json"],
)
async def test_changes_come_from_every_format_of_tables(
    box: Sandbox, session: AsyncSession, tmp_path: Path, text: str
) -> None:
    (tmp_path / "changes").write_text(text)
    async with BulkUpdate(session, tmp_path / "changes") as update:
        assert {outcome.status async for outcome in update} == {"done"}
    links = {url.slashtag: url for url in box.truth.urls()}
    assert (links["a1"].redirect_code, links["a2"].destination) == (301, OTHER)


async def test_changes_come_from_python_too_and_need_a_file_of_outcomes(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    changes = (Change(f"a{n}", destination=OTHER) for n in range(20))
    steps: list[tuple[int, int | None]] = []
    update = BulkUpdate(
        session, changes, outcomes=tmp_path / "outcomes", progress=lambda *step: steps.append(step)
    )
    assert sorted([outcome.line async for outcome in update]) == list(range(1, 21))
    assert [step for step in steps if step[1]] == [(n, 20) for n in range(1, 21)]
    with pytest.raises(TypeError, match="outcomes="):
        BulkUpdate(session, [Change("a1", destination=OTHER)])


async def test_an_update_left_early_goes_on_in_the_next_run(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    changes = [Change(f"a{n}", destination=OTHER) for n in range(20)]
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as update:
        async for outcome in update:
            assert outcome.status == "done"
            break
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes", repeat_lost=True) as rest:
        assert {outcome.status async for outcome in rest} == {"done"}
    assert rest.summary.done + rest.summary.skipped == 20
    assert {url.destination for url in box.truth.urls()} == {OTHER}


@pytest.mark.parametrize("timeout", [0.0001, 0.0005, 0.003])
async def test_a_timeout_of_anext_loses_no_outcome_and_no_line(
    box: Sandbox, session: AsyncSession, tmp_path: Path, timeout: float
) -> None:
    box.latency = 0.002
    changes = [Change(f"a{n}", destination=OTHER) for n in range(20)]
    found: list[RowOutcome] = []
    timeouts = 0
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as update:
        while True:
            try:
                found.append(await asyncio.wait_for(anext(update), timeout))
            except TimeoutError:
                timeouts += 1
                await asyncio.sleep(0)
            except StopAsyncIteration:
                break
    assert timeouts
    assert sorted((each.line, each.status) for each in found) == [(n, "done") for n in range(1, 21)]
    assert update.summary == BulkSummary(done=20)
    lines = (tmp_path / "outcomes").read_text().splitlines()
    assert sum('"done"' in line for line in lines) == 20
    assert puts(box) == 20
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as again:
        assert [outcome async for outcome in again] == []


async def test_outcomes_that_nobody_reads_are_in_the_file(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    """Of passwords, which no listing shows."""
    changes = [Change(f"a{n}", password="hush") for n in range(20)]
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as update:
        await anext(update)
        await until(lambda: puts(box) == 20 and update.summary.done == 20)
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as again:
        assert [outcome async for outcome in again] == []
    assert again.summary == BulkSummary(skipped=20)


async def test_one_outcome_is_waited_for_by_one_task(
    box: Sandbox, session: AsyncSession, source: Path
) -> None:
    async with BulkUpdate(session, source) as update:
        first = asyncio.ensure_future(anext(update))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already waiting"):
            await anext(update)
        assert (await first).status == "done"
    assert [outcome async for outcome in update] == []


async def test_an_update_is_closed_while_its_next_outcome_is_under_way(
    box: Sandbox, session: AsyncSession, source: Path
) -> None:
    box.latency = 60.0
    async with BulkUpdate(session, source) as update:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(update), 0.01)
    box.latency = 0.0
    async with BulkUpdate(session, source) as again:
        assert {outcome.status async for outcome in again} == {"done"}


async def test_everything_that_is_wrong_is_listed_and_nothing_is_sent(
    box: Sandbox, session: AsyncSession, source: Path
) -> None:
    source.write_text("slashtag,password\na1,hush\na1,hush\na2," + "hush" * 20 + "\n", "utf-8")
    with pytest.raises(ChangesError) as raised:
        BulkUpdate(session, source)
    assert [problem.line for problem in raised.value.problems] == [3, 4]
    assert "hush" not in str(raised.value) + repr(raised.value.problems)
    with pytest.raises(ChangesError, match="line 2: 'a1' is changed by line 1"):
        BulkUpdate(session, [Change("a1", password=""), Change("a1", password="x")], outcomes="unused")
    with pytest.raises(ChangesError, match="line 1: nothing to update"):
        BulkUpdate(session, [Change("a1")], outcomes="unused")
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        BulkUpdate(session, source.with_name("missing.csv"))
    assert box.requests == []


async def test_a_preview_sends_no_change_and_writes_nothing(
    box: Sandbox, session: AsyncSession, source: Path
) -> None:
    with source.open("a", encoding="utf-8") as file:
        file.write("nobody,https://other.example/,\na3,https://www.example/3,\n")
    shown = await BulkUpdate(session, source).preview()
    assert shown.differences == (
        Difference(2, "a1", "destination", "https://www.example/1", OTHER),
        Difference(3, "a2", "slashtag", "a2", "b2"),
        Difference(4, "nobody", "", "no such link", ""),
    )
    assert (shown.changed, shown.unchanged, shown.missing, shown.skipped, shown.unknown) == (2, 1, 1, 0, 0)
    assert puts(box) == 0
    assert not source.with_name("changes.results.jsonl").exists()


async def test_a_change_whose_answer_was_lost_is_done_if_the_link_is_as_it_wants(
    box: Sandbox, session: AsyncSession, source: Path
) -> None:
    """Also a rename by slashtag, whose link is found by the id that it was sent by."""
    box.faults = [Fault(kind="reset", method="PUT", after_work=True)]
    assert {outcome.status async for outcome in BulkUpdate(session, source)} == {"unknown"}
    box.faults = []
    again = BulkUpdate(session, source)
    assert [outcome async for outcome in again] == []
    assert again.summary == BulkSummary(skipped=2)
    # It stays done when somebody else changes the link later.
    await session.urls.update("b2", slashtag="c2")
    assert [outcome async for outcome in BulkUpdate(session, source)] == []
    assert puts(box) == 3


async def test_two_updates_with_one_file_are_one_too_many(session: AsyncSession, source: Path) -> None:
    async with BulkUpdate(session, source) as update:
        await anext(update)
        with pytest.raises(ExportError, match="another run writes to"):
            await anext(BulkUpdate(session, source))


async def test_present_values_are_read_past_caches(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "PUT":
            return ok({"rows_updated": 1})
        old = "old" if request.headers.get("cache-control") != "no-cache" else "new"
        link = {"id": 1, "slashtag": "a1", "destination": f"https://{old}.example/", "redirectCode": "302"}
        return ok({"page": 1, "pageSize": 500, "items": [link]})

    async with Wire(answer) as wire, connect(wire) as session:
        await session.urls.list().to_list()
        change = Change("a1", redirect_code=307)
        async with BulkUpdate(session, [change], outcomes=tmp_path / "outcomes", keep=True) as update:
            assert [outcome.status async for outcome in update] == ["done"]
        shown = await BulkUpdate(session, [change], outcomes=tmp_path / "none").preview()
    (difference,) = shown.differences
    assert wire.requests[-2].json()["destination"] == "https://new.example/"
    assert difference.now == "302"


async def test_a_pipe_is_refused_as_nothing_can_be_recorded_beside_it(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.write(writing, CSV.encode())
    os.close(writing)
    try:
        with pytest.raises(InvalidRequestError):
            BulkUpdate(session, f"/dev/fd/{reading}")
    finally:
        os.close(reading)
    assert puts(box) == 0


@pytest.mark.parametrize("outcomes", ["s3://user:pass-word@bucket/o.jsonl", "a\0b", "/nowhere/at/all.jsonl"])
async def test_outcomes_that_cannot_be_recorded_are_told_before_anything_is_sent(
    box: Sandbox, session: AsyncSession, source: Path, outcomes: str
) -> None:
    with pytest.raises((ExportError, InvalidRequestError)) as raised:
        async with BulkUpdate(session, source, outcomes=outcomes) as update:
            await anext(update)
    assert "pass-word" not in str(raised.value)
    assert box.requests == []
