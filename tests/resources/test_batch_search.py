"""Per-link tables by halving: equal to asking every slashtag for itself, for never more requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import BadRequestError, DateRange, Day, Failure, RangeStats, ServerError, ShortUrl
from slashtag._core.call import Call
from slashtag._core.payloads import RangeAnswer
from slashtag._fanout import Tasks
from slashtag._resources.collect import ServiceTraits
from slashtag._resources.stats import Stats
from tests.core.clicklog import COUNTRIES, DEVICES, Click, Service
from tests.resources.accounts import client, serving
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


def stats_over(send: Send, replayed_from: Callable[[Call[Any]], float | None] = lambda call: None) -> Stats:
    """The statistics of a session whose requests are answered by a function, in any order."""
    order = random.Random(5)

    async def slowly(call: Call[Any], /) -> Any:
        for _ in range(order.randrange(4)):
            await asyncio.sleep(0)
        return send(call)

    return Stats(
        slowly,
        Tasks(),
        workers=8,
        max_keys_bytes=7_500,
        range_end="inclusive",
        traits=ServiceTraits(),
        replayed_from=replayed_from,
    )


def table(send: Send, query: Any, keys: Iterable[Any], **options: Any) -> dict[str, RangeStats]:
    """Collect one result a key."""

    async def collect() -> dict[str, RangeStats]:
        each = stats_over(send).collect_each(query, keys=keys, **options)
        return {key: stats async for key, stats in each}

    return asyncio.run(collect())


def account(seed: int, keys: int, days: int, density: float) -> list[Click]:
    """A log in which each key has clicks in stretches of its own; `density` is the share of clicked days."""
    draw = random.Random(seed)
    log: list[Click] = []
    for n in range(keys):
        lively = draw.random() ** 2 * 2
        for day in range(-2, days + 2):
            if draw.random() < density * lively:
                at = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) + timedelta(
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
    st.sampled_from([1, 2, 3, 31, 40, 75, 100, 200]),
    st.sampled_from([0.0, 0.002, 0.02, 0.3]),
)


@examples(25)
@given(accounts, st.sampled_from(ZONES), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_halved_is_asked_whole_for_every_map(
    drawn: tuple[int, int, int, float],
    zone: tzinfo,
    order: random.Random,
    months_in_utc: bool,
    one_day_clicks: bool,
) -> None:
    seed, n, days, density = drawn
    log = account(seed, n, days, density)
    keys = [f"k{i}" for i in range(n)]
    query = DateRange(FIRST, FIRST + timedelta(days=days - 1))
    options: dict[str, Any] = {"months_in_utc": months_in_utc, "one_day_clicks": one_day_clicks}
    whole = table(Service(log, **options), query, keys, timezone=zone, guided=False)
    order.shuffle(keys)
    service = Service(log, **options)
    halved = table(service, query, keys, timezone=zone, ordered=order.random() < 0.5)
    assert halved == whole
    assert {key: list(stats.clicks) for key, stats in halved.items()} == {
        key: list(stats.clicks) for key, stats in whole.items()
    }


@examples(25)
@given(accounts, st.sampled_from(ZONES))
def test_never_more_requests_than_one_a_slashtag_and_window(
    drawn: tuple[int, int, int, float], zone: tzinfo
) -> None:
    seed, n, days, density = drawn
    service = Service(account(seed, n, days, density))
    query = DateRange(FIRST, FIRST + timedelta(days=days - 1))
    table(service, query, [f"k{i}" for i in range(n)], timezone=zone)
    windows = len(query.time_slices(zone, datetime.now(UTC), "inclusive"))
    ranges = sum(call.path == "stats" for call in service.asked)
    assert ranges <= n * windows
    if windows < 3:
        assert len(service.asked) == ranges


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
def test_a_fault_costs_only_slashtags_that_fail_by_themselves(
    drawn: tuple[int, int, int, float], zone: tzinfo, share: float
) -> None:
    seed, n, days, density = drawn
    log = account(seed, n, days, density)
    keys = [f"k{i}" for i in range(n)] + ["bad"]
    query = DateRange(FIRST, FIRST + timedelta(days=days - 1))
    whole = table(Service(log), query, keys, timezone=zone, guided=False)
    failures: list[Failure] = []
    progress: list[tuple[int, int | None]] = []
    faulty = Faulty(log, seed, share)
    halved = table(
        faulty,
        query,
        keys,
        timezone=zone,
        on_error=failures.append,
        progress=lambda done, total: progress.append((done, total)),
    )
    failed = [failure.call.keys for failure in failures]
    assert ("bad",) in failed
    assert all(len(keys_of) == 1 for keys_of in failed)
    assert sorted([*halved, *(key for (key,) in failed)]) == sorted(keys)
    assert all(stats == whole[key] for key, stats in halved.items())
    assert progress == [(done, len(keys)) for done in range(1, len(keys) + 1)]


def test_an_error_is_raised_for_the_slashtag_at_fault() -> None:
    with pytest.raises(BadRequestError) as caught:
        table(Faulty([], 0, 0.0), Day("2023-10-01"), ["a", "b", "bad", "c"])
    (note,) = caught.value.__notes__
    assert "slashtag 'bad', 2023-10-01" in note


# --- what may not be subtracted ------------------------------------------------------------------------

DAY = Day("2023-10-01")
KEYS = [f"k{n}" for n in range(8)]


class Counter:
    """A service that answers about one day from the clicks of each slashtag, as a function makes it."""

    def __init__(self, clicks: dict[str, int], answer: Callable[[Sequence[str], int], RangeAnswer]) -> None:
        self.clicks = clicks
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, call: Call[Any]) -> RangeAnswer:
        self.asked.append(call.keys)
        return self.answer(call.keys, sum(self.clicks.get(key, 0) for key in call.keys))


def honest(_: Sequence[str], total: int) -> RangeAnswer:
    return RangeAnswer(total_clicks=total, device={"Mobile": total})


def each_total(service: Send, keys: Sequence[Any] = KEYS, query: Any = DAY, **options: Any) -> dict[str, int]:
    return {key: stats.total for key, stats in table(service, query, keys, **options).items()}


def test_a_batch_without_clicks_costs_one_request() -> None:
    service = Counter({}, honest)
    assert each_total(service) == dict.fromkeys(KEYS, 0)
    assert service.asked == [tuple(KEYS)]


def test_the_second_half_is_the_difference() -> None:
    service = Counter({"k6": 3}, honest)
    assert each_total(service) == {**dict.fromkeys(KEYS, 0), "k6": 3}
    assert service.asked == [tuple(KEYS), ("k0", "k1", "k2", "k3"), ("k4", "k5"), ("k6",)]


def test_not_guided_everything_is_asked() -> None:
    service = Counter({"k6": 3}, honest)
    each_total(service, guided=False)
    assert sorted(service.asked) == [(key,) for key in KEYS]


def test_maps_that_name_only_the_most_frequent_labels_are_not_subtracted() -> None:
    def top(keys: Sequence[str], total: int) -> RangeAnswer:
        # Each slashtag has a referrer of its own, of which an answer names the first.
        return RangeAnswer(total_clicks=total, referrer={keys[0]: 1} if total else {})

    service = Counter(dict.fromkeys(KEYS, 1), top)
    stats = table(service, DAY, KEYS)
    assert {key: result.referrer for key, result in stats.items()} == {key: {key: 1} for key in KEYS}
    # The batch is asked once more, since a cache may have sent the answer.
    asked = [keys for keys in service.asked if len(keys) > 1]
    assert len(asked) <= 2
    assert sorted(set(service.asked) - set(asked)) == [(key,) for key in KEYS]


@pytest.mark.parametrize(
    "answer",
    [
        RangeAnswer(total_clicks=3, clicks={date(2023, 10, 1): 2}),
        RangeAnswer(total_clicks=3, clicks={date(2023, 10, 2): 3}),
        RangeAnswer(total_clicks=3, device={"Mobile": 2}),
        RangeAnswer(total_clicks=3, device={"Mobile": 4, "Desktop": -1}),
        RangeAnswer(total_clicks=-1),
    ],
)
def test_a_batch_whose_answer_does_not_reconcile_is_asked_one_by_one(answer: RangeAnswer) -> None:
    service = Counter({"k3": 3}, lambda keys, total: honest(keys, total) if len(keys) == 1 else answer)
    assert each_total(service) == {**dict.fromkeys(KEYS, 0), "k3": 3}
    # The batch is asked once more, since a cache may have sent the answer.
    asked = [keys for keys in service.asked if len(keys) > 1]
    assert len(asked) <= 2
    assert sorted(set(service.asked) - set(asked)) == [(key,) for key in KEYS]


def test_after_answers_that_cannot_be_subtracted_batches_are_no_longer_asked() -> None:
    service = Counter({}, lambda keys, _: RangeAnswer(total_clicks=len(keys), device={"Mobile": 1}))
    keys = [f"k{n}" for n in range(10_000)]
    each_total(service, keys)
    assert len(service.asked) <= len(keys) + 32


@pytest.mark.parametrize("half", [9, 4])
def test_a_half_with_more_clicks_than_its_batch_has_the_other_asked(
    half: int, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(keys: Sequence[str], total: int) -> RangeAnswer:
        if len(keys) == 4 and "k0" in keys:
            return RangeAnswer(total_clicks=half, device={"Desktop": half})
        return honest(keys, total)

    # The first half answers with other clicks than the batch; the second is right nevertheless.
    service = Counter({"k0": 5, "k7": 3}, answer)
    totals = each_total(service)
    assert {key: totals[key] for key in KEYS[4:]} == {"k4": 0, "k5": 0, "k6": 0, "k7": 3}
    assert ("k4", "k5", "k6", "k7") in service.asked
    assert "more clicks than in a batch that contains them" in caplog.text


def test_days_that_are_not_over_are_not_subtracted() -> None:
    today = datetime.now(UTC).date()
    for query in (Day(today), DateRange(today - timedelta(days=3), today)):
        service = Counter({}, honest)
        each_total(service, query=query)
        assert sorted(service.asked) == [(key,) for key in KEYS]


def test_answers_of_two_runs_are_not_subtracted() -> None:
    clicks = {"k0": 1, "k7": 3}
    service = Counter(clicks, honest)

    async def collect() -> dict[str, int]:
        # Only the batch stands in the journal, and a click was taken out of the books since.
        stats = stats_over(service, lambda call: 1e9 if len(call.keys) == 8 else None)
        service.answer = lambda keys, total: honest(keys, total + (len(keys) == 8))
        return {key: result.total async for key, result in stats.collect_each(DAY, keys=KEYS)}

    assert asyncio.run(collect()) == {**dict.fromkeys(KEYS, 0), **clicks}
    assert ("k4", "k5", "k6", "k7") in service.asked


def test_answers_of_a_journal_are_subtracted_only_if_one_run_fetched_them() -> None:
    # The first run ended after the batch; then k0 was clicked on a day that was over; a second run asked
    # for the rest. The difference would show one of k7's clicks less.
    late = {"k0": 1}

    def answer(keys: Sequence[str], total: int) -> RangeAnswer:
        return honest(keys, total - (late["k0"] if len(keys) == 8 else 0))

    service = Counter({"k0": 1, "k7": 3}, answer)
    later = 3_600.0

    async def collect() -> dict[str, int]:
        stats = stats_over(service, lambda call: 1e9 if len(call.keys) == 8 else 1e9 + later)
        return {key: result.total async for key, result in stats.collect_each(DAY, keys=KEYS)}

    assert asyncio.run(collect()) == {**dict.fromkeys(KEYS, 0), "k0": 1, "k7": 3}
    service.asked.clear()
    later, late["k0"] = 1.0, 0
    assert asyncio.run(collect()) == {**dict.fromkeys(KEYS, 0), "k0": 1, "k7": 3}
    assert ("k4", "k5", "k6", "k7") not in service.asked


def test_a_job_killed_a_moment_ago_is_continued_with_the_same_requests() -> None:
    # Otherwise the second half, which is requested now, would not be used by a third run.
    service = Counter({"k0": 1, "k7": 3}, honest)
    moment = datetime.now(UTC).timestamp() - 1.0

    async def collect() -> dict[str, int]:
        stats = stats_over(service, lambda call: moment if len(call.keys) == 8 else None)
        return {key: result.total async for key, result in stats.collect_each(DAY, keys=KEYS)}

    assert asyncio.run(collect()) == {**dict.fromkeys(KEYS, 0), "k0": 1, "k7": 3}
    assert ("k4", "k5", "k6", "k7") not in service.asked


# --- late clicks -----------------------------------------------------------------------------------------

#: It ended between one and two days ago.
RECENT = Day(datetime.now(UTC).date() - timedelta(days=2))


@examples(150)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 39)), max_size=4),
    st.booleans(),
)
def test_late_clicks_never_make_a_link_lose_any(
    clicks: list[int], late: list[tuple[int, int]], fails: bool
) -> None:
    keys = [f"k{n}" for n in range(len(clicks))]
    before = dict(zip(keys, clicks, strict=True))
    service = Counter(dict(before), honest)

    def send(call: Call[Any]) -> RangeAnswer:
        # Each late click is counted from a certain request on.
        for at, n in late:
            if at == len(service.asked):
                service.clicks[keys[n % len(keys)]] += 1
        if fails and call.keys == ("k0",):
            raise ServerError("broken", status=500, method="GET", path=call.path)
        return service(call)

    failures: list[Failure] = []
    totals = each_total(send, keys, RECENT, on_error=failures.append)
    assert set(keys) - set(totals) == {key for failure in failures for key in failure.call.keys}
    for key, total in totals.items():
        assert before[key] <= total <= service.clicks[key]


def test_a_subtracted_answer_is_confirmed_by_one_request_if_its_window_ended_recently() -> None:
    whole = tuple(KEYS)
    for query, times in ((RECENT, 2), (DAY, 1)):
        service = Counter({"k6": 3}, honest)
        assert each_total(service, query=query) == {**dict.fromkeys(KEYS, 0), "k6": 3}
        assert service.asked.count(whole) == times
        assert len(service.asked) == 4 + times - 1
    empty = Counter({}, honest)
    each_total(empty, query=RECENT)
    assert empty.asked == [whole]


def test_an_unconfirmed_answer_has_derived_slashtags_requested() -> None:
    service = Counter({"k0": 1, "k7": 2}, honest)

    def send(call: Call[Any]) -> RangeAnswer:
        if len(service.asked) == 1:
            service.clicks["k0"] += 1
        return service(call)

    assert each_total(send, query=RECENT) == {**dict.fromkeys(KEYS, 0), "k0": 2, "k7": 2}
    assert ("k7",) in service.asked


async def test_a_journal_does_not_confirm_its_own_answer(tmp_path: Path) -> None:
    async with serving() as (box, _):
        for key in KEYS:
            box.add_url(key)
        box.add_click("k6", f"{RECENT.date}T12:00:00+00:00")
        tables: list[dict[str, int]] = []
        requests: list[list[list[str]]] = []
        for _ in range(2):
            box.requests.clear()
            async with client(box, journal=tmp_path / "journal") as job:
                each = job.stats.collect_each(RECENT, keys=KEYS)
                tables.append({key: stats.total async for key, stats in each})
            requests.append([arrival.query["url_keys"] for arrival in box.requests])
    assert tables[0] == tables[1] == {**dict.fromkeys(KEYS, 0), "k6": 1}
    assert len(requests[0]) == 5
    assert requests[1] == [requests[0][0]]


# --- the order of keys ---------------------------------------------------------------------------------


def links(hits: dict[str, int]) -> list[ShortUrl]:
    return [ShortUrl(id=n, slashtag=key, hits=n_hits) for n, (key, n_hits) in enumerate(hits.items())]


MANY = {f"k{n}": 7 if n % 10 == 3 else 0 for n in range(500)}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_links_with_hits_are_asked_together(asynchronous: bool) -> None:
    clicks = {key: n for key, n in MANY.items() if n}
    found: dict[str, int] = {}
    for given_keys in (list(MANY), links(MANY)):
        service = Counter(clicks, honest)
        keys = arriving(given_keys) if asynchronous else given_keys
        assert each_total(service, keys) == {**MANY}  # type: ignore[arg-type]
        found[type(given_keys[0]).__name__] = len(service.asked)
    # 50 links of 500 were clicked: all of them in the first batch, each of them asked for or a difference.
    assert found["ShortUrl"] <= 50 + 5
    assert found["str"] > 150


async def arriving(keys: Iterable[Any]) -> Any:
    for key in keys:
        yield key


def test_hits_decide_the_order_and_nothing_else() -> None:
    wrong = links({key: 0 if n else 5 for key, n in MANY.items()})
    assert each_total(Counter(MANY, honest), wrong) == MANY


def test_ordered_results_come_in_the_order_of_keys_whatever_their_hits() -> None:
    assert list(each_total(Counter(MANY, honest), links(MANY), ordered=True)) == list(MANY)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_daily_table_asks_for_links_whose_hits_changed_and_once_a_batch(asynchronous: bool) -> None:
    before = {f"k{n}": n % 97 for n in range(5_000)}
    clicks = {f"k{n}": 1 + n % 3 for n in range(17, 5_000, 100)}
    now = links({key: n + clicks.get(key, 0) for key, n in before.items()})
    service = Counter(clicks, honest)
    keys = arriving(now) if asynchronous else now
    totals = each_total(service, keys, changed_since=before)  # type: ignore[arg-type]
    assert totals == {key: clicks.get(key, 0) for key in before}
    assert len(clicks) == 50
    assert len(service.asked) <= 50 + 50
