"""Draw departures over time for four servers."""

from __future__ import annotations

from pathlib import Path

from slashtag._core.throttle.throttle import Throttle

from .cases import cases
from .simulate import CONCURRENCY, run

SHOWN = {
    "token bucket 5-200/s: 100/s, burst 20": "100 requests/s allowed",
    "the limit halves or doubles: 100/s, then 50/s, burst 20": "100, then 50 requests/s allowed",
    "at most K in flight: K = 8": "8 requests in flight allowed",
    "window of 60 s: fixed, 1000/60 s": "1,000 requests in 60 s allowed",
}
ACCEPTED, REJECTED = "accepted", "rejected (429)"


def draw(path: Path, seed: int) -> None:
    """Write a PNG with one panel a server: departures in each second, by what became of them."""
    import altair as alt

    panels = []
    for case in cases():
        title = SHOWN.get(f"{case.row}: {case.label}")
        if title is None:
            continue
        done = run(Throttle(CONCURRENCY), case.server(seed), case.requests, seed, keep=True)
        counts: dict[tuple[int, str], int] = {}
        for sent, status in done.log:
            key = int(sent), REJECTED if status == 429 else ACCEPTED
            counts[key] = counts.get(key, 0) + 1
        rows = [{"second": s, "answer": answer, "departures": n} for (s, answer), n in counts.items()]
        subtitle = f"{done.useful:,} requests in {done.time:.0f} s, {done.rejects:,} rejected"
        panels.append(
            alt.Chart(alt.Data(values=rows), title=alt.Title(title, subtitle=subtitle, anchor="start"))
            .mark_bar(size=max(1.2, 400 / max(done.time, 1)))
            .encode(
                x=alt.X("second:Q", title="seconds", scale=alt.Scale(nice=False)),
                y=alt.Y("departures:Q", title="departures a second", stack=True),
                color=alt.Color(
                    "answer:N",
                    title=None,
                    scale=alt.Scale(domain=[ACCEPTED, REJECTED], range=["#3b75af", "#d1495b"]),
                    legend=alt.Legend(orient="bottom"),
                ),
                order=alt.Order("answer:N"),
            )
            .properties(width=440, height=170)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart = alt.concat(*panels, columns=2, spacing=28).configure_view(stroke=None)
    chart.configure_axis(grid=True, gridOpacity=0.4).save(path, scale_factor=2)
