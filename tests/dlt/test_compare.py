"""Comparisons of what a table holds with what a service answers: every fault, and no other day."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import (
    AllTime,
    AuthenticationError,
    BadRequestError,
    PeriodStats,
    RangeStats,
    ShortUrl,
    SlashtagError,
    TransportError,
    parse_zone,
)
from slashtag._internal import Selector, days
from slashtag.dlt._compare import DISAGREE, Comparison, counted_days
from slashtag.dlt._held import Held
from tests.support.loads_without_dlt import held_of
from tests.support.warehouses import DAY

Cell = tuple[str, date]
#: Two whole months, and the first days of a third one.
FIRST, LAST = date(2024, 2, 1), date(2024, 4, 9)
DAYS = list(days(FIRST, LAST))
FEBRUARY, MARCH, APRIL = date(2024, 2, 7), date(2024, 3, 5), date(2024, 4, 3)
#: Clicks of six slashtags, the first of which has most.
CLICKS: dict[Cell, int] = {
    (f"k{n}", day): 1 + (n + day.day) % 3 for n in range(6) for day in DAYS[n :: 2 + 3 * n]
}

NAMES = [f"k{n}" for n in range(6)]
LINKS = {
    name: [ShortUrl(id=n, slashtag=name, hits=sum(c for (k, _), c in CLICKS.items() if k == name))]
    for n, name in enumerate(NAMES)
}


class Service:
    """Answers about clicks, in batches of four slashtags; `alter` returns or raises another one."""

    workers = 2

    def __init__(self, clicks: dict[Cell, int], alter: Callable[..., Any] | None = None) -> None:
        self.clicks, self.alter, self.asked = clicks, alter, 0

    def batches(self, keys: Iterable[str | ShortUrl]) -> list[Selector]:
        names = sorted({str(getattr(key, "slashtag", key)) for key in keys})
        return [Selector(keys=tuple(names[n : n + 4])) for n in range(0, len(names), 4)]

    async def ask(self, query: Any, selector: Selector, zone: Any, *, again: bool = False) -> Any:
        self.asked += 1
        found = Counter[date]()
        for (name, day), n in self.clicks.items():
            found[day] += n * (name in selector.keys)
        answer: PeriodStats | RangeStats
        if isinstance(query, AllTime):
            months: dict[int, dict[int, int]] = {}
            for day, n in found.items():
                of_year = months.setdefault(day.year, {})
                of_year[day.month] = of_year.get(day.month, 0) + n
            answer = PeriodStats(clicks_total=found.total(), clicks_breakdown=months)
        else:
            of_days = {day: found[day] for day in days(*query.bounds)}
            answer = RangeStats(total_clicks=sum(of_days.values()), clicks=of_days)
        return answer if self.alter is None else self.alter(answer, selector.keys, again)


def table(clicks: dict[Cell, int], *faults: tuple[Cell, int | None]) -> Held:
    """A table with a row for each day of each slashtag, but for faults: other clicks, none, a second row."""
    wrong = {cell: n for cell, n in faults if n is None or n >= 0}
    rows = [(name, day, wrong.get((name, day), clicks.get((name, day), 0))) for name in NAMES for day in DAYS]
    rows += [(*cell, -n) for cell, n in faults if n is not None and n < 0]
    return held_of((name, day, n) for name, day, n in rows if n is not None)


async def compared(
    service: Service, held: Held, *, tests: bool = True, zone: str = "+00:00", **more: Any
) -> Comparison:
    options: dict[str, Any] = {"has_rows": NAMES, "loaded": LAST + DAY, "unclicked": NAMES, **more}
    comparison = Comparison(service, held, LINKS, (FIRST, LAST), parse_zone(zone), **options)  # type: ignore[arg-type]
    await comparison.run(tests=tests)
    return comparison


def cells(comparison: Comparison) -> dict[Cell, tuple[int, int | None]]:
    return {(each.slashtag, each.date): (each.held, each.counted) for each in comparison.differences}


# A fault is another power of two for each, so that no two cancel each other; or no row, or a second one.
@given(
    cells_of=st.lists(st.sampled_from([(n, d) for n in NAMES for d in DAYS]), max_size=5, unique=True),
    kinds=st.lists(st.sampled_from(["more", "none", "twice"]), min_size=5, max_size=5),
    zone=st.sampled_from(["+00:00", "+05:30", "Europe/Berlin"]),
    by_day=st.booleans(),
)
@example(cells_of=[], kinds=[], zone="+00:00", by_day=False)
@example(cells_of=[], kinds=[], zone="Europe/Berlin", by_day=False)
def test_every_fault_is_found_and_no_other_day(
    cells_of: list[Cell], kinds: list[str], zone: str, by_day: bool
) -> None:
    faults: list[tuple[Cell, int | None]] = []
    for n, (cell, kind) in enumerate(zip(cells_of, kinds, strict=False)):
        clicks = CLICKS.get(cell, 0)
        faults.append((cell, {"more": clicks + 2**n, "none": None, "twice": -(2**n)}[kind]))
    service = Service(CLICKS)
    found = asyncio.run(compared(service, table(CLICKS, *faults), zone=zone, by_day=by_day))
    assert cells(found).keys() == {*cells_of}
    assert all(counted == CLICKS.get(cell, 0) for cell, (_, counted) in cells(found).items())
    assert found.unproved == []
    assert {name for name, _ in cells_of} <= found.touched or not cells_of
    if not faults and not by_day:
        # One for each batch, in a zone with two offsets two, and one for the month in which it changes; and
        # one to test whether all-time statistics are the sum of ranges.
        assert service.asked == (2 * 3 if zone == "Europe/Berlin" else 2) + 1


def test_what_is_wrong_is_said() -> None:
    held = table(
        CLICKS, (("k0", FEBRUARY), 90), (("k1", MARCH), None), (("k2", MARCH), -5), (("k0", MARCH), 0)
    )
    found = asyncio.run(compared(Service(CLICKS | {("k0", MARCH): 3}), held))
    problems = {(each.slashtag, each.date): each.problem for each in found.differences}
    assert problems == {
        ("k0", FEBRUARY): "too many clicks",
        ("k0", MARCH): "clicks missing",
        ("k1", MARCH): "no row",
        ("k2", MARCH): "2 rows",
    }
    days_of = counted_days(found.differences)
    assert days_of["k0"] == {FEBRUARY: CLICKS.get(("k0", FEBRUARY), 0), MARCH: 3}
    assert days_of.keys() == {"k0", "k1", "k2"}
    assert counted_days([replace(found.differences[0], counted=None)]) == {}


# -- all-time statistics that are not the sum of ranges


def of_all_time(change: Callable[[dict[int, int]], dict[int, int]], *, at: int = 0) -> Callable[..., Any]:
    """Answer all-time statistics with other months, from the answer with this number on."""
    answers = iter(range(10_000))

    def alter(answer: Any, keys: Any, again: bool) -> Any:
        if isinstance(answer, RangeStats) or next(answers) < at:
            return answer
        changed = {year: change(months) for year, months in answer.clicks_breakdown.items()}
        return replace(answer, clicks_breakdown=changed)

    return alter


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    "change",
    [
        lambda months: {},
        lambda months: {month - 1: n for month, n in months.items()},
        lambda months: {month: n - 1 for month, n in months.items()},
    ],
)
@pytest.mark.parametrize("is_wrong", [True, False])
async def test_all_time_that_is_no_sum_of_ranges_is_not_trusted(
    change: Any, at: int, is_wrong: bool, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [(("k1", MARCH), 9), (("k5", FEBRUARY), 9)] if is_wrong else []
    found = await compared(Service(CLICKS, of_all_time(change, at=at)), table(CLICKS, *faults))
    assert cells(found).keys() == {cell for cell, _ in faults}
    assert not found.trusts_all_time
    assert "not the sum" in caplog.text or "contradict its days" in caplog.text


async def test_months_that_seemed_right_are_compared_once_all_time_is_not_trusted() -> None:
    def hide(answer: Any, keys: Any, again: bool) -> Any:
        if isinstance(answer, RangeStats) or "k1" not in keys:
            return answer
        months = answer.clicks_breakdown[2024]
        return replace(answer, clicks_breakdown={2024: months | {2: months[2] + 9, 3: months[3] + 1}})

    cell = ("k1", FEBRUARY)
    held = table(CLICKS, (cell, CLICKS.get(cell, 0) + 9))
    assert cells(await compared(Service(CLICKS, hide), held, tests=False)).keys() == {cell}


@pytest.mark.parametrize("error", [BadRequestError("no", status=400), None])
async def test_all_time_that_is_refused_is_not_used(error: Any, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(answer: Any, keys: Any, again: bool) -> Any:
        if isinstance(answer, PeriodStats):
            raise error or AuthenticationError("no", status=401)
        return answer

    held = table(CLICKS, (("k1", MARCH), 9))
    caplog.set_level(logging.INFO, "slashtag")
    if error is None:
        with pytest.raises(AuthenticationError):
            await compared(Service(CLICKS, refuse), held)
        return
    found = await compared(Service(CLICKS, refuse), held)
    assert (cells(found).keys(), found.unproved) == ({("k1", MARCH)}, [])
    assert "cannot be used" in caplog.text


async def test_all_time_that_first_lags_behind_is_a_disagreement_only_if_days_are_too() -> None:
    # The table has a click less than the service, and so has one of its answers about the month.
    lagging = {**CLICKS, ("k0", MARCH): 7}
    held = table({**CLICKS, ("k0", MARCH): 6})
    answers: list[Any] = []

    def lag(answer: Any, keys: Any, again: bool) -> Any:
        # All-time statistics have the click, and the first answer about days has not.
        if isinstance(answer, RangeStats) and "k0" in keys and not again:
            answers.append(answer)
            of_days = {day: n - (day == MARCH) for day, n in answer.clicks.items()}
            return replace(answer, clicks=of_days, total_clicks=answer.total_clicks - 1)
        return answer

    found = await compared(Service(lagging, lag), held, tests=False)
    assert answers
    assert found.differences == []
    assert [each.reason for each in found.unproved] == [DISAGREE]
    assert found.trusts_all_time


# -- answers that fail, or contradict themselves


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("of_days", [True, False])
@pytest.mark.parametrize("error", [BadRequestError("no", status=400), TransportError("gone")])
async def test_a_link_that_fails_is_not_proved_and_others_are(
    error: SlashtagError, of_days: bool, raises: bool
) -> None:
    def fail(answer: Any, keys: Any, again: bool) -> Any:
        if "k2" in keys and isinstance(answer, RangeStats) is of_days:
            raise error
        return answer

    held = table(CLICKS, (("k1", MARCH), 9), (("k5", MARCH), 9))
    comparing = compared(Service(CLICKS, fail), held, raises=raises, tests=False)
    if raises and isinstance(error, TransportError):
        with pytest.raises(TransportError):
            await comparing
        return
    found = await comparing
    # All that was requested with it failed too, where that was not a refusal.
    failed = ("k2",) if isinstance(error, BadRequestError) else ("k0", "k1", "k2", "k3")
    assert [(each.slashtags, each.reason) for each in found.unproved] == [(failed, str(error))]
    assert cells(found).keys() == {("k5", MARCH)} | ({("k1", MARCH)} if len(failed) == 1 else set())


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("more", [1, -1])
async def test_a_link_of_which_second_answers_fail_is_not_proved(more: int, again: bool) -> None:
    cell = ("k5", MARCH)

    def fail(answer: Any, keys: Any, is_again: bool) -> Any:
        if isinstance(answer, RangeStats) and keys == ("k5",) and is_again is again:
            raise TransportError("gone")
        return answer

    service = Service({**CLICKS, cell: 5}, fail)
    found = await compared(service, table({**CLICKS, cell: 5 + more}), tests=False)
    assert found.differences == []
    # Where there were more clicks, it is said of its batch too.
    told = [("k5",), ("k4", "k5")] if again and more > 0 else [("k5",)]
    assert [each.slashtags for each in found.unproved] == told


@pytest.mark.parametrize("wrong", [{"reconciles": False}, {"days_complete": False}])
async def test_days_that_contradict_their_total_prove_nothing(wrong: dict[str, bool]) -> None:
    def contradict(answer: Any, keys: Any, again: bool) -> Any:
        return replace(answer, **wrong) if isinstance(answer, RangeStats) and "k5" in keys else answer

    held = table(CLICKS, (("k1", MARCH), 9), (("k5", MARCH), None))
    found = await compared(Service(CLICKS, contradict), held, tests=False)
    assert [each.slashtags for each in found.unproved] == [("k4", "k5")]
    # A row that is not there is wrong by itself, whatever the service counts.
    assert cells(found) == {("k1", MARCH): (9, CLICKS.get(("k1", MARCH), 0)), ("k5", MARCH): (0, None)}


async def test_all_time_that_contradicts_itself_has_all_months_compared_by_day() -> None:
    def contradict(answer: Any, keys: Any, again: bool) -> Any:
        return replace(answer, reconciles=False) if isinstance(answer, PeriodStats) else answer

    # The differences cancel each other out within the month, and so in its sum.
    a, b = ("k5", MARCH), ("k5", MARCH + DAY)
    true = {**CLICKS, a: 4, b: 4}
    held = table({**true, a: 3, b: 5})
    assert cells(await compared(Service(true), held, tests=False)) == {}
    found = await compared(Service(true, contradict), held, tests=False)
    assert cells(found) == {a: (3, 4), b: (5, 4)}


async def test_links_that_do_not_add_up_to_their_batch_are_told() -> None:
    def count_some(answer: Any, keys: Any, again: bool) -> Any:
        if isinstance(answer, RangeStats) and len(keys) > 1:
            clicks = {day: n // 2 for day, n in answer.clicks.items()}
            return replace(answer, clicks=clicks, total_clicks=sum(clicks.values()))
        return answer

    found = await compared(Service(CLICKS, count_some), table(CLICKS), by_day=True)
    assert found.differences == []
    assert {each.slashtags for each in found.unproved} == {("k0", "k1", "k2", "k3"), ("k4", "k5")}
    assert all("do not add up" in str(each) for each in found.unproved)


@pytest.mark.parametrize("lags_at", [1, 2])
async def test_a_difference_that_a_second_answer_denies_is_none(lags_at: int) -> None:
    cell = ("k5", MARCH)
    asked = Counter[bool]()

    def lag(answer: Any, keys: Any, again: bool) -> Any:
        if isinstance(answer, RangeStats) and keys == ("k5",) and again:
            asked[again] += 1
            if asked[again] == lags_at:
                return replace(answer, clicks=answer.clicks | {MARCH: 5})
        return answer

    # Fewer clicks than are held: only if two more answers say so.
    found = await compared(Service({**CLICKS, cell: 4}, lag), table({**CLICKS, cell: 5}), tests=False)
    assert (found.differences, [each.reason for each in found.unproved]) == ([], [DISAGREE])
    assert asked.total() == 2


async def test_a_difference_of_which_second_answers_contradict_themselves_is_not_proved() -> None:
    def contradict(answer: Any, keys: Any, again: bool) -> Any:
        return replace(answer, reconciles=False) if keys == ("k5",) and again else answer

    cell = ("k5", MARCH)
    held = table({**CLICKS, cell: 5})
    found = await compared(Service({**CLICKS, cell: 4}, contradict), held, tests=False)
    assert (cells(found), [each.reason for each in found.unproved]) == ({cell: (5, 4)}, [DISAGREE])


# -- what a load knows


async def test_hits_that_all_time_lacks_are_asked_for_again() -> None:
    lagging = iter([True])

    def lag(answer: Any, keys: Any, again: bool) -> Any:
        if isinstance(answer, PeriodStats) and "k0" in keys and next(lagging, False):
            months = answer.clicks_breakdown[2024]
            fewer = {2024: months | {3: months[3] - 1}}
            return replace(answer, clicks_total=answer.total - 1, clicks_breakdown=fewer)
        return answer

    # The click that the first answer lacks is not held either: only the second one shows it.
    cell = ("k0", date(2024, 3, 2))
    held = table({**CLICKS, cell: CLICKS[cell] - 1})
    assert cells(await compared(Service(CLICKS, lag), held, tests=False)).keys() == {cell}


@pytest.mark.parametrize("unclicked", [NAMES, NAMES[:3]])
async def test_the_present_month_is_known_of_links_that_were_not_clicked_since(unclicked: list[str]) -> None:
    service = Service(CLICKS)
    shown: list[tuple[int, int | None]] = []
    found = await compared(
        service,
        table(CLICKS),
        tests=False,
        unclicked=unclicked,
        progress=lambda done, total: shown.append((done, total)),
    )
    assert (cells(found), found.unproved, shown) == ({}, [], [(1, 2), (2, 2)])
    # A batch with a link that may have been clicked is asked about by its days of the month.
    assert service.asked == 2 + (0 if unclicked == NAMES else 2)


@pytest.mark.parametrize("loaded", [LAST + DAY, LAST + timedelta(60), None])
async def test_a_part_of_a_month_is_compared_by_day_unless_it_is_that_of_the_load(loaded: Any) -> None:
    service = Service(CLICKS)
    found = await compared(service, table(CLICKS, (("k4", APRIL), 50)), tests=False, loaded=loaded)
    assert cells(found) == {("k4", APRIL): (50, CLICKS.get(("k4", APRIL), 0))}


async def test_rows_have_the_slashtag_of_the_load() -> None:
    true = {("new" if name == "k3" else name, day): n for (name, day), n in CLICKS.items()}
    new = [ShortUrl(id=3, slashtag="new", hits=LINKS["k3"][0].hits)]
    links = {("new" if name == "k3" else name): of_name for name, of_name in (LINKS | {"k3": new}).items()}
    service = Service(true)
    comparison = Comparison(
        service,  # type: ignore[arg-type]
        table(CLICKS, (("k3", MARCH), 50), (("k3", APRIL), None)),
        links,
        (FIRST, LAST),
        UTC,
        held_as={"new": "k3"},
        has_rows=NAMES,
    )
    await comparison.run(tests=True)
    assert cells(comparison).keys() == {("k3", MARCH), ("k3", APRIL)}


async def test_a_table_without_rows_of_zero_clicks_lacks_none() -> None:
    zeros = [((name, day), None) for name in NAMES for day in DAYS if (name, day) not in CLICKS]
    found = await compared(Service(CLICKS), table(CLICKS, *zeros))
    assert (found.differences, found.unproved) == ([], [])
    lost = next(iter(CLICKS))
    found = await compared(Service(CLICKS), table(CLICKS, *zeros, (lost, None)))
    assert cells(found) == {lost: (0, CLICKS[lost])}
