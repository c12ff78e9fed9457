"""URLs where a file or folder is expected: refused by name, whatever the command, and nothing is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slashtag.sandbox import Sandbox

from .conftest import Cli, names

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

URL = "s3://user:pass-word@bucket/x"
SINCE = ("--since", "2025-09-01")


@pytest.mark.parametrize(
    "arguments",
    [
        ("sync", URL, "--destination", "filesystem", *SINCE),
        ("sync", "postgresql://loader:pass-word@db.example/clicks", *SINCE),
        ("export", "clicks", "2024-06", "-o", f"{URL}.xlsx"),
        ("urls", "update", "--from", "https://user:pass-word@files.example/changes.csv"),
        ("top", "2024-06", "--keys-file", "https://user:pass/pass-word@files.example/keys.txt"),
        ("report", "2024-06", "-o", f"{URL}.html"),
        ("diff", f"{URL}.csv", "new.csv"),
        ("sandbox", "--store", "sqlite://user:pass-word@x/store"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_url_is_refused_by_name_and_shows_no_password(
    cli: Cli, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("slashtag,clicks\na,1\n")
    ran = cli(*arguments)
    scheme = next(word for word in arguments if "://" in word).partition(":")[0]
    assert (ran.code, ran.out) == (2, "")
    assert f"{scheme}:" in ran.err
    assert "pass-word" not in ran.err
    assert names(tmp_path) == ["new.csv"]
    assert not box.requests
