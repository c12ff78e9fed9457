"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from .._errors import ExportError

_fcntl: Any = import_module("fcntl") if os.name == "posix" else None
#: So many characters of a file's name are told by those of its parts.
_TOLD = 40
_PART = re.compile(r"(\..*\.)[0-9a-f]{8}\.part", re.DOTALL)


class Part:
    """Be the binary file that an AtomicFile is written to; what fails is an ExportError about its target."""

    def __init__(self, raw: IO[bytes], target: Path) -> None:
        self._raw = raw
        self._target = target

    def write(self, data: bytes, /) -> int:
        """Write bytes."""
        try:
            return self._raw.write(data)
        except OSError as error:
            raise self._failed(error) from None

    def flush(self) -> None:
        """Give the system what is buffered."""
        try:
            self._raw.flush()
        except OSError as error:
            raise self._failed(error) from None

    def sync(self) -> None:
        """Make it durable and close it."""
        self.flush()
        try:
            os.fsync(self._raw.fileno())
            self._raw.close()
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Close it, whole or not."""
        with suppress(OSError):  # a full disk refuses the last flush too
            self._raw.close()

    @property
    def closed(self) -> bool:
        """Tell whether it is closed."""
        return self._raw.closed

    def _failed(self, error: OSError) -> ExportError:
        return ExportError(f"{self._target} cannot be written: {error.strerror or error}")


class AtomicFile:
    """Write to a temporary name beside the target and rename when whole; on any error leave no trace.

    `file` is the binary file to write to. A target that is a link stays one; one that exists keeps its mode,
    and nobody whom that keeps out may read the new contents meanwhile; a new one gets what the umask allows.
    Raises ExportError at once where the path cannot be one, the target is a folder or a device, or its folder
    cannot be written; later where the disk is full.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checked_path(path)
        self._target = Path(os.path.realpath(path))
        self._mode = self._check()
        part = f"{_stem(self._target.name)}{secrets.token_hex(4)}.part"
        self._temporary = self._target.with_name(part)
        # What only some may read is not shown to others while it is written either.
        mode = 0o666 if self._mode is None else self._mode & 0o666
        try:
            handle = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            raise ExportError(f"cannot write beside {self.path}: {error.strerror}") from None
        self.file = Part(os.fdopen(handle, "wb"), self.path)
        lock(handle)
        remove_parts(self._target.parent, [self._target.name])

    def _check(self) -> int | None:
        """Return the mode of the target if there is one."""
        try:
            mode = self._target.stat().st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ExportError(f"{self.path} cannot be written: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise ExportError(f"{self.path} cannot be written: it is {what}")
        if not os.access(self._target, os.W_OK):
            raise ExportError(f"{self.path} cannot be written: it is read-only")
        return stat.S_IMODE(mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()
        else:
            self.commit()

    def commit(self) -> None:
        """Make the file durable and give it its name.

        Raises ExportError where that fails; the text says where what was written stays, if it cannot be
        removed, as in a folder that has become read-only.
        """
        try:
            self.file.sync()
            if self._mode is not None:
                self._temporary.chmod(self._mode)
            self._temporary.replace(self._target)
        except OSError as error:
            self.discard()
            left = os.path.exists(self._temporary)
            stays = f"; what was written stays in {self._temporary}" if left else ""
            raise ExportError(f"{self.path} cannot be written: {error.strerror}{stays}") from None
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove what was written; safe to repeat.

        Where the folder does not let it be removed, it stays until the next one who writes the file.
        """
        self.file.close()
        with suppress(OSError):  # there is an error to tell already, and this one would hide it
            self._temporary.unlink(missing_ok=True)


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return a path to write to; raises ExportError for one that is empty or that no system can take."""
    text = os.fspath(path)
    if not text:
        raise ExportError("the path to write to is empty")
    try:
        refused = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        refused = True
    if refused:
        raise ExportError(f"{text!r} cannot be the name of a file")
    return Path(path)


def lock(handle: int) -> bool:
    """Lock a file for as long as this process has it open; tell whether nobody else had."""
    if _fcntl is None:
        return False
    try:
        _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_parts(folder: Path, names: Iterable[str], *, nobody_writes: bool = False) -> None:
    """Remove what writers of files of these names left behind in a folder that were killed.

    Spared is what another process has open, and what is too young to tell; where it is known that
    `nobody_writes` these files, all of it goes.
    """
    begun = {_stem(name): nobody_writes and len(name) < _TOLD for name in names}
    found: list[tuple[Path, bool]] = []
    with suppress(OSError):  # a folder may let files be made and not be listed
        for path in folder.iterdir():
            part = _PART.fullmatch(path.name)
            if part and part[1] in begun:
                found.append((path, begun[part[1]]))
    for path, is_left in found:
        with suppress(OSError):
            if is_left or _is_left(path):
                path.unlink()


def _is_left(part: Path) -> bool:
    """Tell whether nobody has a part open."""
    # One that is this young may not be locked yet.
    if part.is_symlink() or time.time() - part.stat().st_mtime < 1:
        return False
    handle = os.open(part, os.O_RDWR)
    try:
        return lock(handle)
    finally:
        os.close(handle)


def _stem(name: str) -> str:
    """Give how the parts of a file begin: short enough where its name is as long as names can be."""
    return f".{name[:_TOLD]}."
