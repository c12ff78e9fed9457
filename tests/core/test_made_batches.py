"""Laws of a job's batches: run again, it makes those again whose links are the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Iterable
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from slashtag import ShortUrl
from slashtag._core.batches import Batcher, Selector, select
from slashtag._core.look_alikes import folded
from slashtag._core.made_batches import MadeBatch, MadeBatches

from .test_batches import refuse


class Run:
    """Runs of a job that makes batches of links: `k5` has the id 5, unless it is renamed."""

    def __init__(self, kept: Iterable[MadeBatch] = ()) -> None:
        self.kept = list(kept)
        self.made = MadeBatches(tuple(self.kept), self.kept.append)

    def batches(
        self, ids: Iterable[int], renamed: Container[int] = (), *, in_order: bool = False
    ) -> list[Selector]:
        links = [ShortUrl(id=n, slashtag=f"{'new' if n in renamed else 'k'}{n}") for n in ids]
        return Batcher(8_000, refuse, self.made).batches(links, in_order=in_order)


some_ids = st.lists(st.integers(0, 999), unique=True, min_size=1, max_size=400)


@given(some_ids, st.sets(st.integers(0, 999), max_size=8), st.booleans(), st.randoms(use_true_random=False))
def test_links_that_come_go_or_are_renamed_change_only_their_batches(
    ids: list[int], altered: set[int], renames: bool, rng: random.Random
) -> None:
    run = Run()
    first = run.batches(ids)
    # Another order, as after clicks elsewhere.
    again = [n for n in rng.sample(ids, len(ids)) if renames or n not in altered] + sorted(altered - {*ids})
    renamed = altered if renames else ()
    run = Run(run.kept)
    second = run.batches(again, renamed)
    assert sorted(link for each in second for link in each.link_ids) == sorted((n,) for n in again)
    assert len({*first} - {*second}) <= len(altered) + 1  # a rest gets what is new
    assert len(second) == -(-len(again) // 100)
    held = len(run.kept)
    assert Run(run.kept).batches(rng.sample(again, len(again)), renamed) == second
    assert len(run.kept) == held


@given(st.lists(some_ids, min_size=1, max_size=5), some_ids, st.randoms(use_true_random=False))
def test_a_question_has_the_same_batches_whatever_else_its_job_has_asked(
    others: list[list[int]], ids: list[int], rng: random.Random
) -> None:
    run, cut = Run(), rng.randrange(len(others) + 1)
    for question in others[:cut]:
        run.batches(question)
    first = run.batches(ids)
    for question in others[cut:]:
        run.batches(question)
    run = Run(run.kept)
    assert run.batches(rng.sample(ids, len(ids))) == first


@given(some_ids, st.sets(st.integers(0, 999), max_size=8))
def test_in_the_given_order_too_batches_stay_where_their_links_stand_in_a_row(
    ids: list[int], altered: set[int]
) -> None:
    run = Run()
    first = run.batches(ids, in_order=True)
    again = [n for n in ids if n not in altered]
    for n in altered.difference(ids):
        again.insert(n % (len(again) + 1), n)
    second = Run(run.kept).batches(again, in_order=True)
    assert [key for each in second for key in each.keys] == [f"k{n}" for n in again]
    assert len({*first} - {*second}) <= len(altered) + 1
    assert len(second) <= len(first) + len(altered)


@given(some_ids, st.lists(st.integers(0, 999), unique=True, max_size=8), st.integers(0, 3))
def test_links_that_look_like_one_of_a_batch_come_into_it(
    ids: list[int], alike: list[int], more: int
) -> None:
    run = Run()
    run.batches(ids)
    given_keys = [f"k{n}" for n in ids] + [f"K{n}" for n in alike] + [f"x{n}" for n in range(more)]
    for _ in range(2):
        run = Run(run.kept)
        told: list[str] = []
        batcher = Batcher(8_000, refuse, run.made, told.append)
        links = [ShortUrl(id=int(key[1:]), slashtag=key) for key in given_keys]
        found = [selector.keys for selector in select(links, None, None, batcher)]
        assert sorted(chain(*found)) == sorted({*given_keys})
        assert {*Counter(name for batch in found for name in {*map(folded, batch)}).values()} == {1}
        assert not told
