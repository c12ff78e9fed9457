"""The file that tells what became of each change, so that a rerun does only what is left."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from .. import ExportError
from ..export._target import _lock

#: So many outcomes are made durable together; each is with the system at once.
GROUP = 100
#: How every line begins.
_BEGIN = b'{"line":'
Status = Literal["sent", "done", "failed", "unknown"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what became of a change; "sent": its answer is not there yet."""

    line: int
    key: str | int
    status: Status
    rows_updated: int | None = None
    error: str | None = None
    fingerprint: str
    at: str = ""


class OutcomeFile:
    """Read what earlier runs told, and tell more: JSON Lines, appended.

    Raises ExportError for a file that is not one of these, that another run has open, or on a full disk.
    """

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self.before: dict[str, Entry] = {}
        self._waiting = 0
        self._handle: int | None = None
        try:
            if writable:
                self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                if os.name == "posix" and not _lock(self._handle):
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
        try:
            for line in lines:
                entry = decoder.decode(line)
                self.before[entry.fingerprint] = entry
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
        self._waiting += len(lines)
        try:
            data = memoryview(b"".join(lines))
            while data:
                data = data[os.write(self._handle, data) :]
            if durable or self._waiting >= GROUP:
                os.fsync(self._handle)
                self._waiting = 0
        except OSError as error:
            raise self._failed(error) from None

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
