"""Changes from a file: checked whole, shown or made, and a rerun does what is left."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slashtag._internal import FileLock
from slashtag.sandbox import Fault, Sandbox

from .conftest import Cli, Write, answer, failing, objects, puts, told


def test_each_member_is_changed_and_empty_cells_are_left_out(cli: Cli, own: Sandbox, write: Write) -> None:
    ids = {url.slashtag: url.id for url in own.truth.urls()}
    path = write(
        {"slashtag": "a1", "destination": "https://shop.example.com/ü,1"},
        {"id": ids["a2"], "new_slashtag": "b2", "redirect_code": 307},
        {"slashtag": "a3", "password": "hush", "domain_id": 1},
    )
    ran = cli("urls", "update", "--from", str(path))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("3 links changed, 0 failed, 0 unknown, 0 done before; ")
    links = {url.id: url for url in own.truth.urls()}
    assert links[ids["a1"]].destination == "https://shop.example.com/ü,1"
    assert (links[ids["a2"]].slashtag, links[ids["a2"]].redirect_code) == ("b2", 307)
    assert (links[ids["a3"]].password, links[ids["a3"]].domain_id) == ("hush", 1)
    assert sorted((e["line"], e["key"], e["status"], e["rows_updated"]) for e in told(path).values()) == [
        (2, "a1", "done", 1),
        (3, ids["a2"], "done", 1),
        (4, "a3", "done", 1),
    ]


def test_all_errors_are_told_with_their_lines_and_nothing_is_sent(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    path = write(
        {"slashtag": "a1", "destination": "https://shop.example.com/", "password": "p" * 51},
        {"slashtag": "a2\nand more", "redirect_code": 300},
        {"slashtag": "a3"},
        {"destination": "https://shop.example.com/"},
        {"slashtag": "a4", "id": 7, "destination": "https://shop.example.com/"},
        {"id": "seven", "redirect_code": "³", "destination": "https://shop.example.com/"},
        {"slashtag": "123", "destination": "https://shop.example.com/"},
        {"slashtag": "a5", "domain_id": 1},
        {},
        {"slashtag": "a5", "domain_id": 2},
        {"slashtag": "a6", "new_slashtag": "b"},
        {"slashtag": "a7", "new_slashtag": "b"},
        {"slashtag": "a8", "new_slashtag": "a5"},
    )
    ran = cli("urls", "update", "--from", str(path))
    assert (ran.code, ran.out) == (1, "")
    *errors, last = ran.err.splitlines()
    assert [error.split(": ")[1] for error in errors] == [
        f"line {n}" for n in (2, 3, 5, 6, 7, 8, 9, 12, 14, 15)
    ]
    assert "password has 51 characters" in errors[0]
    assert "by its id" in errors[6]
    assert last == f"error: {path} has 10 errors; nothing was sent"
    assert "ppp" not in ran.err
    assert own.requests == []
    assert not path.with_name("changes.results.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--from", "missing.csv"), "missing.csv' does not exist"),
        (("--from", "empty.csv"), "empty.csv is empty"),
        (("--from", "binary.csv"), "is not a CSV file in UTF-8"),
        (("--from", "quotes.csv"), "is not a CSV file in UTF-8"),
        (("--from", "twice.csv"), "a column is there twice"),
        (("--from", "short.csv"), "short.csv, line 3: 1 cell under 2 columns"),
        (("--dry-run", "a1"), "belong to --from"),
        (("--repeat-lost", "a1"), "belong to --from"),
        (("a1", "--from", "binary.csv"), "with --from the file says"),
        (("1", "--from", "binary.csv"), "with --from the file says"),
        ((), "give the KEY of one link, or --from FILE"),
    ],
)
def test_wrong_usage_exits_with_2(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").touch()
    Path("binary.csv").write_bytes(b"slashtag\n\xff\n")
    Path("twice.csv").write_text("slashtag,password,password\n")
    Path("short.csv").write_text("slashtag,password\na1,hush\na2\n")
    Path("quotes.csv").write_text('slashtag,destination\na1,"x"y\n', "utf-8")
    ran = cli("urls", "update", *arguments)
    assert ran.code == 2
    assert problem in ran.error


def test_a_dry_run_shows_the_differences_and_sends_no_change(cli: Cli, own: Sandbox, write: Write) -> None:
    own.add_url("twice", domain_id=0)
    own.add_url("twice", domain_id=1)
    ids = {url.slashtag: url.id for url in own.truth.urls()}
    path = write(
        {"slashtag": "a1", "destination": "https://shop.example.com/", "redirect_code": 302},
        {"slashtag": "a2", "destination": "https://www.example/2"},
        {"slashtag": "nobody", "redirect_code": 301},
        {"slashtag": "twice", "redirect_code": 301},
        {"slashtag": "a3", "new_slashtag": "b3", "password": "hush", "domain_id": 2},
    )
    ran = cli("urls", "update", "--from", str(path), "--dry-run")
    assert ran.code == 3
    assert [tuple(row.values()) for row in objects(ran.out)] == [
        (2, ids["a1"], "a1", "destination", "https://www.example/1", "https://shop.example.com/"),
        (4, None, "nobody", "", "no such link", ""),
        (5, None, "twice", "", "several links: give the id", ""),
        (6, ids["a3"], "a3", "slashtag", "a3", "b3"),
        (6, ids["a3"], "a3", "password", "?", "***"),
        (6, ids["a3"], "a3", "domain_id", "?", "2"),
    ]
    assert (
        "2 links would be changed, 1 would stay as they are, 2 name no link or several, 0 were done"
        in ran.err
    )
    assert "; 1 destination, 1 slashtag, 1 password, 1 domain;" in ran.err
    assert "hush" not in ran.out + ran.err
    assert puts(own) == []
    assert not path.with_name("changes.results.jsonl").exists()


def test_keep_sends_what_the_listing_tells(cli: Cli, own: Sandbox, write: Write) -> None:
    path = write(
        {"slashtag": "a1", "destination": "https://shop.example.com/"},
        {"slashtag": "a2", "new_slashtag": "b2"},
        {"slashtag": "a3", "redirect_code": 308},
    )
    ran = cli("urls", "update", "--from", str(path), "--keep")
    assert ran.code == 0
    assert "password and domain are not in the listing" in ran.err
    bodies = sorted((json.loads(arrival.body) for arrival in puts(own)), key=str)
    assert bodies == [
        {"destination": "https://shop.example.com/", "redirect_code": 302},
        {"destination": "https://www.example/2", "slashtag": "b2", "redirect_code": 302},
        {"destination": "https://www.example/3", "redirect_code": 308},
    ]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("slashtag,destinations\n", ["line 1: no column can be called 'destinations': delete it"]),
        ("destination\n", ["line 1: there must be a column slashtag or id"]),
        ('slashtag,new_slashtag\na1,"a,b"\na2,b \n', ["line 2: slashtag must", "line 3: slashtag must"]),
        ("slashtag,redirect_code\n a1,301\n", ["line 2: key must have no blank"]),
        ("slashtag,destination\na1,shop.example.com\n", ["line 2: destination must have a scheme"]),
        ("slashtag,destination\na1,shop.example:80/\n", ["line 2: destination must have a scheme"]),
        ("slashtag,destination\na1,https://a.example/ b\n", ["line 2: destination must have"]),
        ("slashtag,new_slashtag\na1,a2\na2,a1\n", ["line 2: 'a2' is the slashtag that line 3", "line 3: "]),
        (
            "id,slashtag,redirect_code\n,a1,301\n1000002,,307\n",
            ["line 3: 1000002: it is the link of line 2"],
        ),
    ],
)
def test_a_file_with_errors_is_refused_before_any_row_is_sent(
    cli: Cli, own: Sandbox, tmp_path: Path, text: str, errors: list[str]
) -> None:
    path = tmp_path / "changes.csv"
    path.write_text(text)
    ran = cli("urls", "update", "--from", str(path))
    *lines, _summary = ran.err.splitlines()
    assert (ran.code, len(lines)) == (1, len(errors))
    assert all(map(str.startswith, lines, [f"error: {error}" for error in errors]))
    assert puts(own) == []


def test_what_failed_is_told_and_tried_again(cli: Cli, own: Sandbox, write: Write) -> None:
    path = write(
        {"slashtag": "a1", "redirect_code": 301},
        {"slashtag": "nobody", "redirect_code": 301, "password": "hush"},
    )
    ran = cli("urls", "update", "--from", str(path))
    assert ran.code == 3
    ((line, id, slashtag, status, error),) = [row.values() for row in objects(ran.out)]
    assert (line, id, slashtag, status) == (3, None, "nobody", "failed")
    assert error == "no such link"
    assert ran.err.startswith("1 link changed, 1 failed, 0 unknown, 0 done before")
    # To repeat it would not help.
    assert "correct the file" in ran.err
    assert "run the same command again" not in ran.err
    own.add_url("nobody")
    with failing(own, Fault(kind="400", method="PUT")):
        assert cli("urls", "update", "--from", str(path)).err.endswith("to try what failed\n")
    again = cli("urls", "update", "--from", str(path), "--format", "table")
    assert (again.code, again.out) == (0, "")
    assert "1 link changed, 0 failed, 0 unknown, 1 done before" in again.err
    assert len(puts(own)) == 3
    assert cli("urls", "update", "--from", str(path)).code == 0
    assert len(puts(own)) == 3


A = "https://a.example/"


def test_results_that_cannot_be_written_are_told_before_anything_is_sent(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    path = write({"slashtag": "a1", "redirect_code": 301})
    results = path.with_name("changes.results.jsonl")
    results.write_text("my own notes")
    ran = cli("urls", "update", "--from", str(path))
    assert (ran.code, "file of outcomes" in ran.error) == (1, True)
    results.unlink()
    results.mkdir()
    assert "cannot be written" in cli("urls", "update", "--from", str(path)).error
    results.rmdir()
    lock = FileLock(results)
    assert lock.acquire()
    second = cli("urls", "update", "--from", str(path))
    lock.release()
    assert "another run writes to " in second.error
    assert puts(own) == []


BIG = 1_234_567_890_123_456_789


def test_an_id_of_nineteen_digits_is_that_of_its_link(cli: Cli, own: Sandbox, write: Write) -> None:
    """As Excel shows it in full; also as an argument."""
    own.store.write("UPDATE link SET id = ? WHERE slashtag = 'a1'", (BIG,))
    assert cli("urls", "update", str(BIG), "--redirect-code", "301").code == 0
    assert cli("urls", "update", "--from", str(write({"id": BIG, "destination": A}))).code == 0
    (link,) = [url for url in own.truth.urls() if url.id == BIG]
    assert (link.redirect_code, link.destination) == (301, A)
    assert [entry["id"] for entry in told(Path(write({}))).values()] == [BIG]
    # Digits of other scripts are a slashtag, and so are a hundred of them.
    assert cli("urls", "update", "\u0661\u0662", "--redirect-code", "301").code == 1
    assert cli("urls", "update", "1" * 101, "--redirect-code", "301").code == 2
    assert cli("urls", "update", "--from", str(write({"id": "1" * 101, "destination": A}))).code == 1


DOUBTFUL = [
    ({"destination": "htps://shop.example/"}, ("--destination", "htps://shop.example/")),
    ({"destination": "myapp://open/42"}, ("--destination", "myapp://open/42")),
    ({"new_slashtag": "sale/2024"}, ("--slashtag", "sale/2024")),
]


@pytest.mark.parametrize(("row", "options"), DOUBTFUL)
def test_without_a_terminal_what_is_doubtful_needs_an_option(
    cli: Cli, own: Sandbox, write: Write, row: dict[str, object], options: tuple[str, ...]
) -> None:
    path = str(write({"slashtag": "a1", **row}, {"slashtag": "a2", "destination": A}))
    ran = cli("urls", "update", "--from", path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: line 2: ")
    shown = cli("urls", "update", "--from", path, "--dry-run")
    assert (shown.code, "line 2: " in shown.err) == (3, True)
    assert cli("urls", "update", "--from", path, "--dry-run", "--yes").code == 0
    assert cli("urls", "update", "a3", *options).code == 2
    assert puts(own) == []
    assert cli("urls", "update", "--from", path, "--yes").code == 0
    assert cli("urls", "update", "--from", path).code == 0
    assert cli("urls", "update", "a3", *options[:-1], f"{options[-1]}-3", "--yes").code == 0
    assert len(puts(own)) == 3


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_what_is_doubtful_is_asked_about(
    cli: Cli, own: Sandbox, write: Write, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    answer(monkeypatch, typed, typed)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    path = write({"slashtag": "a1", "destination": "htps://shop.example/"})
    assert cli("urls", "update", "--from", str(path)).code == code
    assert cli("urls", "update", "a2", "--destination", "htps://shop.example/").code == 2 * code
    assert len(puts(own)) == (0 if code else 2)
