"""Accounts, a present day to be set, and destinations of dlt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

from dlt.common.destination.reference import Destination

from slashtag.sandbox import Sandbox
from tests.support.loads_without_dlt import Warehouse
from tests.support.sandboxes import renew
from tests.support.warehouses import (
    Clock,
    Target,
    local,
    postgres_server,
    postgres_target,
    simulated_clock,
    small_account,
)


@pytest.fixture
def clock(box: Sandbox) -> Iterator[Clock]:
    with simulated_clock(box) as clock:
        yield clock


@pytest.fixture(scope="session")
def _kept_box() -> Iterator[Sandbox]:
    with small_account() as box:
        yield box


@pytest.fixture
def box(_kept_box: Sandbox) -> Iterator[Sandbox]:
    """Serve an account as it was generated, always at the same address."""
    yield _kept_box
    renew(_kept_box)


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have dlt read and write no settings of whoever runs the tests, and leave none behind."""
    before = dict(os.environ)
    monkeypatch.setenv("DLT_DATA_DIR", str(tmp_path / "dlt"))
    yield
    for name in set(os.environ) - set(before):
        if "__" in name:
            del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def _kept_capabilities() -> Iterator[None]:
    """Have dlt look up once what a destination can do: it resolves its configuration again each time."""
    find = Destination.capabilities
    found: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    def capabilities(self: Any, config: Any = None, naming: Any = None) -> Any:
        if config is not None:
            return find(self, config, naming)
        known = found.setdefault(self, {})
        key = type(naming), naming and naming.max_length
        if key not in known:
            known[key] = find(self, naming=naming)
        return known[key].copy()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Destination, "capabilities", capabilities)
        yield


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param != "postgres":
        return local(request.param, tmp_path)
    return postgres_target(request.getfixturevalue("postgres"), f"d{tmp_path.name}", tmp_path)


@pytest.fixture
def duck(tmp_path: Path) -> Target:
    return local("duckdb", tmp_path)


@pytest.fixture
def warehouse(box: Sandbox) -> Warehouse:
    return Warehouse(box)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        if url is None:
            pytest.skip("PostgreSQL is not installed")
        yield url
