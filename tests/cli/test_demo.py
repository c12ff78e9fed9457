"""The demo does the main job, checks every number of it, and says so."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from slashtag.cli import main
from slashtag.cli.commands.sandbox import is_same
from slashtag.sandbox import Sandbox

from .conftest import Cli

SMALL = ("demo", "--urls", "240", "--clicks", "3000", "--rate", "500")


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


def test_a_difference_exits_with_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Sandbox.truth.fget

    class Wrong:
        def __init__(self, box: Sandbox) -> None:
            self._truth: Any = truth(box)  # type: ignore[misc]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._truth, name)

        def year(self, *arguments: Any, **more: Any) -> Any:
            right = self._truth.year(*arguments, **more)
            vars(right)["device"] = {"Toaster": 1}
            return right

    monkeypatch.setattr(Sandbox, "truth", property(Wrong))
    ran = cli(*SMALL)
    assert ran.code == 1
    assert len(re.findall(r" NO +$", ran.out, re.M)) == 2


def test_a_limit_that_was_learnt_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag._sending.sender.Metrics.learned_rate", property(lambda _: 61.7))
    monkeypatch.setenv("FORCE_COLOR", "1")
    ran = cli(*SMALL)
    assert "2024 by day" in ran.err
    assert "Limit as learnt from the answers: 62 requests/s" in re.sub("\x1b\\[[\\d;]*m", "", ran.out)


def test_links_are_compared_field_by_field_in_order() -> None:
    with Sandbox(urls=2, clicks=3) as box:
        truth = box.truth.urls()
    assert is_same(truth, list(truth))
    assert not is_same(truth, list(truth[:1]))
    assert not is_same(truth, list(truth[::-1]))
    assert not is_same([truth[0]._replace(hits=99), truth[1]], list(truth))
