"""A file that cannot be the journal of a job is told as such, before anything is sent, and left as it is."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import textwrap
from contextlib import chdir, closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from slashtag import AsyncSession, DateRange, JournalError
from slashtag._journal.file import KIND, remove_journal
from slashtag.sandbox import Sandbox

from ..resources.accounts import client
from ..support.journals import committed
from ..support.processes import python
from ..support.sending import until
from .test_journal import BASE, KEY, NOW, call, fill, journal

SPAN = DateRange("2022-01-01", "2024-12-31")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.journal"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def refused(path: Path, match: str, base_url: str = BASE, apikey: str = KEY) -> None:
    """A session with this journal cannot be made, and nothing is changed."""
    before = contents(path.parent) if path.parent.is_dir() else {}
    with pytest.raises(JournalError, match=match) as refusal:
        AsyncSession(base_url, apikey=apikey, apisecret="s" * 12, journal=path)
    assert apikey not in str(refusal.value)
    assert str(refusal.value).count(path.name) == 1
    assert (contents(path.parent) if path.parent.is_dir() else {}) == before


# --- whose and what it is -----------------------------------------------------------------------------


async def test_the_journal_of_another_account_service_or_format_is_refused(path: Path) -> None:
    await fill(path, b"body")
    refused(path, "another account", apikey=KEY[::-1])
    refused(path, "another account", base_url="http://127.0.0.1:2")
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA application_id={KIND - 1}")
    refused(path, "another version")


@pytest.mark.parametrize("content", [b"slashtag,clicks\nspring,3\n", b"SQLite format 3\0" * 300])
def test_a_file_that_is_not_a_journal_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(path, "not a journal")


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE job (name, value)")
        file.execute("PRAGMA journal_mode=wal")
        file.execute("CREATE TABLE other (name, value)")
        file.commit()
    refused(path, "not a journal of slashtag")


def test_a_path_that_cannot_be_a_file_is_told(path: Path) -> None:
    refused(path.parent / "missing" / "job.journal", "No such file")
    refused(path.parent, "cannot be opened")


async def test_a_name_that_sqlite_takes_for_memory_is_a_file(path: Path) -> None:
    with chdir(path.parent):
        await fill(Path(":memory:"), b"body")
        assert Path(":memory:").exists()


# --- in use -------------------------------------------------------------------------------------------

OPEN = "import sys; from slashtag._journal.journal import Journal; Journal(*sys.argv[1:], 3600.0, print)"


async def test_a_journal_in_use_is_refused_by_any_name_here_and_in_another_process(path: Path) -> None:
    kept = journal(path)
    link = path.with_name("link")
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(JournalError, match="in use by another session"):
            journal(name)
    # Nor did looking at it give up the lock.
    assert "in use by another session" in python("-c", OPEN, path, BASE, KEY).stderr
    await kept.aclose()


# --- what others can see ------------------------------------------------------------------------------


async def test_no_file_of_it_holds_the_key_or_the_secret(path: Path) -> None:
    async with Sandbox(urls=20, clicks=200, tags=1) as box, client(box, journal=path) as job:
        await job.stats.collect(SPAN, keys=job.urls.list())
        await until(lambda: committed(path))
        raw = b"".join(file.read_bytes() for file in path.parent.iterdir())
    raw += path.read_bytes()
    assert b"clicks" in raw
    for secret in (box.apikey, box.apisecret):
        assert secret.encode() not in raw
        assert secret.encode("utf-16-le") not in raw


async def test_every_file_of_it_is_for_its_owner_only(path: Path) -> None:
    before = os.umask(0)
    try:
        kept = journal(path)
        kept.keep(call(), None, b"body", NOW.timestamp())
        wal = Path(f"{path}-wal")
        await until(lambda: wal.exists() and wal.stat().st_size)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await kept.aclose()
    assert wal.name in modes
    assert set(modes.values()) == {0o600}


# --- damaged ------------------------------------------------------------------------------------------


async def test_a_file_cut_short_is_told(path: Path) -> None:
    await fill(path, *(bytes([n]) * 5_000 for n in range(20)))
    os.truncate(path, path.stat().st_size // 2)
    refused(path, "damaged")


@pytest.mark.parametrize(
    "damage", ["DELETE FROM job", "UPDATE answer SET body = x'7b'", "UPDATE links SET names = x'7b'"]
)
async def test_a_row_that_cannot_be_read_is_told(path: Path, damage: str) -> None:
    with Sandbox(urls=1, clicks=9) as box:
        for told in (nullcontext(), pytest.raises(JournalError, match="damaged")):
            with told:
                async with client(box, journal=path) as job:
                    await job.stats.collect(SPAN, keys=job.urls.list())
            with closing(sqlite3.connect(path)) as file:
                file.executescript(damage)


# --- no room ------------------------------------------------------------------------------------------

FULL = textwrap.dedent("""
    import asyncio, json, resource, sys
    from slashtag import AsyncSession, DateRange

    async def main(path, *args):
        base_url, apikey, apisecret = args
        async with AsyncSession(base_url, apikey=apikey, apisecret=apisecret, journal=path) as job:
            each = job.stats.collect_each(DateRange("2022-01-01", "2024-12-31"), keys=job.urls.list())
            print(json.dumps({key: stats.total async for key, stats in each}))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    asyncio.run(main(*sys.argv[1:]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)  # what measures the tests writes files of its own
""")


def test_a_full_disk_is_told_once_and_the_job_goes_on(path: Path) -> None:
    with Sandbox(urls=30, clicks=600, latency=0.005) as box:
        # -B: a compiled module that the limit cuts would end the processes of other tests.
        ran = python("-B", "-c", FULL, path, box.base_url, box.apikey, box.apisecret)
        assert (ran.returncode, ran.stderr.count("cannot be written")) == (0, 1), ran.stderr
        true = box.truth.per_key("2022-01-01", "2024-12-31")
        assert json.loads(ran.stdout) == asyncio.run(again(box, path))
        assert json.loads(ran.stdout) == {key: each.total_clicks for key, each in true.items()}


async def again(box: Sandbox, path: Path) -> dict[str, Any]:
    async with client(box, journal=path) as job:
        each = job.stats.collect_each(SPAN, keys=job.urls.list())
        totals = {key: stats.total async for key, stats in each}
        assert job.metrics.replayed > 0
    return totals


async def test_a_journal_is_removed_with_what_a_killed_run_left_beside_it(path: Path) -> None:
    await fill(path, b"body")
    Path(f"{path}-wal").touch()
    remove_journal(path)
    remove_journal(path)
    assert list(path.parent.iterdir()) == []
