"""The same job under every kind of event loop and interpreter that users run, and where files run out."""

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


WITHOUT_FILES = """
import asyncio, resource
from slashtag import AsyncSession, TransportError

async def main():
    async with AsyncSession("http://127.0.0.1:9", apikey="k" * 24, apisecret="s" * 16) as session:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        # As many as are open: not one more.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            await session.urls.page(1)
        except TransportError as error:
            print(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

asyncio.run(main())
"""


def test_out_of_file_descriptors_it_says_what_to_raise() -> None:
    ran = run("-c", WITHOUT_FILES)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "ulimit -n" in ran.stdout
