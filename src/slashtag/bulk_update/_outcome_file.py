"""The file of the outcomes of changes, so that a rerun sends only the remaining ones."""

from __future__ import annotations

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

from .. import AsyncSession, ExportError, ShortUrl
from .._internal import FileLock, account_key, in_thread, sync_folder
from ._links import visible

#: The beginning of the first line.
_BEGIN = b'{"salt":'
Status = Literal["sent", "done", "failed", "unknown"]
#: Statuses of a change that may have been done.
UNANSWERED = ("sent", "unknown")


class RowOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one change: a line of the file of outcomes.

    "sent": about to be sent, not yet answered; "done": the service changed `rows_updated` rows; "failed": not
    done because of `error`; "unknown": the answer was lost, so it may have been done. `id` is that of the
    link, None if there is not just one. `fingerprint` and `left_as` are keyed hashes of the change and of
    the values that it leaves in the link, `at` is the time of the line.
    """

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    id: int | None = None
    fingerprint: str
    left_as: str = ""
    at: str = ""


class Outcomes:
    """Outcomes that earlier runs left in a file: the last of each change, and the last change of each link.

    Bound to service and apikey, and not to the apisecret, which may be replaced: nothing that was done is
    then done again. Its hashes are keyed, so that nobody without the apikey can try passwords on them.
    Raises ExportError unless it is a regular file of outcomes of this account, or missing, or None.
    """

    def __init__(self, path: Path | None, session: AsyncSession) -> None:
        with _os_errors(path):
            if path is not None and path.exists() and not path.is_file():
                # Reading a pipe would wait for ever.
                raise ExportError(f"{path} cannot be written: it is not a regular file")
            content = path.read_bytes() if path is not None and path.exists() else b""
        # The last line was cut if a run was killed.
        *lines, torn = content.split(b"\n")
        #: Length of the whole lines.
        self.length = len(content) - len(torn)
        #: Last outcome of each change, by its fingerprint.
        self.of: dict[str, RowOutcome] = {}
        self._last_sent: dict[int | None, RowOutcome] = {}
        try:
            if not lines and not torn.startswith(_BEGIN[: len(torn)]):
                raise msgspec.DecodeError
            first = lines[0] if lines else b'{"salt":"%s"}' % token_hex(16).encode()
            header = msgspec.json.decode(first, type=dict[str, str])
            for entry in map(msgspec.json.Decoder(RowOutcome).decode, lines[1:]):
                self.of[entry.fingerprint] = entry
                # Not for "unknown": rows that are only held back have it too.
                if entry.status == "sent":
                    self._last_sent[entry.id] = entry
            key = account_key(session, header["salt"])
        except (msgspec.DecodeError, KeyError):
            raise ExportError(
                f"{path} does not hold outcomes; choose another file for the outcomes"
            ) from None
        self._key = key[32:]
        #: First line: the account, as a hash with a salt of this file.
        self.header = {"salt": header["salt"], "account": key[:32].hex()}
        if lines and header != self.header:
            raise ExportError(
                f"{path} is of another service or apikey; give another file for the outcomes, and if the "
                "account is the same, look first what would still change: what was done is not known there"
            )

    def digest(self, what: object) -> str:
        """Return the keyed hash of a JSON value."""
        return blake2b(msgspec.json.encode(what), key=self._key, digest_size=16).hexdigest()

    def is_latest(self, outcome: RowOutcome) -> bool:
        """Return whether no other change of its link was sent since."""
        last = self._last_sent.get(outcome.id)
        return last is not None and last.fingerprint == outcome.fingerprint

    def left(self, url: ShortUrl) -> bool:
        """Return whether a link is as the last change of it left it, by what a listing shows."""
        last = self._last_sent.get(url.id)
        return last is not None and last.left_as == self.digest(visible(url))


class OutcomeFile:
    """File of outcomes as JSON Lines, open for one run; `earlier` are those that earlier runs left.

    Raises what Outcomes raises, and ExportError if another run has it open, and on a full disk.
    """

    def __init__(self, path: Path, session: AsyncSession) -> None:
        self.path = path
        self._written = self._durable = 0
        self._failed = False
        self._flushing = asyncio.Lock()
        lock = FileLock(path)
        with ExitStack() as opened, _os_errors(path):
            if not lock.acquire():
                raise ExportError(f"another run writes to {path}")
            opened.callback(lock.release)
            self.earlier = Outcomes(path, session)
            exists = path.exists()
            self._file = opened.enter_context(path.open("ab", buffering=0))
            if not exists:
                path.chmod(0o600)
                sync_folder(path.parent)
            self._file.truncate(self.earlier.length)
            if not self.earlier.length:
                self._write(self.earlier.header)
            self._opened = opened.pop_all()

    def append(self, entry: RowOutcome) -> None:
        """Append an outcome; it is durable after the next `announce`, or when the file is closed."""
        self._write(msgspec.structs.replace(entry, at=datetime.now(UTC).isoformat(timespec="seconds")))
        self._written += 1

    def _write(self, entry: RowOutcome | dict[str, str]) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        with _os_errors(self.path):
            end = os.fstat(self._file.fileno()).st_size
            try:
                if self._file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                # Half a line would spoil the next one.
                with suppress(OSError):
                    self._file.truncate(end)
                raise

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
                        await in_thread(partial(os.fsync, self._file.fileno()))
                    self._durable, self._failed = written, False
        except BaseException:
            before = self.earlier.of.get(entry.fingerprint)
            status: Status = "unknown" if before and before.status in UNANSWERED else "failed"
            with suppress(ExportError):
                self.append(msgspec.structs.replace(entry, status=status, error="not sent"))
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._opened, _os_errors(self.path):
            if error is None:
                os.fsync(self._file.fileno())


@contextmanager
def _os_errors(path: Path | None) -> Generator[None, None, None]:
    """Raise errors of the system as ExportError."""
    try:
        yield
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror}") from None
