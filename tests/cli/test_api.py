"""`slashtag api`: a request to any endpoint."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from slashtag.sandbox import Fault, Sandbox

from .conftest import Cli

PASSWORD = "not to be shown"


@pytest.fixture
def link(own: Sandbox) -> int:
    """Return the id of a link to change."""
    return own.truth.urls()[0].id


def bodies(own: Sandbox) -> list[object]:
    return [json.loads(arrival.body) for arrival in own.requests]


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_fields_of_a_get_are_its_query(cli: Cli, own: Sandbox) -> None:
    ran = cli("api", "get", "urls", "page=2", "-F", "pagesize=3", "--param", "orderby=date")
    assert [item["id"] for item in json.loads(ran.out)["items"]] == [url.id for url in own.truth.urls()][3:6]
    (arrival,) = own.requests
    assert arrival.query == {"page": "2", "pagesize": "3", "orderby": "date"}


def test_fields_are_text_or_typed(cli: Cli, own: Sandbox, link: int, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n", "utf-8")
    typed = ["redirect_code=302", "a=true", "b=null", "c=007", "d=-1", "e=x=y", f"password=@{secret}"]
    ran = cli("api", "PUT", f"urls/{link}", "f=1", *(word for each in typed for word in ("-F", each)))
    assert json.loads(ran.out) == {"rows_updated": 1}
    members = {"f": "1", "redirect_code": 302, "a": True, "b": None, "c": "007", "d": -1, "e": "x=y"}
    assert bodies(own) == [members | {"password": PASSWORD}]


def test_the_body_comes_from_a_file_or_stdin(
    cli: Cli, own: Sandbox, link: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, '{"redirect_code": 308}')
    file = tmp_path / "body.json"
    file.write_text('\ufeff{"redirect_code": 307}', "utf-8")
    assert cli("api", "PUT", f"urls/{link}", "--input", str(file)).code == 0
    assert cli("api", "PUT", f"urls/{link}", "--input", "-").code == 0
    assert bodies(own) == [{"redirect_code": 307}, {"redirect_code": 308}]


@pytest.mark.parametrize(
    "words",
    [
        ("HEAD", "urls"),
        ("GET", "../urls"),
        ("GET", "/urls"),
        ("GET", "http://127.0.0.1/"),
        ("POST", "tags", PASSWORD),
        ("POST", "tags", f"={PASSWORD}"),
        ("POST", "tags", "name=a", "-F", "name=b"),
        ("POST", "tags", "name=a", "--input", "-"),
        ("POST", "tags", "--input", "-"),
        ("GET", "tags", "--input", "-"),
    ],
)
def test_wrong_usage_sends_nothing(
    cli: Cli, own: Sandbox, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, "not JSON")
    ran = cli("api", *words)
    assert ran.code == 2
    assert PASSWORD not in ran.error
    assert not own.requests


def test_errors_are_those_of_other_commands(cli: Cli, own: Sandbox) -> None:
    ran = cli("api", "POST", "urls", "destination=https://example.com")
    assert (ran.code, ran.error.startswith("error: POST urls: 405 ")) == (1, True)
    ran = cli("api", "GET", "nothing")
    assert (ran.code, ran.error.startswith("error: GET nothing: 404 ")) == (1, True)


def test_a_lost_answer_to_a_write_is_told(cli: Cli, own: Sandbox) -> None:
    own.faults = [Fault(kind="reset", method="POST", after_work=True)]
    ran = cli("api", "POST", "tags", "name=made")
    assert ran.code == 1
    assert "it may have been done" in ran.error
    assert len(own.requests) == 1


def test_a_body_that_is_not_utf_8_sends_nothing(cli: Cli, own: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(b'{"name": "\xff"}')
    assert cli("api", "POST", "tags", "--input", str(tmp_path / "body.json")).code == 2
    assert not own.requests
