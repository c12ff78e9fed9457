"""Draw the rows of a run as a chart of how far each is within its goal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks._measure import Row


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG file: one bar a row, its length the share of the goal that is used up."""
    import altair

    told = [
        {
            "what": row.what,
            "used": _used(row),
            "goal": "met" if row.met else "not met",
            "figure": _figure(row),
        }
        for row in rows
        if row.met is not None
    ]
    base = altair.Chart(altair.Data(values=told)).encode(
        x=altair.X("used:Q", title="share of the goal used up (left of the line: met)").scale(clamp=True),
        y=altair.Y("what:N", sort=None, title=None, axis=altair.Axis(labelLimit=480)),
    )
    bars = base.mark_bar().encode(
        color=altair.Color("goal:N", title=None).scale(
            domain=["met", "not met"], range=["#4c78a8", "#e45756"]
        )
    )
    texts = base.mark_text(align="left", dx=4).encode(text="figure:N")
    line = altair.Chart(altair.Data(values=[{"x": 1}])).mark_rule(strokeDash=[4, 3]).encode(x="x:Q")
    chart = (bars + texts + line).properties(width=480, title="slashtag: what was measured, beside its goals")
    chart.save(str(path), scale_factor=2)


def _used(row: Row) -> float:
    assert row.goal is not None
    assert row.figure is not None
    bound = float(row.goal.split()[1])
    if row.goal.startswith(">="):
        return bound / row.figure if row.figure else 0.0
    if not bound:
        return row.figure
    return max(0.0, row.figure / bound)


def _figure(row: Row) -> str:
    return f"{row.figure:.3g} {row.unit} ({row.goal})"
