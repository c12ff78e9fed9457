"""Draw the pictures of the documentation: python docs/pictures.py. Run it after a change of speed.md too."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import vl_convert
from rich.console import Console
from rich.text import Text

from slashtag import AsyncSession, DateRange
from slashtag.report import build
from slashtag.sandbox import Sandbox

DOCS = Path(__file__).parent


async def draw_report() -> None:
    # Many machines have no font for the names of further tags.
    async with (
        Sandbox(urls=1_000, clicks=80_000, tags=12) as box,
        AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session,
    ):
        report = await build(session, DateRange.parse("2024"))
    (DOCS / "report.png").write_bytes(report.to_png(scale=1))


def draw_demo() -> None:
    command = [sys.executable, DOCS.parent / "examples" / "demo.py"]
    printed = subprocess.run(  # noqa: S603
        command,
        env=os.environ | {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    ).stdout
    console = Console(record=True, width=80, file=open(os.devnull, "w"))  # noqa: SIM115
    text = Text.from_ansi(f"$ make demo\n{printed.rstrip()}\n")
    # Styled, wide characters have a place of their own; otherwise they would move the rest of the line.
    text.highlight_regex("[\u2e80-\uffff]", "not dim")
    console.print(text)
    svg = console.export_svg(title="make demo", unique_id="demo")
    # Its fonts would be loaded from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.S)
    (DOCS / "demo.svg").write_text(re.sub("[ \t]+$", "", svg, flags=re.M), "utf-8")


def draw_speed() -> None:
    speed = (DOCS / "speed.md").read_text("utf-8")
    table = re.findall(r"^\| (slashtag.* in flight.*?) \| ([\d.]+) x \|", speed, re.M)
    rows = [{"row": row, "times": float(times)} for row, times in table if "wrk" not in row]
    row = {"field": "row", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 400}}
    times = {"field": "times", "type": "quantitative", "title": "CPU time, slashtag / other"}
    bars = {"mark": {"type": "bar", "color": "#3451d1", "height": 14}, "encoding": {"y": row, "x": times}}
    figures = {"field": "times", "format": ".2f"}
    texts = {
        "mark": {"type": "text", "align": "left", "dx": 4},
        "encoding": {"y": row, "x": times, "text": figures},
    }
    rule = {"mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": {"x": {"datum": 1}}}
    chart = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": rows},
        "layer": [bars, texts, rule],
        "width": 460,
        "padding": 16,
        "background": "white",
    }
    (DOCS / "speed.png").write_bytes(vl_convert.vegalite_to_png(chart, scale=1.5))


if __name__ == "__main__":
    asyncio.run(draw_report())
    draw_demo()
    draw_speed()
