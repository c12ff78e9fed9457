"""The same job under every kind of event loop and interpreter that users run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .support.processes import python

SCENARIO = Path(__file__).parent / "support" / "scenario.py"


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
    ran = python(*options, SCENARIO, loop)
    assert (ran.stdout, ran.stderr) == ("all so\n", "")
