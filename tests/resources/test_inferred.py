"""Inferred results: equal to asking every slashtag alone, for hardly ever more requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import BadRequestError, DateRange, Day, Failure, RangeStats, ServerError, ShortUrl
from slashtag._core.call import Call
from slashtag._core.statistics_answers import RangeAnswer
from slashtag._fanout import Tasks
from slashtag._resources.stats import Stats
from tests.core.clicklog import COUNTRIES, DEVICES, Click, Service
from tests.support.laws import examples

Send = Callable[[Call[Any]], Any]
FIRST = date(2023, 9, 20)
ZONES: list[tzinfo] = [
    UTC,
    timezone(timedelta(hours=2)),
    timezone(timedelta(hours=-9, minutes=-30)),
    ZoneInfo("Europe/Dublin"),
    ZoneInfo("America/Santiago"),
]


def stats_over(send: Send) -> Stats:
    """The statistics of a session whose requests are answered by a function, in any order."""
    order = random.Random(5)

    async def slowly(call: Call[Any], /) -> Any:
        for _ in range(order.randrange(4)):
            await asyncio.sleep(0)
        return send(call)

    sender = SimpleNamespace(send=slowly, journal=None, metrics=SimpleNamespace(inconsistent=0, name=""))
    sender.of_operation = lambda: sender
    return Stats(
        cast("Any", sender),
        Tasks(),
        workers=8,
        max_keys_bytes=7_500,
        range_end="inclusive",
        paths={},
    )


def table(send: Send, query: Any, keys: Iterable[Any], **options: Any) -> dict[str, RangeStats]:
    """Collect one result a key."""

    async def collect() -> dict[str, RangeStats]:
        each = stats_over(send).collect_each(query, keys=keys, **options)
        return {key: stats async for key, stats in each}

    return asyncio.run(collect())


def windows_of(query: DateRange, zone: tzinfo) -> int:
    return len(stats_over(honest).plan(query, keys=["a"], timezone=zone))


def account(seed: int, keys: int, days: int, density: float, first: date = FIRST) -> list[Click]:
    """A log in which each key has clicks in stretches of its own; `density` is the share of clicked days."""
    draw = random.Random(seed)
    log = list[Click]()
    for n in range(keys):
        lively = draw.random() ** 2 * 2
        for day in range(-2, days + 2):
            if draw.random() < density * lively:
                at = datetime(first.year, first.month, first.day, tzinfo=UTC) + timedelta(
                    days=day, seconds=draw.choice((0, 1, 3_599, 86_399, draw.randrange(86_400)))
                )
                log += [
                    Click(at, f"k{n}", draw.choice(DEVICES), draw.choice(COUNTRIES), "Ohio", n)
                    for _ in range(draw.choice((1, 1, 2, 7)))
                ]
    return log


accounts = st.tuples(
    st.integers(0, 2**32),
    st.integers(1, 130),
    st.sampled_from([1, 2, 3, 31, 40, 75, 100]),
    st.sampled_from([0.0, 0.002, 0.02, 0.3]),
)


@examples(25)
@given(
    accounts,
    st.sampled_from(ZONES),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 2, 99]),
    st.none() | st.integers(-3, 40),
)
def test_what_is_inferred_is_what_is_asked_alone_for_hardly_more_requests(
    drawn: tuple[int, int, int, float],
    zone: tzinfo,
    order: random.Random,
    least_days: int,
    days_to_come: int | None,
) -> None:
    seed, n, days, density = drawn
    first = FIRST
    if days_to_come is not None:
        first = datetime.now(UTC).date() + timedelta(days=days_to_come - days)
    log = account(seed, n, days, density, first)
    keys = [f"k{i}" for i in range(n)]
    query = DateRange(first, first + timedelta(days=days - 1))
    options: dict[str, Any] = {"least_days": least_days}
    alone = table(Service(log, **options), query, keys, timezone=zone, inferred=False)
    order.shuffle(keys)
    service = Service(log, **options)
    inferred = table(service, query, keys, timezone=zone, ordered=order.random() < 0.5)
    assert inferred == alone
    assert {key: list(stats.clicks) for key, stats in inferred.items()} == {
        key: list(stats.clicks) for key, stats in alone.items()
    }
    windows = windows_of(query, zone) + (days_to_come is not None)
    # A tenth more than one a key and window; a few keys need checks as well.
    assert len(service.asked) <= (1.1 * n + 4) * windows


class Faulty:
    """A service that fails for some requests, always for the same ones."""

    def __init__(self, log: list[Click], seed: int, share: float) -> None:
        self.service = Service(log)
        self.seed = seed
        self.share = share

    def __call__(self, call: Call[Any]) -> Any:
        if "bad" in call.keys:
            raise BadRequestError("Bad request. No such key.", status=400, method="GET", path=call.path)
        if random.Random(f"{self.seed} {call.path} {call.params}").random() < self.share:
            raise ServerError("broken", status=500, method="GET", path=call.path)
        return self.service(call)


@examples(25)
@given(accounts, st.sampled_from(ZONES), st.sampled_from([0.0, 0.05, 0.3]))
def test_what_fails_is_said_and_a_refused_slashtag_costs_itself_only(
    drawn: tuple[int, int, int, float], zone: tzinfo, share: float
) -> None:
    seed, n, days, density = drawn
    log = account(seed, n, days, density)
    keys = [f"k{i}" for i in range(n)] + ["bad"]
    query = DateRange(FIRST, FIRST + timedelta(days=days - 1))
    whole = table(Service(log), query, keys, timezone=zone, inferred=False)
    failures = list[Failure]()
    progress = list[tuple[int, int | None]]()
    faulty = Faulty(log, seed, share)
    found = table(
        faulty,
        query,
        keys,
        timezone=zone,
        on_error=failures.append,
        progress=lambda done, total: progress.append((done, total)),
    )
    failed = [key for failure in failures for key in failure.keys]
    assert "bad" in failed
    if not share:
        assert failed == ["bad"]
    assert sorted([*found, *failed]) == sorted(keys)
    assert all(stats == whole[key] for key, stats in found.items())
    steps = len(keys) * windows_of(query, zone)
    assert progress == [(done, steps) for done in range(1, steps + 1)]


# --- what may not be subtracted ------------------------------------------------------------------------

DAY = Day("2023-10-01")
KEYS = [f"k{n}" for n in range(8)]


class Counter:
    """A service that answers about one day from the clicks of each slashtag, as a function makes it."""

    def __init__(self, clicks: dict[str, int], answer: Callable[[Sequence[str], int], RangeAnswer]) -> None:
        self.clicks = clicks
        self.answer = answer
        self.asked = list[tuple[str, ...]]()

    def __call__(self, call: Call[Any]) -> RangeAnswer:
        self.asked.append(call.keys)
        return self.answer(call.keys, sum(self.clicks.get(key, 0) for key in call.keys))


def honest(_: Sequence[str], total: int) -> RangeAnswer:
    return RangeAnswer(total, **{key: {"Mobile": total} for key in RangeStats.SUMS})


def each_total(service: Send, keys: Sequence[Any] = KEYS, query: Any = DAY, **options: Any) -> dict[str, int]:
    return {key: stats.total for key, stats in table(service, query, keys, **options).items()}


@pytest.mark.parametrize(
    "answer",
    [
        RangeAnswer(total_clicks=3, clicks={date(2023, 10, 1): 2}),
        RangeAnswer(total_clicks=3, clicks={date(2023, 10, 2): 3}),
        # Only the most frequent labels.
        RangeAnswer(total_clicks=3, device={"Mobile": 2}),
        RangeAnswer(total_clicks=3, device={"Mobile": 4, "Desktop": -1}),
        RangeAnswer(total_clicks=-1),
    ],
)
def test_a_batch_whose_answer_does_not_add_up_has_each_slashtag_asked_alone(answer: RangeAnswer) -> None:
    service = Counter({"k3": 3}, lambda keys, total: honest(keys, total) if len(keys) == 1 else answer)
    keys = [f"k{n}" for n in range(1_000)]
    assert each_total(service, keys) == {**dict.fromkeys(keys, 0), "k3": 3}
    asked = [keys for keys in service.asked if len(keys) > 1]
    assert len(asked) == 10
    assert sorted({*service.asked}.difference(asked)) == sorted((key,) for key in keys)


# --- the order of keys ---------------------------------------------------------------------------------


def links(hits: dict[str, int]) -> list[ShortUrl]:
    return [ShortUrl(id=n, slashtag=key, hits=n_hits) for n, (key, n_hits) in enumerate(hits.items())]


MANY = {f"k{n}": 7 if n % 10 == 3 else 0 for n in range(500)}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_links_with_hits_are_asked_together(asynchronous: bool) -> None:
    clicks = {key: n for key, n in MANY.items() if n}
    found = dict[str, int]()
    for given_keys in (list(MANY), links(MANY)):
        service = Counter(clicks, honest)
        keys = arriving(given_keys) if asynchronous else given_keys
        assert each_total(service, keys) == {**MANY}  # type: ignore[arg-type]
        found[type(given_keys[0]).__name__] = len(service.asked)
    # 50 links of 500 were clicked: all of them in the first batch, each of them asked for or a difference,
    # and in twice eight sets to be checked, as there are no labels to tell them apart.
    assert found["ShortUrl"] <= 50 + 5 + 3 + 2 * 8
    assert found["str"] > 100


async def arriving(keys: Iterable[Any]) -> Any:
    for key in keys:
        yield key


def test_ordered_results_come_in_the_order_of_keys_whatever_their_hits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A batch a group: the first has no clicks, and so takes less time than the second.
    monkeypatch.setattr("slashtag._resources.collect_each.MOST", 1)
    clicks = {key: n for number, (key, n) in enumerate(MANY.items()) if 100 <= number < 200}
    assert list(each_total(Counter(clicks, honest), links(MANY), ordered=True)) == list(MANY)
