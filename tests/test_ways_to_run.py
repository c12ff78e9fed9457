"""The same job under every kind of event loop and interpreter that users run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = Path(__file__).parent / "support" / "scenario.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, encoding="utf-8", check=False, timeout=100
    )


@pytest.mark.parametrize(
    ("options", "loop"),
    [
        pytest.param([], "plain", id="asyncio"),
        *([pytest.param([], "eager", id="eager tasks")] if sys.version_info >= (3, 12) else []),
        pytest.param(["-X", "dev", "-W", "error"], "debug", id="debug mode"),
        pytest.param(["-OO"], "plain", id="without docstrings and assertions"),
        pytest.param([], "uvloop", id="uvloop"),
    ],
)
def test_a_job_with_a_bit_of_everything(options: list[str], loop: str) -> None:
    ran = run(*options, str(SCENARIO), loop)
    assert (ran.stdout, ran.stderr) == ("all so\n", "")
