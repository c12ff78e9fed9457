"""Rows of a table, and paired measurements: all contenders take turns in each round of one run."""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter


@dataclasses.dataclass(frozen=True)
class Row:
    """Hold one line of the table; `goal` is a bound such as "<= 1.3", `figure` None what could not be run."""

    what: str
    figure: float | None
    unit: str = "x"
    goal: str | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Tell whether the figure, as it is printed, is within its goal."""
        if self.goal is None or self.figure is None:
            return None
        bound = float(self.goal.split()[1])
        figure = float(f"{self.figure:.3g}")
        return figure <= bound if self.goal.startswith("<=") else figure >= bound

    def told(self) -> dict[str, object]:
        """Give the row as JSON has it."""
        return {**dataclasses.asdict(self), "met": self.met}


@dataclasses.dataclass(frozen=True)
class Cost:
    """Hold the seconds that some work took: of the clock, and user + system of this process."""

    wall: float
    cpu: float


class Timer:
    """Measure a `with` block; the garbage of whoever came before is not counted."""

    cost: Cost

    def __enter__(self) -> Timer:
        gc.collect()
        self._began = perf_counter(), cpu()
        return self

    def __exit__(self, *_: object) -> None:
        wall, used = self._began
        self.cost = Cost(perf_counter() - wall, cpu() - used)


def cpu() -> float:
    """Tell the CPU seconds of this process, all its threads, so far."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def paired(
    contenders: Mapping[str, Callable[[], object]], rounds: int, warm: bool = True
) -> dict[str, list[Cost]]:
    """Let contenders take turns, each round in another order; `warm`: the first round does not count."""
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    names = list(contenders)
    for n in range(-1 if warm else 0, rounds):
        at = n % len(names)
        for name in names[at:] + names[:at]:
            with Timer() as timer:
                contenders[name]()
            if n >= 0:
                costs[name].append(timer.cost)
    return costs


def ratio(ours: Sequence[Cost], theirs: Sequence[Cost], of: str = "cpu") -> float:
    """Give the median of the ratios of each round."""
    return median(getattr(a, of) / getattr(b, of) for a, b in zip(ours, theirs, strict=True))


def middle(costs: Sequence[Cost], of: str = "cpu") -> float:
    """Give the median."""
    return median(getattr(cost, of) for cost in costs)


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Give the options that all scripts have."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", type=float, default=1.0, help="scale the work; goals hold at 1")
    made.add_argument("--rounds", type=int, default=0, help="rounds that the medians are taken of")
    made.add_argument("--json", action="store_true", help="print the rows as JSON")
    return made


def scaled(work: int, size: float, least: int = 1) -> int:
    """Scale a number of requests, pages or links."""
    return max(least, round(work * size))


def report(rows: Iterable[Row], as_json: bool) -> None:
    """Print rows as a table or as JSON."""
    found = list(rows)
    if as_json:
        print(json.dumps([row.told() for row in found]))
    else:
        print(table(found))


def table(rows: Sequence[Row]) -> str:
    """Set the rows in columns: what, figure, goal, met."""
    lines = [("what", "figure", "goal", "met")]
    for row in rows:
        told = "absent" if row.figure is None else f"{row.figure:#.3g} {row.unit}"
        lines.append((row.what, told, row.goal or "", {True: "yes", False: "NO", None: ""}[row.met]))
    what, figure, goal, met = (max(len(line[column]) for line in lines) for column in range(4))
    notes = ["", *(row.note for row in rows)]
    return "\n".join(
        f"{line[0]:{what}}  {line[1]:>{figure}}  {line[2]:>{goal}}  {line[3]:{met}}  {note}".rstrip()
        for line, note in zip(lines, notes, strict=True)
    )
