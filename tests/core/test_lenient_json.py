"""Laws of reading JSON whose texts are not Unicode: what is readable is read as ever, the rest is marked."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.lenient_json import as_unicode

texts = st.text(st.characters(codec="utf-8"), max_size=6)
#: Texts as JavaScript cuts them, too.
cut_texts = st.text(st.characters(codec=None) | st.sampled_from("\ud83d\ude00\\u"), max_size=6)


def decode(body: bytes) -> Any:
    return json.loads(as_unicode(body))


@given(
    st.lists(texts | st.integers() | st.dictionaries(texts, texts)), st.sampled_from(["utf-8", "utf-8-sig"])
)
def test_what_is_unicode_is_read_as_it_is(value: Any, encoding: str) -> None:
    assert decode(json.dumps(value, ensure_ascii=False).encode(encoding)) == value


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
        (b"caf\xe9", "caf\ufffd"),
        (b"\x93quoted\x94", "\ufffdquoted\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"a\tb", "a\tb"),
    ],
)
def test_what_is_no_character_becomes_the_replacement_character(written: bytes, expected: str) -> None:
    assert decode(b'"' + written + b'"') == expected


@pytest.mark.parametrize("body", [b"", b'{"a": 1', b"<html>", b"[1] 2", b'{"a":1}\xe9'])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        as_unicode(body)
