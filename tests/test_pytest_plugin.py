"""The fixtures that come with the package work in other people's tests, under either async plugin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import python

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
IN_ONE_LOOP = """
    import pytest

    pytestmark = pytest.mark.asyncio

    @pytest.mark.parametrize("n", range(2))
    async def test_page(slashtag_session, n):
        assert (await slashtag_session.urls.page(1)).items
"""
USES_OPTIONS = """
    import pytest
    from slashtag import RetryPolicy, ServerError
    from slashtag.sandbox import Fault

    pytestmark = pytest.mark.asyncio

    @pytest.mark.parametrize("slashtag_session_options", [{"retry": RetryPolicy(max_attempts=2)}])
    async def test_two_attempts(slashtag_session, slashtag_sandbox):
        slashtag_sandbox.faults = [Fault(kind="500")]
        with pytest.raises(ServerError) as failed:
            await slashtag_session.urls.page(1)
        assert failed.value.attempts == len(slashtag_sandbox.requests) == 2

    async def test_as_usual(slashtag_session, slashtag_sandbox):
        slashtag_sandbox.latency = 0.001
        slashtag_sandbox.faults = [Fault(kind="500", times=2)]
        assert (await slashtag_session.urls.page(1)).items
        assert len(slashtag_sandbox.requests) == 3
"""
#: The package is imported by the fixtures only, after the clock was frozen.
FROZEN = """
    import json
    from datetime import date
    import pytest
    import time_machine
    from freezegun import freeze_time

    WAYS = {
        "freezegun": freeze_time("2024-06-15 12:00"),
        "real_asyncio": freeze_time("2024-06-15 12:00", real_asyncio=True),
        "travel": time_machine.travel("2024-06-15 12:00+0000"),
        "frozen": time_machine.travel("2024-06-15 12:00+0000", tick=False),
    }

    @pytest.fixture(autouse=True, params=WAYS)
    def frozen(request):
        with WAYS[request.param]:
            yield

    @pytest.mark.asyncio
    async def test_last_days(slashtag_session, slashtag_sandbox):
        from slashtag import DateRange

        days = DateRange.last(30)
        stats = await slashtag_session.stats.collect(days, keys=slashtag_session.urls.list())
        truth = slashtag_sandbox.truth.range("2024-05-17", "2024-06-15")
        assert (stats.clicks, list(stats.clicks)[-1]) == (truth.clicks, date(2024, 6, 15))
        assert list(stats.to_dict()["clicks"])[-1] == "2024-06-15"
        links = await slashtag_session.urls.list().to_list()
        assert json.loads(json.dumps(links[0].to_dict()))["created_at"]
        each = await slashtag_session.stats.collect_each(days, keys=links).to_dict()
        assert sum(stats.total for stats in each.values()) == truth.total_clicks
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


def test_the_loop_of_all_tests_may_be_a_setting(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(IN_ONE_LOOP)
    scopes = [f"asyncio_default_{of}_loop_scope=session" for of in ("test", "fixture")]
    options = ("-o", "asyncio_mode=strict", "-o", scopes[0], "-o", scopes[1])
    pytester.runpytest_inprocess(*QUIET, *options).assert_outcomes(passed=2)


def test_the_session_has_the_options_of_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USES_OPTIONS)
    pytester.runpytest_inprocess(*QUIET, *STRICT_ASYNCIO).assert_outcomes(passed=2)


def test_the_session_works_while_the_clock_is_frozen(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(FROZEN)
    run = python("-m", "pytest", *QUIET, *STRICT_ASYNCIO, path)
    assert run.returncode == 0, run.stdout
    assert "4 passed" in run.stdout


def test_the_session_works_where_pytest_asyncio_is_not_installed(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(ON_ASYNCIO)
    pytester.makepyfile(USES_SESSION.replace("{mark}", "anyio"))
    run = python("-c", WITHOUT_PYTEST_ASYNCIO, *QUIET, "-p", "no:asyncio", pytester.path)
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout
