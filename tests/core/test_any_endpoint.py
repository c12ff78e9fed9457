"""Laws of calls that a caller makes up: no path leaves the base address, no value becomes another one."""

from __future__ import annotations

import json
import posixpath
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.any_endpoint import any_call, is_below_base
from slashtag._core.call import Call

from .test_response import json_with

BASE = "http://links.example/api/v1/"
TEXTS = r"a urls . .. / // \ %2e %2E %2f %5c %25 ? # : %00 %0d%0a %20 @ http: ü %c3%bc %c0%ae"
PIECES = [*TEXTS.split(), "\n", " "]


@example(r"a\..\..\..")
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=12))
def test_no_path_leaves_the_base_address_however_it_is_read(path: str) -> None:
    if not is_below_base(path):
        return
    call = made("GET", path)
    for each in (call.path, unquote(call.path), unquote(call.path).replace("\\", "/")):
        below = posixpath.normpath(f"/api/v1/{each.partition('?')[0].partition('#')[0]}")
        assert below.startswith("/api/v1/")
        assert not any(ord(character) < 0x20 or ord(character) == 0x7F for character in each)
    # As a reference, by RFC 3986.
    joined = urlsplit(urljoin(BASE, call.path))
    assert joined.netloc == "links.example"
    assert joined.path.startswith("/api/v1/")
    assert not joined.query


@given(st.text(min_size=1, max_size=20).filter(lambda text: is_below_base(quote(text, safe=""))))
def test_a_slashtag_that_is_quoted_arrives_as_it_is(slashtag: str) -> None:
    call = made("PUT", f"urls/{quote(slashtag, safe='')}")
    assert unquote(call.path.removeprefix("urls/")) == slashtag


@pytest.mark.parametrize(
    "slashtag", ["a/b", "100%", "a?b", "a#b", "spring sale", "日本", "a:b", "a;b", "1.2", ".well"]
)
def test_usual_slashtags_are_allowed_in_a_path(slashtag: str) -> None:
    assert is_below_base(f"urls/{quote(slashtag, safe='')}")


@given(json_with(st.floats(allow_nan=False, allow_infinity=False)).filter(lambda value: value is not None))
def test_a_body_is_what_was_given(value: Any) -> None:
    body = made("POST", "urls", value).body
    assert body is not None
    assert json.loads(body) == value


#: Arguments of which one is not allowed: method, path, parameters and body.
REFUSED: list[tuple[Any, Any, Any, Any]] = [
    *(
        ("POST", "urls", None, body)
        for body in (float("nan"), [float("inf")], {"a": object()}, "\ud83d", {(1, 2): 3})
    ),
    *(("GET", "urls", {"a": value}, None) for value in (object(), float("nan"), {"b": 1}, b"x", ["x"])),
    *(("GET", "urls", params, None) for params in ({1: 1}, ["a"])),
    *((method, "urls", None, None) for method in ("", "GET ", "HEAD", None)),
    *(
        ("GET", path, None, None)
        for path in (None, "", "a%zz", "urls/%", "urls/\ud83d", "urls//a", "urls/ /a", "a:b")
    ),
    ("GET", "a#b", None, None),
    ("GET", "urls", None, {}),  # a body
]


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_not_allowed_is_refused(arguments: tuple[Any, Any, Any, Any]) -> None:
    assert isinstance(any_call(*arguments), str)


def test_deep_json_is_refused() -> None:
    value = list[Any]()
    for _ in range(100_000):
        value = [value]
    assert isinstance(any_call("POST", "urls", None, value), str)


def test_parameters_are_texts_and_none_is_left_out() -> None:
    params: dict[str, Any] = {"a": 1, "b": True, "c": None, "d": 2.5, "e": "\r\nX: 1"}
    call = any_call("GET", "urls", params, None)
    assert isinstance(call, Call)
    assert call.params == (("a", "1"), ("b", "true"), ("d", "2.5"), ("e", "\r\nX: 1"))


def test_calls_are_repeated_by_their_method() -> None:
    assert {made(method).repeat for method in ("GET", "PUT", "DELETE")} == {"always"}
    assert {made(method).repeat for method in ("POST", "PATCH")} == {"if unsent"}


def test_members_that_are_named_as_secrets_are() -> None:
    value = {"link": {"password": "one", "token": ["two", {"x": "three"}]}, "tag": "four", "author": "five"}
    call = any_call("POST", "urls", {"apikey": "six", "page": "seven"}, value)
    assert isinstance(call, Call)
    assert {*call.secrets} == {"one", "two", "three", "six"}


def made(method: str, path: str = "urls", json: object = None) -> Call[Any]:
    call = any_call(method, path, None, json)
    assert isinstance(call, Call), call
    return call
