"""Run all benchmarks and print one table: what, figure, goal, met.

python -m benchmarks [--size FACTOR] [--rounds N] [--only NAME] [--json]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._measure import Row, parser, report

HERE = Path(__file__).parent
SCRIPTS = ("request", "listing", "each", "memory", "startup", "loads")


def run(script: str, options: list[str]) -> Any:
    """Run a script in a process of its own, which is quiet but for what it prints as JSON."""
    command = [sys.executable, str(HERE / f"{script}.py"), "--json", *options]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(told.stdout)


def measure(size: float, rounds: int, only: str) -> Iterator[Row]:
    """Run one script after the other; one that fails is a row without a figure."""
    for script in SCRIPTS:
        if only not in script:
            continue
        try:
            options = ["--size", str(size), *(["--rounds", str(rounds)] if rounds else [])]
            for told in run(script, options):
                told.pop("met")
                yield Row(**told)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            yield Row(f"{script}.py", None, goal="<= 0", note=f"does not run: {error}")


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--only", default="", help="scripts whose name contains this")
    options = made.parse_args()
    rows = list(measure(options.size, options.rounds, options.only))
    report(rows, options.json)
    missed = sum(row.met is False for row in rows)
    print(f"{missed} of {sum(row.met is not None for row in rows)} goals missed", file=sys.stderr)
    return 1 if missed and options.size == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
