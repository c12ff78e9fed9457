"""The command line, in the extra `cli`."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper


def main() -> int:
    """Run the command line and return its exit code."""
    _open_closed_streams()
    stdout: object = sys.stdout
    if isinstance(stdout, TextIOWrapper):
        # A table on an ASCII terminal shows "?" for what it lacks. JSON Lines and CSV are UTF-8 everywhere.
        stdout.reconfigure(errors="replace")
    if any(find_spec(name) is None for name in ("typer", "rich")):
        print('The command line needs its extra: pip install "slashtag[cli]"', file=sys.stderr)
        return 1
    try:
        return int(import_module(".app", __name__).run())
    except KeyboardInterrupt:
        # Ctrl-C before a command has begun.
        return 130


def _open_closed_streams() -> None:
    """Open each of stdin, stdout and stderr that the caller has closed on the null device.

    Otherwise the next file that is opened gets its number and with it what is meant for the stream, and
    uvloop aborts the process. stdin is then empty, and what goes to stderr is dropped. The one for stdout
    cannot be written to: data that nobody gets is an error, as with `ls >&-`.
    """
    streams = ("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)
    for name, mode, access in streams:
        if getattr(sys, name) is None:
            # The lowest number that is free, which is that of the stream.
            number = os.open(os.devnull, access)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
