"""SQLite file of a journal: whose job it is, its answers, and the order of its links."""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

from .._credentials import account_hash
from .._errors import JournalError

#: Application id of SQLite: "slt", and the version of the format.
KIND = 0x736C7408
_SCHEMA = (
    f"PRAGMA application_id={KIND}",
    "CREATE TABLE job (salt TEXT NOT NULL, account BLOB NOT NULL)",
    "CREATE TABLE answer (request BLOB PRIMARY KEY, made REAL NOT NULL, body BLOB NOT NULL)",
    # JSON arrays of ids of links, or of slashtags.
    "CREATE TABLE links (names TEXT NOT NULL)",
)
#: Rows of one statement: SQLite before 3.32 takes 999 values.
MOST_ROWS = 333


class JournalFile:
    """Answers of one job in SQLite, bound to one base URL and one account.

    SQLite locks the file for one session, in this process too, as long as nothing else in it opens and
    closes the file. It is readable only by its owner, and is never repaired. Raises JournalError if it can
    neither be opened nor created, or is unfit.
    """

    def __init__(self, path: Path, base_url: str, apikey: str) -> None:
        self.path = path
        #: The last row of an answer that was there when the file was opened; 0: there was none.
        self.last = 0
        #: Ids of links, or slashtags, and their places in the order of the job.
        self.places: dict[int | str, int] = {}
        #: Held by who uses the connection, which is None once the file is closed.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            if not path.exists():
                path.touch(0o600)
            # Absolute: a file may be named ":memory:", which is special in SQLite. A statement that is kept
            # keeps the answers that it has written.
            file = sqlite3.connect(
                path.absolute(),
                timeout=1,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=1,
            )
            try:
                self._begin(file, base_url, apikey)
            except BaseException:
                file.close()
                raise
            self._connection = file
            return
        except sqlite3.OperationalError as error:
            why = f"cannot be opened: {error}"
            if "locked" in str(error):
                why = "is in use by another session or export"
        # A damaged row may have None, or no JSON.
        except (sqlite3.DatabaseError, AttributeError, TypeError, json.JSONDecodeError) as error:
            raise self._unfit(f"is not a journal, or is damaged ({error})") from None
        except OSError as error:
            why = f"cannot be opened: {error.strerror}"
        raise JournalError(f"the journal {str(path)!r} {why}")

    def _begin(self, file: sqlite3.Connection, base_url: str, apikey: str) -> None:
        """Lock the file, and check whose it is, or make it that of the job if it is new."""
        # A usual answer has 2.6 KB: by pages of 4 KB a third more would be written.
        file.executescript("PRAGMA page_size=8192; PRAGMA locking_mode=EXCLUSIVE")
        file.execute("BEGIN EXCLUSIVE")
        if not _one(file, "SELECT count(*) FROM sqlite_schema"):
            for statement in _SCHEMA:
                file.execute(statement)
            salt = secrets.token_hex(16)
            file.execute("INSERT INTO job VALUES (?, ?)", (salt, account_hash(apikey, salt, base_url)))
        elif _one(file, "PRAGMA application_id") != KIND:
            raise self._unfit("is not a journal of slashtag, or of another version")
        else:
            salt, account = file.execute("SELECT * FROM job").fetchone()
            if not hmac.compare_digest(account, account_hash(apikey, salt, base_url)):
                raise self._unfit("belongs to a job of another account or base_url")
        file.execute("COMMIT")
        # While it is open only its log is written, which does not wait for the disk.
        file.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0")
        self.last = _one(file, "SELECT coalesce(max(rowid), 0) FROM answer")
        for (names,) in file.execute("SELECT names FROM links ORDER BY rowid"):
            self.places.update(zip(json.loads(names), count(len(self.places))))

    def _unfit(self, why: str) -> JournalError:
        return JournalError(f"{self.path} {why}; it was left as it is: remove it to begin anew")

    def find(self, request: bytes) -> tuple[float, bytes] | None:
        """Return when an answer was made that the file had when it was opened, and its body.

        Raises JournalError if it is damaged.
        """
        query = "SELECT made, body FROM answer WHERE request = ? AND rowid <= ?"
        try:
            with self._lock:
                assert self._connection is not None
                return next(self._connection.execute(query, (request, self.last)), None)
        except sqlite3.DatabaseError as error:
            raise JournalError(
                f"the journal {self.path} is damaged ({error}): remove it to begin anew"
            ) from None

    def append(self, rows: Mapping[str, list[tuple[object, ...]]]) -> None:
        """Commit rows of each table in one transaction, and empty the lists; raises sqlite3.Error."""
        with self._lock:
            assert self._connection is not None
            with self._connection as file:
                file.execute("BEGIN")
                for table, some in rows.items():
                    # Many at once: after each statement this thread waits for the interpreter's lock.
                    while part := some[:MOST_ROWS]:
                        values = ", ".join([f"({', '.join('?' * len(part[0]))})"] * len(part))
                        # The tables are ours.
                        file.execute(f"REPLACE INTO {table} VALUES {values}", [*chain.from_iterable(part)])  # noqa: S608
                        del some[:MOST_ROWS]

    def close(self) -> None:
        """Close the file, and remove it if it has no answers; safe to repeat."""
        with self._lock:
            file, self._connection, self.last = self._connection, None, 0
        if file is not None:
            has_answers = True
            with suppress(sqlite3.Error):
                has_answers = _one(file, "SELECT EXISTS (SELECT 1 FROM answer)")
            file.close()
            if not has_answers:
                remove_journal(self.path)


def remove_journal(path: Path) -> None:
    """Remove a journal that is closed, and the log that a killed run has left beside it."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _one(file: sqlite3.Connection, statement: str) -> Any:
    return file.execute(statement).fetchone()[0]
