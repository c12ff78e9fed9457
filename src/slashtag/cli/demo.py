"""`slashtag demo`: the main job on a sandbox, every number checked."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from rich.console import Console
from rich.table import Table as Drawing
from rich.text import Text

from .. import AllTime, AsyncSession, CountryGeo, DateRange, PeriodStats, RangeStats, ShortUrl, Year
from .._internal import Progress
from ..export import URLS, TableFile, clicks_rows, clicks_table, url_row
from ..report import Report, build, write
from ..sandbox import Sandbox, TokenBucket, Truth
from .demo_checks import differences, listing_differences
from .drawing import new_drawing
from .options import run_async
from .progress import bars

T = TypeVar("T")

YEAR = 2024
FIRST, LAST = date(YEAR, 1, 1), date(YEAR, 12, 31)
COUNTRY = "DE"
BURST = 10
LATENCY = (0.01, 0.03)
NO_LIMIT = 1e9
REPORT = "report.html"
DRAWING = ("jinja2", "vl_convert")


@dataclass
class Step:
    """Cost of one step, what it counted, and what differs from the truth."""

    name: str
    requests: int
    throttled: int
    retries: int
    seconds: float
    found: str = ""
    claim: str = ""
    wrong: Iterable[str] = ()


class Demo:
    """The main job, step by step."""

    def __init__(self, session: AsyncSession, truth: Truth, start: Callable[[str], Progress]) -> None:
        self._session = session
        self._truth = truth
        self._start = start
        self.steps: list[Step] = []
        self.links: list[ShortUrl] = []
        self.year = RangeStats()

    async def run(self) -> None:
        """Run all steps; the truth is counted outside the time of a step."""
        stats, truth = self._session.stats, self._truth
        links = await self._step(
            "all links", lambda progress: self._session.urls.list(progress=progress).to_list()
        )
        self._check(f"{len(links):,} links", "every field of each", listing_differences(links, truth.urls()))
        self.links = links

        year = await self._step(
            f"{YEAR} by day",
            lambda progress: stats.collect(DateRange(FIRST, LAST), keys=links, progress=progress),
        )
        self._check(
            f"{year.total:,} clicks",
            f"each of {len(year.clicks)} days, every device, browser, platform, country, referrer",
            differences(year, truth.range(FIRST, LAST)),
        )
        self.year = year

        tag = self._largest_tag(links)
        tagged = await self._step(
            f"{YEAR}, tag {tag}", lambda progress: stats.collect(Year(YEAR), tag=tag, progress=progress)
        )
        self._check(
            f"{tagged.total:,} clicks",
            f"every month and map, {_unique(tagged)}",
            differences(tagged, truth.year(YEAR, tag=tag)),
        )

        ever = await self._step(
            "all time", lambda progress: stats.collect(AllTime(), keys=links, progress=progress)
        )
        self._check(
            f"{ever.total:,} clicks",
            f"every month and map, {_unique(ever)}",
            differences(ever, truth.alltime()),
        )

        places = await self._step(
            f"{YEAR}, {COUNTRY}",
            lambda progress: stats.collect(CountryGeo(COUNTRY, FIRST, LAST), keys=links, progress=progress),
        )
        self._check(
            f"{places.total:,} clicks",
            "every state, city and postal code",
            differences(places, truth.country(COUNTRY, FIRST, LAST)),
        )

    def _largest_tag(self, links: list[ShortUrl]) -> str:
        """Return the tag that most links have."""
        names = {tag.id: tag.name for tag in self._truth.tags()}
        counts = dict.fromkeys(names, 0)
        for url in links:
            if url.tag_id is not None:
                counts[url.tag_id] += 1
        return names[max(counts, key=lambda id: counts[id])]

    async def _step(self, name: str, ask: Callable[[Progress], Awaitable[T]]) -> T:
        metrics = self._session.metrics
        before = metrics.attempts, metrics.throttled, metrics.retries
        began = perf_counter()
        answer = await ask(self._start(name))
        seconds = perf_counter() - began
        after = metrics.attempts, metrics.throttled, metrics.retries
        attempts, throttled, retries = (b - a for a, b in zip(before, after, strict=True))
        self.steps.append(Step(name, attempts, throttled, retries, seconds))
        return answer

    def _check(self, found: str, claim: str, wrong: Iterable[str]) -> None:
        step = self.steps[-1]
        step.found, step.claim, step.wrong = found, claim, list(wrong)


def run(*, urls: int, clicks: int, rate: float, seed: int, folder: Path) -> bool:
    """Run the demo and return whether everything was exact."""
    console = Console(highlight=False, markup=False)
    folder.mkdir(parents=True, exist_ok=True)
    console.print(
        f"A made-up account of {urls:,} links and {clicks:,} clicks, served on this machine.\n"
        f"The service allows {rate:g} requests/s; the client is not told."
    )
    limit = TokenBucket(rate, BURST)
    drawn = all(find_spec(name) is not None for name in DRAWING)
    with Sandbox(
        urls=urls, clicks=clicks, seed=seed, limiter=limit, retry_after=None, latency=LATENCY
    ) as box:
        demo, learned = run_async(_collect(box))
        if drawn:
            # The report is not part of the measurement, so it need not wait for the limit.
            limit.rate = limit.burst = NO_LIMIT
            box.latency = 0.0
            write(run_async(_report(box, demo.links)), folder / REPORT)
    with TableFile(folder / "links.jsonl", URLS) as file:
        file.write(map(url_row, demo.links))
    with TableFile(folder / "clicks_daily.csv", clicks_table(None)) as file:
        file.write(clicks_rows(demo.year))
    _print_steps(console, demo.steps)
    if learned is not None:
        console.print(f"Limit as learnt from the answers: {learned:.0f} requests/s")
    names = ["links.jsonl", "clicks_daily.csv", *([REPORT] if drawn else [])]
    console.print(f"Written to {folder}: {', '.join(names)}", soft_wrap=True)
    if drawn:
        console.print(f"Open {folder / REPORT} in a browser.\n", soft_wrap=True)
    else:
        console.print('For a report of these clicks: pip install "slashtag[report]"\n', soft_wrap=True)
    _print_verdicts(console, demo.steps)
    return not any(step.wrong for step in demo.steps)


async def _collect(box: Sandbox) -> tuple[Demo, float | None]:
    # The sandbox runs in a thread of its own, so that client and service do not share a loop.
    # Eight in flight are plenty 20 ms away, and fewer run into a limit that is not known yet.
    async with AsyncSession(
        box.base_url, apikey=box.apikey, apisecret=box.apisecret, concurrency=8
    ) as session:
        with bars() as start:
            demo = Demo(session, box.truth, start)
            await demo.run()
        return demo, session.metrics.learned_rate


async def _report(box: Sandbox, links: list[ShortUrl]) -> Report:
    async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
        with bars() as start:
            return await build(session, FIRST, LAST, keys=links, progress=start("report"))


def _unique(stats: PeriodStats) -> str:
    return f"{'' if stats.unique_is_exact else 'at most '}{stats.clicks_unique:,} unique"


def _print_steps(console: Console, steps: list[Step]) -> None:
    table = new_drawing()
    table.add_column("step")
    table.add_column("what")
    for name in ("requests", "429s", "retries", "time", "req/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("exact")
    for step in [*steps, _sum(steps)]:
        if step.name == "total":
            table.add_section()
        table.add_row(
            Text(step.name),
            step.found,
            f"{step.requests:,}",
            f"{step.throttled:,}",
            f"{step.retries:,}",
            f"{step.seconds:.1f} s",
            f"{step.requests / step.seconds:.0f}",
            _yes(step),
        )
    console.print(table)


def _sum(steps: list[Step]) -> Step:
    return Step(
        "total",
        sum(step.requests for step in steps),
        sum(step.throttled for step in steps),
        sum(step.retries for step in steps),
        sum(step.seconds for step in steps),
        wrong=[name for step in steps for name in step.wrong],
    )


def _yes(step: Step) -> Text:
    return Text("NO", "bold red") if step.wrong else Text("yes", "green")


def _print_verdicts(console: Console, steps: list[Step]) -> None:
    verdicts = Drawing.grid(padding=(0, 2, 0, 0))
    for step in steps:
        claim = Text(step.claim)
        if step.wrong:
            claim.append(f"; these differ: {', '.join(step.wrong)}", "bold red")
        verdicts.add_row(Text.assemble("exact: ", _yes(step)), Text(step.name), step.found, claim)
    console.print(verdicts)
