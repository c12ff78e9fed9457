"""Changes from a file: each is carried out once or told as unknown, whatever is lost or killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slashtag.sandbox import Fault, Sandbox

from .changing import SLASHTAG, Write, puts, sent, told
from .conftest import APISECRET, Cli, objects

LOST = Fault(kind="reset", every=5, method="PUT", after_work=True)
#: Links a0 to a29 lead elsewhere, the others are renamed by their slashtags.
ROWS: list[dict[str, object]] = [
    *({"slashtag": f"a{n}", "destination": f"https://shop.example.com/{n}"} for n in range(30)),
    *({"slashtag": f"a{n}", "new_slashtag": f"b{n}"} for n in range(30, 60)),
]
KEYS = {f"a{n}" for n in range(60)}
RENAMES = {f"a{n}" for n in range(30, 60)}


def keys(path: Path, status: str) -> set[Any]:
    return {entry["key"] for entry in told(path).values() if entry["status"] == status}


def changed(box: Sandbox, key: str) -> bool:
    """Tell whether a link is as its row has it."""
    links = {url.slashtag: url.destination for url in box.truth.urls()}
    return f"b{key[1:]}" in links if key in RENAMES else links[key] == f"https://shop.example.com/{key[1:]}"


def test_a_lost_answer_is_told_and_nothing_is_sent_again(cli: Cli, own: Sandbox, write: Write) -> None:
    own.faults = [LOST]
    path = write(*ROWS)
    ran = cli("urls", "update", "--from", str(path), "--concurrency", "4")
    assert ran.code == 3
    assert {row["status"] for row in objects(ran.out)} == {"unknown"}
    unknown = {row["key"] for row in objects(ran.out)}
    assert len(unknown) == 12
    assert keys(path, "unknown") == unknown
    assert keys(path, "done") == KEYS - unknown
    assert sent(own) == dict.fromkeys(KEYS, 1)
    own.faults = []
    for more in ((), ("--keep",)):
        again = cli("urls", "update", "--from", str(path), *more)
        assert again.code == 3
        assert {row["key"] for row in objects(again.out)} == unknown
    assert sent(own) == dict.fromkeys(KEYS, 1)


def test_the_summary_says_what_is_unknown_and_what_to_do(cli: Cli, own: Sandbox, write: Write) -> None:
    own.faults = [Fault(kind="reset", method="PUT", after_work=True)]
    path = write(*ROWS[28:32])
    ran = cli("urls", "update", "--from", str(path))
    summary, advice = ran.err.splitlines()
    assert summary.startswith("0 rows done, 0 failed, 4 outcome unknown, 0 done before; 4 requests")
    assert "--repeat-lost" in advice
    shown = cli("urls", "update", "--from", str(path), "--dry-run")
    assert "\n4 of them were sent before and got no answer" in shown.err
    # Those that were done would change nothing, and of renames that were done the old slashtag is gone.
    assert {(row["key"], row["new"] or row["now"]) for row in objects(shown.out)} == {
        ("a30", "no such link"),
        ("a31", "no such link"),
    }


@pytest.mark.usefixtures("quick_retries")
def test_where_asked_for_lost_answers_are_repeated_in_the_same_run(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    own.faults = [LOST]
    path = write(*ROWS)
    ran = cli("urls", "update", "--from", str(path), "--repeat-lost", "--concurrency", "4")
    assert ran.code == 3
    unknown = {row["key"] for row in objects(ran.out)}
    assert unknown
    assert unknown <= RENAMES
    times = sent(own)
    assert all(times[key] == 1 for key in RENAMES)
    assert max(times.values()) > 1
    assert all(changed(own, key) for key in KEYS)


def test_where_asked_for_those_of_an_earlier_run_are_repeated_and_then_told_as_done(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    own.faults = [LOST]
    path = write(*ROWS)
    cli("urls", "update", "--from", str(path))
    unknown = keys(path, "unknown")
    own.faults = []
    again = cli("urls", "update", "--from", str(path), "--repeat-lost")
    assert {row["key"] for row in objects(again.out)} == unknown & RENAMES == keys(path, "unknown")
    assert keys(path, "done") == KEYS - (unknown & RENAMES)
    assert {key for key, times in sent(own).items() if times > 1} == unknown - RENAMES
    before = len(puts(own))
    assert cli("urls", "update", "--from", str(path)).code == 3
    assert len(puts(own)) == before


def test_what_fails_after_an_earlier_run_got_no_answer_stays_unknown(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    path = write(ROWS[0])
    own.faults = [Fault(kind="reset", method="PUT", after_work=True)]
    assert cli("urls", "update", "--from", str(path)).code == 3
    own.faults = [Fault(kind="400", method="PUT")]
    (row,) = objects(cli("urls", "update", "--from", str(path), "--repeat-lost").out)
    assert row["status"] == "unknown"
    assert row["error"].startswith("an earlier run sent it and got no answer, this run sent it again: ")
    own.faults = []
    assert cli("urls", "update", "--from", str(path)).code == 3
    assert len(puts(own)) == 2


# --- killed ---------------------------------------------------------------------------------------------


def test_killed_halfway_no_row_is_carried_out_twice(
    environment: dict[str, str], own: Sandbox, write: Write
) -> None:
    own.latency = 0.02
    own.faults = [LOST]
    path = write(*ROWS)
    command = [*SLASHTAG, "urls", "update", "--from", str(path), "--concurrency", "4"]
    for killed_at in (15, 40):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(puts(own)) < killed_at and running.poll() is None:
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
    own.faults = []
    time.sleep(0.1)
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 3, ran.stderr
    unknown = {json.loads(line)["key"] for line in ran.stdout.splitlines()}
    done = keys(path, "done")
    assert done | unknown == KEYS
    assert not done & unknown
    assert all(changed(own, key) for key in done)
    times = sent(own)
    assert {times[key] for key in done} == {1}
    assert {times[key] for key in unknown} <= {0, 1}
    # Unknown is what was under way, with or without an answer: no more than that.
    assert len(unknown) <= 12 + 2 * 2 * 4
    again = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert again.returncode == 3
    assert sent(own) == times
    last = subprocess.run(
        [*command, "--repeat-lost"], capture_output=True, text=True, check=False, timeout=60
    )
    assert {json.loads(line)["key"] for line in last.stdout.splitlines()} == unknown & RENAMES
    assert all(changed(own, key) for key in KEYS - RENAMES)
    assert all(sent(own)[key] <= 1 for key in RENAMES)


def test_wrong_credentials_cost_one_request_and_a_rerun_makes_every_change(
    cli: Cli, own: Sandbox, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(*ROWS)
    monkeypatch.setenv("SLASHTAG_APISECRET", "another-secret-1")
    ran = cli("urls", "update", "--from", str(path))
    assert ran.code == 1
    assert "run the same command again to go on" in ran.error
    assert len(puts(own)) == 1
    ((_, entry),) = told(path).items()
    assert entry["status"] == "failed"
    assert cli("urls", "update", "--from", str(path)).code == 1
    monkeypatch.setenv("SLASHTAG_APISECRET", APISECRET)
    assert cli("urls", "update", "--from", str(path)).code == 0
    assert all(changed(own, key) for key in KEYS)


# --- what is told before it is sent ----------------------------------------------------------------------


def test_nothing_is_sent_that_could_not_be_announced(
    cli: Cli, own: Sandbox, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    ran = cli("urls", "update", "--from", str(write(*ROWS)))
    assert ran.code == 1
    assert "cannot be written: Input/output error" in ran.error
    assert puts(own) == []


def test_each_row_is_announced_before_it_is_sent(
    cli: Cli, own: Sandbox, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(*ROWS)
    durable: list[int] = []
    fsync = os.fsync

    def look(handle: int) -> None:
        # What arrived so far was in the file when it was made durable before.
        assert len(puts(own)) <= (durable or [0])[-1]
        *lines, _being_written = results.read_bytes().split(b"\n")
        announced = sum(json.loads(line)["status"] == "sent" for line in lines)
        fsync(handle)
        durable.append(announced)

    results = path.with_name("changes.results.jsonl")
    monkeypatch.setattr(os, "fsync", look)
    assert cli("urls", "update", "--from", str(path)).code == 0
    assert durable[-1] == 60
    assert len(durable) < 40
