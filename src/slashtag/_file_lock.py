"""Advisory locks on files, which the system releases when the process ends."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

#: Whether this system has such locks. Windows has none: there, `lock_file` always returns True.
HAS_LOCKS = os.name == "posix"
_fcntl: Any = import_module("fcntl") if HAS_LOCKS else None


def lock_file(handle: int) -> bool:
    """Lock an open file until it is closed; return False if it is already locked."""
    try:
        # Not POSIX locks, which end when the process closes any other handle of the file.
        if HAS_LOCKS:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError:
        return False
    return True
