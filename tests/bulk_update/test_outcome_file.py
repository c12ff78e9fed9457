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

from slashtag import AsyncSession, ExportError
from slashtag.bulk_update import RowOutcome
from slashtag.bulk_update._outcome_file import OutcomeFile, Status

ENTRY = RowOutcome(line=2, key="a1", status="done", fingerprint="f")


def opened(
    path: Path,
    base_url: str = "http://localhost/a",
    apikey: str = "key-of-the-tests-0123456",
    apisecret: str = "secret-of-tests-7",
) -> OutcomeFile:
    return OutcomeFile(path, AsyncSession(base_url, apikey=apikey, apisecret=apisecret))


def test_a_line_that_was_cut_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    with opened(path) as file:
        for _ in range(150):
            file.append(ENTRY)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with opened(path) as file:
        assert file.earlier.of["f"].status == "done"
        file.append(ENTRY)
    assert len(path.read_bytes().splitlines()) == 151


def test_it_is_binary_where_files_are_not_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    open_ = Mock(side_effect=lambda path, flags, mode=0: open_file(path, flags & ~binary, mode))
    binary, open_file = 1 << 30, os.open
    monkeypatch.setattr(os, "O_BINARY", binary, raising=False)
    monkeypatch.setattr(os, "open", open_)
    path = tmp_path / "told.jsonl"
    with opened(path):
        assert all(call.args[1] & binary for call in open_.call_args_list if call.args[0] == path)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_only_its_owner_may_read_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "told.jsonl"
    before = os.umask(umask)
    try:
        with opened(path):
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

    with opened(tmp_path / "told.jsonl") as file:
        monkeypatch.setattr(os, "fsync", count)
        await asyncio.gather(*(file.announce(ENTRY) for _ in range(50)))
        size = file.path.stat().st_size
    # Once for the first, once for the others, and once at the end.
    assert len(flushed) <= 3
    assert flushed[-1] == size
    assert len(file.path.read_bytes().splitlines()) == 51


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
        with opened(tmp_path / "told.jsonl") as file:
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
    with opened(path) as file:
        if before is not None:
            file.append(msgspec.structs.replace(ENTRY, status=before))
    with opened(path) as file:
        with monkeypatch.context() as failing:
            failing.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
            with pytest.raises(ExportError, match="Input/output error"):
                await file.announce(ENTRY)
        # The lines of a failed flush are lost, though the next one succeeds.
        with pytest.raises(ExportError, match="Input/output error"):
            await file.announce(ENTRY)
    with opened(path) as file:
        assert file.earlier.of[ENTRY.fingerprint].status == (before or "failed")


def test_what_a_full_disk_took_of_a_line_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    path = tmp_path / "told.jsonl"

    def fill(handle: int, data: memoryview) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(handle, data[: len(data) - 20])

    with opened(path) as file:
        file.append(ENTRY)
        with monkeypatch.context() as full:
            full.setattr(os, "write", fill)
            with pytest.raises(ExportError, match="cannot be written: No space left"):
                file.append(ENTRY)
        file.append(ENTRY)
    assert [json.loads(line)["key"] for line in path.read_bytes().splitlines()[1:]] == ["a1", "a1"]


@pytest.mark.parametrize(
    "other", [{"base_url": "http://localhost/b"}, {"apikey": "another-key-of-the-tests"}], ids=str
)
def test_a_file_of_another_account_is_refused_and_left_as_it_is(
    tmp_path: Path, other: dict[str, str]
) -> None:
    path = tmp_path / "told.jsonl"
    with opened(path) as file:
        file.append(ENTRY)
    content = path.read_bytes()
    with pytest.raises(ExportError, match="another service or apikey"):
        opened(path, **other)
    assert path.read_bytes() == content


def test_hashes_outlive_the_apisecret_and_differ_by_file(tmp_path: Path) -> None:
    digests: list[str] = []
    for name, apisecret in (("a", "secret-of-tests-7"), ("a", "another-secret-1"), ("b", "another-secret-1")):
        with opened(tmp_path / name, apisecret=apisecret) as file:
            digests.append(file.earlier.digest("hush"))
    assert digests[0] == digests[1] != digests[2]
