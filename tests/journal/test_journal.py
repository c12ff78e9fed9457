"""A job that is run again asks only for what is missing, and its answer is the same."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slashtag import AsyncSession, DateRange, Day, SessionClosedError, ShortUrl, Year
from slashtag._core.call import Call
from slashtag._errors import JournalError
from slashtag._journal import journal as _journal
from slashtag._journal.journal import Journal
from slashtag._resources import stats as _stats
from slashtag._sending import sender as _sender
from slashtag.sandbox import Sandbox

from ..resources.accounts import client, page_of
from ..support import wire
from ..support.journals import committed
from ..support.sending import until

BASE = "http://127.0.0.1:1/api/v1/"
KEY = "journalapikey0123456789"
SPAN = DateRange("2023-01-01", "2023-12-31")


ACCOUNT = {"urls": 73, "clicks": 1_500, "tags": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.journal"


def journal(path: Path, *, max_age: float = 3600.0) -> Journal:
    return Journal(path, BASE, KEY, max_age)


def call(name: object = "spring") -> Call[Any]:
    """A question about a time that has ended."""
    params, ids = (("tag", str(name)),), ((1, 2),)
    return Call(method="GET", path="stats", params=params, returns=object, replayable=True, link_ids=ids)


def body_of(kept: Journal, call: Call[Any]) -> bytes | None:
    found = kept.find(call)
    return found and found.body


async def fill(path: Path, *bodies: bytes) -> None:
    """Keep an answer a body, to the calls named 0, 1, 2 ..."""
    kept = journal(path)
    kept.open()
    for n, body in enumerate(bodies):
        kept.keep(call(n), None, body)
    await kept.aclose()


# --- what is asked again ------------------------------------------------------------------------------


async def asked(box: Sandbox, path: Path, query: Any, **options: Any) -> tuple[Any, int]:
    """Run a job of one question; give its answer and how many requests it sent."""
    before = len(box.requests)
    async with client(box, journal=path, **options) as job:
        answer = await job.stats.collect(query, keys=job.urls.list(pagesize=20, prefetch=1))
        assert job.metrics.requests - job.metrics.replayed == len(box.requests) - before
    return answer, len(box.requests) - before


async def test_a_job_run_again_asks_only_which_links_there_are(box: Sandbox, path: Path) -> None:
    answer, requests = await asked(box, path, SPAN)
    assert requests == 4 + 12
    assert await asked(box, path, SPAN) == (answer, 4)
    assert answer.clicks == box.truth.range("2023-01-01", "2023-12-31").clicks


@pytest.mark.unmeasured
@pytest.mark.parametrize(("before", "after"), [(20, 8), (20, 10), (8, 20)])
async def test_a_job_goes_on_where_the_service_has_changed_its_page_size(
    path: Path, before: int, after: int
) -> None:
    size = before

    def answer(request: wire.Request) -> wire.Answer:
        page = int(request.query["page"][0])
        return page_of(page, range(203)[(page - 1) * size : page * size], size)

    async def ids(most: int = 1_000) -> list[int]:
        async with client(server, journal=path) as job:
            return [url.id for url in await job.urls.list(pagesize=20, prefetch=2).to_list(most)]

    async with wire.Wire(answer) as server:
        assert await ids(most=100) == list(range(100))
        size = after
        for _ in range(3):
            server.requests.clear()
            assert await ids() == list(range(203))
        # What the interrupted run read is not requested again.
        assert len(server.requests) <= 203 // after + 6


@pytest.mark.unmeasured
async def test_one_series_a_slashtag_replays_its_guides_too(box: Sandbox, path: Path) -> None:
    keys = [url.slashtag for url in box.truth.urls()]
    tables: list[dict[str, Any]] = []
    requests: list[int] = []
    for _ in range(2):
        async with client(box, journal=path) as job:
            tables.append({key: stats async for key, stats in job.stats.collect_each(SPAN, keys=keys)})
            requests.append(job.metrics.requests - job.metrics.replayed)
    truth = box.truth.per_key("2023-01-01", "2023-12-31")
    assert {key: stats.clicks for key, stats in tables[0].items()} == {k: t.clicks for k, t in truth.items()}
    assert tables[0] == tables[1]
    assert requests[0] > len(truth)
    assert requests[1] == 0


async def test_a_guide_from_before_a_month_had_ended_does_not_leave_that_month_out(
    box: Sandbox, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = box.truth.urls()[0].slashtag
    for today in (datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 5, 1, 12, tzinfo=UTC)):
        monkeypatch.setattr(_journal.time, "time", today.timestamp)
        monkeypatch.setattr(_stats, "datetime", SimpleNamespace(now=lambda _, today=today: today))
        async with client(box, journal=path, journal_max_age=1e9) as job:
            each = job.stats.collect_each(DateRange("2025-06-01", today.date()), keys=[key])
            (told,) = [stats async for _, stats in each]
        true = box.truth.range("2025-06-01", today.date(), keys=[key])
        assert told.clicks == true.clicks
        box.add_click(key, datetime(2026, 2, 10, tzinfo=UTC), times=7)


async def test_what_this_session_fetched_itself_is_not_replayed(box: Sandbox, path: Path) -> None:
    async with client(box, journal=path) as job:
        for n in (1, 2):
            await job.stats.collect(Day("2023-05-05"), keys=["spring"])
            await until(lambda: committed(path), 60)
            assert len(box.requests) == n
        assert job.metrics.replayed == 0


@pytest.mark.parametrize(("seconds", "replayed"), [(3_599, True), (3_601, False), (-10, True)])
async def test_what_is_too_old_is_asked_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, replayed: bool
) -> None:
    now = time.time()
    monkeypatch.setattr(_journal.time, "time", lambda: now)
    await fill(path, b"body")
    now += seconds
    kept = journal(path)
    kept.open()
    assert (body_of(kept, call(0)) is not None) == replayed
    await kept.aclose()


async def test_the_second_answer_replaces_one_that_contradicted_itself(path: Path) -> None:
    wrong, right = (
        wire.ok(
            {"total_clicks": 3, "clicks": {f"2024-01-0{day}": 1, f"2024-01-0{day + 1}": 2}},
            [("Date", formatdate(usegmt=True))],
        )
        for day in (3, 1)
    )
    span = DateRange("2024-01-01", "2024-01-02")
    async with wire.Wire([wrong, right]) as server:
        for _ in range(2):
            async with client(server, journal=path) as job:
                assert (await job.stats.collect(span, keys=["spring"])).reconciles
        assert len(server.requests) == 2


async def test_a_listing_that_changed_is_whole_though_the_run_that_noticed_was_stopped(
    box: Sandbox, path: Path
) -> None:
    async with client(box, journal=path) as job:
        await job.urls.list(pagesize=10).to_list()
    box.remove_url(box.truth.urls()[15].id)
    async with client(box, journal=path) as job:
        async for _ in job.urls.list(pagesize=10, prefetch=1).pages():
            break
    async with client(box, journal=path) as job:
        assert [url.id for url in await job.urls.list(pagesize=10).to_list()] == [
            url.id for url in box.truth.urls()
        ]


# --- which links an answer is about -------------------------------------------------------------------


def rename(box: Sandbox, link: int, slashtag: str) -> None:
    box.store.write("UPDATE link SET slashtag = ? WHERE id = ?", (slashtag, link))


@pytest.mark.unmeasured
@pytest.mark.parametrize("links", [2, 3, 20])
async def test_links_that_exchange_their_slashtags_are_asked_again(
    box: Sandbox, path: Path, links: int
) -> None:
    changed = [link for link in box.truth.urls() if link.domain_id == 0][:links]
    slashtags = [link.slashtag for link in changed]
    for renamed in (False, True):
        if renamed:
            for link in changed:
                rename(box, link.id, f"{link.id}")
            for link, other in zip(changed, slashtags[1:] + slashtags[:1], strict=True):
                rename(box, link.id, other)
        async with client(box, journal=path) as job:
            found = await job.urls.find(slashtags)
            keys = [link for link in found.values() if link is not None]
            table = await job.stats.collect_each(SPAN, keys=keys, inferred=False, ordered=True).to_dict()
        true = box.truth.per_key("2023-01-01", "2023-12-31")
        assert [table[key].clicks for key in slashtags] == [true[key].clicks for key in slashtags]


async def test_a_slashtag_that_one_of_its_links_has_lost_is_asked_again(path: Path) -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        kept, other = box.add_url("sale"), box.add_url("sale", domain_id=1)
        for link in (kept, other):
            box.add_click(link, datetime(2023, 5, 5, tzinfo=UTC))
        for total in (2, 1):
            async with client(box, journal=path) as job:
                table = await job.stats.collect_each(SPAN, keys=job.urls.list(), inferred=False).to_dict()
                assert table["sale"].total == total
            rename(box, other, "other")


async def test_an_answer_about_a_tag_is_replayed_only_if_its_links_are_known_to_be_the_same(
    box: Sandbox, path: Path
) -> None:
    names = {tag.id: tag.name for tag in box.truth.tags()}

    async def tags(job: AsyncSession) -> dict[str, list[ShortUrl]]:
        links = await job.urls.list().to_list()
        return {name: [link for link in links if link.tag_id == tag] for tag, name in names.items()}

    async def sent(*, known: bool) -> int:
        before = len(box.requests)
        async with client(box, journal=path) as job:
            of = await tags(job) if known else list(names.values())
            table = await job.stats.collect_each(Year(2023), tags=of).to_dict()
        true = {name: box.truth.year(2023, tag=name).clicks_total for name in names.values()}
        assert {name: stats.clicks_total for name, stats in table.items()} == true
        return sum("stats" in each.path for each in list(box.requests)[before:])

    assert [await sent(known=False) for _ in range(2)] == [3, 3]
    assert [await sent(known=True) for _ in range(2)] == [3, 0]
    one, two, _ = names
    link = next(link for link in box.truth.urls() if link.tag_id == one)
    box.store.write("UPDATE link SET tag_id = ? WHERE id = ?", (two, link.id))
    assert await sent(known=True) == 2


async def test_statistics_of_links_from_an_old_list_are_refused_if_that_has_changed(
    box: Sandbox, path: Path
) -> None:
    async def run() -> int:
        async with client(box, journal=path) as job:
            links = await job.urls.list(pagesize=10).to_list()
            return (await job.stats.collect(SPAN, keys=links)).total

    async with client(box, journal=path) as job:
        await job.urls.list(pagesize=10).to_list()
    rename(box, box.truth.urls()[3].id, "renamed")
    with pytest.raises(JournalError, match="have changed"):
        await run()
    keys = [link.slashtag for link in box.truth.urls()]
    assert await run() == box.truth.range("2023-01-01", "2023-12-31", keys=keys).total_clicks
    assert await run() == box.truth.range("2023-01-01", "2023-12-31", keys=keys).total_clicks


# --- clocks -------------------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("age", [0, 3_600])
@pytest.mark.parametrize(("service", "machine"), [(9, 0), (30, 0), (-9, 0), (0, 9), (0, -9), (24 * 40, 0)])
async def test_a_day_is_over_by_the_earlier_of_both_clocks(
    path: Path, monkeypatch: pytest.MonkeyPatch, service: int, machine: int, age: int
) -> None:
    day = datetime(2026, 5, 10, tzinfo=UTC)
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        link = box.add_url("spring")
        for hour, total in ((20, 50), (36, 80)):
            now = day + timedelta(hours=hour)
            at, times = (9, 50) if hour == 20 else (22, 30)
            box.add_click(link, day + timedelta(hours=at), times=times)
            date = (now + timedelta(hours=service)).timestamp()
            box.headers = {"Date": formatdate(date, usegmt=True)} | ({"Age": f"{age}"} if age else {})
            local = now + timedelta(hours=machine)
            monkeypatch.setattr(_journal, "time", SimpleNamespace(time=local.timestamp))
            monkeypatch.setattr(_sender, "time", local.timestamp)
            monkeypatch.setattr(_stats, "datetime", SimpleNamespace(now=lambda _, local=local: local))
            async with client(box, journal=path) as job:
                assert (await job.stats.collect(Day("2026-05-10"), keys=job.urls.list())).total == total


def test_a_clock_that_was_set_back_does_not_make_old_answers_young(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()

    async def run() -> None:
        monkeypatch.setattr(_journal.time, "time", lambda: now)
        await fill(path, b"body")
        # Two hours later this machine's clock is a month behind, and the service's is right.
        monkeypatch.setattr(_journal.time, "time", lambda: now - 2_600_000)
        kept = journal(path)
        kept.open()
        kept.keep(call("other"), None, b"body", now - 2_600_000, now + 7_200)
        assert body_of(kept, call(0)) is None
        await kept.aclose()

    asyncio.run(run())


# --- the event loop -----------------------------------------------------------------------------------


@pytest.mark.unmeasured
async def test_others_have_their_turn_while_a_job_is_replayed(box: Sandbox, path: Path) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    tags = {tag.name: list[ShortUrl]() for tag in box.truth.tags()}
    for _ in range(2):
        async with client(box, journal=path) as job:
            turning = asyncio.create_task(other())
            await asyncio.sleep(0)
            turns = 0
            await job.stats.collect(DateRange("2022-01-01", "2025-12-31"), tags=tags)
            turning.cancel()
    assert job.metrics.replayed == len(box.requests) > 100
    # All workers had one each meanwhile.
    assert turns >= job.metrics.replayed // 32


# --- its life -----------------------------------------------------------------------------------------


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("slashtag-journal")]


async def test_a_session_that_is_left_without_use_leaves_no_journal(box: Sandbox, path: Path) -> None:
    await client(box, journal=path).aclose()
    assert not path.exists()
    for _ in range(2):
        async with client(box, journal=path):
            pass
        assert threads() == []
        assert list(path.parent.iterdir()) == []
    async with client(box, journal=path) as job:
        assert job.metrics.replayed == 0


async def test_a_session_without_a_with_block_opens_it_at_first_use(box: Sandbox, path: Path) -> None:
    for requests in (1, 1):
        job = client(box, journal=path)
        await job.stats.collect(Day("2023-05-05"), keys=["spring"])
        await job.aclose()
        assert len(box.requests) == requests


async def test_closing_commits_what_is_left_and_ends_the_thread(path: Path) -> None:
    kept = journal(path)
    kept.open()
    kept.open()
    kept.keep(call(), None, b"body")
    assert len(threads()) == 1
    await kept.aclose()
    await kept.aclose()
    assert threads() == []
    kept.keep(call("late"), None, b"body")
    assert body_of(kept, call()) is None
    assert b"body" in path.read_bytes()


@pytest.mark.parametrize("ending", ["__aenter__", "aclose"])
async def test_cancelling_the_opening_or_the_closing_leaves_the_file_closed(path: Path, ending: str) -> None:
    job = AsyncSession(BASE, apikey=KEY, apisecret="s" * 12, journal=path)
    kept = journal_of(job)
    if ending == "aclose":
        kept.open()
        kept.keep(call(), None, b"body")
    task = asyncio.create_task(getattr(job, ending)())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept._file.main is None
    assert threads() == []
    other = journal(path)
    other.open()
    assert body_of(other, call()) == (b"body" if ending == "aclose" else None)
    await other.aclose()


async def test_a_session_closed_while_its_journal_opens_leaves_it_to_the_next(
    box: Sandbox, path: Path
) -> None:
    job = client(box, journal=path)
    asking = asyncio.create_task(job.tags.page())
    await asyncio.sleep(0)
    await job.aclose()
    with pytest.raises(SessionClosedError):
        await asking
    assert not box.requests
    async with client(box, journal=path) as after:
        await after.tags.page()
    assert threads() == []


def journal_of(job: AsyncSession) -> Journal:
    kept = job._journal
    assert isinstance(kept, Journal)
    return kept


async def test_once_the_journal_cannot_be_written_nothing_is_sent(box: Sandbox, path: Path) -> None:
    async with client(box, journal=path) as job:
        kept = journal_of(job)
        kept.keep(call("spring"), None, [])  # type: ignore[arg-type]
        await until(lambda: kept._failure is not None)
        link = box.truth.urls()[0]
        for work in (job.urls.update(link.id, redirect_code=308), job.tags.create("late"), job.tags.page()):
            with pytest.raises(JournalError, match="cannot be written"):
                await work
    assert len(box.requests) == 0


async def test_a_change_that_was_made_is_told_as_made_whatever_became_of_the_journal(
    box: Sandbox, path: Path
) -> None:
    async with client(box, journal=path) as job:
        await job.tags.page()
        box.latency = 0.1
        box.requests.clear()
        task = asyncio.create_task(job.urls.update(box.truth.urls()[0].id, redirect_code=308))
        await until(lambda: box.requests)
        journal_of(job)._failure = "the disk is full"
        assert await task == 1
        journal_of(job)._failure = None
