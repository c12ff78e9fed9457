"""The fixtures that come with the package work in other people's tests, under either async plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["pytester"]

QUIET = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest", "-W", "error")
STRICT_ASYNCIO = ("-o", "asyncio_mode=strict", "-o", "asyncio_default_fixture_loop_scope=function")

USES_SANDBOX = """
    from urllib.request import Request, urlopen

    def test_sandbox(slashtag_sandbox):
        box = slashtag_sandbox
        headers = {"apikey": box.apikey, "apisecret": box.apisecret}
        assert urlopen(Request(f"{box.base_url}/api/v1/urls?page=1", headers=headers)).status == 200
        assert [arrival.status for arrival in box.requests] == [200]

    def test_is_fresh(slashtag_sandbox):
        assert slashtag_sandbox.requests == []
        assert len(slashtag_sandbox.truth.urls()) == 100
"""
USES_SESSION = """
    import pytest

    pytestmark = pytest.mark.{mark}

    async def test_session(slashtag_session, slashtag_sandbox):
        links = await slashtag_session.urls.list().to_list()
        assert [link.slashtag for link in links] == [link.slashtag for link in slashtag_sandbox.truth.urls()]
"""
ON_ASYNCIO = """
    import pytest

    @pytest.fixture
    def anyio_backend():
        return "asyncio"
"""
WITHOUT_PYTEST_ASYNCIO = """
import sys
from importlib.machinery import PathFinder
class Find:
    find = PathFinder.find_spec
    def __call__(self, name, *more):
        return None if name.startswith("pytest_asyncio") else self.find(name, *more)
PathFinder.find_spec = Find()
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def _finds_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep an import path that is relative to the project valid in pytester's folder."""
    monkeypatch.setattr(sys, "path", [str(Path(entry).resolve()) for entry in sys.path])


def test_the_sandbox_runs_for_one_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USES_SANDBOX)
    pytester.runpytest_inprocess(*QUIET, *STRICT_ASYNCIO).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("asyncio", STRICT_ASYNCIO),
        ("anyio", STRICT_ASYNCIO),
        ("anyio", ("-p", "no:asyncio")),
        ("asyncio", (*STRICT_ASYNCIO, "-p", "no:anyio")),
    ],
)
def test_the_session_works_under_either_plugin(
    pytester: pytest.Pytester, mark: str, options: tuple[str, ...]
) -> None:
    pytester.makeconftest(ON_ASYNCIO)
    pytester.makepyfile(USES_SESSION.replace("{mark}", mark))
    pytester.runpytest_inprocess(*QUIET, *options).assert_outcomes(passed=1)


def test_the_session_works_where_pytest_asyncio_is_not_installed(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(ON_ASYNCIO)
    pytester.makepyfile(USES_SESSION.replace("{mark}", "anyio"))
    run = _python("-c", WITHOUT_PYTEST_ASYNCIO, *QUIET, "-p", "no:asyncio", str(pytester.path))
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def _python(*arguments: str) -> Any:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
