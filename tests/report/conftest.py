"""An account that is made once and served often."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slashtag.sandbox import Sandbox


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "account.sqlite"
    with Sandbox(store=path, urls=120, clicks=3_000, since="2023-01-01T00:00:00+00:00"):
        return path


@pytest.fixture
def serve(store: Path) -> Callable[..., Sandbox]:
    """Serve the account; nobody may change it."""

    def serve(**options: Any) -> Sandbox:
        return Sandbox(store=store, **options)

    return serve
