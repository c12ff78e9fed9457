"""`slashtag api`: a request to any endpoint."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli

PASSWORD = "not-to-be-shown"


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_fields_are_the_query_of_a_get_and_the_body_of_others(cli: Cli, own: Sandbox) -> None:
    ran = cli("api", "get", "urls", "page=2", "pagesize=3", "orderby=date")
    assert [item["id"] for item in json.loads(ran.out)["items"]] == [url.id for url in own.truth.urls()][3:6]
    assert json.loads(cli("api", "POST", "tags", "name=a=1").out)["name"] == "a=1"
    assert cli("api", "DELETE", "urls/a0").code == 1
    listed, made, gone = own.requests
    assert listed.query == {"page": "2", "pagesize": "3", "orderby": "date"}
    assert (made.query, json.loads(made.body), gone.body) == ({}, {"name": "a=1"}, b"")


def test_the_body_comes_from_a_file_or_stdin(
    cli: Cli, own: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, '{"redirect_code": 308}')
    file = tmp_path / "body.json"
    file.write_text('\ufeff{"redirect_code": 307}', "utf-8")
    for name in (str(file), "-"):
        assert cli("api", "PUT", f"urls/{own.truth.urls()[0].id}", "a=1", "--input", name).code == 0
    assert [json.loads(each.body)["redirect_code"] for each in own.requests] == [307, 308]
    assert [each.query for each in own.requests] == [{"a": "1"}] * 2


@pytest.mark.parametrize(
    "words",
    [
        "HEAD urls",
        "GET ../urls",
        "GET http://127.0.0.1/",
        f"POST tags {PASSWORD}",
        "POST tags name=a name=b",
        "POST tags --input -",
        "POST tags --input bytes",
        "GET tags --input null",
        "POST tags --input missing",
    ],
)
def test_wrong_usage_sends_nothing(
    cli: Cli, own: Sandbox, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bytes").write_bytes(b'{"name": "\xff"}')
    Path("null").write_text("[]")
    pipe(monkeypatch, "not JSON")
    ran = cli("api", *words.split())
    assert ran.code == 2
    assert PASSWORD not in ran.error
    assert not own.requests
