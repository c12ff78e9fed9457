"""`slashtag sandbox`: a made-up account, served on this machine."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from typer import Option

from ... import InvalidRequestError
from ...sandbox import Fault, Sandbox
from ..run import command
from ..stderr import Lines

#: Share of requests that a --fault concerns.
SHARE = 0.1


@command
async def sandbox(
    port: int = Option(8080, min=0, max=65535, help="Port to listen on; 0: any free one."),
    urls: int = Option(5_000, min=0, help="Links of the made-up account."),
    clicks: int = Option(200_000, min=0, help="Clicks on them."),
    rate: float | None = Option(None, min=0.001, help="Requests/s that are allowed; no limit if not given."),
    latency: float = Option(0.0, min=0.0, metavar="SECONDS", help="Time before an answer, on average."),
    fault: list[str] | None = Option(
        None,
        metavar="KIND",
        help="What goes wrong with one request in ten, chosen at random: a status such as 500, html-502, "
        "envelope-400, truncated-json, truncated-body, reset, stall; may be repeated.",
    ),
    seed: int = Option(7, help="The same seed makes the same account and faults."),
    store: Path | None = Option(
        None, metavar="FILE", help="Keep the account in this file; it is made if missing."
    ),
) -> None:
    """Serve a made-up account on this machine, to try things on.

    The lines to copy into another terminal go to stdout.
    """
    # Up to now, so that "last-month" has clicks. Spans of the same length give the same links and tags.
    until = datetime.now(UTC)
    try:
        served = Sandbox(
            port=port,
            urls=urls,
            clicks=clicks,
            since=until - timedelta(days=1461, seconds=-1),
            until=until,
            rate=rate,
            latency=latency,
            faults=[Fault(kind=kind, share=SHARE) for kind in fault or ()],
            seed=seed,
            store=store,
        )
    except ValueError as error:
        raise InvalidRequestError(f"{error}; see `slashtag sandbox --help`") from None
    async with served as box:
        account = f"{len(box.truth.urls()):,} links and {box.truth.alltime().clicks_total:,} clicks"
        Lines().print(f"An account of {account} is at {box.base_url} until Ctrl-C. In another terminal:")
        print(f"export SLASHTAG_BASE_URL={box.base_url}")
        print(f"export SLASHTAG_APIKEY={box.apikey}")
        print(f"export SLASHTAG_APISECRET={box.apisecret}", flush=True)
        await asyncio.get_running_loop().create_future()
