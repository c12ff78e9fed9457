"""The file of outcomes: whole lines, durable before a change is sent, and no secret in it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from slashtag import AsyncSession, Change, ExportError
from slashtag.bulk_update import RowOutcome
from slashtag.bulk_update._outcome_file import OutcomeFile, Status, read_outcomes, sent

APIKEY, APISECRET = "key-of-the-tests-0123456", "secret-of-tests-7"
ENTRY = RowOutcome(line=2, key="a1", status="done", fingerprint="f")


def test_a_line_that_was_cut_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    with OutcomeFile(path) as file:
        for _ in range(150):
            file.append(ENTRY)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with OutcomeFile(path) as file:
        assert file.statuses["f"] == "done"
        file.append(ENTRY)
    assert len(path.read_bytes().splitlines()) == 150


def test_it_is_binary_where_files_are_not_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    opened = Mock(side_effect=lambda path, flags, mode=0: open_file(path, flags & ~binary, mode))
    binary, open_file = 1 << 30, os.open
    monkeypatch.setattr(os, "O_BINARY", binary, raising=False)
    monkeypatch.setattr(os, "open", opened)
    path = tmp_path / "told.jsonl"
    with OutcomeFile(path):
        assert all(call.args[1] & binary for call in opened.call_args_list if call.args[0] == path)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_only_its_owner_may_read_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "told.jsonl"
    before = os.umask(umask)
    try:
        with OutcomeFile(path):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_those_who_announce_at_once_wait_for_the_disk_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    fsync = os.fsync

    def count(handle: int) -> None:
        flushed.append(os.fstat(handle).st_size)
        fsync(handle)

    with OutcomeFile(tmp_path / "told.jsonl") as file:
        monkeypatch.setattr(os, "fsync", count)
        await asyncio.gather(*(file.announce(ENTRY) for _ in range(50)))
        size = file.path.stat().st_size
    # Once for the first, once for the others, and once at the end.
    assert len(flushed) <= 3
    assert flushed[-1] == size
    assert len(file.path.read_bytes().splitlines()) == 50


async def test_a_disk_that_fails_is_told_to_who_announces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with OutcomeFile(tmp_path / "told.jsonl") as file:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(ExportError, match="cannot be written: Input/output error"):
            await file.announce(ENTRY)
        monkeypatch.undo()


async def test_a_file_is_not_closed_while_the_disk_is_busy_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, open_in_the_end = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def sync(handle: int) -> None:
        loop.call_soon_threadsafe(began.set)
        time.sleep(0.1)
        os.fstat(handle)
        open_in_the_end.append(True)

    async def announce() -> None:
        with OutcomeFile(tmp_path / "told.jsonl") as file:
            await file.announce(ENTRY)

    monkeypatch.setattr("slashtag.bulk_update._outcome_file.os.fsync", sync)
    task = asyncio.create_task(announce())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert open_in_the_end


@pytest.mark.parametrize("before", [None, "unknown"])
async def test_a_change_that_was_not_sent_as_the_disk_failed_is_not_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Status | None
) -> None:
    path = tmp_path / "told.jsonl"
    with OutcomeFile(path) as file:
        if before is not None:
            file.append(msgspec.structs.replace(ENTRY, status=before))
    with OutcomeFile(path) as file:
        with monkeypatch.context() as failing:
            failing.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
            with pytest.raises(ExportError, match="Input/output error"):
                await file.announce(ENTRY)
        # The lines of a failed flush are lost, though the next one succeeds.
        with pytest.raises(ExportError, match="Input/output error"):
            await file.announce(ENTRY)
    assert read_outcomes(path)[0] == {ENTRY.fingerprint: before or "failed"}


def test_what_a_full_disk_took_of_a_line_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    path = tmp_path / "told.jsonl"

    def fill(handle: int, data: memoryview) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(handle, data[: len(data) - 20])

    with OutcomeFile(path) as file:
        file.append(ENTRY)
        with monkeypatch.context() as full:
            full.setattr(os, "write", fill)
            with pytest.raises(ExportError, match="cannot be written: No space left"):
                file.append(ENTRY)
        file.append(ENTRY)
    assert [json.loads(line)["key"] for line in path.read_bytes().splitlines()] == ["a1", "a1"]


def test_a_fingerprint_differs_by_change_and_account_and_needs_the_secret() -> None:
    change = Change("a", password="hush")
    given = [
        (change, "http://localhost/a", APIKEY, APISECRET),
        (Change("a", password="hush!"), "http://localhost/a", APIKEY, APISECRET),
        (Change("a", destination="hush"), "http://localhost/a", APIKEY, APISECRET),
        (change, "http://localhost/b", APIKEY, APISECRET),
        (change, "http://localhost/a", "another-key-of-the-tests", APISECRET),
        (change, "http://localhost/a", APIKEY, "another-secret-1"),
    ]

    def of(change: Change, base_url: str, apikey: str, apisecret: str) -> str:
        return sent(1, change, AsyncSession(base_url, apikey=apikey, apisecret=apisecret)).fingerprint

    assert len({of(*one) for one in given}) == len(given)
    assert of(*given[0]) == of(*given[0])
