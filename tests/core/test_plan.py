"""Laws of plans: they are values, and their parts add up to them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise, product
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from slashtag import AllTime, CountryGeo, DateRange, Day, InvalidRequestError, Plan, Query, ShortUrl, Year
from slashtag._core.plan import batches, check_slashtag, check_tag, encoded_size, plain_batches
from slashtag._core.queries import Selector, TimeSlice
from slashtag._core.windows import parse_zone, windows
from slashtag._credentials import Credentials
from slashtag._sending.transport import Transport

from ..support.laws import examples
from . import clicklog
from .clicklog import KEYS, Click, Service

NOW = datetime(2025, 6, 15, tzinfo=UTC)
INDIA = timezone(timedelta(hours=5, minutes=30))

QUERIES: list[Query[Any]] = [
    DateRange("2024-01-01", "2024-12-31"),
    Day("2024-04-07"),
    Year(2024),
    AllTime(),
    CountryGeo("US", "2024-01-01", "2024-12-31"),
]


def plan_of(query: Query[Any], selectors: list[Selector]) -> Plan[Any]:
    pieces = tuple(query.time_slices(INDIA, NOW, "inclusive"))
    return Plan(query, tuple(selectors), pieces, query.span(INDIA), 0, len(selectors) * len(pieces))


def run(plan: Plan[Any], service: Service) -> Any:
    running = plan.query.running_sum(plan.span)
    for ask, call in zip(plan.requests(), plan.calls(), strict=True):
        running.add(service(call).check(ask.time_slice.window)[0])
    return running.result()


plans = st.builds(
    lambda query, n: plan_of(query, [Selector(keys=(key,)) for key in KEYS[:n]]),
    st.sampled_from(QUERIES),
    st.integers(0, len(KEYS)),
)


def test_a_plan_is_each_selector_with_each_piece() -> None:
    plan = plan_of(QUERIES[0], [Selector(keys=("a", "b")), Selector(tag="t")])
    assert [(ask.selector, ask.time_slice) for ask in plan.requests()] == list(
        product(plan.selectors, plan.time_slices)
    )
    assert [call.params[0] for call in plan.calls()] == [("url_keys", "a,b")] * 12 + [("tag", "t")] * 12


@given(plans)
def test_its_length_is_its_number_of_calls(plan: Plan[Any]) -> None:
    assert len(plan) == len(list(plan.requests())) == len(list(plan.calls()))


@given(plans, st.integers(1, 70), st.integers(1, 5))
def test_the_calls_of_the_parts_are_the_calls_of_the_plan(plan: Plan[Any], n: int, again: int) -> None:
    calls = [call for part in plan.split(n) for smaller in part.split(again) for call in smaller.calls()]
    assert calls == list(plan.calls())


@given(plans, st.integers(1, 70))
def test_parts_are_of_about_equal_length_and_carry_no_selector_in_vain(plan: Plan[Any], n: int) -> None:
    parts = plan.split(n)
    lengths = [len(part) for part in parts]
    assert len(parts) == n
    assert max(lengths) - min(lengths) <= 1
    for part in parts:
        asked = {ask.selector for ask in part.requests()}
        assert asked == set(part.selectors) or not part


@given(clicklog.logs(st.dates(date(2023, 12, 25), date(2025, 1, 5))), plans, st.integers(1, 20))
def test_the_results_of_the_parts_add_up_to_the_result(log: list[Click], plan: Plan[Any], n: int) -> None:
    service = Service(log, named_states=2)
    whole = run(plan, service)
    assert type(whole).merge(run(part, service) for part in plan.split(n)) == whole


@given(plans, st.integers(1, 5))
def test_plans_and_their_calls_pickle(plan: Plan[Any], n: int) -> None:
    for part in (plan, *plan.split(n)):
        again = pickle.loads(pickle.dumps(part))
        assert (again, list(again.calls()), len(again)) == (part, list(part.calls()), len(part))


@pytest.mark.parametrize("n", [0, -1])
def test_a_plan_is_not_split_into_nothing(n: int) -> None:
    with pytest.raises(InvalidRequestError):
        plan_of(AllTime(), []).split(n)


# --- batches of slashtags -------------------------------------------------------------------------------


def refuse(key: object, error: InvalidRequestError) -> None:
    raise error


keys = st.text(min_size=1, max_size=100).filter(lambda key: "," not in key and key.isprintable())
#: Up to 120 different keys of up to 100 characters of one to four bytes, each of which takes three as sent.
wide_keys = st.lists(st.tuples(st.sampled_from("aä語😀 /"), st.integers(1, 96)), max_size=120).map(
    lambda drawn: [f"{char * length}{n}" for n, (char, length) in enumerate(drawn)]
)


@given(st.lists(keys), st.integers(400, 8_000))
def test_batches_concatenate_back_to_the_keys_without_repetitions(given_keys: list[str], room: int) -> None:
    batched = [key for batch in batches(given_keys, room, refuse) for key in batch]
    assert batched == list(dict.fromkeys(given_keys))


@given(st.integers(0, 450))
def test_short_keys_go_a_hundred_to_a_batch(n: int) -> None:
    assert [len(batch) for batch in batches(map(str, range(n)), 8_000, refuse)] == [100] * (n // 100) + [
        n % 100
    ] * (n % 100 > 0)


@given(wide_keys)
@example([f"{'語' * 97}{n:03d}" for n in range(100)])
@example([f"{'/' * 97}{n:03d}" for n in range(100)])
def test_a_batch_with_its_widest_piece_fits_a_target_of_8000_bytes(given_keys: list[str]) -> None:
    base = URL("https://api.example.com/some/prefix/api/v1/")
    assert all(len(target) <= 8_000 for target in _targets(given_keys, base))


@given(wide_keys, st.integers(2_000, 8_000))
def test_a_batch_is_cut_only_where_the_next_key_has_no_place(given_keys: list[str], room: int) -> None:
    for batch, following in pairwise(batches(given_keys, room, refuse)):
        assert len(batch) == 100 or sum(encoded_size(key) + 3 for key in (*batch, following[0])) > room


@examples(60)
@given(st.lists(st.text(min_size=1).filter(lambda key: "," not in key), min_size=1, unique=True))
@example(["+", "%2B", "a b", "ä", "&", "=", ";", "#", "?", "/", "\\", "%", "\x00", "\n", "'\""])
def test_keys_arrive_as_they_are(given_keys: list[str]) -> None:
    base = URL("https://api.example.com/api/v1/")
    arrived = [dict(parse_qsl(target.partition("?")[2])) for target in _targets(given_keys, base)]
    assert [key for query in arrived for key in query["url_keys"].split(",")] == given_keys


def _targets(given_keys: Sequence[str], base: URL) -> list[str]:
    room = 8_000 - 400 - len(base.raw_path)
    (window,) = windows(date(2024, 1, 1), date(2024, 1, 31), parse_zone("+05:30"))
    query = DateRange("2024-01-01", "2024-01-31")
    piece: TimeSlice = query.time_slices(parse_zone("+05:30"), datetime.now(UTC), "inclusive")[0]
    assert piece.window == window
    transport = Transport(base, Credentials("k" * 20, "s" * 12))
    return [
        transport.target(query.call(Selector(keys=batch), piece))
        for batch in batches(given_keys, room, refuse)
    ]


@pytest.mark.parametrize("key", ["", "a,b", ",", "\ud800", "ä" * 1_000])
def test_a_slashtag_that_cannot_be_asked_for_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_slashtag(key)


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_a_tag_that_cannot_be_asked_for_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_tag(name)


def test_selectors_of_other_types_are_type_errors() -> None:
    for check, value in ((check_tag, 5), (check_slashtag, 5), (check_slashtag, None), (check_slashtag, b"a")):
        with pytest.raises(TypeError):
            check(value)


def test_a_link_is_asked_for_by_its_slashtag() -> None:
    assert check_slashtag(ShortUrl(id=1, slashtag="spring")) == check_slashtag("spring") == "spring"
    assert check_tag("a tag") == "a tag"


def test_a_selector_is_one_parameter_and_says_what_it_is() -> None:
    assert Selector(tag="a b").params() == (("tag", "a b"),)
    assert Selector(keys=("a", "b")).params() == (("url_keys", "a,b"),)
    told = [
        str(selector) for selector in (Selector(tag="t"), Selector(keys=("a",)), Selector(keys=("a", "b")))
    ]
    assert told == ["tag 't'", "slashtag 'a'", "2 slashtags from 'a' to 'b'"]


@given(
    st.lists(st.text(st.sampled_from("ab/é,\ud800"), max_size=3) | st.just("x" * 1_400), max_size=8)
    | wide_keys
    | st.lists(st.integers(0, 300).map(str), max_size=300),
    st.integers(400, 8_000),
)
@example(["a"] * 2 + [str(n) for n in range(120)], 8_000)
@example(["/" * 40 + str(n) for n in range(90)], 7_900)
def test_plain_slashtags_make_the_same_batches_as_checked_ones(given_keys: list[str], room: int) -> None:
    found = plain_batches(given_keys, room)
    if found is not None:
        assert found == list(batches(given_keys, room, refuse))
    elif all(key.isalnum() and key.isascii() and len(key) < 20 for key in given_keys):
        assert room < 3_000


def test_what_is_no_slashtag_is_not_plain() -> None:
    for keys_of in (["a", 5], [ShortUrl(id=1, slashtag="a")], [[]], ["a", ""], ["a,b"], ["", "a"]):
        assert plain_batches(keys_of, 8_000) is None
    assert plain_batches(["b", "a", "b"], 8_000) == [("b", "a")]
    assert plain_batches([], 8_000) == []
