"""What is exported is the account, row by row, as the log of its clicks has them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slashtag import (
    AsyncSession,
    BadRequestError,
    DateRange,
    Failure,
    InvalidRequestError,
    ServerError,
    ShortUrl,
    parse_zone,
)
from slashtag.export import (
    NAMED_URLS,
    TAGS,
    begins_anew,
    clicks_table,
    export_clicks,
    export_tags,
    export_urls,
)
from slashtag.sandbox import Fault, Sandbox
from slashtag.tables import About, Row, Writer
from tests.resources.accounts import scripted
from tests.support import wire
from tests.support.sandboxes import refused_tag
from tests.support.sending import connect

START, END = "2024-01-01", "2024-03-31"
SPAN = DateRange(START, END)
ACCOUNT = {"urls": 60, "clicks": 2_500, "tags": 4, "since": "2023-12-01", "until": "2024-05-01"}


class Kept(Writer):
    """A writer that keeps the rows."""

    def __init__(self) -> None:
        self.rows = list[Row]()
        self.threads = set[str]()
        self.about: About | None = None

    def write(self, rows: Iterable[Row], /) -> None:
        self.threads.add(threading.current_thread().name)
        self.rows += rows

    def close(self) -> None:
        raise AssertionError("the writer is its owner's to close")


@pytest.fixture
def kept() -> Kept:
    return Kept()


def share(box: Sandbox) -> None:
    """Add slashtags of links with one tag, two, one and none, and none."""
    one, other = (tag.name for tag in box.truth.tags()[:2])
    places = {"same": (one, one), "two": (one, other), "mixed": (one, None), "more": (None, other)}
    for n, (slashtag, tags) in enumerate((places | {"none": (None, None)}).items(), 1):
        for domain, tag in enumerate(tags):
            link = box.add_url(slashtag, domain_id=domain, tag=tag, destination=f"https://x.example/{domain}")
            box.add_click(link, f"2024-02-{n:02}T10:00:00", times=n + 10 * domain, country="SE")


def links_of(box: Sandbox) -> dict[str, list[Any]]:
    found = dict[str, list[Any]]()
    for url in box.truth.urls():
        found.setdefault(url.slashtag, []).append(url)
    return found


def cells(slashtag: str, links: list[Any], names: dict[int, str]) -> Row:
    """What a row says of its links."""
    destinations = ", ".join(dict.fromkeys(url.destination for url in links))
    tags = ", ".join(dict.fromkeys(names[url.tag_id] for url in links if url.tag_id))
    return slashtag, links[0].id if len(links) == 1 else None, destinations, tags or None


def counts(true: Any, dimensions: bool) -> list[tuple[Any, ...]]:
    if not dimensions:
        return [*true.clicks.items()]
    names = ("device", "browser", "platform", "country", "referrer")
    of = [(name, label, n) for name in names for label, n in getattr(true, name).items()]
    return [(date.fromisoformat(START), date.fromisoformat(END), *row) for row in of]


async def test_every_link_and_every_tag_is_a_row_in_order(
    box: Sandbox, session: AsyncSession, kept: Kept
) -> None:
    names, told = {tag.id: tag.name for tag in box.truth.tags()}, list[Any]()
    assert (await export_urls(session, kept, progress=lambda *at: told.append(at))).rows == 60
    assert kept.rows == [
        (
            *(url.id, url.slashtag, url.short_url, url.destination, url.hits, url.redirect_code, url.tag_id),
            *(at and datetime.fromisoformat(at) for at in (url.created_at, url.updated_at)),
            names.get(url.tag_id or 0),
        )
        for url in box.truth.urls()
    ]
    assert (len(NAMED_URLS.names), told[-1]) == (len(kept.rows[0]), (60, None))
    assert threading.main_thread().name not in kept.threads
    tags = Kept()
    assert (await export_tags(session, tags)).rows == 4
    assert tags.rows == [
        (tag.id, tag.name, tag.description, datetime.fromisoformat(tag.created_at))
        for tag in box.truth.tags()
    ]
    assert len(TAGS.names) == len(tags.rows[0])


async def test_a_listing_without_names_of_tags_is_none(
    box: Sandbox, session: AsyncSession, kept: Kept
) -> None:
    box.faults = [Fault(kind="400", path="/api/v1/tags")]
    for export in (export_urls(session, kept), export_clicks(session, SPAN, kept)):
        with pytest.raises(BadRequestError):
            await export
    assert kept.rows == []


async def _stream(names: Iterable[str]) -> AsyncIterator[str]:
    for name in names:
        yield name


@pytest.mark.parametrize("dimensions", [False, True])
@pytest.mark.parametrize("given", ["nothing", "links", "stream", "tag"])
async def test_every_slashtag_has_its_rows_once_and_says_of_which_links(
    box: Sandbox, session: AsyncSession, kept: Kept, given: str, dimensions: bool
) -> None:
    share(box)
    links, of = links_of(box), {tag.id: tag.name for tag in box.truth.tags()}
    tag = box.truth.tags()[1].name
    hits = {name: -max(url.hits for url in urls) for name, urls in links.items()}
    names = sorted(links, key=hits.__getitem__)
    chosen = dict[str, Any]()
    if given == "tag":
        names = [name for name in names if any(of.get(url.tag_id) == tag for url in links[name])]
        chosen = {"tags": [tag]}
    elif given != "nothing":
        names = ["two", *[name for name in list(links)[20:40] if name != "two"], "same"]
        listed = [ShortUrl(id=links[name][0].id, slashtag=name) for name in names]
        chosen = {"keys": listed if given == "links" else _stream(names)}
    summary = await export_clicks(session, SPAN, kept, dimensions=dimensions, **chosen)
    true = box.truth.per_key(START, END)
    expected = {
        name: [(*cells(name, links[name], of), *row) for row in counts(true[name], dimensions)]
        for name in names
    }
    assert Counter(kept.rows) == Counter(row for rows in expected.values() for row in rows)
    order = list(dict.fromkeys(row[0] for row in kept.rows))
    if given in ("links", "stream"):
        assert order == [name for name in names if expected[name]]
    else:
        assert order == sorted(order, key=hits.__getitem__)
    assert summary.shared == sorted(name for name in names if len(links[name]) > 1)
    assert (summary.rows, summary.complete) == (len(kept.rows), True)
    assert len(clicks_table(dimensions=dimensions).names) == len(kept.rows[0])


@pytest.mark.parametrize("dimensions", [False, True])
async def test_rows_of_all_tags_and_of_none_add_up_to_the_account(
    box: Sandbox, tmp_path: Path, dimensions: bool
) -> None:
    share(box)
    box.add_tag("no tag")
    for journal in (None, tmp_path / "job.journal", tmp_path / "job.journal"):
        kept = Kept()
        async with connect(box, journal=journal) as session:
            told = list[Any]()
            summary = await export_clicks(
                session,
                SPAN,
                kept,
                by="tag",
                dimensions=dimensions,
                progress=lambda *at, told=told: told.append(at),
            )
        assert (summary.complete, told[-1]) == (True, (15, 15))
        found = dict[Any, Counter[Any]]()
        for tag, *_, label, clicks in kept.rows:
            if not dimensions or _[2] == "country":
                found.setdefault(tag, Counter())[label] += clicks  # type: ignore[operator]
        kind = "country" if dimensions else "clicks"
        of_tags = {
            tag.name: getattr(box.truth.range(START, END, tag=tag.name), kind) for tag in box.truth.tags()
        }
        assert {tag: +of for tag, of in found.items() if tag != "(no tag)"} == {
            tag: +Counter(of) for tag, of in of_tags.items() if of or not dimensions
        }
        assert sum(found.values(), Counter()) == +Counter(getattr(box.truth.range(START, END), kind))


async def test_given_tags_have_a_row_a_day(box: Sandbox, session: AsyncSession, kept: Kept) -> None:
    names = [tag.name for tag in box.truth.tags()][2:0:-1]
    await export_clicks(session, SPAN, kept, by="tag", tags=names)
    assert "/api/v1/urls" not in [each.path for each in box.requests]
    assert kept.rows == [
        (name, *row) for name in names for row in counts(box.truth.range(START, END, tag=name), False)
    ]
    with pytest.raises(InvalidRequestError, match="no tag 'nobody'"):
        await export_clicks(session, SPAN, kept, tags=["nobody"])


# In one of these zones it is another day now than in UTC.
@pytest.mark.parametrize(("dimensions", "zone"), [(False, "+14:00"), (True, "-12:00")])
async def test_a_range_that_is_not_over_ends_today(
    box: Sandbox, session: AsyncSession, kept: Kept, dimensions: bool, zone: str
) -> None:
    today = datetime.now(parse_zone(zone)).date()
    start, end = today - timedelta(days=2), today + timedelta(days=400)
    noon = datetime.fromisoformat(f"{start}T12:00{zone}")
    for at in (noon - timedelta(seconds=1), datetime.now(UTC)):
        box.add_click(box.truth.urls()[0].slashtag, at, device="Desktop")
    await export_clicks(session, DateRange(noon, end), kept, timezone=zone, dimensions=dimensions)
    assert {row[5 if dimensions else 4] for row in kept.rows} <= {start, start + timedelta(1), today}
    assert sum(int(str(row[-1])) for row in kept.rows if not dimensions or row[6] == "device") == 1
    # A range of times that ends today ends then.
    earlier = Kept()
    await export_clicks(session, DateRange(noon, datetime.now(UTC) - timedelta(hours=1)), earlier)
    assert not any(row[-1] for row in earlier.rows)
    for nothing in (DateRange(today + timedelta(2), end), DateRange(end, end)):
        with pytest.raises(InvalidRequestError, match="starts"):
            await export_clicks(session, nothing, kept, timezone=zone)


@pytest.mark.parametrize(
    "options",
    [
        {"keys": ["a"], "tags": ["b"]},
        {"keys": ["a"], "by": "tag"},
    ],
)
async def test_a_wrong_selector_is_a_type_error(
    box: Sandbox, session: AsyncSession, kept: Kept, options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        await export_clicks(session, SPAN, kept, **options)
    assert (kept.rows, box.requests) == ([], [])


# --- what came of it ----------------------------------------------------------------------------------


async def test_failures_of_single_keys_are_told_counted_and_left_out(
    session: AsyncSession, box: Sandbox, kept: Kept
) -> None:
    failures = list[Failure]()
    names = [url.slashtag for url in box.truth.urls()][:6]
    keys = [*names[:3], "a,b", *names[3:]]
    summary = await export_clicks(session, SPAN, kept, keys=keys, on_error=failures.append)
    assert list(dict.fromkeys(row[0] for row in kept.rows)) == names
    assert ([failure.keys for failure in failures], summary.missing) == ([("a,b",)], ["a,b"])
    assert not summary.complete
    box.add_url("a,b")
    assert (await export_clicks(session, SPAN, kept)).missing == ["a,b"]


@pytest.mark.parametrize("untagged", [True, False])
async def test_a_tag_that_cannot_be_counted_is_missing_and_no_rest_is_made_of_it(
    box: Sandbox, session: AsyncSession, kept: Kept, untagged: bool
) -> None:
    share(box)
    if not untagged:
        box.store.write("UPDATE link SET tag_id = 501 WHERE tag_id IS NULL", ())
    failures = list[Failure]()
    tag = box.truth.tags()[1].name
    with refused_tag(box, tag, 501):
        summary = await export_clicks(session, SPAN, kept, by="tag", on_error=failures.append)
        with pytest.raises(ServerError):
            await export_clicks(session, SPAN, kept, by="tag")
    assert (summary.missing, summary.reconciles) == ([tag], False)
    # Those that were counted are written, also where no link is without a tag.
    written = {row[0] for row in kept.rows}
    assert (tag in written, len(written)) == (False, 4)


@pytest.mark.parametrize("by", ["slashtag", "tag"])
@pytest.mark.parametrize("on_error", [None, [].append])
async def test_where_nothing_is_answered_the_failure_is_raised(
    box: Sandbox, session: AsyncSession, kept: Kept, by: Any, on_error: Any
) -> None:
    box.store.write("UPDATE link SET tag_id = 501", ())
    box.faults = [Fault(kind="400", path="/api/v1/stats*")]
    with pytest.raises(BadRequestError):
        await export_clicks(session, SPAN, kept, by=by, on_error=on_error)


@pytest.mark.parametrize(
    ("total", "dimensions", "complete"), [(3, False, False), (1, False, True), (1, True, False)]
)
async def test_what_is_written_and_does_not_add_up_shows_in_the_summary(
    kept: Kept, total: int, dimensions: bool, complete: bool
) -> None:
    def answer(request: wire.Request) -> wire.Answer:
        if "stats" in request.path:
            return wire.ok({"total_clicks": total, "clicks": {"2023-01-01": 1}})
        return wire.ok({"page": 1, "pageSize": 500, "items": []})

    async with scripted(answer) as (_, session):
        days = DateRange("2023-01-01", "2023-01-05")
        summary = await export_clicks(session, days, kept, keys=["a"], dimensions=dimensions)
    assert summary.complete == complete


#: What becomes of the account, and whether an export that was interrupted before begins anew.
CHANGES = {
    "UPDATE link SET updated_at = 0": False,
    "UPDATE link SET destination = 'x'": False,
    "INSERT INTO tag SELECT 99, 'new', '', created_at FROM tag LIMIT 1": False,
    "UPDATE link SET slashtag = 'x' WHERE id = (SELECT min(id) FROM link)": True,
    "UPDATE link SET tag_id = (SELECT max(id) FROM tag) WHERE tag_id = (SELECT min(id) FROM tag)": True,
    "UPDATE link SET tag_id = NULL": True,
    "UPDATE tag SET name = 'x' WHERE id = (SELECT min(id) FROM tag)": True,
    "DELETE FROM link WHERE id = (SELECT min(id) FROM link)": True,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_run_begins_anew_where_a_link_that_it_knew_is_named_or_tagged_otherwise(
    box: Sandbox, session: AsyncSession, tmp_path: Path, change: str
) -> None:
    path = tmp_path / ".links"
    assert not await begins_anew(session, path)
    box.add_url("new")
    assert not await begins_anew(session, path)
    box.store.write(change, ())
    assert await begins_anew(session, path) == CHANGES[change]
    assert not await begins_anew(session, path)
    path.write_bytes(b"{")
    assert not await begins_anew(session, path)
    assert path.stat().st_mode & 0o777 == 0o600
