"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .. import ExportError
from .._internal import lock_file

#: Characters of a target's name that the names of its temporary files begin with.
_STEM = 40
_PART = re.compile(r"(\..*\.)[0-9a-f]{8}\.part", re.DOTALL)


class Part:
    """Binary file behind an AtomicFile; errors are ExportErrors that name its target."""

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
        """Pass what is buffered to the system."""
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
        """Close it, complete or not."""
        with suppress(OSError):  # a full disk refuses the last flush too
            self._raw.close()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._raw.closed

    def _failed(self, error: OSError) -> ExportError:
        return ExportError(f"{self._target} cannot be written: {error.strerror or error}")


class AtomicFile:
    """File that is written under a temporary name beside its target and renamed once complete.

    `file` is the binary file to write to; on any error it is removed. A target that is a symbolic link stays
    one. One that exists keeps its mode, which the temporary file has too; a new one gets what the umask
    allows. Raises ExportError at once where the path cannot be one, the target is a folder or a device, or
    its folder cannot be written; later where the disk is full.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checked_path(path)
        self._target = Path(os.path.realpath(path))
        self._mode = self._check()
        part = f"{_stem(self._target.name)}{secrets.token_hex(4)}.part"
        self._temporary = self._target.with_name(part)
        # A file that only some may read must not be readable by others while it is written.
        mode = 0o666 if self._mode is None else self._mode & 0o666
        try:
            handle = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            raise ExportError(f"cannot write beside {self.path}: {error.strerror}") from None
        self.file = Part(os.fdopen(handle, "wb"), self.path)
        lock_file(handle)
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

        Raises ExportError where that fails; its text names the temporary file if that cannot be removed, as
        in a folder that has become read-only.
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

        If the folder does not allow that, the next AtomicFile of the same target removes it.
        """
        self.file.close()
        with suppress(OSError):  # an error is being raised already, and this one would hide it
            self._temporary.unlink(missing_ok=True)


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return a path to write to; raises ExportError for one that is empty or that no system accepts."""
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


def remove_parts(folder: Path, names: Iterable[str], *, nobody_writes: bool = False) -> None:
    """Remove the temporary files that killed writers of these names left in a folder.

    Files that another process has open stay, and files too young to be sure; with `nobody_writes`, where the
    caller knows that these files have no writer, all are removed.
    """
    begun = {_stem(name): nobody_writes and len(name) < _STEM for name in names}
    found: list[tuple[Path, bool]] = []
    with suppress(OSError):  # a folder may allow files to be made and not to be listed
        for path in folder.iterdir():
            part = _PART.fullmatch(path.name)
            if part and part[1] in begun:
                found.append((path, begun[part[1]]))
    for path, is_left in found:
        with suppress(OSError):
            if is_left or _is_left(path):
                path.unlink()


def _is_left(part: Path) -> bool:
    """Return whether nobody has a temporary file open."""
    # So young a file may not be locked yet.
    if part.is_symlink() or time.time() - part.stat().st_mtime < 1:
        return False
    handle = os.open(part, os.O_RDWR)
    try:
        return lock_file(handle)
    finally:
        os.close(handle)


def _stem(name: str) -> str:
    """Return the beginning of the names of temporary files, short enough for the longest name of a target."""
    return f".{name[:_STEM]}."
