"""Places of destinations, and their drivers' errors, as messages tell them."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slashtag import ExportError
from slashtag.dlt._calling import calling_dlt
from slashtag.dlt._pipeline import _place_of


@pytest.mark.parametrize(
    "credentials",
    ["postgresql://u:secret@h/db", "postgresql://u:se?cr@et/secret@h/db?a=b", "host=h password=secret"],
)
def test_a_place_has_no_password(credentials: str) -> None:
    destination: Any = SimpleNamespace(
        config_params={"credentials": credentials}, destination_name="postgres"
    )
    place = _place_of(SimpleNamespace(destination=destination))  # type: ignore[arg-type]
    assert "secret" not in place
    assert "se?cr" not in place


@pytest.mark.parametrize(
    "told",
    [
        'could not translate host name "hidden@127.0.0.1" to address',
        'could not translate host name "a:hidden@db.example" to address',
        "cannot connect to postgresql://someone:hidden@db.example:5432/x",
        "cannot connect to postgresql://someone:in/hidden@db.example:5432/x",
        "invalid connection option in host=h user=u password=hidden dbname=x",
        "invalid option aws_secret_access_key=hidden",
        "https://account.example/?token=hidden&x=1 is forbidden",
    ],
)
def test_what_a_driver_says_of_a_connection_shows_no_password(told: str) -> None:
    with pytest.raises(ExportError) as raised, calling_dlt("postgres", "postgres"):
        raise OSError(told)
    assert "hidden" not in "".join(traceback.format_exception(raised.value))
    locals_of_ours = [
        frame.f_locals
        for frame, _ in traceback.walk_tb(raised.value.__traceback__)
        if "slashtag" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename
    ]
    assert "hidden" not in repr(locals_of_ours)


@pytest.mark.parametrize("full", ["dlt", "clicks.duckdb"])
def test_the_folder_on_the_disk_that_is_full_is_named(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(free=0 if folder.name == "dlt" and full == "dlt" else 2**40)

    (tmp_path / "dlt").mkdir()
    monkeypatch.setattr("slashtag.dlt._calling.disk_usage", usage)
    folders = [tmp_path / "dlt" / "not yet there"]
    with pytest.raises(ExportError) as raised, calling_dlt("duckdb", "clicks.duckdb", folders):
        raise OSError(28, "No space left on device")
    assert full in str(raised.value)
    assert ("clicks.duckdb" in str(raised.value)) is (full == "clicks.duckdb")
