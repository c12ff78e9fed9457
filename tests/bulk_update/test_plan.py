"""What is left to be sent: known by link and values, without conflicts and doubts, by a present listing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest
from msgspec.structs import astuple

from slashtag import AsyncSession, Change, UnexpectedResponseError
from slashtag.bulk_update import BulkUpdate, ChangesError, DoubtfulChangesError
from slashtag.bulk_update._outcome_file import OutcomeFile
from slashtag.sandbox import Fault, Sandbox
from tests.support.sending import connect
from tests.support.wire import Answer, Request, Wire, ok

ACCOUNT = {"urls": 0, "clicks": 0}
FIRST = 1_000_001


@pytest.fixture
def box(box: Sandbox) -> Sandbox:
    for n in range(6):
        box.add_url(f"a{n}", destination=f"https://www.example/{n}", redirect_code=302)
    return box


def puts(box: Sandbox) -> list[int]:
    return [int(each.path.rpartition("/")[2]) - FIRST for each in box.requests if each.method == "PUT"]


async def run(session: AsyncSession, path: Path, text: str, **options: bool) -> list[tuple[int, str]]:
    path.write_text(text)
    async with BulkUpdate(session, path, **options) as update:
        return [(outcome.line, outcome.status) async for outcome in update]


# --- the same change ------------------------------------------------------------------------------------

#: The change of one link: the first time, and as the next run has it.
SAME = {
    "an untouched column is deleted": (
        "slashtag,destination,redirect_code,password\na1,https://new.example/,302,hush\n",
        "slashtag,destination,password\na1,https://new.example/,hush\n",
    ),
    "an untouched column is added": (
        "slashtag,password\na1,hush\n",
        "slashtag,password,redirect_code,destination\na1,hush,302,https://www.example/1\n",
    ),
    "the columns come in another order": (
        "slashtag,destination,password\na1,https://new.example/,hush\n",
        "password,slashtag,destination\nhush,a1,https://new.example/\n",
    ),
    "the link is named by its id": (
        "slashtag,destination,password\na1,https://new.example/,hush\n",
        f"id,password,destination\n{FIRST + 1},hush,https://new.example/\n",
    ),
    "a rename by slashtag": (
        "slashtag,new_slashtag,redirect_code,password\na1,b1,302,hush\n",
        "slashtag,new_slashtag,password\na1,b1,hush\n",
    ),
    "a listing": (
        f"id,slashtag,destination,redirect_code,created_at,password\n{FIRST + 1},a1,https://new.example/,302,,hush\n",
        f"slashtag,id,password,destination,created_at\na1,{FIRST + 1},hush,https://new.example/,\n",
    ),
    "a listing, as changes": (
        f"id,slashtag,destination,created_at,password\n{FIRST + 1},a1,https://new.example/,,hush\n",
        f"id,destination,password\n{FIRST + 1},https://new.example/,hush\n",
    ),
}
same = pytest.mark.parametrize(("first", "then"), SAME.values(), ids=SAME)


@pytest.mark.unmeasured
@same
@pytest.mark.parametrize("status", ["done", "unknown"])
async def test_the_same_change_is_made_once_whatever_the_columns_of_its_row(
    box: Sandbox, session: AsyncSession, tmp_path: Path, first: str, then: str, status: str
) -> None:
    path = tmp_path / "changes.csv"
    box.faults = [Fault(kind="reset", method="PUT", after_work=True)] if status == "unknown" else []
    assert await run(session, path, first) == [(2, status)]
    box.faults = []
    for _ in range(2):
        assert await run(session, path, then) == ([(2, "unknown")] if status == "unknown" else [])
    assert puts(box) == [1]
    if status == "unknown":
        assert await run(session, path, then, repeat_lost=True) == [(2, "done")]


@pytest.mark.parametrize("fault", ["reset", "500"])
async def test_a_change_that_was_done_stays_done_without_its_untouched_column(
    box: Sandbox, session: AsyncSession, tmp_path: Path, fault: str
) -> None:
    """Also if somebody changes the link later, and another change of it fails."""
    path = tmp_path / "changes.csv"
    assert await run(session, path, "slashtag,destination,redirect_code\na1,https://new.example/,302\n")
    await session.urls.update(FIRST + 1, destination="https://other.example/")
    box.faults = [Fault(kind="500", method="PUT")]
    assert await run(session, path, "slashtag,redirect_code\na1,307\n") == [(2, "failed")]
    box.faults = []
    assert await run(session, path, "slashtag,destination\na1,https://new.example/\n") == []
    assert await run(session, path, "slashtag,redirect_code\na1,307\n") == [(2, "done")]
    # After another change of the link it is a change again.
    assert await run(session, path, "slashtag,destination\na1,https://new.example/\n") == [(2, "done")]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "then",
    [
        "slashtag,destination\na1,https://third.example/\n",
        "slashtag,redirect_code\na1,308\n",
        f"id,new_slashtag\n{FIRST + 1},b1\n",
        f"id,slashtag,destination,created_at\n{FIRST + 1},a1,https://third.example/,\n",
    ],
)
async def test_a_link_whose_last_change_has_no_answer_is_held_back_whatever_its_row_is_now(
    box: Sandbox, session: AsyncSession, tmp_path: Path, then: str
) -> None:
    path = tmp_path / "changes.csv"
    box.faults = [Fault(kind="reset", method="PUT")]  # it was not done, and nobody can know
    first = "slashtag,destination,redirect_code\na1,https://new.example/,302\n"
    assert await run(session, path, first) == [(2, "unknown")]
    box.faults = []
    for text in (then, then, first):
        assert await run(session, path, text) == [(2, "unknown")]
        assert (await BulkUpdate(session, path).preview()).unknown == 1
    assert puts(box) == [1]
    # The link shows that it was done after all.
    await session.urls.update(FIRST + 1, destination="https://new.example/")
    assert await run(session, path, then) == [(2, "done")]
    assert await run(session, path, then) == []


@pytest.mark.parametrize("status", ["sent", "unknown", "done"])
@pytest.mark.parametrize("is_same", [True, False])
async def test_lines_without_a_version_count(
    session: AsyncSession, box: Sandbox, tmp_path: Path, status: str, is_same: bool
) -> None:
    path, results = tmp_path / "changes.csv", tmp_path / "changes.results.jsonl"
    change = Change("a1", destination="https://new.example/", password="hush")
    with OutcomeFile(results, session) as file:
        fingerprint = file.digest(astuple(change))
    heading = json.loads(results.read_text())
    line = {"line": 2, "key": "a1", "status": status, "rows_updated": None, "error": None, "id": FIRST + 1}
    lines = [
        {name: heading[name] for name in ("salt", "account")},
        line | {"fingerprint": fingerprint, "at": ""},
    ]
    results.write_text("".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in lines))
    other = "slashtag,password,redirect_code\na1,hush,307\n"
    text = "slashtag,destination,password\na1,https://new.example/,hush\n" if is_same else other
    told = await run(session, path, text)
    if status != "done":
        assert (told, puts(box)) == ([(2, "unknown")], [])
    else:
        assert (told, puts(box)) == (([], []) if is_same else ([(2, "done")], [1]))


# --- slashtags that other links have ---------------------------------------------------------------------


@pytest.fixture
def domains(box: Sandbox) -> Sandbox:
    """Links of several domains: b0 to b2 on the second one, a1 on both."""
    for n in range(3):
        box.add_url(f"b{n}", domain_id=1)
    box.add_url("a1", domain_id=1)
    return box


def row(id: int, slashtag: str) -> str:
    return f"{FIRST + id},{slashtag}\n"


TAKEN = {
    "another link has it": (row(2, "a3"), [2]),
    "another domain's link has it": (row(2, "b1"), []),
    "on that domain too": (row(2, "a1") + row(6, "a1"), [2, 3]),
    "twice in the file": (row(2, "new") + row(3, "new"), [3]),
    "twice, on different domains": (row(2, "new") + row(6, "new"), []),
    "a swap": (row(2, "a3") + row(3, "a2"), [2, 3]),
    "a chain": (row(2, "a3") + row(3, "new"), [2]),
    "a chain, the last first": (row(3, "new") + row(2, "a3"), [3]),
    "its own": (row(2, "a2") + row(3, "new"), []),
}


@pytest.mark.parametrize(("rows", "lines"), TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("columns", ["id,new_slashtag", "id,slashtag,short_url"])
async def test_a_slashtag_that_another_link_of_the_domain_has_is_an_error(
    domains: Sandbox, session: AsyncSession, tmp_path: Path, rows: str, lines: list[int], columns: str
) -> None:
    path = tmp_path / "changes.csv"
    if columns.endswith("short_url"):
        rows = rows.replace("\n", ",\n")
    path.write_text(f"{columns}\n{rows}")
    for is_dry in (True, False):
        found: list[int] = []
        try:
            async with BulkUpdate(session, path) as update:
                await (update.preview() if is_dry else anext(update))
        except ChangesError as error:
            found = [problem.line for problem in error.problems]
        assert found == lines
        assert bool(puts(domains)) == (not lines and not is_dry)


async def test_a_change_that_was_done_takes_no_slashtag(
    domains: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    path = tmp_path / "changes.csv"
    assert await run(session, path, "slashtag,new_slashtag\na2,new\n") == [(2, "done")]
    # Somebody else has it now, and this one has another.
    await session.urls.update(FIRST + 2, slashtag="newer")
    await session.urls.update(FIRST + 3, slashtag="new")
    assert await run(session, path, "slashtag,new_slashtag\na2,new\n") == []


# --- doubtful values -------------------------------------------------------------------------------------

DOUBTFUL = {
    "slashtag,destination\na1,htps://shop.example/\n": True,
    "slashtag,destination\na1,myapp://open/42\n": True,
    "slashtag,destination\na1,javascript:alert(1)\n": True,
    "slashtag,new_slashtag\na1,sale/2024\n": True,
    "slashtag,destination\na1,HTTPS://shop.example/\n": False,
    "slashtag,destination\na1,mailto:shop@shop.example\n": False,
    "slashtag,destination\na1,tel:+4930123456\n": False,
    "slashtag,destination\na5,myapp://present/\n": False,
}


@pytest.mark.unmeasured
@pytest.mark.parametrize(("text", "is_doubtful"), DOUBTFUL.items())
async def test_what_is_doubtful_is_sent_once_it_is_confirmed(
    box: Sandbox, session: AsyncSession, tmp_path: Path, text: str, is_doubtful: bool
) -> None:
    await session.urls.update(FIRST + 5, destination="myapp://present/")
    path = tmp_path / "changes.csv"
    path.write_text(text)
    doubts = (await BulkUpdate(session, path).preview()).doubts
    assert [doubt.line for doubt in doubts] == ([2] if is_doubtful else [])
    if is_doubtful:
        for confirm in (False, lambda _: False):
            with pytest.raises(DoubtfulChangesError):
                await anext(BulkUpdate(session, path, confirm=confirm))
            assert [file.name for file in path.parent.glob("*.results.jsonl")] == []
        assert puts(box) == [5]
    asked: list[object] = []

    def confirm(found: object) -> bool:
        asked.append(found)
        return True

    assert [each.status async for each in BulkUpdate(session, path, confirm=confirm)] == ["done"]
    assert asked == ([list(doubts)] if is_doubtful else [])
    # What is done is not asked about.
    assert [each async for each in BulkUpdate(session, path)] == []


# --- whose change it was ---------------------------------------------------------------------------------

LISTED = "id,slashtag,destination,redirect_code,updated_at\n"


@pytest.mark.unmeasured
@pytest.mark.parametrize("then", ["https://third.example/,302", "https://new.example/,307"])
@pytest.mark.parametrize("elsewhere", [None, {"destination": "https://x.example/"}, {"redirect_code": 308}])
async def test_a_link_that_is_as_this_file_left_it_was_changed_by_nobody_else(
    box: Sandbox, session: AsyncSession, tmp_path: Path, then: str, elsewhere: dict[str, Any] | None
) -> None:
    path = tmp_path / "links.csv"
    row = f"{FIRST + 1},a1,https://new.example/,302,2024-01-01 00:00:00\n"
    box.store.write("UPDATE link SET updated_at = ? WHERE slashtag = 'a1'", (1_704_067_200,))
    assert await run(session, path, LISTED + row) == [(2, "done")]
    # The same file once more, with the time of the listing: nothing is left.
    assert await run(session, path, LISTED + row) == []
    if elsewhere is not None:
        await session.urls.update(FIRST + 1, **elsewhere)
    changed = LISTED + row.replace("https://new.example/,302", then)
    if elsewhere is None:
        assert await run(session, path, changed) == [(2, "done")]
    else:
        with pytest.raises(ChangesError):
            await run(session, path, changed)


# --- how old the listing is ------------------------------------------------------------------------------


def old_answers() -> Iterator[tuple[str, Callable[[], dict[str, str]], bool]]:
    yield "Age", lambda: {"Age": "600"}, True
    yield "Age of seconds", lambda: {"Age": "5"}, True
    yield (
        "Age, and a Date ahead",
        lambda: {"Age": "600", "Date": formatdate(time() + 32_400, usegmt=True)},
        True,
    )
    yield "Age: 0", lambda: {"Age": "0"}, False
    yield "a Date ahead", lambda: {"Date": formatdate(time() + 32_400, usegmt=True)}, False
    yield "a clock that differs by a minute", lambda: {"Date": formatdate(time() - 60, usegmt=True)}, False


@pytest.mark.parametrize(
    ("headers", "is_old"), [each[1:] for each in old_answers()], ids=[e[0] for e in old_answers()]
)
@pytest.mark.parametrize("guard", ["2024-01-01 00:00:00", ""])
async def test_a_listing_that_is_older_than_it_was_asked_for_guards_nothing(
    tmp_path: Path, headers: Callable[[], dict[str, str]], is_old: bool, guard: str
) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "PUT":
            return ok({"rows_updated": 1})
        link = {"id": 1, "slashtag": "a1", "destination": "https://old.example/", "redirectCode": "302"}
        items = [link | {"updatedAt": "2024-01-01 00:00:00"}] if "urls" in request.path else []
        return ok({"page": 1, "pageSize": 500, "items": items}, list(headers().items()) if items else ())

    path = tmp_path / "links.csv"
    path.write_text(f"id,slashtag,destination,updated_at\n1,a1,https://new.example/,{guard}\n")
    async with Wire(answer) as wire, connect(wire) as session:
        update = BulkUpdate(session, path)
        if is_old and guard:
            with pytest.raises(UnexpectedResponseError):
                await BulkUpdate(session, path).preview()
            with pytest.raises(UnexpectedResponseError):
                await anext(update)
        else:
            assert [outcome.status async for outcome in update] == ["done"]
        sent = [request for request in wire.requests if request.method == "PUT"]
    assert len(sent) == (not (is_old and guard))
