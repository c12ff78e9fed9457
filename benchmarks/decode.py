"""Measure what an answer costs once it is there: decoding it, and adding it to a running sum.

python benchmarks/decode.py [--size FACTOR] [--rounds N] [--json]

orjson decodes the same bytes into plain dicts and lists; a sum is told in decodes by orjson.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _server
from benchmarks._measure import Row, middle, paired, parser, ratio, report, scaled
from slashtag import DateRange, ShortUrl
from slashtag._core.call import Call
from slashtag._core.plan import empty_sum
from slashtag._core.response import parse
from slashtag._core.statistics_answers import RangeAnswer
from slashtag._core.windows import Window
from slashtag._records import Page

FIRST, LAST = date(2024, 1, 1), date(2024, 2, 1)
WINDOW = Window(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 2, 1, 23, 59, 59, tzinfo=UTC))


def _times(count: int, function: Callable[[], object]) -> None:
    for _ in range(count):
        function()


def rows(size: float, rounds: int) -> Iterator[Row]:
    """Measure both answers and the sum."""
    goals = {"decode a statistics answer / orjson": "<= 1.3", "decode a page of 500 / orjson": "<= 0.65"}
    merging = "add an answer to a sum / orjson decodes it"
    try:
        from orjson import loads
    except ImportError:
        for what, goal in [*goals.items(), (merging, None)]:
            yield Row(what, None, goal=goal, note="orjson not installed")
        return
    statistics, page = _server.statistics(FIRST, LAST), _server.page(1, 1)
    calls = {
        statistics: Call(method="GET", path="stats", returns=RangeAnswer),
        page: Call(method="GET", path="urls", returns=Page[ShortUrl]),
    }
    running = empty_sum(DateRange(FIRST, LAST), (FIRST, LAST))
    answer = parse(calls[statistics], 200, {}, statistics)
    many, few = scaled(3000, size, 10), scaled(100, size, 5)
    work = {
        "statistics": partial(_times, many, lambda: parse(calls[statistics], 200, {}, statistics)),
        "statistics by orjson": partial(_times, many, lambda: loads(statistics)),
        "sum": partial(_times, many, lambda: running.add(answer.to_statistics(WINDOW)[0])),
        "page": partial(_times, few, lambda: parse(calls[page], 200, {}, page)),
        "page by orjson": partial(_times, few, lambda: loads(page)),
    }
    costs = paired(work, rounds)
    found = (
        ratio(costs["statistics"], costs["statistics by orjson"]),
        ratio(costs["page"], costs["page by orjson"]),
    )
    for (what, goal), figure in zip(goals.items(), found, strict=True):
        yield Row(what, figure, goal=goal)
    took = 1e6 * middle(costs["sum"]) / many
    yield Row(merging, ratio(costs["sum"], costs["statistics by orjson"]), note=f"{took:.1f} us")


def main() -> None:
    options = parser(__doc__).parse_args()
    report(rows(options.size, options.rounds or 15), options.json)


if __name__ == "__main__":
    main()
