"""Files that appear whole or not at all, and paths that are none."""

import os
import re
import stat
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from ._errors import ExportError, InvalidRequestError

#: Begin of a URL, also as a path has it, with one slash. A single letter is a drive of Windows.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):[/\\]")

#: Schemes of buckets into which files are written.
BUCKETS = ("s3", "gs", "az")


def object_url(path: str | os.PathLike[str]) -> str | None:
    """Return the URL of an object or folder in a bucket, None for a path on this machine.

    A Path has lost one of the two slashes. Raises InvalidRequestError for another URL, for one with
    credentials, which does not show them, and for one without a bucket.
    """
    found = _URL.match(os.fspath(path))
    if found is None or (scheme := found[1].lower()) not in BUCKETS:
        check_local_path(path)
        return None
    place = os.fspath(path)[found.end() :].lstrip("/")
    if "@" in place.partition("/")[0]:
        raise InvalidRequestError(
            f"{scheme}://... has credentials in it: leave them out, they come from the environment "
            "(AWS_ACCESS_KEY_ID and the like)"
        )
    if not place.strip("/"):
        raise InvalidRequestError(f"{scheme}://... names no bucket")
    return f"{scheme}://{place}"


def check_local_path(path: str | os.PathLike[str]) -> None:
    """Raise InvalidRequestError for a URL, such as that of a bucket, where a file or folder is expected.

    It would be a folder called `s3:` on this machine. The error shows only the scheme: the URL may hold a
    password.
    """
    if found := _URL.match(os.fspath(path)):
        problem = f"{found[1]}://... is a URL, where the path of a file or folder on this machine is needed"
        raise InvalidRequestError(problem)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing_to(path: str | os.PathLike[str]) -> Generator[None, None, None]:
    """Raise errors of the system as ExportError."""
    try:
        yield
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from None
    except ValueError:
        raise ExportError(f"{os.fspath(path)!r} cannot be the name of a file") from None


class AtomicFile(AbstractContextManager["AtomicFile"]):
    """Binary file that is written under a temporary name beside its target and renamed once complete.

    On any error it is removed. Of two that write one target at once, the last to end is it. A target that is
    a symbolic link stays one. It gets the `mode`, if given; else one that exists keeps its own, which the
    temporary file has too, and a new one gets what the umask allows; where a file system has no modes, it is
    written all the same. Raises InvalidRequestError for a URL; ExportError at once where the path cannot be
    one, the target is a folder or a device, or its folder cannot be written; later where the disk is full.
    """

    def __init__(self, path: str | os.PathLike[str], *, mode: int | None = None) -> None:
        check_local_path(path)
        self.path = Path(path)
        with ExitStack() as opening, writing_to(path):
            self._target = Path(os.path.realpath(path))
            own_mode = _mode_of(self._target)
            self._mode = own_mode if mode is None else mode
            # Short enough for a target that has the longest name.
            part = f".{self._target.name[:40]}.{token_hex(4)}.part"
            self._temporary = self._target.with_name(part)
            # A file that only some may read must not be readable by others while it is written.
            begun = 0o666 if self._mode is None else self._mode & 0o666
            handle = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, begun)
            opening.callback(self._temporary.unlink, missing_ok=True)
            self._file = opening.enter_context(os.fdopen(handle, "wb"))
            self._opened = opening.pop_all()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        (self.commit if error is None else self.discard)()

    @property
    def closed(self) -> bool:
        """Whether it was committed or discarded."""
        return self._file.closed

    def write(self, data: bytes, /) -> int:
        """Write bytes; without effect once discarded, when archives that were cut are dropped."""
        with writing_to(self.path):
            return len(data) if self._file.closed else self._file.write(data)

    def flush(self) -> None:
        """Do nothing, as `commit` flushes."""

    def commit(self) -> None:
        """Make the file durable and give it its name; raises ExportError where that fails."""
        with ExitStack() as ending, writing_to(self.path):
            ending.callback(self.discard)
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())
            if self._mode is not None:
                with suppress(PermissionError):  # a file system without modes
                    self._temporary.chmod(self._mode)
            self._temporary.replace(self._target)
            sync_folder(self._target.parent)

    def discard(self) -> None:
        """Remove what was written; safe to repeat, and without effect once committed."""
        # Errors are suppressed as one is being raised already; a full disk refuses the last flush too.
        with suppress(OSError):
            self._opened.close()


def _mode_of(path: Path) -> int | None:
    """Return the mode of a file if it exists; raises OSError if it cannot be written."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(f"it is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
    if not os.access(path, os.W_OK):
        raise OSError("it is read-only")
    return stat.S_IMODE(mode)
