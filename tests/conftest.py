"""Settings of hypothesis, and a guard: no async test may leave a task, a connection or a complaint behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from slashtag import AsyncSession
from slashtag.sandbox import Sandbox
from tests.support.sending import connect

# Examples are random; --randomly-seed and --hypothesis-seed repeat a run. `make test-more` takes "more".
settings.register_profile(
    "usual", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("more", settings.get_profile("usual"), max_examples=1_000)
settings.load_profile("usual")

# A shell ignores SIGINT in what it starts in the background, and so would every process of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_saved_login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Find no login that somebody saved on this machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


def pytest_configure(config: pytest.Config) -> None:
    # The workers that xdist starts are measured by `make coverage`, not the processes that tests start.
    if not config.getoption("numprocesses", None):
        os.environ.pop("COVERAGE_PROCESS_START", None)
    if missing := [path for path in DIFFERS if not (config.rootpath / path).exists()]:
        raise pytest.UsageError(f"tests/conftest.py: DIFFERS names {missing}, which are not there")


#: What may differ between Pythons: sending, sessions, pickling, types, zones, the command line's start.
DIFFERS = (
    "tests/sending/",
    "tests/cli/test_entry.py",
    "tests/core/test_windows.py",
    "tests/test_errors.py",
    "tests/test_fanout.py",
    "tests/test_summed_statistics.py",
    "tests/test_session.py",
    "tests/test_surface.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--differs", action="store_true", help="run what may differ between Pythons")
    parser.addoption("--part", metavar="K/N", help="run the tests of one in N files, chosen by K")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that are not chosen: to import and collect all takes longer than some parts."""
    part, differs = config.getoption("part"), config.getoption("differs")
    if not (part or differs) or not collection_path.name.startswith("test_"):
        return None
    if differs and collection_path.relative_to(config.rootpath).as_posix().startswith(DIFFERS):
        return None
    if part:
        chosen, of = map(int, part.split("/"))
        if zlib.crc32(collection_path.name.encode()) % of == chosen % of:
            return None
    return True


#: A collection that takes longer than this, in seconds, goes through much that is there to stay.
SLOW_COLLECTION = 0.001


def collect_garbage() -> None:
    """Collect garbage; exempt what survives from later collections once they get slow.

    What earlier tests imported and reported stays for good: 50 ms at each of thousands of collections.
    """
    began = time.thread_time()
    gc.collect()
    if time.thread_time() - began > SLOW_COLLECTION:
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    collect_garbage()


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest) -> None:
    """Guard a test that has a loop; set up before its other fixtures, so that it looks when they are gone."""
    definitions = request.node._fixtureinfo.name2fixturedefs.values()
    functions = [request.function, *(overriding[-1].func for overriding in definitions)]
    if any(
        inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        for function in functions
    ):
        request.getfixturevalue("_guarded_loop")


@pytest.fixture
async def _guarded_loop() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    complaints = list[str]()
    loop.set_exception_handler(lambda _, context: complaints.append(_told(context)))
    descriptors = _descriptors(loop)
    yield
    # A session that was not closed, and an error that nobody asked for, are told as they are collected.
    collect_garbage()
    for _turn in range(10):
        await asyncio.sleep(0)
    tasks = [f"task left: {task!r}" for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    connections = [
        f"connection left: {what!r}" for fd, what in _descriptors(loop).items() if fd not in descriptors
    ]
    if left := complaints + tasks + connections:
        pytest.fail("\n".join(left), pytrace=False)


def _told(context: dict[str, Any]) -> str:
    """Say what the loop's exception handler was told."""
    return ", ".join(f"{name}: {value!r}" for name, value in context.items() if name != "source_traceback")


def _descriptors(loop: asyncio.AbstractEventLoop) -> dict[int, Any]:
    """What the loop waits for, by file descriptor: its own wake-up pipe, and sockets that are open."""
    selector = getattr(loop, "_selector", None)
    return {} if selector is None else {key.fd: key.data for key in selector.get_map().values()}


@pytest.fixture
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """Serve the account that a module describes as ACCOUNT, to each test anew."""
    async with Sandbox(**request.module.ACCOUNT) as box:
        yield box


@pytest.fixture
async def session(box: Sandbox) -> AsyncIterator[AsyncSession]:
    async with connect(box) as session:
        yield session
