"""What reaches a terminal: no sequences of the service's, and what the client waits for."""

from __future__ import annotations

import csv
import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from slashtag.cli import stderr
from slashtag.cli.stderr import TimeLeft, Watch
from slashtag.sandbox import Fault, Sandbox

from .conftest import Cli, Serve, objects

EVIL = "https://example.com/\x1b]0;x\x07\x9b31m\r\x7f\u202e\U000e0041end"


@pytest.mark.parametrize("command", [("urls", "list"), ("export", "urls")])
@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_rows_cannot_steer_the_terminal(
    cli: Cli, own: Sandbox, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str], form: str
) -> None:
    # On a terminal a table has styles.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: form != "table")
    monkeypatch.setenv("COLUMNS", "250")
    own.add_url("évil", destination=EVIL)
    out = cli(*command, "--format", form).out
    assert out.replace("\n", "").isprintable()
    assert "évil" in out
    if form == "jsonl":
        assert EVIL in {row["destination"] for row in objects(out)}


def test_rows_in_a_file_or_pipe_stay_as_they_are(cli: Cli, own: Sandbox) -> None:
    own.add_url("evil", destination=EVIL)
    rows = csv.DictReader(io.StringIO(cli("urls", "list", "--format", "csv").out, newline=""))
    assert EVIL in {row["destination"] for row in rows}


@pytest.fixture
def looked() -> Any:
    """Return the counters, what is looked at after some seconds, and what was printed."""
    now, printed = [1_000.0], list[str]()
    names = "bytes_received throttled replayed attempts in_flight waiting paused_for retry_in"
    counters: Any = SimpleNamespace(**dict.fromkeys(names.split(), 0), learned_rate=None)
    display = counters.display = Progress(disable=True, get_time=lambda: now[0])
    task = display.add_task("counting", total=None, count="", status="")
    watch = Watch(Console(), lambda text, **_: printed.append(text))
    watch.source, watch.display = lambda: counters, display
    watch.look(now[0])

    def after(seconds: float) -> str:
        now[0] += seconds
        watch.look(now[0])
        return str(display.tasks[task].fields["status"]) if display.tasks else ""

    return counters, after, printed


def test_a_wait_for_the_limit_is_shown_with_its_seconds(looked: Any) -> None:
    counters, after, _ = looked
    counters.paused_for, counters.waiting = 42.0, 3
    assert after(1) == "waiting 42 s for the service's limit"
    counters.paused_for = 0.5
    assert after(1) == "0 requests/s"
    counters.paused_for, counters.waiting = 42.0, 0
    assert after(1) == "0 requests/s"


@pytest.mark.usefixtures("quick_retries")
def test_the_first_failure_is_named_unless_the_service_has_answered(cli: Cli, serve: Serve) -> None:
    ran = cli("urls", "list", "--base-url", "http://127.0.0.1:1")
    first, last = ran.lines
    assert first.startswith("warning: GET tags: Cannot connect to host 127.0.0.1:1 ")
    assert first.endswith("; attempt 1 failed, again in 0.00 s")
    assert last.startswith("error: ")
    assert cli("urls", "list", "--base-url", "http://127.0.0.1:1", "-q").error.startswith("error: ")
    with serve(faults=[Fault(kind="html-200")]):
        first = cli("urls", "list").lines[0]
    assert "not the documented answer" in first
    assert "attempt 1 failed, again in" in first
    with serve(faults=[Fault(kind="500", every=2)]) as box:
        assert cli("urls", "list").err == ""
        assert len(box.requests) > 2


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "1"}])
def test_the_wait_for_a_retry_is_shown_in_the_progress_line(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(stderr, "INTERVAL", 0.05)
    waits = iter([1.0])
    monkeypatch.setattr("slashtag._sending.sender.backoff", lambda *_: next(waits, 0.001))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    kind = "429" if headers else "500"
    with serve(faults=[Fault(kind=kind, headers=headers, times=1, path="*/stats*")]):
        ran = cli("stats", "alltime", "--all")
    assert ran.code == 0
    assert "retrying in 1 s" in ran.err


@pytest.mark.parametrize("power", [1.0, 1.4, 2.0])
def test_the_time_left_is_right_where_time_is_a_power_of_what_is_done(power: float) -> None:
    left = TimeLeft()
    left.look(0, 1_000, 50.0, is_replayed=False)
    # The first half came from a journal, in no time.
    left.look(500, 1_000, 51.0, is_replayed=True)
    found = None
    for done in range(10, 251, 10):
        found = left.look(500 + done, 1_000, 51.0 + 60 * (done / 250) ** power, is_replayed=False)
    assert found == pytest.approx(60 * (2**power - 1), rel=0.01)


def test_what_a_session_waits_for_is_shown_and_printed_every_30_s(looked: Any) -> None:
    counters, after, printed = looked
    task = counters.display.tasks[0]
    counters.learned_rate = 20.4
    for second in range(1, 31):
        counters.attempts = counters.bytes_received = 20 * second
        counters.display.update(
            task.id, completed=20 * second, total=2_400, count=f"{20 * second:,} of 2,400"
        )
        shown = after(1)
    assert shown == "20 requests/s, limit 20, about 0:01:30 left"
    assert printed == [f"counting: 600 of 2,400; {shown}"]
    counters.retry_in = 4.5
    assert [after(1), after(1), after(1)] == ["retrying in 5 s"] * 3
    # While a request is under way, its answer is waited for.
    counters.in_flight = 1
    assert after(1) == "no answer for 4 s"
    assert after(26) == "no answer for 30 s"
    assert printed[1:] == ["counting: 600 of 2,400; no answer for 30 s"]
    # Where a bar is drawn, nothing is printed; where there is none, the wait is.
    counters.display.disable = False
    assert after(30) == "no answer for 60 s"
    counters.display.remove_task(task.id)
    after(30)
    assert printed[2:] == ["no answer for 90 s"]
