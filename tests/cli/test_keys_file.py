"""`--keys-file` reads the tables that `urls update --from` reads, and lists of one slashtag a line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl import Workbook

from slashtag.cli.run import SOME_FAILED
from slashtag.cli.selection import GivenKey, SelectionOptions
from slashtag.sandbox import Sandbox
from slashtag.tables import Column, Table, open_table

from .conftest import Cli, Ran, objects

SPAN = ("2024-01-01", "2024-02-29")
RANGE = ("stats", "..".join(SPAN))


@pytest.fixture
def slashtags(box: Sandbox) -> list[str]:
    """Two slashtags with clicks."""
    return [url.slashtag for url in sorted(box.truth.urls(), key=lambda url: -url.hits)[:2]]


def lines(rows: list[tuple[str, str]], before: str = "", form: str = "{0}") -> bytes:
    return "".join([before, *(form.format(key, id_) + "\n" for key, id_ in rows)]).encode()


def workbook(rows: list[tuple[str, str]]) -> bytes:
    book, file = Workbook(), io.BytesIO()
    sheet = book.create_sheet("keys", 0)
    sheet.append(["Tag Name", "Slashtag"])
    for key, _ in rows:
        sheet.append([True, key])
    book.save(file)
    return file.getvalue()


def parquet(rows: list[tuple[str, str]]) -> bytes:
    path = Path("made.parquet")
    with open_table(path, Table((Column("id"), Column("slashtag")))) as file:
        file.write([(id_, key) for key, id_ in rows])
    return path.read_bytes()


WAYS: dict[str, Callable[[list[tuple[str, str]]], bytes]] = {
    "plain": lambda rows: lines([*rows, ("# ours", "")]),
    "quoted": lambda rows: lines(rows, '"slashtag"\n', '"{0}"'),
    "semicolons": lambda rows: lines(rows, "id;slashtag\r\n", "{1};{0}\r"),
    "tabs": lambda rows: lines(rows, "slashtag\tid\n", "{0}\t{1}"),
    "after a comment": lambda rows: lines(rows, "# of today\ntag_name,slashtag\n", "#sale,{0}"),
    "UTF-16": lambda rows: lines(rows, "Slashtag\tId\n", "{0}\t{1}").decode().encode("utf-16"),
    "objects": lambda rows: lines(rows, "", '{{"id": {1}, "slashtag": "{0}"}}'),
    "JSON": lambda rows: json.dumps([{"slashtag": key, "hits": None} for key, _ in rows]).encode(),
    "workbook": workbook,
    "Parquet": parquet,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_table_names_the_same_links(
    cli: Cli,
    box: Sandbox,
    slashtags: list[str],
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = [*slashtags, "no-such"]
    Path("keys").write_bytes(WAYS[way]([(key, str(n)) for n, key in enumerate(keys, 1)]))
    ran = cli(*RANGE, "--keys-file", "keys")
    clicks = box.truth.range(*SPAN, keys=slashtags).total_clicks
    assert clicks > 0
    assert int(objects(ran.out)[0]["clicks"]) == clicks
    assert (ran.code, ran.err.count("left out: ")) == (SOME_FAILED, 1)


@pytest.mark.parametrize(
    ("head", "form", "says"),
    [
        ("id;link", "{0};k{0}", "no column slashtag"),
        ("id", "{0}", "no column slashtag"),
        ("short_url", "https://a.example/{0}", "no column slashtag"),
        ("k0,k1", "k{0},k{0}", "'k0,k1'"),
        ("k0", "k{0},k", "line 2"),
        ("slashtag", "k{0};,k", "line 2"),
        ("id,slashtag", "{0},", "line 2"),
        ("id,slashtag", "{0}", "line 2"),
        ("<html>", "k{0}", "HTML"),
        ('{"key": "k0"}', '{{"key": "k{0}"}}', "no column slashtag"),
        ('{"slashtag": true}', '{{"slashtag": "k{0}"}}', "TRUE"),
    ],
)
def test_what_is_neither_is_refused(
    cli: Cli, box: Sandbox, tmp_path: Path, head: str, form: str, says: str
) -> None:
    path = tmp_path / "keys"
    path.write_text("\n".join([head, *map(form.format, range(2))]))
    ran = cli(*RANGE, "--keys-file", str(path))
    assert (ran.code, box.requests) == (2, [])
    assert says in ran.error


def test_an_id_beside_a_slashtag_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("id,slashtag\n1234567890123456789,k0\n,k1\nmine-7,k2\n")
    with path.open("rb") as file:
        options = SelectionOptions(None, file, None, False, None)  # type: ignore[arg-type]
    assert options.given == [GivenKey("k0", 1234567890123456789), GivenKey("k1"), GivenKey("k2")]
    assert options.slashtags == ["k0", "k1", "k2"]


def test_a_slashtag_that_another_link_has_now_is_told(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    ids = {url.slashtag: url.id for url in own.truth.urls()}

    def run(*rows: tuple[int, str]) -> Ran:
        path = tmp_path / "keys.csv"
        path.write_text("id,slashtag\n" + "".join(f"{id},{slashtag}\n" for id, slashtag in rows))
        return cli(*RANGE, "--keys-file", str(path))

    assert run((ids["a0"], "a0"), (ids["a1"], "a1")).code == 0
    assert run((1, "a0"), (2, "a1")).code == 0
    assert run((ids["a1"], "a0"), (ids["a0"], "a1")).code == 3
    ran = run((ids["a0"], "a0"), (ids["a9"], "a1"))
    assert ran.code == 3
    assert "'a1'" in ran.err
    assert "'a0'" not in ran.err
