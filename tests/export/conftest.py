"""An account, a session of it, and the present day, to be set."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from slashtag import AsyncSession
from slashtag.sandbox import Sandbox


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with Sandbox(
        urls=25, clicks=1_500, tags=2, since="2023-11-01T00:00:00Z", until="2024-06-30T00:00:00Z"
    ) as box:
        yield box


@pytest.fixture
async def session(box: Sandbox) -> AsyncIterator[AsyncSession]:
    async with AsyncSession(box.base_url, apikey=box.apikey, apisecret=box.apisecret) as session:
        yield session
