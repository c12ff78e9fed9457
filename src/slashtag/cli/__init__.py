"""The command line, in the extra `cli`."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper


def main() -> int:
    """Run the command line and return its exit code."""
    _open_standard_files()
    if any(find_spec(name) is None for name in ("typer", "rich")):
        print('The command line needs its extra: pip install "slashtag[cli]"', file=sys.stderr)
        return 1
    try:
        return int(import_module(".app", __name__).run())
    except KeyboardInterrupt:
        # Ctrl-C before a command has begun.
        return 130


def _open_standard_files() -> None:
    """Open the null device in place of a standard file that is closed.

    Otherwise the next file opened would get its number, with which an event loop aborts.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In this order each gets the number of the closed one.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as we run
    stdout: object = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        # A table on an ASCII terminal shows "?" for what it lacks. JSON Lines and CSV are UTF-8 everywhere.
        stdout.reconfigure(errors="replace")
