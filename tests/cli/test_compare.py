"""`stats` and `top` compared with other days, by tag and by weekday: every number against the truth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace
from openpyxl import load_workbook

from slashtag import AsyncSession, DateRange
from slashtag._by_tag import NO_TAG, ByTag
from slashtag.sandbox import Sandbox

from .conftest import Cli, objects
from .test_top import tagged_account

BERLIN = ZoneInfo("Europe/Berlin")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def days(first: str, last: str) -> Iterator[date]:
    day, end = date.fromisoformat(first), date.fromisoformat(last)
    while day <= end:
        yield day
        day += timedelta(1)


def change(clicks: int, before: int | None) -> float | None:
    return round(100 * (clicks - before) / before, 1) if before else None


def together(now: dict[str, int], before: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The clicks of every label of one or the other."""
    return {label: (now.get(label, 0), before.get(label, 0)) for label in {**now, **before}}


# -- tags


@pytest.mark.unmeasured
@pytest.mark.parametrize("query", ["range 2024", "year 2024", "alltime", "country US 2024"])
def test_the_rows_of_all_tags_and_of_none_add_up_to_the_account(cli: Cli, box: Sandbox, query: str) -> None:
    ran = cli("stats", *query.split(), "--by", "tag")
    assert ran.code == 0
    rows = objects(ran.out)
    whole = objects(cli("stats", *query.split()).out)[0]
    assert sum(row["clicks"] for row in rows) == whole["clicks"]
    assert abs(sum(row["percent"] for row in rows) - 100) < 1
    assert rows[-1]["tag"] == NO_TAG
    untagged = [url.slashtag for url in box.truth.urls() if url.tag_id is None]
    if query == "range 2024":
        true = box.truth.range("2024-01-01", "2024-12-31", keys=untagged).total_clicks
        assert rows[-1]["clicks"] == true > 0


def test_slashtags_that_links_with_and_without_a_tag_share_count_once(cli: Cli, own: Sandbox) -> None:
    tagged_account(own)
    for name in ("no tag", "(no tag)"):
        own.add_tag(name)
    rows = objects(cli("stats", "2024-06", "--by", "tag").out)
    found = {row["tag"]: row["clicks"] for row in rows}
    true = own.truth.range("2024-06-01", "2024-06-30").total_clicks
    of_tags = {
        tag.name: own.truth.range("2024-06-01", "2024-06-30", tag=tag.name).total_clicks
        for tag in own.truth.tags()
    }
    assert found == of_tags | {"((no tag))": true - sum(of_tags.values())}
    assert found["((no tag))"] == 40
    top = objects(cli("top", "2024-06", "--by", "tag").out)
    assert [(row["tag"], row["clicks"]) for row in top] == [(name, n) for name, n in found.items() if n]


@pytest.mark.parametrize("by", ["tag", "tag-growth", "tag-decline"])
def test_tags_are_ranked_and_compared(cli: Cli, box: Sandbox, by: str) -> None:
    ran = cli("top", "2024-06", "--by", by, "--compare", "last-year", "--limit", "4")
    (*rows, rest) = objects(ran.out)
    spans = [("2024-06-01", "2024-06-30"), ("2023-06-01", "2023-06-30")]
    counts = {
        tag.name: [box.truth.range(*span, tag=tag.name).total_clicks for span in spans]
        for tag in box.truth.tags()
    }
    ranks = {
        name: n if by == "tag" else (n - m) * (1 if by == "tag-growth" else -1)
        for name, (n, m) in counts.items()
    }
    assert [ranks[row["tag"]] for row in rows] == sorted((n for n in ranks.values() if n > 0), reverse=True)[
        :4
    ]
    totals = [box.truth.range(*span).total_clicks for span in spans]
    counts[NO_TAG] = [
        total - sum(n) for total, n in zip(totals, zip(*counts.values(), strict=True), strict=True)
    ]
    for row in (*rows, rest):
        assert [row["clicks"], row["clicks_before"]] == counts[row["tag"]]
        assert row["change_percent"] == change(*counts[row["tag"]])
    assert rest["tag"] == NO_TAG
    left = sum(n for name, (n, _) in counts.items() if name not in {row["tag"] for row in (*rows, rest)})
    assert (f"with {left} click" in ran.err) == bool(left)


def test_chosen_tags_have_no_row_of_the_rest(cli: Cli, box: Sandbox) -> None:
    names = [tag.name for tag in box.truth.tags()][:2]
    rows = objects(
        cli("top", "2024", "--by", "tag", *(word for name in names for word in ("--tag", name))).out
    )
    assert {row["tag"] for row in rows} <= {*names}
    assert cli("top", "2024", "--by", "tag", "--tag", "nobody has it").code == 2


@pytest.mark.unmeasured
@pytest.mark.parametrize("too_many", [0, 2, -2])
async def test_rows_that_overlap_or_lack_clicks_are_noticed(
    own: Sandbox, monkeypatch: pytest.MonkeyPatch, too_many: int
) -> None:
    for name, tag, clicks in (("a", "spring", 5), ("b", "autumn", 2), ("c", None, 1)):
        if tag is not None:
            own.add_tag(tag)
        own.add_click(own.add_url(name, tag=tag), "2024-06-01T00:00:00", times=clicks)
    async with AsyncSession(own.base_url, apikey=own.apikey, apisecret=own.apisecret) as session:
        by_tag = await ByTag.read(session)
        if too_many > 0:  # the service counts a link for a tag that its listing does not have
            links = by_tag.links.by_slashtag
            links["b"] = [replace(link, tag_id=None) for link in links["b"]]
        if too_many < 0:  # a tag that is not listed
            monkeypatch.setattr(by_tag, "_names", ["spring"])
        query = DateRange("2024-06-01", "2024-06-30")
        total, clicks_by, found = await by_tag.count(session, query)
        _, by_day, of_days = await by_tag.count(session, query, by=lambda stats: stats.clicks)
    assert (total.total, found, of_days) == (8, too_many, too_many)
    assert clicks_by == {name: {"": sum(clicks.values())} for name, clicks in by_day.items()}
    assert sum(clicks[""] for clicks in clicks_by.values()) == 8 + too_many


# -- what days are compared with


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("span", "compare", "first", "last", "apart"),
    [
        ("2024-06-01..2024-06-30", "previous", "2024-05-02", "2024-05-31", 28),
        ("2024-02-01..2024-02-29", "last-year", "2023-02-01", "2023-02-28", 364),
        ("2024-06-10..2024-06-16", "last-year", "2023-06-12", "2023-06-18", 364),
        ("2024-02-29..2024-02-29", "last-year", "2023-03-02", "2023-03-02", 364),
        ("2024-06-05..2024-06-06", "previous", "2024-06-03", "2024-06-04", 2),
        ("2024-07-01..2024-07-31", "2023-12", "2023-12-01", "2023-12-31", 210),
    ],
)
def test_days_are_compared_with_the_same_weekdays(
    cli: Cli, box: Sandbox, span: str, compare: str, first: str, last: str, apart: int
) -> None:
    if span == "2024-06-01..2024-06-30":
        first = "2024-05-01"
    ran = cli("stats", "range", span, "--by", "day", "--compare", compare, "--timezone", "Europe/Berlin")
    now = box.truth.range(*span.split(".."), timezone=BERLIN)
    before = box.truth.range(first, last, timezone=BERLIN)
    assert [(row["day"], row["clicks"], row["clicks_before"]) for row in objects(ran.out)] == [
        (str(day), clicks, before.clicks.get(day - timedelta(apart))) for day, clicks in now.clicks.items()
    ]
    told = f": {now.total_clicks} click", f"{first} to {last}" if first != last else first
    assert all(text in ran.err for text in (*told, f": {before.total_clicks} click", "(Europe/Berlin)"))


@pytest.mark.unmeasured
@pytest.mark.parametrize("by", ["country", "referrer", "week", "month", "weekday", None])
def test_every_dimension_is_compared(cli: Cli, box: Sandbox, by: str | None) -> None:
    spans = [("2024-04-01", "2024-06-30"), ("2024-01-01", "2024-03-31")]
    now, before = (box.truth.range(*span) for span in spans)
    rows = objects(cli("stats", "2024-q2", "--compare", "previous", *(("--by", by) if by else ())).out)
    if by is None:
        assert (rows[0]["clicks"], rows[0]["clicks_before"]) == (now.total_clicks, before.total_clicks)
        for name in ("device", "browser", "platform", "country", "referrer"):
            found = {r["label"]: (r["clicks"], r["clicks_before"]) for r in rows if r["dimension"] == name}
            counts = [getattr(each, name) for each in (now, before)]
            assert found == {
                label: tuple(n.get(label, 0) for n in counts) for label in {**counts[0], **counts[1]}
            }
        return
    found = {row[by]: (row["clicks"], row["clicks_before"]) for row in rows}
    assert all(row["change_percent"] == change(row["clicks"], row["clicks_before"]) for row in rows)
    assert sum(n for n, _ in found.values()) == now.total_clicks
    # Months and whole weeks have each a counterpart.
    assert sum(n or 0 for _, n in found.values()) == before.total_clicks
    if by in ("country", "referrer"):
        counts = [getattr(each, by) for each in (now, before)]
        assert found == {
            label: tuple(n.get(label, 0) for n in counts) for label in {**counts[0], **counts[1]}
        }
    if by == "month":
        assert [*found] == ["2024-04", "2024-05", "2024-06"]
        by_month = Counter(str(day)[:7] for day, n in before.clicks.items() for _ in range(n))
        assert [n for _, n in found.values()] == [by_month[f"2024-0{n}"] for n in (1, 2, 3)]


@pytest.mark.unmeasured
def test_a_year_is_compared_month_by_month_also_those_without_clicks(cli: Cli, own: Sandbox) -> None:
    link = own.add_url("spring")
    own.add_click(link, "2023-02-05T12:00:00", times=3)
    own.add_click(link, "2024-03-05T12:00:00", times=2)
    rows = objects(cli("stats", "year", "2024", "--by", "month", "--compare", "last-year").out)
    found = {row["month"]: (row["clicks"], row["clicks_before"], row["change_percent"]) for row in rows}
    assert len(found) == 12
    assert found.pop("2024-02") == (0, 3, -100.0)
    assert found.pop("2024-03") == (2, 0, None)
    assert {*found.values()} == {(0, 0, None)}
    drawn = cli("stats", "year", "2024", "--by", "month", "--compare", "last-year", "--format", "table").out
    assert next(line.split()[:5] for line in drawn.splitlines() if "2024-03" in line) == [
        "2024-03",
        "2",
        "100.0",
        "0",
        "new",
    ]


def test_a_year_that_is_not_over_has_nothing_to_compare_its_time_zones_with(cli: Cli, box: Sandbox) -> None:
    year = datetime.now(UTC).year
    ran = cli("stats", "year", f"{year}", "--compare", "last-year")
    rows = objects(ran.out)
    found = {
        row["dimension"]: row["clicks_before"] for row in rows if row["dimension"] in ("timezone", "country")
    }
    assert (found.get("timezone"), "timezone" in ran.err) == (None, True)
    # Of a whole year they are counted.
    rows = objects(cli("stats", "year", "2024", "--by", "timezone", "--compare", "last-year").out)
    before = box.truth.year(2023).timezone
    assert {row["timezone"]: row["clicks_before"] for row in rows if row["clicks_before"]} == before


def test_what_cannot_be_requested_is_told_beside_tags(cli: Cli, own: Sandbox) -> None:
    own.add_click(own.add_url("a,b"), "2024-06-01T00:00:00", times=2)
    own.add_click(own.add_url("c"), "2024-06-01T00:00:00", times=1)
    for command in (("stats", "2024-06"), ("top", "2024-06")):
        ran = cli(*command, "--by", "tag")
        assert (ran.code, "left out: " in ran.err) == (3, True)


@pytest.mark.parametrize("day", ["2024-03-31", "2024-10-27"])
def test_hours_are_compared_by_local_time_and_the_rest_is_told(cli: Cli, own: Sandbox, day: str) -> None:
    link = own.add_url("spring")
    before = str(date.fromisoformat(day) - timedelta(7))
    for hour in range(5):
        for at in (day, before):
            own.add_click(link, f"{at}T0{hour}:30:00", times=hour + 1)
    options = ("--by", "hour", "--timezone", "Europe/Berlin")
    ran = cli("stats", day, "--compare", before, *options)
    local = {row["hour"][11:16]: row["clicks"] for row in objects(cli("stats", before, *options).out)}
    rows = objects(ran.out)
    assert len(rows) == (23 if "03" in day else 25)
    shown = [row["clicks_before"] for row in rows if row["clicks_before"] is not None]
    times = {row["hour"][11:16] for row in rows}
    assert shown == [n for hour, n in local.items() if hour in times]
    lost = sum(local.values()) - sum(shown)
    assert (f"{lost} click" in ran.err) == bool(lost) == ("03" in day)


def test_a_label_that_is_gone_has_a_row(cli: Cli, own: Sandbox) -> None:
    link = own.add_url("spring")
    own.add_click(link, "2024-05-05T12:00:00", times=3, country="FR")
    own.add_click(link, "2024-06-05T12:00:00", times=2, country="DE")
    rows = objects(cli("stats", "2024-06", "--by", "country", "--compare", "previous").out)
    assert [(row["country"], row["clicks"], row["clicks_before"]) for row in rows] == [
        ("DE", 2, 0),
        ("FR", 0, 3),
    ]


def test_a_country_is_compared(cli: Cli, box: Sandbox) -> None:
    rows = objects(cli("stats", "country", "US", "2024-q2", "--by", "state", "--compare", "last-year").out)
    now, before = (box.truth.country("US", f"{year}-04-01", f"{year}-06-30").state for year in (2024, 2023))
    assert {
        row["state"]: (row["clicks"], row["clicks_before"]) for row in rows if row["state"] != "Other"
    } == {label: (now.get(label, 0), before.get(label, 0)) for label in {**now, **before}}


# -- when


@pytest.mark.unmeasured
@pytest.mark.parametrize("zone", ["Europe/Berlin", "+00:00"])
def test_weekdays_and_hours_of_the_week_are_counted(cli: Cli, box: Sandbox, zone: str) -> None:
    span = "2024-10-14", "2024-10-30"
    local = ZoneInfo(zone) if "/" in zone else zone
    true = box.truth.range(*span, timezone=local)
    rows = objects(cli("stats", "range", *span, "--by", "weekday", "--timezone", zone).out)
    by_weekday = Counter[str]()
    of_days = Counter(WEEKDAYS[day.weekday()] for day in days(*span))
    for day, n in true.clicks.items():
        by_weekday[WEEKDAYS[day.weekday()]] += n
    assert [(row["weekday"], row["clicks"]) for row in rows] == [
        (name, by_weekday[name]) for name in WEEKDAYS
    ]
    assert all(row["clicks_per_day"] == round(row["clicks"] / of_days[row["weekday"]], 1) for row in rows)
    hours = objects(cli("stats", "range", *span, "--by", "hour", "--timezone", zone).out)
    of_week = Counter[str]()
    for row in hours:
        at = datetime.fromisoformat(row["hour"])
        of_week[f"{WEEKDAYS[at.weekday()]} {at:%H}:00"] += row["clicks"]
    rows = objects(cli("stats", "range", *span, "--by", "weekday-hour", "--timezone", zone).out)
    assert len(rows) == 7 * 24
    assert {row["weekday_hour"]: row["clicks"] for row in rows} == of_week
    assert sum(of_week.values()) == true.total_clicks > 0


@pytest.mark.parametrize(
    ("by", "compare"), [("weekday", "2024-10-21..2024-10-27"), ("weekday-hour", "previous")]
)
def test_weekdays_that_only_the_other_span_has_are_compared(
    cli: Cli, own: Sandbox, by: str, compare: str
) -> None:
    link = own.add_url("spring")
    own.add_click(link, "2024-10-25T12:00:00", times=3)
    own.add_click(link, "2024-10-26T12:00:00", times=2)
    arguments = "stats", "2024-10-26", "--by", by, "--compare", compare
    rows = {row[by.replace("-", "_")]: row for row in objects(cli(*arguments).out)}
    hour = " 12:00" * (by == "weekday-hour")
    friday, saturday = rows[f"Friday{hour}"], rows[f"Saturday{hour}"]
    assert (friday["clicks"], friday["clicks_per_day"], friday["clicks_before"]) == (0, None, 3)
    assert (saturday["clicks"], saturday["clicks_per_day"]) == (2, 2.0)
    drawn = cli(*arguments, "--format", "table")
    assert drawn.code == 0
    assert "Friday" in drawn.out


@pytest.mark.unmeasured
def test_the_busiest_weekdays_and_hours_are_named(cli: Cli) -> None:
    """Weekdays by their clicks a day, as the span has three of some."""
    span = "2024-10-14", "2024-10-30"
    for by, figure in (("weekday", "clicks_per_day"), ("weekday-hour", "clicks_per_day"), ("hour", "clicks")):
        ran = cli("stats", "range", *span, "--by", by)
        rows = objects(ran.out)
        (told,) = re.findall(r"busiest: (.*)", ran.err)
        counts = {row[by.replace("-", "_")]: row for row in rows}
        best = [counts[label] for label in re.findall(r"(?:^|, )(.*?) \(", told)]
        assert [row[figure] for row in best] == sorted((row[figure] for row in rows), reverse=True)[:3]
    assert "busiest" not in cli("stats", "range", *span, "--by", "country").err


@pytest.mark.unmeasured
@pytest.mark.parametrize("arguments", [(), ("--by", "country", "--compare", "previous"), ("--by", "tag")])
def test_workbooks_of_statistics_name_what_they_hold_and_their_span(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = tmp_path / "stats.xlsx"
    assert cli("stats", "2024-10", *arguments, "-o", str(path)).code == 0
    (sheet,) = load_workbook(path).worksheets
    by = arguments[1] if arguments else "stats"
    assert sheet.title == f"{by} 2024-10-01..2024-10-31"
    assert ("2024-09-01" in sheet.oddHeader.left.text) == ("--compare" in arguments)


def test_tables_for_people_name_weekdays(cli: Cli) -> None:
    for by, label in (
        ("day", "2024-10-26 Sat"),
        ("week", "2024-10-21 Mon"),
        ("hour", "2024-10-27 Sun 02:00+01"),
    ):
        ran = cli(
            *(
                "stats",
                "2024-10-26..2024-10-27",
                "--by",
                by,
                "--timezone",
                "Europe/Berlin",
                "--format",
                "table",
            )
        )
        assert label in ran.out
    for by in ("weekday", "weekday-hour"):
        assert "Saturday" in cli("stats", "2024-10-26", "--by", by, "--format", "table").out


# -- words


def test_days_alone_are_a_range_of_the_account(cli: Cli, box: Sandbox) -> None:
    true = box.truth.range("2024-06-01", "2024-07-31").total_clicks
    for words in (
        ("2024-06..2024-07",),
        ("2024-06-01", "2024-07-31"),
        ("range", "2024-06..2024-07"),
        ("range", "2024-06-01", "2024-07-31", "--all"),
    ):
        assert objects(cli("stats", *words).out)[0]["clicks"] == true
    ran = cli("stats", "lats-month")
    assert (ran.code, "'last-month'" in ran.error) == (2, True)
    assert cli("stats", "yaer", "2024").code == 2


@pytest.mark.parametrize(("code", "meant"), [("England", "'GB'"), ("el", "'GR'"), ("QQ", "")])
def test_a_code_that_is_no_country_is_refused(cli: Cli, box: Sandbox, code: str, meant: str) -> None:
    ran = cli("stats", "country", code, "2024")
    assert (ran.code, meant in ran.error) == (2, True)
    assert box.requests == []


@pytest.mark.parametrize("compare", ["tomorrow", "9999", "2024-13"])
def test_what_cannot_be_compared_is_told_before_anything_is_sent(
    cli: Cli, box: Sandbox, compare: str
) -> None:
    for command in (
        ("stats", "2024-06"),
        ("top", "2024-06"),
        ("stats", "year", "2024"),
        ("stats", "alltime"),
    ):
        assert cli(*command, "--compare", compare).code == 2
    assert cli("stats", "2024-q2", "--compare", "2024-06", "--by", "hour").code == 2
    assert cli("stats", "2024-06", "--compare", "2024-q2", "--by", "hour").code == 2
    assert box.requests == []


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("command", "dimensions"),
    [
        ("range 2024-03-{}", "day weekday week month hour weekday-hour tag device platform country referrer"),
        ("year 202{}", "month device language timezone"),
        ("country US 2024-0{}", "state city postalcode"),
    ],
)
def test_every_table_of_a_dimension_is_compared_by_diff(
    cli: Cli, box: Sandbox, tmp_path: Path, command: str, dimensions: str
) -> None:
    names = ("12", "13") if command.startswith("range") else ("3", "4")
    for by in dimensions.split():
        rows: list[dict[str, int]] = []
        for name in names:
            words = command.format(name).split()
            file = str(tmp_path / f"{by}-{name}.csv")
            assert cli("stats", *words, "--by", by, "-o", file).code == 0
            found = objects(cli("stats", *words, "--by", by).out)
            rows.append({str(row[by.replace("-", "_")]): row["clicks"] for row in found})
        ran = cli("diff", *(str(tmp_path / f"{by}-{name}.csv") for name in names))
        assert ran.code == 0, ran.err
        (old, new), found = rows, objects(ran.out)
        assert {row["key"] for row in found if row["change"] == "added"} == {*new} - {*old}
        assert {row["key"] for row in found if row["change"] == "gone"} == {*old} - {*new}
        changed = {row["key"]: row["new"] for row in found if row["column"] == "clicks"}
        assert changed == {key: str(new[key]) for key in old if key in new and old[key] != new[key]}


def test_a_tag_beside_one_that_looks_alike_is_refused_unless_it_is_meant(cli: Cli, own: Sandbox) -> None:
    own.add_tag("q1-2027")
    own.add_tag("Café")
    for name in ("Q1-2027", "q1 2027", "Q1_2027", "q12027", "cafe", "CAFÉ", "Cafe\u0301"):
        ran = cli("tags", "create", name)
        assert (ran.code, "--yes" in ran.error) == (2, True), name
    before = {tag.name for tag in own.truth.tags()}
    assert cli("tags", "create", "q2-2027").code == 0
    assert cli("tags", "create", "Q1-2027", "--yes").code == 0
    assert {tag.name for tag in own.truth.tags()} - before == {"q2-2027", "Q1-2027"}
