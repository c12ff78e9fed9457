"""What is doubtful of changes, and that it is sent once it is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from slashtag import AsyncSession
from slashtag.bulk_update import BulkUpdate, DoubtfulChangesError, Problem
from slashtag.bulk_update._doubts import is_reformatted
from slashtag.sandbox import Sandbox

ACCOUNT = {"urls": 0, "clicks": 0}
#: Rows of a file of changes, and the lines that are doubtful. Links a and b lead elsewhere, c to a.
ROWS = {
    "slashtag,destination\na,htps://shop.example/\n": [2],
    "slashtag,destination\na,myapp://open/42\n": [2],
    "slashtag,destination\na,HTTPS://shop.example/?q=a&b\nb,mailto:shop@shop.example\n": [],
    "slashtag,destination,redirect_code\napp,myapp://present/,302\n": [],
    "slashtag,destination\na,https://x.example/?a=1&amp;b=2\n": [2],
    "slashtag,destination\na,https://sho.example/a\n": [2],
    "slashtag,destination\na,http://SHO.example/a/?utm=1#x\n": [2],
    "slashtag,destination\na,https://sho.example/b\nb,https://sho.example/a\n": [2, 3],
    "slashtag,destination\na,https://sho.example/c\n": [2],
    "slashtag,destination\na,https://sho.example/b\nb,https://x.example/\n": [],
    "slashtag,destination\na,https://sho.example/b\nb,https://sho.example/d\nd,https://sho.example/b\n": [
        3,
        4,
    ],
    "slashtag,new_slashtag,destination\na,d2,https://sho.example/d2\nb,,https://sho.example/a\n": [2],
    "slashtag,redirect_code\nself,307\n": [],
    "slashtag,new_slashtag\n007,7\n": [2],
}


@pytest.fixture
def box(box: Sandbox) -> Sandbox:
    for name in ("a", "b", "d", "007"):
        box.add_url(name)
    box.add_url("c", destination="https://sho.example/a")
    box.add_url("self", destination="https://sho.example/self")
    box.add_url("app", destination="myapp://present/")
    return box


@pytest.mark.parametrize(("text", "lines"), ROWS.items())
async def test_what_is_doubtful_is_sent_once_it_is_confirmed(
    box: Sandbox, session: AsyncSession, tmp_path: Path, text: str, lines: list[int]
) -> None:
    path = tmp_path / "changes.csv"
    path.write_text(text)
    preview = await BulkUpdate(session, path).preview()
    assert [doubt.line for doubt in preview.doubts] == lines
    for answers in (False, Mock(return_value=False)) if lines else ():
        with pytest.raises(DoubtfulChangesError):
            await anext(BulkUpdate(session, path, confirm=answers))
        assert [file.name for file in tmp_path.iterdir()] == ["changes.csv"]
    assert not any(arrival.method == "PUT" for arrival in box.requests)
    asked: list[Sequence[Problem]] = []

    def confirm_once(found: Sequence[Problem]) -> bool:
        asked.append(found)
        return True

    outcomes = [each.status async for each in BulkUpdate(session, path, confirm=confirm_once)]
    assert outcomes == ["done"] * len(preview.sent)
    assert asked == ([list(preview.doubts)] if lines else [])
    # What is done is not asked about.
    assert [each async for each in BulkUpdate(session, path)] == []


async def test_what_is_changed_while_somebody_is_asked_is_not_overwritten(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    (tmp_path / "changes.csv").write_text("slashtag,destination\na,htps://shop.example/\n")

    def confirm(_: Sequence[Problem]) -> bool:
        box.store.write("UPDATE link SET redirect_code = 308 WHERE slashtag = ?", ("a",))
        return True

    assert len([each async for each in BulkUpdate(session, tmp_path / "changes.csv", confirm=confirm)]) == 1
    (link,) = [url for url in box.truth.urls() if url.slashtag == "a"]
    assert (link.destination, link.redirect_code) == ("htps://shop.example/", 308)


REFORMATTED = [
    ("007", "7"),
    ("1e5", "100000"),
    ("1e5", "1.00E+05"),
    ("12345678901234567890", "1.23457E+19"),
    ("3.50", "3.5"),
    ("true", "TRUE"),
    ("mar-1", "01-Mar"),
    ("jan-24", "Jan-24"),
    ("2024-01-02", "02.01.2024"),
]
RENAMED = [
    ("7", "8"),
    ("1_0", "10"),
    ("007", "sale-7"),
    ("spring", "Spring"),
    ("v1", "v2"),
    ("1", "1e5"),
    ("spring", "01-Mar"),
]


@pytest.mark.parametrize(("before", "after"), [*REFORMATTED, *RENAMED])
def test_a_slashtag_that_a_spreadsheet_has_rewritten_is_doubtful(before: str, after: str) -> None:
    assert is_reformatted(before, after) is ((before, after) in REFORMATTED)
