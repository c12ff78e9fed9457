"""The cost model: never above the better of its two strategies by more than 5 %."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slashtag._core.guide import GuideCost
from tests.support.laws import examples

BATCH = 100
Links = list[list[int]]
#: Range (start, stop) of links in a batch.
Node = tuple[int, int]


class Batch:
    """Clicks of a batch by window, summed over any node."""

    def __init__(self, links: Links) -> None:
        self.size = len(links)
        self.windows = len(links[0])
        self.sums = [[0] * self.windows]
        for link in links:
            self.sums.append([a + b for a, b in zip(self.sums[-1], link, strict=True)])

    @property
    def whole(self) -> Node:
        return 0, self.size

    def clicks(self, node: Node) -> list[int]:
        return [b - a for a, b in zip(self.sums[node[0]], self.sums[node[1]], strict=True)]

    def cells(self) -> int:
        """Count the windows of links that have clicks."""
        return sum(n > 0 for link in range(self.size) for n in self.clicks((link, link + 1)))


def halving(batch: Batch) -> int:
    """Count the requests of each window by itself, halved."""
    return batch.windows + sum(
        sum(n > 0 for n in batch.clicks(node)) for node in below(batch.whole) if node[1] - node[0] > 1
    )


def guided(batch: Batch) -> int:
    """Count the requests of all time, of the batch and each link, and of windows with clicks."""
    return 1 + (batch.size + batch.cells() if batch.cells() else 0)


def combined(batch: Batch, cost: GuideCost) -> int:
    """Count the requests as `BatchSearch` makes them."""
    windows = sum(n > 0 for n in batch.clicks(batch.whole))
    cost.begin(batch.size, batch.windows, windows)
    requests = 1 + windows
    refined: set[Node] = set()
    waiting = [batch.whole]
    while waiting:
        node = waiting.pop()
        if cost.is_worth(node[1] - node[0], batch.clicks(node)):
            requests += 1
            refined.add(node)
            left, right = children(node)
            for a, b in zip(batch.clicks(left), batch.clicks(right), strict=True):
                if a or b:
                    cost.observe(node[1] - node[0], a + b, one_sided=not (a and b), guided=True)
            waiting += [right, left]
    for node in below(batch.whole):
        if node[1] - node[0] == 1:
            continue
        left, right = children(node)
        for a, b in zip(batch.clicks(left), batch.clicks(right), strict=True):
            if node in refined:
                requests += bool(a and b)
            elif a or b:
                requests += 1
                cost.observe(node[1] - node[0], a + b, one_sided=not (a and b))
    return requests


def children(node: Node) -> tuple[Node, Node]:
    start, stop = node
    middle = (start + stop) // 2
    return (start, middle), (middle, stop)


def below(node: Node) -> list[Node]:
    if node[1] - node[0] == 1:
        return [node]
    left, right = children(node)
    return [node, *below(left), *below(right)]


def account(kind: str, links: int, windows: int, density: float, seed: int) -> Links:
    """Make the clicks of each link in each window."""
    draw = random.Random(seed)

    def some() -> int:
        return 1 + int(draw.expovariate(0.2))

    def row(n: int) -> list[int]:
        match kind:
            case "independent":
                return [some() if draw.random() < density else 0 for _ in range(windows)]
            case "lively or never":
                return [some() for _ in range(windows)] if draw.random() < density else [0] * windows
            case "alike":
                return [1 + seed % 100] * windows
            case "one stretch":
                first = draw.randrange(windows)
                return [some() if first <= w <= first + density * windows else 0 for w in range(windows)]
            case "few have most":
                lively = min(1.0, density * 20 / (1 + draw.randrange(links)))
                return [some() * 50 if draw.random() < lively else 0 for _ in range(windows)]
            case _:
                return [
                    some() if draw.random() < density and n < links * density else 0 for _ in range(windows)
                ]

    return [row(n) for n in range(links)]


KINDS = ["independent", "lively or never", "one stretch", "few have most", "sorted", "alike"]


@pytest.mark.unmeasured
@examples(40)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([3, 4, 6, 12, 24]),
    st.sampled_from([0.0, 0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]),
    st.integers(0, 2**32),
)
@example("lively or never", 6, 0.5, 4)
@example("lively or never", 6, 0.7, 1_049_440_280)
@example("lively or never", 6, 0.7, 2_329_139_943)
@example("one stretch", 4, 0.6351274467377982, 314_080_619)
@example("one stretch", 4, 0.5518857836118026, 2_164_158_095)
@example("independent", 3, 0.5, 1_715_461)
@example("independent", 12, 0.8558078443796758, 3_388_459_034)
@example("independent", 4, 0.6163612198274563, 3_677_494_144)
@example("lively or never", 3, 0.5, 176_178_005)
@example("alike", 3, 1.0, 7)
def test_the_combination_is_never_5_percent_above_the_better_strategy(
    kind: str, windows: int, density: float, seed: int
) -> None:
    links = account(kind, 1_000, windows, density, seed)
    batches = [Batch(links[n : n + BATCH]) for n in range(0, len(links), BATCH)]
    cost = GuideCost()
    requests = sum(combined(batch, cost) for batch in batches)
    assert requests <= 1.05 * min(sum(map(halving, batches)), sum(map(guided, batches)))


def test_all_time_statistics_are_hardly_asked_where_every_link_is_clicked_in_every_window() -> None:
    cost = GuideCost()
    batches = [Batch([[5] * 12 for _ in range(100)]) for _ in range(20)]
    counted = [combined(batch, cost) for batch in batches]
    # A few are sent to learn that they save nothing.
    assert sum(counted) <= 1.005 * 20 * 12 * 100


@pytest.mark.parametrize("offsets", [1, 2])
def test_a_zone_with_two_offsets_pays_twice(offsets: int) -> None:
    # One click in each of two windows: two requests are saved.
    assert GuideCost(offsets).is_worth(2, [1, 1]) is (offsets == 1)
    assert not GuideCost(offsets).is_worth(1, [5])
    assert not GuideCost(offsets).is_worth(8, [0, 0])
