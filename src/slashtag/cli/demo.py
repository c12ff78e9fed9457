"""`slashtag demo`: the main job on a sandbox, every number checked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from .. import AllTime, AsyncSession, CountryGeo, DateRange, RangeStats, ShortUrl, Year
from ..export import URLS, Column, Table, TableFile, clicks_rows, clicks_table, url_row
from ..report import build, write
from ..sandbox import Sandbox, TokenBucket
from .demo_checks import differences, listing_differences
from .drawing import draw_rows
from .options import run_async
from .progress import bars

Ask = Callable[..., Awaitable[Any]]

YEAR = 2024
FIRST, LAST = date(YEAR, 1, 1), date(YEAR, 12, 31)
COUNTRY = "DE"
BURST = 10
LATENCY = (0.01, 0.03)
NO_LIMIT = 1e9
REPORT = "report.html"
#: Packages that the report needs.
DRAWING = ("jinja2", "vl_convert")

STEPS = Table(
    (
        Column("step"),
        Column("what"),
        *(Column(name, "int") for name in ("requests", "429s", "retries", "time", "req/s")),
        Column("exact"),
    )
)


@dataclass
class Step:
    """One step: what it counted, what was checked and what differs from the truth, and its cost."""

    name: str
    found: str
    claim: str
    wrong: list[str]
    #: Requests, 429s and retries.
    counts: tuple[int, ...]
    seconds: float

    @property
    def verdict(self) -> str:
        """Whether all of it was exact."""
        return "NO" if self.wrong else "yes"


@dataclass
class Demo:
    """Steps of the main job on a sandbox, with what they found."""

    box: Sandbox
    steps: list[Step] = field(default_factory=list[Step])
    links: list[ShortUrl] = field(default_factory=list[ShortUrl])
    year: RangeStats = field(default_factory=RangeStats)
    learned_rate: float | None = None

    async def collect(self) -> None:
        """Run all steps; the truth is counted outside the time of a step."""
        box, truth = self.box, self.box.truth
        # Eight in flight are plenty 20 ms away, and fewer run into a limit that is not known yet.
        session = AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret, concurrency=8)
        async with session:
            with bars() as start:

                async def step(
                    name: str, ask: Ask, claim: str, check: Callable[[Any], tuple[str, list[str]]]
                ) -> Any:
                    metrics = session.metrics
                    before, began = (metrics.attempts, metrics.throttled, metrics.retries), perf_counter()
                    answer = await ask(progress=start(name))
                    seconds = perf_counter() - began
                    after = metrics.attempts, metrics.throttled, metrics.retries
                    counts = tuple(b - a for a, b in zip(before, after, strict=True))
                    found, wrong = check(answer)
                    self.steps.append(Step(name, found, claim, wrong, counts, seconds))
                    return answer

                async def count(
                    name: str, query: Any, claim: str, true: Callable[[], Any], **selector: Any
                ) -> Any:
                    ask = partial(session.stats.collect, query, **selector)
                    return await step(
                        name,
                        ask,
                        claim,
                        lambda stats: (f"{stats.total:,} clicks", differences(stats, true())),
                    )

                self.links = links = await step(
                    "all links",
                    lambda progress: session.urls.list(progress=progress).to_list(),
                    "every field of each",
                    lambda links: (f"{len(links):,} links", listing_differences(links, truth.urls())),
                )
                self.year = await count(
                    f"{YEAR} by day",
                    DateRange(FIRST, LAST),
                    "every day, device, browser, platform, country and referrer",
                    lambda: truth.range(FIRST, LAST),
                    keys=links,
                )
                tag = self._largest_tag()
                claim = "every month and map, unique clicks"
                await count(
                    f"{YEAR}, tag {tag}", Year(YEAR), claim, lambda: truth.year(YEAR, tag=tag), tag=tag
                )
                claim = "every month and map, bounds of unique clicks"
                await count("all time", AllTime(), claim, truth.alltime, keys=links)
                await count(
                    f"{YEAR}, {COUNTRY}",
                    CountryGeo(COUNTRY, FIRST, LAST),
                    "every state, city and postal code",
                    lambda: truth.country(COUNTRY, FIRST, LAST),
                    keys=links,
                )
        self.learned_rate = session.metrics.learned_rate

    def _largest_tag(self) -> str:
        """Return the name of the tag that most links have."""
        ids = [url.tag_id for url in self.links]
        return max(self.box.truth.tags(), key=lambda tag: ids.count(tag.id)).name

    async def report(self, path: Path) -> None:
        """Write the report of the year."""
        box = self.box
        async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
            with bars() as start:
                found = await build(session, FIRST, LAST, keys=self.links, progress=start("report"))
        write(found, path)


def run(*, urls: int, clicks: int, rate: float, seed: int, folder: Path) -> bool:
    """Run the demo and return whether everything was exact."""
    console = Console(highlight=False, markup=False)
    folder.mkdir(parents=True, exist_ok=True)
    console.print(
        f"A made-up account of {urls:,} links and {clicks:,} clicks, served on this machine.\n"
        f"The service allows {rate:g} requests/s, which the client has to find out."
    )
    limit = TokenBucket(rate, BURST)
    drawn = all(find_spec(name) is not None for name in DRAWING)
    # The sandbox runs in a thread of its own, so that client and service do not share a loop.
    with Sandbox(
        urls=urls, clicks=clicks, seed=seed, limiter=limit, retry_after=None, latency=LATENCY
    ) as box:
        demo = Demo(box)
        run_async(demo.collect())
        if drawn:
            # The report is not part of the measurement, so it need not wait for the limit.
            limit.rate = limit.burst = NO_LIMIT
            box.latency = 0.0
            run_async(demo.report(folder / REPORT))
    with TableFile(folder / "links.jsonl", URLS) as file:
        file.write(map(url_row, demo.links))
    with TableFile(folder / "clicks_daily.csv", clicks_table(None)) as file:
        file.write(clicks_rows(demo.year))
    _print_steps(demo.steps)
    if demo.learned_rate is not None:
        console.print(f"Limit as learnt from the answers: {demo.learned_rate:.0f} requests/s")
    names = ["links.jsonl", "clicks_daily.csv", *([REPORT] if drawn else [])]
    console.print(f"Written to {folder}: {', '.join(names)}", soft_wrap=True)
    hint = f"Open {folder / REPORT} in a browser."
    if not drawn:
        hint = 'For a report of these clicks: pip install "slashtag[report]"'
    console.print(f"{hint}\n", soft_wrap=True)
    verdicts = Grid.grid(padding=(0, 2, 0, 0))
    for step in demo.steps:
        claim = Text(step.claim)
        if step.wrong:
            claim.append(f"; these differ: {', '.join(step.wrong)}", "bold red")
        verdicts.add_row(f"exact: {step.verdict}", step.name, step.found, claim)
    console.print(verdicts)
    return not any(step.wrong for step in demo.steps)


def _print_steps(steps: list[Step]) -> None:
    counts = tuple(map(sum, zip(*(step.counts for step in steps), strict=True)))
    wrong = [name for step in steps for name in step.wrong]
    total = Step("total", "", "", wrong, counts, sum(step.seconds for step in steps))
    rows = [
        (
            step.name,
            step.found,
            *(f"{n:,}" for n in step.counts),
            f"{step.seconds:.1f} s",
            f"{step.counts[0] / step.seconds:.0f}",
            step.verdict,
        )
        for step in (*steps, total)
    ]
    draw_rows(STEPS, rows, None)
