"""The file that tells what became of each change, so that a rerun does only what is left."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from .. import ExportError
from .._fanout import in_thread
from ..export._target import lock

#: So many lines are made durable together, if not before; each is with the system at once.
GROUP = 100
#: Seconds for which who announces a change waits for others, to go to the disk together.
GATHER = 0.005
#: How every line begins.
_BEGIN = b'{"line":'
Status = Literal["sent", "done", "failed", "unknown"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what became of a change; "sent": it is sent from now on, and its answer is not there yet.

    `links` are the marks of the link that it changes: as it names it, and by the slashtag that it gives it.
    """

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    fingerprint: str
    links: tuple[str, ...] = ()
    at: str = ""


class OutcomeFile:
    """Read what earlier runs told, and tell more: JSON Lines, appended; of a change the last line counts.

    A change that was done is as if it had never been once another one of its link is sent, whatever becomes
    of that: the link may not be as it left it. One whose answer was lost stays so.
    Raises ExportError for what is no regular file, for a file that is not one of these, that another run has
    open, or on a full disk.
    """

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self.before: dict[str, Entry] = {}
        self._told = 0
        self._durable = 0
        self._flushing = asyncio.Lock()
        self._handle: int | None = None
        try:
            if path.exists() and not path.is_file():
                # Who reads a pipe waits for ever.
                raise ExportError(f"{path} cannot be written: it is not a regular file")
            if writable:
                is_new = not path.exists()
                self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                if is_new:
                    path.chmod(0o600)  # the umask may have taken something off
                if os.name == "posix" and not lock(self._handle):
                    raise ExportError(f"another run writes to {path}")
            content = path.read_bytes() if path.exists() else b""
            self._read(content)
        except OSError as error:
            self._close()
            raise self._failed(error) from None
        except ExportError:
            self._close()
            raise

    def _read(self, content: bytes) -> None:
        *lines, torn = content.split(b"\n")
        decoder = msgspec.json.Decoder(Entry)
        done: dict[str, str] = {}
        try:
            for line in lines:
                entry = decoder.decode(line)
                # Not so "unknown": a row that is only kept back is told as that too.
                for link in entry.links if entry.status == "sent" else ():
                    if link in done:
                        self.before.pop(done.pop(link), None)
                self.before[entry.fingerprint] = entry
                if entry.status == "done" and entry.links:
                    # As it names it: by its new slashtag it would not find it.
                    done[entry.links[0]] = entry.fingerprint
        except msgspec.DecodeError:
            raise self._foreign() from None
        if not lines and not torn.startswith(_BEGIN[: len(torn)]):
            raise self._foreign()
        if torn and self._handle is not None:
            # Written halfway when a run was killed.
            os.ftruncate(self._handle, len(content) - len(torn))

    def append(self, entries: Iterable[Entry], *, durable: bool = False) -> None:
        """Tell more."""
        assert self._handle is not None
        at = datetime.now(UTC).isoformat(timespec="seconds")
        lines = [msgspec.json.encode(msgspec.structs.replace(entry, at=at)) + b"\n" for entry in entries]
        data = memoryview(b"".join(lines))
        size = len(data)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            self._told += len(lines)
            if durable or self._told - self._durable >= GROUP:
                os.fsync(self._handle)
                self._durable = self._told
        except OSError as error:
            if data:
                # What a full disk took of a line would spoil the next one.
                with suppress(OSError):
                    os.ftruncate(self._handle, os.fstat(self._handle).st_size - (size - len(data)))
            raise self._failed(error) from None

    async def announce(self, entry: Entry) -> None:
        """Tell that a change is sent from now on, and return once that outlasts a crash of the machine."""
        self.append([entry])
        mine = self._told
        # Who comes while the disk is busy waits for the next time, which is then for all who have come.
        async with self._flushing:
            if self._durable >= mine:
                return
            await asyncio.sleep(GATHER)
            assert self._handle is not None
            told = self._told
            try:
                await in_thread(partial(os.fsync, self._handle))
            except OSError as error:
                raise self._failed(error) from None
            self._durable = max(self._durable, told)

    def _foreign(self) -> ExportError:
        return ExportError(f"{self.path} does not hold outcomes; choose another with --results")

    def _failed(self, error: OSError) -> ExportError:
        return ExportError(f"{self.path} cannot be written: {error.strerror}")

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._handle is not None and error is None:
                self.append((), durable=True)
        finally:
            self._close()
