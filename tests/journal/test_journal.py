"""A job that is run again asks only for what is missing and what may have changed; its answer is the same."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import AsyncSession, DateRange, Day, ShortUrl, Year
from slashtag._core.batches import Selector
from slashtag._core.call import Call
from slashtag._core.limits import SETTLING_SECONDS
from slashtag._journal import journal as _journal
from slashtag._journal.journal import Journal, had_ended
from slashtag._resources import stats as _stats
from slashtag._sending import sender as _sender
from slashtag.sandbox import Sandbox

from ..resources.accounts import client
from ..support.journals import committed
from ..support.sending import until

BASE = "http://127.0.0.1:1/api/v1/"
KEY = "journalapikey0123456789"
SPAN = DateRange("2023-01-01", "2023-12-31")
NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
ACCOUNT = {"urls": 73, "clicks": 1_500, "tags": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.journal"


def journal(path: Path, *, max_age: float = 3600.0) -> Journal:
    return Journal(path, BASE, KEY, max_age, print)


def call(name: object = "spring", **options: Any) -> Call[Any]:
    """A question about a time that has ended."""
    params, end, ids = (("tag", str(name)),), NOW - timedelta(days=1), ((1, 2),)
    asked = Call(method="GET", path="stats", params=params, returns=object, period_end=end, link_ids=ids)
    return replace(asked, **options)


async def fill(path: Path, *bodies: bytes, made: float | None = None) -> None:
    """Keep an answer a body, to the calls named 0, 1, 2 ..."""
    kept = journal(path)
    for n, body in enumerate(bodies):
        kept.keep(call(n), None, body, _journal.time.time() if made is None else made)
    await kept.aclose()


# --- what is replayed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "is_replayed"),
    [
        ({}, True),
        ({"again": True}, False),
        ({"link_ids": ()}, False),  # a tag whose links are not known
        ({"link_ids": ((1, 3),)}, False),
        ({"path": "stats/yearly"}, False),
        ({"params": (("tag", "1"),)}, False),
        ({"period_end": None}, False),
        ({"period_end": NOW - timedelta(seconds=SETTLING_SECONDS + 1)}, True),
        ({"period_end": NOW - timedelta(seconds=SETTLING_SECONDS - 1)}, False),
    ],
)
async def test_an_answer_is_replayed_to_the_same_request_about_a_period_that_was_over(
    path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], is_replayed: bool
) -> None:
    monkeypatch.setattr(_journal.time, "time", NOW.timestamp)
    await fill(path, b"body", made=NOW.timestamp())
    kept = journal(path)
    assert kept.replay(call(0, **asked)) == (b"body" if is_replayed else None)
    await kept.aclose()


@pytest.mark.parametrize(
    "left", [{"period_end": None}, {"link_ids": ()}, {"period_end": NOW}, {"made": None}]
)
async def test_what_may_not_be_replayed_is_not_kept(path: Path, left: dict[str, Any]) -> None:
    kept, made = journal(path), left.pop("made", NOW.timestamp())
    kept.keep(call(**left), None, b"body", made)
    await kept.aclose()
    assert committed(path) == set()


@pytest.mark.parametrize("max_age", [0, 3_600])
@pytest.mark.parametrize("age", [3_599, 3_601])
async def test_what_is_older_than_allowed_is_asked_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, age: int, max_age: int
) -> None:
    monkeypatch.setattr(_journal.time, "time", NOW.timestamp)
    await fill(path, b"body", made=NOW.timestamp() - age)
    kept = journal(path, max_age=max_age)
    assert (kept.replay(call(0)) is not None) == (age < max_age > 0)
    await kept.aclose()


async def test_a_second_answer_replaces_the_first(path: Path) -> None:
    await fill(path, b"first")
    kept = journal(path)
    assert kept.replay(call(0)) == b"first"
    for n in (0, 1):
        kept.keep(call(n, again=True), None, b"second", _journal.time.time())
    await until(lambda: len(committed(path)) == 2)
    # What this session was told is nothing of an earlier run.
    assert kept.replay(call(1)) is None
    await kept.aclose()
    kept = journal(path)
    assert kept.replay(call(0)) == b"second"
    await kept.aclose()


@given(st.integers(0, 400), st.integers(0, 400))
def test_exactly_the_windows_that_had_ended_hold(days: int, ago: int) -> None:
    end = NOW.date() - timedelta(days=ago)
    query = DateRange(end - timedelta(days=days), end)
    for piece in query._time_slices(UTC, NOW, "inclusive"):
        asked = query._call(Selector(tag="t"), piece)
        last = datetime.fromisoformat(dict(asked.params)["date_range"].split(",")[1])
        assert had_ended(asked, NOW.timestamp() + SETTLING_SECONDS + 1) == (last.date() < NOW.date())


# --- the order of links -------------------------------------------------------------------------------


class Text(str):
    """A text as numpy has it, whose type no format knows."""


slashtags = st.sampled_from(["a", Text("b"), "\ud800"])
names = st.lists(st.one_of(st.integers(1, 20), slashtags), unique=True, max_size=15)


@given(st.lists(names, max_size=5), names, names)
def test_links_keep_the_order_in_which_a_job_asked_about_them_first(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[Any]], last: list[Any], removed: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("order") / "job.journal"

    no_name: Any = ("a row of a database",)  # which is refused later

    async def run(asked: list[Any]) -> list[Any]:
        kept = journal(path)
        kept.order([no_name])
        found = kept.order(asked)
        kept.keep(call(), None, b"body", NOW.timestamp())
        await kept.aclose()
        return found

    expected = dict[Any, None]()
    for asked in [*runs, last]:
        expected = {**expected, **dict.fromkeys(asked)}
        found = asyncio.run(run(asked))
        assert found == [name for name in expected if name in asked]
    left = [name for name in last if name not in removed]
    assert asyncio.run(run(left[::-1])) == [name for name in expected if name in left]


# --- jobs ---------------------------------------------------------------------------------------------


async def sums(box: Sandbox, path: Path) -> tuple[Any, int]:
    """Run a job of one question; give its answer and how many requests it sent."""
    before = len(box.requests)
    async with client(box, journal=path) as job:
        answer = await job.stats.collect(SPAN, keys=job.urls.list(pagesize=20, prefetch=1))
        assert job.metrics.requests - job.metrics.replayed == len(box.requests) - before
    return answer, len(box.requests) - before


async def test_a_job_run_again_asks_only_which_links_there_are(box: Sandbox, path: Path) -> None:
    answer, requests = await sums(box, path)
    assert requests == 4 + 12
    assert await sums(box, path) == (answer, 4)
    assert answer.clicks == box.truth.range("2023-01-01", "2023-12-31").clicks


async def test_one_series_a_slashtag_is_replayed_with_all_that_it_asked(box: Sandbox, path: Path) -> None:
    """Also where other links have most hits meanwhile, by which they are sorted."""
    slashtags = sorted({url.slashtag for url in box.truth.urls()})
    tables = list[dict[str, Any]]()
    requests = list[int]()
    for sign in (1, -1):
        keys = [ShortUrl(id=n, slashtag=key, hits=100 + sign * n) for n, key in enumerate(slashtags)]
        async with client(box, journal=path) as job:
            tables.append({key: stats async for key, stats in job.stats.collect_each(SPAN, keys=keys)})
            requests.append(job.metrics.requests - job.metrics.replayed)
    truth = box.truth.per_key("2023-01-01", "2023-12-31")
    assert {key: stats.clicks for key, stats in tables[0].items()} == {k: t.clicks for k, t in truth.items()}
    assert tables[0] == tables[1]
    assert requests[0] > len(truth)
    assert requests[1] == 0


def rename(box: Sandbox, link: int, slashtag: str) -> None:
    box.store.write("UPDATE link SET slashtag = ? WHERE id = ?", (slashtag, link))


async def test_a_slashtag_that_one_of_its_links_has_lost_is_asked_again(path: Path) -> None:
    """Also where the job asks about the other link alone."""
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        ids = [box.add_url("sale", domain_id=n) for n in range(3)]
        for link in ids:
            box.add_click(link, datetime(2023, 5, 5, tzinfo=UTC))
        for total in (3, 2):
            async with client(box, journal=path) as job:
                links = [link for link in await job.urls.list().to_list() if link.id == ids[0]]
                assert (await job.stats.collect(SPAN, keys=links)).total == total
            rename(box, ids[1], "other")


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


@pytest.mark.parametrize("age", [0, 3_600])
@pytest.mark.parametrize(
    ("service", "machine"), [(9, 0), (30, 0), (-9, 0), (0, 9), (0, -9), (24 * 40, 0), (None, 9)]
)
async def test_a_day_is_over_by_the_earlier_of_both_clocks(
    path: Path, monkeypatch: pytest.MonkeyPatch, service: int | None, machine: int, age: int
) -> None:
    day = datetime(2026, 5, 10, tzinfo=UTC)
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        link = box.add_url("spring")
        for hour, total in ((20, 50), (36, 80)):
            now = day + timedelta(hours=hour)
            at, times = (9, 50) if hour == 20 else (22, 30)
            box.add_click(link, day + timedelta(hours=at), times=times)
            date = (now + timedelta(hours=service or 0)).timestamp()
            told = "not known" if service is None else formatdate(date, usegmt=True)
            box.headers = {"Date": told} | ({"Age": f"{age}"} if age else {})
            local = now + timedelta(hours=machine)
            monkeypatch.setattr(_journal, "time", SimpleNamespace(time=local.timestamp))
            monkeypatch.setattr(_sender, "time", local.timestamp)
            monkeypatch.setattr(_stats, "datetime", SimpleNamespace(now=lambda _, local=local: local))
            async with client(box, journal=path) as job:
                assert (await job.stats.collect(Day("2026-05-10"), keys=job.urls.list())).total == total


# --- its life -----------------------------------------------------------------------------------------


async def test_a_session_that_asked_nothing_leaves_no_journal(path: Path) -> None:
    await AsyncSession(BASE, apikey=KEY, apisecret="s" * 12, journal=path).aclose()
    assert list(path.parent.iterdir()) == []


async def test_closing_commits_what_is_left_and_ends_the_thread(path: Path) -> None:
    kept = journal(path)
    kept.keep(call(), None, b"body", NOW.timestamp())
    await kept.aclose()
    await kept.aclose()
    assert not [each for each in threading.enumerate() if "journal" in each.name]
    kept.keep(call("late"), None, b"body", NOW.timestamp())
    assert kept.replay(call()) is None
    assert len(committed(path)) == 1


async def test_cancelling_the_closing_leaves_the_file_closed(path: Path) -> None:
    kept = journal(path)
    kept.keep(call(), None, b"body", NOW.timestamp())
    task = asyncio.create_task(kept.aclose())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(committed(path)) == 1
    await fill(path)  # nobody has it open
