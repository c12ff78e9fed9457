"""Laws of the search, on accounts of at most 40 keys in batches of 8."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slashtag._core.search import cells, search
from slashtag._core.search.cells import TOTAL, Answer, Label
from slashtag._core.search.search import Search
from tests.support.laws import examples

KEYS = 8
DENSE, DENSE_SHARE = search.DENSE, search.DENSE_SHARE
CLICKED = (10, 19, 13, 19, 5, 11, 13, 18, 13, 8, 22, 19, 0, 13, 16, 15, 5, 6)
SOME = (4, 16, 5, 17, 0, 17, 14, 13, 20)
Table = dict[str, dict[Label, int]]
Service = Callable[[tuple[str, ...]], Answer | None]


@pytest.fixture(autouse=True, scope="module")
def _small_requests() -> Iterable[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "MAX_KEYS", KEYS)
        # Else batches with many clicks a key, and as these are few with any, would be asked key by key.
        patch.setattr(search, "DENSE", 999)
        patch.setattr(search, "DENSE_SHARE", 999)
        patch.setattr(search, "FEW_KEYS", 1)
        yield


def table_of(clicks: Iterable[tuple[int, Sequence[object]]]) -> Table:
    """Count clicks, pairs of a key and the labels of each dimension."""
    table: Table = {}
    for key, labels in clicks:
        counts = table.setdefault(f"k{key}", Counter())
        counts[TOTAL] += 1
        for dimension, label in enumerate(labels):
            counts["abc"[dimension], f"{label}"] += 1
    return table


def together(table: Table, keys: Iterable[str]) -> Answer:
    found = Counter[Label]()
    for key in keys:
        found.update(table.get(key, {}))
    return {label: count for label, count in found.items() if count}


def changed(before: Table, moment: int, after: Table) -> Service:
    """Return a service whose clicks are others after so many requests."""
    tables = chain(repeat(before, moment), repeat(after))
    return lambda keys: together(next(tables), keys)


def names(count: int) -> list[str]:
    return [f"k{n}" for n in range(count)]


def batches_of(keys: Sequence[str]) -> list[list[str]]:
    return [list(keys[n : n + KEYS]) for n in range(0, len(keys), KEYS)]


class Run:
    """A finished search, its results with those of unresolved keys, and what each round asked."""

    def __init__(self, count: int, service: Service) -> None:
        self.search = Search(batches_of(names(count)))
        self.rounds = list[list[tuple[str, ...]]]()
        for round_ in self.search.rounds():
            for question in round_:
                assert 0 < len(question.keys) == sum(len(cell.keys) for cell in question.cells) <= KEYS
                question.answer = service((*question.keys,))
            self.rounds.append([(*question.keys,) for question in round_])
        self.results: dict[str, Any] = {key: dict(counts) for key, counts in self.search.results.items()}
        self.failed = set[str]()
        for key in self.search.unresolved:
            assert key not in self.results
            answer = service((key,))
            if answer is None:
                self.failed.add(key)
            elif answer:
                self.results[key] = dict(answer)
        self.requests = sum(map(len, self.rounds)) + len(self.search.unresolved)


@st.composite
def accounts(draw: st.DrawFn) -> tuple[int, Table]:
    count = draw(st.integers(1, 40))
    labels = draw(st.sampled_from([(), (1,), (2,), (2, 3), (3, 1), (2, 2, 3)]))
    click = st.tuples(st.integers(0, count - 1), st.tuples(*(st.integers(0, size - 1) for size in labels)))
    return count, table_of(draw(st.lists(click, max_size=120)))


def halving(table: Table, keys: Sequence[str]) -> int:
    """Count the requests of first halves alone, as long as a part has clicks."""

    def splits(keys: Sequence[str]) -> int:
        if len(keys) < 2 or not any(key in table for key in keys):
            return 0
        return 1 + splits(keys[: len(keys) // 2]) + splits(keys[len(keys) // 2 :])

    return sum(1 + splits(batch) for batch in batches_of(keys))


@examples(100)
@given(accounts())
def test_every_result_is_the_truth(account: tuple[int, Table]) -> None:
    count, table = account
    run = Run(count, lambda keys: together(table, keys))
    assert run.results == table
    assert len(run.search.unresolved) == (count % KEYS == 1)


@examples(200)
@given(accounts())
def test_never_more_requests_than_halving_and_its_checks(account: tuple[int, Table]) -> None:
    count, table = account
    run = Run(count, lambda keys: together(table, keys))
    split = sum(any(key in table for key in batch) for batch in batches_of(names(count)))
    # Eight checks of the keys of a batch that have clicks, one of the others; the second half of one batch.
    assert run.requests <= halving(table, names(count)) + (search.CHECKS + 1) * split + 1


@pytest.mark.parametrize("keys", [12, 100, 300])
@pytest.mark.parametrize("labels", ["x", "abcdefghijklmnopqrstuvwxyz"])
@pytest.mark.parametrize("clicks", [0.5, 1, 9])
@pytest.mark.parametrize("are_some_dense", [False, True])
def test_no_table_takes_more_than_a_tenth_more_than_one_request_a_key(
    monkeypatch: pytest.MonkeyPatch, keys: int, labels: str, clicks: float, are_some_dense: bool
) -> None:
    monkeypatch.setattr(cells, "MAX_KEYS", 100)
    monkeypatch.setattr(search, "DENSE", DENSE)
    monkeypatch.setattr(search, "DENSE_SHARE", DENSE_SHARE)
    chances = random.Random(keys)
    # As a crawler clicks: the same labels on each link, or few.
    table = table_of((n % keys, chances.choices(labels, k=3)) for n in range(int(clicks * keys)))
    if are_some_dense:
        table |= table_of((n % (keys // 2), "xxx") for n in range(8 * keys))
    searched = Search([names(keys)[start : start + 100] for start in range(0, keys, 100)])
    requests = 0
    for round_ in searched.rounds():
        requests += len(round_)
        for question in round_:
            question.answer = together(table, question.keys)
    assert requests + len(searched.unresolved) <= 1.1 * keys + (search.CHECKS + 1) * (keys < 100)
    assert {key: table[key] for key in table if key not in searched.unresolved} == searched.results


@pytest.mark.parametrize("count", [8, 40])
def test_few_keys_with_many_clicks_are_asked_alone(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(search, "DENSE_SHARE", DENSE_SHARE)
    chances = random.Random(count)
    table = table_of((n % count, chances.choices("uvwxyz", k=3)) for n in range(count * count // 8))
    run = Run(count, lambda keys: together(table, keys))
    assert run.results == table
    assert run.requests <= count + len(run.rounds[0])


@examples(100)
@given(accounts(), st.data())
def test_refused_keys_are_unresolved_and_no_others_fail(
    account: tuple[int, Table], data: st.DataObject
) -> None:
    count, table = account
    refused = data.draw(st.sets(st.sampled_from(names(count)), max_size=6))
    run = Run(count, lambda keys: None if refused.intersection(keys) else together(table, keys))
    assert run.failed == refused
    assert run.results == {key: counts for key, counts in table.items() if key not in refused}


@examples(200)
@given(
    accounts(),
    st.integers(),
    st.sampled_from(["random", "late", "lost", "stale", "cut", "doubled", "capped"]),
    st.floats(0, 1),
)
def test_any_answers_end_within_so_many_requests_a_key_and_a_batch(
    account: tuple[int, Table], seed: int, kind: str, chance: float
) -> None:
    count, table = account
    chances = random.Random(seed)
    last: Answer = {}

    def service(keys: tuple[str, ...]) -> Answer | None:
        nonlocal last
        answer = dict(together(table, keys))
        if kind == "late":
            table[chances.choice(names(count))] = dict(answer or {TOTAL: 1})
        elif kind == "capped":
            return together(table, keys[: KEYS // 2])
        elif chances.random() < chance:
            return answer
        elif kind == "stale":
            answer, last = dict(last), answer
        elif kind == "lost":
            return None
        elif kind == "cut":
            answer = dict(list(answer.items())[:2])
        elif kind == "doubled":
            answer = {label: 2 * number for label, number in answer.items()}
        else:
            labels: list[Label] = [TOTAL, ("a", 0), ("a", 1), ("b", 0), ("b", 1)]
            answer = {label: chances.randrange(-1, 5) for label in labels}
        return answer

    run = Run(count, service)
    # What all may cost, and what the last mistakes in a batch take.
    assert run.requests <= 2 * count + 22 * len(batches_of(names(count)))
    assert all(number > 0 for counts in run.search.results.values() for number in counts.values())


@settings(examples(200), derandomize=True)
@given(accounts(), st.data())
def test_one_change_at_any_time_gives_the_truth_before_or_after(
    account: tuple[int, Table], data: st.DataObject
) -> None:
    """With the same examples each time: no law, as errors can cancel each other out in all answers.

    That needs batches as small as these, where checks have no room for links without clicks. It is rare: none
    of 12,000 accounts made by chance. In one that was found a batch of 8 had its first answer before a click,
    and 10 links of 18 had one click each.
    """
    count, table = account
    dimensions = sorted({label[0] for counts in table.values() for label in counts if label != TOTAL})
    quiet = Run(count, lambda keys: together(table, keys))
    moment = data.draw(st.integers(0, quiet.requests))
    falls = data.draw(st.booleans()) and bool(table)
    key = data.draw(st.sampled_from(sorted(table) if falls else names(count)))
    change: Counter[Label] = Counter({TOTAL: 1})
    for dimension in dimensions:
        own = [label for label in table.get(key, {}) if label[0] == dimension]
        others = st.tuples(st.just(dimension), st.sampled_from("0123"))
        change[data.draw(st.sampled_from(own) if falls else others)] = 1
    was = Counter(table.get(key, {}))
    after = {**table, key: was - change if falls else was + change}
    run = Run(count, changed(table, moment, after))
    for name in names(count):
        assert run.results.get(name, {}) in (table.get(name, {}), dict(after.get(name, {})))


@pytest.mark.parametrize(
    ("count", "before", "clicks", "after"),
    [
        # A link that has the click of another by mistake, beside a new click like it.
        (31, 4, [(0, "000"), (6, "011"), (28, "001")], [(0, "000"), (6, "011"), (28, "001"), (27, "011")]),
        # The click of a link that has none, as it seems.
        (2, 1, [(1, "")], [(1, ""), (0, "")]),
        # A change that leaves what was asked with it unchecked.
        (21, 5, [(0, ""), (3, ""), (10, "")], [(3, ""), (10, "")]),
        # A link with a click meanwhile, whose batch has to be checked again.
        (29, 5, [(11, ""), (16, "")], [(11, ""), (16, ""), (1, ""), (17, "")]),
        # Links that seem to have none, as others have their clicks by mistake.
        (21, 4, [(n, "0") for n in SOME], [(n, "0") for n in (*SOME, 10, 1)]),
        # A link that has the click of one that seems to have none.
        (23, 4, [(n, "0") for n in CLICKED], [(n, "0") for n in (*CLICKED, 19)]),
    ],
)
def test_a_change_hides_no_mistake(
    count: int, before: int, clicks: list[tuple[int, str]], after: list[tuple[int, str]]
) -> None:
    was, then = table_of(clicks), table_of(after)
    results = Run(count, changed(was, before, then)).results
    assert all(results.get(key, {}) in (was.get(key, {}), then.get(key, {})) for key in names(count))


@pytest.mark.parametrize("seed", range(20))
def test_a_change_that_only_checks_find_takes_few_requests(seed: int) -> None:
    chances = random.Random(seed)
    clicks = [(chances.randrange(40), [chances.randrange(4), chances.randrange(6)]) for _ in range(60)]
    table, after = table_of(clicks), table_of(clicks[1:])
    quiet = Run(40, lambda keys: together(table, keys))
    before_checks = quiet.requests - len(quiet.rounds[-1])
    run = Run(40, changed(table, before_checks, after))
    # A link that was asked alone is not checked again.
    assert all(run.results.get(key, {}) in (table.get(key, {}), after.get(key, {})) for key in names(40))
    # First halves of a check until one key is left, and the key; all checks twice at most, without it and
    # with what seems to have no clicks.
    assert run.requests <= quiet.requests + 3 + 1 + 2 * len(quiet.rounds[-1]) + 1


@pytest.mark.parametrize("seed", [4, 13])
def test_links_clicked_while_they_are_searched_take_at_most_a_tenth_more_than_one_request_each(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(cells, "MAX_KEYS", 100)
    chances = random.Random(seed)
    table: Table = {}
    seen = dict[str, list[Answer]]()
    requests = 0

    def click() -> None:
        ((key, counts),) = table_of([(chances.randrange(1_000), chances.choices("abcdefgh", k=3))]).items()
        table[key] = Counter(table.get(key, {})) + Counter(counts)
        seen.setdefault(key, [{}]).append(table[key])

    for _ in range(1_000):
        click()
    searched = Search([names(1_000)[start : start + 100] for start in range(0, 1_000, 100)])
    for round_ in searched.rounds():
        for question in round_:
            requests += 1
            if requests % 100 == 0:
                click()
            question.answer = together(table, question.keys)
    assert requests + len(searched.unresolved) <= 1.1 * 1_000
    assert all(counts in seen[key] for key, counts in searched.results.items())


def test_no_two_keys_of_a_batch_are_in_the_same_checks() -> None:
    # The last round asks all keys with clicks in sets.
    table = table_of((n, (n % 3, n % 2)) for n in range(40))
    run = Run(40, lambda keys: together(table, keys))
    assert run.results == table
    checks = [set(keys) for keys in run.rounds[-1]]
    for batch in batches_of(names(40)):
        sets = [tuple(key in check for check in checks) for key in batch]
        assert len(set(sets)) == len(batch)
        assert all(map(any, sets))


def digest() -> str:
    """Return a digest of what is asked about accounts of strs, whose hashes differ between processes."""
    cells.MAX_KEYS = KEYS
    logs = list[Any]()
    for seed in range(20):
        chances = random.Random(seed)
        clicks = [(chances.randrange(40), chances.choices("xyz", k=2)) for _ in range(chances.randrange(90))]
        table = table_of(clicks)
        late = table_of([*clicks, (chances.randrange(40), "xx")])

        def service(
            keys: tuple[str, ...], chances: Any = chances, tables: Any = (table, late)
        ) -> Answer | None:
            return None if chances.random() < 0.05 else together(chances.choice(tables), keys)

        run = Run(40, service)
        logs.append((run.rounds, list(run.search.results), run.search.unresolved))
    return sha256(repr(logs).encode()).hexdigest()


def test_the_same_answers_give_the_same_questions_in_every_process() -> None:
    command = [sys.executable, "-c", "from tests.core.search.test_search import digest; print(digest())"]
    found = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "12"
    }
    assert len(found) == 1
