"""The file of outcomes: whole lines, durable before a change is sent, and no secret in it."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
import threading
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from slashtag import AsyncSession, ExportError
from slashtag.bulk_update import RowOutcome, _outcome_file
from slashtag.bulk_update._outcome_file import OutcomeFile, Status

ENTRY = RowOutcome(line=2, key="a1", id=1, status="done", members={"destination": "d"})


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
        assert file.last["a1"].status == file.last[1].status == "done"
        file.append(ENTRY)
    assert len(path.read_bytes().splitlines()) == 151


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


async def test_nothing_is_announced_after_a_flush_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a failed flush are lost, though the next one succeeds."""
    with opened(tmp_path / "told.jsonl") as file:
        with monkeypatch.context() as failing:
            failing.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
            with pytest.raises(ExportError, match="Input/output error"):
                await file.announce(ENTRY)
        with pytest.raises(ExportError, match="Input/output error"):
            await file.announce(ENTRY)


@pytest.mark.parametrize("before", [None, "unknown", "done"])
async def test_a_change_that_was_not_sent_as_it_was_cancelled_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Status | None
) -> None:
    path = tmp_path / "told.jsonl"
    with opened(path) as file:
        if before is not None:
            file.append(msgspec.structs.replace(ENTRY, status=before))
    begun, flushed = threading.Event(), threading.Event()

    def flush(handle: int) -> None:
        begun.set()
        flushed.wait(60)

    with opened(path) as file, monkeypatch.context() as slow:
        slow.setattr(os, "fsync", flush)
        announcing = asyncio.ensure_future(file.announce(ENTRY))
        await asyncio.to_thread(begun.wait, 60)
        announcing.cancel()
        flushed.set()
        with pytest.raises(asyncio.CancelledError):
            await announcing
    # Also after a restart of the machine.
    for boot in (None, "another"):
        monkeypatch.setattr(_outcome_file, "boot_id", Mock(return_value=boot))
        with opened(path) as file:
            assert [entry.status for entry in file.last.values()] == ([before, before] if before else [])


@pytest.mark.unmeasured
@pytest.mark.parametrize("boot", ["the same", "another", None])
@pytest.mark.parametrize("before", [None, "unknown", "done"])
async def test_a_change_that_was_announced_is_unknown_only_after_a_restart_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Status | None, boot: str | None
) -> None:
    """Or where the system does not say whether there was one."""
    path, killed = tmp_path / "told.jsonl", tmp_path / "killed.jsonl"
    monkeypatch.setattr(_outcome_file, "boot_id", Mock(return_value="the same"))
    entries = [msgspec.structs.replace(ENTRY, key=f"a{n}", id=n, line=n) for n in range(3)]
    with opened(path) as file:
        for entry in entries:
            if before is not None:
                file.append(msgspec.structs.replace(entry, status=before))
            await file.announce(entry)
        file.mark_sent(entries[1])
        file.append(msgspec.structs.replace(entries[2], status="failed"))
        killed.write_bytes(path.read_bytes())
    monkeypatch.setattr(_outcome_file, "boot_id", Mock(return_value=boot))
    with opened(killed) as file:
        found = [getattr(file.last.get(n), "status", None) for n in range(3)]
    assert found == [before if boot == "the same" else "announced", "sent", before]


def test_a_file_without_a_version_is_read_and_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    with opened(path) as file:
        file.append(ENTRY)
    first, entry = map(json.loads, path.read_text().splitlines())
    assert first["version"] == 2
    old = {name: first[name] for name in ("salt", "account")}
    entry = {**entry, "status": "sent", "fingerprint": "f"}
    del entry["members"]
    path.write_text(f"{json.dumps(old, separators=(',', ':'))}\n{json.dumps(entry)}\n")
    for _ in range(2):
        with opened(path) as file:
            assert (file.last[1].status, file.last[1].fingerprint, file.last[1].members) == ("sent", "f", {})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("version") for line in lines] == [None, None, 2]


@pytest.mark.parametrize("at", [0, 2])
def test_a_file_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path, at: int) -> None:
    path = tmp_path / "told.jsonl"
    with opened(path) as file:
        file.append(ENTRY)
    lines = path.read_text().splitlines()
    lines[at:at] = [json.dumps({"version": 3}, separators=(",", ":"))]
    if at == 0:
        lines[:2] = [lines[1].replace('"version":2', '"version":3')]
    # What a later version writes may have another form.
    content = "\n".join([*lines, '{"what":"is this?"}', ""])
    path.write_text(content)
    with pytest.raises(ExportError, match="later version"), opened(path):
        pass
    assert path.read_text() == content


def test_what_a_full_disk_took_of_a_line_spoils_no_other(tmp_path: Path) -> None:
    path, before = tmp_path / "told.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(path) as file:
        file.append(ENTRY)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
        try:
            with pytest.raises(ExportError, match="cannot be written: No space left"):
                file.append(ENTRY)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with pytest.raises(ExportError, match="No space left"):
            file.append(ENTRY)
    with opened(path) as file:
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
    with pytest.raises(ExportError, match="another service or apikey"), opened(path, **other):
        pass
    assert path.read_bytes() == content


def test_hashes_outlive_the_apisecret_and_differ_by_file(tmp_path: Path) -> None:
    digests: list[str] = []
    for name, apisecret in (("a", "secret-of-tests-7"), ("a", "another-secret-1"), ("b", "another-secret-1")):
        with opened(tmp_path / name, apisecret=apisecret) as file:
            digests.append(file.digest("hush"))
    assert digests[0] == digests[1] != digests[2]
