"""The command line, in the extra `cli`."""

import sys
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper


def main() -> int:
    """Run the command line and return its exit code."""
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
