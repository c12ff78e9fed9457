"""The journal of a job: finished responses in an SQLite file, so that a second run asks for the rest."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import sqlite3
import stat
import struct
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ._core.call import Call
from ._core.replay import holds, may_replay
from ._errors import ConfigurationError, JournalError

T = TypeVar("T")

APPLICATION_ID = 0x736C7467  # "sltg"
VERSION = 1
COMMIT_SECONDS = 0.2
COMMIT_BYTES = 4 * 2**20
CROWDED_BYTES = 64 * 2**20
BUSY_SECONDS = 1.0

# Responses are appended, in the order in which they came: an index kept meanwhile would double what is
# written. `held` is that index, brought up to date when the file is opened.
_SCHEMA = (
    f"PRAGMA application_id={APPLICATION_ID}",
    f"PRAGMA user_version={VERSION}",
    "CREATE TABLE job (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE response (id INTEGER PRIMARY KEY, request BLOB NOT NULL, fetched REAL NOT NULL,"
    " checksum INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE held (request BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID",
)
_INDEX = (
    "DELETE FROM response WHERE id IN (SELECT held.id FROM response new JOIN held USING (request)"
    " WHERE new.id > :last)",
    "INSERT OR REPLACE INTO held SELECT request, id FROM response WHERE id > :last ORDER BY id",
    "DELETE FROM response WHERE id > :last AND id NOT IN (SELECT id FROM held)",
)
_KEEP = "INSERT INTO response (request, fetched, checksum, body) VALUES (?, ?, ?, ?)"
_FIND = "SELECT fetched, checksum, body FROM held JOIN response USING (id) WHERE held.request = ?"

# SQLite's locks belong to the process: a second session in it would get past them.
_open: set[tuple[int, int]] = set()


class Journal:
    """Keep the responses of one job, bound to one base URL and one account.

    A response is replayed if the file held it before this session began, if it was final when it was
    fetched (see `_core.replay`) and is at most `max_age` seconds old. Responses are committed by a thread,
    in groups, a fifth of a second after they came at the latest: kill -9 loses no more. The file is for
    one session at a time, readable by its owner only, and never deleted or repaired here.

    Raises ConfigurationError for a file that is not a journal, is damaged, in use, or of another account;
    JournalError where it cannot be written, say on a full disk: what was committed stays.
    """

    def __init__(self, path: str | os.PathLike[str], base_url: str, apikey: str, max_age: float) -> None:
        if not max_age >= 0:
            raise ConfigurationError(
                f"journal_max_age is {max_age}; it must be a number of seconds, 0 or more"
            )
        self.path = Path(path)
        self._base_url = base_url
        self._apikey = apikey.encode()
        self._max_age = max_age
        self._began = 0.0
        self._file: sqlite3.Connection | None = None
        # What the file held when it was opened. Its main part stays untouched until it is closed, as this
        # session writes to the WAL only: so it is read without a lock, and no commit is waited for.
        self._image: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._changed = threading.Condition()
        self._pending: list[tuple[bytes, float, bytes]] = []
        self._pending_bytes = 0
        self._writer: threading.Thread | None = None
        self._closed = False
        self._failure: str | None = None
        self._told = False

    def __repr__(self) -> str:
        return f"<Journal {str(self.path)!r}>"

    # --- opening -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open or create the file in a thread: checking a long job's file takes its time."""
        try:
            await in_thread(self.open)
        except asyncio.CancelledError:
            self._close()
            raise

    def open(self) -> None:
        """Open or create the file; safe to repeat."""
        if self._file is not None or self._closed:
            return
        try:
            self._claim()
            self._file = self._connect()
        except sqlite3.OperationalError as error:
            self._release()
            if "locked" in str(error):
                raise self._in_use() from None
            raise ConfigurationError(f"the journal {self.path} cannot be opened: {error}") from None
        except sqlite3.DatabaseError as error:
            self._release()
            raise ConfigurationError(
                f"{self.path} is not a journal, or is damaged ({error}); it was left as it is"
            ) from None
        except OSError as error:
            self._release()
            raise ConfigurationError(f"the journal {self.path} cannot be opened: {error.strerror}") from None
        except BaseException:
            self._release()
            raise
        self._began = time.time()

    def _claim(self) -> None:
        """Create the file where there is none, and let nothing but a journal of ours pass."""
        with suppress(FileExistsError):
            # Not by SQLite, which would let the umask decide who may read it.
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        found = self.path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"the journal {self.path} cannot be opened: it is not a regular file")
        identity = found.st_dev, found.st_ino
        if identity in _open:
            raise self._in_use()
        if found.st_size:
            # Looked at before SQLite does: opening another program's database may change it.
            with self.path.open("rb") as file:
                header = file.read(72)
            if header[:16] != b"SQLite format 3\0" or header[68:] != struct.pack(">I", APPLICATION_ID):
                raise ConfigurationError(f"{self.path} is not a journal of slashtag; it was left as it is")
        _open.add(identity)
        self._identity = identity
        if found.st_mode & 0o077:
            os.chmod(self.path, stat.S_IMODE(found.st_mode) & 0o700)

    def _release(self) -> None:
        if self._identity is not None:
            _open.discard(self._identity)
            self._identity = None

    def _in_use(self) -> ConfigurationError:
        return ConfigurationError(f"the journal {self.path} is in use by another session")

    def _connect(self) -> sqlite3.Connection:
        # Absolute, as ":memory:" is no file to SQLite.
        path = self.path.absolute()
        file = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA locking_mode=EXCLUSIVE")
            file.execute("BEGIN EXCLUSIVE")
            if not _one(file, "SELECT count(*) FROM sqlite_schema"):
                self._found(file)
            else:
                self._check(file)
                last = {"last": _one(file, "SELECT coalesce(max(id), 0) FROM held")}
                for statement in _INDEX:
                    file.execute(statement, last)
            file.execute("COMMIT")
            if _one(file, "PRAGMA journal_mode=WAL") != "wal":
                raise sqlite3.OperationalError("its file system does not allow a write-ahead log")
            file.execute("PRAGMA synchronous=NORMAL")
            file.execute("PRAGMA wal_autocheckpoint=0")
            if _one(file, "PRAGMA wal_checkpoint(TRUNCATE)"):
                raise sqlite3.OperationalError("database is locked")
            if _one(file, "SELECT EXISTS (SELECT 1 FROM held)"):
                uri = f"{path.as_uri()}?immutable=1"
                self._image = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        except BaseException:
            file.close()
            raise
        return file

    def _found(self, file: sqlite3.Connection) -> None:
        for statement in _SCHEMA:
            file.execute(statement)
        salt = secrets.token_hex(16)
        rows = {"salt": salt, "base_url": self._base_url, "account": self._account(salt)}
        file.executemany("INSERT INTO job VALUES (?, ?)", rows.items())

    def _check(self, file: sqlite3.Connection) -> None:
        problem = _one(file, "PRAGMA quick_check(1)")
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        version = _one(file, "PRAGMA user_version")
        if version != VERSION:
            raise ConfigurationError(
                f"the journal {self.path} was written by another version of slashtag (format {version})"
            )
        job = dict(file.execute("SELECT name, value FROM job"))
        if job.get("base_url") != self._base_url:
            raise ConfigurationError(
                f"the journal {self.path} is of a job against {job.get('base_url')}, not {self._base_url}"
            )
        if not hmac.compare_digest(job.get("account", ""), self._account(job.get("salt", ""))):
            raise ConfigurationError(f"the journal {self.path} is of a job of another account")

    def _account(self, salt: str) -> str:
        # Keyed and slow to try out: the file must not give the apikey away.
        return hashlib.pbkdf2_hmac("sha256", self._apikey, salt.encode(), 5_000).hex()

    # --- reading and writing -----------------------------------------------------------------------

    def find(self, call: Call[Any]) -> bytes | None:
        """Return the body that may be replayed for a call, if there is one."""
        if self._file is None:
            self.open()
        if self._image is None or self._closed or call.method != "GET":
            return None
        request = _request(call)
        try:
            row: tuple[float, int, bytes] | None = self._image.execute(_FIND, (request,)).fetchone()
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from None
        if row is None:
            return None
        fetched, checksum, body = row
        # What was fetched later than now was so by a clock that was wrong.
        if not self._began - self._max_age <= fetched <= self._began or not holds(call, fetched):
            return None
        if checksum != _checksum(request, fetched, body):
            raise self._damaged("a response was altered")
        return body

    def _damaged(self, problem: str) -> JournalError:
        return JournalError(f"the journal {self.path} is damaged ({problem}); it was left as it is")

    def keep(self, call: Call[Any], data: object, body: bytes) -> bool:
        """Take a finished response; True if so many wait to be written that the caller should `wait`."""
        self._check_failure()
        fetched = time.time()
        if self._closed or not may_replay(call, data, fetched):
            return False
        with self._changed:
            self._pending.append((_request(call), fetched, body))
            self._pending_bytes += len(body)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="slashtag-journal", daemon=True)
                self._writer.start()
            elif len(self._pending) == 1 or self._pending_bytes >= COMMIT_BYTES:
                self._changed.notify()
            return self._pending_bytes >= CROWDED_BYTES

    async def wait(self) -> None:
        """Wait until what is crowded was written."""
        while self._pending_bytes >= CROWDED_BYTES and self._failure is None:  # noqa: ASYNC110
            # Rare enough for a poll: the writer is a thread.
            await asyncio.sleep(COMMIT_SECONDS / 4)
        self._check_failure()

    def _check_failure(self) -> None:
        if self._failure is not None:
            self._told = True
            raise JournalError(
                f"the journal {self.path} cannot be written ({self._failure}); what it holds is intact: "
                "run the job again once there is room"
            )

    def _write(self) -> None:
        """Commit what is kept, until closed: the life of the thread."""
        ending = False
        while not ending:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closed)
                self._changed.wait_for(self._is_due, COMMIT_SECONDS)
                rows, self._pending, size = self._pending, [], self._pending_bytes
                ending = self._closed
            if rows and self._failure is None:
                self._failure = self._commit(rows)
            with self._changed:
                self._pending_bytes -= size
        self._close()

    def _is_due(self) -> bool:
        return self._closed or self._pending_bytes >= COMMIT_BYTES

    def _commit(self, rows: list[tuple[bytes, float, bytes]]) -> str | None:
        file = self._file
        assert file is not None
        try:
            file.execute("BEGIN")
            file.executemany(_KEEP, ((key, at, _checksum(key, at, body), body) for key, at, body in rows))
            file.execute("COMMIT")
        except Exception as error:
            if file.in_transaction:
                file.execute("ROLLBACK")
            return str(error) or type(error).__name__
        return None

    # --- the end -------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Commit what is left and close the file; raises JournalError if that fails and was not yet told."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._writer is not None:
            # The thread closes the file, whether or not somebody still waits for that.
            await in_thread(self._writer.join)
        else:
            self._close()
        if not self._told:
            self._check_failure()

    def _close(self) -> None:
        if self._image is not None:
            self._image.close()
            self._image = None
        if self._file is not None:
            self._file.close()
            self._file = None
            self._release()


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread and wait for its end, also when cancelled: its file may be closed next."""
    # Not in one of the loop's own threads, which would stay.
    pool = ThreadPoolExecutor(1, "slashtag")
    work = asyncio.wrap_future(pool.submit(function))
    pool.shutdown(wait=False)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        if not work.cancelled():
            work.exception()
        raise


def _request(call: Call[Any]) -> bytes:
    """Name a request by a hash: a hundred slashtags make thousands of bytes."""
    # Each value with its length: no two requests have one text.
    text = "".join([call.path, *(f"?{name}:{len(value)}:{value}" for name, value in call.params)])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _checksum(request: bytes, fetched: float, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(request + struct.pack("d", fetched)))


def _one(file: sqlite3.Connection, statement: str) -> Any:
    return file.execute(statement).fetchone()[0]
