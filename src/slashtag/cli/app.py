"""The program: its commands, imported when they are called, and how a run of one ends."""

import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Any

import typer
from typer import Option

from .. import __version__

#: Name of a command or a group of commands -> the function or `typer.Typer` in a file of `commands`, and its
#: line in `slashtag --help`, which is printed without importing the file.
COMMANDS = {
    "stats": ("stats.stats", "Click statistics, exact for any number of links and days."),
    "top": ("top.top", "The links with most clicks of a span, and how they changed."),
    "urls": ("links.urls", "Short URLs of the account."),
    "tags": ("tags.app", "Tags of the account."),
    "export": ("export.app", "Links, tags and clicks into files, whole or not at all, resumable."),
    "diff": ("export.diff", "What differs between two listings or two exports."),
    "sync": ("sync.sync", "Load links, tags and clicks into a database or warehouse, incrementally."),
    "audit": ("audit.audit", "Prove that a warehouse holds what the service counts."),
    "report": ("report.report", "Show the clicks of a span on one page."),
    "doctor": ("doctor.diagnose", "Find out how the service behaves, and which settings to use."),
    "login": ("login.login", "Save credentials and settings for later commands."),
    "api": ("api.api", "A request to any endpoint of the service, also one without a command."),
    "sandbox": ("sandbox.sandbox", "Serve a made-up account on this machine, to try things on."),
}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"slashtag {__version__}")
        raise typer.Exit


def _options(
    version: bool = Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Hold the options of the program itself."""


def make_app(words: Collection[str] = COMMANDS) -> typer.Typer:
    """Return the program; a command that is not among the words only has its line in the list."""
    app = typer.Typer(
        name="slashtag",
        callback=_options,
        help="Links, tags and exact click statistics of a link-shortening account.",
        epilog="Credentials come from the environment (SLASHTAG_BASE_URL, SLASHTAG_APIKEY, "
        "SLASHTAG_APISECRET) or from `slashtag login`. No account at hand? "
        "Start one with `slashtag sandbox`.",
        # A traceback with local variables would show credentials; a plain one is easier to send to somebody.
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, (place, text) in COMMANDS.items():
        found: Any = _options  # any function: only the line in the list is shown of it
        if name in words:
            module, _, attribute = place.partition(".")
            found = getattr(import_module(f".commands.{module}", __package__), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, help=text, short_help=text)
        else:
            app.command(name, short_help=text)(found)
    return app


def run() -> int:
    """Run the command that the arguments name and return the exit code.

    0: done; 1: an error, printed in one line; 2: wrong usage, also what the service cannot be asked;
    3: some failed or were left out, or figures contradict each other; 130: Ctrl-C; 143: SIGTERM.
    """
    sys.argv += ["--help"] * (len(sys.argv) == 1)
    # The words that a shell asks how to complete.
    completed = f"{os.environ.get('COMP_WORDS')} {os.environ.get('_TYPER_COMPLETE_ARGS')}".split()
    try:
        app = make_app({*sys.argv, *completed})
        code = int(app(prog_name="slashtag", standalone_mode=False) or 0)
    except SystemExit as end:
        # Completion, and a closed stdout.
        code = end.code if isinstance(end.code, int) else 1
    except Exception as error:
        code = _report(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # What cannot be told on stderr changes nothing.
            if stream is sys.stdout and code != 1:
                code = _report(error)
            # Python flushes once more at its end, and would print a traceback or change the exit code.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _report(error: Exception) -> int:
    """Print an error and return the exit code."""
    # Imported here, as errors need the library and --help does not.
    lines = import_module(".stderr", __package__).Lines()
    return int(import_module(".errors", __package__).report(error, lines)[1])
