"""`slashtag stats` of every kind, compared with the true figures of the account."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from slashtag import GeoStats, PeriodStats, _resources
from slashtag.sandbox import Sandbox

from .conftest import Cli, objects


def counts(out: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for line in out.splitlines():
        row: Any = json.loads(line)
        found.setdefault(row["dimension"], {})[row["label"]] = row["clicks"]
    return found


@pytest.mark.parametrize("command", [("year", "2024"), ("alltime",)])
def test_a_year_and_all_time_are_counted(cli: Cli, box: Sandbox, command: tuple[str, ...]) -> None:
    tag = box.truth.tags()[0].name
    truth = box.truth.year(2024, tag=tag) if len(command) > 1 else box.truth.alltime(tag=tag)
    found = counts(cli("stats", *command, "--tag", tag).out)
    assert found["total"] == {"": truth.clicks_total}
    assert found["unique"] == {"": truth.clicks_unique}
    assert found["repeated"] == {"": truth.clicks_repeated}
    assert found["country"] == truth.country
    months = {
        f"{year}-{month:02d}": n
        for year, by_month in truth.clicks_breakdown.items()
        for month, n in by_month.items()
    }
    assert {label: n for label, n in found["month"].items() if n} == {
        label: n for label, n in months.items() if n
    }


def test_a_country_is_counted(cli: Cli, box: Sandbox) -> None:
    truth = box.truth.country("DE", "2024-01-01", "2024-12-31")
    ran = cli("stats", "country", "de", "2024-01-01", "2024-12-31", "--all", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    states = {row["label"]: int(row["clicks"]) for row in rows if row["dimension"] == "state"}
    assert {label: n for label, n in states.items() if n} == {k: n for k, n in truth.state.items() if n}
    assert rows[0] == {"dimension": "total", "label": "", "clicks": str(sum(truth.state.values()))}


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("command", "by"),
    [
        (("range", "2024-01-15", "2024-04-10"), "day"),
        (("range", "2024-01-15", "2024-04-10"), "country"),
        (("year", "2024"), "month"),
        (("year", "2024"), "device"),
        (("country", "US", "2024-01-01", "2024-12-31"), "city"),
    ],
)
def test_one_dimension_has_every_label_and_its_share(cli: Cli, command: tuple[str, ...], by: str) -> None:
    everything = counts(cli("stats", *command, "--all").out)
    total = everything["total"][""]
    rows = [json.loads(line) for line in cli("stats", *command, "--all", "--by", by).out.splitlines()]
    assert rows == [
        {by: label, "clicks": n, "percent": round(100 * n / total, 1)} for label, n in everything[by].items()
    ]
    drawn = cli("stats", *command, "--all", "--by", by, "--format", "table").out
    assert all(label in drawn for label in everything[by])
    assert drawn.split()[-2:] == ["total", f"{total:,}"]


@pytest.mark.parametrize(
    ("by", "spans"),
    [
        ("month", {"2024-01": "2024-01-15..2024-01-31", "2024-02": "2024-02-01..2024-02-20"}),
        ("week", {"2024-01-15": "2024-01-17..2024-01-21", "2024-01-22": "2024-01-22..2024-01-27"}),
    ],
)
def test_days_are_summed_by_month_and_week(cli: Cli, box: Sandbox, by: str, spans: dict[str, str]) -> None:
    (first, _), (_, last) = days = [span.split("..") for span in spans.values()]
    out = cli("stats", "range", first, last, "--all", "--by", by, "--format", "csv").out
    counts = [str(box.truth.range(*span).total_clicks) for span in days]
    assert [row.split(",")[:2] for row in out.splitlines()[1:]] == [
        [*row] for row in zip(spans, counts, strict=True)
    ]


@pytest.mark.unmeasured
def test_every_tag_is_counted_alone(cli: Cli, box: Sandbox) -> None:
    ran = cli("stats", "range", "2024", "--all", "--by", "tag")
    found = {row["tag"]: row["clicks"] for row in map(json.loads, ran.out.splitlines())}
    names = [tag.name for tag in box.truth.tags()]
    assert found.popitem()[0] == "no tag"
    assert found == {
        name: box.truth.range("2024-01-01", "2024-12-31", tag=name).total_clicks for name in names
    }
    assert list(found.values()) == sorted(found.values(), reverse=True)
    one = cli("stats", "year", "2024", "--tag", names[0], "--by", "tag").out
    assert [json.loads(one)[name] for name in ("tag", "percent")] == [names[0], 100.0]


@pytest.mark.unmeasured
@pytest.mark.parametrize("command", [("range", "2024-10-26", "2024-10-27"), ("range", "2024-10-27")])
def test_hours_are_counted_and_their_cost_is_told_first(
    cli: Cli, box: Sandbox, command: tuple[str, ...]
) -> None:
    zone = ("--timezone", "Europe/Berlin")
    ran = cli("stats", *command, "--all", "--by", "hour", *zone, "-v")
    rows = objects(ran.out)
    total = box.truth.range(command[1], command[-1], timezone=ZoneInfo("Europe/Berlin")).total_clicks
    assert len(rows) == 24 * len(command) - 23
    assert rows[-1]["hour"] == "2024-10-27T23:00+01:00"
    assert sum(row["clicks"] for row in rows) == total > 0
    drawn = cli("stats", *command, "--all", "--by", "hour", *zone, "--format", "table").out
    assert drawn.split()[-2:] == ["total", str(total)]
    cost, *_, summary = ran.err.splitlines()
    assert re.search(r"\b\d+ requests", cost)
    assert f": {total} click" in summary


def test_bounds_are_called_bounds(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        PeriodStats(clicks_total=5, clicks_unique=4, unique_is_exact=False),
        GeoStats(places_are_exact=False),
    ]

    async def collect(*_: object, keys: object, **__: object) -> object:
        return answers[0] if keys == () else answers.pop(0)

    monkeypatch.setattr(_resources.stats.Stats, "collect", collect)
    ran = cli("stats", "alltime", "--all", "--format", "table")
    assert "unique clicks are an upper bound" in ran.err
    assert ["unique", "at", "most", "4"] in [line.split() for line in ran.out.splitlines()]
    ran = cli("stats", "country", "DE", "2024-01-01", "2024-12-31", "--all")
    assert "the named ones are lower bounds" in ran.err


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (("year", "2024", "--all", "--by", "day"), "--by day is not counted here"),
        (("range", "2024", "--all", "--by", "city"), "--by city is not counted here"),
        (("country", "DE", "2024", "--all", "--by", "weekday"), "--by weekday is not counted here"),
        (("range", "2024", "--all", "--by", "hour"), "32 days"),
        (("year", "2024", "--all", "--by", "hour"), "--by hour is not counted here"),
        (("year", "2024", "--all", "--timezone", "Europe/Berlin"), "has 2 UTC offsets"),
        (("range", "0001-01-01", "0001-02-01", "--all"), "lies outside the calendar"),
    ],
)
def test_what_cannot_be_asked_is_told_before_the_links_are_read(
    cli: Cli, box: Sandbox, question: tuple[str, ...], problem: str
) -> None:
    ran = cli("stats", *question)
    assert (ran.code, problem in ran.error) == (2, True), ran.err
    assert box.requests == []


@pytest.mark.parametrize("words", ["UK 2024", "2024 gb", "United Kingdom last year", "2024-01 2024-06 GB"])
def test_a_country_has_its_name_or_code_before_or_after_the_days(cli: Cli, box: Sandbox, words: str) -> None:
    ran = cli("stats", "country", *words.split(), "--by", "state")
    assert (ran.code, ran.err.startswith("GB, ")) == (0, True)
    assert {arrival.query["iso_code"] for arrival in box.requests if "iso_code" in arrival.query} == {"GB"}
