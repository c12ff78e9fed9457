"""Pytest fixtures to test your own code offline.

`slashtag_sandbox` is a sandbox with a small account, new for each test; `slashtag_session` is a session on
it, in the event loop of the test; `slashtag_aioresponses` is a mock of aiohttp. Override
`slashtag_sandbox_options` to choose the arguments of Sandbox, and `slashtag_session_options` to choose those
of AsyncSession.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from . import AsyncSession
    from .sandbox import Sandbox


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Import the package before a test that uses it freezes the clock.

    Decoders for datetime would be made for the class that freezegun has put in its place.
    """
    if any("slashtag_sandbox" in getattr(item, "fixturenames", ()) for item in items):
        for module in ("_public", "sandbox"):
            import_module(f".{module}", __package__)


@pytest.fixture
def slashtag_sandbox_options() -> dict[str, Any]:
    """Return the arguments of the Sandbox behind `slashtag_sandbox`: 100 links and 2,000 clicks."""
    return {"urls": 100, "clicks": 2_000}


@pytest.fixture
def slashtag_session_options() -> dict[str, Any]:
    """Return arguments of the AsyncSession of `slashtag_session`, such as `retry` and `timeout`: none."""
    return {}


@pytest.fixture
def slashtag_sandbox(slashtag_sandbox_options: dict[str, Any]) -> Iterator[Sandbox]:
    """Run a Sandbox in a thread of its own for one test."""
    # Imported here: pytest loads this file in every test run of the environment.
    sandbox: Any = import_module(".sandbox", __package__)
    with sandbox.Sandbox(**slashtag_sandbox_options) as box:
        yield box


@pytest.fixture
def slashtag_aioresponses(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Mock aiohttp by aioresponses, whose version 0.7.9 lacks an argument that aiohttp 3.14 requires."""
    core: Any = import_module("aioresponses.core")
    response = partial(core.ClientResponse, stream_writer=SimpleNamespace(output_size=0))
    monkeypatch.setattr(core, "ClientResponse", response)
    with core.aioresponses() as mock:
        yield mock


@pytest.fixture
def slashtag_session(
    request: pytest.FixtureRequest, slashtag_sandbox: Sandbox, slashtag_session_options: dict[str, Any]
) -> AsyncSession:
    """Open an AsyncSession on `slashtag_sandbox`; needs pytest-asyncio or the plugin of anyio."""
    marker = request.node.get_closest_marker("asyncio")
    scope = "function"
    if marker is not None:
        default = request.config.getini("asyncio_default_test_loop_scope")
        scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope") or default
    session: AsyncSession = request.getfixturevalue(f"_slashtag_session_in_loop_of_{scope}")
    return session


def _session_fixture(fixture: Callable[..., Any], **options: str) -> Any:
    """Return a fixture that opens the session; each needs a function of its own."""

    async def open_session(
        slashtag_sandbox: Sandbox, slashtag_session_options: dict[str, Any]
    ) -> AsyncIterator[AsyncSession]:
        box = slashtag_sandbox
        slashtag: Any = import_module(".", __package__)
        account = {"apikey": box.apikey, "apisecret": box.apisecret}
        async with slashtag.AsyncSession(box.base_url, **account | slashtag_session_options) as session:
            yield session

    return fixture(**options)(open_session)


# A fixture of pytest-asyncio runs in the loop of one scope, which the test chooses.
if find_spec("pytest_asyncio"):
    for _scope in ("function", "class", "module", "package", "session"):
        globals()[f"_slashtag_session_in_loop_of_{_scope}"] = _session_fixture(
            import_module("pytest_asyncio").fixture, loop_scope=_scope
        )
else:
    _slashtag_session_in_loop_of_function = _session_fixture(pytest.fixture)
