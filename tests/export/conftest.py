"""A session of a test's own account."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from slashtag import AsyncSession
from slashtag.sandbox import Sandbox
from tests.support.sending import connect


@pytest.fixture
async def session(box: Sandbox) -> AsyncIterator[AsyncSession]:
    async with connect(box) as session:
        yield session
