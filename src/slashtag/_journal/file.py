"""The file of a journal: whose job it is of, who may write to it, and the responses that it holds."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import stat
import struct
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._errors import ConfigurationError, JournalError

APPLICATION_ID = 0x736C7467  # "sltg"
VERSION = 1
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
_claiming = threading.Lock()


class JournalInUseError(ConfigurationError):
    """Refuse a journal that another session has open."""


class UnfitJournalError(ConfigurationError):
    """Refuse a file that is no journal of this job; removed, it would be in nobody's way."""


class JournalFile:
    """Hold the responses of one job in SQLite, bound to one base URL and one account.

    The file is for one session at a time, readable by its owner only, and never deleted or repaired here.
    """

    def __init__(self, path: Path, base_url: str, apikey: str) -> None:
        self.path = path
        self._base_url = base_url
        self._apikey = apikey.encode()
        #: What is written to; None while it is closed.
        self.main: sqlite3.Connection | None = None
        #: What the file held when it was opened, None for nothing. Its main part stays untouched until it
        #: is closed, as the session writes to the WAL only: it is read without a lock, and no commit is
        #: waited for.
        self.image: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    # --- opening -------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open or create the file.

        Raises ConfigurationError for one that is not a journal, is damaged, in use, or of another account.
        """
        try:
            self._claim()
            self.main = self._connect()
        except sqlite3.OperationalError as error:
            self._release()
            if "locked" in str(error):
                raise self._in_use() from None
            raise ConfigurationError(f"the journal {self.path} cannot be opened: {error}") from None
        except sqlite3.DatabaseError as error:
            self._release()
            raise UnfitJournalError(
                f"{self.path} is not a journal, or is damaged ({error}); it was left as it is"
            ) from None
        except OSError as error:
            self._release()
            raise ConfigurationError(f"the journal {self.path} cannot be opened: {error.strerror}") from None
        except BaseException:
            self._release()
            raise

    def _claim(self) -> None:
        """Create the file where there is none, and let nothing but a journal of ours pass."""
        try:
            # Not by SQLite, which would let the umask decide who may read it.
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self.path.chmod(0o600)  # the umask may have taken something off
        except FileExistsError:
            pass
        except ValueError as error:  # a NUL, or what the file system cannot encode
            raise ConfigurationError(f"the journal {str(self.path)!r} cannot be opened: {error}") from None
        found = self.path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"the journal {self.path} cannot be opened: it is not a regular file")
        identity = found.st_dev, found.st_ino
        with _claiming:
            if identity in _open:
                raise self._in_use()
            # Before the header is read: closing a file gives up the locks that the process has on it.
            _open.add(identity)
            self._identity = identity
        if found.st_size:
            # Looked at before SQLite does: opening another program's database may change it.
            with self.path.open("rb") as file:
                header = file.read(72)
            if header[:16] != b"SQLite format 3\0" or header[68:] != struct.pack(">I", APPLICATION_ID):
                raise UnfitJournalError(f"{self.path} is not a journal of slashtag; it was left as it is")
        if found.st_mode & 0o077:
            os.chmod(self.path, stat.S_IMODE(found.st_mode) & 0o700)

    def _release(self) -> None:
        if self._identity is not None:
            _open.discard(self._identity)
            self._identity = None

    def _in_use(self) -> JournalInUseError:
        return JournalInUseError(f"the journal {self.path} is in use by another session")

    def _connect(self) -> sqlite3.Connection:
        # Absolute, as ":memory:" is no file to SQLite.
        path = self.path.absolute()
        file = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA locking_mode=EXCLUSIVE")
            file.execute("BEGIN EXCLUSIVE")
            if not _one(file, "SELECT count(*) FROM sqlite_schema"):
                self._begin(file)
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
                self.image = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        except BaseException:
            file.close()
            raise
        return file

    def _begin(self, file: sqlite3.Connection) -> None:
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
            raise UnfitJournalError(
                f"the journal {self.path} was written by another version of slashtag (format {version})"
            )
        job = dict(file.execute("SELECT name, value FROM job"))
        if job.get("base_url") != self._base_url:
            raise UnfitJournalError(
                f"the journal {self.path} is of a job against {job.get('base_url')}, not {self._base_url}"
            )
        if not hmac.compare_digest(job.get("account", ""), self._account(job.get("salt", ""))):
            raise UnfitJournalError(f"the journal {self.path} is of a job of another account")

    def _account(self, salt: str) -> str:
        # Keyed and slow to try out: the file must not give the apikey away.
        return hashlib.pbkdf2_hmac("sha256", self._apikey, salt.encode(), 5_000).hex()

    # --- responses -----------------------------------------------------------------------------------

    def find(self, request: bytes) -> tuple[float, int, bytes] | None:
        """Return when a response was fetched, its checksum and its body, if it was there at the opening."""
        if self.image is None:
            return None
        try:
            row: tuple[float, int, bytes] | None = self.image.execute(_FIND, (request,)).fetchone()
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from None
        return row

    def damaged(self, problem: str) -> JournalError:
        """Give the error of a file whose responses cannot be trusted."""
        return JournalError(f"the journal {self.path} is damaged ({problem}); it was left as it is")

    def append(self, rows: Iterable[tuple[bytes, float, bytes]]) -> str | None:
        """Commit requests, when they were answered, and the bodies; return what kept it from being done."""
        file = self.main
        assert file is not None
        try:
            file.execute("BEGIN")
            file.executemany(_KEEP, ((key, at, checksum(key, at, body), body) for key, at, body in rows))
            file.execute("COMMIT")
        except Exception as error:
            if file.in_transaction:
                file.execute("ROLLBACK")
            return str(error) or type(error).__name__
        return None

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self.image is not None:
            self.image.close()
            self.image = None
        if self.main is not None:
            self.main.close()
            self.main = None
            self._release()


def checksum(request: bytes, fetched: float, body: bytes) -> int:
    """Sum up a response, so that an altered one is found out."""
    return zlib.crc32(body, zlib.crc32(request + struct.pack("d", fetched)))


def _one(file: sqlite3.Connection, statement: str) -> Any:
    return file.execute(statement).fetchone()[0]
