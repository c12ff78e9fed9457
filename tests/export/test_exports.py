"""What is exported is the account, row by row."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from slashtag import (
    AsyncSession,
    BadRequestError,
    DateRange,
    Day,
    ExportError,
    Failure,
    InvalidRequestError,
    ShortUrl,
)
from slashtag.export import (
    NAMED_URLS,
    TAGS,
    URLS,
    Row,
    Table,
    clicks_table,
    dimensions_table,
    export_clicks,
    export_tags,
    export_urls,
)
from slashtag.sandbox import Fault, Sandbox
from tests.resources.accounts import scripted
from tests.support import wire
from tests.support.sending import connect

START, END = "2023-01-01", "2023-04-30"
SPAN = DateRange(START, END)


class Kept:
    """A writer that keeps the rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.threads: set[str] = set()

    def write(self, rows: Iterable[Row], /) -> None:
        self.threads.add(threading.current_thread().name)
        self.rows += rows

    def close(self) -> None:
        raise AssertionError("the writer is its owner's to close")

    abandon = close


ACCOUNT = {"urls": 60, "clicks": 2_500, "tags": 4}


@pytest.fixture
def kept() -> Kept:
    return Kept()


def columns(table: Table, rows: Iterable[Row], *names: str) -> list[tuple[Any, ...]]:
    places = [table.names.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in rows]


def slashtags(box: Sandbox, tag: str | None = None) -> list[str]:
    ids = {one.name: one.id for one in box.truth.tags()}
    chosen = [url for url in box.truth.urls() if tag is None or url.tag_id == ids[tag]]
    return list(dict.fromkeys(url.slashtag for url in chosen))


def by_hits(box: Sandbox, tag: str | None = None) -> list[str]:
    """The slashtags of listed links as an export has them: the one with most hits first."""
    names = slashtags(box, tag)
    hits = {url.slashtag: -url.hits for url in reversed(box.truth.urls())}
    return sorted(names, key=lambda name: hits[name])


def days(box: Sandbox, names: Iterable[str]) -> list[Row]:
    """The rows of links, in their order, counted from the log."""
    truth = box.truth.per_key(START, END)
    return [(name, day, clicks) for name in names for day, clicks in truth[name].clicks.items()]


def without_tag(box: Sandbox) -> list[Row]:
    """The rows of links without a tag: what all tags leave of the clicks of the account."""
    left = Counter(box.truth.range(START, END).clicks)
    for tag in box.truth.tags():
        left.subtract(box.truth.range(START, END, tag=tag.name).clicks)
    return [("no tag", day, clicks) for day, clicks in left.items()]


def labels(true: Any, *of: str) -> list[Row]:
    """The rows of one sum, in no order."""
    window = (date.fromisoformat(START), date.fromisoformat(END))
    return [
        (*of, *window, dimension, label, clicks)
        for dimension in ("device", "browser", "platform", "country", "referrer")
        for label, clicks in getattr(true, dimension).items()
    ]


async def _stream(names: Iterable[str]) -> AsyncIterator[str]:
    for name in names:
        yield name


# --- links and tags -----------------------------------------------------------------------------------


async def test_every_link_is_a_row_in_order(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    summary = await export_urls(session, kept)
    assert columns(URLS, kept.rows, "id", "slashtag", "destination", "hits", "tag_id", "redirect_code") == [
        (url.id, url.slashtag, url.destination, url.hits, url.tag_id, url.redirect_code)
        for url in box.truth.urls()
    ]
    assert columns(URLS, kept.rows, "created_at", "short_url") == [
        (datetime.fromisoformat(url.created_at), url.short_url) for url in box.truth.urls()
    ]
    assert (summary.rows, summary.reconciles) == (60, True)


async def test_links_bear_the_names_of_tags_that_are_known(
    box: Sandbox, session: AsyncSession, kept: Kept
) -> None:
    box.store.insert("DELETE FROM tag WHERE name = ?", [(box.truth.tags()[0].name,)])
    await export_urls(session, kept)
    names = {tag.id: tag.name for tag in box.truth.tags()}
    expected = [(url.slashtag, url.tag_id, names.get(url.tag_id or 0)) for url in box.truth.urls()]
    assert columns(NAMED_URLS, kept.rows, "slashtag", "tag_id", "tag_name") == expected
    assert {name for _, tag, name in expected if tag} == {None, *names.values()}


async def test_every_tag_is_a_row_in_order(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    told: list[Any] = []
    summary = await export_tags(session, kept, progress=lambda *at: told.append(at))
    assert kept.rows == [
        (tag.id, tag.name, tag.description, datetime.fromisoformat(tag.created_at))
        for tag in box.truth.tags()
    ]
    assert len(TAGS.names) == len(kept.rows[0])
    assert (summary.rows, told) == (4, [(4, None)])


# --- clicks -------------------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("given", ["nothing", "list", "links", "stream"])
async def test_every_slashtag_has_a_row_a_day_in_the_order_of_the_keys(
    box: Sandbox, session: AsyncSession, kept: Kept, given: str
) -> None:
    names = by_hits(box) if given == "nothing" else slashtags(box)[30:10:-1]
    keys: Any = None
    if given == "list":
        keys = names
    elif given == "links":
        keys = [ShortUrl(id=n, slashtag=name) for n, name in enumerate(names)]
    elif given == "stream":
        keys = _stream(names)
    summary = await export_clicks(session, SPAN, kept, keys=keys)
    assert kept.rows == days(box, names)
    assert summary.rows == len(names) * 120
    assert len(clicks_table("slashtag").names) == len(kept.rows[0])


async def test_the_links_of_a_tag_have_a_row_a_day(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    tag = box.truth.tags()[1].name
    await export_clicks(session, SPAN, kept, tags=[tag])
    assert 0 < len(slashtags(box, tag)) < len(slashtags(box))
    assert kept.rows == days(box, by_hits(box, tag))


@pytest.mark.parametrize("given", [False, True])
async def test_every_tag_has_a_row_a_day(
    box: Sandbox, session: AsyncSession, kept: Kept, given: bool
) -> None:
    names = [tag.name for tag in box.truth.tags()]
    names = names[2:0:-1] if given else names
    await export_clicks(session, SPAN, kept, by="tag", tags=names if given else None)
    assert kept.rows == [
        (name, day, clicks)
        for name in names
        for day, clicks in box.truth.range(START, END, tag=name).clicks.items()
    ] + ([] if given else without_tag(box))


async def test_given_tags_are_replayed_if_their_links_are_the_same(box: Sandbox, tmp_path: Path) -> None:
    names = [tag.name for tag in box.truth.tags()][:2]
    journal = tmp_path / "job.journal"
    sent = []
    for n in range(3):
        kept = Kept()
        box.requests.clear()
        async with connect(box, journal=journal) as session:
            await export_clicks(session, SPAN, cast("Any", kept), by="tag", tags=names)
        assert kept.rows == [
            (name, day, clicks)
            for name in names
            for day, clicks in box.truth.range(START, END, tag=name).clicks.items()
        ]
        sent.append(sum("stats" in arrival.path for arrival in box.requests))
        if n == 1:  # a link that has clicks gets the other tag
            one, other = (tag.id for tag in box.truth.tags()[:2])
            link = max((url for url in box.truth.urls() if url.tag_id == one), key=lambda url: url.hits)
            box.store.write("UPDATE link SET tag_id = ? WHERE id = ?", (other, link.id))
    assert sent[0] == sent[2] > sent[1] == 0


async def test_dimensions_have_a_row_a_label_with_the_window_asked_for(
    box: Sandbox, session: AsyncSession, kept: Kept
) -> None:
    names = slashtags(box)[:15]
    await export_clicks(session, SPAN, kept, keys=names, dimensions=True)
    truth = box.truth.per_key(START, END, keys=names)
    assert sorted(kept.rows) == sorted(row for name in names for row in labels(truth[name], name))
    assert list(dict.fromkeys(row[0] for row in kept.rows)) == [
        name for name in names if truth[name].total_clicks
    ]
    assert len(dimensions_table("slashtag").names) == len(kept.rows[0])


@pytest.mark.unmeasured
@pytest.mark.parametrize("dimensions", [False, True])
@pytest.mark.parametrize("select", ["all", "tag", "slashtags", "links"])
async def test_rows_say_of_which_link_they_are(
    box: Sandbox, session: AsyncSession, kept: Kept, select: str, dimensions: bool
) -> None:
    names = {tag.id: tag.name for tag in box.truth.tags()}
    links: dict[str, list[Any]] = {}
    for url in box.truth.urls():
        links.setdefault(url.slashtag, []).append(url)
    some = slashtags(box)[:5]
    keys = {"slashtags": some, "links": [url async for url in session.urls.list() if url.slashtag in some]}
    chosen = {"tags": [names[min(names)]]} if select == "tag" else {"keys": keys.get(select)}
    more = ("tag", "short_url", "destination")
    options: dict[str, Any] = {"dimensions": dimensions, **chosen}
    await export_clicks(session, SPAN, kept, columns=more, **options)
    plain = Kept()
    await export_clicks(session, SPAN, plain, **options)
    assert [(row[0], *row[4:]) for row in kept.rows] == plain.rows
    for slashtag, tag, short_url, destination, *_ in kept.rows:
        of = links[slashtag]
        if len(of) == 1:
            assert (tag, short_url, destination) == (
                names.get(of[0].tag_id),
                of[0].short_url,
                of[0].destination,
            )
        else:
            assert {short_url} <= {url.short_url for url in of} | {", ".join(url.short_url for url in of)}
    assert clicks_table("slashtag", more).names == ("slashtag", *more, "date", "clicks")


@pytest.mark.parametrize(
    "wrong", [{"columns": ["tga"]}, {"columns": ["tag", "tag"]}, {"columns": ["tag"], "by": "tag"}]
)
async def test_other_columns_are_refused_before_anything_is_sent(
    box: Sandbox, session: AsyncSession, kept: Kept, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequestError):
        await export_clicks(session, SPAN, kept, **wrong)
    assert box.requests == []


async def test_one_day_and_a_timezone_count_local_days(
    box: Sandbox, session: AsyncSession, kept: Kept
) -> None:
    tag = box.truth.tags()[0].name
    await export_clicks(session, Day("2023-02-03"), kept, by="tag", tags=[tag], timezone="+09:00")
    true = box.truth.range("2023-02-03", "2023-02-03", timezone="+09:00", tag=tag)
    assert kept.rows == [(tag, date(2023, 2, 3), true.total_clicks)]


@pytest.mark.parametrize("dimensions", [False, True])
async def test_a_range_that_is_not_over_ends_today(
    box: Sandbox, session: AsyncSession, kept: Kept, dimensions: bool
) -> None:
    today = datetime.now(UTC).date()
    start, end = today - timedelta(days=2), today + timedelta(days=400)
    box.add_click(slashtags(box)[0], datetime.now(UTC), device="Desktop")
    await export_clicks(session, DateRange(start, end), kept, timezone="+00:00", dimensions=dimensions)
    assert {row[2 if dimensions else 1] for row in kept.rows} <= {start, start + timedelta(1), today}
    assert sum(cast("int", row[-1]) for row in kept.rows if not dimensions or row[3] == "device") == 1
    for nothing in (DateRange(today + timedelta(2), end), Day(end)):
        with pytest.raises(InvalidRequestError, match="after today"):
            await export_clicks(session, nothing, kept)


async def test_no_keys_make_no_rows(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    summary = await export_clicks(session, SPAN, kept, keys=[])
    assert (summary.rows, kept.rows, box.requests) == (0, [], [])


@pytest.mark.parametrize(
    "options",
    [
        {"keys": ["a"], "tags": ["b"]},
        {"keys": ["a"], "by": "tag"},
        {"by": "country"},
        {"tags": "spring"},
        {"keys": "spring"},
    ],
)
async def test_a_wrong_selector_is_a_type_error(
    box: Sandbox, session: AsyncSession, kept: Kept, options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        await export_clicks(session, SPAN, kept, **options)
    assert (kept.rows, box.requests) == ([], [])


async def test_the_links_of_an_unknown_tag_are_an_error(session: AsyncSession, kept: Kept) -> None:
    with pytest.raises(InvalidRequestError, match="has no tag 'nobody'"):
        await export_clicks(session, SPAN, kept, tags=["nobody"])


# --- what came of it ----------------------------------------------------------------------------------


async def test_failures_of_single_keys_are_told_counted_and_left_out(
    session: AsyncSession, box: Sandbox, kept: Kept
) -> None:
    failures: list[Failure] = []
    names = slashtags(box)[:6]
    await export_clicks(
        session, SPAN, kept, keys=_stream([*names[:3], "a,b", *names[3:]]), on_error=failures.append
    )
    assert kept.rows == days(box, names)
    assert [failure.keys for failure in failures] == [("a,b",)]


async def test_without_on_error_a_failure_is_raised(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    box.faults = [Fault(kind="400", path="/api/v1/stats*")]
    with pytest.raises(BadRequestError):
        await export_clicks(session, SPAN, kept, keys=slashtags(box)[:6])


async def test_days_that_do_not_add_up_show_in_the_summary(kept: Kept) -> None:
    async with scripted(wire.ok({"total_clicks": 3, "clicks": {"2023-01-01": 1}})) as (_, session):
        summary = await export_clicks(session, DateRange("2023-01-01", "2023-01-05"), kept, keys=["a"])
    assert not summary.reconciles


@pytest.mark.unmeasured
async def test_rows_are_written_off_the_event_loop(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    await export_clicks(session, SPAN, kept)
    assert threading.current_thread().name not in kept.threads


@pytest.mark.unmeasured
async def test_an_error_of_the_writer_ends_the_export(session: AsyncSession) -> None:
    class Full(Kept):
        def write(self, rows: Iterable[Row], /) -> None:
            raise ExportError("no room")

    with pytest.raises(ExportError, match="no room"):
        await export_clicks(session, SPAN, Full())


async def test_cancelling_waits_for_the_rows_that_are_being_written(session: AsyncSession) -> None:
    writing, go_on = threading.Event(), threading.Event()
    done: list[bool] = []

    class Slow(Kept):
        def write(self, rows: Iterable[Row], /) -> None:
            writing.set()
            done.append(go_on.wait(10))
            raise ExportError("too late")

    export = asyncio.create_task(export_urls(session, Slow()))
    await asyncio.to_thread(writing.wait, 10)
    for _ in range(2):
        export.cancel()
        await asyncio.sleep(0.01)
    assert not export.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await export
    assert done == [True]
