"""Laws of listings: complete and in order, with no page asked for in vain, and an end to each."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import BadRequestError, NotFoundError, Page, PaginationError, SlashtagError, Tag

from .simulated_listing import Answer, Beyond, Service, cursor, page, read

sizes, prefetches = st.integers(1, 9), st.integers(1, 9)
beyonds = st.sampled_from(["empty", "404", "last page", "its number"])
randoms = st.randoms(use_true_random=False)


def fixed(*pages: Page[Tag]) -> Answer:
    """Serve given pages and then empty ones."""
    return lambda number: pages[number - 1] if number <= len(pages) else page(number, [])


# --- complete, and no more than needed -----------------------------------------------------------------


@given(st.integers(0, 60), st.integers(2, 9), prefetches, beyonds)
def test_a_listing_is_complete_and_in_order(n: int, size: int, prefetch: int, beyond: Beyond) -> None:
    assert read(cursor(prefetch=prefetch), Service(n, size, beyond=beyond))[0] == list(range(n))


@given(st.integers(0, 60), sizes, prefetches, st.integers(1, 5))
def test_a_listing_goes_on_from_its_start_page(n: int, size: int, prefetch: int, start: int) -> None:
    found, rounds = read(cursor(start_page=start, prefetch=prefetch), Service(n, size))
    assert found == list(range(n))[(start - 1) * size :]
    assert rounds[0] == [start]


@given(st.integers(0, 60), sizes, prefetches, st.integers(0, 70))
def test_a_limit_is_kept_and_nothing_beyond_it_is_asked_for(
    n: int, size: int, prefetch: int, limit: int
) -> None:
    found, rounds = read(cursor(prefetch=prefetch, limit=limit), Service(n, size))
    assert found == list(range(min(n, limit)))
    # Where there are fewer items, the end is shown by the page behind it.
    assert max(chain(*rounds), default=0) <= max(1, -(-limit // size)) + (n < limit)


@given(st.integers(0, 60), sizes, prefetches)
def test_each_page_is_requested_once_and_few_behind_the_end(n: int, size: int, prefetch: int) -> None:
    asked = list(chain(*read(cursor(prefetch=prefetch), Service(n, size))[1]))
    assert asked == list(range(1, len(asked) + 1))
    assert n // size + (n % size > 0) <= len(asked) <= n // size + 1 + prefetch


@pytest.mark.parametrize("prefetch", [1, 3, 8])
def test_one_more_page_is_under_way_for_each_that_was_full(prefetch: int) -> None:
    listed, under_way = cursor(prefetch=prefetch), list[int]()
    service = Service(100, 3)
    service.pagesize = 3
    while not listed.done:
        while listed.next_to_request() is not None:
            pass
        under_way.append(len(listed.under_way))
        found = service(listed.number)
        assert isinstance(found, Page)
        listed.take(found)
    assert under_way[:20] == [min(n, prefetch) for n in range(1, 21)]


@pytest.mark.parametrize(
    ("n", "pages"), [(0, [1]), (1, [1]), (99, [1]), (499, [1]), (100, [1, 2]), (110, [1, 2]), (251, [1])]
)
def test_a_small_account_costs_one_request_but_for_a_length_that_looks_like_a_cap(
    n: int, pages: list[int]
) -> None:
    assert read(cursor(), Service(n, 500))[1] == [[number] for number in pages]


# --- what a service may do -----------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1, 5])
@pytest.mark.parametrize("kind", [BadRequestError, NotFoundError])
def test_an_error_of_the_first_page_is_one(kind: type[BadRequestError | NotFoundError], start: int) -> None:
    with pytest.raises(kind):
        read(cursor(start_page=start), lambda number: kind("no", status=400))


@pytest.mark.parametrize("n", [7, 9])
def test_a_refusal_before_the_end_is_an_error_and_behind_it_nothing(n: int) -> None:
    service = Service(n, 3, beyond="400")
    if n == 9:
        with pytest.raises(BadRequestError):
            read(cursor(), service)
    else:
        assert read(cursor(), service)[0] == list(range(n))


@given(st.integers(0, 250), st.sampled_from([10, 20, 50]), prefetches)
def test_a_cap_that_the_service_does_not_tell_is_found(n: int, cap: int, prefetch: int) -> None:
    assert read(cursor(prefetch=prefetch), Service(n, 100, cap=cap))[0] == list(range(n))


@pytest.mark.parametrize("is_own_number", [True, False])
def test_the_first_page_again_may_be_a_service_that_ignores_the_page(is_own_number: bool) -> None:
    with pytest.raises(PaginationError):
        read(cursor(), lambda number: page(1 if is_own_number else number, [0, 1, 2]))


@pytest.mark.parametrize(
    "odd",
    [
        page(4, [6, 7, 8]),  # another number
        page(1, [0, 1, 2]),  # another page
        page(3, [7, 8], size=2),  # another size
        page(3, []),  # nothing, before a page with items
        NotFoundError("no", status=404),
    ],
)
def test_an_answer_that_does_not_fit_has_the_listing_read_again(odd: Page[Tag] | SlashtagError) -> None:
    for start in (1, 2):
        found, _ = read(cursor(start_page=start, pagesize=3), Service(25, 3, odd={3: odd}), Random(0))
        assert sorted(found) == list(range(3 * start - 3, 25))
    if not (isinstance(odd, Page) and odd.page_size == 2):
        service = Service(25, 3)
        with pytest.raises(PaginationError):
            read(cursor(), lambda number: odd if number == 3 else service(number))


def test_an_item_that_stays_twice_in_its_page_is_given_once() -> None:
    with pytest.raises(PaginationError):
        read(cursor(), fixed(page(1, [1, 2, 2]), page(2, [3, 3, 4]), page(3, [5])))


def test_an_empty_page_may_tell_another_number_and_no_page_size() -> None:
    assert read(cursor(), fixed(page(0, [])))[0] == []
    assert read(cursor(), fixed(page(1, [1, 2, 3]), page(0, [], size=0)))[0] == [1, 2, 3]


@pytest.mark.parametrize("lying", [range(1, 2), range(2, 3), range(1, 99)])
def test_a_page_size_over_the_one_requested_does_not_end_the_listing(lying: range) -> None:
    def answer(number: int) -> Page[Tag]:
        told = 6 if number in lying else 3
        return page(number, range(10)[(number - 1) * 3 : number * 3], told)

    assert read(cursor(pagesize=3), answer)[0] == list(range(10))


@given(st.integers(1, 120), sizes, sizes, st.integers(1, 5), prefetches)
def test_a_listing_whose_page_size_changes_is_read_again(
    n: int, before: int, after: int, changes_at: int, prefetch: int
) -> None:
    old, new = Service(n, before), Service(n, after)
    found, _ = read(
        cursor(prefetch=prefetch), lambda number: new(number) if old.requests > changes_at else old(number)
    )
    assert found == list(range(n))


# --- an order that differs from page to page ------------------------------------------------------------


@given(st.integers(1, 90), st.integers(6, 12), st.integers(2, 90), prefetches, st.integers(0, 2**32))
def test_ties_in_any_order_make_no_listing_short_or_give_an_item_twice(
    n: int, size: int, ties: int, prefetch: int, seed: int
) -> None:
    random = Random(seed)
    try:
        found, _ = read(cursor(prefetch=prefetch), Service(n, size, ties=ties, random=random), random)
    except PaginationError:
        return
    assert sorted(found) == list(range(n))


@pytest.mark.parametrize("ties", [2, 40, 1_000])
def test_ties_in_any_order_are_found_by_reading_again(ties: int) -> None:
    for seed in range(8):
        found, _ = read(cursor(), Service(1_000, 100, ties=ties, random=Random(seed)))
        assert sorted(found) == list(range(1_000))


# --- records that come and go while the listing is read ------------------------------------------------


@given(st.integers(0, 60), st.integers(3, 9), prefetches, randoms)
def test_oldest_first_has_no_gap_while_records_are_appended(
    n: int, size: int, prefetch: int, random: Random
) -> None:
    service = Service(n, size, inserts=lambda: random.randrange(3), random=random)
    found, _ = read(cursor(prefetch=prefetch), service, random)
    assert sorted(found) == list(range(len(found)))
    assert len(found) >= n


@given(st.integers(1, 90), sizes, prefetches, st.booleans(), st.floats(0, 1), randoms)
def test_latest_first_gives_no_item_twice_and_is_complete_if_nothing_arrives(
    n: int, size: int, prefetch: int, arrives: bool, rate: float, random: Random
) -> None:
    service = Service(
        n,
        size,
        latest_first=True,
        inserts=lambda: int(arrives and random.random() < rate) * random.randint(1, 20),
    )
    try:
        found, _ = read(cursor(prefetch=prefetch, latest_first=True), service, random)
    except PaginationError:
        assert len(service.records) > n
        return
    assert len(found) == len(set(found))
    if len(service.records) == n:
        assert found == list(range(n))[::-1]


@pytest.mark.parametrize("prefetch", [1, 8])
@pytest.mark.parametrize("arrivals", [5, 7])
def test_a_listing_that_grows_faster_than_it_is_read_ends(prefetch: int, arrivals: int) -> None:
    service = Service(1_000, 5, latest_first=True, inserts=lambda: arrivals)
    with pytest.raises(PaginationError):
        read(cursor(prefetch=prefetch, latest_first=True), service)
    assert service.requests < 100


@given(st.integers(0, 90), sizes, prefetches, randoms)
def test_deleted_records_make_no_item_come_twice(n: int, size: int, prefetch: int, random: Random) -> None:
    service = Service(n, size, deletes=lambda: random.randrange(3), random=random)
    try:
        found, _ = read(cursor(prefetch=prefetch), service, random)
    except PaginationError:
        return
    assert len(found) == len(set(found))
    assert set(found) >= set(service.records) or len(service.records) < n
