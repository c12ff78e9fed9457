"""`slashtag demo`: the main job on a sandbox, every number checked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from .. import AllTime, AsyncSession, CountryGeo, DateRange, ShortUrl, Year
from .._internal import Progress
from ..export import URLS, Column, Table, TableFile, clicks_rows, clicks_table, url_row
from ..sandbox import Sandbox, TokenBucket
from .demo_checks import differences, listing_differences
from .drawing import draw_rows
from .options import run_async
from .progress import bars

YEAR = 2024
FIRST, LAST = date(YEAR, 1, 1), date(YEAR, 12, 31)
COUNTRY = "DE"
BURST = 10
LATENCY = (0.01, 0.03)

COUNTED = ("requests", "429s", "retries", "time", "req/s")
STEPS = Table((Column("step"), Column("what"), *(Column(name, "int") for name in COUNTED), Column("exact")))


@dataclass
class Step:
    """One step: its cost, what it counted, what was checked and what differs from the truth."""

    name: str
    requests: int
    throttled: int
    retries: int
    seconds: float
    found: str = ""
    claim: str = ""
    wrong: list[str] = field(default_factory=list[str])

    @property
    def verdict(self) -> str:
        """Whether all of it was exact."""
        return "NO" if self.wrong else "yes"


class Demo:
    """The main job on a sandbox: its steps and what they found."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.links: list[ShortUrl] = []
        self.answers: list[Any] = []
        self.learned_rate: float | None = None

    async def run(self, box: Sandbox) -> None:
        """Run all steps; the truth is counted outside the time of a step."""
        truth = box.truth
        # Eight in flight are plenty 20 ms away, and fewer run into a limit that is not known yet.
        session = AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, concurrency=8)
        metrics = session.metrics

        async def step(name: str, ask: Callable[..., Awaitable[Any]]) -> Any:
            requests, throttled, retries = metrics.attempts, metrics.throttled, metrics.retries
            began = perf_counter()
            answer = await ask(progress=start(name))
            self.steps.append(
                Step(
                    name,
                    metrics.attempts - requests,
                    metrics.throttled - throttled,
                    metrics.retries - retries,
                    perf_counter() - began,
                )
            )
            return answer

        def check(found: str, claim: str, wrong: list[str]) -> None:
            done = self.steps[-1]
            done.found, done.claim, done.wrong = found, claim, wrong

        async def list_links(progress: Progress) -> list[ShortUrl]:
            return await session.urls.list(progress=progress).to_list()

        async with session:
            with bars() as start:
                links = self.links = await step("all links", list_links)
                check(
                    f"{len(links):,} links", "every field of each", listing_differences(links, truth.urls())
                )
                ids = [url.tag_id for url in links]
                tag = max(truth.tags(), key=lambda tag: ids.count(tag.id)).name
                days = "every day, device, browser, platform, country and referrer"
                months = "every month and map, unique clicks"
                bounds = "every month and map, bounds of unique clicks"
                places = "every state, city and postal code"
                country = COUNTRY, FIRST, LAST
                for name, query, selector, claim, true in (
                    (
                        f"{YEAR} by day",
                        DateRange(FIRST, LAST),
                        {"keys": links},
                        days,
                        partial(truth.range, FIRST, LAST),
                    ),
                    (
                        f"{YEAR}, tag {tag}",
                        Year(YEAR),
                        {"tag": tag},
                        months,
                        partial(truth.year, YEAR, tag=tag),
                    ),
                    ("all time", AllTime(), {"keys": links}, bounds, truth.alltime),
                    (
                        f"{YEAR}, {COUNTRY}",
                        CountryGeo(*country),
                        {"keys": links},
                        places,
                        partial(truth.country, *country),
                    ),
                ):
                    answer = await step(name, partial(session.stats.collect, query, **selector))
                    self.answers.append(answer)
                    check(f"{answer.total:,} clicks", claim, differences(answer, true()))
        self.learned_rate = metrics.learned_rate


def run(*, urls: int, clicks: int, rate: float, seed: int, folder: Path) -> bool:
    """Run the demo and return whether everything was exact."""
    console = Console(highlight=False, markup=False)
    folder.mkdir(parents=True, exist_ok=True)
    console.print(
        f"A made-up account of {urls:,} links and {clicks:,} clicks, served on this machine.\n"
        f"The service allows {rate:g} requests/s, which the client has to find out."
    )
    demo, limit = Demo(), TokenBucket(rate, BURST)
    # The sandbox runs in a thread of its own, so that client and service do not share a loop.
    with Sandbox(
        urls=urls, clicks=clicks, seed=seed, limiter=limit, retry_after=None, latency=LATENCY
    ) as box:
        run_async(demo.run(box))
    with TableFile(folder / "links.jsonl", URLS) as file:
        file.write(map(url_row, demo.links))
    with TableFile(folder / "clicks_daily.csv", clicks_table(None)) as file:
        file.write(clicks_rows(demo.answers[0]))
    _print_steps(demo.steps)
    if demo.learned_rate is not None:
        console.print(f"Limit as learnt from the answers: {demo.learned_rate:.0f} requests/s")
    console.print(f"Written to {folder}: links.jsonl, clicks_daily.csv\n", soft_wrap=True)
    verdicts = Grid.grid(padding=(0, 2, 0, 0))
    for step in demo.steps:
        claim = Text(step.claim)
        if step.wrong:
            claim.append(f"; these differ: {', '.join(step.wrong)}", "bold red")
        verdicts.add_row(f"exact: {step.verdict}", step.name, step.found, claim)
    console.print(verdicts)
    return not any(step.wrong for step in demo.steps)


def _print_steps(steps: list[Step]) -> None:
    total = Step(
        "total",
        sum(step.requests for step in steps),
        sum(step.throttled for step in steps),
        sum(step.retries for step in steps),
        sum(step.seconds for step in steps),
        wrong=[name for step in steps for name in step.wrong],
    )
    rows = [
        (
            step.name,
            step.found,
            *(f"{n:,}" for n in (step.requests, step.throttled, step.retries)),
            f"{step.seconds:.1f} s",
            f"{step.requests / step.seconds:.0f}",
            step.verdict,
        )
        for step in (*steps, total)
    ]
    draw_rows(STEPS, rows, None)
