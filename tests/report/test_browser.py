"""The page in a browser: a silent console, which would tell of requests; it fits any screen."""

from __future__ import annotations

import json
import os
import re
import shutil
from html import escape, unescape
from pathlib import Path

import pytest
from msgspec.structs import replace

from slashtag.report import to_html
from tests.report.figures import HOSTILE, Seen, report
from tests.support.processes import run

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Nothing leaves this machine, whatever the browser has to ask on its own.
    *("--proxy-server=http://127.0.0.1:1", "--proxy-bypass-list=<-loopback>"),
    *("--enable-logging=stderr", "--disable-dev-shm-usage", "--force-device-scale-factor=1"),
]
DIMENSIONS = ("country", "referrer", "device", "browser", "platform", "tag", "destination")
NUMBERED = [f"www.example.com/landing/{n}/summer{10**6 + n}?id={n}" for n in range(3_250, 3_254)]


@pytest.fixture
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        assert not os.environ.get("CI"), "CI must have chromium"
        pytest.skip("there is no chromium on this machine")
    return found


@pytest.fixture(scope="module")
def page() -> str:
    counts = {name: 10_000 - 900 * n for n, name in enumerate([*HOSTILE, *NUMBERED])}
    clicks = [(n * n * 37) % 4_000 for n in range(92)]
    return to_html(
        replace(report(clicks, top=HOSTILE, **dict.fromkeys(DIMENSIONS, counts)), title=HOSTILE[1])
    )


def browse(chromium: str, folder: Path, html: str, *flags: str) -> tuple[str, list[str]]:
    """Open a page; return its elements as they end up, and the lines on its console."""
    file = folder / "page.html"
    file.write_text(html, "utf-8")
    ended = run(
        *(chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, file.as_uri()),
        errors="replace",
        check=True,
    )
    return ended.stdout, re.findall(r"CONSOLE.*", ended.stderr)


def test_a_page_is_silent_and_runs_nothing(chromium: str, tmp_path: Path, page: str) -> None:
    shown, console = browse(chromium, tmp_path, page, "--dump-dom")
    assert console == []
    # A browser reads the page as it was written: no label has become an element.
    before, after = Seen(page), Seen(shown)
    assert after.figure("total") == before.figure("total")
    assert all(after.counts(name) == before.counts(name) for name in DIMENSIONS)
    assert after.root.all("script") == after.root.all("img") == []
    assert len(after.root.all("bdi")) == len(before.root.all("bdi"))


WIDTHS = [320, 375, 390, 640, 641, 768, 1000, 1001, 1280]
MEASURE = """<!DOCTYPE html><body><output></output>
<iframe srcdoc="{page}" style="height: 900px; border: 0"></iframe>
<script>
const frame = document.querySelector("iframe"), found = {{}};
frame.onload = () => {{
    const page = frame.contentDocument;
    for (const width of {widths}) {{
        frame.style.width = width + "px";
        const wide = [...page.querySelectorAll("body *")].filter((element) =>
            !element.closest("svg svg, .sr") && element.getBoundingClientRect().right > width + 0.5);
        const chart = [...page.querySelectorAll(".chart")].find((one) => one.getClientRects().length);
        const text = chart.querySelector("text");
        found[width] = {{
            scroll: page.documentElement.scrollWidth,
            beyond: wide.map((element) => element.tagName + "." + element.className),
            letters: text.getBoundingClientRect().height,
            charts: [...page.querySelectorAll(".chart")].filter((one) => one.getClientRects().length).length,
        }};
    }}
    document.querySelector("output").textContent = JSON.stringify(found);
}};
</script>"""


def test_a_page_is_as_wide_as_the_screen_and_its_charts_can_be_read(
    chromium: str, tmp_path: Path, page: str
) -> None:
    html = MEASURE.format(page=escape(page), widths=WIDTHS)
    shown, _ = browse(chromium, tmp_path, html, "--dump-dom", "--window-size=1400,1000")
    output = re.search(r"<output>(.*?)</output>", shown)
    assert output is not None
    found = json.loads(unescape(output[1]))
    for width in WIDTHS:
        assert found[str(width)]["beyond"] == [], width
        assert found[str(width)]["scroll"] <= width, width
        assert found[str(width)]["charts"] == 1, width
        assert 8 <= found[str(width)]["letters"] <= 26, width


def test_a_page_is_printed_on_few_sheets(chromium: str, tmp_path: Path) -> None:
    counts = {f"label {n}": 900 - 20 * n for n in range(20)}
    found = report(
        [100 + n % 30 for n in range(92)], top=list(counts)[:10], **dict.fromkeys(DIMENSIONS, counts)
    )
    sheets = tmp_path / "report.pdf"
    browse(chromium, tmp_path, to_html(found), f"--print-to-pdf={sheets}", "--no-pdf-header-footer")
    assert len(re.findall(rb"/Type\s*/Page\b", sheets.read_bytes())) <= 3
