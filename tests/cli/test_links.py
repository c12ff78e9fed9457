"""`slashtag urls`: links listed and changed, one or many from a file, once each, and undone."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections import Counter
from pathlib import Path

import pytest

from slashtag.cli.commands import links
from slashtag.sandbox import Fault, Sandbox
from tests.support.processes import LONGEST, python
from tests.support.sandboxes import settle
from tests.support.tables import cells

from .conftest import Cli, Serve, Write, failing, objects, puts
from .test_entry import arrived, started

NEW = "https://new.example/"
PASSWORD = "not to be shown"


def undo_of(err: str) -> list[str]:
    """The command that is printed to undo what was done."""
    (command,) = re.findall(r"slashtag (urls update [^;\n]*)", err)
    return shlex.split(command)


# --- listed ----------------------------------------------------------------------------------------------


def test_links_are_listed_by_tag_and_text(cli: Cli, own: Sandbox) -> None:
    own.add_tag("spring")
    own.add_url("b1", destination="https://Shop.example/1", tag="spring")
    own.add_url("b2", destination="https://shop.example/2")

    def listed(*options: str) -> list[str]:
        return [row["slashtag"] for row in objects(cli("urls", "list", *options).out)]

    assert len(listed()) == 62
    assert listed("--tag", "spring") == ["b1"]
    assert listed("--search", "SHOP.") == ["b1", "b2"]
    assert listed("--search", "shop.", "--untagged") == ["b2"]
    assert listed("--limit", "3") == ["a0", "a1", "a2"]
    assert cli("urls", "list", "--tag", "nosuch").code == 2
    assert cli("urls", "list", "--tag", "spring", "--untagged").code == 2


def test_what_a_listing_lacks_is_an_error(cli: Cli, own: Sandbox) -> None:
    with failing(own, Fault(kind="400", path="*/tags")):
        ran = cli("urls", "list")
    assert (ran.code, ran.out) == (1, "")


# --- one link --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "slashtag"),
    [
        *((each, each) for each in ("007", "2025", "a1")),
        ("https://sho.example/a1", "a1"),
    ],
)
def test_a_link_is_changed_by_what_names_it_and_its_row_says_what_it_was(
    cli: Cli, own: Sandbox, key: str, slashtag: str
) -> None:
    for each in ("007", "7", "2025"):
        own.add_url(each)
    before = own.truth.urls()
    given = ("--destination", "https://x.example/it's", "--new-slashtag", "new", "--redirect-code", "307")
    (link,) = [url for url in before if url.slashtag == slashtag]
    rows = objects(cli("urls", "update", key, *given, "--no-password").out)
    assert [(row["id"], row["change"], row["before"], row["after"]) for row in rows] == [
        (link.id, "destination", link.destination, "https://x.example/it's"),
        (link.id, "slashtag", slashtag, "new"),
        (link.id, "redirect_code", str(link.redirect_code), "307"),
        (link.id, "password", "?", "***"),
    ]
    options = ("--destination", "--new-slashtag", "--redirect-code")
    undo = [word for option, row in zip(options, rows, strict=False) for word in (option, row["before"])]
    assert cli("urls", "update", "new", *undo).code == 0
    assert [arrival.path for arrival in puts(own)] == [f"/api/v1/urls/{link.id}"] * 2
    shown = [(url.id, url.slashtag, url.destination, url.redirect_code) for url in own.truth.urls()]
    assert shown == [(url.id, url.slashtag, url.destination, url.redirect_code) for url in before]


#: What is typed, the exit code, and a part of the error.
REFUSED = """
LONG --redirect-code 301                              | 1 | no such link
twice --redirect-code 301                             | 1 | short URL
a1 --new-slashtag a2                                  | 2 | another link
a1 --password                                         | 2 | SLASHTAG_LINK_PASSWORD
a1                                                    | 2 | nothing to change
changes.csv                                           | 2 | --from FILE
a1 --destination www.example/x?a=1 --yes              | 2 | scheme
a1 --destination htps://shop.example/                 | 2 | --yes
--from changes.csv --redirect-code 301                | 2 | --from
                                                      | 2 | KEY
"""


@pytest.mark.parametrize(("arguments", "code", "says"), cells(REFUSED))
def test_what_cannot_be_changed_is_told_in_one_line(
    cli: Cli,
    own: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    code: str,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("changes.csv").write_text("slashtag,redirect_code\na1,301\n")
    for domain in (0, 1):
        own.add_url("twice", domain_id=domain)
    ran = cli("urls", "update", *arguments.replace("LONG", "9" * 4_400).split())
    assert (str(ran.code), says in ran.error) == (code, True)
    assert puts(own) == []


def test_a_lost_answer_says_to_look_and_what_the_link_was(cli: Cli, own: Sandbox) -> None:
    with failing(own, Fault(kind="reset", method="PUT", after_work=True)):
        ran = cli("urls", "update", "a1", "--new-slashtag", "new")
    assert (ran.code, "may have been done" in ran.err, len(puts(own))) == (1, True, 1)
    assert [(row["before"], row["after"]) for row in objects(ran.out)] == [("a1", "new")]


def test_a_password_is_never_shown(cli: Cli, own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(links.PASSWORD_VARIABLE, PASSWORD)
    ran = cli("urls", "update", "a1", "--password", "-vv")
    assert json.loads(puts(own)[0].body)["password"] == PASSWORD
    assert PASSWORD not in ran.out + ran.err


# --- many from a file ------------------------------------------------------------------------------------


def test_a_file_is_shown_then_carried_out_and_what_is_left_is_told(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    path = write(
        {"slashtag": "a1", "destination": NEW},
        {"slashtag": "a2", "destination": "https://www.example/2"},
        {"slashtag": "nobody", "redirect_code": 301},
        {"slashtag": "a3", "password": "hush", "domain_id": 1},
        {"id": 1000005, "redirect_code": 307},
    )
    update = ("urls", "update", "--from", str(path))
    shown = cli(*update, "--dry-run")
    assert (shown.code, len(objects(shown.out)), shown.err[:27]) == (3, 5, "3 links would be changed, 1")
    assert puts(own) == []
    with failing(own, Fault(kind="400", path="*/1000005")):
        ran = cli(*update)
    assert (ran.code, ran.err.startswith("2 links changed, 2 failed, 0 unknown, 0 ")) == (3, True)
    left = [(row["line"], row["slashtag"], row["status"]) for row in objects(ran.out)]
    assert left == [(4, "nobody", "failed"), (6, "a4", "failed")]
    own.add_url("nobody", redirect_code=302)
    again = cli(*update, "--format", "table")
    assert (again.code, again.out) == (0, "")
    assert again.err.startswith("2 links changed, 0 failed, 0 unknown, 0 changed by others since, 3 ")
    assert len(puts(own)) == 5
    assert "hush" not in shown.out + shown.err + ran.err + path.with_name("changes.results.jsonl").read_text()


def test_what_is_doubtful_is_sent_with_yes_only(cli: Cli, own: Sandbox, write: Write) -> None:
    update = (
        "urls",
        "update",
        "--from",
        str(write({"slashtag": "a1", "destination": "htps://shop.example/"})),
    )
    assert cli(*update, "--dry-run").code == 3
    assert cli(*update, "--dry-run", "--yes").code == 0
    assert (cli(*update).code, puts(own)) == (2, [])
    assert (cli(*update, "--yes").code, len(puts(own))) == (0, 1)


def test_a_run_that_is_ended_goes_on_and_its_undo_restores_all(
    cli: Cli, own: Sandbox, write: Write, environment: dict[str, str]
) -> None:
    """Each change is made once, whatever is lost."""
    before = [(url.slashtag, url.destination) for url in own.truth.urls()]
    destinations = ({"slashtag": f"a{n}", "destination": f"{NEW}{n}"} for n in range(30))
    names = ({"slashtag": f"a{n}", "new_slashtag": f"b{n}"} for n in range(30, 60))
    command = ("urls", "update", "--from", str(write(*destinations, *names)))
    own.faults, own.latency = [Fault(kind="reset", every=5, method="PUT", after_work=True)], 0.01
    with started(*command) as running:
        arrived(own, 20)
        running.send_signal(signal.SIGINT)
        assert "run the same command again to go on" in running.communicate(timeout=LONGEST)[1]
    own.faults, own.latency = [], 0.0
    settle(own)
    ran = cli(*command)
    assert (ran.code, "60 links" in ran.err) == (0, True)
    made = Counter(each.path for each in puts(own))
    assert (len(made), made.total()) == (60, 60)
    assert cli(*undo_of(ran.err)).code == 0
    assert [(url.slashtag, url.destination) for url in own.truth.urls()] == before


def test_what_no_listing_shows_is_sent_once_by_all_processes(own: Sandbox, write: Write) -> None:
    path = write({"slashtag": "a1", "password": PASSWORD, "domain_id": 0})
    for seed in "12":  # of hashes, which decides the order of sets
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = python("-m", "slashtag", "urls", "update", "--from", path, env=environment)
        assert ran.returncode == 0, ran.stderr
    assert len(puts(own)) == 1


def test_a_limit_is_one_of_all_pages(cli: Cli, serve: Serve) -> None:
    with serve(urls=60, clicks=0, max_pagesize=20) as box:
        rows = objects(cli("urls", "list", "--limit", "30").out)
        assert [row["id"] for row in rows] == [url.id for url in box.truth.urls()][:30]
