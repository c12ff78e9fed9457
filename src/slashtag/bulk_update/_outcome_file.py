"""The file of the outcomes of changes, so that a rerun sends only the remaining ones."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, Self

import msgspec

from .. import AsyncSession, Change, ExportError
from .._internal import FileLock, account_digest, in_thread, sync_folder

#: The beginning of every line.
_BEGIN = b'{"line":'
Status = Literal["sent", "done", "failed", "unknown"]
#: Statuses of a change that may have been done.
UNANSWERED = ("sent", "unknown")


class RowOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one change: a line of the file of outcomes.

    "sent": about to be sent, not yet answered; "done": the service changed `rows_updated` rows; "failed": not
    done because of `error`; "unknown": the answer was lost, so it may have been done. `fingerprint` and
    `links` are keyed hashes of the change and of the names of its link, `at` is the time of the line.
    """

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    fingerprint: str
    links: tuple[str, ...] = ()
    at: str = ""


def sent(line: int, change: Change, session: AsyncSession) -> RowOutcome:
    """Return the outcome "sent" of a change.

    Its hashes are keyed, so that nobody without the apisecret can try passwords on them.
    """
    names = [change.key] if change.slashtag is None else [change.key, change.slashtag]
    return RowOutcome(
        line=line,
        key=change.key,
        status="sent",
        fingerprint=account_digest(session, [getattr(change, name) for name in change.__struct_fields__]),
        links=tuple(account_digest(session, name) for name in names),
    )


def read_outcomes(path: Path) -> tuple[dict[str, Status], int]:
    """Return the status of each change by its fingerprint, and the length of the file's whole lines.

    The last line of a change counts. A "done" change no longer counts once another change of its link is
    sent, since the link may be different again. One whose answer was lost stays "unknown". Raises ExportError
    unless it is a regular file of outcomes, or missing.
    """
    with _os_errors(path):
        if path.exists() and not path.is_file():
            # Reading a pipe would wait for ever.
            raise ExportError(f"{path} cannot be written: it is not a regular file")
        content = path.read_bytes() if path.exists() else b""
    # The last line was cut if a run was killed.
    *lines, torn = content.split(b"\n")
    decoder = msgspec.json.Decoder(RowOutcome)
    statuses: dict[str, Status] = {}
    done: dict[str, str] = {}
    try:
        if not lines and not torn.startswith(_BEGIN[: len(torn)]):
            raise msgspec.DecodeError
        for entry in map(decoder.decode, lines):
            # Not for "unknown": rows that are only held back have it too.
            for link in entry.links if entry.status == "sent" else ():
                statuses.pop(done.pop(link, ""), None)
            statuses[entry.fingerprint] = entry.status
            if entry.status == "done" and entry.links:
                # By the name it was changed by: a rerun would use that one.
                done[entry.links[0]] = entry.fingerprint
    except msgspec.DecodeError:
        raise ExportError(f"{path} does not hold outcomes; choose another file for the outcomes") from None
    return statuses, len(content) - len(torn)


class OutcomeFile:
    """File of outcomes as JSON Lines, open for one run; `statuses` are those that earlier runs left.

    Raises what `read_outcomes` raises, and ExportError if another run has it open, and on a full disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written = self._durable = 0
        self._failed = False
        self._flushing = asyncio.Lock()
        self._lock = FileLock(path)
        binary = getattr(os, "O_BINARY", 0)  # Windows would write each line end as two characters
        with ExitStack() as undo, _os_errors(path):
            if not self._lock.acquire():
                raise ExportError(f"another run writes to {path}")
            undo.callback(self._lock.release)
            exists = path.exists()
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | binary, 0o600)
            undo.callback(os.close, self._handle)
            if not exists:
                path.chmod(0o600)  # the umask may have removed some bits
                sync_folder(path.parent)
            self.statuses, length = read_outcomes(path)
            os.ftruncate(self._handle, length)
            undo.pop_all()

    def append(self, entry: RowOutcome) -> None:
        """Append an outcome; it is durable after the next `announce`, or when the file is closed."""
        entry = msgspec.structs.replace(entry, at=datetime.now(UTC).isoformat(timespec="seconds"))
        data = memoryview(msgspec.json.encode(entry) + b"\n")
        with _os_errors(self.path):
            end = os.fstat(self._handle).st_size
            try:
                while data:
                    data = data[os.write(self._handle, data) :]
            except OSError:
                # Half a line, left by a full disk, would spoil the next one.
                with suppress(OSError):
                    os.ftruncate(self._handle, end)
                raise
        self._written += 1

    async def announce(self, entry: RowOutcome) -> None:
        """Record that a change is about to be sent; return once that survives a crash of the machine.

        On any error, and if cancelled, the change is recorded as not sent.
        """
        self.append(entry)
        mine = self._written
        try:
            # Changes that are announced during a flush share the next one.
            async with self._flushing:
                if self._durable < mine:
                    written = self._written
                    with _os_errors(self.path):
                        # After a failure the next flush may succeed although lines were lost.
                        if self._failed:
                            raise OSError(errno.EIO, os.strerror(errno.EIO))
                        self._failed = True
                        await in_thread(partial(os.fsync, self._handle))
                    self._durable, self._failed = written, False
        except BaseException:
            before = self.statuses.get(entry.fingerprint)
            status: Status = "unknown" if before in UNANSWERED else "failed"
            with suppress(ExportError):
                self.append(msgspec.structs.replace(entry, status=status, error="not sent"))
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                with _os_errors(self.path):
                    os.fsync(self._handle)
        finally:
            os.close(self._handle)
            self._lock.release()


@contextmanager
def _os_errors(path: Path) -> Generator[None, None, None]:
    """Raise errors of the system as ExportError."""
    try:
        yield
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror}") from None
