"""One answer a slashtag: equal to the truth of each, for far fewer requests than slashtags x windows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from slashtag import (
    AllTime,
    BadRequestError,
    CountryGeo,
    DateRange,
    Day,
    Failure,
    PeriodStats,
    RangeStats,
    RetryPolicy,
    ShortUrl,
    UnknownTagError,
    Year,
)
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import (
    END,
    START,
    YEARS,
    Account,
    client,
    counts,
    period,
    places,
    scripted,
    serving,
    slowly,
)
from tests.support import wire
from tests.support.sandboxes import refused_links
from tests.support.sending import turns, until_idle


def paths(box: Sandbox) -> Counter[str]:
    return Counter(arrival.path.removeprefix("/api/v1/") for arrival in box.requests)


# --- inferred, and without months that are empty -----------------------------------------------------


@pytest.mark.unmeasured
async def test_100_slashtags_over_three_years_are_true_for_under_2333_requests(account: Account) -> None:
    keys = tuple(account.keys[:100])
    async with account.serve() as box, client(box) as api:
        answers = {key: stats async for key, stats in api.stats.collect_each(YEARS, keys=keys)}
        requests = len(box.requests)
        assert {arrival.status for arrival in box.requests} == {200}
    truth = account.each(keys)
    assert answers.keys() == truth.keys()
    assert all(counts(answers[key]) == counts(truth[key]) for key in keys)
    assert requests < 7_000 / 3 < len(keys) * 35


@pytest.mark.unmeasured
@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("zone", [None, "America/New_York", "Australia/Lord_Howe", "America/Santiago"])
async def test_inferred_or_not_and_in_whatever_zone_the_answers_are_the_truth(
    account: Account, inferred: bool, zone: str | None
) -> None:
    keys = tuple(account.keys[:9])
    async with account.serve() as box, client(box) as api:
        each = api.stats.collect_each(YEARS, keys=keys, timezone=zone and ZoneInfo(zone), inferred=inferred)
        answers = {key: counts(stats) async for key, stats in each}
        asked = paths(box)
    assert answers == {key: counts(stats) for key, stats in account.each(keys, zone).items()}
    if inferred:
        assert asked["stats/alltime"] == 1
        assert asked["stats"] < 9 * 35
    else:
        assert asked["stats/alltime"] == 0
        assert asked["stats"] >= 9 * 35


async def test_a_click_of_an_hour_that_only_the_zone_counts_to_the_month_is_found() -> None:
    # 00:30 on April 1, an hour that bears another date under the offset of all later days.
    async with serving() as (box, api):
        box.add_url("a", created_at="2018-01-01")
        box.add_click("a", "2018-03-31T13:30:00+00:00")
        query, zone = DateRange("2018-04-01", "2018-09-30"), ZoneInfo("Australia/Sydney")
        ((_, stats),) = [item async for item in api.stats.collect_each(query, keys=["a"], timezone=zone)]
    assert stats.total == stats.clicks[date(2018, 4, 1)] == 1


async def test_short_spans_are_asked_without_all_time_statistics(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        for query in (DateRange("2024-01-01", "2024-02-29"), Day("2024-01-01")):
            assert len([item async for item in api.stats.collect_each(query, keys=account.keys[:5])]) == 5
        assert paths(box).keys() == {"stats"}
        assert paths(box)["stats"] <= 5 * 2 + 5 + 4


async def test_a_batch_without_clicks_costs_one_request() -> None:
    async with serving() as (box, api):
        keys = [f"s{n}" for n in range(100)]
        for key in keys:
            box.add_url(key)
        answers = [item async for item in api.stats.collect_each(YEARS, keys=keys)]
        assert sorted(key for key, _ in answers) == sorted(keys)
        assert all(stats.total == 0 and len(stats.clicks) == 1096 for _, stats in answers)
        assert paths(box) == {"stats/alltime": 1}


async def test_the_current_and_the_previous_month_are_always_asked_for() -> None:
    today = datetime.now(UTC)
    async with serving() as (box, api):
        for key in ("a", "b"):
            box.add_url(key)
        query = DateRange(today.date() - timedelta(days=400), today.date())
        answers = [item async for item in api.stats.collect_each(query, keys=["a", "b"])]
        assert [stats.total for _, stats in answers] == [0, 0]
        # Each of them of both links at once.
        assert paths(box) == {"stats/alltime": 1, "stats": 2}


async def test_months_of_parts_of_days_are_skipped_too() -> None:
    start, end = datetime(2024, 1, 31, 23, tzinfo=UTC), datetime(2024, 7, 1, 1, tzinfo=UTC)
    async with serving() as (box, api):
        box.add_url("a", created_at="2023-01-01")
        for instant in (start, end):
            for n in (-1, 0, 1):
                box.add_click("a", instant + timedelta(seconds=n))
        ((_, stats),) = [item async for item in api.stats.collect_each(DateRange(start, end), keys=["a"])]
        assert counts(stats) == counts(box.truth.range(start, end))
        assert paths(box) == {"stats/alltime": 1, "stats": 2}
    assert stats.total == 4


@pytest.mark.unmeasured
async def test_a_service_with_the_paths_of_the_samples_shows_months_as_well(account: Account) -> None:
    keys = tuple(account.keys[:8])
    async with account.serve(paths="samples") as box, client(box, concurrency=1) as api:
        answers = {key: counts(stats) async for key, stats in api.stats.collect_each(YEARS, keys=keys)}
        assert paths(box)["stats/alltime"] == 2
    assert answers == {key: counts(stats) for key, stats in account.each(keys).items()}


@pytest.mark.unmeasured
@pytest.mark.parametrize("max_target", [200, 8190])
async def test_a_batch_that_is_too_long_for_the_service_is_asked_by_halves(
    account: Account, max_target: int
) -> None:
    keys = tuple(account.keys[:8])
    async with account.serve(max_target=max_target) as box, client(box) as api:
        answers = {key: counts(stats) async for key, stats in api.stats.collect_each(YEARS, keys=keys)}
        assert paths(box)["stats/alltime"] <= 9
    assert answers == {key: counts(stats) for key, stats in account.each(keys).items()}


# --- a service whose all-time statistics lie ---------------------------------------------------------


class Ledger:
    """A service with a few clicks, that may tell other months for all time than it does for ranges."""

    def __init__(self, clicks: dict[str, dict[date, int]], lie: Callable[[date], date]) -> None:
        self.clicks = clicks
        self.lie = lie
        self.short = 0

    def __call__(self, request: wire.Request) -> wire.Answer:
        keys = request.query["url_keys"][0].split(",")
        told = [(day, n) for key in keys for day, n in self.clicks[key].items()]
        if request.path.endswith("alltime"):
            breakdown: dict[str, Counter[str]] = {}
            for day, n in told:
                told_as = self.lie(day)
                breakdown.setdefault(str(told_as.year), Counter())[str(told_as.month)] += n
            total = sum(n for _, n in told) + self.short
            members = {"clicks_total": total, "clicks_unique": total, "clicks_repeated": 0}
            return wire.ok({**members, "clicks_breakdown": breakdown})
        first, last = (datetime.fromisoformat(at).date() for at in request.query["date_range"][0].split(","))
        days = Counter[str]()
        for day, n in told:
            days.update({str(day): n} if first <= day <= last else {})
        return wire.ok({"total_clicks": days.total(), "clicks": days})


def a_month_early(day: date) -> date:
    return day.replace(day=1) - timedelta(days=1)


HONEST = {"a": {date(2023, 5, 5): 3, date(2023, 6, 30): 4}, "b": {date(2023, 2, 1): 1}, "c": {}}
YEAR, SPRING = DateRange("2023-01-01", "2023-12-31"), DateRange("2023-03-01", "2023-05-31")


async def test_honest_all_time_statistics_are_believed() -> None:
    async with scripted(Ledger(HONEST, lambda day: day)) as (server, api):
        answers = {key: stats.total async for key, stats in api.stats.collect_each(YEAR, keys=HONEST)}
        assert answers == {"a": 7, "b": 1, "c": 0}
        # All time of the batch; three months, each with both halves, and checks.
        asked = [request.query.get("date_range", ["all time"])[0][:7] for request in server.requests]
        assert {*asked} == {"all tim", "2023-02", "2023-05", "2023-06"}
        assert len(asked) <= 1 + 3 * 7


async def test_months_that_lie_are_found_out_and_all_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    async with scripted(Ledger(HONEST, a_month_early), concurrency=1) as (server, api):
        each = api.stats.collect_each(YEAR, keys=["a", "b", "c"], ordered=True)
        answers = [(key, {day: n for day, n in stats.clicks.items() if n}) async for key, stats in each]
        assert answers == list(HONEST.items())
        # Every window of those that were not done when the first month was found to be wrong.
        assert sum(request.path.endswith("stats") for request in server.requests) >= 12
    assert [record.levelname for record in caplog.records if record.name == "slashtag"] == ["WARNING"]


async def test_months_that_lie_are_found_out_in_batches_that_are_under_way() -> None:
    clicks = {f"s{n}": {date(2023, 5, 5): 3} if n in (5, 105) else {} for n in range(200)}
    async with scripted(Ledger(clicks, a_month_early), concurrency=2) as (_, api):
        each = api.stats.collect_each(YEAR, keys=list(clicks))
        answers = {key: stats.total async for key, stats in each if stats.total}
        assert answers == {"s5": 3, "s105": 3}


NOTHING = {"clicks_total": 0, "clicks_unique": 0, "clicks_repeated": 0, "clicks_breakdown": {}}


@pytest.mark.parametrize(
    "all_time",
    [
        wire.envelope(400, "Bad request. Date is required.", []),
        *(wire.envelope(status, "No.", None) for status in (403, 404, 405, 500)),
        wire.html(404),
        wire.ok(None),
        wire.ok({**NOTHING, "clicks_total": 5}),
    ],
)
async def test_all_time_statistics_that_cannot_be_used_cost_no_slashtag(all_time: wire.Answer) -> None:
    # Two batches.
    totals = {f"s{n}": int(n % 10 == 5) for n in range(110)}
    ledger = Ledger({key: {date(2023, 5, 5): n} for key, n in totals.items()}, lambda day: day)

    def answer(request: wire.Request) -> wire.Answer:
        return ledger(request) if "date_range" in request.query else all_time

    async with scripted(answer, retry=RetryPolicy()) as (server, api), asyncio.timeout(30):
        each = api.stats.collect_each(SPRING, keys=list(ledger.clicks))
        assert {key: stats.total async for key, stats in each} == totals
        asked = sum("date_range" not in request.query for request in server.requests)
        each = api.stats.collect_each(SPRING, keys=list(ledger.clicks))
        assert len([key async for key, _ in each]) == 110
        # Not again in this session.
        assert asked == sum("date_range" not in request.query for request in server.requests)


@pytest.mark.unmeasured
async def test_one_failure_of_all_time_statistics_in_many_changes_no_window() -> None:
    totals = {f"s{n}": int(n % 10 == 5) for n in range(400)}
    ledger = Ledger({key: {date(2023, 5, 5): n} for key, n in totals.items()}, lambda day: day)
    refused = wire.envelope(500, "No.", None)

    def answer(request: wire.Request) -> wire.Answer:
        fails = "date_range" not in request.query and "s0" in request.query["url_keys"][0].split(",")
        return refused if fails else ledger(request)

    async with scripted(answer) as (server, api):
        each = api.stats.collect_each(YEAR, keys=list(ledger.clicks))
        assert {key: stats.total async for key, stats in each} == totals
        asked = {request.query.get("date_range", ["all time"])[0][:10] for request in server.requests}
    assert asked <= {"all time", *(f"2023-{month:02}-01" for month in range(1, 13))}


async def test_a_window_that_contradicts_itself_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with scripted(wire.ok({"total_clicks": 3, "clicks": {"2024-01-01": 1}})) as (_, api):
        query = DateRange("2024-01-01", "2024-01-05")
        ((_, stats),) = [item async for item in api.stats.collect_each(query, keys=["a"])]
    assert not stats.reconciles
    assert "slashtag 'a', 2024-01-01..2024-01-05" in caplog.text


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("inferred", [False, True])
async def test_one_unknown_slashtag_among_hundreds_costs_itself_only(
    account: Account, inferred: bool
) -> None:
    keys = account.keys[:300]
    keys[137] = "nobody-has-this"
    failures: list[Failure] = []
    query = DateRange("2024-03-01", "2024-05-31") if inferred else DateRange("2024-03-01", "2024-03-31")
    async with account.serve(unknown_keys="error") as box, client(box) as api:
        answers = {k: s async for k, s in api.stats.collect_each(query, keys=keys, on_error=failures.append)}
        rest = [key for key in keys if key != "nobody-has-this"]
        truth = box.truth.range(query.start, query.end, keys=rest)
        requests = len(box.requests)
    assert sorted(answers) == sorted(rest)
    assert counts(RangeStats.merge(answers.values())) == counts(truth)
    (failure,) = failures
    assert failure.keys == ("nobody-has-this",)
    assert isinstance(failure.error, BadRequestError)
    assert requests < 300 * 3


async def test_the_first_failure_ends_the_iterator_and_names_slashtag_and_window(account: Account) -> None:
    keys = [*account.keys[:40], "nobody-has-this", *account.keys[40:60]]
    query = DateRange("2024-03-01", "2024-03-31")
    async with account.serve(unknown_keys="error") as box, client(box, concurrency=3) as api:
        each = api.stats.collect_each(query, keys=keys)
        with pytest.raises(BadRequestError) as caught:
            await gather(each)
        (note,) = caught.value.__notes__
        assert note.endswith("slashtag 'nobody-has-this', 2024-03-01..2024-03-31")
        # What was sent before may still arrive.
        await turns(100)
        requests = len(box.requests)
        assert [item async for item in each] == []
        await asyncio.sleep(0.05)
        assert requests == len(box.requests) < 50
        assert api.metrics.in_flight == 0


async def gather(each: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in each]


async def test_a_slashtag_that_failed_in_several_windows_is_told_once_and_not_given(account: Account) -> None:
    keys = account.keys[:5]
    failures: list[Failure] = []
    told: list[tuple[int, int | None]] = []
    async with account.serve() as box, client(box, retry=RetryPolicy(max_attempts=1)) as api:
        box.faults = [Fault(kind="500", path="/api/v1/stats", every=2)]
        answers = await gather(
            api.stats.collect_each(
                YEARS,
                keys=keys,
                inferred=False,
                on_error=failures.append,
                progress=lambda *done: told.append(done),
            )
        )
    assert answers == []
    assert sorted(failure.keys[0] for failure in failures) == sorted(keys)
    assert told == [(n, 5) for n in range(1, 6)]


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("status", [500, 400])
async def test_a_dead_service_gets_a_handful_of_requests(inferred: bool, status: int) -> None:
    failures: list[Failure] = []
    keys = [f"s{n}" for n in range(300)]
    retry = RetryPolicy(max_attempts=1)
    async with scripted(wire.envelope(status, "No.", []), retry=retry, concurrency=4) as (server, api):
        each = api.stats.collect_each(
            Day("2024-01-01"), keys=keys, ordered=True, inferred=inferred, on_error=failures.append
        )
        assert await gather(each) == []
        assert sorted(key for failure in failures for key in failure.keys) == sorted(keys)
        assert len(server.requests) <= 60
        failures.clear()
        server.requests.clear()
        stats = await api.stats.collect(Day("2024-01-01"), keys=keys, on_error=failures.append)
        assert stats.total == 0
        assert sorted(key for failure in failures for key in failure.keys) == sorted(keys)
        assert len(server.requests) <= 3 * 31


@pytest.mark.parametrize("day", ["", "2024-02-02"])
@pytest.mark.parametrize("status", [400, 403, 414])
async def test_batches_that_are_refused_do_not_take_the_others_along(status: int, day: str) -> None:
    failures: list[Failure] = []
    keys = [f"s{n}" for n in range(800)]
    bad = {*keys[:300]}
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        for key in keys:
            box.add_url(key)
        box.add_click("s500", "2024-02-05T12:00:00", times=7)
        with refused_links(box, bad, status, day):
            async with client(box, retry=RetryPolicy(max_attempts=1)) as api:
                span, done = DateRange("2024-01-01", "2024-02-29"), [0]
                each = api.stats.collect_each(
                    span, keys=keys, on_error=failures.append, progress=lambda n, _: done.append(n)
                )
                answers = {key: stats.total for key, stats in await gather(each)}
        failed = [key for failure in failures for key in failure.keys]
        assert sorted(failed) == sorted(bad)
        assert answers == {key: 7 * (key == "s500") for key in keys if key not in bad}
        assert done[-1] == len(keys)
        assert len(box.requests) < len(keys)


# --- what is asked about, and in which order ---------------------------------------------------------


async def test_a_tag_alone_equals_the_truth(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        name = box.truth.tags()[0].name
        ((_, stats),) = await gather(api.stats.collect_each(YEARS, tag=name))
        assert counts(stats) == counts(box.truth.range(START, END, tag=name))


@pytest.mark.unmeasured
@pytest.mark.parametrize("ordered", [False, True])
async def test_tags_each_equal_the_truth(account: Account, ordered: bool) -> None:
    async with account.serve() as box, client(box) as api:
        names = [tag.name for tag in box.truth.tags()[:6]]
        each = api.stats.collect_each(Year(2024), tags=[*names, *names], ordered=ordered)
        answers = await gather(each)
        assert {name: period(stats) for name, stats in answers} == {
            name: period(box.truth.year(2024, tag=name)) for name in names
        }
        assert len(answers) == len(names)
        if ordered:
            assert [name for name, _ in answers] == names
        with pytest.raises(UnknownTagError):
            await gather(api.stats.collect_each(YEARS, tags=[*names, "nobody's"]))


@pytest.mark.unmeasured
@pytest.mark.parametrize("inferred", [False, True])
async def test_ordered_keeps_the_order_asked(inferred: bool) -> None:
    async with serving(latency=(0.0, 0.01)) as (box, api):
        keys = [f"s{n}" for n in range(110)]
        for n, key in enumerate(keys):
            box.add_url(key)
            box.add_click(key, f"2024-0{n % 3 + 1}-01T00:00:00", times=n % 3 + 1)
        query = DateRange("2024-01-01", "2024-03-31")
        each = api.stats.collect_each(query, keys=keys, ordered=True, inferred=inferred)
        answers = [(key, stats.total) async for key, stats in each]
    assert answers == [(f"s{n}", n % 3 + 1) for n in range(110)]


async def test_ordered_passes_over_what_failed(account: Account) -> None:
    keys = account.keys[:50]
    keys[0] = keys[17] = keys[49] = "nobody-has-this"
    keys[30] = "nor-this"
    async with account.serve(unknown_keys="error", latency=(0.0, 0.004)) as box, client(box) as api:
        each = api.stats.collect_each(Day("2024-05-05"), keys=keys, ordered=True, on_error=lambda _: None)
        answers = [key async for key, _ in each]
    assert answers == [key for key in keys if key not in ("nobody-has-this", "nor-this")]


@pytest.mark.unmeasured
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_slashtags_may_come_from_anywhere_and_are_answered_once(
    account: Account, asynchronous: bool
) -> None:
    keys = account.keys[:120]
    links = [ShortUrl(id=n, slashtag=key) for n, key in enumerate(keys)]
    async with account.serve() as box, client(box) as api:
        truth = {
            key: counts(stats) for key, stats in box.truth.per_key("2024-05-05", "2024-05-05", keys).items()
        }
        for given in (keys, keys + keys, links, (key for key in keys), set(keys)):
            told: list[tuple[int, int | None]] = []
            source = slowly(given) if asynchronous else given
            each = api.stats.collect_each(
                Day("2024-05-05"), keys=source, progress=lambda *done, told=told: told.append(done)
            )
            answers = [(key, counts(stats)) async for key, stats in each]
            assert len(answers) == 120
            assert dict(answers) == truth
            assert told == [(n, None if asynchronous else 120) for n in range(1, 121)]


@pytest.mark.unmeasured
async def test_progress_is_told_while_a_group_is_counted(account: Account) -> None:
    async with account.serve() as box, client(box) as api:
        sent: dict[int, int] = {}
        query = DateRange("2024-05-01", "2024-07-31")
        each = api.stats.collect_each(
            query, keys=account.keys[:400], progress=lambda n, _: sent.update({n: len(box.requests)})
        )
        await gather(each)
    assert len(set(sent.values())) > 5


@pytest.mark.unmeasured
@pytest.mark.parametrize("ordered", [True, False])
async def test_a_listing_may_say_what_is_asked_about(account: Account, ordered: bool) -> None:
    async with account.serve() as box, client(box) as api:
        each = api.stats.collect_each(Day("2024-05-05"), keys=api.urls.list(pagesize=200), ordered=ordered)
        answers = [(key, counts(stats)) async for key, stats in each]
        truth = [(key, counts(stats)) for key, stats in box.truth.per_key("2024-05-05", "2024-05-05").items()]
    assert len(answers) == len(truth)
    assert answers == truth if ordered else dict(answers) == dict(truth)


@pytest.mark.unmeasured
async def test_years_all_time_and_countries_are_asked_once_a_slashtag(account: Account) -> None:
    keys = account.keys[5:10]
    async with account.serve(places=10_000) as box, client(box) as api:
        years = [item async for item in api.stats.collect_each(Year(2024), keys=keys)]
        times = [item async for item in api.stats.collect_each(AllTime(), keys=keys, timezone="-03:30")]
        lands = [item async for item in api.stats.collect_each(CountryGeo("US", START, END), keys=keys)]
        assert len(box.requests) == 15
        for key, stats in years:
            truth = box.truth.year(2024, keys=[key])
            assert period(stats) == period(truth)
            assert (stats.clicks_unique, stats.unique_is_exact) == (truth.clicks_unique, True)
        for key, stats in times:
            assert period(stats) == period(box.truth.alltime(keys=[key], timezone="-03:30"))
        for key, land in lands:
            assert places(land) == places(box.truth.country("US", START, END, keys=[key]))
    assert len(years) == len(times) == len(lands) == 5
    assert isinstance(years[0][1], PeriodStats)


# --- results as they are known -----------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("ordered", [True, False])
async def test_what_is_not_inferred_is_delivered_link_by_link(account: Account, ordered: bool) -> None:
    keys = account.keys[:100]
    async with account.serve() as box, client(box, concurrency=2) as api:
        query = DateRange("2024-01-01", "2024-02-29")
        async with api.stats.collect_each(query, keys=keys, inferred=False, ordered=ordered) as each:
            await anext(each)
            # Two windows, and what was under way meanwhile.
            assert len(box.requests) < 20


async def test_nothing_that_was_delivered_is_told_as_failed(account: Account) -> None:
    # Once forty requests have failed nothing more is sent.
    served: list[str] = []

    def answer(request: wire.Request) -> wire.Answer:
        (key,) = request.query["url_keys"]
        if len(served) >= 5:
            return wire.envelope(500, "No.", None)
        served.append(key)
        return wire.ok({"total_clicks": 1})

    failures: list[Failure] = []
    async with scripted(answer, concurrency=1, retry=RetryPolicy(max_attempts=1)) as (_, api):
        keys = [f"s{n}" for n in range(100)]
        each = api.stats.collect_each(Day("2024-05-05"), keys=keys, inferred=False, on_error=failures.append)
        found = [key async for key, _ in each]
    told = [key for failure in failures for key in failure.keys]
    assert sorted(found) == sorted(served)
    assert sorted([*found, *told]) == sorted(keys)


@pytest.mark.unmeasured
async def test_the_first_results_are_there_after_a_quarter_of_the_requests(account: Account) -> None:
    # Links with many hits come first, and the results of those with few.
    clicked = {f"s{n}": 2_500 - n for n in range(60)}
    links = [ShortUrl(id=n, slashtag=f"s{n}", hits=2_500 - n) for n in range(2_500)]

    def answer(request: wire.Request) -> wire.Answer:
        keys = request.query["url_keys"][0].split(",")
        total = sum(key in clicked for key in keys)
        return wire.ok({"total_clicks": total, "country": {"US": total}})

    async with scripted(answer) as (server, api):
        at: list[int] = []
        progress: list[int] = []
        each = api.stats.collect_each(
            Day("2024-05-05"),
            keys=links,
            progress=lambda _done, _total: progress.append(len(server.requests)),
        )
        totals: dict[str, int] = {}
        async for key, stats in each:
            totals[key] = stats.total
            at.append(len(server.requests))
    assert totals == {link.slashtag: int(link.slashtag in clicked) for link in links}
    assert at[250] <= at[-1] / 4
    assert progress[0] <= 12


# --- a slow consumer ---------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("inferred", [False, True])
async def test_results_do_not_pile_up_before_a_slow_consumer(
    account: Account, ordered: bool, asynchronous: bool, inferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag._resources.collect_each.GROUP", 1)
    done: list[int] = []
    async with account.serve() as box, client(box, concurrency=4) as api:
        keys = account.keys[:600]
        each = api.stats.collect_each(
            Day("2024-05-05"),
            keys=slowly(keys) if asynchronous else keys,
            ordered=ordered,
            inferred=inferred,
            progress=lambda n, _: done.append(n),
        )
        async with each:
            for taken in range(1, 4):
                await anext(each)
                await until_idle(api)
                # 64 results may wait; two groups of 100 are known besides.
                assert 60 <= len(done) <= 64 + 200 + taken
                assert len(box.requests) <= 400
            assert len([item async for item in each]) == len(keys) - 3


async def test_a_listing_is_read_no_further_than_its_slashtags_are_needed(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slashtag._resources.collect_each.GROUP", 1)
    async with account.serve() as box, client(box, concurrency=4) as api:
        listing = api.urls.list(pagesize=20, prefetch=1)
        async with api.stats.collect_each(Day("2024-05-05"), keys=listing, ordered=True) as each:
            await anext(each)
            await until_idle(api)
            # A batch is 100 slashtags; there is room for two, and one is read ahead.
            assert paths(box)["urls"] <= 16
