"""What is doubtful of changes, and that it is sent once it is confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from slashtag import AsyncSession
from slashtag.bulk_update import BulkUpdate, DoubtfulChangesError
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
    "slashtag,new_slashtag\n007,7\na,https://sho.example/e\nb,b\u200b\n": [2, 3, 4],
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
    if lines:
        with pytest.raises(DoubtfulChangesError):
            await anext(BulkUpdate(session, path))
        assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["changes.csv"]
    assert not any(arrival.method == "PUT" for arrival in box.requests)
    outcomes = [each.status async for each in BulkUpdate(session, path, confirm=True)]
    assert outcomes == ["done"] * len(preview.sent)
    # What is done is not doubtful any more.
    assert [each async for each in BulkUpdate(session, path)] == []


REFORMATTED = [
    ("007", "7"),
    ("1e5", "100000"),
    ("1e5", "1.00E+05"),
    ("12345678901234567890", "1.23457E+19"),
    ("mar-1", "01-Mar"),
    ("jan-24", "Jan-24"),
    ("2024-01-02", "02.01.2024"),
    ("2024-05-06", "5/6/2024"),
]
RENAMED = [
    ("7", "8"),
    ("1_0", "10"),
    ("007", "sale-7"),
    ("spring", "Spring"),
    ("1", "1e5"),
    ("spring", "01-Mar"),
    ("new-app-16", "app-16"),
    ("2024-05-06", "2025-05-06"),
]


@pytest.mark.parametrize(("before", "after"), [*REFORMATTED, *RENAMED])
def test_a_slashtag_that_a_spreadsheet_has_rewritten_is_doubtful(before: str, after: str) -> None:
    assert is_reformatted(before, after) is ((before, after) in REFORMATTED)
