"""What is doubtful of changes: characters that no browser sends, and typos among neighbouring rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import AsyncSession
from slashtag.bulk_update import BulkUpdate, ChangesError
from slashtag.bulk_update._doubts import typos
from slashtag.sandbox import Sandbox

ACCOUNT = {"urls": 0, "clicks": 0}
SHOP = "https://shop.example/landing/{}?utm_campaign=spring"
WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=12)


def lines_of(after: list[str], before: list[str] | None = None) -> list[int]:
    rows = zip(range(2, len(after) + 2), before or [""] * len(after), after, strict=True)
    return [problem.line for problem in typos(list(rows))]


@pytest.mark.parametrize(
    ("wrong", "lines"),
    [
        ({3: "shop.exmaple"}, [5]),
        ({3: "shop.exmaple", 4: "shop.exmaple"}, [5, 6]),  # as filled down in a spreadsheet
        ({0: "shp.example"}, []),  # of three letters, which may be another word
        ({0: "shopp.example", 9: "shop.exampl"}, [2, 11]),
        (dict.fromkeys(range(0, 10, 2), "shop.examples"), []),  # half of them
        ({3: "blog.another"}, []),
    ],
)
def test_a_word_that_differs_from_that_of_its_neighbours_is_doubtful(
    wrong: dict[int, str], lines: list[int]
) -> None:
    rows = [SHOP.format(n).replace("shop.example", wrong.get(n, "shop.example")) for n in range(10)]
    assert lines_of(rows) == lines


@pytest.mark.parametrize(
    "rows",
    [
        [SHOP.format(n) for n in range(30)],
        [f"https://shop.example/{word}" for word in ("men", "women", "de", "en", "a", "b")],
        [f"https://shop.example/{word}" for word in ("spring", "string")],
        [],
        ["mailto:shop@shop.example"],
    ],
)
def test_other_destinations_are_not(rows: list[str]) -> None:
    assert lines_of(rows) == []


def test_a_word_that_the_destination_had_before_is_no_typo() -> None:
    """Only the campaign changes, of a page about bags among pages about hats."""
    before = [f"https://shop.example/{'bags' if n == 9 else 'hats'}?utm_campaign=autumn" for n in range(16)]
    after = [each.replace("autumn", "winter") for each in before]
    assert lines_of(after, before) == []
    assert lines_of(after, [each.replace("bags", "hats") for each in before]) == [11]


@given(WORDS, st.integers(0, 29), st.data())
def test_one_typo_in_any_row_is_found_and_no_other_row(word: str, row: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    mistyped = data.draw(
        st.sampled_from([word[:at] + word[at] + word[at:], word[:at] + "x" + word[at + 1 :], word + "x"])
    )
    rows = [f"https://{word}.example/{n}" for n in range(30)]
    rows[row] = rows[row].replace(word, mistyped)
    assert lines_of(rows) == ([row + 2] if mistyped != word else [])


DOUBTFUL = [
    "https://shop.example/\u200b",
    "https://shop.example/\u00ad",
    'https://shop.example/"',
    "https://shop.example/{campaign}",
    "https://shop.example\\sale",
    "https://shop.example/100%",
    "https://shop.example/%zz",
    "https://shop.example/?campaign=\u201cxmas\u201d",
    "https://shop.example/\u201exmas\u201c",
    "https://shop,example/",
    "https://shop..example/",
    "https://https://shop.example/",
    "https://shop.example:/8080",
    "https://ana@shop!example?q",
]
FINE = [
    "https://shop.example/ü?q=%20&a=1,2#x",
    "https://shop.example/夏",
    "https://shop.example/👨\u200d👩",
    "https://夏.example",
    "https://💩.example:8080/a,b",
    "HTTPS://ana:x,y@shop_1.example./?q=https://a,b",
    "http://[2001:db8::1]:80/#a",
    "https://localhost?x",
]


@pytest.mark.parametrize("destination", [*DOUBTFUL, *FINE])
async def test_characters_that_no_browser_sends_are_doubtful(
    session: AsyncSession, box: Sandbox, tmp_path: Path, destination: str
) -> None:
    box.add_url("odd")
    path = tmp_path / "changes.jsonl"
    path.write_text(json.dumps({"slashtag": "odd", "destination": destination}))
    preview = await BulkUpdate(session, path).preview()
    assert [doubt.line for doubt in preview.doubts] == ([2] if destination in DOUBTFUL else [])


@pytest.mark.parametrize("is_listing", [False, True])
async def test_errors_and_doubts_are_found_in_one_run(
    session: AsyncSession, box: Sandbox, tmp_path: Path, is_listing: bool
) -> None:
    """Errors of the file alone, and of an edited listing, which needs the links."""
    rows = []
    for n, (code, destination) in enumerate([("", DOUBTFUL[0]), ("abc", FINE[0]), ("999999", FINE[1])]):
        link = box.add_url(f"k{n}")
        rows.append((f"{link},k{n}," if is_listing else f"k{n},") + f'"{destination}",{code}')
    path = tmp_path / "changes.csv"
    created = ",created_at" if is_listing else ""
    header = f"{'id,' * is_listing}slashtag,destination,redirect_code{created}"
    path.write_text("\n".join([header, *(row + "," * is_listing for row in rows)]))
    for confirm in (False, True):
        with pytest.raises(ChangesError) as caught:
            await BulkUpdate(session, path, confirm=confirm).preview()
        assert [problem.line for problem in caught.value.problems] == [3, 4]
        assert [doubt.line for doubt in caught.value.doubts] == ([] if confirm else [2])
    assert all(arrival.method == "GET" for arrival in box.requests)


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
async def test_a_slashtag_that_a_spreadsheet_has_rewritten_is_doubtful(
    session: AsyncSession, box: Sandbox, tmp_path: Path, before: str, after: str
) -> None:
    link = box.add_url(before)
    path = tmp_path / "changes.csv"
    path.write_text(f"id;new_slashtag\r\n{link};{after}\r\n")
    preview = await BulkUpdate(session, path).preview()
    assert [doubt.line for doubt in preview.doubts] == ([2] if (before, after) in REFORMATTED else [])
