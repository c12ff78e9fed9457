"""What reaches a terminal: no sequences of the service's, and what the client waits for."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from rich.progress import Progress

from slashtag.cli import progress
from slashtag.cli.progress import Watch
from slashtag.sandbox import Fault, Sandbox

from .conftest import APIKEY, APISECRET, Cli

EVIL = "https://example.com/\x1b]0;x\x07\x9b31m\r\x7f\u202e\U000e0041end"


@pytest.mark.parametrize("command", [("urls", "list"), ("export", "urls")])
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_rows_cannot_steer_the_terminal(
    cli: Cli, own: Sandbox, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str], form: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    own.add_url("évil", destination=EVIL)
    out = cli(*command, "--format", form).out
    assert out.replace("\n", "").isprintable()
    assert "évil" in out
    if form == "jsonl":
        assert EVIL in {json.loads(line)["destination"] for line in out.splitlines()}


def test_rows_in_a_file_or_pipe_stay_as_they_are(cli: Cli, own: Sandbox) -> None:
    own.add_url("evil", destination=EVIL)
    rows = csv.DictReader(io.StringIO(cli("urls", "list", "--format", "csv").out, newline=""))
    assert EVIL in {row["destination"] for row in rows}


@dataclass
class Counters:
    """Metrics of a session, set by hand."""

    bytes_received: int = 0
    throttled: int = 0
    replayed: int = 0
    attempts: int = 0
    in_flight: int = 0
    waiting: int = 0
    paused_until: float = 0.0
    learned_rate: float | None = None


@pytest.fixture
async def looked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the counters, what is looked at after some seconds, and what was printed."""
    now, printed = [1_000.0], []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: now[0])
    counters: Any = Counters()
    counters.display = display = Progress(disable=True, get_time=lambda: now[0])
    task = display.add_task("counting", total=None, count="", status="")
    counters.watch = watch = Watch(counters, display, printed.append, 0.0)

    def after(seconds: float) -> str:
        now[0] += seconds
        watch._timer.cancel()
        watch._look()
        return str(display.tasks[task].fields["status"])

    yield counters, after, printed
    watch.close()


async def test_a_wait_for_the_limit_is_shown_with_its_seconds(looked: Any) -> None:
    counters, after, printed = looked
    counters.paused_until, counters.waiting = 1_043.0, 3
    assert after(1) == "waiting 42 s for the service's limit"
    assert after(41.5) == "0 requests/s"
    counters.waiting = 0
    assert after(-40) == "0 requests/s"
    assert printed == []


async def test_a_service_that_does_not_answer_is_named_once(looked: Any) -> None:
    counters, after, printed = looked
    counters.attempts = counters.in_flight = 1
    assert after(1) == "1 requests/s"
    assert after(11) == "no answer for 12 s"
    assert printed == []
    assert after(20) == "no answer for 32 s"
    assert after(20) == "no answer for 52 s"
    assert printed == ["the service has not answered for 32 s; still trying"]


async def test_pauses_between_unanswered_attempts_count_as_silence(looked: Any) -> None:
    counters, after, _ = looked
    counters.attempts, counters.in_flight, counters.bytes_received = 4, 2, 100
    assert after(1) == "4 requests/s"
    counters.in_flight = 0
    assert after(20) == "3 requests/s"
    counters.attempts += 1
    assert after(1) == "no answer for 21 s"
    counters.bytes_received += 1
    assert after(1) == "2 requests/s"


async def test_speed_limit_and_time_left_are_shown_and_printed_every_30_s(looked: Any) -> None:
    counters, after, printed = looked
    task = counters.display.tasks[0]
    counters.watch._every = 30.0
    counters.learned_rate = 20.4
    for second in range(1, 61):
        counters.attempts = counters.bytes_received = 20 * second
        counters.display.update(
            task.id, completed=20 * second, total=2_400, count=f"{20 * second:,} of 2,400"
        )
        shown = after(1)
    assert shown == "20 requests/s, limit 20, about 0:01:00 left"
    assert printed == [
        "counting: 600 of 2,400; 20 requests/s, limit 20; about 0:01:30 left",
        "counting: 1,200 of 2,400; 20 requests/s, limit 20; about 0:01:00 left",
    ]
    task.total = None
    assert after(1).endswith("limit 20")


@pytest.mark.usefixtures("quick_retries")
def test_a_service_that_was_never_reached_is_named_at_its_first_failure(cli: Cli) -> None:
    ran = cli("urls", "list", "--base-url", "http://127.0.0.1:1")
    first, last = ran.err.splitlines()
    assert first.startswith("warning: GET tags: Cannot connect to host 127.0.0.1:1 ")
    assert first.endswith("; attempt 1 failed, again in 0.00 s")
    assert last.startswith("error: ")


@pytest.mark.usefixtures("quick_retries")
def test_another_service_at_the_address_is_named_at_its_first_failure(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [Fault(kind="html-200")]
    with Sandbox(urls=3, clicks=3, apikey=APIKEY, apisecret=APISECRET, faults=faults) as box:
        monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
        ran = cli("urls", "list")
    assert "not the documented answer" in ran.err.splitlines()[0]
    assert "attempt 1 failed, again in" in ran.err.splitlines()[0]


@pytest.mark.usefixtures("quick_retries")
def test_one_failure_after_an_answer_is_no_news(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [Fault(kind="500", every=2)]
    with Sandbox(urls=3, clicks=3, apikey=APIKEY, apisecret=APISECRET, faults=faults) as box:
        monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
        assert cli("urls", "list").err == ""
        assert len(box.requests) > 2


@pytest.mark.usefixtures("quick_retries")
def test_every_line_can_be_json(cli: Cli) -> None:
    ran = cli("stats", "alltime", "--all", "--log-format", "json")
    line = [json.loads(line) for line in ran.err.splitlines()][-1]
    assert line["level"] == "info"
    assert line["message"].startswith("all time: ")
    ran = cli("urls", "list", "--log-format", "json", "--base-url", "http://127.0.0.1:1")
    assert [json.loads(line)["level"] for line in ran.err.splitlines()] == ["warning", "error"]
    assert cli("urls", "list", "--base-url", "http://127.0.0.1:1", "-q").error.startswith("error: ")


@pytest.mark.usefixtures("quick_retries")
def test_a_wait_is_shown_in_the_progress_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.5)
    faults = [Fault(kind="429", headers={"Retry-After": "2"}, times=1)]
    with Sandbox(urls=3, clicks=3, apikey=APIKEY, apisecret=APISECRET, faults=faults) as box:
        monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
        ran = cli("stats", "alltime", "--all")
    assert ran.code == 0
    assert "for the service's limit" in ran.err
