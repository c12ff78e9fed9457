"""Laws of reading JSON whose texts are not Unicode: what is readable is read as ever, the rest is marked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.lenient_json import decode

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=6)
#: Texts as JavaScript cuts them, too.
cut_texts = st.text(st.characters(codec=None) | st.sampled_from("\ud83d\ude00\\u"), max_size=6)


def values_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = text | st.integers() | st.booleans() | st.none()
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
    )


@given(values_of(texts), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]))
def test_what_is_unicode_is_read_as_it_is(value: Any, encoding: str) -> None:
    assert decode(json.dumps([value], ensure_ascii=False).encode(encoding)) == [value]


@given(st.lists(cut_texts, max_size=5))
@example(["\\ud83d"])
@example(["\\\ud83d", "\ud83d\ude00"])
def test_halves_of_characters_are_replaced_and_nothing_else(value: list[str]) -> None:
    body = json.dumps(value).encode()
    read = json.loads(body)  # joins two halves that are neighbours
    assert decode(body) == [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in read]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (rb"https://a.example/\ud83d", "https://a.example/\ufffd"),
        (rb"\ude00\ud83d!", "\ufffd\ufffd!"),
        (rb"\\ud83d", "\\ud83d"),
        (rb"\uD83D\uDE00", "\U0001f600"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\x93quoted\x94", "\ufffdquoted\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"a\x00b", "a\ufffdb"),
        (b"a\tb", "a\tb"),
        ("\ufffd".encode(), "\ufffd"),
    ],
)
def test_what_is_no_character_becomes_the_replacement_character(written: bytes, expected: str) -> None:
    assert decode(b'"' + written + b'"') == expected


@pytest.mark.parametrize("body", [b"", b'{"a": 1', b"<html>", b'"\\q"', b"[1] 2", b"\x00", b'{"a":1}\xe9'])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        decode(body)
