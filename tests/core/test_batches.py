"""Laws of batches: they hold every slashtag once, in order, and fit a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from urllib.parse import parse_qsl

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from slashtag import DateRange, InvalidRequestError, ShortUrl
from slashtag._core.batches import Selector, encoded_size, halves, in_fixed_order, select
from slashtag._core.queries import TimeSlice
from slashtag._core.windows import parse_zone
from slashtag._credentials import Credentials
from slashtag._sending.transport import Transport

from ..support.laws import examples


def refuse(key: object, error: InvalidRequestError) -> None:
    raise error


def batched(given_keys: Iterable[str], room: int) -> list[tuple[str, ...]]:
    return [selector.keys for selector in select(given_keys, None, None, room, refuse)]


keys = st.text(min_size=1, max_size=100).filter(
    lambda key: "," not in key and "://" not in key and key.isprintable()
)
#: Up to 120 different keys of up to 100 characters of one to four bytes, each of which takes three as sent.
wide_keys = st.lists(st.tuples(st.sampled_from("aä語😀 /"), st.integers(1, 96)), max_size=120).map(
    lambda drawn: [f"{char * length}{n}" for n, (char, length) in enumerate(drawn)]
)


@given(st.lists(st.just("a") | keys) | wide_keys, st.integers(2_000, 8_000))
def test_batches_concatenate_back_to_the_keys_without_repetitions(given_keys: list[str], room: int) -> None:
    assert list(chain(*batched(given_keys, room))) == list(dict.fromkeys(given_keys))


@given(st.integers(0, 450))
def test_short_keys_go_a_hundred_to_a_batch(n: int) -> None:
    assert [len(batch) for batch in batched(map(str, range(n)), 8_000)] == [
        min(100, n - at) for at in range(0, n, 100)
    ]


@given(wide_keys)
@example([f"{'語' * 97}{n:03d}" for n in range(100)])
@example([f"{'/' * 97}{n:03d}" for n in range(100)])
def test_a_batch_with_its_widest_piece_fits_a_target_of_8000_bytes(given_keys: list[str]) -> None:
    base = URL("https://api.example.com/some/prefix/api/v1/")
    assert all(len(target) <= 8_000 for target in _targets(given_keys, base))


@given(wide_keys, st.integers(2_000, 8_000))
def test_a_hundred_keys_are_one_batch_if_they_fit(given_keys: list[str], room: int) -> None:
    hundred = tuple(given_keys[:100])
    fits = not hundred or encoded_size(",".join(hundred)) <= room
    assert (batched(given_keys, room)[:1] == [hundred][: len(hundred)]) is fits


@examples(60)
@given(
    st.lists(
        st.text(min_size=1).filter(lambda key: not re.search(r",|://|^[\r\n]|[\r\n]\Z", key)),
        min_size=1,
        unique=True,
    )
)
@example(["+", "%2B", "a b", "ä", "&", "=", ";", "#", "?", "/", "\\", "%", "\x00", "a\nb", "'\""])
def test_keys_arrive_as_they_are(given_keys: list[str]) -> None:
    base = URL("https://api.example.com/api/v1/")
    arrived = [dict(parse_qsl(target.partition("?")[2])) for target in _targets(given_keys, base)]
    assert [key for query in arrived for key in query["url_keys"].split(",")] == given_keys


def _targets(given_keys: Sequence[str], base: URL) -> list[str]:
    room = 8_000 - 400 - len(base.raw_path)
    query = DateRange("2024-01-01", "2024-01-31")
    piece: TimeSlice = query._time_slices(parse_zone("+05:30"), datetime.now(UTC), "inclusive")[0]
    transport = Transport(base, Credentials("k" * 20, "s" * 12))
    return [
        transport.url(query._call(Selector(",".join(batch)), piece)).raw_path_qs
        for batch in batched(given_keys, room)
    ]


@given(st.lists(st.text(st.sampled_from("ab/é, \n\ud800"), max_size=3) | st.just("x" * 8_001), max_size=8))
def test_slashtags_that_are_checked_at_once_are_those_that_pass_one_by_one(given_keys: list[str]) -> None:
    told = list[object]()
    found = select(given_keys, None, None, 8_000, lambda key, error: told.append(key))
    passed = [key for key in given_keys if not told.count(key)]
    assert [key for each in found for key in each.keys] == list(dict.fromkeys(passed))
    assert all(re.search(r"^$|,|^\n|\n\Z|\ud800|x{8001}", key) for key in map(str, told))
    assert not any(re.search(r"^$|,|^\n|\n\Z|\ud800|x{8001}", key) for key in passed)


def test_a_short_url_is_no_slashtag_but_may_be_one_of_a_link() -> None:
    told = list[object]()
    keys_of = [
        "a://b",
        "https://l.example/a",
        "http://b",
        "://",
        ShortUrl(id=1, slashtag="https://c"),
        ShortUrl(id=2, slashtag="d\n"),
    ]
    found = select(keys_of, None, None, 8_000, lambda key, error: told.append(key))
    assert [each.keys for each in found] == [("a://b", "://", "https://c", "d\n")]
    assert told == ["https://l.example/a", "http://b"]


@pytest.mark.parametrize("odd", [5, [], None, b"a"])
def test_what_is_no_slashtag_is_refused_wherever_it_stands(odd: object) -> None:
    for given_keys in (["a", odd], [odd, "a"]):
        with pytest.raises(TypeError):
            select(given_keys, None, None, 8_000, refuse)  # type: ignore[arg-type]


@given(st.lists(st.integers(), min_size=2))
def test_halves_concatenate_back_and_are_smaller(items: list[int]) -> None:
    left, right = halves(items)
    assert [*left, *right] == items
    assert left
    assert 0 <= len(right) - len(left) <= 1


def test_a_slashtag_is_known_by_all_its_links_and_one_given_as_such_by_none() -> None:
    links = [ShortUrl(id=n, slashtag=slashtag) for n, slashtag in ((7, "a"), (3, "b"), (5, "a"))]
    (batch,) = select(["c", *links], None, None, 8_000, refuse)
    assert (batch.keys, batch.link_ids) == (("c", "a", "b"), ((), (5, 7), (3,)))
    assert batch.shared == ("a",)
    assert batch.singles() == [Selector.of([link]) for link in batch.links]
    assert batch.apart({"a"}) == [Selector.of([("c", ()), ("b", (3,))]), Selector.of([("a", (5, 7))])]
    (batch,) = select(["c", "a"], None, None, 8_000, refuse)
    assert batch.link_ids == ()


@given(st.frozensets(st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1)))
def test_a_set_has_the_same_order_in_every_process(given_keys: frozenset[str]) -> None:
    assert list(in_fixed_order(given_keys)) == sorted(given_keys)


def test_a_slashtag_with_a_comma_is_refused() -> None:
    told = list[object]()
    found = select(["a", "b,c", "d"], None, None, 8_000, lambda key, error: told.append(key))
    assert ([each.keys for each in found], told) == ([("a", "d")], ["b,c"])
