"""The file of the outcomes of changes, so that a rerun sends only the remaining ones."""

import asyncio
import errno
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Literal, Self

import msgspec

from .. import AsyncSession, ExportError
from .._internal import FileLock, account_key, in_thread, sync_folder

Status = Literal["sent", "done", "failed", "unknown"]
#: Statuses of a change that may have been done.
UNANSWERED = ("sent", "unknown")


class RowOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one change: a line of the file of outcomes.

    "sent": about to be sent, not yet answered; "done": the service changed `rows_updated` rows; "failed": not
    done because of `error`; "unknown": the answer was lost, so it may have been done. `id` is that of the
    link, None if there is not just one. `fingerprint` is a keyed hash of the change, `at` the time of the
    line.
    """

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    id: int | None = None
    fingerprint: str
    at: str = ""


class OutcomeFile:
    """File of outcomes as JSON Lines: those that earlier runs left and, in a `with` block, those of this one.

    Bound to service and apikey, and not to the apisecret, which may be replaced: nothing that was done is
    then done again. Its hashes are keyed, so that nobody without the apikey can try passwords on them.
    Raises ExportError unless it is a file of outcomes of this account, or missing; if another run has it
    open, and on a full disk. After such an error nothing more is written: lines may be lost, or one cut,
    which the next run removes.
    """

    def __init__(self, path: Path, session: AsyncSession) -> None:
        self._path = path
        self._session = session
        self._written = self._durable = 0
        self._failure: OSError | None = None
        self._flushing = asyncio.Lock()

    def read(self) -> Self:
        """Read what earlier runs left."""
        with self._final_errors():
            content = self._path.read_bytes() if self._path.exists() else b""
        # The last line was cut if a run was killed.
        *lines, torn = content.split(b"\n")
        #: Length of the whole lines.
        self._length = len(content) - len(torn)
        #: Last outcome of each change, by its fingerprint, and the fingerprint of the last change of a link.
        self.last_outcome: dict[str, RowOutcome] = {}
        self.last_sent: dict[int | None, str] = {}
        try:
            # So the first line begins.
            if not lines and not b'{"salt":'.startswith(torn[:8]):
                raise msgspec.DecodeError
            header = msgspec.json.decode(lines[0], type=dict[str, str]) if lines else {"salt": token_hex(16)}
            for entry in map(msgspec.json.Decoder(RowOutcome).decode, lines[1:]):
                self.last_outcome[entry.fingerprint] = entry
                # Not for "unknown": rows that are only held back have it too.
                if entry.status == "sent":
                    self.last_sent[entry.id] = entry.fingerprint
            key = account_key(self._session, header["salt"])
        except (msgspec.DecodeError, KeyError):
            raise ExportError(f"{self._path} does not hold outcomes; choose another file") from None
        self._key = key[32:]
        #: First line: the account, as a hash with a salt of this file.
        self._header = {"salt": header["salt"], "account": key[:32].hex()}
        if lines and header != self._header:
            raise ExportError(
                f"{self._path} is of another service or apikey; give another file for the outcomes. If the "
                "account is the same, look first what would still change: what was done is not known there"
            )
        return self

    def digest(self, what: object) -> str:
        """Return the keyed hash of a JSON value."""
        return blake2b(msgspec.json.encode(what), key=self._key, digest_size=16).hexdigest()

    def __enter__(self) -> Self:
        lock, path = FileLock(self._path), self._path
        with ExitStack() as opened, self._final_errors():
            if not lock.acquire():
                raise ExportError(f"another run writes to {path}")
            opened.callback(lock.release)
            self.read()
            exists = path.exists()
            self._file = opened.enter_context(path.open("ab", buffering=0))
            if not exists:
                path.chmod(0o600)
                sync_folder(path.parent)
            self._file.truncate(self._length)
            if not self._length:
                self._write(self._header)
            self._opened = opened.pop_all()
        return self

    def append(self, entry: RowOutcome) -> None:
        """Append an outcome; it is durable after the next `announce`, or when the file is closed."""
        self._write(msgspec.structs.replace(entry, at=datetime.now(UTC).isoformat(timespec="seconds")))
        self._written += 1

    def _write(self, entry: RowOutcome | dict[str, str]) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        with self._final_errors():
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def _final_errors(self) -> Generator[None, None, None]:
        """Raise errors of the system as ExportError, and the same again for what is written later."""
        try:
            if self._failure is not None:
                raise self._failure
            yield
        except OSError as error:
            self._failure = error
            raise ExportError(f"{self._path} cannot be written: {error.strerror}") from None

    async def announce(self, entry: RowOutcome) -> None:
        """Record that a change is about to be sent; return once that survives a crash of the machine.

        If cancelled, the change is recorded as not sent.
        """
        self.append(entry)
        mine = self._written
        try:
            # Changes that are announced during a flush share the next one.
            async with self._flushing:
                if self._durable < mine:
                    written = self._written
                    with self._final_errors():
                        await in_thread(partial(os.fsync, self._file.fileno()))
                    self._durable = written
        except asyncio.CancelledError:
            before = self.last_outcome.get(entry.fingerprint)
            status: Status = "unknown" if before and before.status in UNANSWERED else "failed"
            with suppress(ExportError):
                self.append(msgspec.structs.replace(entry, status=status, error="not sent"))
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._opened:
            if error is None and self._failure is None:
                with self._final_errors():
                    os.fsync(self._file.fileno())
