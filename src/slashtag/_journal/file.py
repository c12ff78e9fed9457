"""SQLite file of a journal: its job, its lock and its responses."""

import hmac
import logging
import secrets
import sqlite3
import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .._credentials import account_hash
from .._errors import ConfigurationError, JournalError
from .._files import FileLock

APPLICATION_ID = 0x736C7467  # "sltg"
_HEADER_ID = struct.pack(">I", APPLICATION_ID)
VERSION = 5
BUSY_SECONDS = 1.0
#: Endings of a journal's name and those of the files that SQLite keeps beside it.
_ENDINGS = ("", "-wal", "-shm")

_TABLES = (
    f"PRAGMA user_version={VERSION}",
    # In the order of arrival; an answer replaces one of the same request.
    "CREATE TABLE response (id INTEGER PRIMARY KEY AUTOINCREMENT, request BLOB NOT NULL UNIQUE,"
    " fetched REAL NOT NULL, checksum INTEGER NOT NULL, body BLOB NOT NULL)",
    # Batches of slashtags, in the order in which they were made.
    "CREATE TABLE batch (id INTEGER PRIMARY KEY, kind BLOB NOT NULL, checksum INTEGER NOT NULL,"
    " links BLOB NOT NULL)",
)
_SCHEMA = (
    f"PRAGMA application_id={APPLICATION_ID}",
    "CREATE TABLE job (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    *_TABLES,
)
_KEEP = "INSERT OR REPLACE INTO response (request, fetched, checksum, body) VALUES (?, ?, ?, ?)"
_KEEP_BATCH = "INSERT INTO batch (kind, checksum, links) VALUES (?, ?, ?)"
_FIND = "SELECT fetched, checksum, body FROM response WHERE request = ?"
_BATCHES = "SELECT kind, checksum, links FROM batch ORDER BY id"
_HAS_FROM = "SELECT EXISTS (SELECT 1 FROM response WHERE request >= ?)"
_LAST_FETCHED = "SELECT fetched FROM response ORDER BY id DESC LIMIT 1"

log = logging.getLogger("slashtag")


class UnfitJournalError(ConfigurationError):
    """A journal that is damaged, of a newer version, or of another job."""


class Stored(NamedTuple):
    """Response in the file: its time (epoch seconds) and body."""

    fetched: float
    body: bytes


class JournalFile:
    """Responses of one job in SQLite, bound to one base URL and one account.

    The file is used by one session at a time, is readable only by its owner, and is never repaired. One
    without responses is removed when it is closed.
    """

    def __init__(self, path: Path, base_url: str, apikey: str) -> None:
        self.path = path
        self._base_url = base_url
        self._apikey = apikey
        self._salt = secrets.token_hex(16)
        self._bound = False
        #: Connection for writing; None while the file is closed.
        self.main: sqlite3.Connection | None = None
        #: Read-only snapshot of the file at opening; None if it was empty. The session writes only to the
        #: WAL, so the main file does not change until it is closed: it is read without a lock, and without
        #: waiting for a commit.
        self.snapshot: sqlite3.Connection | None = None
        #: Batches that the file had at opening: kind, links.
        self.batches: list[tuple[bytes, bytes]] = []
        #: Time of its last response, None if it had none.
        self.last_fetched: float | None = None
        self._lock = FileLock(path)

    def open(self) -> None:
        """Open or create the file.

        Raises ConfigurationError if it is not a journal, is damaged, in use, or belongs to another job.
        """
        try:
            self._claim()
            self.main = self._lock.guarded = self._connect()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise self._in_use() from None
            # A ValueError is for a NUL, or for a name that the file system cannot encode.
            expected = OSError | sqlite3.OperationalError | ValueError
            if isinstance(error, expected) and not isinstance(error, ConfigurationError):
                reason = error.strerror if isinstance(error, OSError) else error
                raise self._unusable(reason) from None
            if isinstance(error, sqlite3.DatabaseError):
                raise self._unfit(f"is not a journal, or is damaged ({error})") from None
            raise

    def _claim(self) -> None:
        """Lock the path and create a missing file; raise if it is in use or not a journal."""
        # SQLite's locks do not exclude a second session in this process. Waiting for one could also outlive
        # the file.
        if not self._lock.acquire():
            raise self._in_use()
        if not self.path.exists():
            self.path.touch(0o600)
        if not self.path.is_file():
            raise self._unusable("it is not a regular file")
        # Checked before SQLite opens it, which may change another program's database. Closed before, too:
        # that would end SQLite's locks.
        with self.path.open("rb") as file:
            header = file.read(72)
        if header and not (header.startswith(b"SQLite format 3\0") and header[68:] == _HEADER_ID):
            raise ConfigurationError(str(self._unfit("is not a journal of slashtag")))
        self.path.chmod(0o600)

    def _unusable(self, reason: object) -> ConfigurationError:
        return ConfigurationError(f"the journal {str(self.path)!r} cannot be opened: {reason}")

    def _unfit(self, why: str) -> UnfitJournalError:
        return UnfitJournalError(f"{self.path} {why}; it was left as it is: remove it to begin anew")

    def set_aside(self, why: str) -> None:
        """Rename the file, which is closed, and say so; one that was set aside before is replaced."""
        aside = self.path.with_name(f"{self.path.name}.aside")
        for ending in _ENDINGS:
            old, new = Path(f"{self.path}{ending}"), Path(f"{aside}{ending}")
            with suppress(FileNotFoundError):
                old.replace(new)
        self._salt, self._bound, self.last_fetched = secrets.token_hex(16), False, None
        self.batches.clear()
        log.warning("%s: it is now %s, and everything is requested", why.partition("; ")[0], aside)

    def _in_use(self) -> ConfigurationError:
        return ConfigurationError(f"the journal {self.path} is in use by another session or export")

    def _connect(self) -> sqlite3.Connection:
        # Absolute: a file may be named ":memory:", which is special in SQLite.
        path = self.path.absolute()
        file = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA locking_mode=EXCLUSIVE")
            file.execute("BEGIN EXCLUSIVE")
            if not _one(file, "SELECT count(*) FROM sqlite_schema"):
                for statement in _SCHEMA:
                    file.execute(statement)
            else:
                self._check(file)
                for kind, checksum, links in file.execute(_BATCHES):
                    if checksum != self._checksum(kind, 0.0, links):
                        raise sqlite3.DatabaseError("a batch was altered, or comes from another journal")
                    self.batches.append((kind, links))
                self.last_fetched = next((fetched for (fetched,) in file.execute(_LAST_FETCHED)), None)
            file.execute("COMMIT")
            if _one(file, "PRAGMA journal_mode=WAL") != "wal":
                raise sqlite3.OperationalError("its file system does not allow a write-ahead log")
            file.execute("PRAGMA synchronous=NORMAL")
            file.execute("PRAGMA wal_autocheckpoint=0")
            if _one(file, "PRAGMA wal_checkpoint(TRUNCATE)"):
                raise sqlite3.OperationalError("database is locked")
            if self.last_fetched is not None:
                uri = f"{path.as_uri()}?immutable=1"
                self.snapshot = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        except BaseException:
            file.close()
            raise
        return file

    def _check(self, file: sqlite3.Connection) -> None:
        """Check whose file it is."""
        version = _one(file, "PRAGMA user_version")
        if version > VERSION:
            raise self._unfit(f"was written by a newer version of slashtag (format {version}, not {VERSION})")
        job = dict(file.execute("SELECT name, value FROM job"))
        if job:
            if job.get("base_url") != self._base_url:
                its = job.get("base_url")
                raise self._unfit(f"belongs to a job with base_url {its}, not {self._base_url}")
            self._salt = job.get("salt", "")
            if not hmac.compare_digest(job.get("account", ""), self._account()):
                raise self._unfit("belongs to a job of another account")
            self._bound = True
        if version < VERSION:
            # Its answers do not say which links they are about.
            log.warning("the journal %s is of an earlier version: everything is requested anew", self.path)
            file.execute("DROP TABLE IF EXISTS response")
            file.execute("DROP TABLE IF EXISTS batch")
            for statement in _TABLES:
                file.execute(statement)

    def _account(self) -> str:
        return account_hash(self._apikey, self._salt).hex()

    def find(self, request: bytes) -> Stored | None:
        """Return a response that the file had when it was opened; raises JournalError if it is damaged."""
        if self.snapshot is None:
            return None
        try:
            row = self.snapshot.execute(_FIND, (request,)).fetchone()
            if row is None:
                return None
            fetched, checksum, body = row
            if checksum != self._checksum(request, fetched, body):
                raise sqlite3.DatabaseError("a response was altered, or comes from another journal")
        except sqlite3.DatabaseError as error:
            problem = f"the journal {self.path} is damaged ({error}); it was left as it is"
            raise JournalError(problem) from None
        return Stored(fetched, body)

    def has_responses_from(self, request: bytes) -> bool:
        """Return whether the file had responses to requests that sort from this one on, at opening."""
        return self.snapshot is not None and bool(self.snapshot.execute(_HAS_FROM, (request,)).fetchone()[0])

    def append(self, rows: Iterable[tuple[bytes, float | None, bytes]]) -> str | None:
        """Commit responses (request, time, body) and batches (kind, None, links) in this order.

        Returns the reason if that failed.
        """
        file = self.main
        assert file is not None
        try:
            with file:
                file.execute("BEGIN")
                if not self._bound:
                    job = {"salt": self._salt, "base_url": self._base_url, "account": self._account()}
                    file.executemany("INSERT INTO job VALUES (?, ?)", job.items())
                for key, fetched, body in rows:
                    checksum = self._checksum(key, fetched or 0.0, body)
                    if fetched is None:
                        file.execute(_KEEP_BATCH, (key, checksum, body))
                    else:
                        file.execute(_KEEP, (key, fetched, checksum, body))
        except Exception as error:
            return str(error) or type(error).__name__
        self._bound = True
        return None

    def _checksum(self, request: bytes, fetched: float, body: bytes) -> int:
        """Return the checksum of a response.

        It includes the salt to detect responses of another journal: SQLite reads any `-wal` file next to
        the database.
        """
        return zlib.crc32(body, zlib.crc32(self._salt.encode() + request + struct.pack("d", fetched)))

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None
        if self.main is not None:
            if self._lock.is_held:  # not in a forked child, where SQLite would remove the parent's log
                is_empty = False
                with suppress(sqlite3.Error):
                    is_empty = not _one(self.main, "SELECT EXISTS (SELECT 1 FROM response)")
                self.main.close()
                if is_empty and not self.path.is_symlink():
                    _unlink(self.path)
            self.main = None
            self._lock.release()


def remove_journal(path: Path) -> bool:
    """Remove a journal and the files that SQLite keeps beside it, unless a session has it open.

    Returns False if it is still there.
    """
    lock = FileLock(path)
    with suppress(OSError):
        try:
            if path.exists() and lock.acquire():
                _unlink(path)
        finally:
            lock.release()
    return not path.exists()


def _unlink(path: Path) -> None:
    for ending in _ENDINGS:
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _one(file: sqlite3.Connection, statement: str) -> Any:
    return file.execute(statement).fetchone()[0]
