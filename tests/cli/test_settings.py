"""What concerns the connection comes from the environment or a saved login; each setting has its effect."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from slashtag._saved_logins import login_path
from slashtag.sandbox import Sandbox
from tests.support.processes import run
from tests.support.sandboxes import forget

from .conftest import APIKEY, APISECRET, Cli, Ran, answer, objects
from .test_entry import SCRIPT
from .test_output import on_terminal

QUESTION = ("stats", "2024-06-01")


def login(cli: Cli, *settings: str) -> None:
    ran = cli("login", *(word for each in settings for word in ("--set", each)))
    assert ran.code == 0, ran.err


@pytest.fixture(params=["environment", "login", "profile"])
def have(
    request: pytest.FixtureRequest, cli: Cli, box: Sandbox, logged_in: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Cli]:
    """Return what makes a setting, in one way or another, and returns the command line that has it."""
    named = ("--profile", "named") if request.param == "profile" else ()
    if named:
        answer(monkeypatch, box.base_url, APIKEY, APISECRET)
        assert cli("login", *named).code == 0

    def have(name: str, value: str) -> Cli:
        if request.param == "environment":
            monkeypatch.setenv(f"SLASHTAG_{name.upper()}", value)
        else:
            login(having, f"{name.replace('_', '-')}={value}")
        return having

    def having(*words: str) -> Ran:
        return cli(*words, *named)

    return have


def test_the_zone_is_that_of_the_days(box: Sandbox, have: Callable[[str, str], Cli]) -> None:
    cli = have("timezone", "Asia/Tokyo")
    true = box.truth.range("2024-06-01", "2024-06-01", timezone="+09:00").total_clicks
    assert f"(Asia/Tokyo): {true} click" in cli(*QUESTION).err
    assert "(UTC-03:00)" in cli(*QUESTION, "--timezone", "-03:00").err


def test_the_log_is_json_and_its_last_line_the_summary(box: Sandbox, have: Callable[[str, str], Cli]) -> None:
    cli = have("log_format", "json")
    forget(box)
    lines = objects(cli(*QUESTION).err)
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    summary = lines[-1]
    assert (summary["command"], summary["exit_code"], summary["complete"]) == ("slashtag stats", 0, True)
    assert summary["attempts"] == len(box.requests)
    summary = objects(cli(*QUESTION, "--keys", "no-such").err)[-1]
    assert (summary["exit_code"], summary["complete"]) == (3, False)


def test_a_proxy_is_asked(box: Sandbox, have: Callable[[str, str], Cli]) -> None:
    # The sandbox stands in for the proxy.
    cli = have("proxy", box.base_url.replace("//", "//name:pass-word@"))
    ran = cli("tags", "list")
    assert (ran.code, "plain http" in ran.error, "pass-word" in ran.err) == (1, True, False)
    have("allow_http", "true")
    forget(box)
    cli("tags", "list")
    assert {arrival.path for arrival in box.requests} == {f"{box.base_url}/api/v1/tags"}


def test_a_misspelt_variable_is_an_error_that_names_the_one_meant(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLASHTAG_LOGFORMAT", "x")
    ran = cli("tags", "list")
    assert (ran.code, "SLASHTAG_LOG_FORMAT " in ran.error, box.requests) == (1, True, [])


# -- logins


def test_a_login_is_used_until_it_is_removed(cli: Cli, logged_in: Path) -> None:
    assert stat.S_IMODE(logged_in.stat().st_mode) == 0o600
    assert cli("tags", "list").code == 0
    assert str(logged_in) in cli("login", "--remove").err
    assert not logged_in.exists()
    assert "`slashtag login`" in cli("tags", "list").error


def test_credentials_that_are_refused_are_not_kept(
    cli: Cli, nothing_set: None, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
    answer(monkeypatch, APIKEY, "another-secret-42")
    ran = cli("login")
    assert (ran.code, "401" in ran.error, "another-secret-42" in ran.err) == (1, True, False)
    assert not login_path().exists()
    answer(monkeypatch, APIKEY)
    assert cli("login").code == 2


def test_settings_are_kept_beside_the_credentials(
    cli: Cli, logged_in: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = json.loads(logged_in.read_bytes())
    login(cli, "timeout=60", "proxy=http://name:pass-word@proxy.example:3128")
    found = json.loads(logged_in.read_bytes())
    assert found == saved | {"timeout": 60.0, "proxy": "http://name:pass-word@proxy.example:3128"}
    assert "pass-word" not in cli("login", "--list").out
    login(cli, "proxy=")
    # Credentials that are asked for again keep them.
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert cli("login").code == 0
    assert json.loads(logged_in.read_bytes()) == saved | {"timeout": 60.0}


@pytest.mark.parametrize(
    "wrong", ["timeout", "timeot=3", "timeout=soon", "timezone=Mars/Olympus", "apikey=x"]
)
def test_a_setting_that_is_none_is_not_saved(cli: Cli, logged_in: Path, wrong: str) -> None:
    before = logged_in.read_bytes()
    assert cli("login", "--set", wrong).code in (1, 2)
    assert logged_in.read_bytes() == before


def test_profiles_are_kept_apart_and_chosen_by_name(
    cli: Cli, logged_in: Path, own: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLASHTAG_BASE_URL")
    answer(monkeypatch, own.base_url, APIKEY, APISECRET)
    assert cli("login", "--profile", "client-a").code == 0
    assert len(cli("urls", "list").out.splitlines()) == 130
    assert len(cli("urls", "list", "--profile", "client-a").out.splitlines()) == 60
    monkeypatch.setenv("SLASHTAG_PROFILE", "client-a")
    assert len(cli("urls", "list").out.splitlines()) == 60
    listed = [line.split("\t") for line in cli("login", "--list").out.splitlines()]
    assert listed == [["(no name)", listed[0][1]], ["client-a", own.base_url]]
    assert cli("login", "--remove").code == 0
    assert "'client-a'" in cli("tags", "list").error


def test_a_terminal_shows_no_credentials(nothing_set: None, box: Sandbox) -> None:
    answers = [("service: ", box.base_url), ("apikey: ", APIKEY), ("apisecret: ", APISECRET)]
    shown = on_terminal("slashtag login", answers)
    assert ("saved in" in shown, APIKEY in shown, APISECRET in shown) == (True, False, False)
    assert run(SCRIPT, "tags", "list").returncode == 0
