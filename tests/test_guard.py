"""The guard of conftest.py fails exactly the test that leaves something behind."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

KEEP = "asyncio.get_running_loop().kept = "
LEAKS = {
    "task left": KEEP + "asyncio.create_task(asyncio.sleep(60))",
    "never retrieved": KEEP + "None; asyncio.get_running_loop().create_future().set_exception(ValueError())",
    "Unclosed client session": "cycle = [aiohttp.ClientSession()]; cycle.append(cycle)",
    # The last: its socket is reported once more where it is collected.
    "connection left": KEEP + "await asyncio.start_server(print, '127.0.0.1', 0)",
}


def test_a_leak_fails_the_test_that_leaks(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyprojecttoml("""
        [tool.pytest.ini_options]
        asyncio_mode = "auto"
        asyncio_default_fixture_loop_scope = "function"
        filterwarnings = ["error"]
    """)
    clean = """
        import asyncio, aiohttp

        def test_sync():
            pass

        async def test_clean():
            async with aiohttp.ClientSession():
                await asyncio.create_task(asyncio.sleep(0))
    """
    leaking = "".join(
        f"""
        async def test_leaking_{n}():
            {leak}
    """
        for n, leak in enumerate(LEAKS.values())
    )
    pytester.makepyfile(clean + leaking)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2 + len(LEAKS), errors=len(LEAKS))
    for n, told in enumerate(LEAKS):
        result.stdout.fnmatch_lines([f"*ERROR at teardown of test_leaking_{n}*", f"*{told}*"])
