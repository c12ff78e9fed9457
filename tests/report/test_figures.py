"""Every figure of a report is the truth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from slashtag import BadRequestError, DateRange, InvalidRequestError, ShortUrl
from slashtag.report import Report, build
from slashtag.sandbox import Fault, Sandbox
from tests.report.figures import Seen
from tests.support.sandboxes import refused_tag
from tests.support.sending import connect

Serve = Callable[..., Sandbox]
QUARTER = ("2024-01-01", "2024-03-31")
COUNTS = ("total_clicks", "clicks", "device", "browser", "platform", "country", "referrer")


def names(box: Sandbox, count: int) -> list[str]:
    """The first slashtags of the account."""
    return list(dict.fromkeys(url.slashtag for url in box.truth.urls()))[:count]


async def reported(box: Sandbox, start: str, end: str, **options: Any) -> Report:
    async with connect(box) as session:
        return await build(session, DateRange(start, end), **options)


def check(box: Sandbox, report: Report, keys: list[str] | None = None, zone: Any = None) -> None:
    """Compare all figures, and what its page shows of them, with the truth."""
    span, previous = (report.start, report.end), report.previous.bounds
    keys = names(box, 10_000) if keys is None else keys
    truth = box.truth.range(*span, keys=keys, timezone=zone)
    of_before = box.truth.range(*previous, keys=keys, timezone=zone)
    before = of_before.total_clicks
    each = box.truth.per_key(*span, keys=keys, timezone=zone)
    assert {name: getattr(report.stats, name) for name in COUNTS} == {
        name: getattr(truth, name) for name in COUNTS
    }
    seen = Seen(report.to_html())
    assert seen.figure("total") == report.total == truth.total_clicks
    assert seen.figure("before") == report.before == before
    assert seen.figure("links") == report.links == len(keys)
    assert seen.figure("busiest") == max([0, *truth.clicks.values()])
    if before:
        change = float(seen.root.one("data", id="change").attributes["value"])
        assert change == (truth.total_clicks - before) / before
    if truth.total_clicks:
        assert seen.days == truth.clicks
        if report.weekdays:
            assert seen.heat == list(report.weekdays.values())
        assert report.busiest == (report.busiest[0], truth.clicks[report.busiest[0]])
        for dimension in COUNTS[2:]:
            gone = dict.fromkeys(getattr(of_before, dimension), 0)
            assert seen.counts(dimension) == gone | getattr(truth, dimension)
            assert seen.shown(dimension) == truth.total_clicks
    assert sum(n or 0 for n in report.weekday_sums["Total"]) == truth.total_clicks
    assert not report.weekdays or report.weekday_sums["Total"] == [
        sum(column) if (column := [n for n in each if n is not None]) else None
        for each in zip(*report.weekdays.values(), strict=True)
    ]
    if report.links_clicked is None:
        assert report.top == ()
        return
    clicked = [one.total_clicks for one in each.values() if one.total_clicks]
    assert seen.figure("links-clicked") == report.links_clicked == len(clicked)
    assert [link.clicks for link in report.top] == sorted(clicked, reverse=True)[:10]
    earlier = box.truth.per_key(*previous, keys=keys, timezone=zone)
    for link in report.top:
        assert link.by_day == each[link.slashtag].clicks
        assert link.before == earlier[link.slashtag].total_clicks
    assert not clicked or seen.top == [(link.slashtag, link.clicks) for link in report.top]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("start", "end", "zone", "top"),
    [
        ("2024-01-01", "2024-12-31", "UTC", 10),
        ("2024-03-01", "2024-03-31", "Europe/London", 10),
        ("2024-03-01", "2024-06-30", "Asia/Kolkata", 0),
        ("2025-05-05", "2025-05-05", "Asia/Tokyo", 10),
        ("2023-01-01", "2025-12-31", "UTC", 0),
        ("2021-01-01", "2021-12-31", "UTC", 10),
        ("2024-01-01", "2024-12-31", "Europe/Berlin", 0),
        ("2024-03-10", "2024-11-20", "America/New_York", 10),
    ],
)
async def test_every_figure_is_the_truth(serve: Serve, start: str, end: str, zone: str, top: int) -> None:
    async with serve() as box:
        report = await reported(box, start, end, top=top, timezone=ZoneInfo(zone))
        assert (report.links_clicked is None) == (top == 0)
        check(box, report, zone=ZoneInfo(zone))
        assert (report.zone, report.requests) == (zone, len(box.requests))


@pytest.mark.unmeasured
@pytest.mark.parametrize("kind", ["404", "500"])
async def test_what_a_report_can_do_without_may_fail(
    serve: Serve, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(faults=[Fault(kind=kind, path="/api/v1/tags")]) as box:
        found = await reported(box, "2024-03-01", "2024-03-31")
        check(box, found)
        assert found.tag == {}
        assert found.destination
        assert 1 <= sum(bool(arrival.fault) for arrival in box.requests) <= 3
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


@pytest.mark.unmeasured
async def test_tags_select_the_links_that_bear_them(serve: Serve) -> None:
    async with serve() as box:
        chosen = [tag.name for tag in box.truth.tags()][:2]
        report = await reported(box, "2024-01-01", "2024-03-31", tags=[*chosen, chosen[0]])
        assert report.total == sum(box.truth.range(*QUARTER, tag=name).total_clicks for name in chosen)
        assert report.selection == f"links tagged {chosen[0]}, {chosen[1]}"
        with pytest.raises(InvalidRequestError, match="no tag 'nope'"):
            await reported(box, "2024-01-01", "2024-03-31", tags=["nope"])
        none = await reported(box, "2024-01-01", "2024-03-31", tags=[])
        assert (none.links, none.total, none.selection) == (0, 0, "no links")


@pytest.mark.parametrize("top", [10, 0])
async def test_figures_of_a_tag_are_its_own_where_slashtags_are_shared(top: int) -> None:
    """Links without the tag, with the same slashtag, are in the rows of links and nowhere else."""
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_tag("mail")
        box.add_url("own", tag="mail")
        tagged = box.add_url("shared", tag="mail")
        other = box.add_url("shared", domain_id=1)
        for month in ("2024-06", "2024-05"):
            box.add_click("own", f"{month}-02T00:00:00", country="FR", times=2)
            box.add_click(tagged, f"{month}-03T00:00:00", country="DE", times=3)
            box.add_click(other, f"{month}-04T00:00:00", country="US", times=50)
        report = await reported(box, "2024-06-01", "2024-06-30", tags=["mail"], top=top)
        truth = box.truth.range("2024-06-01", "2024-06-30", tag="mail")
        assert truth.total_clicks == 5
        for name in COUNTS:
            assert getattr(report.stats, name) == getattr(truth, name)
        assert report.before == 5
        rows = {link.slashtag: (link.clicks, link.is_shared) for link in report.top}
        # The tag has five clicks: three are left for the slashtag that another link has.
        assert rows == ({"shared": (3, True), "own": (2, False)} if top else {})
        assert [(link.at_most, link.before) for link in report.top] == [(3, 3), (None, 2)][: len(rows)]
        assert sum(link.clicks for link in report.top) <= report.total
        assert any("marked *" in note for note in report.notes)


@pytest.mark.unmeasured
@pytest.mark.parametrize("selected", [None, 3])
async def test_clicks_by_tag_are_those_of_the_service(serve: Serve, selected: int | None) -> None:
    async with serve() as box:
        known = [tag.name for tag in box.truth.tags()]
        report = await reported(box, *QUARTER, tags=known[:selected] if selected else None)
        exact = {name: clicks for name, clicks in report.tag.items() if name}
        exact = {name: clicks for name, clicks in exact.items() if ("tag", name) not in report.shared}
        truth = {name: box.truth.range(*QUARTER, tag=name).total_clicks for name in known[:selected]}
        assert exact == {name: truth[name] for name in exact}
        assert {name for name, clicks in truth.items() if clicks} <= report.tag.keys()
        assert all(clicks >= truth.get(name, 0) for name, clicks in report.tag.items())
        assert ("" in report.tag) == (selected is None)
        assert len(exact) > 2


async def test_clicks_of_a_shared_slashtag_are_in_no_tag_or_destination_that_may_not_have_them() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        for name in ("mail", "print", "app"):
            box.add_tag(name)
        box.add_url("a", tag="mail", destination="https://shop.example/x?utm=1")
        box.add_url("b", tag="mail", destination="https://shop.example/x?utm=2")
        box.add_url("c", tag="app", destination="https://blog.example/")
        ids = [
            box.add_url("s", tag=tag, domain_id=n, destination=f"https://{n}.example/")
            for n, tag in enumerate(["print", "app", None])
        ]
        for n, slashtag in enumerate(["a", "b", "c", *ids], 1):
            box.add_click(slashtag, "2024-06-02T00:00:00", times=n)
        report = await reported(box, "2024-06-01", "2024-06-30")
        # The service counts tags alone; links without a tag have what these leave.
        assert report.tag == {"mail": 3, "print": 4, "app": 3 + 5, "": 6}
        shared = {f"{n}.example": 0 for n in range(3)}
        assert report.destination == {"shop.example/x": 3, "blog.example": 3} | shared
        assert report.shared == {("destination", page) for page in shared}
        # Without the counts of tags each has what is its own, and shares do not add up to more than all.
        with refused_tag(box, "app", 403):
            lower = await reported(box, "2024-06-01", "2024-06-30")
        assert lower.tag == {"mail": 3, "print": 0, "app": 3, "": 0}
        assert {label for dimension, label in lower.shared if dimension == "tag"} == {"print", "app", ""}
        assert "marked *" in report.to_html()
        # A single tag or destination says no more than the total.
        mail = await reported(box, "2024-06-01", "2024-06-30", tags=["mail"])
        assert (mail.total, mail.tag, mail.destination) == (3, {}, {})
        print_ = await reported(box, "2024-06-01", "2024-06-30", tags=["print", "mail"])
        assert print_.tag == {"mail": 3, "print": 4}
        # Of the slashtag that others have too the tag leaves four clicks.
        assert print_.destination == {"shop.example/x": 3, "0.example": 4}
        assert print_.shared == frozenset()
        for options in ({"top": 0}, {"keys": ["a", "s"]}):
            few = await reported(box, "2024-06-01", "2024-06-30", **options)
            assert (few.tag, few.destination) == ({}, {})


@pytest.mark.unmeasured
@pytest.mark.parametrize("selection", [{}, {"top": 0}, {"tags": ["mail", "print"]}, {"keys": ["a", "c"]}])
async def test_hours_add_up_to_the_clicks_of_a_weekday(selection: dict[str, Any]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_tag("mail")
        box.add_tag("print")
        for n, (slashtag, tag) in enumerate([("a", "mail"), ("b", "print"), ("c", None)]):
            box.add_url(slashtag, tag=tag)
            box.add_click(slashtag, f"2024-03-{29 + n}T23:30:00", times=n + 1)
        report = await reported(box, "2024-03-25", "2024-04-07", timezone=zone, hours=True, **selection)
        assert sum(report.hourly.values()) == report.total > 0
        for weekday in range(7):
            clicks = sum(row[weekday] or 0 for row in report.hours_of_week.values())
            assert clicks == sum(row[weekday] or 0 for row in report.weekdays.values())
        # The clocks of Berlin skipped an hour on 31 March 2024: 0:30 is 1:30 in summer.
        seen = {at.isoformat() for at, clicks in report.hourly.items() if clicks}
        assert seen <= {"2024-03-30T00:00:00+01:00", "2024-03-31T00:00:00+01:00", "2024-04-01T01:00:00+02:00"}
        assert (await reported(box, "2024-03-25", "2024-04-07")).hours_of_week == {}


@pytest.mark.unmeasured
async def test_keys_may_be_slashtags_links_or_a_listing(serve: Serve) -> None:
    async with serve() as box, connect(box) as session:
        urls: list[ShortUrl] = await session.urls.list().to_list()
        wanted = names(box, 20)

        async def some() -> AsyncIterator[ShortUrl]:
            for url in urls:
                if url.slashtag in wanted:
                    yield url

        for keys in (wanted, some(), [*wanted, *wanted]):
            report = await build(session, DateRange.parse("2024-05"), keys=keys)
            check(box, report, wanted)
            assert report.selection == "20 chosen links"
        one = await build(session, DateRange.parse("2024-05"), keys=wanted[:1], top=0)
        assert (one.selection, one.top) == ("1 chosen link", ())


async def test_without_links_one_by_one_it_asks_for_batches_only(serve: Serve) -> None:
    async with serve() as box:
        await reported(box, "2024-01-01", "2024-12-31", top=0)
        windows, batches = 12, 3
        asked = sum("stats" in arrival.path for arrival in box.requests)
        assert asked == 2 * windows * batches


@pytest.mark.unmeasured
async def test_progress_ends_at_what_is_known(serve: Serve) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int | None) -> None:
        assert total is not None
        seen.append((done, total))

    async with serve() as box:
        await reported(box, *QUARTER, progress=progress)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert all(done <= total for done, total in seen)
    assert seen[-1][0] == seen[-1][1]


async def test_an_empty_account_has_a_report() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        report = await reported(box, "2024-01-01", "2024-12-31")
        check(box, report)
        assert (report.change, len(report.stats.clicks)) == (None, 366)
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
        assert [note.partition(":")[0] for note in report.notes] == ["Shared slashtags", "Links left out"]
        tagged = await reported(box, "2024-02-01", "2024-02-29", tags=["mail"])
        assert [note.partition(".")[0] for note in tagged.notes] == [
            "Slashtags shared with other links: 1, marked *",
            "Links left out: 1",
        ]
        with pytest.raises(InvalidRequestError, match="comma"):
            await reported(box, "2024-02-01", "2024-02-29", keys=["a", "b,c"])


@pytest.mark.parametrize(("behind", "ahead"), [(100, 0), (100, 40), (0, 0)])
async def test_a_span_that_is_not_over_is_compared_up_to_the_same_time(behind: int, ahead: int) -> None:
    now = datetime.now(UTC)
    start, end = now.date() - timedelta(days=behind), now.date() + timedelta(days=ahead)
    shift = timedelta(days=behind + ahead + 1)
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        for n, at in enumerate([now, now - shift, now - shift + timedelta(minutes=1)]):
            box.add_url(f"k{n}")
            box.add_click(f"k{n}", at, times=n + 1, country="DE")
        report = await reported(box, str(start), str(end))
        tomorrow = str(now.date() + timedelta(days=2))
        with pytest.raises(InvalidRequestError, match="begins on"):
            await reported(box, tomorrow, tomorrow)
    assert datetime.now(UTC).date() == now.date(), "run at midnight"
    assert (report.days, report.days_over) == (behind + ahead + 1, behind)
    assert list(report.stats.clicks) == [start + timedelta(days=n) for n in range(behind + 1)]
    # Without the last click, which is a minute later in its span than it is now.
    assert (report.total, report.before, report.change) == (1, 2, -0.5)
    assert report.changes_of("country") == {"DE": -0.5}


@pytest.mark.parametrize(
    ("span", "options", "error"),
    [
        (QUARTER, {"keys": ["a"], "tags": ["b"]}, TypeError),
        (QUARTER, {"keys": "abc"}, TypeError),
        (QUARTER, {"tags": "abc"}, TypeError),
        (QUARTER, {"top": -1}, InvalidRequestError),
        (QUARTER, {"timezone": "Berlin"}, InvalidRequestError),
        (QUARTER, {"hours": True}, InvalidRequestError),
        (("2024-02-01", "2024-01-31"), {}, InvalidRequestError),
        (("0001-01-01", "0001-01-02"), {}, InvalidRequestError),
        (("2024-01-01T00:00:00+00:00", "2024-01-02"), {}, InvalidRequestError),
    ],
)
async def test_wrong_selectors_and_spans_are_refused_before_anything_is_asked(
    serve: Serve, span: tuple[str, str], options: dict[str, Any], error: type[Exception]
) -> None:
    async with serve() as box:
        with pytest.raises(error):
            await reported(box, *span, **options)
        assert box.requests == []


async def test_a_refused_request_is_raised(serve: Serve) -> None:
    async with serve(unknown_keys="error") as box:
        with pytest.raises(BadRequestError):
            await reported(box, "2024-01-01", "2024-12-31", keys=["there is no such link"])


@pytest.mark.unmeasured
async def test_all_destinations_with_clicks_are_compared() -> None:
    """However many they are; with all their links, those too that have no clicks any more."""
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        keys_of: dict[str, list[str]] = {}
        for n in range(90):
            box.add_url(f"k{n}", destination=f"https://shop.example/{n % 30}?utm={n}")
            keys_of.setdefault(f"shop.example/{n % 30}", []).append(f"k{n}")
            box.add_click(f"k{n}", "2024-06-10T00:00:00", times=n % 7 if n < 60 else 0)
            box.add_click(f"k{n}", "2024-05-20T00:00:00", times=n % 5)
        report = await reported(box, "2024-06-01", "2024-06-30")
        assert len(report.destination) > 20
        assert report.destination_before == {
            page: box.truth.range("2024-05-01", "2024-05-31", keys=keys_of[page]).total_clicks
            for page in report.destination
        }


@pytest.mark.unmeasured
async def test_what_had_clicks_only_before_has_a_row() -> None:
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        for name, day, country in (
            ("a", "2024-06-10", "DE"),
            ("b", "2024-05-10", "FR"),
            ("c", "2024-05-10", "IT"),
        ):
            box.add_url(name, destination=f"https://{name}.example/")
            box.add_click(name, f"{day}T00:00:00", times=1 + (name == "c"), country=country, referrer=name)
        box.add_url("never", destination="https://never.example/")
        report = await reported(box, "2024-06-01", "2024-06-30")
        assert report.destination == {"a.example": 1, "b.example": 0, "c.example": 0}
        assert report.destination_before == {"a.example": 0, "b.example": 1, "c.example": 2}
        seen = Seen(report.to_html())
        for dimension, labels in (
            ("destination", ["a.example", "c.example", "b.example"]),
            ("country", ["DE", "IT", "FR"]),
            ("referrer", ["a", "c", "b"]),
        ):
            assert [*report.counts(dimension).items()] == [*zip(labels, (1, 0, 0), strict=True)]
            assert list(seen.counts(dimension)) == labels
        report.to_png(0.2)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("days", "is_weekly"), [(72, [False] * 3), (73, [True, False, False]), (121, [True] * 3)]
)
async def test_a_chart_shows_weeks_where_days_would_be_too_narrow(days: int, is_weekly: list[bool]) -> None:
    """Of a span that is not over too, which has a day more than it has whole ones."""
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        box.add_url("a")
        today = datetime.now(UTC).date()
        for n in range(2 * days):
            box.add_click("a", f"{today - timedelta(n)}T00:00:00")
        report = await reported(box, str(today - timedelta(days - 1)), str(today), top=0)
        assert [report.is_weekly(width) for width in (290, 600, 1030)] == is_weekly
        assert len(report.curves[0]) == (days // 7 if is_weekly[2] else days)
        assert len(Seen(report.to_html()).counts("device")) == 1


@pytest.mark.unmeasured
async def test_tags_destinations_and_links_are_compared_with_another_span() -> None:
    """Also what has no clicks any more, and what had none before; links without a tag have the rest."""
    async with Sandbox(urls=0, clicks=0, tags=0) as box:
        for name in ("mail", "print", "app", "gone", "unused"):
            box.add_tag(name)
        for n, tag in enumerate(["mail", "print", "app", "gone", None]):
            box.add_url(f"k{n}", tag=tag, destination=f"https://shop.example/{n % 3}?utm={n}")
        box.add_url("k0", tag="app", domain_id=1, destination="https://shop.example/0")
        for month, clicks in {
            "2024-06": (5, 2, 7, 0, 4),
            "2024-05": (1, 9, 0, 3, 8),
            "2023-06": (2, 2, 2, 2, 2),
        }.items():
            for n, count in enumerate(clicks):
                box.add_click(f"k{n}" if n else 1_000_001, f"{month}-10T00:00:00", times=count)
        for compare, month in (
            ("previous", ("2024-05-01", "2024-05-31")),
            ("last-year", ("2023-06-01", "2023-06-30")),
        ):
            report = await reported(box, "2024-06-01", "2024-06-30", compare=compare)
            truth = {
                name: box.truth.range(*month, tag=name).total_clicks
                for name in ("mail", "print", "app", "gone")
            }
            total = box.truth.range(*month).total_clicks
            assert report.previous.bounds == DateRange(*month).bounds
            assert (report.before, report.tag_before) == (total, truth | {"": total - sum(truth.values())})
            assert report.tag == {"mail": 5, "print": 2, "app": 7, "gone": 0, "": 4}
            assert (sum(report.tag.values()), sum(report.tag_before.values())) == (
                report.total,
                report.before,
            )
            # Of the first page a slashtag is shared, though not with another page.
            pages = {n: [f"k{m}" for m in (0, 1, 2, 3, 4) if m % 3 == n] for n in range(3)}
            assert report.destination_before == {
                f"shop.example/{n}": box.truth.range(*month, keys=keys).total_clicks
                for n, keys in pages.items()
            }
            assert [link.before for link in report.top] == [
                box.truth.range(*month, keys=[link.slashtag]).total_clicks for link in report.top
            ]
            rows = Seen(report.to_html()).root.one("table", data_dimension="tag").one("tbody").all("tr")
            shown = {row.attributes["data-label"]: row.all("td")[3].text for row in rows}
            assert shown["gone"] == "−100.0 %"
            assert (shown["app"] == "new") == (compare == "previous")
