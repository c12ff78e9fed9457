"""The file of the outcomes of changes, so that a rerun sends only the remaining ones.

What a crash leaves of a change, by its last line, which is there whatever became of the process:

    none          nothing was sent
    "announced"   durable; nothing was sent, unless the machine was restarted since: then lines that were not
                  durable may be lost, so it may have been sent
    "sent"        written just before the request was handed to a connection: it may have been done
    "done", "failed", "unknown"   what the service answered, or that its answer was lost
"""

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
from msgspec.structs import replace

from .. import AsyncSession, ExportError
from .._internal import FileLock, boot_id, in_thread, sync_folder, writing_to

Status = Literal["announced", "sent", "done", "failed", "unknown"]
#: Statuses of a change that may have been done; an "announced" one is listed only if it may have been sent.
UNANSWERED = ("announced", "sent", "unknown")
#: Version of the lines that are written. In version 1 a line has a fingerprint instead of `members`, and
#: "sent" means announced.
VERSION = 2


class RowOutcome(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Outcome of one change: a line of the file of outcomes.

    "announced": about to be sent; "sent": handed to a connection, not yet answered; "done": the service
    changed `rows_updated` rows; "failed": not done because of `error`; "unknown": the answer was lost, so it
    may have been done. `id` is that of the link, None if there is not just one. `members` has a keyed hash of
    each value that the change gives, by the name of its member; `left_as` is one of all that a listing shows
    of the link once it is done, `slashtag` what it had before; `at` is the time of the line. `fingerprint` is
    a keyed hash of a whole row, which stands for `members` in files of version 1.
    """

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    id: int | None = None
    slashtag: str | None = None
    members: dict[str, str] = {}
    left_as: str = ""
    fingerprint: str | msgspec.UnsetType = msgspec.UNSET
    at: str = ""


class Heading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First line of the file, and of the lines after it where `version` or `boot` changes.

    `account` is that of the file, as a hash with the `salt`; the first line alone has it. `boot` names the
    time since the machine was started.
    """

    salt: str | None = None
    account: str | None = None
    version: int = 1
    boot: str | None = None


_decode_outcome = msgspec.json.Decoder(RowOutcome).decode
_decode_heading = msgspec.json.Decoder(Heading).decode


class OutcomeFile:
    """File of outcomes as JSON Lines: those that earlier runs left and, in a `with` block, those of this one.

    Bound to service and apikey, and not to the apisecret, which may be replaced: nothing that was done is
    then done again. Its hashes are keyed, so that nobody without the apikey can try passwords on them.
    Raises ExportError unless it is a file of outcomes of this account, or missing; if a later version wrote
    it; if another run has it open, and on a full disk. After such an error nothing more is written: lines may
    be lost, or one cut, which the next run removes. A new file is removed if the run ends by an error before
    anything is recorded.
    """

    def __init__(self, path: Path, session: AsyncSession) -> None:
        self._path = path
        self._session = session
        self._written = self._durable = 0
        self._failure: OSError | None = None
        self._flushing = asyncio.Lock()
        #: Changes that are announced and not sent, by their lines.
        self._waiting: dict[int, RowOutcome] = {}

    def read(self) -> Self:
        """Read what earlier runs left."""
        with self._final_errors():
            content = self._path.read_bytes() if self._path.exists() else b""
        # The last line was cut if a run was killed.
        *lines, torn = content.split(b"\n")
        #: Length of the whole lines.
        self._length = len(content) - len(torn)
        #: Last change of a link that was done or may have been, by the id and by the slashtag that named it.
        self.last: dict[int | str, RowOutcome] = {}
        #: What that was before the change that is not answered yet.
        self._before: dict[int | str, RowOutcome | None] = {}
        boot = boot_id()
        try:
            # So the first line begins.
            if not lines and not b'{"salt":'.startswith(torn[:8]):
                raise msgspec.DecodeError
            first = heading = _decode_heading(lines[0]) if lines else Heading(salt=token_hex(16))
            for line in lines:
                if line is lines[0] or line.startswith(b'{"version":'):
                    heading = _decode_heading(line)
                    if heading.version > VERSION:
                        raise ExportError(
                            f"{self._path} was written by a later version of slashtag, in format "
                            f"{heading.version}; this one knows {VERSION}: install the later one, or choose "
                            "another file"
                        )
                else:
                    self._take(_decode_outcome(line), was_lost=boot is None or heading.boot != boot)
            if first.salt is None:
                raise msgspec.DecodeError
        except (msgspec.DecodeError, UnicodeDecodeError):
            told = "is no file of outcomes, or was edited: what was done is not known without it"
            raise ExportError(f"{self._path} {told}") from None
        key = self._session._account_key(first.salt)
        self._key, account = key[32:], key[:32].hex()
        if lines and first.account != account:
            raise ExportError(
                f"{self._path} is of another service or apikey; give another file for the outcomes. If the "
                "account is the same, look first what would still change: what was done is not known there"
            )
        if not lines:
            self._heading: Heading | None = Heading(
                salt=first.salt, account=account, version=VERSION, boot=boot
            )
        else:
            is_same = (heading.version, heading.boot) == (VERSION, boot)
            self._heading = None if is_same else Heading(version=VERSION, boot=boot)
        return self

    def _take(self, entry: RowOutcome, *, was_lost: bool) -> None:
        """Take an earlier line; `was_lost`: lines after it that were not durable may be lost."""
        if entry.status == "announced" and not was_lost:
            return
        for name in {entry.key, entry.key if entry.id is None else entry.id}:
            if entry.status in ("announced", "sent"):
                self._before.setdefault(name, self.last.get(name))
                self.last[name] = entry
            elif entry.status != "failed":
                self._before.pop(name, None)
                self.last[name] = entry
            elif name in self._before:
                # It was not done, so what was before it still holds.
                before = self._before.pop(name)
                self.last.pop(name)
                if before is not None:
                    self.last[name] = before

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
            self._is_new = not path.exists()
            self._file = opened.enter_context(path.open("ab", buffering=0))
            if self._is_new:
                path.chmod(0o600)
                sync_folder(path.parent)
            self._file.truncate(self._length)
            if self._heading is not None:
                self._write(self._heading)
            self._opened = opened.pop_all()
        return self

    def append(self, entry: RowOutcome) -> None:
        """Append an outcome; it is durable after the next `announce`, or when the file is closed."""
        self._write(replace(entry, at=datetime.now(UTC).isoformat(timespec="seconds")))
        self._written += 1

    def _write(self, entry: RowOutcome | Heading) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        with self._final_errors():
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @contextmanager
    def _final_errors(self) -> Generator[None, None, None]:
        """Raise errors of the system as ExportError, and the same again for what is written later."""
        with writing_to(self._path):
            try:
                if self._failure is not None:
                    raise self._failure
                yield
            except OSError as error:
                self._failure = error
                raise

    async def announce(self, entry: RowOutcome) -> None:
        """Record that a change is about to be sent; return once that survives a crash of the machine.

        If it is not sent, it is recorded as such when the file is closed.
        """
        self.append(replace(entry, status="announced"))
        self._waiting[entry.line] = entry
        mine = self._written
        # Changes that are announced during a flush share the next one.
        async with self._flushing:
            if self._durable < mine:
                written = self._written
                with self._final_errors():
                    await in_thread(partial(os.fsync, self._file.fileno()))
                self._durable = written

    def mark_sent(self, entry: RowOutcome) -> None:
        """Record that a change is sent from now on."""
        self.append(replace(entry, status="sent"))
        del self._waiting[entry.line]

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with self._opened:
            with suppress(ExportError):
                for entry in self._waiting.values():
                    self.append(replace(entry, status="failed", error="not sent"))
            if error is not None and self._is_new and not self._written:
                # Nothing was begun, as where a question was answered by no.
                with suppress(OSError):
                    self._path.unlink()
            if error is None and self._failure is None:
                with self._final_errors():
                    os.fsync(self._file.fileno())
