"""`slashtag demo`: the main job on a sandbox, every number checked."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from time import perf_counter
from typing import Annotated, Any, TypeVar

import typer
from msgspec import structs
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
from ..._internal import Progress
from ...export import Column, Row, Table
from ...sandbox import Link, Sandbox, TokenBucket, TrueCountry, TruePeriod, TrueRange
from ..drawing import draw_rows
from ..options import run_async
from ..progress import Watch, bars

T = TypeVar("T", bound=Statistics | list[ShortUrl])

YEAR = 2024
FIRST, LAST = date(YEAR, 1, 1), date(YEAR, 12, 31)
COUNTRY = "DE"
BURST = 10
LATENCY = (0.01, 0.03)
COUNTED = ("requests", "429s", "retries", "time", "req/s")
STEPS = Table((Column("step"), Column("what"), *(Column(name, "int") for name in COUNTED), Column("exact")))


def demo(
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
    limit = TokenBucket(rate, BURST)
    # The sandbox runs in a thread of its own, so that client and service do not share a loop.
    with Sandbox(urls=urls, clicks=clicks, limiter=limit, retry_after=None, latency=LATENCY) as box:
        steps, wrong, learned_rate = run_async(_run(box))
    draw_rows(STEPS, steps, None)
    if learned_rate is not None:
        console.print(f"Limit as learnt from the answers: {learned_rate:.0f} requests/s")
    if not wrong:
        console.print("Exact: every field of each link, every total and map of each answer.")
    for line in wrong:
        console.print(f"NOT EXACT: {line}", style="bold red")
    raise typer.Exit(1 if wrong else 0)


async def _run(box: Sandbox) -> tuple[list[Row], list[str], float | None]:
    """Run all steps; return a row for each, what differs from the truth, and the learned limit."""
    truth = box.truth
    # Eight in flight are plenty 20 ms away, and fewer run into a limit that is not known yet.
    session = AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, concurrency=8)
    metrics = session.metrics

    steps, wrong = list[Row](), list[str]()
    total = 0.0

    def counts() -> tuple[int, int, int]:
        return metrics.attempts, metrics.throttled, metrics.retries

    def add_row(name: str, found: str, seconds: float, before: Sequence[int], is_exact: bool) -> None:
        spent = [n - earlier for n, earlier in zip(counts(), before, strict=True)]
        numbers = *(f"{n:,}" for n in spent), f"{seconds:.1f} s", f"{spent[0] / seconds:.0f}"
        steps.append((name, found, *numbers, "yes" if is_exact else "NO"))

    async def step(name: str, ask: Callable[..., Awaitable[T]], compare: Callable[[T], list[str]]) -> T:
        nonlocal total
        before, began = counts(), perf_counter()
        answer = await ask(progress=start(name))
        seconds = perf_counter() - began
        total += seconds
        found = f"{answer.total:,} clicks" if isinstance(answer, Statistics) else f"{len(answer):,} links"
        differing = compare(answer)
        add_row(name, found, seconds, before, not differing)
        if differing:
            wrong.append(f"{name}: {', '.join(differing)}")
        return answer

    async def list_links(progress: Progress) -> list[ShortUrl]:
        return await session.urls.list(progress=progress).to_list()

    async with session:
        with bars(Watch(print, 0)) as start:
            links = await step(
                "all links", list_links, lambda listed: listing_differences(listed, truth.urls())
            )
            ids = [url.tag_id for url in links]
            tag = max(truth.tags(), key=lambda tag: ids.count(tag.id)).name
            asked: list[tuple[str, Query[Any], dict[str, Any], TrueRange | TruePeriod | TrueCountry]] = [
                (f"{YEAR} by day", DateRange(FIRST, LAST), {"keys": links}, truth.range(FIRST, LAST)),
                (f"{YEAR}, tag {tag}", Year(YEAR), {"tag": tag}, truth.year(YEAR, tag=tag)),
                ("all time", AllTime(), {"keys": links}, truth.alltime()),
                (
                    f"{YEAR}, {COUNTRY}",
                    CountryGeo(COUNTRY, FIRST, LAST),
                    {"keys": links},
                    truth.country(COUNTRY, FIRST, LAST),
                ),
            ]
            collect = session.stats.collect
            for name, query, of, true in asked:
                await step(name, partial(collect, query, **of), partial(differences, truth=true))
    add_row("total", "", total, (0, 0, 0), not wrong)
    return steps, wrong, metrics.learned_rate


def differences(stats: Statistics, truth: TrueRange | TruePeriod | TrueCountry) -> list[str]:
    """Return the names of the totals and maps that differ; every label is compared.

    Unique clicks summed from several answers are compared with their bounds.
    """
    true = asdict(truth)
    found: dict[str, Any] = {name: getattr(stats, name) for name in true}
    if isinstance(stats, GeoStats):
        # The service ends each map of places with the rest that it does not name; here that is zero.
        for name, counts in found.items():
            found[name] = {label: n for label, n in counts.items() if (label, n) != ("Other", 0)}
        true["places_are_exact"], found["places_are_exact"] = True, stats.places_are_exact
    if isinstance(stats, PeriodStats) and not stats.unique_is_exact:
        bounds = {
            "clicks_unique": true["clicks_unique"] <= stats.clicks_unique <= true["clicks_total"],
            "clicks_repeated": 0 <= stats.clicks_repeated <= true["clicks_repeated"],
        }
        found |= {name: true[name] for name, holds in bounds.items() if holds}
    return [name for name, value in true.items() if found[name] != value]


def listing_differences(listed: list[ShortUrl], truth: list[Link]) -> list[str]:
    """Return the fields in which listed links differ; their order counts."""
    if len(listed) != len(truth):
        return ["number of links"]
    wrong: set[str] = set()
    for url, true in zip(listed, truth, strict=True):
        found = structs.asdict(url)
        for name in ("created_at", "updated_at"):
            found[name] = found[name].isoformat(" ")
        wrong.update(name for name, value in found.items() if value != getattr(true, name))
    return sorted(wrong)
