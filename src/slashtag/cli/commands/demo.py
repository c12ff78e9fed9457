"""`slashtag demo`: the main job on a sandbox, every number checked."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from typer import Option

from ... import (
    AllTime,
    AsyncSession,
    CountryGeo,
    DateRange,
    GeoStats,
    PeriodStats,
    Query,
    ShortUrl,
    Statistics,
    Year,
)
from ...export import Column, Row, Table
from ...sandbox import Link, Sandbox, TrueCountry, TruePeriod, TrueRange, Truth
from ..drawing import draw_rows
from ..progress import Begin, Watch, bars
from ..run import command

YEAR = 2024
FIRST, LAST = date(YEAR, 1, 1), date(YEAR, 12, 31)
COUNTRY = "DE"
BURST = 10
LATENCY = (0.01, 0.03)
COUNTED = ("requests", "429s", "retries", "time", "req/s")
STEPS = Table((Column("step"), Column("what"), *(Column(name, "int") for name in COUNTED), Column("exact")))


class Step(NamedTuple):
    """Step of the demo: what it found, what it took, and the names of what differs from the truth."""

    name: str
    found: str
    #: Requests, 429s, retries and seconds.
    spent: tuple[float, ...]
    wrong: Sequence[str]


@command
async def demo(
    urls: Annotated[int, Option(min=1, help="Links of the made-up account.")] = 5_000,
    clicks: Annotated[int, Option(min=1, help="Clicks on them.")] = 200_000,
    rate: Annotated[float, Option(min=1, help="Requests/s that the sandbox allows.")] = 60,
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
        with bars(Watch(print, 0), Console(stderr=True)) as start:
            async with session:
                steps = [step async for step in _steps(session, box.truth, start)]
    spent = tuple(map(sum, zip(*(step.spent for step in steps), strict=True)))
    wrong = [f"{step.name}: {', '.join(step.wrong)}" for step in steps if step.wrong]
    rows: list[Row] = []
    for name, found, (*counts, seconds), differing in (*steps, Step("total", "", spent, wrong)):
        numbers = *(f"{n:,}" for n in counts), f"{seconds:.1f} s", f"{counts[0] / seconds:.0f}"
        rows.append((name, found, *numbers, "NO" if differing else "yes"))
    draw_rows(STEPS, rows, None)
    if (learned_rate := session.metrics.learned_rate) is not None:
        console.print(f"Limit as learnt from the answers: {learned_rate:.0f} requests/s")
    if not wrong:
        console.print("Exact: every field of each link, every total and map of each answer.")
    for line in wrong:
        console.print(f"NOT EXACT: {line}", style="bold red")
    raise typer.Exit(1 if wrong else 0)


async def _steps(session: AsyncSession, truth: Truth, start: Begin) -> AsyncIterator[Step]:
    """Yield each step once it is done."""

    def spent() -> tuple[float, ...]:
        metrics = session.metrics
        return metrics.attempts, metrics.throttled, metrics.retries, perf_counter()

    async def step(name: str, work: Awaitable[Any], compare: Callable[[Any], list[str]]) -> tuple[Any, Step]:
        before, answer = spent(), await work
        took = tuple(now - earlier for now, earlier in zip(spent(), before, strict=True))
        found = f"{answer.total:,} clicks" if isinstance(answer, Statistics) else f"{len(answer):,} links"
        return answer, Step(name, found, took, compare(answer))

    listing = session.urls.list(progress=start("all links", "links")).to_list()
    links, done = await step("all links", listing, partial(listing_differences, truth.urls()))
    yield done
    ids = [url.tag_id for url in links]
    tag = max(truth.tags(), key=lambda tag: ids.count(tag.id)).name
    year, country = DateRange(FIRST, LAST), CountryGeo(COUNTRY, FIRST, LAST)
    asked: list[tuple[str, Query[Any], dict[str, Any], Any]] = [
        (f"{YEAR} by day", year, {"keys": links}, truth.range(FIRST, LAST)),
        (f"{YEAR}, tag {tag}", Year(YEAR), {"tag": tag}, truth.year(YEAR, tag=tag)),
        ("all time", AllTime(), {"keys": links}, truth.alltime()),
        (f"{YEAR}, {COUNTRY}", country, {"keys": links}, truth.country(COUNTRY, FIRST, LAST)),
    ]
    for name, query, of, true in asked:
        collecting = session.stats.collect(query, **of, progress=start(name, "requests"))
        _, done = await step(name, collecting, partial(differences, true))
        yield done


def differences(truth: TrueRange | TruePeriod | TrueCountry, stats: Statistics) -> list[str]:
    """Return the names of the totals and maps that differ; every label is compared.

    Unique clicks that were summed from several answers are bounds, and not compared.
    """
    true = asdict(truth)
    if isinstance(stats, PeriodStats) and not stats.unique_is_exact:
        del true["clicks_unique"], true["clicks_repeated"]
    found: dict[str, Any] = {name: getattr(stats, name) for name in true}
    if isinstance(stats, GeoStats):
        # The service ends each map with the rest that it does not name; here that is zero.
        found = {name: {label: n for label, n in places.items() if n} for name, places in found.items()}
    return [name for name, value in true.items() if found[name] != value]


def listing_differences(truth: list[Link], listed: list[ShortUrl]) -> list[str]:
    """Return the fields in which listed links differ; their number and order count."""

    def texts(links: Sequence[Link | ShortUrl], name: str) -> list[str]:
        # The sandbox has the timestamps as the service sends them.
        return [str(getattr(link, name)) for link in links]

    return [name for name in ShortUrl.__struct_fields__ if texts(truth, name) != texts(listed, name)]
