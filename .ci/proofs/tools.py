"""Where the proofs work, and how they run other programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "proof"
BIN = WORK / "venv" / "bin"
# What each proof needs beside the package. The one of .ci/run is pinned: it must not fail for a new release.
TOOLS = {
    "schemathesis": ["schemathesis==4.32.5"],
    "prism": [],
    "client": ["openapi-python-client", "httpx"],
    "files": ["polars", "pandas", "duckdb", "-e", f"{ROOT}[cli,parquet]"],
    "wheel": ["build", "twine"],
    "plugin": ["build"],
    "sdist": ["build"],
    "audit": ["build", "pip-audit"],
}


def run(*command: object, cwd: Path = WORK, check: bool = True, **variables: str) -> str:
    """Run a command and return what it printed; print that if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check and done.returncode:
        sys.exit(f"{done.stdout[-8_000:]}\n{' '.join(map(str, command))} failed")
    return done.stdout


@cache
def dist() -> tuple[Path, Path]:
    """Build the wheel and the sdist, once, and return them."""
    folder = WORK / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    run(BIN / "python", "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def clean_venv(name: str, *packages: object) -> Path:
    """Make an environment with these packages, and return its Python."""
    shutil.rmtree(WORK / name, ignore_errors=True)
    run(sys.executable, "-m", "venv", WORK / name)
    python = WORK / name / "bin" / "python"
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages)
    return python
