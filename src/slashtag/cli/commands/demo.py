"""`slashtag demo`: the main job on a sandbox, every number checked."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from ..demo import run


def demo(
    urls: Annotated[int, Option(min=1, help="Links of the made-up account.")] = 5_000,
    clicks: Annotated[int, Option(min=1, help="Clicks on them.")] = 200_000,
    rate: Annotated[float, Option(min=1, help="Requests/s that the sandbox allows.")] = 60,
    seed: Annotated[int, Option(help="The same seed makes the same account.")] = 7,
    output: Annotated[
        Path, Option(file_okay=False, help="Folder for links.jsonl and clicks_daily.csv.")
    ] = Path("slashtag-demo"),
) -> None:
    """Run the main job on a sandbox and check every number.

    Lists all links of an account that limits its callers, then collects a year by day and by tag, all time
    and one country. Each count is compared with the click log of the sandbox. Exit code 1 if any differs.
    """
    raise typer.Exit(0 if run(urls=urls, clicks=clicks, rate=rate, seed=seed, folder=output) else 1)
