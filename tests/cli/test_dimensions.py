"""Clicks by two dimensions, and of a country by time: every number against the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from slashtag._by_tag import NO_TAG
from slashtag.sandbox import Sandbox
from slashtag.tables import read_table

from .conftest import Cli, objects

#: A Monday is neither its first day nor its last one a Sunday.
SPAN = ("2024-05-15", "2024-06-12")
ZONE = "+05:30"
DEVICES = ("Desktop", "Mobile")


@pytest.fixture
def campaigns(own: Sandbox) -> Sandbox:
    """Links of two tags and without one, of which two share a slashtag; clicks about midnight."""
    for tag in ("spring", "autumn", "idle"):
        own.add_tag(tag)
    links = [("own", 0, "spring"), ("sale", 0, "spring"), ("sale", 1, None), ("fair", 0, "autumn")]
    links += [("both", 0, "spring"), ("both", 1, "autumn"), ("rest", 0, None)]
    for n, (slashtag, domain, tag) in enumerate(links, 1):
        link = own.add_url(slashtag, domain_id=domain, tag=tag)
        for day in range(0, 29, n % 3 + 2):
            at = f"{date(2024, 5, 15) + timedelta(day)}T{(19, 12)[n % 2]}:00:00"
            labels: dict[str, Any] = {"device": DEVICES[(n + day) % 2], "country": ("GB", "SE")[day % 2]}
            own.add_click(link, at, times=n, **labels)
    return own


def label_of(day: date, unit: str) -> str:
    return str(day)[:7] if unit == "month" else str(day - timedelta(day.weekday() if unit == "week" else 0))


def labels(stats: Any, by: str) -> Mapping[str, int]:
    """The clicks of a true range by a dimension."""
    if by not in ("day", "week", "month"):
        return {label: n for label, n in getattr(stats, by).items() if n}
    found = Counter[str]()
    for day, n in stats.clicks.items():
        found[label_of(day, by)] += n
    return found


def true_cells(box: Sandbox, by: str, zone: str, span: tuple[str, str] = SPAN) -> dict[tuple[str, str], int]:
    """The clicks of each tag and of none by a dimension, without zeros."""
    cells = {
        (tag.name, label): n
        for tag in box.truth.tags()
        for label, n in labels(box.truth.range(*span, tag=tag.name, timezone=zone), by).items()
    }
    for label, n in labels(box.truth.range(*span, timezone=zone), by).items():
        cells[NO_TAG, label] = n - sum(m for (_, each), m in cells.items() if each == label)
    return {cell: n for cell, n in cells.items() if n}


@pytest.mark.unmeasured
@pytest.mark.parametrize("zone", ["+00:00", ZONE])
@pytest.mark.parametrize("by", ["day", "week", "month", "device", "country"])
@pytest.mark.parametrize("compared", [False, True])
def test_each_tag_and_none_is_counted_by_another_dimension(
    cli: Cli, campaigns: Sandbox, by: str, zone: str, compared: bool
) -> None:
    compare = ("--compare", "2024-04-17..2024-05-15") if compared else ()
    ran = cli("stats", *SPAN, "--by", f"{by},tag", "--timezone", zone, *compare)
    rows = objects(ran.out)
    assert ran.code == 0
    assert {(row["tag"], row[by]): row["clicks"] for row in rows if row["clicks"]} == (
        true_cells(campaigns, by, zone)
    )
    assert sum(row["clicks"] for row in rows) == campaigns.truth.range(*SPAN, timezone=zone).total_clicks
    assert len({(row["tag"], row[by]) for row in rows}) == len(rows)
    if by in ("day", "week", "month"):
        names = [tag.name for tag in campaigns.truth.tags()]
        every = {(tag, label) for tag in [*names, NO_TAG] for label in labels_of(by)}
        assert {(row["tag"], row[by]) for row in rows} == every
    if compared and by in ("device", "country"):
        before = true_cells(campaigns, by, zone, ("2024-04-17", "2024-05-15"))
        assert {(r["tag"], r[by]): r["clicks_before"] for r in rows if r["clicks_before"]} == before


@pytest.mark.unmeasured
@pytest.mark.parametrize("by", ["device,tag", "week,tag", "month,country"])
@pytest.mark.parametrize("tags", [(), ("--tag", "spring", "--tag", "autumn")])
def test_shares_are_of_the_clicks_of_the_tag_or_month(
    cli: Cli, campaigns: Sandbox, by: str, tags: tuple[str, ...], tmp_path: Path
) -> None:
    ran = cli("stats", *SPAN, "--by", by, *tags)
    group = next(name for name in ("tag", "month") if name in by)
    assert f"percent: of the clicks of its {group}" in ran.lines
    rows = objects(ran.out)
    whole = Counter[str]()
    for row in rows:
        whole[row[group]] += row["clicks"]
    if group == "tag":
        true = {name: campaigns.truth.range(*SPAN, tag=name).total_clicks for name in ("spring", "autumn")}
        assert {name: whole[name] for name in true} == true
    assert [row["percent"] for row in rows] == [
        round(100 * row["clicks"] / whole[row[group]], 1) if whole[row[group]] else 0 for row in rows
    ]
    path = tmp_path / "cells.csv"
    cli("stats", *SPAN, "--by", by, *tags, "-o", str(path))
    shares = dict.fromkeys(whole, 0.0)
    for _, cells in read_table(path)[1]:
        shares[cells[group]] += float(cells["percent"])
    assert +whole
    assert all(shares[name] == pytest.approx(100, abs=0.5) for name in +whole)


def labels_of(unit: str) -> set[str]:
    first = date.fromisoformat(SPAN[0])
    return {label_of(first + timedelta(n), unit) for n in range(29)}


def test_days_of_each_tag_are_compared_with_those_of_the_same_tag(cli: Cli, campaigns: Sandbox) -> None:
    ran = cli("stats", "2024-06-03..2024-06-09", "--by", "tag,day", "--compare", "previous")
    before = true_cells(campaigns, "day", "+00:00", ("2024-05-27", "2024-06-02"))
    found = {
        (row["tag"], str(date.fromisoformat(row["day"]) - timedelta(7))): row["clicks_before"]
        for row in objects(ran.out)
    }
    assert {cell: n for cell, n in found.items() if n} == before


@pytest.mark.parametrize("by", ["week", "month", "weekday", "country"])
@pytest.mark.parametrize("query", [("range", "2024-05-08..2024-06-12"), ("year", "2024")])
def test_what_the_tags_had_before_adds_up_to_what_all_links_had(
    cli: Cli, campaigns: Sandbox, by: str, query: tuple[str, ...]
) -> None:
    if query[0] == "year" and by.startswith("week"):
        assert cli("stats", *query, "--by", f"{by},tag", "--compare", "previous").code == 2
        return
    alone, each = (
        objects(cli("stats", *query, "--by", given, "--compare", "2024-05-01..2024-05-29").out)
        for given in (by, f"{by},tag")
    )
    for column in ("clicks", "clicks_before"):
        sums = Counter[str]()
        for row in each:
            sums[row[by]] += row[column] or 0
        assert +sums == +Counter({row[by]: row[column] or 0 for row in alone})
        assert sums.total() > 0


def test_links_that_are_counted_together_are_told(cli: Cli, campaigns: Sandbox) -> None:
    for given, says in ((("--keys", "own,sale"), "slashtag top"), (("--keys", "own"), None)):
        ran = cli("stats", *SPAN, *given)
        assert len(ran.lines) == 1 + (says is not None)
        assert says is None or says in ran.lines[-1]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "given", [("--by", "tag,week"), ("--by", "week", "--by", "tag"), ("--by", "tag+week")]
)
def test_two_dimensions_are_given_in_any_order_and_form(
    cli: Cli, campaigns: Sandbox, given: tuple[str, ...], tmp_path: Path
) -> None:
    expected = cli("stats", *SPAN, "--by", "week,tag", "--format", "csv")
    assert cli("stats", *SPAN, *given, "--format", "csv").out == expected.out
    drawn = cli("stats", *SPAN, *given, "--format", "table").out
    assert max(map(len, drawn.splitlines())) <= 80
    assert drawn.count("spring") == expected.out.count("spring")
    path = tmp_path / "weeks.xlsx"
    assert cli("stats", *SPAN, *given, "-o", str(path)).code == 0
    header, *rows = load_workbook(path).active.iter_rows(values_only=True)
    assert header == ("tag", "week", "clicks", "percent")
    assert len(rows) == len(read_table(path)[1]) == len(expected.out.splitlines()) - 1
    (tmp_path / "weeks.csv").write_text(expected.out)
    assert "0 added, 0 gone, 0 changed" in cli("diff", str(path), str(tmp_path / "weeks.csv")).err


def test_selected_tags_are_counted_by_week_without_the_others(cli: Cli, campaigns: Sandbox) -> None:
    rows = objects(cli("stats", *SPAN, "--by", "week,tag", "--tag", "spring", "--tag", "autumn").out)
    true = true_cells(campaigns, "week", "+00:00")
    found = {(row["tag"], row["week"]): row["clicks"] for row in rows if row["clicks"]}
    assert found == {cell: n for cell, n in true.items() if cell[0] != NO_TAG}
    together = cli("stats", *SPAN, "--by", "week", "--tag", "spring", "--tag", "autumn")
    assert "--by week,tag" in together.err
    assert sum(row["clicks"] for row in objects(together.out)) == sum(found.values())


@pytest.mark.parametrize(
    ("command", "by"), [("top", "tag"), ("stats", "tag"), ("stats", "week,tag"), ("stats", "device,tag")]
)
def test_given_links_are_counted_by_tag(
    cli: Cli, campaigns: Sandbox, command: str, by: str, tmp_path: Path
) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("own\nsale\nfair\nboth\nrest\n")
    groups = {"spring": ["own"], "autumn": ["fair"], NO_TAG: ["rest"]}
    groups |= {"no tag, spring": ["sale"], "autumn, spring": ["both"]}
    ran = cli(command, *SPAN, "--keys-file", str(file), "--by", by)
    assert (ran.code, "2 slashtags of links with different tags" in ran.err) == (0, True)
    found: dict[str, Counter[str]] = {}
    for row in objects(ran.out):
        found.setdefault(row["tag"], Counter())[row.get(by.removesuffix(",tag"), "")] += row["clicks"]
    for group, keys in groups.items():
        true = campaigns.truth.range(*SPAN, keys=keys)
        expected = Counter({group: true.total_clicks} if by == "tag" else labels(true, by[: by.index(",")]))
        assert found[group] == expected
    assert found.keys() == groups.keys()
    total = sum(counts.total() for counts in found.values())
    assert total == campaigns.truth.range(*SPAN).total_clicks
    alone = cli(command, *SPAN, "--keys", "own,fair", "--by", by)
    assert {row["tag"] for row in objects(alone.out)} == {"spring", "autumn"}
    assert "different tags" not in alone.err
    none = cli(command, *SPAN, "--untagged", "--by", by)
    assert {row["tag"] for row in objects(none.out)} == {NO_TAG, "no tag, spring"}


@pytest.mark.parametrize("command", ["stats", "top"])
def test_given_links_by_tag_are_compared_with_those_before(
    cli: Cli, campaigns: Sandbox, command: str
) -> None:
    given = ("--keys", "own,sale,fair", "--by", "tag", "--compare", "2024-05-15..2024-05-28")
    rows = objects(cli(command, "2024-05-29..2024-06-11", *given).out)
    groups = {"spring": ["own"], "no tag, spring": ["sale"], "autumn": ["fair"]}
    spans = ("2024-05-29", "2024-06-11"), ("2024-05-15", "2024-05-28")
    assert {row["tag"]: (row["clicks"], row["clicks_before"]) for row in rows} == {
        group: tuple(campaigns.truth.range(*span, keys=keys).total_clicks for span in spans)
        for group, keys in groups.items()
    }


@pytest.mark.unmeasured
def test_a_calendar_year_is_counted_by_tag_and_month(cli: Cli, campaigns: Sandbox) -> None:
    whole = true_cells(campaigns, "month", "+00:00", ("2024-01-01", "2024-12-31"))
    for query in (("year", "2024"), ("range", "2024"), ("alltime",)):
        rows = objects(cli("stats", *query, "--by", "month,tag").out)
        assert {(row["tag"], row["month"]): row["clicks"] for row in rows if row["clicks"]} == whole


@pytest.mark.parametrize("unit", ["day", "week", "month"])
@pytest.mark.parametrize("zone", ["+00:00", ZONE])
def test_a_country_and_a_dimension_are_counted_by_time(
    cli: Cli, campaigns: Sandbox, unit: str, zone: str
) -> None:
    true = Counter[str]()
    devices = Counter[tuple[str, str]]()
    for n in range(29):
        day = date.fromisoformat(SPAN[0]) + timedelta(n)
        stats = campaigns.truth.range(day, day, timezone=zone)
        true[label_of(day, unit)] += stats.country.get("GB", 0)
        devices.update({(label_of(day, unit), label): clicks for label, clicks in stats.device.items()})
    ran = cli("stats", "country", "UK", *SPAN, "--by", unit, "--timezone", zone)
    assert ran.code == 0
    assert {row[unit]: row["clicks"] for row in objects(ran.out)} == true
    requests = len([each for each in campaigns.requests if each.path.endswith("/geo")])
    assert f"{requests} request" in ran.err
    rows = objects(cli("stats", *SPAN, "--by", f"device,{unit}", "--timezone", zone).out)
    assert {(row[unit], row["device"]): row["clicks"] for row in rows} == {
        cell: n for cell, n in devices.items() if n
    }


@pytest.mark.unmeasured
def test_the_first_and_last_week_that_are_not_whole_are_noted(cli: Cli, campaigns: Sandbox) -> None:
    whole = ("2024-05-20", "2024-06-09")
    for command in (("--by", "week"), ("--by", "week,tag"), ("--by", "week,device")):
        noted = [len(cli("stats", *span, *command).lines) for span in (SPAN, whole)]
        assert noted[0] == noted[1] + 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stats", *SPAN, "--by", "country,device"), "week,tag"),
        (("stats", *SPAN, "--by", "week,month"), "week,tag"),
        (("stats", *SPAN, "--by", "week,", "tag"), "week,tag"),
        (("stats", *SPAN, "--by", "week,tag,device"), "week,tag"),
        (("stats", *SPAN, "--by", "hour,tag"), "--tag"),
        (("stats", *SPAN, "--by", "wek,tag"), "'week'"),
        (("stats", *SPAN, "--by", "week,country", "--compare", "previous"), "slashtag diff"),
        (("stats", "year", "2024", "--by", "week,tag"), "stats range 2024"),
        (("stats", "year", "2024", "--by", "month,country"), "stats range 2024"),
        (("stats", "alltime", "--by", "month,country"), "slashtag stats"),
        (("stats", "country", "GB", "2024", "--by", "day"), "--by month"),
        (("stats", "country", "GB", "2024", "--by", "month", "--compare", "2023"), "slashtag diff"),
        (("stats", "country", "GB", "2024", "--by", "tag,city"), "--by tag"),
        (("export", "clicks", *SPAN, "--by", "week"), f"stats {' '.join(SPAN)} --by week,tag -o FILE.csv"),
        (("export", "clicks", *SPAN, "--by", "tag,month", "-o", "a.xlsx"), "--by tag,month -o a.xlsx"),
        (("export", "clicks", *SPAN, "--by", "tga"), "'tag'"),
        (("export", "clicks", *SPAN, "--period", "week"), "--by week,tag"),
    ],
)
def test_what_is_not_counted_leads_to_what_is(
    cli: Cli, box: Sandbox, arguments: tuple[str, ...], says: str
) -> None:
    ran = cli(*arguments)
    assert (ran.code, says in ran.error) == (2, True)
    assert not box.requests
