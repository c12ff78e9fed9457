"""Laws of listings: complete and in order, with no page asked for in vain, and an end to each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import Page, PaginationError, Tag
from slashtag._core.paging import PageCursor

#: What a service answers for a page: the page, or None for a 404.
Answer = Callable[[int], Page[Tag] | None]


def tags(ids: Sequence[int]) -> list[Tag]:
    return [Tag(id=n, name=str(n)) for n in ids]


def page(number: int, ids: Sequence[int], size: int = 3) -> Page[Tag]:
    return Page(page=number, page_size=size, items=tags(ids))


def listing(n: int, size: int) -> Answer:
    """Serve the ids 0 to n-1."""
    return lambda number: page(number, range(n)[(number - 1) * size : number * size], size)


def fixed(*pages: Page[Tag] | None) -> Answer:
    """Serve given pages and then empty ones."""
    return lambda number: pages[number - 1] if number <= len(pages) else page(number, [])


def read(pager: PageCursor[Tag], answer: Answer) -> tuple[list[int], list[list[int]]]:
    """Drive a pager as a listing does; return the ids it gave and the pages it asked for in each round."""
    given_ids: list[int] = []
    rounds: list[list[int]] = []
    under_way: list[int] = []
    while not pager.done:
        asked = []
        while (number := pager.ask()) is not None:
            asked.append(number)
        rounds.append(asked)
        under_way += asked
        found = answer(under_way.pop(0))
        if found is None:
            assert pager.may_be_missing
            pager.missing()
        else:
            given_ids += [tag.id for tag in pager.take(found)]
    assert pager.ask() is None
    return given_ids, rounds


# --- complete, and no more than needed -----------------------------------------------------------------


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9))
def test_a_listing_is_complete_and_in_order(n: int, size: int, prefetch: int) -> None:
    assert read(PageCursor(prefetch=prefetch), listing(n, size))[0] == list(range(n))


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9), st.integers(1, 5))
def test_a_listing_goes_on_from_its_start_page(n: int, size: int, prefetch: int, start: int) -> None:
    found, rounds = read(PageCursor(start_page=start, prefetch=prefetch), listing(n, size))
    assert found == list(range(n))[(start - 1) * size :]
    assert rounds[0] == [start]


@given(
    st.integers(1, 60),
    st.integers(2, 7),
    st.integers(1, 9),
    st.lists(st.integers(0, 40), max_size=6),
    st.randoms(use_true_random=False),
)
def test_nothing_is_lost_or_told_twice_where_arrivals_shift_pages_that_are_answered_in_any_order(
    n: int, size: int, prefetch: int, arrivals: list[int], random: Random
) -> None:
    # Latest first: ids count down, an arrival goes before all. A step is one page taken; each page that is
    # under way is answered at some step between its asking and its taking, later ones maybe before it.
    arrivals = arrivals[: size - 1]

    def state(step: int) -> list[int]:
        return list(range(n + sum(at < step for at in arrivals)))[::-1]

    pager: PageCursor[Tag] = PageCursor(prefetch=prefetch)
    found: list[int] = []
    under_way: list[tuple[int, int]] = []
    step = 0
    while not pager.done:
        while (number := pager.ask()) is not None:
            under_way.append((number, step))
        number, asked_at = under_way.pop(0)
        step += 1
        items = state(random.randint(asked_at, step))[(number - 1) * size : number * size]
        found += [tag.id for tag in pager.take(page(number, items, size))]
        if pager.again():
            under_way.clear()
    assert len(found) == len(set(found))
    assert set(found) >= set(range(n))


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9), st.integers(0, 70))
def test_a_limit_is_kept_and_nothing_beyond_it_is_asked_for(
    n: int, size: int, prefetch: int, limit: int
) -> None:
    found, rounds = read(PageCursor(prefetch=prefetch, limit=limit), listing(n, size))
    assert found == list(range(min(n, limit)))
    assert max(chain(*rounds), default=0) <= -(-limit // size)


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9))
def test_pages_are_asked_for_once_and_in_order(n: int, size: int, prefetch: int) -> None:
    asked = list(chain(*read(PageCursor(prefetch=prefetch), listing(n, size))[1]))
    assert asked == list(range(1, len(asked) + 1))


def test_what_is_under_way_grows_by_one_a_page_up_to_prefetch() -> None:
    rounds = read(PageCursor(prefetch=4), listing(40, 2))[1]
    assert rounds[:6] == [[1], [2, 3], [4, 5], [6, 7], [8], [9]]
    assert [sum(map(len, rounds[: n + 1])) - n for n in range(6)] == [1, 2, 3, 4, 4, 4]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_small_account_costs_one_request(n: int) -> None:
    assert read(PageCursor(), listing(n, 3))[1] == [[1]]


# --- the end -------------------------------------------------------------------------------------------


def test_a_short_page_ends_the_listing() -> None:
    assert read(PageCursor(prefetch=1), fixed(page(1, [1, 2, 3]), page(2, [4]))) == ([1, 2, 3, 4], [[1], [2]])


def test_an_empty_page_ends_the_listing() -> None:
    assert read(PageCursor(), fixed(page(1, [1, 2, 3]), page(2, []), page(3, [9])))[0] == [1, 2, 3]


def test_a_short_page_does_not_end_it_where_a_page_already_asked_for_has_items() -> None:
    pages = fixed(page(1, [1, 2, 3]), page(2, [4]), page(3, [5, 6, 7]), page(4, [8]))
    found, rounds = read(PageCursor(), pages)
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rounds[:4] == [[1], [2, 3], [], [4, 5, 6, 7]]


def test_after_a_short_page_nothing_more_is_asked_for() -> None:
    pager: PageCursor[Tag] = PageCursor()
    assert pager.ask() == 1
    pager.take(page(1, [1, 2, 3]))
    assert [pager.ask(), pager.ask(), pager.ask()] == [2, 3, None]
    pager.take(page(2, [4]))
    assert (pager.ask(), pager.done) == (None, False)
    pager.take(page(3, []))
    assert pager.done


def test_a_page_that_does_not_exist_ends_the_listing() -> None:
    assert read(PageCursor(), fixed(page(1, [1, 2, 3]), None, None))[0] == [1, 2, 3]


def test_the_first_page_has_to_exist() -> None:
    pager: PageCursor[Tag] = PageCursor(start_page=5)
    pager.ask()
    assert not pager.may_be_missing


def test_a_page_may_be_refused_only_past_the_end() -> None:
    pager: PageCursor[Tag] = PageCursor()
    pager.ask()
    pager.take(page(1, [1, 2, 3]))
    assert [pager.ask(), pager.ask(), pager.past_the_end] == [2, 3, False]
    pager.take(page(2, [4]))
    assert (pager.past_the_end, pager.done) == (True, False)
    pager.missing()
    assert pager.done


def test_an_answer_for_another_page_ends_the_listing() -> None:
    assert read(PageCursor(), fixed(page(1, [1, 2, 3]), page(1, [7, 8, 9])))[0] == [1, 2, 3]


def test_another_page_than_the_first_is_an_error_and_not_an_empty_account() -> None:
    with pytest.raises(PaginationError, match="page 1 was asked for, the answer is page 0"):
        read(PageCursor(), fixed(page(0, [1])))


def test_an_empty_first_page_of_any_number_is_an_empty_account() -> None:
    assert read(PageCursor(), fixed(page(0, [])))[0] == []


# --- what a service may do -----------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(1, 5))
def test_a_lowered_page_size_is_believed(n: int, size: int) -> None:
    # A page's own size says whether it is short, whatever was asked for.
    assert read(PageCursor(), listing(n, size))[0] == list(range(n))


def test_a_page_size_that_changes_midway_is_an_error() -> None:
    with pytest.raises(PaginationError, match="page 2 says pageSize 2 after 3"):
        read(PageCursor(), fixed(page(1, [1, 2, 3]), page(2, [4, 5], size=2)))


def test_the_page_size_of_an_empty_page_does_not_matter() -> None:
    assert read(PageCursor(), fixed(page(1, [1, 2, 3]), page(2, [], size=0)))[0] == [1, 2, 3]


def test_more_items_than_the_page_size_do_not_end_the_listing() -> None:
    assert read(PageCursor(), fixed(page(1, [1, 2, 3, 4]), page(2, [5])))[0] == [1, 2, 3, 4, 5]


@given(st.integers(1, 40), st.integers(2, 5), st.lists(st.integers(0, 2), max_size=12))
def test_records_that_arrive_in_latest_first_order_are_not_given_twice(
    n: int, size: int, arrivals: list[int]
) -> None:
    # Each answer finds some records more at the front, fewer than a page, which shift the rest.
    front = 0

    def drifting(number: int) -> Page[Tag]:
        nonlocal front
        ids = [*range(1_000 + front, 1_000, -1), *range(n, 0, -1)][(number - 1) * size : number * size]
        front += min(arrivals.pop() if arrivals else 0, size - 1)
        return page(number, ids, size)

    found, _ = read(PageCursor(), drifting)
    old = [number for number in found if number <= n]
    assert old == list(range(n, 0, -1))
    assert len(set(found)) == len(found)


def test_an_item_that_a_page_holds_twice_is_given_once() -> None:
    assert read(PageCursor(), fixed(page(1, [1, 2, 2]), page(2, [3])))[0] == [1, 2, 3]


def test_a_page_that_repeats_the_page_before_it_is_passed_over_once() -> None:
    repeated = fixed(
        page(1, [1, 2, 3]), page(2, [1, 2, 3]), page(3, [3, 4, 5]), page(4, [3, 4, 5]), page(5, [6])
    )
    assert read(PageCursor(), repeated)[0] == [1, 2, 3, 4, 5, 6]


def test_a_page_that_is_repeated_twice_is_an_error() -> None:
    with pytest.raises(PaginationError, match="page 3 repeats the items of the page before it"):
        read(PageCursor(), lambda number: page(number, [1, 2, 3]))


def test_a_service_that_answers_with_its_last_page_past_the_end_is_read_to_the_end() -> None:
    last = page(3, [7])
    clamped = listing(7, 3)
    assert read(PageCursor(), lambda n: clamped(n) if n < 3 else page(n, [7]))[0] == [0, 1, 2, 3, 4, 5, 7]
    assert read(PageCursor(), lambda n: clamped(n) if n < 3 else last)[0] == [0, 1, 2, 3, 4, 5, 7]


def test_a_limit_is_filled_with_what_is_new() -> None:
    drifted = fixed(page(1, [1, 2, 3]), page(2, [3, 4, 5]), page(3, [6, 7, 8]))
    assert read(PageCursor(limit=6), drifted) == ([1, 2, 3, 4, 5, 6], [[1], [2], [3]])


def test_a_listing_that_begins_again_is_told() -> None:
    circle = fixed(page(1, [0, 1, 2]), page(2, [3, 4, 5]), page(3, [0, 1, 2]))
    with pytest.raises(PaginationError, match="circles"):
        read(PageCursor(), circle)
