"""Laws of listings: complete and in order, with no page asked for in vain, and an end to each."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import Page, PaginationError, Tag
from slashtag._core.paging import SeenIds

from .simulated_listing import Answer, Beyond, Service, Stray, cursor, page, read

BEYOND: list[Beyond] = ["empty", "404", "last page"]


def listing(n: int, size: int) -> Answer:
    """Serve the ids 0 to n-1."""
    return Service(n, size)


def fixed(*pages: Page[Tag] | None) -> Answer:
    """Serve given pages and then empty ones."""
    return lambda number: pages[number - 1] if number <= len(pages) else page(number, [])


def in_turn(*answers: Page[Tag] | None) -> Answer:
    """Serve one answer after the other, whatever page is requested."""
    left = iter(answers)
    return lambda number: next(left)


# --- complete, and no more than needed -----------------------------------------------------------------


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9))
def test_a_listing_is_complete_and_in_order(n: int, size: int, prefetch: int) -> None:
    assert read(cursor(prefetch=prefetch), listing(n, size))[0] == list(range(n))


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9), st.integers(1, 5))
def test_a_listing_goes_on_from_its_start_page(n: int, size: int, prefetch: int, start: int) -> None:
    found, rounds = read(cursor(start_page=start, prefetch=prefetch), listing(n, size))
    assert found == list(range(n))[(start - 1) * size :]
    assert rounds[0] == [start]


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9), st.integers(0, 70))
def test_a_limit_is_kept_and_nothing_beyond_it_is_asked_for(
    n: int, size: int, prefetch: int, limit: int
) -> None:
    found, rounds = read(cursor(prefetch=prefetch, limit=limit), listing(n, size))
    assert found == list(range(min(n, limit)))
    # Where there are fewer items, the end is confirmed by the page behind it.
    assert max(chain(*rounds), default=0) <= max(1, -(-limit // size)) + (n < limit)


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9))
def test_pages_are_requested_once_and_in_order_but_for_the_empty_page_that_ends_the_listing(
    n: int, size: int, prefetch: int
) -> None:
    asked = list(chain(*read(cursor(prefetch=prefetch), listing(n, size))[1]))
    again = [n // size + 1] if n % size == 0 else []
    assert sorted(asked) == sorted([*range(1, len(asked) - len(again) + 1), *again])


@pytest.mark.parametrize("n", [1, 37, 499])
def test_a_small_account_costs_one_request(n: int) -> None:
    assert read(cursor(), listing(n, 500))[1] == [[1]]


def test_an_empty_account_is_confirmed_by_a_second_request() -> None:
    assert read(cursor(), listing(0, 500)) == ([], [[1], [1]])


# --- the end -------------------------------------------------------------------------------------------


def test_a_short_page_ends_the_listing() -> None:
    assert read(cursor(prefetch=1), fixed(page(1, [1, 2, 3]), page(2, [4]))) == ([1, 2, 3, 4], [[1], [2]])


@pytest.mark.parametrize("prefetch", [1, 8])
@pytest.mark.parametrize("beyond", BEYOND)
def test_what_may_be_the_end_after_full_pages_is_requested_once_more(prefetch: int, beyond: Beyond) -> None:
    found, rounds = read(cursor(prefetch=prefetch), Service(9, 3, beyond=beyond))
    assert found == list(range(9))
    assert list(chain(*rounds)).count(4) == 2
    assert len(list(chain(*rounds))) == (6 if prefetch == 1 else 8)


@pytest.mark.parametrize("prefetch", [1, 2, 8])
@pytest.mark.parametrize("stray", ["empty", "404", 1, 4, 99])
def test_one_stray_answer_costs_one_request(prefetch: int, stray: Stray) -> None:
    usual = Service(25, 3)
    read(cursor(prefetch=prefetch), usual)
    for at in range(10):
        service = Service(25, 3, strays={at: stray})
        assert read(cursor(prefetch=prefetch), service)[0] == list(range(25))
        assert service.requests <= usual.requests + 1


@pytest.mark.parametrize("prefetch", [2, 8])
@pytest.mark.parametrize("length", [0, 1])
def test_a_page_that_was_too_short_is_read_again_with_the_pages_behind_it(length: int, prefetch: int) -> None:
    def answer(number: int) -> Page[Tag] | None:
        # The first answers to page 2 miss items, which the listing shows by the page behind it.
        return page(2, range(3, 3 + length)) if number == 2 and service.requests < 4 else service(number)

    service = Service(20, 3)
    assert read(cursor(prefetch=prefetch), answer)[0] == list(range(20))


@pytest.mark.parametrize("prefetch", [1, 8])
def test_a_page_that_stays_empty_before_one_that_is_not_is_an_error(prefetch: int) -> None:
    hole = Service(30, 3)
    with pytest.raises(PaginationError):
        read(cursor(prefetch=prefetch), lambda number: page(number, []) if number == 4 else hole(number))


@pytest.mark.parametrize("latest_first", [False, True])
@pytest.mark.parametrize(
    "stray",
    [
        page(2, [7, 6, 7]),  # an item in place of another one
        page(2, [10, 9, 8]),  # the page before in place of this one
    ],
)
def test_an_answer_that_was_wrong_once_loses_nothing(stray: Page[Tag], latest_first: bool) -> None:
    pages = [page(1, [10, 9, 8]), stray, page(2, [7, 6, 5]), page(3, [4])]
    listed = cursor(prefetch=1, latest_first=latest_first)
    assert read(listed, in_turn(*pages, page(4, [])))[0] == [10, 9, 8, 7, 6, 5, 4]


def test_an_item_that_stays_twice_in_its_page_is_given_once() -> None:
    twice = fixed(page(1, [1, 2, 2]), page(2, [3, 3, 4]), page(3, [5]))
    assert read(cursor(), twice)[0] == [1, 2, 3, 4, 5]


def test_an_empty_first_page_of_any_number_is_an_empty_account() -> None:
    assert read(cursor(), fixed(page(0, [])))[0] == []


# --- pages that are cut ----------------------------------------------------------------------------------


@given(st.integers(0, 250), st.sampled_from([10, 20, 50]), st.sampled_from([1, 2, 8]))
def test_a_cap_that_the_service_does_not_tell_is_found(n: int, cap: int, prefetch: int) -> None:
    assert read(cursor(prefetch=prefetch), Service(n, 100, cap=cap))[0] == list(range(n))


@pytest.mark.parametrize(("n", "pages"), [(99, [1]), (100, [1, 2]), (110, [1, 2]), (251, [1])])
def test_a_length_that_looks_like_a_cap_costs_one_more_request(n: int, pages: list[int]) -> None:
    assert list(chain(*read(cursor(), listing(n, 500))[1])) == pages


@pytest.mark.parametrize("said", [1, None], ids=["its own number", "the number requested"])
@pytest.mark.parametrize("length", [3, 30], ids=["a full page", "a page that looks capped"])
def test_the_first_page_again_may_be_a_service_that_ignores_the_page(said: int | None, length: int) -> None:
    with pytest.raises(PaginationError):
        read(cursor(), lambda number: page(said or number, range(length), 3 if length == 3 else 100))


# --- what a service may do -----------------------------------------------------------------------------


def test_the_page_size_of_an_empty_page_does_not_matter() -> None:
    assert read(cursor(), fixed(page(1, [1, 2, 3]), page(2, [], size=0)))[0] == [1, 2, 3]


@pytest.mark.parametrize("lying", [range(1, 2), range(2, 3), range(1, 99)])
def test_a_page_size_over_the_one_requested_does_not_end_the_listing(lying: range) -> None:
    def answer(number: int) -> Page[Tag]:
        told = 6 if number in lying else 3
        return page(number, range(10)[(number - 1) * 3 : number * 3], told)

    assert read(cursor(pagesize=3), answer)[0] == list(range(10))


def test_a_service_that_answers_with_its_last_page_past_the_end_is_read_to_the_end() -> None:
    last = page(3, [7])
    clamped = listing(7, 3)
    assert read(cursor(), lambda n: clamped(n) if n < 3 else page(n, [7]))[0] == [0, 1, 2, 3, 4, 5, 7]
    assert read(cursor(), lambda n: clamped(n) if n < 3 else last)[0] == [0, 1, 2, 3, 4, 5, 7]


def test_a_listing_that_begins_again_is_told() -> None:
    circle = fixed(page(1, [0, 1, 2]), page(2, [3, 4, 5]), page(3, [0, 1, 2]))
    with pytest.raises(PaginationError):
        read(cursor(), circle)


@given(
    st.integers(1, 120), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.sampled_from([1, 2, 8])
)
def test_a_listing_whose_page_size_changes_is_read_again(
    n: int, before: int, after: int, changes_at: int, prefetch: int
) -> None:
    old, new = Service(n, before), Service(n, after)
    found, _ = read(
        cursor(prefetch=prefetch), lambda number: new(number) if old.requests > changes_at else old(number)
    )
    assert found == list(range(n))


# --- an order that differs from page to page ------------------------------------------------------------


@given(
    st.integers(1, 90),
    st.integers(2, 12),
    st.integers(2, 90),
    st.sampled_from([1, 2, 8]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_ties_in_any_order_make_no_listing_short_or_give_an_item_twice(
    n: int, size: int, ties: int, prefetch: int, latest_first: bool, arrives: bool, seed: int
) -> None:
    random = Random(seed)

    def inserts() -> int:
        return int(arrives and random.random() < 0.1)

    service = Service(n, size, latest_first=latest_first, inserts=inserts, ties=ties, random=random)
    try:
        found, _ = read(cursor(prefetch=prefetch, latest_first=latest_first), service, random)
    except PaginationError:
        return
    assert len(found) == len(set(found))
    assert set(found) >= set(range(n))


@pytest.mark.unmeasured
@pytest.mark.parametrize("latest_first", [False, True])
@pytest.mark.parametrize("ties", [2, 40, 1_000])
def test_ties_in_any_order_are_found_by_reading_again(ties: int, latest_first: bool) -> None:
    for seed in range(8):
        service = Service(1_000, 100, latest_first=latest_first, ties=ties, random=Random(seed))
        found, _ = read(cursor(latest_first=latest_first), service)
        assert sorted(found) == list(range(1_000))


# --- records that come and go while the listing is read ------------------------------------------------


@pytest.mark.unmeasured
@given(
    st.integers(1, 90),
    st.integers(2, 7),
    st.sampled_from([1, 2, 8]),
    st.floats(0, 1),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_latest_first_is_whole_and_once_whatever_arrives_or_an_error(
    n: int, size: int, prefetch: int, rate: float, burst: int, random: Random
) -> None:
    def inserts() -> int:
        return random.randint(1, burst) if random.random() < rate else 0

    service = Service(n, size, latest_first=True, inserts=inserts)
    try:
        found, _ = read(cursor(prefetch=prefetch, latest_first=True), service, random)
    except PaginationError:
        # Only because something arrived.
        assert len(service.records) > n
    else:
        assert len(found) == len(set(found))
        assert set(found) >= set(range(n))


def test_latest_first_costs_little_more_while_links_arrive() -> None:
    # 17 a page, 8 ahead, 2 links arrive for every request: pages get deeper by 15.
    service = Service(2_000, 17, latest_first=True, inserts=lambda: 2)
    found, _ = read(cursor(latest_first=True), service, Random(3))
    assert set(found) >= set(range(2_000))
    assert len(found) == len(set(found))
    in_order = Service(2_000, 17, latest_first=True, inserts=lambda: 2)
    read(cursor(latest_first=True), in_order)
    # Those that arrived are read in the end.
    assert in_order.requests <= (2_000 + 2 * in_order.requests) / 15 + 10


def test_oldest_first_ids_may_be_in_any_order() -> None:
    pages = [page(n, [3 * n, 3 * n - 1, 3 * n - 2]) for n in range(1, 30)]
    found, rounds = read(cursor(), fixed(*pages, page(30, [99])))
    assert found == [tag.id for listed in pages for tag in listed.items] + [99]
    assert max(map(len, rounds)) == 2


@pytest.mark.unmeasured
@pytest.mark.parametrize("prefetch", [1, 8])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("n", [40, 43])
def test_an_earlier_page_in_place_of_one_loses_nothing_while_links_arrive(
    n: int, at: int, times: int, prefetch: int
) -> None:
    # With the link that arrived in between, it does not end as the page before.
    arrivals = iter([0] * at + [1])
    service = Service(n, 5, latest_first=True, inserts=lambda: next(arrivals, 0))

    def answer(number: int) -> Page[Tag] | None:
        if number > 1 and at <= service.requests < at + times:
            earlier = service(number - 1)
            return None if earlier is None else page(number, [tag.id for tag in earlier.items], 5)
        return service(number)

    try:
        found, _ = read(cursor(prefetch=prefetch, latest_first=True), answer)
    except PaginationError:
        assert times == 2
    else:
        assert len(found) == len(set(found))
        assert set(found) >= set(range(n))


@pytest.mark.parametrize("prefetch", [1, 8])
@pytest.mark.parametrize("arrivals", [5, 7, 40])
def test_a_listing_that_grows_faster_than_it_is_read_ends(prefetch: int, arrivals: int) -> None:
    service = Service(1_000, 5, latest_first=True, inserts=lambda: arrivals)
    with pytest.raises(PaginationError):
        read(cursor(prefetch=prefetch, latest_first=True), service)
    assert service.requests < 60


@pytest.mark.unmeasured
@given(
    st.integers(0, 90),
    st.integers(2, 12),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(BEYOND),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_no_odd_service_makes_a_listing_short_or_gives_an_item_twice(
    n: int, size: int, prefetch: int, beyond: Beyond, latest_first: bool, arrives: bool, random: Random
) -> None:
    # Two strays for one page are its end: they keep apart.
    strays: dict[int, Stray] = {
        at + random.randrange(18): random.choice(["empty", "404", 0, 1, 3, 99]) for at in range(0, 3_000, 30)
    }
    service = Service(
        n,
        size,
        latest_first=latest_first,
        beyond=beyond,
        strays=strays,
        inserts=lambda: random.randrange(size) if arrives and random.random() < 0.3 else 0,
    )
    try:
        found, _ = read(cursor(prefetch=prefetch, latest_first=latest_first), service, random)
    except PaginationError:
        return
    assert len(found) == len(set(found))
    assert set(found) >= set(range(n))


@pytest.mark.unmeasured
@given(st.integers(0, 90), st.integers(1, 9), st.sampled_from([1, 8]), st.randoms(use_true_random=False))
def test_deleted_records_make_no_item_come_twice(n: int, size: int, prefetch: int, random: Random) -> None:
    service = Service(n, size, deletes=lambda: random.randrange(3), random=random)
    try:
        found, _ = read(cursor(prefetch=prefetch), service, random)
    except PaginationError:
        return
    assert len(found) == len(set(found))


@given(st.integers(0, 60), st.integers(3, 9), st.sampled_from([1, 2, 8]), st.randoms(use_true_random=False))
def test_oldest_first_has_no_gap_while_records_are_appended(
    n: int, size: int, prefetch: int, random: Random
) -> None:
    service = Service(n, size, inserts=lambda: random.randrange(3), random=random)
    found, _ = read(cursor(prefetch=prefetch), service, random)
    assert found == list(range(len(found)))
    assert len(found) >= n


@given(st.lists(st.sets(st.integers(0, 600) | st.integers())))
def test_seen_ids_are_a_set(pages: list[set[int]]) -> None:
    seen, truth = SeenIds(), set[int]()
    for ids in pages:
        new = seen.new(ids)
        assert new == ids - truth
        seen.add(new)
        truth |= ids
        assert len(seen) == len(truth)
