"""Bounds of numbers, against all numbers that satisfy the equations."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from slashtag._core.search.bounds import Bounds

MOST = 3
#: Numbers on both sides by index, and the rest.
equations = st.lists(
    st.tuples(
        st.lists(st.integers(0, 4), max_size=3, unique=True),
        st.lists(st.integers(0, 4), max_size=2, unique=True),
        st.integers(-2, 6),
    ),
    max_size=6,
)


def holds(values: tuple[int, ...], equation: tuple[list[int], list[int], int]) -> bool:
    plus, minus, rest = equation
    return sum(values[n] for n in plus) == sum(values[n] for n in minus) + rest


@given(equations)
def test_no_value_that_is_possible_is_excluded_and_what_contradicts_changes_nothing(
    stated: list[tuple[list[int], list[int], int]],
) -> None:
    bounds = Bounds()
    for _ in range(5):
        bounds.number(0, MOST)
    accepted: list[tuple[list[int], list[int], int]] = []
    for equation in stated:
        before = list(bounds.low), list(bounds.high)
        plus, minus, rest = equation
        if bounds.accepts(lambda bounds, plus=plus, minus=minus, rest=rest: bounds.equate(plus, minus, rest)):
            accepted.append(equation)
        else:
            assert (bounds.low, bounds.high) == before
            possible = product(*(range(low, high + 1) for low, high in zip(*before, strict=True)))
            assert not any(all(holds(values, each) for each in [*accepted, equation]) for values in possible)
    for values in product(range(MOST + 1), repeat=5):
        if all(holds(values, each) for each in accepted):
            assert all(low <= n <= high for low, n, high in zip(bounds.low, values, bounds.high, strict=True))


@given(equations, st.randoms(use_true_random=False))
def test_the_order_of_equations_does_not_matter(
    stated: list[tuple[list[int], list[int], int]], order: object
) -> None:
    values = (1, 0, 2, 3, 1)
    true = [
        (plus, minus, sum(values[n] for n in plus) - sum(values[n] for n in minus))
        for plus, minus, _ in stated
    ]

    def tightened(found: list[tuple[list[int], list[int], int]]) -> tuple[list[int], list[int]]:
        bounds = Bounds()
        for _ in range(5):
            bounds.number(0, MOST)
        for plus, minus, rest in found:
            assert bounds.accepts(
                lambda bounds, plus=plus, minus=minus, rest=rest: bounds.equate(plus, minus, rest)
            )
        return bounds.low, bounds.high

    assert tightened(true) == tightened(list(reversed(true)))


def test_known_numbers_that_do_not_add_up_are_a_contradiction() -> None:
    for rest, fits in ((0, False), (1, True), (2, False)):
        bounds = Bounds()
        known = bounds.number(1, 1)
        assert bounds.accepts(lambda each, rest=rest, known=known: each.equate((known,), (), rest)) is fits
