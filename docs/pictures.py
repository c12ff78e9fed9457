"""Draw the pictures of the documentation: python docs/pictures.py. Run it after a change of speed.md too."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import altair as alt
from rich.console import Console
from rich.text import Text

from slashtag import AsyncSession
from slashtag.report import build
from slashtag.sandbox import Sandbox

DOCS = Path(__file__).parent


async def draw_report() -> None:
    async with (
        Sandbox(urls=1_000, clicks=80_000) as box,
        AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session,
    ):
        report = await build(session, "2024-01-01", "2024-12-31")
    (DOCS / "report.png").write_bytes(report.to_png(scale=1))


def draw_demo() -> None:
    command = [Path(sys.executable).with_name("slashtag"), "demo"]
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run(  # noqa: S603
            command,
            cwd=folder,
            env=os.environ | {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm-256color"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        ).stdout
    console = Console(record=True, width=80, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi(f"$ slashtag demo\n{printed.rstrip()}\n"))
    svg = console.export_svg(title="slashtag demo", unique_id="demo")
    # Its fonts would be loaded from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.S)
    (DOCS / "demo.svg").write_text(re.sub("[ \t]+$", "", svg, flags=re.M), "utf-8")


def draw_speed() -> None:
    speed = (DOCS / "speed.md").read_text("utf-8")
    table = re.findall(r"^\| (slashtag.* in flight.*?) \| ([\d.]+) x \|", speed, re.M)
    rows = [{"row": row, "times": float(times)} for row, times in table if "wrk" not in row]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=400, ticks=False, domain=False)),
        x=alt.X("times:Q", title="CPU time, slashtag / other", scale=alt.Scale(domain=[0, 1.2])),
    )
    bars = base.mark_bar(color="#3451d1", height=14)
    text = base.mark_text(align="left", dx=4).encode(text=alt.Text("times:Q", format=".2f"))
    rule = alt.Chart(alt.Data(values=[{"times": 1}])).mark_rule(strokeDash=[4, 4]).encode(x="times:Q")
    chart = (bars + text + rule).properties(width=460, padding=16, background="white")
    chart.configure_view(stroke=None).save(DOCS / "speed.png", scale_factor=1.5)


if __name__ == "__main__":
    asyncio.run(draw_report())
    draw_demo()
    draw_speed()
