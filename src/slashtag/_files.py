"""The event loop, functions in a thread, locks, durable names and folders of files, paths that are none."""

import asyncio
import errno
import logging
import os
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar
from weakref import WeakSet

from ._errors import ConfigurationError, InvalidRequestError

if sys.platform != "win32":
    import pwd

T = TypeVar("T")

#: Windows has no such locks: there, `lock_file` always returns True.
_fcntl: Any = import_module("fcntl") if os.name == "posix" else None
_IN_USE = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES}

#: Begin of a URL, also as a path has it, with one slash. A single letter is a drive of Windows.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):[/\\]")

#: Schemes of buckets into which files are written.
BUCKETS = ("s3", "gs", "az")

log = logging.getLogger("slashtag")


def object_url(path: str | os.PathLike[str]) -> str | None:
    """Return the URL of an object or folder in a bucket, None for a path on this machine or another URL.

    A Path has lost one of the two slashes. Raises InvalidRequestError for a URL with credentials, which does
    not show them, and for one without a bucket.
    """
    found = _URL.match(os.fspath(path))
    if found is None or (scheme := found[1].lower()) not in BUCKETS:
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


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop; raises ConfigurationError where there is none, as on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "no asyncio event loop is running: slashtag needs asyncio and cannot run on trio"
        ) from None


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread and wait until it ends, even if cancelled: its file may be closed next."""
    # Not anyio.to_thread: its threads stay alive for seconds, and cancellation does not wait for them.
    pool = ThreadPoolExecutor(1, "slashtag")
    work = asyncio.wrap_future(pool.submit(function))
    pool.shutdown(wait=False)
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        # The caller was cancelled, so nothing else reports a failure.
        if not work.cancelled() and (error := work.exception()) is not None:
            log.warning("failed after it was cancelled: %s", str(error) or type(error).__name__)
        raise
    return work.result()


def lock_file(handle: int) -> bool:
    """Lock an open file until it is closed; return False if it is locked already.

    Raises OSError on a file system without locks.
    """
    try:
        # Not POSIX locks, which end when the process closes any other handle of the file.
        if _fcntl is not None:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _IN_USE:
            return False
        why = f"its file system has no locks ({error.strerror}); choose a folder on another"
        raise OSError(error.errno, why) from None
    return True


def user_folder(kind: Literal["config", "state"]) -> Path | None:
    """Return the folder of our files of a kind, None if there is none for this user.

    On Linux it is in XDG_CONFIG_HOME or XDG_STATE_HOME, or in .config or .local/state of the home directory
    if that is not set, empty or relative (XDG Base Directory Specification). A home directory that does not
    exist is not made.
    """
    is_config = kind == "config"
    if sys.platform == "win32":
        found = os.environ.get("APPDATA" if is_config else "LOCALAPPDATA") or os.path.expanduser("~")
        return Path(found, "slashtag") if os.path.isabs(found) else None
    if sys.platform == "darwin" and is_config:
        folder = Path(os.path.expanduser("~/Library/Application Support"), "slashtag")
        return folder if folder.is_absolute() else None
    if os.path.isabs(given := os.environ.get("XDG_CONFIG_HOME" if is_config else "XDG_STATE_HOME", "")):
        return Path(given, "slashtag")
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    if not (os.path.isabs(home) and os.path.isdir(home)):
        return None
    return Path(home, ".config" if is_config else ".local/state", "slashtag")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def boot_id() -> str | None:
    """Return what names the time since the machine was started; None where the system does not tell (Linux).

    While it is the same, a file has all that was written to it, durable or not, whatever became of the
    process.
    """
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return None


class FileLock:
    """Lock that belongs to a path: a file of its own beside it, which is removed when the lock is released.

    The file at the path is not opened: where flock and fcntl locks exclude each other (macOS), locking it
    would lock out SQLite, and closing it would end SQLite's locks. A forked child does not keep the lock.
    """

    def __init__(self, path: Path) -> None:
        self._locked = self._file = path
        self._handle: int | None = None
        #: Object that a forked child must not destroy.
        self.guarded: object = None

    def acquire(self) -> bool:
        """Lock the path; return False if it is locked. Raises OSError where that is not possible."""
        # Resolved here: a path that no system accepts raises ValueError.
        self._file = Path(f"{os.path.realpath(self._locked)}.lock")
        while self._handle is None:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                with suppress(OSError):
                    self._file.chmod(0o600)  # the umask may have removed some bits
                if not lock_file(handle):
                    return False
                # Its last holder may have removed it meanwhile.
                if os.path.samestat(os.fstat(handle), self._file.stat()):
                    self._handle, handle = handle, -1
                    _held.add(self)
            except FileNotFoundError:
                continue
            except OSError:
                self._file.unlink()
                raise
            finally:
                if handle >= 0:
                    os.close(handle)
        return True

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock through this object."""
        return self._handle is not None

    def release(self) -> None:
        """Release the lock; safe to repeat."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        _held.discard(self)
        if _fcntl is None:
            os.close(handle)  # Windows removes no file that is open
        with suppress(OSError):
            self._file.unlink()
        if _fcntl is not None:
            os.close(handle)


_held: WeakSet[FileLock] = WeakSet()


def _forget_in_child() -> None:
    """Leave the locks to the parent."""
    for lock in list(_held):
        if lock._handle is not None:
            os.close(lock._handle)
            lock._handle = None
        with suppress(ImportError):
            # SQLite would remove the parent's write-ahead log when the child ends.
            import_module("ctypes").pythonapi.Py_IncRef(import_module("ctypes").py_object(lock.guarded))
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
