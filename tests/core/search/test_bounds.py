"""Bounds of numbers, against all numbers that satisfy the equations."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.search.bounds import Bounds
from tests.support.laws import examples

MOST = 3
#: Parts and a whole, by index.
equations = st.lists(
    st.tuples(st.lists(st.integers(0, 4), max_size=3, unique=True), st.integers(0, 4)), max_size=6
)
Equation = tuple[list[int], int]


def holds(values: tuple[int, ...], equation: Equation) -> bool:
    parts, whole = equation
    return sum(values[n] for n in parts) == values[whole]


def numbers(known: dict[int, int]) -> Bounds:
    bounds = Bounds()
    for n in range(5):
        bounds.number(known.get(n, 0), known.get(n, MOST))
    return bounds


def accepts(bounds: Bounds, equation: Equation) -> bool:
    return bounds.state(lambda bounds: bounds.equate(*equation)) is not None


@examples(200)
@given(st.dictionaries(st.integers(0, 4), st.integers(0, MOST), max_size=2), equations)
@example({3: 1}, [([0, 3], 0)])
def test_no_value_that_is_possible_is_excluded_and_what_contradicts_changes_nothing(
    known: dict[int, int], stated: list[Equation]
) -> None:
    bounds, accepted = numbers(known), list[Equation]()
    given = list(product(*(range(low, high + 1) for low, high in zip(bounds.low, bounds.high, strict=True))))
    for equation in stated:
        before = list(bounds.low), list(bounds.high)
        if accepts(bounds, equation):
            accepted.append(equation)
        else:
            assert (bounds.low, bounds.high) == before
            assert not any(all(holds(values, each) for each in [*accepted, equation]) for values in given)
    for values in given:
        if all(holds(values, each) for each in accepted):
            assert all(low <= n <= high for low, n, high in zip(bounds.low, values, bounds.high, strict=True))
    # All that are known, and do not add up, are a contradiction.
    for equation in accepted:
        if all(bounds.low[n] == bounds.high[n] for n in (*equation[0], equation[1])):
            assert holds(tuple(bounds.low), equation)


@given(st.dictionaries(st.integers(0, 4), st.integers(0, MOST)), equations)
def test_the_order_of_equations_does_not_matter(known: dict[int, int], stated: list[Equation]) -> None:
    values = (1, 0, 2, 3, 1)
    true = [each for each in stated if holds(values, each)]
    found = [numbers({n: values[n] for n in known}) for _ in range(2)]
    for equation, other in zip(true, reversed(true), strict=True):
        assert accepts(found[0], equation)
        assert accepts(found[1], other)
    assert (found[0].low, found[0].high) == (found[1].low, found[1].high)
