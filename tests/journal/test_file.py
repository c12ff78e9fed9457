"""A file that cannot be the journal of a job is told as such, before anything is sent, and left as it is."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import random
import sqlite3
import stat
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from slashtag import AsyncSession, ConfigurationError, DateRange, JournalError
from slashtag._journal.file import JournalFile, remove_journal
from slashtag._journal.journal import Journal
from slashtag.sandbox import Sandbox

from ..resources.accounts import client
from ..support.journals import committed
from ..support.sending import until
from .test_journal import BASE, KEY, body_of, call, fill, journal, threads

SPAN = DateRange("2022-01-01", "2024-12-31")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.journal"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


async def refused(path: Path, match: str, base_url: str = BASE, apikey: str = KEY) -> None:
    """A session with this journal does not begin, and changes nothing."""
    before = contents(path.parent) if path.parent.is_dir() else {}
    job = AsyncSession(base_url, apikey=apikey, apisecret="s" * 12, journal=path)
    with pytest.raises(ConfigurationError, match=match) as refusal:
        async with job:
            pass
    await job.aclose()
    assert apikey not in str(refusal.value)
    assert (contents(path.parent) if path.parent.is_dir() else {}) == before
    assert threads() == []


@contextmanager
def unprivileged() -> Iterator[None]:
    """Have no more rights than a file's mode gives."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


# --- whose it is --------------------------------------------------------------------------------------


async def test_the_journal_of_another_account_or_service_is_refused(path: Path) -> None:
    await fill(path, b"body")
    await refused(path, "another account", apikey=KEY[::-1])
    await refused(path, "http://127.0.0.1:1/api/v1/, not", base_url="http://127.0.0.1:2")


@pytest.mark.parametrize(
    "other", [{"apikey": KEY[::-1]}, {"base_url": "http://127.0.0.1:2/api/v1/"}], ids=["account", "service"]
)
async def test_a_job_that_ended_before_its_first_answer_leaves_a_journal_for_any_other(
    path: Path, other: dict[str, str]
) -> None:
    await fill(path)
    job = AsyncSession(**{"base_url": BASE, "apikey": KEY} | other, apisecret="s" * 12, journal=path)
    async with job:
        pass
    later = Journal(path, **{"base_url": BASE, "apikey": KEY} | other, max_age=3600)
    later.open()
    later.keep(call(), None, b"body")
    await later.aclose()
    await refused(path, "belongs to")


async def test_answers_of_another_account_are_not_replayed_from_a_wal_that_lies_beside(
    path: Path, tmp_path: Path
) -> None:
    # The second log holds answers only: the file is bound to its job by the first.
    for name in ("first", "theirs"):
        theirs = Journal(tmp_path / "theirs", BASE, KEY[::-1], 3600)
        theirs.open()
        theirs.keep(call(0), None, name.encode())
        if name == "first":
            await theirs.aclose()
    await until(lambda: b"theirs" in (tmp_path / "theirs-wal").read_bytes())
    wal = (tmp_path / "theirs-wal").read_bytes()
    await theirs.aclose()
    await fill(path, b"ours")
    path.with_name(path.name + "-wal").write_bytes(wal)
    ours = journal(path)
    ours.open()
    with pytest.raises(JournalError, match="another journal"):
        body_of(ours, call(0))
    await ours.aclose()


async def test_the_journal_of_a_newer_format_is_refused(path: Path) -> None:
    await fill(path, b"body")
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version=99")
    await refused(path, "newer version of slashtag")


async def make_older(path: Path) -> None:
    """Give a journal the tables that the format before had."""
    await fill(path, b"body")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("DROP TABLE batch")
        file.execute(
            "CREATE TABLE batch (id INTEGER PRIMARY KEY, question BLOB NOT NULL, last INTEGER NOT NULL,"
            " checksum INTEGER NOT NULL, links BLOB NOT NULL)"
        )
        file.execute("INSERT INTO batch VALUES (1, 'stats 0', 0, 0, '[[\"k0\",1]]')")
        file.execute("PRAGMA user_version=4")


async def test_of_an_older_format_everything_is_requested_anew_with_a_warning(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await make_older(path)
    for answer, warnings in ((None, 1), (b"anew", 1)):
        kept = journal(path)
        kept.open()
        assert body_of(kept, call(0)) == answer
        kept.keep(call(0), None, b"anew")
        await kept.aclose()
        assert len(caplog.records) == warnings


async def test_an_older_journal_of_another_account_is_left_as_it_is(path: Path) -> None:
    await make_older(path)
    before = path.read_bytes()
    await refused(path, "another account", apikey=KEY[::-1])
    assert path.read_bytes() == before


# --- what it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"slashtag,clicks\nspring,3\n", b"\0", b"SQLite format 3\0" + b"\0" * 4_000]
)
async def test_a_file_that_is_not_a_journal_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o644)
    await refused(path, "not a journal")
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_the_database_of_another_program_is_refused_and_not_even_opened(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA journal_mode={mode}")
        file.execute("CREATE TABLE job (name, value)")
        file.commit()
        await refused(path, "not a journal of slashtag")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(path: Path, make: Any) -> None:
    make(path)
    with pytest.raises(ConfigurationError, match="not a regular file"):
        journal(path).open()


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_path_that_cannot_be_one_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        journal(Path(name)).open()


async def test_a_missing_parent_folder_is_told(tmp_path: Path) -> None:
    await refused(tmp_path / "missing" / "job.journal", "No such file")


@pytest.mark.parametrize("exists", [False, True])
async def test_a_folder_that_cannot_be_written_is_told(path: Path, exists: bool) -> None:
    if exists:
        await fill(path, b"body")
        path.chmod(0o666)
    path.parent.chmod(0o555)
    for folder in path.parent.parents:
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith("pytest"):
            folder.chmod(0o755)
    try:
        with unprivileged(), pytest.raises(ConfigurationError, match="cannot be opened"):
            journal(path).open()
    finally:
        path.parent.chmod(0o755)
    assert [file.name for file in path.parent.iterdir()] == ([path.name] if exists else [])


async def test_a_name_that_sqlite_takes_for_memory_is_a_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    for name in (":memory:", "file:x?mode=memory", "100% #1?.journal"):
        await fill(Path(name), b"body")
        kept = journal(Path(name))
        kept.open()
        assert body_of(kept, call(0)) == b"body"
        await kept.aclose()
        assert Path(name).stat().st_size


# --- in use -------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from slashtag._journal.journal import Journal
Journal(Path(sys.argv[1]), sys.argv[2], sys.argv[3], 3600.0).open()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_journal_in_use_by_another_process_is_refused(path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(path), BASE, KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(ConfigurationError, match="in use by another session"):
            journal(path).open()
        holder.kill()
    kept = journal(path)
    kept.open()
    asyncio.run(kept.aclose())


def test_a_journal_in_use_in_this_process_is_refused_by_any_name(path: Path) -> None:
    kept = journal(path)
    kept.open()
    link = path.with_name("link")
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(ConfigurationError, match="in use by another session"):
            journal(name).open()
    # Nor did looking at it give up the lock.
    command = [sys.executable, "-c", HOLD, str(path), BASE, KEY]
    other = subprocess.run(command, input=b"", capture_output=True)
    assert b"in use by another session" in other.stderr
    asyncio.run(kept.aclose())


# --- what others can see ------------------------------------------------------------------------------


async def test_no_file_of_it_holds_the_key_or_the_secret(path: Path) -> None:
    async with Sandbox(urls=20, clicks=200, tags=1) as box, client(box, journal=path) as job:
        await job.stats.collect(SPAN, keys=job.urls.list())
        await until(lambda: committed(path), 60)
        raw = b"".join(file.read_bytes() for file in path.parent.iterdir())
    raw += path.read_bytes()
    assert b"clicks" in raw
    for secret in (box.apikey, box.apisecret):
        assert secret.encode() not in raw
        assert secret.encode("utf-16-le") not in raw


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
async def test_every_file_of_it_is_for_its_owner_only(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        kept = journal(path)
        kept.open()
        kept.keep(call(), None, b"body")
        wal = Path(f"{path}-wal")
        await until(lambda: wal.exists() and wal.stat().st_size, 60)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await kept.aclose()
    assert wal.name in modes
    assert set(modes.values()) == {0o600}


# --- damaged ------------------------------------------------------------------------------------------


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(8))
async def test_overwritten_pages_are_told_and_never_replayed(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice((300, 3_000, 30_000))) for _ in range(60)]
    await fill(path, *bodies)
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        for page in rng.sample(range(1, pages), 4):
            file.seek(4096 * page)
            file.write(rng.randbytes(4096))
    kept = journal(path)
    told: list[str] = []
    try:
        kept.open()
    except ConfigurationError as error:
        told.append(str(error))
    for n, body in enumerate(bodies if kept._file.main else ()):
        try:
            assert body_of(kept, call(n)) in (body, None)
        except JournalError as error:
            told.append(str(error))
    await kept.aclose()
    assert told
    assert all("damaged" in text for text in told)


async def test_a_file_cut_short_is_told(path: Path) -> None:
    await fill(path, *(bytes([n]) * 5_000 for n in range(20)))
    os.truncate(path, path.stat().st_size // 2)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="damaged"):
        journal(path).open()
    assert path.read_bytes() == before


async def test_opening_a_large_journal_does_not_read_all_of_it(path: Path) -> None:
    await fill(path, *(bytes([n]) * 1_000_000 for n in range(40)))

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    reads = []
    for _ in range(2):  # the first brings the index up to date
        before, kept = read(), journal(path)
        kept.open()
        reads.append(read() - before)
        assert body_of(kept, call(39)) == bytes([39]) * 1_000_000
        await kept.aclose()
    assert max(reads) < path.stat().st_size / 20


# --- no room ------------------------------------------------------------------------------------------

FULL = textwrap.dedent("""
    import asyncio, resource, sys
    from slashtag import AsyncSession, DateRange, JournalError

    async def main(path, base_url, apikey, apisecret):
        failures = []
        options = dict(apikey=apikey, apisecret=apisecret, journal=path, concurrency=4)
        async with AsyncSession(base_url, **options) as job:
            keys = [url.slashtag for url in await job.urls.list(pagesize=10).to_list()]
            try:
                each = job.stats.collect_each(DateRange("2022-01-01", "2024-12-31"), keys=keys,
                    inferred=False, on_error=failures.append)
                async for _ in each:
                    pass
            except JournalError as error:
                print(job.metrics.attempts, len(failures), error)

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    asyncio.run(main(*sys.argv[1:]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)  # what measures the tests writes files of its own
""")


async def complete(box: Sandbox, path: Path) -> dict[str, Any]:
    """Run the job again; give its table."""
    before = len(box.requests)
    async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, journal=path) as job:
        keys = [url.slashtag for url in await job.urls.list(pagesize=10).to_list()]
        each = job.stats.collect_each(SPAN, keys=keys, inferred=False)
        table = {key: stats.clicks async for key, stats in each}
        assert job.metrics.replayed > 30
        assert job.metrics.replayed + len(box.requests) - before == job.metrics.requests
    return table


@pytest.mark.unmeasured
def test_a_full_disk_stops_the_job_and_the_rerun_completes(path: Path) -> None:
    with Sandbox(urls=30, clicks=600) as box:
        # Slow enough for a commit to come while there is still something to be asked.
        box.latency = 0.005
        # -B: a compiled module that the limit cuts would end the processes of other tests.
        script = [sys.executable, "-B", "-c", FULL]
        command = [*script, str(path), box.base_url, box.apikey, box.apisecret]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        attempts, failures, told = run.stdout.split(maxsplit=2)
        assert "cannot be written" in told
        assert int(failures) == 0
        assert int(attempts) < 30 * 36
        box.latency = 0.0
        truth = box.truth.per_key("2022-01-01", "2024-12-31")
        assert asyncio.run(complete(box, path)) == {key: true.clicks for key, true in truth.items()}


def test_a_journal_that_is_open_is_not_removed(path: Path) -> None:
    file = JournalFile(path, BASE, KEY)
    file.open()
    remove_journal(path)
    assert path.exists()
    file.close()
    remove_journal(path)
    remove_journal(path)
    assert list(path.parent.iterdir()) == []


# --- locks of other systems ---------------------------------------------------------------------------


def lock_like_sqlite(handle: int, _: int) -> None:
    """Lock a file by what excludes fcntl locks, also those of this process."""
    write, whole = fcntl.F_WRLCK, (0, 0)
    fcntl.fcntl(handle, 37, struct.pack("hhqqi4x", write, os.SEEK_SET, *whole, 0))  # F_OFD_SETLK


async def test_a_journal_works_where_flock_and_fcntl_locks_exclude_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lock_like_sqlite)
    await fill(path, b"body")
    kept = journal(path)
    kept.open()
    assert body_of(kept, call(0)) == b"body"
    with pytest.raises(ConfigurationError, match="in use"):
        journal(path).open()
    # Nor did being refused end the locks of the first.
    with closing(sqlite3.connect(path, timeout=0)) as other, pytest.raises(sqlite3.OperationalError):
        other.execute("SELECT * FROM job")
    await kept.aclose()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
async def test_a_folder_without_locks_is_not_taken_for_a_journal_in_use(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(number, os.strerror(number))))
    await refused(path, "has no locks")


FORK = """
import os, sys, threading
from pathlib import Path
from slashtag._core.call import Call
from slashtag._journal.journal import Journal

path = Path(sys.argv[1])
kept = Journal(path, sys.argv[2], sys.argv[3], 3600.0)
kept.open()
call = Call(
    method="GET", path="stats", params=(("tag", "0"),), returns=object, replayable=True, link_ids=((1, 2),)
)
kept.keep(call, None, b"x")
kept._thread.submit(int).result()
child = os.fork()
if not child:
    if sys.argv[4] == "ends":
        kept._close()
        sys.exit()
    print("forked", flush=True)
    sys.stdin.read()
elif sys.argv[4] == "ends":
    assert os.waitpid(child, 0)[1] == 0
    assert Path(f"{path}-wal").stat().st_size
os._exit(0)
"""


@pytest.mark.parametrize("child", ["ends", "stays"])
def test_a_forked_child_keeps_no_lock_and_takes_no_answer(path: Path, child: str) -> None:
    command = [sys.executable, "-c", FORK, str(path), BASE, KEY, child]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == (b"forked\n" if child == "stays" else b"")
        assert parent.wait() == 0
        kept = journal(path)
        kept.open()
        assert body_of(kept, call(0)) == b"x"
        asyncio.run(kept.aclose())
