"""`slashtag urls update` and `slashtag tags create`: what is sent, and what is never shown."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from slashtag import Change
from slashtag._internal import find_doubts
from slashtag.cli.commands import links
from slashtag.sandbox import Fault, Sandbox
from tests.support.sandboxes import forget

from .conftest import Cli, failing

PASSWORD = "not to be shown"


@pytest.fixture
def link(box: Sandbox) -> Iterator[int]:
    """Return the id of a link to change."""
    made = box.add_url("to-change", destination="https://example.com/before")
    yield made
    names = {found.slashtag for found in box.truth.urls()} & {"to-change", "changed", "404"}
    for name in names:
        box.remove_url(name)


def sent(box: Sandbox) -> tuple[str, object]:
    (arrival,) = [each for each in box.requests if each.method == "PUT"]
    return arrival.path, json.loads(arrival.body)


def test_only_what_is_given_is_sent(cli: Cli, box: Sandbox, link: int) -> None:
    ran = cli("urls", "update", "to-change", "--destination", "https://example.com/after")
    assert json.loads(ran.out) == {
        "id": link,
        "slashtag": "to-change",
        "change": "destination",
        "before": "https://example.com/before",
        "after": "https://example.com/after",
    }
    assert sent(box) == ("/api/v1/urls/to-change", {"destination": "https://example.com/after"})


def test_an_update_tells_what_it_was_and_how_to_undo_it(cli: Cli, box: Sandbox, link: int) -> None:
    """The undo is a command, which restores all that a listing shows."""
    before = next(url for url in box.truth.urls() if url.id == link)
    given = ("--destination", "https://x.example/it's", "--new-slashtag", "changed", "--redirect-code", "307")
    ran = cli("urls", "update", "to-change", *given, "--no-password")
    assert {
        row["change"]: (row["before"], row["after"]) for row in map(json.loads, ran.out.splitlines())
    } == {
        "destination": (before.destination, "https://x.example/it's"),
        "slashtag": ("to-change", "changed"),
        "redirect_code": (str(before.redirect_code), "307"),
        "password": ("?", "***"),
    }
    (undo,) = re.findall(r"slashtag (urls update [^;]*)", ran.err)
    assert cli(*shlex.split(undo)).code == 0
    now = next(url for url in box.truth.urls() if url.id == link)
    assert (now.destination, now.slashtag, now.redirect_code) == (
        before.destination,
        "to-change",
        before.redirect_code,
    )
    # Once more, it changes nothing.
    assert cli(*shlex.split(undo)).out == ""


def test_a_slashtag_of_several_links_is_refused_with_their_ids(cli: Cli, box: Sandbox, link: int) -> None:
    other = box.add_url("to-change", domain_id=2)
    ran = cli("urls", "update", "to-change", "--redirect-code", "307")
    assert ran.code == 2
    assert f"{link} (" in ran.error
    assert f"{other} (" in ran.error
    assert not [each for each in box.requests if each.method == "PUT"]
    box.remove_url("to-change")


@pytest.mark.parametrize("given", ["www.example/x?a=1", "shop.example", "/autumn"])
def test_a_destination_without_a_scheme_is_an_error_that_yes_does_not_help(
    cli: Cli, box: Sandbox, link: int, tmp_path: Path, given: str
) -> None:
    assert not list(find_doubts(Change(link, destination=given)))
    file = tmp_path / "changes.csv"
    file.write_text(f"id,destination\n{link},{given}\n{link + 1},https://shop..example/\n")
    forget(box)
    for arguments in (str(link), "--destination", given), ("--from", str(file)):
        ran = cli("urls", "update", *arguments)
        assert (ran.code != 0, "scheme" in ran.err, "--yes" in ran.err) == (True, True, False)
    assert not [each for each in box.requests if each.method == "PUT"]


def test_without_a_listing_a_link_is_changed_and_what_it_was_is_not_known(
    cli: Cli, box: Sandbox, link: int
) -> None:
    with failing(box, Fault(kind="500", method="GET")):
        ran = cli("urls", "update", "to-change", "--redirect-code", "307")
    assert (ran.code, json.loads(ran.out)["before"]) == (0, "?")
    assert "undo" not in ran.err


def test_every_member_can_be_given(cli: Cli, box: Sandbox, link: int) -> None:
    ran = cli(
        *("urls", "update", str(link), "--destination", "https://example.com/after"),
        *("--slashtag", "changed", "--redirect-code", "302", "--domain-id", "0", "--no-password"),
    )
    assert ran.code == 0
    assert sent(box) == (
        f"/api/v1/urls/{link}",
        {
            "destination": "https://example.com/after",
            "slashtag": "changed",
            "redirect_code": 302,
            "password": "",
            "domain_id": 0,
        },
    )


def test_a_password_comes_from_the_environment(
    cli: Cli, box: Sandbox, link: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(links.PASSWORD_VARIABLE, PASSWORD)
    ran = cli("urls", "update", "to-change", "--password", "-vv")
    assert sent(box)[1] == {"password": PASSWORD}
    assert PASSWORD not in ran.out + ran.err
    forget(box)
    assert cli("urls", "update", "to-change", "--redirect-code", "301").code == 0
    assert sent(box)[1] == {"redirect_code": 301}


def test_a_password_is_asked_for_without_showing_it(
    cli: Cli, box: Sandbox, link: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, object]] = []

    def prompt(_: str, **options: object) -> str:
        asked.append(options)
        return PASSWORD

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "prompt", prompt)
    assert cli("urls", "update", "to-change", "--password").code == 0
    assert sent(box)[1] == {"password": PASSWORD}
    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("9" * 4_400, "--redirect-code", "301"), 2, "4400 characters"),
        (("abc", "--password"), 2, links.PASSWORD_VARIABLE),
        (("abc", "--password", "secret"), 2, "secret"),
        (("abc",), 2, "nothing to update"),
        (("abc", "--redirect-code", "300"), 2, "redirect_code"),
        (("no-such-link", "--redirect-code", "301"), 1, "`slashtag urls list`"),
    ],
)
def test_what_cannot_be_updated_is_told(cli: Cli, arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = cli("urls", "update", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.error


def test_a_lost_answer_says_to_look(cli: Cli, box: Sandbox, link: int) -> None:
    with failing(box, Fault(kind="reset", method="PUT", after_work=True)):
        ran = cli("urls", "update", "to-change", "--slashtag", "changed")
    assert ran.code == 1
    assert "check whether it was done before you repeat it" in ran.err
    # It was made, and the command that undoes it is told all the same.
    assert "changed" in [url.slashtag for url in box.truth.urls()]
    (undo,) = re.findall(r"slashtag (urls update .*)", ran.err)
    assert cli(*shlex.split(undo)).code == 0
    assert "to-change" in [url.slashtag for url in box.truth.urls()]


def test_a_tag_is_created_once(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    ran = cli("tags", "create", "made here", "--description", "by a test")
    tag = json.loads(ran.out)
    assert (tag["name"], tag["description"]) == ("made here", "by a test")
    assert "made here" in [tag.name for tag in box.truth.tags()]
    ran = cli("tags", "create", "made here")
    assert ran.code == 1
    assert "already exists" in ran.error
    assert "to a table" in cli("tags", "create", "to a table", "--format", "table").out
    file = tmp_path / "tag.jsonl"
    assert cli("tags", "create", "to a file", "-o", str(file)).out == ""
    assert json.loads(file.read_text())["name"] == "to a file"
