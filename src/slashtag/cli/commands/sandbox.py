"""`slashtag sandbox`: a made-up account, served until Ctrl-C."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from typer import Option

from ... import InvalidRequestError
from ...sandbox import Fault, Sandbox
from ..run import command
from ..stderr import Lines

#: Share of requests that a --fault concerns.
SHARE = 0.1


@command
async def sandbox(
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8080,
    urls: Annotated[int, Option(min=0, help="Links of the made-up account.")] = 5_000,
    clicks: Annotated[int, Option(min=0, help="Clicks on them.")] = 200_000,
    rate: Annotated[
        float | None, Option(min=0.001, help="Requests/s that are allowed; no limit if not given.")
    ] = None,
    fault: Annotated[
        list[str] | None,
        Option(
            metavar="KIND",
            help="What goes wrong with one request in ten, chosen at random: a status such as 500, html-502, "
            "envelope-400, truncated-json, truncated-body, reset, stall; may be repeated.",
        ),
    ] = None,
    seed: Annotated[int, Option(help="The same seed makes the same account and faults.")] = 7,
    store: Annotated[
        Path | None, Option(metavar="FILE", help="Keep the account in this file; it is made if missing.")
    ] = None,
) -> None:
    """Serve a made-up account on this machine, to try things on.

    The lines to copy into another terminal go to stdout.
    """
    # Up to now, so that "last-month" has clicks. Spans of the same length give the same links and tags.
    until = datetime.now(UTC)
    try:
        faults = [Fault(kind=kind, share=SHARE) for kind in fault or ()]
    except ValueError as error:
        raise InvalidRequestError(f"{error}; `slashtag sandbox --help` names them") from None
    async with Sandbox(
        port=port,
        urls=urls,
        clicks=clicks,
        since=until - timedelta(days=1461, seconds=-1),
        until=until,
        rate=rate,
        faults=faults,
        seed=seed,
        store=store,
    ) as box:
        account = f"{len(box.truth.urls()):,} links and {box.truth.alltime().clicks_total:,} clicks"
        Lines().print(f"An account of {account} is at {box.base_url} until Ctrl-C. In another terminal:")
        print(f"export SLASHTAG_BASE_URL={box.base_url}")
        print(f"export SLASHTAG_APIKEY={box.apikey}")
        print(f"export SLASHTAG_APISECRET={box.apisecret}", flush=True)
        await asyncio.get_running_loop().create_future()
