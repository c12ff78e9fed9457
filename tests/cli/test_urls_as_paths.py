"""URLs where a file or folder is expected: refused by name, whatever the command, and nothing is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slashtag import AsyncSession, InvalidRequestError
from slashtag._files import check_local_path, object_url
from slashtag.sandbox import Sandbox
from slashtag.tables import AtomicFile

from .conftest import Cli, names

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

from slashtag.dlt import Warehouse

URL = "s3://user:pass-word@bucket/x"
SINCE = ("--since", "2025-09-01")


@pytest.mark.parametrize(
    "arguments",
    [
        ("sync", URL, "--destination", "filesystem", *SINCE),
        ("sync", URL, *SINCE),
        ("sync", "postgresql://loader:pass-word@db.example/clicks", *SINCE),
        ("export", "urls", "-o", f"{URL}.csv"),
        ("export", "tags", "-o", "gs://user:pass-word@bucket/x.parquet"),
        ("export", "clicks", "2024-06", "-o", f"{URL}.xlsx"),
        ("urls", "list", "-o", f"{URL}.csv"),
        ("urls", "update", "--from", "https://user:pass-word@files.example/changes.csv"),
        ("stats", "2024-06", "-o", f"{URL}.csv"),
        ("top", "2024-06", "-o", f"{URL}.csv"),
        ("top", "2024-06", "--keys-file", "https://user:pass/pass-word@files.example/keys.txt"),
        ("report", "2024-06", "-o", f"{URL}.html"),
        ("diff", f"{URL}.csv", "new.csv"),
        ("diff", "new.csv", f"{URL}.csv"),
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


@pytest.mark.parametrize(
    "url", ["s3://bucket/x", "S3://b", " gs://b/x", "abfss://c@a.net/x", "file:///tmp/x", "s3:/b"]
)
def test_the_library_refuses_them_too(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    credentials = {"apikey": "k" * 20, "apisecret": "s" * 12}
    with pytest.raises(InvalidRequestError, match="is a URL"):
        AsyncSession("https://links.example", **credentials, journal=url)
    with pytest.raises(InvalidRequestError, match="is a URL"):
        AtomicFile(url)
    for destination in ("duckdb", "sqlite", *(["filesystem"] * (object_url(url) is None))):
        with pytest.raises(InvalidRequestError):
            Warehouse(url, destination)
    assert names(tmp_path) == []


@pytest.mark.parametrize("url", ["s3://k:s@bucket/x", "gs://token@b", "az://"])
def test_a_bucket_is_named_without_credentials(url: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        object_url(url)
    assert "@" not in str(raised.value)


@pytest.mark.parametrize(
    "path", ["C:/x.csv", r"c:\x.csv", "C://x.csv", "/s3://x", "a/b:c/d", "12:/x", "notes: x.csv", "x"]
)
def test_other_paths_are_paths(path: str) -> None:
    check_local_path(path)
    check_local_path(Path(path))
