"""What is released: the wheel, the sdist, and what they depend on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

from .tools import BIN, ROOT, WORK, clean_venv, dist, run

PLUGIN_TEST = """
    async def test_reads_links(slashtag_session, slashtag_sandbox):
        links = await slashtag_session.urls.list().to_list()
        assert len(links) > 0
        assert slashtag_sandbox.requests
"""
HEAVY = """
    import sys, slashtag, slashtag.sandbox
    slashtag.AsyncSession
    assert not {"typer", "pyarrow", "altair"} & sys.modules.keys()
"""


def empty(name: str) -> Path:
    """Return an empty folder."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def prove_wheel() -> str:
    """Build and check; install the wheel alone, without extras, and type the lines of the documentation."""
    files = dist()
    checked = run("twine", "check", "--strict", *files)
    assert checked.count("PASSED") == 2, checked
    python = clean_venv("wheel-venv", files[0])
    run(python, "-I", "-c", textwrap.dedent(HEAVY))
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    lines = re.findall(r"^```python\n(.*?)^```", index, re.M | re.S)[0]
    typed = subprocess.run(
        [python, "-m", "asyncio"], input=lines, capture_output=True, text=True, check=True, cwd=empty("tour")
    )
    (seen,) = re.findall(r"300 links, \d+ clicks; .+", typed.stdout)
    listed = run(python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")
    sizes = ", ".join(f"{file.name} {file.stat().st_size // 1024} kB" for file in files)
    return (
        f"{sizes}: twine passed both; in an environment of {len(json.loads(listed))} packages "
        f"{sum(map(bool, lines.splitlines()))} lines typed, seen: {seen}"
    )


def prove_plugin() -> str:
    """Run a test of somebody else's project with the fixtures of the wheel, slashtag and pytest installed."""
    python = clean_venv("plugin-venv", dist()[0], "pytest", "pytest-asyncio")
    project = empty("outside")
    (project / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    (project / "test_outside.py").write_text(textwrap.dedent(PLUGIN_TEST))
    printed = run(python, "-m", "pytest", "-q", cwd=project)
    assert "1 passed" in printed, printed
    return printed.strip().splitlines()[-1]


def prove_sdist() -> str:
    """Run a part of the tests from the unpacked sdist, as whoever packages it does."""
    folder = empty("sdist")
    with tarfile.open(dist()[1]) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    printed = run("make", "test", f"PYTHON={sys.executable}", "ARGS=--part 0/8", cwd=unpacked)
    (passed,) = re.findall(r"\d+ passed.* in [\d.]+ ?s", printed)
    return f"from {unpacked.name}: {passed}"


def prove_audit() -> str:
    """Compare what the wheel depends on with the database of known faults."""
    python = clean_venv("audit-venv", dist()[0])
    run(python, "-m", "pip", "uninstall", "-qq", "-y", "slashtag", "pip")  # neither is a dependency
    (packages,) = (WORK / "audit-venv").glob("lib/python*/site-packages")
    options = ("--progress-spinner", "off", "--format", "json")
    audited = subprocess.run(
        [BIN / "pip-audit", *options, "--path", packages], capture_output=True, text=True, check=False
    )
    if not audited.stdout:
        return f"the database cannot be reached from here: {audited.stderr.strip().splitlines()[-1]}"
    found = json.loads(audited.stdout)["dependencies"]
    known = [package for package in found if "vulns" in package]
    if not known:
        return f"the database cannot be reached from here: it knows none of {len(found)} packages"
    faults = [f"{package['name']} {fault['id']}" for package in known for fault in package["vulns"]]
    assert not faults, faults
    return f"{len(known)} of {len(found)} packages known, {len(faults)} faults"
