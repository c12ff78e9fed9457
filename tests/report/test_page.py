"""Every figure on a page is the report's, and every label is text."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import RangeStats, ShortUrl
from slashtag.report import Report
from tests.report.figures import HOSTILE, Element, Seen, read, report, stats

DIMENSIONS = ("country", "referrer", "device", "browser", "platform")


def hostile() -> Report:
    counts = {name: 100 - n for n, name in enumerate(HOSTILE)}
    clicks = sum(counts.values())
    dimensions = dict.fromkeys(DIMENSIONS, counts)
    return report(
        [clicks, 0, 5], top=HOSTILE, selection=f"links tagged {HOSTILE[0]}", zone=HOSTILE[1], **dimensions
    )


def walk(element: Element) -> list[Element]:
    return [element, *(below for child in element.children for below in walk(child))]


def test_labels_are_text_wherever_they_stand() -> None:
    page = hostile().to_html()
    root = read(page)
    elements = walk(root)
    assert not {"script", "img", "b", "iframe", "object", "foreignobject"} & {
        element.tag for element in elements
    }
    names = {name for element in elements for name in element.attributes}
    assert not [name for name in names if name.startswith("on") or name in {"src", "xlink:href"}]
    addresses = [element.attributes["href"] for element in elements if "href" in element.attributes]
    assert addresses[0] == "data:,"
    assert len(addresses) == 1 + len(HOSTILE)
    assert all(address.startswith("https://s.example/") for address in addresses[1:])
    texts = [element.text for element in root.all("bdi")]
    for label in HOSTILE[:7]:
        assert label in texts
        assert any(label in element.text for element in root.all("title"))
        assert any(label in element.attributes.get("aria-label", "") for element in root.all("svg"))
    assert "\ufffdgnp.exe" in texts
    assert "tab\ufffdhere\ufffd" in texts
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", page)
    assert not re.search(r"url\(|@import|@font-face", root.one("style").text)
    policy = root.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    assert policy.startswith("default-src 'none'")


def bands(found: Report) -> int:
    """The number of days of the span before in the charts."""
    elements = walk(read(found.to_html()))
    return sum(element.attributes.get("fill") == "var(--before)" for element in elements)


def test_a_span_without_clicks_shows_its_figures_and_says_why_there_is_no_more() -> None:
    seen = Seen(report([0, 0, 0], links_clicked=0, before=8).to_html())
    assert [seen.figure(name) for name in ("total", "links-clicked", "busiest")] == [0] * 3
    assert "no link has clicks in this span" in seen.root.text
    assert "−100.0 %" in seen.root.text
    assert seen.root.all("svg") == []


@pytest.mark.unmeasured
def test_rows_and_days_are_compared_with_the_span_before() -> None:
    before = stats(date(2023, 12, 30), [2, 4], country={"DE": 4, "US": 2})
    found = report([1, 5], country={"DE": 1, "US": 4, "FR": 1}, before=6, before_stats=before)
    seen = Seen(found.to_html())
    assert found.changes_of("country") == {"DE": -0.75, "US": 1.0, "FR": None}
    table = seen.root.one("table", data_dimension="country")
    assert [row.all("td")[2].text for row in table.one("tbody").all("tr")] == ["+100.0 %", "−75.0 %", "new"]
    assert found.curves == ([(0, 1), (1, 5)], [(0, 2), (1, 4)])
    assert found.before_span in seen.root.all("figure")[0].parent.text
    assert bands(found) == 3 * 2
    assert bands(report([1, 5])) == 0


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("days", "points"), [(1, 1), (2, 2), (62, 62), (92, 92), (93, 93), (120, 120), (121, 17), (700, 100)]
)
def test_a_long_span_is_drawn_by_week(days: int, points: int) -> None:
    found = report([7 * (n % 7 == 0) for n in range(days)], top=["a"])
    assert (len(found.curves[0]), found.curves[1]) == (points, [])
    if days > 120:
        assert found.curves[0][:2] == [(3, 1), (10, 1)]
        assert found.curves[0][-1][0] < days
    page = found.to_html()
    assert len(page.encode()) < 3_000_000
    seen = Seen(page)
    assert len(seen.days) == days
    assert len(seen.root.all("svg")) == (3 if days == 1 else 4)
    assert ("on average" in seen.root.text) == (days > 1)
    assert ("Trends as the average of each week" in seen.root.text) == (days > 120)


@pytest.mark.unmeasured
def test_many_labels_are_cut_and_their_sum_is_not() -> None:
    counts = {f"ref{n}.example": 1 + n % 5 for n in range(2_000)}
    total = sum(counts.values())
    seen = Seen(report([total], referrer=counts, device={"Mobile": total - 3}).to_html())
    found = seen.counts("referrer")
    assert len(found) == 500
    assert found.items() <= counts.items()
    assert seen.shown("referrer") == seen.shown("device") == total
    for words in ("1,500 more", "1,992 others", "Not sent by the service"):
        assert words in seen.root.text
    others = seen.root.all("table", data_dimension="referrer")[0].one("tr", **{"class": "rest"})
    # They have a share and no bar, which would dwarf the others.
    assert ("%" in others.text, others.all("span")) == (True, [])


@pytest.mark.unmeasured
@given(st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 50)), min_size=10, max_size=14))
@example([(0, None)] * 8 + [(0, 0)] * 2)
def test_others_are_compared_together_where_all_of_them_were_counted(
    counts: list[tuple[int, int | None]],
) -> None:
    now = {f"/{n}": clicks for n, (clicks, _) in enumerate(counts)}
    before = {f"/{n}": clicks for n, (_, clicks) in enumerate(counts) if clicks is not None} | {"/gone": 7}
    found = report([sum(now.values())], before=700, destination=now, destination_before=before)
    seen = Seen(found.to_html())
    others = seen.root.all("table", data_dimension="destination")[0].one("tr", **{"class": "rest"})
    hidden = sorted(now, key=lambda label: (-now[label], -before.get(label, 0), label))[8:]
    shown = others.all("td")[2].text
    if all(label in before for label in hidden):
        assert shown == f"{sum(before[label] for label in hidden):,}"
    else:
        assert shown == ""
    assert ("are not compared" in seen.root.text) == any(label not in before for label in now)


def unfinished(**changes: object) -> Report:
    """A report of June 2026, asked about at noon of the 22nd, with one click a day and 5 today."""
    found = report([1] * 21 + [5], start=date(2026, 6, 1), before=16, top=["a"])
    asked_at = datetime(2026, 6, 22, 12, tzinfo=UTC)
    return replace(found, **{"end": date(2026, 6, 30), "asked_at": asked_at, **changes})


def test_a_span_that_is_not_over_says_so_at_the_top_and_marks_today() -> None:
    found = unfinished()
    assert (found.days, found.days_over, found.partial_day) == (30, 21, date(2026, 6, 22))
    assert found.before_span == "1\u00a0– 22 May 2026, until 12:00"
    march = {
        "start": date(2026, 3, 1),
        "end": date(2026, 3, 31),
        "asked_at": datetime(2026, 3, 31, tzinfo=UTC),
    }
    # February is shorter: all of it is compared.
    assert unfinished(**march).before_span == "1\u00a0– 28 Feb 2026"
    assert (found.change, found.average, found.counted_days[-1]) == (0.625, 1.0, date(2026, 6, 22))
    seen = Seen(found.to_html())
    header = seen.root.one("header").text
    for words in ("21 of 30 days over", "22 Jun 2026", "12:00"):
        assert words in header
    rows = [row.one("th").text for row in seen.root.one("table", id="days").one("tbody").all("tr")]
    assert [row for row in rows if "so far" in row] == [rows[-1]]
    assert [rect for rect in walk(seen.root) if rect.attributes.get("fill") == "var(--soft)"]
    assert "days over" not in Seen(report([1, 2]).to_html()).root.one("header").text


@pytest.mark.parametrize("days_complete", [True, False])
def test_there_is_no_average_without_a_day_that_is_over_and_known(days_complete: bool) -> None:
    stats = RangeStats(total_clicks=9, clicks={date(2026, 6, 22): 9}, days_complete=days_complete)
    today_only = unfinished(start=date(2026, 6, 22), end=date(2026, 6, 22), stats=stats)
    assert (today_only.days_over, today_only.average) == (0, None)
    if not days_complete:
        lost = unfinished(stats=RangeStats(total_clicks=26, days_complete=False))
        assert (lost.change, lost.average, lost.busiest) == (0.625, None, None)
        assert Seen(lost.to_html()).figure("total") == 26


def test_a_link_is_compared_with_the_span_before_and_marked_where_others_share_it() -> None:
    found = report([10], top=["a", "b"])
    first, second = found.top
    found = replace(found, top=(replace(first, is_shared=True, clicks=20, before=10), second))
    assert [link.change for link in found.top] == [1.0, None]
    rows = Seen(found.to_html()).root.one("table", id="links-table").one("tbody").all("tr")
    assert ["*" in row.one("th").text for row in rows] == [True, False]
    assert all("100.0 %" in row.text for row in rows)
    assert ["+100.0 %" in row.text for row in rows] == [True, False]


def test_tags_and_destinations_have_cards_and_those_that_hold_other_links_are_marked() -> None:
    found = report(
        [10],
        tag={"mail": 6, "": 4, HOSTILE[0]: 3},
        destination={HOSTILE[1]: 7, "shop.example": 3},
        shared=frozenset({("tag", "mail"), ("destination", "mail")}),
    )
    seen = Seen(found.to_html())
    assert seen.counts("tag") == found.tag
    assert seen.counts("destination") == found.destination
    rows = seen.root.one("table", data_dimension="tag").one("tbody").all("tr")
    assert ["*" in row.one("th").text for row in rows] == [True, False, False]
    assert "No tag" in rows[1].text
    assert "marked *" in seen.root.text
    bare = Seen(report([10]).to_html())
    assert bare.counts("tag") == bare.counts("destination") == {}
    assert "marked *" not in bare.root.text


def test_days_of_a_short_span_stand_in_weeks() -> None:
    # 2024-01-01 was a Monday.
    found = report(list(range(1, 93)))
    assert list(found.weekdays)[:2] == ["1 Jan", "8 Jan"]
    assert found.weekdays["8 Jan"] == [8, 9, 10, 11, 12, 13, 14]
    assert found.weekdays["1 Apr"] == [92, None, None, None, None, None, None]
    assert list(report([1] * 93).weekdays) == ["Jan 2024", "Feb 2024", "Mar 2024", "Apr 2024"]


@pytest.mark.unmeasured
@pytest.mark.parametrize("days", [1, 2, 4, 5, 7, 8, 10, 13, 14, 31, 92])
def test_the_chart_has_several_labels_on_a_phone_too(days: int) -> None:
    """A week has no room for each of its days, and one Monday."""
    drawn = re.findall(r"<tspan>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)<", report([5] * days).chart(290, 180, 4))
    assert min(days, 2) <= len(drawn) <= 4


def test_hours_are_summed_by_weekday_where_asked_for() -> None:
    hourly = {datetime(2024, 1, day, hour, tzinfo=UTC): day * hour for day in (1, 2, 8) for hour in (0, 23)}
    found = report([5] * 8, hourly=hourly)
    assert found.hours_of_week["23:00"] == [23 * 9, 23 * 2, None, None, None, None, None]
    assert found.hours_of_week["12:00"] == [None] * 7
    rows = Seen(found.to_html()).root.one("table", id="hours").one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == [*found.hours_of_week]
    assert rows[23].all("td")[0].text == "207"
    assert Seen(report([5]).to_html()).root.all("table", id="hours") == []


def test_links_that_were_not_counted_one_by_one_are_only_numbered() -> None:
    seen = Seen(report([5], links_clicked=None).to_html())
    assert (seen.figure("links"), seen.root.all("data", id="links-clicked")) == (3, [])


@pytest.mark.unmeasured
def test_days_are_compared_with_those_of_the_same_weekday() -> None:
    """October with September: each day stands behind one of the same weekday, wherever that exists."""
    before = stats(date(2026, 9, 1), list(range(1, 31)))
    asked_at = datetime(2026, 11, 2, tzinfo=UTC)
    found = report(
        [1] * 31, start=date(2026, 10, 1), before=before.total, before_stats=before, asked_at=asked_at
    )
    assert found.previous.bounds == (date(2026, 9, 1), date(2026, 9, 30))
    assert found.is_shifted
    days = {found.start + timedelta(n): date(2026, 9, int(clicks)) for n, clicks in found.curves[1]}
    assert len(days) == 28
    assert all(day.weekday() == other.weekday() for day, other in days.items())
    assert "same weekday" in Seen(found.to_html()).root.text
    assert "30 days, and not 31" in Seen(found.to_html()).root.text


@pytest.mark.unmeasured
@given(st.integers(1, 200), st.integers(0, 6), st.data())
def test_weekdays_add_up_and_have_averages(days: int, offset: int, data: st.DataObject) -> None:
    clicks = data.draw(st.lists(st.integers(0, 9), min_size=days, max_size=days))
    found = report(clicks, start=date(2024, 1, 1) + timedelta(offset))
    total, average = found.weekday_sums.values()
    assert sum(n or 0 for n in total) == found.total
    for weekday in range(7):
        counts = [n for day, n in found.stats.clicks.items() if day.weekday() == weekday]
        assert average[weekday] == (sum(counts) / len(counts) if counts else None)
    assert (found.weekdays == {}) == (days <= 7 and days + found.start.weekday() <= 7)


@pytest.mark.unmeasured
def test_a_report_on_one_link_names_it_and_where_it_leads_and_says_nothing_twice() -> None:
    link = ShortUrl(
        id=1, slashtag="a", short_url="https://s.example/a", destination="https://shop.example/325?utm=1"
    )
    seen = Seen(report([4, 5], top=["a"], link=link, links=1, links_clicked=1).to_html())
    header = seen.root.one("header")
    assert [each.attributes["href"] for each in header.all("a")] == ["https://s.example/a"]
    assert "shop.example/325" in header.text
    assert seen.root.all("table", id="links-table") == []
    for address in ("javascript:alert(1)", "//s.example/a", None):
        other = replace(link, short_url=address)
        assert Seen(report([4], link=other).to_html()).root.all("a") == []
