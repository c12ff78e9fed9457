"""The guard of conftest.py fails exactly the test that leaves something behind."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

KEEP = "asyncio.get_running_loop().kept = "
LEAKS = {
    "task left": KEEP + "asyncio.create_task(asyncio.sleep(60))",
    "connection left": KEEP + "await asyncio.start_server(print, '127.0.0.1', 0)",
    "never retrieved": KEEP + "None; asyncio.get_running_loop().create_future().set_exception(ValueError())",
    "Unclosed client session": "cycle = [aiohttp.ClientSession()]; cycle.append(cycle)",
}


@pytest.mark.parametrize("told", LEAKS)
def test_a_leak_fails_the_test_that_leaks(pytester: pytest.Pytester, told: str) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyprojecttoml("""
        [tool.pytest.ini_options]
        asyncio_mode = "auto"
        asyncio_default_fixture_loop_scope = "function"
        filterwarnings = ["error"]
    """)
    pytester.makepyfile(f"""
        import asyncio, aiohttp

        async def test_clean():
            async with aiohttp.ClientSession():
                await asyncio.create_task(asyncio.sleep(0))

        async def test_leaking():
            {LEAKS[told]}

        def test_sync():
            pass
    """)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leaking*", f"*{told}*"])
