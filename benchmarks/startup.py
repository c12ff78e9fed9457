"""Measure what importing costs, and what the command line needs to start.

python benchmarks/startup.py [--rounds N] [--json]

Times of imports are those of `python -X importtime`; the commands are compared by the CPU of their processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._measure import Row, parser, report, scaled

HEAVY = ("pyarrow", "altair", "distributed")


def imported(statement: str, env: dict[str, str]) -> tuple[float, list[str]]:
    """Return the milliseconds that an import takes, and all modules that came with it."""
    command = [sys.executable, "-X", "importtime", "-c", statement]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stderr.splitlines()
    # "import time: self [us] | cumulative | imported package", under a heading.
    lines = [line.removeprefix("import time:").split("|") for line in told if line.startswith("import time:")]
    at_start = [name.strip() for _, _, name in lines].index("site")
    return sum(int(alone) for alone, _, _ in lines[at_start + 1 :]) / 1000, [
        name.strip() for _, _, name in lines
    ]


def cpu_of(command: list[str], env: dict[str, str]) -> float:
    """Return the CPU seconds of a command."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True, env=env)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def with_bytecode() -> Iterator[dict[str, str]]:
    """Give an environment in which modules are compiled once, as they are where packages are installed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        yield {**env, "PYTHONPYCACHEPREFIX": folder}


def rows(rounds: int, env: dict[str, str]) -> Iterator[Row]:
    """Measure in turns."""
    times = list[tuple[float, float]]()
    names = list[str]()
    for _ in range(rounds + 1):
        # Names come at their first use, so `import slashtag` alone would tell too little.
        ours, names = imported("from slashtag import AsyncSession", env)
        times.append((ours, imported("import aiohttp", env)[0]))
    # The least of each: whatever else the machine does only ever adds.
    least, aiohttp = map(min, zip(*times, strict=True))
    note = f"{least:.0f} and {aiohttp:.0f} ms"
    yield Row("import AsyncSession: more than import aiohttp", least - aiohttp, "ms", "<= 60", note)
    heavy = [name for name in names if name.split(".")[0] in HEAVY]
    yield Row(f"modules of {', '.join(HEAVY)} imported with it", len(heavy), "", "<= 0")
    what, goal = "slashtag --help / import aiohttp, typer, rich", "<= 1.5"
    command = Path(sys.executable).with_name("slashtag")
    plain = [sys.executable, "-c", "import aiohttp, typer, rich"]
    try:
        ratios = [cpu_of([str(command), "--help"], env) / cpu_of(plain, env) for _ in range(rounds + 1)]
    except (OSError, subprocess.CalledProcessError) as error:
        yield Row(what, None, goal=goal, note=f"does not run: {type(error).__name__}")
    else:
        yield Row(what, median(ratios[1:]), goal=goal)


def main() -> None:
    options = parser(__doc__).parse_args()
    rounds = options.rounds or scaled(11, min(1.0, options.size))
    with with_bytecode() as env:
        report(rows(rounds, env), options.json)


if __name__ == "__main__":
    main()
