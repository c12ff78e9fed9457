"""SQLite file of a journal: whose job it is, its answers, and the order of its links."""

from __future__ import annotations

import errno
import hmac
import secrets
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from .._credentials import account_hash
from .._errors import ConfigurationError, JournalError

APPLICATION_ID = 0x736C7467  # "sltg"
VERSION = 6
_SCHEMA = (
    f"PRAGMA application_id={APPLICATION_ID}",
    f"PRAGMA user_version={VERSION}",
    "CREATE TABLE job (salt TEXT NOT NULL, account BLOB NOT NULL)",
    "CREATE TABLE answer (request BLOB PRIMARY KEY, made REAL NOT NULL, checksum INTEGER NOT NULL,"
    " body BLOB NOT NULL)",
    # Ids of links, or slashtags.
    "CREATE TABLE link (place INTEGER PRIMARY KEY, name NOT NULL)",
)
ADD_ANSWER = "INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)"
ADD_LINK = "INSERT INTO link VALUES (?, ?)"


class UnfitJournalError(ConfigurationError):
    """A file that is no journal, is damaged, of another version, or of another job."""


class JournalFile:
    """Answers of one job in SQLite, bound to one base URL and one account.

    SQLite locks the file for one session, in this process too, as long as nothing else in it opens and
    closes the file. It is readable only by its owner, and is never repaired.
    """

    def __init__(self, path: Path, base_url: str, apikey: str) -> None:
        self.path = path
        self._account = base_url, apikey
        #: Connection for writing; None while the file is closed.
        self.main: sqlite3.Connection | None = None
        #: The file as it was when it was opened. A session writes to the write-ahead log alone, so this is
        #: read without a lock and without waiting for a commit.
        self._before: sqlite3.Connection | None = None
        #: Ids of links, or slashtags, and their places in the order of the job.
        self.places: dict[int | str, int] = {}

    def open(self) -> None:
        """Open or create the file; raises ConfigurationError if that is not possible, or it is unfit."""
        why = ""
        try:
            self._check_kind()
            self.main = self._connect()
        except sqlite3.OperationalError as error:
            is_locked = "locked" in str(error)
            why = "is in use by another session or export" if is_locked else f"cannot be opened: {error}"
        except sqlite3.DatabaseError as error:
            raise self._unfit(f"is not a journal, or is damaged ({error})") from None
        except OSError as error:
            why = f"cannot be opened: {error.strerror}"
        if why:
            raise ConfigurationError(f"the journal {str(self.path)!r} {why}")

    def _check_kind(self) -> None:
        """Create a missing file; raise if it is no journal, before SQLite may change anything in it."""
        if not self.path.exists():
            self.path.touch(0o600)
        if not self.path.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        with closing(self._read_only()) as file:
            if self.path.stat().st_size and _one(file, "PRAGMA application_id") != APPLICATION_ID:
                raise self._unfit("is not a journal of slashtag")
        with suppress(PermissionError):  # some network folders have no modes
            self.path.chmod(0o600)

    def _read_only(self) -> sqlite3.Connection:
        """Connect to the main file alone, without a lock."""
        uri = f"{self.path.absolute().as_uri()}?immutable=1"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    def _connect(self) -> sqlite3.Connection:
        # Absolute: a file may be named ":memory:", which is special in SQLite.
        file = sqlite3.connect(self.path.absolute(), isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA busy_timeout=1000")
            file.execute("PRAGMA locking_mode=EXCLUSIVE")
            file.execute("BEGIN EXCLUSIVE")
            if is_new := not _one(file, "SELECT count(*) FROM sqlite_schema"):
                for statement in _SCHEMA:
                    file.execute(statement)
                salt = secrets.token_hex(16)
                file.execute("INSERT INTO job VALUES (?, ?)", (salt, self._hash(salt)))
            else:
                self._check(file)
                self.places = dict(file.execute("SELECT name, place FROM link"))
            file.execute("COMMIT")
            if _one(file, "PRAGMA journal_mode=WAL") != "wal":
                raise sqlite3.OperationalError("its file system does not allow a write-ahead log")
            file.execute("PRAGMA synchronous=NORMAL")
            file.execute("PRAGMA wal_autocheckpoint=0")
            # What a killed run left in the log.
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._before = None if is_new else self._read_only()
        except BaseException:
            file.close()
            raise
        return file

    def _check(self, file: sqlite3.Connection) -> None:
        """Check whose file it is."""
        version = _one(file, "PRAGMA user_version")
        if version != VERSION:
            raise self._unfit(f"was written by another version of slashtag (format {version}, not {VERSION})")
        salt, account = file.execute("SELECT * FROM job").fetchone()
        if not hmac.compare_digest(account, self._hash(salt)):
            raise self._unfit("belongs to a job of another account or base_url")

    def _hash(self, salt: str) -> bytes:
        base_url, apikey = self._account
        return account_hash(apikey, salt, base_url)

    def _unfit(self, why: str) -> UnfitJournalError:
        return UnfitJournalError(f"{self.path} {why}; it was left as it is: remove it to begin anew")

    @property
    def is_new(self) -> bool:
        """Whether there was nothing in the file when it was opened, or it is closed."""
        return self._before is None

    def find(self, request: bytes) -> tuple[float, bytes] | None:
        """Return when an answer was made that the file had when it was opened, and its body.

        Raises JournalError if it is damaged.
        """
        assert self._before is not None
        try:
            row = self._before.execute("SELECT * FROM answer WHERE request = ?", (request,)).fetchone()
            if row is not None and row != answer_row(request, row[1], row[3]):
                raise sqlite3.DatabaseError("an answer was altered")
        except sqlite3.DatabaseError as error:
            problem = f"the journal {self.path} is damaged ({error}): remove it to begin anew"
            raise JournalError(problem) from None
        return None if row is None else (row[1], row[3])

    def append(self, rows: Mapping[str, Sequence[Any]]) -> None:
        """Commit rows of each statement in one transaction; raises sqlite3.Error."""
        assert self.main is not None
        with self.main as file:
            file.execute("BEGIN")
            for statement, some in rows.items():
                file.executemany(statement, some)

    def close(self) -> None:
        """Close the file, and remove it if it has no answers; safe to repeat."""
        if self._before is not None:
            self._before.close()
        if self.main is not None:
            has_answers = True
            with suppress(sqlite3.Error):
                has_answers = _one(self.main, "SELECT EXISTS (SELECT 1 FROM answer)")
            self.main.close()
            if not has_answers:
                remove_journal(self.path)
        self._before = self.main = None


def answer_row(request: bytes, made: float, body: bytes) -> tuple[bytes, float, int, bytes]:
    """Return the row of an answer, with a checksum."""
    return request, made, zlib.crc32(body, zlib.crc32(request + repr(made).encode())), body


def remove_journal(path: Path) -> None:
    """Remove a journal that is closed, and the log that a killed run has left beside it."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _one(file: sqlite3.Connection, statement: str) -> Any:
    return file.execute(statement).fetchone()[0]
