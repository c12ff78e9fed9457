"""Pytest fixtures to test your own code offline.

`slashtag_sandbox` is a sandbox with a small account, new for each test; `slashtag_session` is a session on
it, in the event loop of the test; `slashtag_aioresponses` is a mock of aiohttp. Override
`slashtag_sandbox_options` and `slashtag_session_options` to choose the arguments of both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
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


_async_plugin: Any = import_module("pytest_asyncio") if find_spec("pytest_asyncio") else pytest


@_async_plugin.fixture  # type: ignore[untyped-decorator]
async def slashtag_session(
    slashtag_sandbox: Sandbox, slashtag_session_options: dict[str, Any]
) -> AsyncIterator[AsyncSession]:
    """Open an AsyncSession on `slashtag_sandbox`; needs pytest-asyncio or the plugin of anyio.

    Its loop is that of pytest-asyncio's setting `asyncio_default_fixture_loop_scope`.
    """
    box = slashtag_sandbox
    slashtag: Any = import_module(".", __package__)
    account = {"apikey": box.apikey, "apisecret": box.apisecret}
    async with slashtag.AsyncSession(box.base_url, **account | slashtag_session_options) as session:
        yield session
