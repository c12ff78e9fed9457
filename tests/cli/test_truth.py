"""The truth of `stats` and `top`: random questions are answered as the click log is counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from slashtag.cli import selection
from slashtag.sandbox import Sandbox
from tests.support.own_count import Question, read_log

from .conftest import Cli, objects


def ask(cli: Cli, monkeypatch: pytest.MonkeyPatch, question: Question) -> list[dict[str, Any]]:
    """Ask a question at its time."""
    monkeypatch.setattr(selection, "now_in", question.now.astimezone)
    ran = cli(*question.arguments)
    # Clicks of a slashtag that links outside of the selection have too are told.
    assert ran.code == (3 if "shared: " in ran.err else 0), ran.err
    return objects(ran.out)


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_those_of_the_click_log(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    question = Question.draw(Random(seed), box)
    question.check(ask(cli, monkeypatch, question), read_log(box))


@pytest.mark.parametrize("by", ["month", "tag,month", "country"])
@pytest.mark.parametrize(
    ("compare", "zone"),
    [
        ("previous", "Europe/Berlin"),
        ("2022-10-01..2022-12-20", "+00:00"),
        ("2022-10-05..2023-02-20", "Europe/Berlin"),
    ],
)
def test_years_are_counted_and_compared_as_days_are(
    cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch, by: str, compare: str, zone: str
) -> None:
    question = Question("2023", by, zone, compare, ("", ""), datetime(2024, 6, 1, tzinfo=UTC))
    question.check(ask(cli, monkeypatch, question), read_log(box))
