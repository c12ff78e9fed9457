"""Every figure of a report is the truth, however the service can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from slashtag import AsyncSession, BadRequestError, InvalidRequestError, RetryPolicy, ShortUrl
from slashtag.report import Report, build
from slashtag.sandbox import Fault, Sandbox

Serve = Callable[..., Sandbox]
COUNTS = ("total_clicks", "clicks", "device", "browser", "platform", "country", "referrer")


def names(box: Sandbox, count: int) -> list[str]:
    """The first slashtags of the account."""
    return list(dict.fromkeys(url.slashtag for url in box.truth.urls()))[:count]


def client(box: Sandbox, **options: Any) -> AsyncSession:
    quick = RetryPolicy(max_attempts=5, backoff_base=0.001, backoff_cap=0.002)
    return AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, retry=quick, **options)


async def reported(box: Sandbox, start: str, end: str, **options: Any) -> Report:
    async with client(box) as session:
        return await build(session, start, end, **options)


def check(box: Sandbox, report: Report, keys: list[str] | None = None, zone: Any = None) -> None:
    """Hold all figures against the truth."""
    span = report.start, report.end
    keys = names(box, 10_000) if keys is None else keys
    truth = box.truth.range(*span, keys=keys, timezone=zone)
    assert {name: getattr(report.stats, name) for name in COUNTS} == {
        name: getattr(truth, name) for name in COUNTS
    }
    assert report.total == truth.total_clicks
    assert report.before == box.truth.range(*report.before_span, keys=keys, timezone=zone).total_clicks
    each = box.truth.per_key(*span, keys=keys, timezone=zone)
    clicked = sum(1 for one in each.values() if one.total_clicks)
    assert report.links == len(keys)
    if report.links_clicked_is_exact:
        assert report.links_clicked == clicked
    else:
        assert min(clicked, 1) <= report.links_clicked <= clicked
    best = sorted((one.total_clicks for one in each.values() if one.total_clicks), reverse=True)
    assert [link.clicks for link in report.top] == best[:10]
    for link in report.top:
        assert link.days == each[link.slashtag].clicks
        assert sum(link.series.values()) == link.clicks
    if truth.total_clicks:
        assert report.busiest is not None
        assert report.busiest == (report.busiest[0], max(truth.clicks.values()))
        assert truth.clicks[report.busiest[0]] == report.busiest[1]
    else:
        assert report.busiest is None
    assert sum(n or 0 for row in report.month_weekdays.values() for n in row) == report.total


SPANS = [
    ("2024-01-01", "2024-12-31"),
    ("2024-03-01", "2024-03-31"),
    ("2024-02-11", "2024-09-17"),
    ("2025-05-05", "2025-05-05"),
    ("2023-01-01", "2025-12-31"),
    ("2021-01-01", "2021-12-31"),
]


@pytest.mark.parametrize("count_links", [True, False])
@pytest.mark.parametrize(("start", "end"), SPANS)
async def test_every_figure_is_the_truth(serve: Serve, start: str, end: str, count_links: bool) -> None:
    async with serve() as box:
        report = await reported(box, start, end, count_links=count_links)
        assert report.links_clicked_is_exact == count_links
        check(box, report)
        assert report.requests == len(box.requests)


@pytest.mark.parametrize(
    ("zone", "start", "end"),
    [
        ("Europe/Berlin", "2024-01-01", "2024-12-31"),
        ("America/New_York", "2024-03-10", "2024-11-20"),
        ("Asia/Kolkata", "2024-03-01", "2024-06-30"),
    ],
)
async def test_every_figure_is_the_truth_in_a_zone(serve: Serve, zone: str, start: str, end: str) -> None:
    async with serve() as box:
        report = await reported(box, start, end, timezone=ZoneInfo(zone))
        check(box, report, zone=ZoneInfo(zone))
        assert report.zone == zone


@pytest.mark.parametrize("paths", ["samples", "both"])
async def test_the_paths_of_the_samples_will_do(serve: Serve, paths: str) -> None:
    async with serve(paths=paths) as box:
        check(box, await reported(box, "2024-01-01", "2024-12-31", count_links=False))


async def test_without_all_time_statistics_days_are_asked_instead(serve: Serve) -> None:
    faults = [Fault(kind="404", path=f"/api/v1/stats/{path}") for path in ("alltime", "yearly")]
    async with serve(faults=faults) as box:
        keys = names(box, 30)
        report = await reported(box, "2024-01-01", "2024-06-30", keys=keys)
        check(box, report, keys)
        year = await reported(box, "2024-01-01", "2024-12-31", keys=keys, count_links=False)
        assert (year.unique, year.unique_is_exact, year.unique_from) == (year.total, False, "clicks")


async def test_months_that_contradict_the_days_do_not_guide(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All-time statistics under a wrong offset, and such that do not add up."""
    async with serve() as box, client(box) as session:
        keys = names(box, 40)
        collect = session.stats.collect
        spoil: list[Callable[[dict[int, dict[int, int]]], Any]] = [
            lambda months: months[2024].pop(max(months[2024])),
            lambda months: months.clear(),
        ]
        for change in spoil:

            async def spoiled(query: Any, change: Any = change, **options: Any) -> Any:
                answer = await collect(query, **options)
                change(answer.clicks_breakdown)
                return answer

            monkeypatch.setattr(session.stats, "collect", spoiled)
            check(box, await build(session, "2024-01-01", "2024-12-31", keys=keys, count_links=False), keys)


async def test_months_behind_the_days_are_asked_again_and_then_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.now(UTC)
    behind = 0
    async with Sandbox(urls=0, clicks=0, tags=0) as box, client(box) as session:
        for n in range(4):
            box.add_url(f"k{n}")
            box.add_click(f"k{n}", now, times=n)
            box.add_click(f"k{n}", now - timedelta(days=90), times=2)
        collect = session.stats.collect

        async def late(query: Any, **options: Any) -> Any:
            nonlocal behind
            answer = await collect(query, **options)
            if behind:
                behind -= 1
                gone = answer.clicks_breakdown[now.year].pop(now.month)
                return replace(answer, clicks_total=answer.clicks_total - gone)
            return answer

        monkeypatch.setattr(session.stats, "collect", late)
        start, end = now.date() - timedelta(days=100), now.date()
        spent: list[int] = []
        for answers in (0, 1, 2):
            behind = answers
            report = await build(session, start, end, count_links=False)
            check(box, report)
            spent.append(report.requests)
        assert spent[1] == spent[0] + 1
        assert behind == 0


async def test_months_that_contradict_themselves_late_do_not_guide_either(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as box, client(box) as session:
        collect = session.stats.collect
        answers = 0

        async def failing(query: Any, **options: Any) -> Any:
            nonlocal answers
            answers += 1
            answer = await collect(query, **options)
            return answer if answers == 1 else replace(answer, clicks_total=answer.clicks_total + 1)

        monkeypatch.setattr(session.stats, "collect", failing)
        keys = names(box, 12)
        check(box, await build(session, "2024-01-01", "2024-06-30", keys=keys), keys)
        assert answers > 1


async def test_months_that_know_nothing_of_clicks_are_found_out(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as box, client(box) as session:
        collect = session.stats.collect

        async def ignorant(query: Any, **options: Any) -> Any:
            answer = await collect(query, **options)
            return type(answer)()

        monkeypatch.setattr(session.stats, "collect", ignorant)
        keys = names(box, 30)
        check(box, await build(session, "2024-01-01", "2024-06-30", keys=keys, count_links=False), keys)


async def test_unique_clicks_of_a_year_are_exact_for_one_batch_and_bounded_for_more(serve: Serve) -> None:
    async with serve() as box:
        keys = names(box, 80)
        one = await reported(box, "2024-01-01", "2024-12-31", keys=keys, count_links=False)
        assert (one.unique, one.unique_is_exact) == (box.truth.year(2024, keys).clicks_unique, True)
        many = await reported(box, "2024-01-01", "2024-12-31", count_links=False)
        assert not many.unique_is_exact
        assert box.truth.year(2024).clicks_unique <= many.unique <= many.total
        month = await reported(box, "2024-02-01", "2024-02-29", count_links=False)
        assert (month.unique, month.unique_is_exact, month.unique_from) == (month.total, False, "clicks")


async def test_tags_select_the_links_that_bear_them(serve: Serve) -> None:
    async with serve() as box:
        tags = {tag.name: tag.id for tag in box.truth.tags()}
        chosen = list(tags)[:2]
        urls = box.truth.urls()
        keys = list(
            dict.fromkeys(url.slashtag for url in urls if url.tag_id in {tags[name] for name in chosen})
        )
        report = await reported(box, "2024-01-01", "2024-03-31", tags=[*chosen, chosen[0]])
        check(box, report, keys)
        assert report.selection == f"links tagged {chosen[0]}, {chosen[1]}"
        with pytest.raises(InvalidRequestError, match="no tag 'nope'"):
            await reported(box, "2024-01-01", "2024-03-31", tags=["nope"])
        none = await reported(box, "2024-01-01", "2024-03-31", tags=[])
        assert (none.links, none.total, none.selection) == (0, 0, "no links")


async def test_keys_may_be_slashtags_links_or_a_listing(serve: Serve) -> None:
    async with serve() as box, client(box) as session:
        urls: list[ShortUrl] = await session.urls.list().to_list()
        wanted = names(box, 20)

        async def some() -> AsyncIterator[ShortUrl]:
            for url in urls:
                if url.slashtag in wanted:
                    yield url

        for keys in (wanted, some(), [*wanted, *wanted]):
            report = await build(session, "2024-05-01", "2024-05-31", keys=keys)
            check(box, report, wanted)
            assert report.selection == "20 chosen links"
        one = await build(session, "2024-05-01", "2024-05-31", keys=wanted[:1], places=0)
        assert (one.selection, one.top) == ("1 chosen link", ())


async def test_it_costs_far_less_than_asking_for_each_link(serve: Serve) -> None:
    async with serve() as box:
        report = await reported(box, "2024-01-01", "2024-12-31", count_links=False)
        windows, batches = 12, 3
        assert report.requests < 2 * windows * batches + report.links
        counted = await reported(box, "2024-01-01", "2024-12-31")
        assert counted.requests < report.requests + report.links


async def test_progress_counts_requests_up_to_what_is_known(serve: Serve) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int | None) -> None:
        assert total is not None
        seen.append((done, total))

    async with serve() as box:
        await reported(box, "2024-01-01", "2024-12-31", count_links=False, progress=progress)
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert all(done <= total for done, total in seen)
    assert [total for _, total in seen] == sorted(total for _, total in seen)
    assert seen[-1][0] == seen[-1][1]


async def test_an_empty_account_has_a_report() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        report = await reported(box, "2024-01-01", "2024-12-31")
        check(box, report)
        assert (report.links, report.links_clicked, report.change, report.unique) == (0, 0, None, 0)
        assert len(report.stats.clicks) == 366
        assert "there are no links" in report.to_html()


async def test_what_the_listing_holds_besides_is_noted() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_tag("mail")
        box.add_url("a", tag="mail")
        box.add_url("a", domain_id=1)
        box.add_url("with,comma", tag="mail")
        box.add_click("a", "2024-02-02T00:00:00", times=3)
        report = await reported(box, "2024-02-01", "2024-02-29")
        assert (report.links, report.total) == (1, 3)
        assert [note.partition(":")[0] for note in report.notes] == [
            "Links that share their slashtag with another one, on another domain",
            "Links left out",
        ]
        tagged = await reported(box, "2024-02-01", "2024-02-29", tags=["mail"])
        assert [note.partition(".")[0] for note in tagged.notes] == [
            "Slashtags that a link without the tag bears too, on another domain: 1",
            "Links left out: 1",
        ]
        with pytest.raises(InvalidRequestError, match="comma"):
            await reported(box, "2024-02-01", "2024-02-29", keys=["a", "b,c"])


async def test_a_span_that_has_not_ended_says_so() -> None:
    today = datetime.now(UTC).date()
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        for n in range(5):
            box.add_url(f"k{n}")
            box.add_click(f"k{n}", datetime.now(UTC) - timedelta(days=40 * n), times=n + 1)
        report = await reported(box, str(today - timedelta(days=100)), str(today + timedelta(days=1)))
        check(box, report)
        assert not report.is_complete
        assert "had not ended" in report.to_html()


async def test_wrong_selectors_and_spans_are_refused_before_anything_is_asked(serve: Serve) -> None:
    async with serve() as box:
        wrong: list[tuple[type[Exception], dict[str, Any]]] = [
            (TypeError, {"keys": ["a"], "tags": ["b"]}),
            (TypeError, {"keys": "abc"}),
            (TypeError, {"tags": "abc"}),
            (InvalidRequestError, {"places": -1}),
            (InvalidRequestError, {"timezone": "Berlin"}),
        ]
        for error, options in wrong:
            with pytest.raises(error):
                await reported(box, "2024-01-01", "2024-01-31", **options)
        with pytest.raises(InvalidRequestError):
            await reported(box, "2024-02-01", "2024-01-31")
        assert box.requests == []


async def test_a_refused_request_is_raised_and_leaves_nothing_behind(serve: Serve) -> None:
    async with serve(unknown_keys="error") as box:
        with pytest.raises(BadRequestError):
            await reported(box, "2024-01-01", "2024-12-31", keys=["there is no such link"])


@pytest.mark.parametrize(
    ("timezone", "name"),
    [
        (None, "UTC"),
        ("+00:00", "UTC"),
        ("-03:30", "UTC-03:30"),
        (UTC, "UTC"),
        (ZoneInfo("Europe/London"), "Europe/London"),
        (ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
    ],
)
async def test_zones_have_names(timezone: Any, name: str) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        report = await reported(box, "2024-01-01", "2024-01-02", timezone=timezone)
        assert report.zone == name
        assert (report.start, report.end) == (date(2024, 1, 1), date(2024, 1, 2))


async def test_a_cancelled_report_ends(serve: Serve) -> None:
    async with serve(latency=0.05) as box, client(box) as session:
        task = asyncio.create_task(build(session, "2024-01-01", "2024-12-31"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
