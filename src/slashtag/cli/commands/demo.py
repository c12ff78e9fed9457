"""`slashtag demo`: the main job on a sandbox, every number checked."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from time import perf_counter
from typing import Annotated, Any, NamedTuple, TypeVar

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
from ...export import Column, Table
from ...sandbox import Link, Sandbox, TokenBucket, TrueCountry, TruePeriod, TrueRange
from ..drawing import draw_rows
from ..options import run_async
from ..progress import bars

T = TypeVar("T", bound=Statistics | list[ShortUrl])

YEAR = 2024
FIRST, LAST = date(YEAR, 1, 1), date(YEAR, 12, 31)
COUNTRY = "DE"
BURST = 10
LATENCY = (0.01, 0.03)
COUNTED = ("requests", "429s", "retries", "time", "req/s")
STEPS = Table((Column("step"), Column("what"), *(Column(name, "int") for name in COUNTED), Column("exact")))


class Step(NamedTuple):
    """One step: its result, what differs from the truth, and its cost."""

    name: str
    found: str
    wrong: list[str]
    #: Requests, 429s and retries.
    counts: tuple[int, ...]
    seconds: float


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
    limit, steps = TokenBucket(rate, BURST), list[Step]()
    # The sandbox runs in a thread of its own, so that client and service do not share a loop.
    with Sandbox(urls=urls, clicks=clicks, limiter=limit, retry_after=None, latency=LATENCY) as box:
        learned_rate = run_async(_run(box, steps))
    total = Step(
        "total",
        "",
        [name for step in steps for name in step.wrong],
        tuple(map(sum, zip(*(step.counts for step in steps), strict=True))),
        sum(step.seconds for step in steps),
    )
    draw_rows(STEPS, [_row(step) for step in (*steps, total)], None)
    if learned_rate is not None:
        console.print(f"Limit as learnt from the answers: {learned_rate:.0f} requests/s")
    if not total.wrong:
        console.print("Exact: every field of each link, every total and map of each answer.")
    for step in steps:
        if step.wrong:
            console.print(f"NOT EXACT: {step.name}: {', '.join(step.wrong)}", style="bold red")
    raise typer.Exit(1 if total.wrong else 0)


def _row(step: Step) -> tuple[str, ...]:
    speed = f"{step.counts[0] / step.seconds:.0f}"
    counts = (f"{n:,}" for n in step.counts)
    return step.name, step.found, *counts, f"{step.seconds:.1f} s", speed, "NO" if step.wrong else "yes"


async def _run(box: Sandbox, steps: list[Step]) -> float | None:
    """Run all steps and return the learned limit."""
    truth = box.truth
    # Eight in flight are plenty 20 ms away, and fewer run into a limit that is not known yet.
    session = AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, concurrency=8)
    metrics = session.metrics

    async def step(name: str, ask: Callable[..., Awaitable[T]], compare: Callable[[T], list[str]]) -> T:
        before, began = (metrics.attempts, metrics.throttled, metrics.retries), perf_counter()
        answer = await ask(progress=start(name))
        seconds = perf_counter() - began
        after = metrics.attempts, metrics.throttled, metrics.retries
        counts = tuple(n - earlier for n, earlier in zip(after, before, strict=True))
        found = f"{answer.total:,} clicks" if isinstance(answer, Statistics) else f"{len(answer):,} links"
        steps.append(Step(name, found, compare(answer), counts, seconds))
        return answer

    async def list_links(progress: Progress) -> list[ShortUrl]:
        return await session.urls.list(progress=progress).to_list()

    async with session:
        with bars() as start:
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
    return metrics.learned_rate


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
