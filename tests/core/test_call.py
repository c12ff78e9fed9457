"""Laws of calls: values that hide passwords; the documented limits are checked before anything is sent."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from slashtag import Failure, InvalidRequestError, ServerError
from slashtag._core.call import Call
from slashtag._core.checks import check_int, check_text
from slashtag._core.limits import MAX_INT
from slashtag._credentials import Credentials
from slashtag._resources.urls import RowsUpdated, path_segment
from slashtag._sending.transport import Transport

PASSWORD = "pässwörd/1"

UPDATE = Call(
    method="PUT",
    path="urls/spring",
    returns=RowsUpdated,
    body=msgspec.json.encode({"password": PASSWORD}),
    repeat="if not done",
    secrets=(PASSWORD,),
)


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        ascii,
        lambda c: repr([*c.__rich_repr__()]),
        lambda c: repr(Failure(c, ServerError("x", status=500))),
    ],
)
def test_a_call_never_shows_its_body_or_secrets(show: Callable[[object], str]) -> None:
    assert PASSWORD[4:] not in show(UPDATE)
    assert "PUT urls/spring" in show(UPDATE)


def test_the_body_is_the_only_way_by_which_a_password_leaves() -> None:
    # A worker that unpickles an update has to send it.
    sent = msgspec.structs.replace(UPDATE, body=None, secrets=())
    assert PASSWORD.encode() not in pickle.dumps(sent)


# --- limits ------------------------------------------------------------------------------------------


@given(st.text(max_size=30), st.integers(1, 30))
def test_text_is_taken_up_to_its_limit(text: str, longest: int) -> None:
    if 0 < len(text) <= longest:
        assert check_text("it", text, longest) == text
    else:
        with pytest.raises(InvalidRequestError, match="it "):
            check_text("it", text, longest)


@given(st.integers(), st.integers(-5, 5), st.integers(-5, 5) | st.none())
def test_an_int_is_taken_within_its_bounds(value: int, low: int, high: int | None) -> None:
    bounds = () if high is None else (high,)
    if low <= value <= (MAX_INT if high is None else high):
        assert check_int("it", value, low, *bounds) == value
    else:
        with pytest.raises(InvalidRequestError):
            check_int("it", value, low, *bounds)


@pytest.mark.parametrize("value", [None, b"5", ["5"], True, 5.0])
def test_another_type_is_refused(value: object) -> None:
    for check in (lambda: check_text("it", value, None), lambda: check_int("it", value, 0)):
        with pytest.raises(InvalidRequestError):
            check()


def test_text_without_utf_8_form_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="lone surrogate") as caught:
        check_text("password", "secret\ud800", None)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


# --- the path of an update ---------------------------------------------------------------------------

slashtags = st.text(min_size=1, max_size=100).filter(
    lambda key: key not in (".", "..") and not (key.isascii() and key.isdigit())
)


@given(slashtags)
@example("a/b?c#d%2Fe f")
@example("...")
@example("٣")
@example("a/../b")
@example("\x00\r\n")
def test_a_slashtag_is_one_segment_of_the_url_that_is_sent(key: str) -> None:
    call = Call(method="PUT", path=f"urls/{path_segment(key)}", returns=RowsUpdated)
    transport = Transport(URL("https://h/api/v1/"), Credentials("k" * 20, "s" * 12))
    sent = transport.url(call).raw_path_qs
    assert sent.isascii()
    head, _, segment = sent.rpartition("/")
    assert (head, unquote(segment)) == ("/api/v1/urls", key)


queries = st.lists(st.tuples(st.text(min_size=1, max_size=5), st.text(max_size=40)), max_size=4)


@given(slashtags, queries)
@example("a", [("url_keys", "a-1,b_2,c.3,d~4"), ("date_range", "2024-01-01T00:00:00+00:00,2024-02-01")])
@example("a", [("tag", ""), ("tag", "%2B+ &=;#?/:@!$'()*,%")])
@example("a", [("url_keys", "ü," * 150), ("url_keys", "ü," * 150)])
@example("a", [("url_keys", "a," * 150)])
def test_a_server_reads_the_parameters_that_were_given(key: str, params: list[tuple[str, str]]) -> None:
    call = Call(method="GET", path=f"urls/{path_segment(key)}", returns=RowsUpdated, params=tuple(params))
    base = URL("https://h/ü/api/v1/")
    transport = Transport(base, Credentials("k" * 20, "s" * 12))
    for _ in range(2):
        path, _, query = transport.url(call).raw_path_qs.partition("?")
        assert path == base.raw_path + call.path
        assert query.isascii()
        assert "+" not in query  # read as a space, or as itself
        assert parse_qsl(query, keep_blank_values=True) == params


@pytest.mark.parametrize(
    "key", ["1", "007", "1234567890", ".", "..", "", "a" * 101, "\ud800", 0, -1, True, None, 1.0, b"a"]
)
def test_a_key_that_could_mean_another_link_or_none_is_refused(key: Any) -> None:
    with pytest.raises(InvalidRequestError):
        path_segment(key)
