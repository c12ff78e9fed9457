"""The demo does the main job, checks every number of it, and says so."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slashtag import GeoStats, PeriodStats, RangeStats, ShortUrl
from slashtag.cli import main
from slashtag.cli.commands.demo import differences, listing_differences
from slashtag.sandbox import Link, Sandbox, TrueCountry, TruePeriod, TrueRange

from .conftest import Cli

SMALL = ("demo", "--urls", "240", "--clicks", "3000", "--rate", "500")
RANGE = TrueRange(
    total_clicks=3, clicks={}, device={"Mobile": 3}, browser={}, platform={}, country={}, referrer={}
)
MAPS: dict[str, Any] = {
    name: {} for name in ("browser", "country", "device", "platform", "referrer", "timezone")
}
PERIOD = TruePeriod(
    clicks_total=5, clicks_unique=3, clicks_repeated=2, clicks_breakdown={2024: {1: 5}}, **MAPS
)
PLACES = TrueCountry(state={"Bayern": 2}, city={"München": 2}, postalcode={"80331": 2})


def test_every_total_is_exact(cli: Cli) -> None:
    ran = cli(*SMALL)
    assert (ran.code, ran.err) == (0, "")
    assert "NO" not in ran.out
    assert len(re.findall(r" yes +$", ran.out, re.M)) == 6
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.usefixtures("environment")
def test_an_ascii_terminal_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", write_through=True))
    monkeypatch.setattr(sys, "argv", ["slashtag", *SMALL])
    assert main() == 0
    text = printed.getvalue().decode("ascii")
    assert "2024, tag ?" in text
    assert "\nExact: " in text


def test_a_difference_is_named_and_exits_with_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Sandbox.truth.fget

    class Wrong:
        def __init__(self, box: Sandbox) -> None:
            self._truth: Any = truth(box)  # type: ignore[misc]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._truth, name)

        def year(self, *arguments: Any, **more: Any) -> TruePeriod:
            right = self._truth.year(*arguments, **more)
            return replace(right, device=right.device | {"Toaster": 1})

    monkeypatch.setattr(Sandbox, "truth", property(Wrong))
    ran = cli(*SMALL)
    assert ran.code == 1
    (line,) = re.findall("^NOT EXACT: .*", ran.out, re.M)
    assert line.endswith(": device")
    assert len(re.findall(r" NO +$", ran.out, re.M)) == 2


def test_bars_show_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "2024 by day" in cli(*SMALL).err


def test_a_limit_that_was_learnt_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag._sending.metrics.Metrics.learned_rate", property(lambda _: 61.7))
    assert "Limit as learnt from the answers: 62 requests/s" in cli(*SMALL).out
    monkeypatch.setattr("slashtag._sending.metrics.Metrics.learned_rate", property(lambda _: None))
    assert "learnt" not in cli(*SMALL).out


@pytest.mark.parametrize(
    ("stats", "truth", "wrong"),
    [
        (RangeStats(total_clicks=3, device={"Mobile": 3}), RANGE, []),
        (RangeStats(total_clicks=4, device={"Mobile": 3}), RANGE, ["total_clicks"]),
        (RangeStats(total_clicks=3, device={"Tablet": 3}, country={"DE": 1}), RANGE, ["device", "country"]),
        (GeoStats(state={"Bayern": 2, "Other": 0}, city={"München": 2}, postalcode={"80331": 2}), PLACES, []),
        (
            GeoStats(state={"Bayern": 1, "Other": 1}, city={"München": 2}, postalcode={"80331": 2}),
            PLACES,
            ["state"],
        ),
        (
            GeoStats(
                state={"Bayern": 2}, city={"München": 2}, postalcode={"80331": 2}, places_are_exact=False
            ),
            PLACES,
            ["places_are_exact"],
        ),
    ],
)
def test_what_differs_is_named(stats: Any, truth: Any, wrong: list[str]) -> None:
    assert differences(truth, stats) == wrong


@pytest.mark.parametrize(
    ("unique", "repeated", "exact", "wrong"),
    [
        (3, 2, True, []),
        (4, 1, True, ["clicks_unique", "clicks_repeated"]),
        (4, 1, False, []),
        (2, 3, False, ["clicks_unique", "clicks_repeated"]),
        (6, -1, False, ["clicks_unique", "clicks_repeated"]),
    ],
)
def test_unique_clicks_are_exact_or_bounded(
    unique: int, repeated: int, exact: bool, wrong: list[str]
) -> None:
    stats = PeriodStats(
        clicks_total=5,
        clicks_unique=unique,
        clicks_repeated=repeated,
        clicks_breakdown={2024: {1: 5}},
        unique_is_exact=exact,
    )
    assert differences(PERIOD, stats) == wrong


def test_links_are_compared_field_by_field_in_order() -> None:
    with Sandbox(urls=2, clicks=3) as box:
        truth = box.truth.urls()
    listed = [as_listed(url) for url in truth]
    assert listing_differences(truth, listed) == []
    assert listing_differences(truth, listed[:1]) == ["number of links"]
    assert "id" in listing_differences(truth, listed[::-1])
    assert listing_differences([truth[0]._replace(hits=99), truth[1]], listed) == ["hits"]


def as_listed(url: Link) -> ShortUrl:
    members = {name: getattr(url, name) for name in ShortUrl.__struct_fields__}
    for name in ("created_at", "updated_at"):
        members[name] = datetime.fromisoformat(members[name])
    return ShortUrl(**members)
