"""`stats`: what each question answers beside the numbers that test_truth.py counts."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slashtag.cli import selection
from slashtag.sandbox import Sandbox
from tests.support.own_count import read_log
from tests.support.sandboxes import altered, forget
from tests.support.tables import cells

from .conftest import Cli, Serve, objects


def at(monkeypatch: pytest.MonkeyPatch, *moment: int) -> None:
    """Have another present time."""
    monkeypatch.setattr(selection, "now_in", datetime(*moment, tzinfo=UTC).astimezone)  # type: ignore[misc]


def test_all_dimensions_of_a_span_are_rows_beside_those_before(cli: Cli, box: Sandbox) -> None:
    may, june = (box.truth.range(f"2024-0{n}-01", f"2024-0{n}-{last}") for n, last in ((5, 31), (6, 30)))
    ran = cli("stats", "2024-06", "--compare", "previous")
    for name, true in (("clicks", june), ("clicks_before", may)):
        found = dict[str, dict[str, int]]()
        for row in objects(ran.out):
            if row[name]:
                found.setdefault(row["dimension"], {})[row["label"]] = row[name]
        assert found.pop("total") == {"": true.total_clicks}
        days = found.pop("day")
        assert true is may or days == {str(day): n for day, n in true.clicks.items() if n}
        assert found == {each: getattr(true, each) for each in found}
        assert {*found} == {"device", "browser", "platform", "country", "referrer"}
    now, then = june.total_clicks, may.total_clicks
    before = f"compared with 2024-05-01..2024-05-31: {then} clicks, {100 * (now - then) / then:+.1f} %; "
    assert f"2024-06-01..2024-06-30 (UTC): {now} clicks, {before}" in ran.err


@pytest.mark.parametrize("span", ["2023", "alltime"])
def test_a_year_and_all_time_have_unique_clicks_and_zones(cli: Cli, box: Sandbox, span: str) -> None:
    true = box.truth.alltime() if span == "alltime" else box.truth.year(2023)
    forget(box)
    rows = objects(cli("stats", span).out)
    asked = {arrival.path.rpartition("/")[2] for arrival in box.requests} - {"urls"}
    assert asked == {"alltime" if span == "alltime" else "yearly"}
    found = {(row["dimension"], row["label"]): row["clicks"] for row in rows}
    assert found["total", ""] == found["unique", ""] + found["repeated", ""] == true.clicks_total
    assert found["unique", ""] >= true.clicks_unique
    months = {label: n for (name, label), n in found.items() if name == "month"}
    of_years = true.clicks_breakdown.items()
    assert months == {f"{year}-{n:02d}": clicks for year, of in of_years for n, clicks in of.items()}
    zones = {row["timezone"]: row["clicks"] for row in objects(cli("stats", span, "--by", "timezone").out)}
    assert zones == true.timezone


def test_each_month_of_a_year_has_a_row(cli: Cli, own: Sandbox) -> None:
    for clicks in (0, 5):
        own.add_click("a1", "2023-03-02T00:00:00", times=clicks)
        rows = objects(cli("stats", "2023", "--by", "month", "--keys", "a1").out)
        months = {f"2023-{n:02d}": clicks * (n == 3) for n in range(1, 13)}
        assert {row["month"]: row["clicks"] for row in rows} == months
        assert len(objects(cli("stats", "2023", "--by", "tag,month").out)) == 12 * bool(clicks)


@pytest.mark.parametrize(("span", "by"), [("2024-06", "city"), ("2024-06", "week"), ("2024", "tag")])
def test_one_country_is_counted_by_places_by_time_or_by_tag(
    cli: Cli, box: Sandbox, span: str, by: str
) -> None:
    true = box.truth.range("2024-06-01", "2024-06-30", country="US")
    log = [
        click for click in read_log(box) if click.labels["country"] == "US" and f"{click.at}".startswith(span)
    ]
    ran = cli("stats", span, "--country", "us", "--by", by)
    rows = objects(ran.out)
    assert (ran.code, sum(row["clicks"] for row in rows)) == (0, len(log))
    if by == "city":
        assert {row["city"]: row["clicks"] for row in rows if row["clicks"]} == +Counter(true.city)


def test_hours_of_the_log_are_those_of_the_rows(cli: Cli, box: Sandbox) -> None:
    ran = cli("stats", "2024-06-03..2024-06-05", "--by", "hour", "--compare", "previous")
    rows = objects(ran.out)
    log = Counter(f"{click.at:%FT%H}" for click in read_log(box))
    timed = [row for row in rows if row["hour"]]
    assert len(timed) == 72
    assert f": {sum(row['clicks'] for row in rows)} clicks, compared" in ran.err
    for row in timed:
        assert row["clicks"] == log[row["hour"][:13]]
        assert row["clicks_before"] == log[row["compared_with"][:13]]


# -- what is easily read wrong


def test_the_part_of_today_counts_as_no_day(cli: Cli, own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """2024-06-14 is a Friday: three whole ones of 24 clicks, and a fourth that has begun."""
    at(monkeypatch, 2024, 6, 14, 6)
    for day in ("2024-05-24", "2024-05-31", "2024-06-07"):
        own.add_click("a1", f"{day}T09:00:00", times=24)
    own.add_click("a1", "2024-06-14T05:00:00", times=7)
    rows = objects(cli("stats", "4w", "--by", "weekday").out)
    (friday,) = (row for row in rows if row["weekday"] == "Friday")
    assert (friday["clicks"], friday["clicks_per_day"]) == (79, 24.0)
    rows = objects(cli("stats", "2d", "--by", "weekday").out)
    assert [row["clicks_per_day"] for row in rows] == [0.0, None]
    (row,) = objects(cli("stats", "2024-06-07", "--by", "weekday").out)
    assert row["clicks_per_day"] == 24.0  # it is over


def test_a_week_that_is_not_whole_is_marked(cli: Cli, box: Sandbox) -> None:
    for by in ("week", "tag,week"):
        rows = objects(cli("stats", "2024-06-06..2024-06-18", "--by", by).out)
        assert {row["week"]: row["days"] for row in rows} == {
            "2024-06-03": 4,
            "2024-06-10": 7,
            "2024-06-17": 2,
        }


def test_shares_of_two_dimensions_are_of_the_group(cli: Cli) -> None:
    shares = Counter[str]()
    for row in objects(cli("stats", "2024-06-03..2024-06-16", "--by", "tag,week").out):
        shares[row["tag"]] += row["percent"]
    assert {round(share) for share in shares.values()} <= {0, 100}
    assert len(shares) > 5


def test_links_without_a_tag_have_one_number_where_a_slashtag_is_shared(cli: Cli, own: Sandbox) -> None:
    own.add_tag("no tag")
    tagged = own.add_url("a0", tag="no tag", domain_id=1)
    own.add_click("a0", "2024-06-02T00:00:00", times=20)
    own.add_click(tagged, "2024-06-02T00:00:00", times=3)
    of_all = {row["tag"]: row["clicks"] for row in objects(cli("stats", "2024-06", "--by", "tag").out)}
    assert {name: n for name, n in of_all.items() if n} == {"no tag": 3, "(no tag)": 20}
    ran = cli("stats", "2024-06", "--untagged", "--by", "country")
    assert (ran.code, sum(row["clicks"] for row in objects(ran.out))) == (0, 20)
    assert len(ran.err.splitlines()) == 1
    # A short URL that shares its slashtag cannot be counted alone, nor can hours.
    for selected in (("--keys", own.truth.urls()[0].short_url), ("--untagged", "--by", "hour")):
        ran = cli("stats", "2024-06", *selected)
        assert (ran.code, "a0" in ran.err) == (3, True)


def test_given_links_are_counted_by_their_tag(cli: Cli, own: Sandbox) -> None:
    for name in ("spring", "no tag"):
        own.add_tag(name)
    own.add_url("a1", tag="spring", domain_id=1)
    own.add_url("b", tag="no tag")
    for key, times in (("a0", 2), ("a1", 3), ("b", 4)):
        own.add_click(key, "2024-06-02T00:00:00", times=times)
    rows = objects(cli("stats", "2024-06", "--keys", "a0,a1,b", "--by", "tag").out)
    assert {row["tag"]: row["clicks"] for row in rows} == {"no tag": 4, "(no tag), spring": 3, "(no tag)": 2}


def test_no_links_are_no_clicks(cli: Cli, serve: Serve) -> None:
    with serve(urls=0, clicks=0):
        ran = cli("stats", "2024-06", "--by", "day")
        assert (ran.code, sum(row["clicks"] for row in objects(ran.out))) == (0, 0)
        assert cli("stats", "2024-06", "--untagged").code == 2


#: A question, and a part of the error.
REFUSED = """
2024 --by contry                              | 'country'
2024 --by link                                | slashtag top
2024 --by country,device                      | one is tag, day, week or month
2024-06 --country US --by tag,city            | one is tag, day, week or month
2024 --by month,country --compare previous    | --compare
2024-06 --by language                         | whole year
2023 --by timezone --timezone Europe/Berlin   | one offset
alltime --country US                          | alltime
2024-06 --country Atlantis                    | Atlantis
2024 --by hour                                | 32 days
2024 --compare 2024                           | itself
2999 --by day                                 | after today
--by day                                      | one SPAN
2024-06 --timezone Mars/Olympus               | Mars/Olympus
"""


@pytest.mark.parametrize(("arguments", "says"), cells(REFUSED))
def test_what_cannot_be_counted_is_refused_before_clicks_are_asked_for(
    cli: Cli, box: Sandbox, arguments: str, says: str
) -> None:
    forget(box)
    ran = cli("stats", *arguments.split())
    assert (ran.code, says in ran.error) == (2, True), ran.err
    assert not [arrival for arrival in box.requests if "stats" in arrival.path]


def test_the_last_unit_of_a_span_ends_at_the_present(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks = sorted(click.at for click in read_log(box) if f"{click.at:%Y-%m}" == "2024-06")
    present = clicks[len(clicks) // 2] - timedelta(seconds=1)
    at(monkeypatch, *present.timetuple()[:6])
    rows = objects(cli("stats", "this-month", "--by", "month,device").out)
    assert sum(row["clicks"] for row in rows if row["month"] == "2024-06") == sum(
        each <= present for each in clicks
    )
    # Places are counted by whole days, which is told.
    ran = cli("stats", "this-month", "--country", "US", "--compare", "previous")
    assert (ran.code, len(ran.err.splitlines())) == (0, 2)


@pytest.mark.parametrize("slashtag", ["cannot,be-requested", "last-second-of-an-hour"])
def test_hours_that_lack_clicks_are_told(cli: Cli, serve: Serve, tmp_path: Path, slashtag: str) -> None:
    with serve(range_end="exclusive") as box:
        box.add_click(box.add_url(slashtag), "2024-06-02T10:59:59")
        ran = cli("stats", "2024-06", "--by", "hour", "-o", str(tmp_path / "x.csv"))
    assert (ran.code, ": 0 clicks;" in ran.err, "complete: false" in ran.err) == (3, True, True)


@pytest.mark.parametrize("month", ["2024-05", "2024-06"])
@pytest.mark.parametrize(
    "command",
    [
        "stats 2024-06 --by country --compare previous",
        "report 2024-06 -o a.html",
        "export clicks 2024-05-01..2024-06-30 --dimensions -o a.csv",
    ],
)
def test_labels_that_either_span_lacks_are_told(
    cli: Cli, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, month: str
) -> None:
    monkeypatch.chdir(tmp_path)

    def lack(asked: Any, answered: Any) -> Any:
        if not asked.query.get("date_range", "").startswith(month):
            return answered
        return msgspec.structs.replace(answered, data={**answered.data, "country": {}})

    total = box.truth.range("2024-06-01", "2024-06-30").total_clicks
    with altered(box, lack):
        ran = cli(*command.split())
    assert (ran.code, "complete: false" in ran.err) == (3, "export" in command)
    for row in objects(ran.out):
        assert row["percent"] == round(100 * row["clicks"] / total, 1)
