"""Changes of many links from Python: shown, made, gone on with by the next run, and undone."""

from __future__ import annotations

import csv
from pathlib import Path
from unittest.mock import Mock

import pytest

from slashtag import AsyncSession, Change, ExportError
from slashtag.bulk_update import BulkUpdate, Difference
from slashtag.sandbox import Fault, Sandbox
from tests.support.sending import connect, until
from tests.support.wire import Answer, Request, Wire, ok

from .conftest import puts

OTHER = "https://other.example/"
ACCOUNT = {"urls": 0, "clicks": 0}
CHANGES = [Change(f"a{n}", destination=OTHER) for n in range(20)]


def destinations(box: Sandbox) -> list[str]:
    return [url.destination for url in box.truth.urls()]


async def test_changes_come_from_python_too(box: Sandbox, session: AsyncSession, tmp_path: Path) -> None:
    progress = Mock()
    update = BulkUpdate(session, iter(CHANGES), outcomes=tmp_path / "outcomes", progress=progress)
    assert sorted([outcome.line async for outcome in update]) == list(range(1, 21))
    assert [each.args for each in progress.mock_calls if each.args[1]] == [(n, 20) for n in range(1, 21)]
    assert update.planned is not None
    assert len(update.planned.differences) == update.summary["done"] == 20
    assert set(destinations(box)) == {OTHER}
    with pytest.raises(TypeError, match="outcomes="):
        BulkUpdate(session, CHANGES)


async def test_outcomes_that_nobody_reads_are_recorded(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    """Of passwords, which no listing shows."""
    changes = [Change(f"a{n}", password="hush") for n in range(20)]
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as update:
        await anext(update)
        await until(lambda: update.summary["done"] == 20)
    async with BulkUpdate(session, changes, outcomes=tmp_path / "outcomes") as again:
        assert [outcome async for outcome in again] == []
    assert again.summary == {"unchanged": 20}


async def test_a_preview_tells_what_a_run_would_do_and_leaves_nothing(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    path = tmp_path / "changes.csv"
    path.write_text(
        f"slashtag,destination,password\na1,{OTHER},\na2,https://www.example/2,\nb,,x\na3,,hush\n"
    )
    shown = await BulkUpdate(session, path).preview()
    ids = {url.slashtag: url.id for url in box.truth.urls()}
    assert shown.differences == [
        Difference(2, ids["a1"], "a1", "destination", "https://www.example/1", OTHER),
        Difference(5, ids["a3"], "a3", "password", "?", "***"),
    ]
    assert [(row.change.key, row.outcome.line) for row in shown.sent] == [(ids["a1"], 2), (ids["a3"], 5)]
    assert (shown.unchanged, [(each.line, each.status) for each in shown.left]) == (1, [(4, "failed")])
    assert (puts(box), list(tmp_path.iterdir())) == (0, [path])
    assert "hush" not in repr(vars(BulkUpdate(session, path)))


async def test_present_values_are_read_past_caches(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "PUT":
            return ok({"rows_updated": 1})
        old = "old" if request.headers.get("cache-control") != "no-cache" else "new"
        link = {"id": 1, "slashtag": "a1", "destination": f"https://{old}.example/", "redirectCode": "302"}
        return ok({"page": 1, "pageSize": 500, "items": [link]})

    async with Wire(answer) as wire, connect(wire) as session:
        await session.urls.list().to_list()
        change = [Change("a1", redirect_code=307)]
        assert len([each async for each in BulkUpdate(session, change, outcomes=tmp_path / "outcomes")]) == 1
    assert wire.requests[-1].json()["destination"] == "https://new.example/"


# --- undo ------------------------------------------------------------------------------------------------


async def test_one_file_undoes_all_that_any_run_has_done_and_nothing_else(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    # What no update may give is not restored, and the rest is.
    box.store.write("UPDATE link SET destination = 'no scheme' WHERE slashtag = 'a8'", ())
    path, before = tmp_path / "changes.csv", destinations(box)
    path.write_text("\n".join(["slashtag,destination", *(f"a{n},{OTHER}{n}" for n in range(19))]))
    async with BulkUpdate(session, path) as update:
        await anext(update)  # and leave it early
    assert update.undo_path == tmp_path / "changes.undo.csv"
    # One has been changed by somebody else, who has changed what the row does not give; one was not yet.
    box.store.write("UPDATE link SET redirect_code = 308 WHERE slashtag = 'a5'", ())
    box.store.write("UPDATE link SET destination = 'https://x.example/' WHERE slashtag = 'a6'", ())
    rest = BulkUpdate(session, path)
    assert {outcome.slashtag async for outcome in rest if outcome.status != "done"} == {"a6"}
    assert rest.undoes == 17
    # Changed once more, by the same file.
    path.write_text(path.read_text().replace(f"a7,{OTHER}7", "a7,https://y.example/"))
    assert [outcome.slashtag async for outcome in BulkUpdate(session, path)] == ["a6", "a7"]
    assert update.undo_path is not None
    rows = list(csv.DictReader(update.undo_path.read_text().splitlines()))
    assert [row["new_slashtag"] + row["redirect_code"] for row in rows] == [""] * 17
    # What others change after the last run stays too.
    box.store.write("UPDATE link SET destination = 'https://z.example/' WHERE slashtag = 'a0'", ())
    undo = BulkUpdate(session, update.undo_path)
    assert {outcome.slashtag async for outcome in undo if outcome.status != "done"} == {"a0"}
    left = ["https://z.example/", *before[1:6], "https://x.example/", before[7], f"{OTHER}8", *before[9:]]
    assert destinations(box) == left


async def test_an_undo_of_other_changes_is_not_overwritten(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    path = tmp_path / "changes.csv"
    path.write_text(f"slashtag,destination\na1,{OTHER}\n")
    path.with_name("changes.undo.csv").write_text("id,destination\n1,https://precious.example/\n")
    with pytest.raises(ExportError, match="undoes other changes"):
        await anext(BulkUpdate(session, path))
    assert puts(box) == 0


@pytest.mark.parametrize("kind", ["reset", "400"])
async def test_a_password_is_set_again_once_another_one_may_have_been_set(
    box: Sandbox, session: AsyncSession, tmp_path: Path, kind: str
) -> None:
    async def told(password: str) -> list[str]:
        update = BulkUpdate(session, [Change("a1", password=password)], outcomes=tmp_path / "outcomes")
        return [each.status async for each in update]

    assert await told("first") == ["done"]
    box.faults = [Fault(kind=kind, method="PUT", after_work=kind == "reset")]
    assert await told("other") in (["unknown"], ["failed"])
    box.faults = []
    assert await told("first") == ["done"]
    assert (await told("first"), puts(box)) == ([], 3)
    assert {url.password for url in box.truth.urls() if url.slashtag == "a1"} == {"first"}
