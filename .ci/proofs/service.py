"""The sandbox and the client against tools that know only the description of the service."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections import Counter

from .tools import ROOT, WORK, run

CASES = 50
# JSON, which YAML includes.
OPENAPI = ROOT / "src" / "slashtag" / "sandbox" / "openapi.json"

# What OpenAPI cannot say: parameters that depend on each other, on the account or on the calendar. A request
# that conforms to the description and gets another 400 is a failure.
HOOKS = """
import json, re, schemathesis
from pathlib import Path
from urllib.parse import urlencode

EXCUSED = re.compile(
    "Tag does not exists|Tag and URL keys both can not be empty|Date is required|Date format is incorrect|"
    "Date range must not end before|Date range can be at most|End date must not be before|constraint failed"
)

# A longer request target is refused with 414, before the API sees it.
@schemathesis.hook
def filter_case(ctx, case):
    return len(urlencode(case.query or {}, doseq=True)) < 7_000

@schemathesis.check
def accepts_what_conforms(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    message = response.json()["message"]
    found = EXCUSED.search(message)
    assert found, f"conforms, but was refused: {message}"
    with Path("excused.txt").open("a") as file:
        file.write(found[0] + "\\n")
"""


def prove_schemathesis() -> str:
    """Let schemathesis make up requests: valid ones are accepted, others refused, answers conform."""
    from slashtag.sandbox import Sandbox

    (WORK / "hooks.py").write_text(HOOKS)
    excused = WORK / "excused.txt"
    excused.write_text("")
    with Sandbox(urls=50, clicks=2_000, tags=5, max_tags=10**6) as box:
        printed = run(
            *("schemathesis", "run", f"{box.base_url}/openapi.json", "--url", f"{box.base_url}/api/v1"),
            *("-H", f"apikey: {box.apikey}", "-H", f"apisecret: {box.apisecret}"),
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance,unsupported_method"),
            "--no-color",
            *("--max-examples", CASES, "--seed", 1, "--continue-on-failure"),
            SCHEMATHESIS_HOOKS="hooks",
            PYTHONPATH=str(WORK),
        )
        statuses = Counter(request.status for request in box.requests)
    assert statuses[500] == 0, statuses
    lines = [line.strip() for line in printed.splitlines() if "generated" in line or "Tested" in line]
    shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    count = len(excused.read_text().splitlines())
    return f"{'; '.join(lines)}; by status {shown}; {count} refused by rules that OpenAPI cannot express"


async def _through_prism(base_url: str, box: object) -> None:
    from slashtag import AllTime, AsyncSession, CountryGeo, DateRange, Day, Year

    odd = ["a b", "ä/ö", "50%", "#1", "?x", "日本", "a+b", "'", "~"]
    account = {"apikey": box.apikey, "apisecret": box.apisecret}
    async with AsyncSession(base_url, **account) as session:
        for order in ("date", "-date"):
            links = await session.urls.list(orderby=order, pagesize=7).to_list()
            await session.tags.list(orderby=order, pagesize=3).to_list()
        for slashtag in odd:
            await session.urls.update(
                slashtag, destination="https://example.com/%C3%A4?b=c&d", redirect_code=302
            )
        for link in links[:20]:
            await session.urls.update(link.id, password="sécret")
        for number in range(10):
            await session.tags.create(f"new tag {number} ✓", description="'\"%")
        keys = [*odd, *(f"{'long-' * 10}{n}" for n in range(300)), *(link.slashtag for link in links)]
        for zone in ("+05:45", "-09:30", "Europe/Berlin", "+14:00"):
            days = DateRange("2023-01-01", "2024-12-31")
            await session.stats.collect(days, keys=keys, timezone=zone)
        for query in (Year(2024), AllTime(), CountryGeo("us", "2024-01-01", "2024-12-31"), Day("2024-02-29")):
            await session.stats.collect(query, keys=odd)
            await session.stats.collect(query, tag="newsletter")


def prove_prism() -> str:
    """Send the requests of a session through Prism, which refuses what does not conform."""
    from slashtag.sandbox import Sandbox

    if not shutil.which("npm"):
        return "left out: there is no npm"
    prism = WORK / "node_modules" / ".bin" / "prism"
    if not prism.exists():
        run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", WORK, "@stoplight/prism-cli")
    document = json.loads(OPENAPI.read_bytes())
    # Prism takes paths from the root of the server that it stands before.
    del document["servers"]
    document["paths"] = {f"/api/v1{path}": methods for path, methods in document["paths"].items()}
    (WORK / "prism.json").write_text(json.dumps(document))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Sandbox(urls=60, clicks=3_000, tags=9) as box, (WORK / "prism.log").open("w") as log:
        for slashtag in ("a b", "ä/ö", "50%", "#1", "?x", "日本", "a+b", "'", "~"):
            box.add_url(slashtag)
        process = subprocess.Popen(
            [prism, "proxy", "prism.json", box.base_url, "--errors", "--port", str(port)],
            cwd=WORK,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for line in process.stdout:
                if "is listening" in line:
                    break
            asyncio.run(_drain_while(process, log, _through_prism(f"http://127.0.0.1:{port}", box)))
        finally:
            process.terminate()
            process.wait()
        violations = (WORK / "prism.log").read_text().count("Violation")
        count = len(box.requests)
    assert count >= 200, count
    assert violations == 0, f"{violations} violations, see {WORK / 'prism.log'}"
    return f"{count} requests, {violations} violations"


async def _drain_while(process: object, log: object, work: object) -> None:
    """Copy what a process prints, so that its pipe does not fill up, until the work is done."""
    copying = asyncio.get_running_loop().run_in_executor(
        None, lambda: shutil.copyfileobj(process.stdout, log)
    )
    try:
        await work
    finally:
        process.terminate()
        await copying


def prove_client() -> str:
    """Read the sandbox with a client that openapi-python-client generates."""
    from slashtag.sandbox import Sandbox

    (WORK / "openapi.json").write_bytes(OPENAPI.read_bytes())
    printed = run(
        "openapi-python-client",
        "generate",
        "--path",
        "openapi.json",
        "--output-path",
        "generated",
        "--overwrite",
    )
    warnings = printed.lower().count("warning")
    sys.path.insert(0, str(WORK / "generated"))
    from url_shortener_client import Client
    from url_shortener_client.api.statistics import year_statistics
    from url_shortener_client.api.tags import list_tags
    from url_shortener_client.api.ur_ls import list_urls

    with Sandbox(urls=120, clicks=3_000, tags=9) as box:
        headers = {"apikey": box.apikey, "apisecret": box.apisecret}
        client = Client(base_url=f"{box.base_url}/api/v1", headers=headers)
        pages = [list_urls.sync(client=client, page=page, pagesize=50).data.items for page in (1, 2, 3)]
        links = [link for page in pages for link in page]
        tags = list_tags.sync(client=client).data.items
        keys = [link.slashtag for link in links]
        # The generator ignores "explode": a list would become a parameter for each key.
        clicks = sum(
            year_statistics.sync(
                client=client, url_keys=[",".join(keys[at : at + 100])], year="2024"
            ).data.clicks_total
            for at in (0, 100)
        )
        counted = box.truth.range("2024-01-01", "2024-12-31").total_clicks
    assert (len(links), len(tags), clicks) == (120, 9, counted), (len(links), len(tags), clicks, counted)
    return (
        f"{len(links)} links, {len(tags)} tags, {clicks} clicks of 2024; {warnings} warnings of the generator"
    )
