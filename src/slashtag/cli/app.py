"""The commands, put together, and how a run of one ends."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .._errors import SlashtagError
from .errors import exit_code, tell, tell_os_error
from .lazy import LazyGroup

app = typer.Typer(
    name="slashtag",
    cls=LazyGroup,
    help="Links, tags and exact click statistics of a link-shortening account.",
    epilog="Credentials come from the environment (SLASHTAG_BASE_URL, SLASHTAG_APIKEY, SLASHTAG_APISECRET) "
    "or from `slashtag login`. No account at hand? Start one with `slashtag sandbox`.",
    no_args_is_help=True,
    # A traceback with local variables would show credentials; a plain one is easier to send to somebody.
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"slashtag {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Give the options of the program itself."""


@app.command()
def demo(
    urls: Annotated[int, typer.Option(min=1, help="Links of the made-up account.")] = 5_000,
    clicks: Annotated[int, typer.Option(min=1, help="Clicks on them.")] = 200_000,
    rate: Annotated[float, typer.Option(min=1, help="Requests/s that the sandbox allows.")] = 60,
    seed: Annotated[int, typer.Option(help="The same seed makes the same account.")] = 7,
    output: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for links.jsonl, clicks_daily.csv and report.html.")
    ] = Path("slashtag-demo"),
) -> None:
    """Run the main job on a sandbox and check every number.

    Lists all links of an account that limits its callers, then collects a year
    by day and by tag, all time and one country. Each count is held against the
    click log of the sandbox. Exit code 1 if anything differs.
    """
    # The sandbox takes a while to import, and `slashtag --help` must not.
    exact = import_module(".demo", __package__).run(
        urls=urls, clicks=clicks, rate=rate, seed=seed, folder=output
    )
    raise typer.Exit(0 if exact else 1)


@app.command()
def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8080,
    urls: Annotated[int, typer.Option(min=0, help="Links of the made-up account.")] = 5_000,
    clicks: Annotated[int, typer.Option(min=0, help="Clicks on them.")] = 200_000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same account.")] = 7,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Requests/s that are allowed; no limit if not given.")
    ] = None,
    burst: Annotated[int, typer.Option(min=1, help="Requests allowed at once after a pause.")] = 10,
    latency: Annotated[float, typer.Option(min=0, help="Seconds before each answer.")] = 0.0,
) -> None:
    """Serve a made-up account on this machine, to try things on."""
    import_module(".serve", __package__).run(
        port=port, urls=urls, clicks=clicks, seed=seed, rate=rate, burst=burst, latency=latency
    )


def run() -> int:
    """Run the command that the arguments name and return the exit code.

    0: done; 1: an error, told in one line; 2: wrong usage, also what cannot be asked; 3: some failed;
    130: Ctrl-C.
    """
    try:
        code = _run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        pass
    except OSError as error:
        tell_os_error(error)
    try:
        sys.stdout.flush()
    except OSError:
        # Python flushes once more at its end, and would print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _run() -> int:
    try:
        app(prog_name="slashtag")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except SlashtagError as error:
        tell(error)
        return exit_code(error)
    return 0
