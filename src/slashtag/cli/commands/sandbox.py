"""`slashtag sandbox`: a made-up account, served; `slashtag demo`: the main job on one, checked."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import Any

import typer
from rich.console import Console
from typer import Option

from ... import (
    AllTime,
    AsyncSession,
    CountryGeo,
    DateRange,
    GeoStats,
    InvalidRequestError,
    PeriodStats,
    RangeStats,
    ShortUrl,
    Statistics,
    Year,
)
from ...sandbox import Fault, Sandbox, Truth
from ...tables import Column, Row, Table
from ..output import draw_rows
from ..run import command
from ..stderr import Lines, StartBar, Watch

#: Share of requests that a --fault concerns.
SHARE = 0.1
#: What the demo asks about, and how its sandbox answers.
YEAR, COUNTRY = 2024, "DE"
BURST, LATENCY = 10, (0.01, 0.03)
COUNTED = ("requests", "429s", "retries", "time", "req/s")
STEPS = Table((Column("step"), Column("what"), *(Column(name, "int") for name in COUNTED), Column("exact")))


@command
async def sandbox(
    port: int = Option(8080, min=0, max=65535, help="Port to listen on; 0: any free one."),
    urls: int = Option(5_000, min=0, help="Links of the made-up account."),
    clicks: int = Option(200_000, min=0, help="Clicks on them."),
    rate: float | None = Option(None, min=0.001, help="Requests/s that are allowed; no limit if not given."),
    latency: str = Option(
        "0", metavar="SECONDS", help="Time before each answer; a random one between two: 0.01..0.03."
    ),
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
    low, _, high = latency.partition("..")
    try:
        served = Sandbox(
            port=port,
            urls=urls,
            clicks=clicks,
            since=until - timedelta(days=1461, seconds=-1),
            until=until,
            rate=rate,
            latency=(float(low), float(high or low)),
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


@command
async def demo(
    urls: int = Option(5_000, min=1, help="Links of the made-up account."),
    clicks: int = Option(200_000, min=1, help="Clicks on them."),
    rate: float = Option(60, min=1, help="Requests/s that the sandbox allows."),
) -> None:
    """Run the main job on a sandbox and check every number.

    Lists all links of an account that limits its callers, then collects a year by day and by tag, all time
    and one country. Each count is compared with the click log of the sandbox. Exit code 1 if any differs.
    """
    console = Console(highlight=False, markup=False)
    console.print(
        f"A made-up account of {urls:,} links and {clicks:,} clicks, served on this machine.\n"
        f"The service allows {rate:g} requests/s, which the client has to find out."
    )
    # The sandbox runs in a thread of its own, so that client and service do not share a loop.
    with Sandbox(urls=urls, clicks=clicks, rate=rate, burst=BURST, retry_after=None, latency=LATENCY) as box:
        # Eight in flight are plenty 20 ms away, and fewer run into a limit that is not known yet.
        session = AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, concurrency=8)
        with Watch(Console(stderr=True), print).bars() as start_bar:
            async with session:
                rows, is_exact = await _run_steps(session, box.truth, start_bar)
    draw_rows(STEPS, rows, None)
    if (learned_rate := session.metrics.learned_rate) is not None:
        console.print(f"Limit as learnt from the answers: {learned_rate:.0f} requests/s")
    if is_exact:
        console.print("Exact: every field of each link, every total and map of each answer.")
    raise typer.Exit(0 if is_exact else 1)


async def _run_steps(session: AsyncSession, truth: Truth, start_bar: StartBar) -> tuple[list[Row], bool]:
    """Return a row of each step and of all, and whether every step was exact."""
    metrics, began, rows, exact = session.metrics, perf_counter(), list[Row](), list[bool]()

    def add_row(name: str, found: str, before: tuple[float, ...], *, is_exact: bool) -> None:
        sent, throttled, retries, seconds = (b - a for a, b in zip(before, spent(), strict=True))
        counts = f"{sent:,}", f"{throttled:,}", f"{retries:,}", f"{seconds:.1f} s", f"{sent / seconds:.0f}"
        rows.append((name, found, *counts, "yes" if is_exact else "NO"))

    def spent() -> tuple[float, ...]:
        return metrics.attempts, metrics.throttled, metrics.retries, perf_counter()

    async def step(name: str, work: Awaitable[Any], true: Any) -> Any:
        before, answer = spent(), await work
        found = f"{answer.total:,} clicks" if isinstance(answer, Statistics) else f"{len(answer):,} links"
        exact.append(is_same(true, answer))
        add_row(name, found, before, is_exact=exact[-1])
        return answer

    listing = session.urls.list(progress=start_bar("all links", "links")).to_list()
    links = await step("all links", listing, truth.urls())
    ids = [url.tag_id for url in links]
    tag = max(truth.tags(), key=lambda tag: ids.count(tag.id)).name
    span = date(YEAR, 1, 1), date(YEAR, 12, 31)
    asked: list[tuple[str, Any, dict[str, Any], Any]] = [
        (f"{YEAR} by day", DateRange(*span), {"keys": links}, truth.range(*span)),
        (f"{YEAR}, tag {tag}", Year(YEAR), {"tag": tag}, truth.year(YEAR, tag=tag)),
        ("all time", AllTime(), {"keys": links}, truth.alltime()),
        (f"{YEAR}, {COUNTRY}", CountryGeo(COUNTRY, *span), {"keys": links}, truth.country(COUNTRY, *span)),
    ]
    for name, query, of, true in asked:
        await step(name, session.stats.collect(query, **of, progress=start_bar(name, "requests")), true)
    add_row("total", "", (0, 0, 0, began), is_exact=all(exact))
    return rows, all(exact)


_MAPS = {"device", "browser", "platform", "country", "referrer"}
#: What a result and the truth both have.
_COUNTED: dict[type[Statistics], set[str]] = {
    RangeStats: _MAPS | {"total_clicks", "clicks"},
    PeriodStats: _MAPS | {"clicks_total", "clicks_unique", "clicks_repeated", "clicks_breakdown", "timezone"},
    GeoStats: {"state", "city", "postalcode"},
}


def is_same(truth: Any, found: Statistics | list[ShortUrl]) -> bool:
    """Return whether all members are those of the truth, of statistics or of links in order.

    Every label is compared. Unique clicks that were summed from several answers are bounds, and not compared.
    """
    if isinstance(found, list):
        # The sandbox has the timestamps as the service sends them.
        members = attrgetter(*ShortUrl.__struct_fields__)
        true_links, links = ([tuple(map(str, members(link))) for link in listed] for listed in (truth, found))
        return true_links == links
    names = _COUNTED[type(found)]
    if isinstance(found, PeriodStats) and not found.unique_is_exact:
        names -= {"clicks_unique", "clicks_repeated"}
    true: dict[str, Any] = {name: getattr(truth, name) for name in names}
    counted: dict[str, Any] = {name: getattr(found, name) for name in names}
    if isinstance(found, GeoStats):
        # The service ends each map with the rest that it does not name; here that is zero.
        counted = {name: {label: n for label, n in places.items() if n} for name, places in counted.items()}
    return counted == true
