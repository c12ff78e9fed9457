"""Pytest fixtures to test your own code offline.

`slashtag_sandbox` is a sandbox with a small account, new for each test; `slashtag_session` is a session
on it. Override `slashtag_sandbox_options` to choose the arguments of Sandbox.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from . import AsyncSession
    from .sandbox import Sandbox

# Without pytest-asyncio, the plugin of anyio runs a plain async fixture.
_async_fixture: Callable[[Any], Any] = (
    import_module("pytest_asyncio").fixture if find_spec("pytest_asyncio") else pytest.fixture
)


@pytest.fixture
def slashtag_sandbox_options() -> dict[str, Any]:
    """Return the arguments of the Sandbox behind `slashtag_sandbox`: 100 links and 2,000 clicks."""
    return {"urls": 100, "clicks": 2_000}


@pytest.fixture
def slashtag_sandbox(slashtag_sandbox_options: dict[str, Any]) -> Iterator[Sandbox]:
    """Run a Sandbox in a thread of its own for one test."""
    # Imported here: pytest loads this file in every test run of the environment.
    sandbox: Any = import_module(".sandbox", __package__)
    with sandbox.Sandbox(**slashtag_sandbox_options) as box:
        yield box


@_async_fixture
async def slashtag_session(slashtag_sandbox: Sandbox) -> AsyncIterator[AsyncSession]:
    """Open an AsyncSession on `slashtag_sandbox`; needs pytest-asyncio or the plugin of anyio."""
    box = slashtag_sandbox
    slashtag: Any = import_module(".", __package__)
    async with slashtag.AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
        yield session
