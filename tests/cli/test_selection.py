"""Which links a command is about: looked up, and what is not found is told with exit code 3."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl import Workbook

from slashtag.sandbox import Sandbox
from slashtag.tables import About, Column, Table, open_table

from .conftest import Cli, answer, objects

SPAN = "2024-06"


def clicks(cli: Cli, *arguments: str) -> int:
    ran = cli("stats", SPAN, *arguments)
    assert ran.code == 0, ran.err
    return int(objects(ran.out)[0]["clicks"])


def true(box: Sandbox, *slashtags: str) -> int:
    found = box.truth.range("2024-06-01", "2024-06-30", keys=slashtags).total_clicks
    assert found > 0
    return found


@pytest.fixture
def slashtags(box: Sandbox) -> list[str]:
    """Three slashtags with clicks."""
    return [url.slashtag for url in sorted(box.truth.urls(), key=lambda url: -url.hits)[:3]]


def test_each_option_selects_the_same_links(
    cli: Cli, box: Sandbox, slashtags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = true(box, *slashtags)
    short_urls = [url.short_url for url in box.truth.urls() if url.slashtag in slashtags]
    assert clicks(cli, "--keys", " , ".join(slashtags)) == count
    assert clicks(cli, "--keys", ",".join(short_urls)) == count
    assert (
        clicks(cli, "--keys", ",".join(slashtags[:2]), "--keys", f"{slashtags[2]},{short_urls[0]}") == count
    )
    for given in (slashtags, ["slashtag,short_url", *(f"x,{url}" for url in short_urls)]):
        answer(monkeypatch, *given)
        assert clicks(cli, "--keys-file", "-") == count


def test_what_no_link_has_is_told_and_the_rest_is_counted(
    cli: Cli, box: Sandbox, slashtags: list[str]
) -> None:
    ran = cli("stats", SPAN, "--keys", f"{slashtags[0]}x,{slashtags[1]}")
    assert (ran.code, f"(did you mean {slashtags[0]!r}?)" in ran.err) == (3, True)
    assert objects(ran.out)[0]["clicks"] == true(box, slashtags[1])
    ran = cli("stats", SPAN, "--keys", f"{slashtags[0]}x")
    assert (ran.code, ran.out) == (3, "")


@pytest.mark.parametrize(
    "arguments", [("--keys", " , "), ("--keys-file", "-"), ("--keys", "a", "--untagged"), ("--tag", "nobody")]
)
def test_a_selection_of_nothing_or_of_two_ways_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    answer(monkeypatch)
    assert cli("stats", SPAN, *arguments).code == 2
    assert cli("top", SPAN, *arguments).code == 2


# -- files


def lines(keys: list[str], before: str = "", form: str = "{0}") -> bytes:
    return "".join([before, *(f"{form.format(key, n)}\n" for n, key in enumerate(keys))]).encode()


def workbook(keys: list[str]) -> bytes:
    book, file = Workbook(), io.BytesIO()
    sheet = book.create_sheet("keys", 0)
    sheet.append(["Tag Name", "Slashtag"])
    for key in keys:
        sheet.append([True, key])
    book.save(file)
    return file.getvalue()


WAYS: dict[str, Callable[[list[str]], bytes]] = {
    "plain": lambda keys: lines([*keys, "# ours, of May"]),
    "semicolons": lambda keys: lines(keys, "id;slashtag\r\n", "{1};{0}\r"),
    "after a comment": lambda keys: lines(keys, "# of today\ntag_name,slashtag\n", "#sale,{0}"),
    "UTF-16": lambda keys: lines(keys, "Slashtag\tId\n", "{0}\t{1}").decode().encode("utf-16"),
    "JSON Lines": lambda keys: "\n".join(
        json.dumps({"slashtag": key, "hits": None}) for key in keys
    ).encode(),
    "workbook": workbook,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_table_names_the_same_links(
    cli: Cli, box: Sandbox, slashtags: list[str], way: str, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_bytes(WAYS[way]([*slashtags, "no-such"]))
    ran = cli("stats", SPAN, "--keys-file", str(tmp_path / "keys"))
    assert (ran.code, ran.err.count("left out: ")) == (3, 1)
    assert objects(ran.out)[0]["clicks"] == true(box, *slashtags)


def test_a_file_that_says_that_it_lacks_some_is_told(cli: Cli, slashtags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "keys.xlsx"
    with open_table(path, Table((Column("slashtag"),))) as file:
        file.about = About(complete=False)
        file.write([(key,) for key in slashtags])
    ran = cli("export", "clicks", SPAN, "--keys-file", str(path), "-o", str(tmp_path / "clicks.csv"))
    assert (ran.code, "not complete" in ran.err, "complete: false" in ran.err) == (3, True, True)


@pytest.mark.parametrize(
    ("head", "form", "says"),
    [
        ("id;link", "{0};k{0}", "no column slashtag"),
        ("id", "{0}", "no column slashtag"),
        ("id,slashtag", "{0},", "line 2"),
    ],
)
def test_what_is_neither_a_list_nor_such_a_table_is_refused(
    cli: Cli, box: Sandbox, tmp_path: Path, head: str, form: str, says: str
) -> None:
    path = tmp_path / "keys"
    path.write_text("\n".join([head, *map(form.format, range(2))]))
    ran = cli("stats", SPAN, "--keys-file", str(path))
    assert (ran.code, says in ran.error, box.requests) == (2, True, [])
