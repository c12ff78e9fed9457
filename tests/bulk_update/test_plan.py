"""What is to become of each row: the table of decisions, which link it is about, what must not be sent."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from slashtag import AsyncSession, Change
from slashtag.bulk_update import BulkUpdate, ChangesError, RowOutcome
from slashtag.bulk_update._outcome_file import Seen
from slashtag.bulk_update._plan import decide
from slashtag.sandbox import Sandbox
from tests.support.sending import connect

ACCOUNT = {"urls": 0, "clicks": 0, "tags": 0}
FIRST = 1_000_001

#: What runs found of a link, and left of it; what it is now, and what the row wants.
DECISIONS = """
history     present  wanted  decision
-           a        a       unchanged
-           a        b       send
a b         a        b       send
a b         b        b       unchanged
a b         c        b       changed
a b         a        c       send
a b         b        c       send
a b         c        c       unchanged
a b c       a        c       send
a b c       b        c       send
a b c       d        c       changed
a a         c        a       changed
"""


@pytest.mark.parametrize("line", DECISIONS.strip().splitlines()[1:])
def test_base_wanted_and_present_decide(line: str) -> None:
    before, (present, wanted, decision) = line[:12].split(), line[12:].split()
    states = [{"destination": each} for each in before if each != "-"]
    history = [Seen(id=1, key=1, base=base, after=after, hidden="") for base, after in pairwise(states)]
    given, now = {"destination": wanted}, {"destination": present, "slashtag": "s"}
    assert decide(given, "", now, history, "") == decision
    # What no listing shows is sent, unless it was done before.
    for done in ("", "another", "hash"):
        is_left = decision == "unchanged" and done != "hash"
        assert decide(given, "hash", now, history, done) == ("send" if is_left else decision)


def puts(box: Sandbox) -> list[tuple[int, object]]:
    arrivals = [each for each in box.requests if each.method == "PUT"]
    return [(int(each.path.rpartition("/")[2]), json.loads(each.body)) for each in arrivals]


async def run(session: AsyncSession, path: Path, text: str) -> list[RowOutcome]:
    path.write_text(text)
    async with BulkUpdate(session, path) as update:
        return [outcome async for outcome in update]


# --- which link it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("007", 0),
        ("2025", 1),
        ("7", None),
        (str(FIRST + 2), None),
        (FIRST + 2, 2),
        ("GO.example/twice/", 4),
        ("http://sho.example/twice?utm=1", 3),
        ("https://sho.example/what? 1", 2),
        ("twice", None),
        ("https://go.example/#7", 6),
        (FIRST, None),  # which the service may take for the slashtag of another link
    ],
)
async def test_a_link_is_found_by_slashtag_short_url_or_id_and_changed_by_its_id(
    tmp_path: Path, key: str | int, found: int | None
) -> None:
    async with Sandbox(urls=0, clicks=0) as box:
        links = [box.add_url(each) for each in ("007", "2025", "what? 1", "twice")]
        links += [box.add_url(each, domain_id=n) for each, n in (("twice", 1), ("#7", 0), ("#7", 1))]
        if key == FIRST:
            box.add_url(str(FIRST))
        async with connect(box) as session:
            change = [Change(key, redirect_code=307)]
            update = BulkUpdate(session, change, outcomes=tmp_path / "o")
            (outcome,) = [each async for each in update]
        assert (outcome.status, outcome.id) == (("failed", None) if found is None else ("done", links[found]))
        assert [id for id, _ in puts(box)] == ([] if found is None else [links[found]])


async def test_a_rerun_finds_a_link_that_was_renamed(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    """Also where another link has its slashtag by now."""

    async def statuses(text: str) -> list[str]:
        return [each.status for each in await run(session, tmp_path / "c.csv", text)]

    text = "slashtag,new_slashtag,redirect_code\nhttp://sho.example/a1,b1,307\n"
    assert await statuses(text) == ["done"]
    box.add_url("a1")
    assert await statuses(text) == []
    # Nor is the link that was renamed changed in place of the one that is named now.
    assert await statuses(text.replace("b1,307", ",302")) == ["changed"]
    # What is not sent takes no slashtag from another link.
    box.store.write("UPDATE link SET slashtag = ? WHERE slashtag = ?", ("b2", "b1"))
    box.add_url("b1")
    assert await statuses(text) == ["changed"]


async def test_the_present_destination_and_redirect_code_are_sent_along(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    """But for a value that cannot be sent."""
    box.add_url("old", destination="no scheme", redirect_code=308)
    rows = ("a1,b1,,,", "a2,,https://x.example/,,", "a3,a0,,,1", "old,new,,,")
    changes = "\n".join(["slashtag,new_slashtag,destination,redirect_code,domain_id", *rows])
    await run(session, tmp_path / "changes.csv", changes)
    assert sorted(puts(box), key=str) == [
        (FIRST + 1, {"destination": "https://www.example/1", "slashtag": "b1", "redirect_code": 302}),
        (FIRST + 2, {"destination": "https://x.example/", "redirect_code": 302}),
        # On another domain a slashtag may be that of a link.
        (
            FIRST + 3,
            {"destination": "https://www.example/3", "slashtag": "a0", "redirect_code": 302, "domain_id": 1},
        ),
        (FIRST + 20, {"slashtag": "new", "redirect_code": 308}),
    ]


# --- what must not be sent -------------------------------------------------------------------------------

#: The file, and the lines of its errors.
WRONG = {
    "a slashtag of another link": ("slashtag,new_slashtag\na1,b1\na2,a3\na4,b1\n", [3, 4]),
    "a link twice": (f"slashtag,id,redirect_code\na1,,301\n,{FIRST + 1},307\n", [3]),
    "no column of links": ("destination\nhttps://x.example/\n", [1]),
    "a misspelt column": ("slashtag,destinations\na1,https://x.example/\n", [1]),
    "a column of listings only": ("slashtag,tag_name,redirect_code\na1,summer,307\n", [1]),
    "cells": (
        "slashtag,id,destination,redirect_code,new_slashtag,password\na1,,x.example,,,\na2,,,300,,\n"
        f'a3,7,,301,,\n,,,301,,\n,seven,,301,,\na4,,,,"a,b",\na5,,,,a b,\na0,,,,,{"p" * 51}\na0,,,,,\n',
        [2, 3, 4, 5, 6, 7, 8, 9, 10],
    ),
    "a tag of a listing": (
        f"id,slashtag,tag_name\n{FIRST},a0,\n{FIRST + 1},a1,summer\n{FIRST + 2},a2,spring\n",
        [3],
    ),
    "a value of a listing": (
        f"id,slashtag,destination,hits\n{FIRST},a0,https://www.example/0,1\n{FIRST + 1},a1,x,1\n",
        [3],
    ),
}


@pytest.mark.parametrize(("text", "lines"), WRONG.values(), ids=WRONG)
async def test_errors_of_a_file_are_all_told_and_nothing_is_sent(
    box: Sandbox, session: AsyncSession, tmp_path: Path, text: str, lines: list[int]
) -> None:
    with pytest.raises(ChangesError) as raised:
        await run(session, tmp_path / "changes.csv", text)
    assert [problem.line for problem in raised.value.problems] == lines
    assert str(raised.value).startswith(f"{len(lines)} error")
    assert "ppp" not in f"{raised.value}{raised.value.problems}"
    assert puts(box) == []
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == ["changes.csv"]


async def test_rows_of_a_listing_are_sent_where_they_differ_and_nobody_has_updated_the_link_since(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    box.store.write("UPDATE link SET updated_at = ?", (1_704_067_200,))
    box.store.write("UPDATE link SET updated_at = updated_at + 1 WHERE slashtag = ?", ("a3",))
    rows = [
        f"{FIRST},a0,https://www.example/0,302.0,2024-01-01 00:00:00",
        f"{FIRST + 1},b1,https://www.example/1,302,2024-01-01T00:00:00",
        f"{FIRST + 2},a2,https://x.example/,302,",
        f"{FIRST + 3},a3,https://x.example/,302,2024-01-01 00:00:00",
        f"{FIRST + 4},a4,https://x.example/,302,01/01/2024",
        f"{FIRST + 5},b5,https://www.example/5,302,",
        f"{FIRST + 6},a6,https://www.example/6,302,",
    ]
    # The short URL of one that is renamed is what it was, that of the next what it becomes.
    listed = [f"{row},https://sho.example/{'aaaaabc'[n]}{n}" for n, row in enumerate(rows)]
    text = "\n".join(["id,slashtag,destination,redirect_code,updated_at,short_url", *listed])
    for again in (False, True):
        # As a data frame writes it.
        outcomes = await run(session, tmp_path / "links.csv", text)
        done = [] if again else [(3, "done"), (4, "done"), (7, "done")]
        assert sorted((each.line, each.status) for each in outcomes) == sorted(
            [*done, (5, "changed"), (6, "changed"), (8, "changed")]
        )
    preview = await BulkUpdate(session, tmp_path / "links.csv").preview()
    assert (preview.unchanged, [each.status for each in preview.left]) == (4, ["changed"] * 3)
    assert sorted(id - FIRST for id, _ in puts(box)) == [1, 2, 5]
    # Listed again, a row is about the link as it was then, which somebody else has renamed since.
    box.store.write("UPDATE link SET slashtag = ? WHERE slashtag = ?", ("a1", "b1"))
    outcomes = await run(session, tmp_path / "links.csv", text.replace("00:00:00", "00:00:01"))
    assert sorted((each.line, each.status) for each in outcomes)[:2] == [(3, "changed"), (5, "done")]


async def test_a_link_that_was_as_wanted_is_not_sent_once_somebody_has_changed_it(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    text = "slashtag,destination\na1,https://www.example/1\na2,https://other.example/\n"
    assert [each.status for each in await run(session, tmp_path / "changes.csv", text)] == ["done"]
    box.store.write("UPDATE link SET destination = ? WHERE slashtag = ?", ("https://theirs.example/", "a1"))
    assert [each.status for each in await run(session, tmp_path / "changes.csv", text)] == ["changed"]
    assert len(puts(box)) == 1
