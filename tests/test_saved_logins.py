"""Saved logins and settings: which ones a session uses, and that none is shown."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from slashtag import AsyncSession, ConfigurationError
from slashtag._core.secret import Secret
from slashtag._saved_logins import Login, check_variables, find_login, login_path, save_login

NAMES = ("SLASHTAG_BASE_URL", "SLASHTAG_APIKEY", "SLASHTAG_APISECRET", "SLASHTAG_PROFILE")
#: Of each place that has credentials: address, apikey and apisecret.
PLACES = {
    place: (f"http://127.0.0.1:{n}", f"key-of-the-{place}-0123456789"[:30], f"secret-{place}-01"[:20])
    for n, place in enumerate(("arguments", "environment", "shop", "default"), 8001)
}


def login(place: str, **settings: Any) -> Login:
    base_url, apikey, apisecret = PLACES[place]
    return Login(base_url=base_url, apikey=Secret(apikey), apisecret=Secret(apisecret), **settings)


def place_of(found: Login) -> str:
    """The place that an address and both credentials are from."""
    values = found.base_url, found.apikey, found.apisecret
    return next(place for place in PLACES if PLACES[place] == values)


@pytest.fixture(autouse=True)
def saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Save a login without a name and one named shop; the environment has nothing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    save_login(login("default"))
    save_login(login("shop"), "shop")


@pytest.mark.parametrize("named_by", ["nothing", "argument", "environment"])
@pytest.mark.parametrize("environment", [True, False])
@pytest.mark.parametrize("arguments", [True, False])
def test_a_named_profile_wins_then_arguments_then_the_environment_then_the_login_without_a_name(
    monkeypatch: pytest.MonkeyPatch, arguments: bool, environment: bool, named_by: str
) -> None:
    if environment:
        for name, value in zip(NAMES, PLACES["environment"], strict=False):
            monkeypatch.setenv(name, value)
    if named_by == "environment":
        monkeypatch.setenv("SLASHTAG_PROFILE", "shop")
    given = login("arguments") if arguments else Login()
    profile = "shop" if named_by == "argument" else None
    if arguments and profile:
        with pytest.raises(ConfigurationError, match="not both"):
            find_login(given, profile)
        return
    expected = "environment" if environment else "default"
    expected = "arguments" if arguments else "shop" if named_by != "nothing" else expected
    assert place_of(find_login(given, profile)) == expected


@pytest.mark.parametrize("name", ["SLASHTAG_APIKEY", "SLASHTAG_APISECRET"])
def test_a_key_is_never_combined_with_the_secret_of_another_place(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "k" * 20)
    with pytest.raises(ConfigurationError):
        AsyncSession("http://127.0.0.1:8004")
    with pytest.raises(ConfigurationError):
        AsyncSession("http://127.0.0.1:8004", **{name.partition("_")[2].lower(): "k" * 20})


@pytest.mark.parametrize("profile", [None, "shop"])
def test_saved_credentials_are_for_their_service_only(
    monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    place = profile or "default"
    same, other = Login(base_url=f"{PLACES[place][0]}/api/v1/"), Login(base_url="http://127.0.0.1:9")
    assert find_login(same, profile).apikey == PLACES[place][1]
    with pytest.raises(ConfigurationError, match="not sent elsewhere"):
        find_login(other, profile)
    monkeypatch.setenv("SLASHTAG_BASE_URL", "http://127.0.0.1:9")
    if profile is None:
        with pytest.raises(ConfigurationError, match="not sent elsewhere"):
            find_login(Login())
    else:
        assert place_of(find_login(Login(), profile)) == "shop"


@pytest.mark.parametrize("profile", ["shopp", "default", "../shop", 5, "credentials"])
def test_a_profile_that_does_not_exist_is_told_with_those_that_do(profile: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        AsyncSession(profile=profile)
    assert "shop" in str(raised.value) or "named by" in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b'{"concurrency": "x"}', b'{"base_url": "https://a.example", "apikey": "of no secret"}'],
)
def test_a_file_that_is_damaged_is_told(content: bytes) -> None:
    login_path("shop").write_bytes(content)
    with pytest.raises(ConfigurationError, match="damaged"):
        AsyncSession(profile="shop")


# --- settings ------------------------------------------------------------------------------------------

#: Of each setting: what is saved, a variable's text and its value, and an argument.
SETTINGS: dict[str, tuple[object, str, object, object]] = {
    "concurrency": (7, "8", 8, 9),
    "timeout": (7.5, "8", 8.0, 9),
    "range_end": ("exclusive", "inclusive", "inclusive", "exclusive"),
    "allow_http": (True, "false", False, True),
    "proxy": (Secret("http://saved:1"), "http://variable:1", "http://variable:1", "http://argument:1"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_argument_wins_then_a_variable_then_the_profile(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, text, value, argument = SETTINGS[name]
    save_login(login("shop", **{name: saved}), "shop")
    assert getattr(find_login(Login(), "shop"), name) == saved
    monkeypatch.setenv(f"SLASHTAG_{name.upper()}", text)
    assert getattr(find_login(Login(), "shop"), name) == value
    assert getattr(find_login(Login(**{name: argument}), "shop"), name) == argument


def test_a_variable_that_cannot_be_meant_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("CONCURRENCY", "many"), ("ALLOW_HTTP", "perhaps"), ("RANGE_END", "open")):
        with monkeypatch.context() as patch:
            patch.setenv(f"SLASHTAG_{name}", text)
            with pytest.raises(ConfigurationError, match=f"SLASHTAG_{name}"):
                AsyncSession(profile="shop")
    check_variables()
    monkeypatch.setenv("SLASHTAG_SHOP_COLOUR", "is of somebody else")
    check_variables()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_only_its_user_may_read_a_login() -> None:
    before = os.umask(0)
    try:
        file = save_login(login("shop"), "shop")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        AsyncSession(profile="shop")
