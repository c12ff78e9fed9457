"""Which account a destination is bound to."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import msgspec
import pytest

from slashtag import AsyncSession, ConfigurationError, ShortUrl
from slashtag.dlt._account import FORMAT, bind, confirm_account
from slashtag.dlt._records import Series, TableRecord

URL = "https://links.example/api/v1/"
#: One link of each slashtag, but two of the first.
SERIES = {f"k{n}": Series((n,) if n else (0, 100)) for n in range(20)}


def session_of(apikey: str = "a-key-of-the-account", base_url: str = URL, **more: str) -> AsyncSession:
    return AsyncSession(base_url=base_url, apikey=apikey, **{"apisecret": "a-secret-567", **more})


def loaded(state: dict[str, Any], base_url: str = URL) -> dict[str, Any]:
    """State of a destination after a load."""
    day = date(2024, 3, 10)
    record = TableRecord("+00:00", base_url, day, day, day, (), SERIES)
    state["resources"] = {"clicks_daily": {"record": msgspec.json.encode(record).decode()}}
    return state


def test_a_destination_is_bound_by_its_first_load_or_the_next_of_a_newer_version() -> None:
    for state in ({}, loaded({})):
        assert bind(state, session_of()) is None
        assert state["format"] == FORMAT
        assert "a-key-of-the-account" not in json.dumps(state)
        assert "a-secret-567" not in json.dumps(state)
        kept = json.dumps(state)
        # The secret may be replaced, and so may the machine.
        assert bind(state, session_of(apisecret="a-new-secret-567")) is None
        assert json.dumps(state) == kept
    one, other = dict[str, Any](), dict[str, Any]()
    bind(one, session_of())
    bind(other, session_of())
    assert one["account"]["key"] != other["account"]["key"], "each destination has another salt"


def test_a_destination_of_a_newer_version_is_refused() -> None:
    state: dict[str, Any] = {"format": FORMAT + 1}
    with pytest.raises(ConfigurationError, match="newer version"):
        bind(state, session_of())
    assert state == {"format": FORMAT + 1}


def test_another_service_is_refused_and_another_apikey_to_be_confirmed() -> None:
    state = loaded({})
    bind(state, session_of())
    for base_url in ("https://links.example:8443", "https://other.example"):
        with pytest.raises(ConfigurationError, match="another account"):
            bind(state, session_of(base_url=base_url))
    empty: dict[str, Any] = {}
    bind(empty, session_of())
    with pytest.raises(ConfigurationError, match="another account"):
        bind(empty, session_of("another-key-of-some-account"))
    key = bind(state, session_of("another-key-of-some-account"))
    assert key is not None
    assert key != state["account"]["key"]


def links(*without: str) -> list[ShortUrl]:
    return [
        ShortUrl(id=id, slashtag=key)
        for key, series in SERIES.items()
        if key not in without
        for id in series.ids
    ]


@pytest.mark.parametrize(
    ("listed", "is_same"),
    [
        (links(), True),
        ([*links(), ShortUrl(id=500, slashtag="new")], True),
        (links("k1", "k2"), True),
        (links("k1", "k2", "k3"), False),
        # A link that another one has joined, or left, is not the same.
        ([*links("k1", "k2"), ShortUrl(id=500, slashtag="k3")], False),
        (links("k1", "k2")[1:], False),
        ([ShortUrl(id=link.id + 1, slashtag=link.slashtag) for link in links()], False),
        ([], False),
    ],
)
def test_a_new_apikey_is_that_of_the_account_if_nine_in_ten_links_are_the_same(
    listed: list[ShortUrl], is_same: bool, caplog: pytest.LogCaptureFixture
) -> None:
    state = loaded({"account": {"key": "before"}})
    if is_same:
        confirm_account(state, "after", listed, URL)
        assert "taken for the same" in caplog.text
    else:
        with pytest.raises(ConfigurationError, match="another account"):
            confirm_account(state, "after", listed, URL)
    assert state["account"]["key"] == ("after" if is_same else "before")


def test_an_account_without_links_at_the_last_load_is_not_known() -> None:
    state: dict[str, Any] = {"account": {"key": "before"}}
    with pytest.raises(ConfigurationError, match="another account"):
        confirm_account(state, "after", links(), URL)
