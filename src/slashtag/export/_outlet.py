"""Binary files that writers write to."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """Binary file to write to."""

    def write(self, data: bytes, /) -> object: ...


class Outlet:
    """Binary file that passes bytes on until it is shut."""

    closed = False

    def __init__(self, file: Sink) -> None:
        self._file = file
        self.shut = False

    def write(self, data: bytes, /) -> int:
        if not self.shut:
            self._file.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the file is flushed by its owner."""
