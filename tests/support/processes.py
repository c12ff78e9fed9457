"""Programs that tests run, none without an end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

#: Seconds that a busy machine does not need for any of them.
LONGEST = 120


def run(*command: object, **options: Any) -> Any:
    """Run a program; give its exit code, and its output as text where nothing else is said."""
    given = {"capture_output": True, "encoding": "utf-8", "check": False, "timeout": LONGEST} | options
    return subprocess.run([*map(str, command)], **given)


def python(*arguments: object, **options: Any) -> Any:
    return run(sys.executable, *arguments, **options)


def wait_until(reached: Callable[[], object]) -> None:
    """Wait until something holds, in a test without a loop."""
    end = time.monotonic() + LONGEST
    while not reached():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.005)
