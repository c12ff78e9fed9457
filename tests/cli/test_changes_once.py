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
from tests.support.sandboxes import settle

from .conftest import Cli, Write, objects, puts, sent, told
from .test_entry import SCRIPT

LOST = Fault(kind="reset", every=5, method="PUT", after_work=True)
#: Links a0 to a29 lead elsewhere, of which five get a password too; the others are renamed by slashtag.
ROWS: list[dict[str, object]] = [
    *({"slashtag": f"a{n}", "destination": f"https://shop.example.com/{n}"} for n in range(25)),
    *(
        {"slashtag": f"a{n}", "destination": f"https://shop.example.com/{n}", "password": "new"}
        for n in range(25, 30)
    ),
    *({"slashtag": f"a{n}", "new_slashtag": f"b{n}"} for n in range(30, 60)),
]
KEYS = {f"a{n}" for n in range(60)}
RENAMES = {f"a{n}" for n in range(30, 60)}
#: A listing does not show whether these were done.
PROTECTED = {f"a{n}" for n in range(25, 30)}


def keys(path: Path, status: str) -> set[Any]:
    return {entry["key"] for entry in told(path).values() if entry["status"] == status}


def changed(box: Sandbox, key: str) -> bool:
    """Tell whether a link is as its row has it."""
    links = {url.slashtag: url for url in box.truth.urls()}
    if key in RENAMES:
        return f"b{key[1:]}" in links
    is_protected = links[key].password == ("new" if key in PROTECTED else "old")
    return is_protected and links[key].destination == f"https://shop.example.com/{key[1:]}"


def test_what_was_not_done_stays_unknown_until_it_is_to_be_repeated(
    cli: Cli, own: Sandbox, write: Write
) -> None:
    own.faults = [Fault(kind="reset", method="PUT")]
    path = write(*ROWS[28:32])
    command = ("urls", "update", "--from", str(path))
    assert cli(*command).code == 3
    own.faults = [Fault(kind="400", method="PUT", times=1)]
    assert (cli(*command, "--dry-run").code, cli(*command, "--dry-run", "--repeat-lost").code) == (3, 0)
    assert len(objects(cli(*command).out)) == 4
    assert len(puts(own)) == 4
    # What fails now may have been done then.
    (row,) = objects(cli(*command, "--repeat-lost").out)
    assert row["status"] == "unknown"
    assert row["error"].startswith("an earlier run sent it and got no answer, this run sent it again: ")
    assert cli(*command, "--repeat-lost").code == 0
    assert all(changed(own, str(row["slashtag"])) for row in ROWS[28:32])


@pytest.mark.unmeasured
def test_killed_halfway_no_row_is_carried_out_twice(cli: Cli, own: Sandbox, write: Write) -> None:
    own.latency = 0.02
    own.faults = [LOST]
    path = write(*ROWS)
    command = ["urls", "update", "--from", str(path)]
    for killed_at in (15, 40):
        running = subprocess.Popen([SCRIPT, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(puts(own)) < killed_at and running.poll() is None:
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
    own.faults = []
    settle(own)
    own.latency = 0.0
    ran = cli(*command)
    unknown = {row["slashtag"] for row in objects(ran.out)}
    assert ran.code == (3 if unknown else 0), ran.err
    assert keys(path, "done") == KEYS - unknown
    assert all(changed(own, key) for key in KEYS - unknown)
    times = sent(own)
    assert {times[key] for key in KEYS - unknown} == {1}
    # Unknown is what was under way and would still change something, or has a password.
    assert len(unknown) <= len(PROTECTED) + 2 * 2 * 4
    assert cli(*command, "--repeat-lost").code == 0
    assert {key for key, times in sent(own).items() if times > 1} <= unknown
    assert all(changed(own, key) for key in KEYS)
    # The first run wrote down all links as they were.
    assert cli("urls", "update", "--from", str(path.with_name("changes.undo.csv"))).code == 0
    assert {url.slashtag: url.destination for url in own.truth.urls()} == {
        key: f"https://www.example/{key[1:]}" for key in KEYS
    }


@pytest.mark.unmeasured
def test_wrong_credentials_change_nothing_and_a_rerun_makes_every_change(
    cli: Cli, own: Sandbox, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(*ROWS)
    with monkeypatch.context() as wrong:
        wrong.setenv("SLASHTAG_APISECRET", "another-secret-1")
        assert cli("urls", "update", "--from", str(path)).code == 1
    assert puts(own) == []
    # As if they were replaced meanwhile.
    own.faults = [Fault(kind="401", method="PUT")]
    monkeypatch.setenv("SLASHTAG_CONCURRENCY", "1")
    ran = cli("urls", "update", "--from", str(path))
    assert ran.code == 1
    assert "run the same command again to go on" in ran.error
    assert [entry["status"] for entry in told(path).values()] == ["failed"]
    own.faults = []
    assert cli("urls", "update", "--from", str(path)).code == 0
    assert all(changed(own, key) for key in KEYS)


# --- what is told before it is sent ----------------------------------------------------------------------


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
        announced = sum(json.loads(line).get("status") == "announced" for line in lines)
        fsync(handle)
        durable.append(announced)

    results = path.with_name("changes.results.jsonl")
    monkeypatch.setattr(os, "fsync", look)
    assert cli("urls", "update", "--from", str(path)).code == 0
    assert durable[-1] == 60
    assert len(durable) < 40
