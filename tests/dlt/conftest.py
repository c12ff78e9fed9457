"""Accounts, a present day to be set, and warehouses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("dlt")

from slashtag.dlt import Warehouse
from slashtag.sandbox import Sandbox
from tests.support.warehouses import (
    Clock,
    MemoryWarehouse,
    open_local,
    postgres_server,
    simulated_clock,
    small_account,
)


@pytest.fixture
def clock(box: Sandbox) -> Iterator[Clock]:
    with simulated_clock(box) as clock:
        yield clock


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with small_account() as box:
        yield box


@pytest.fixture
def memory() -> MemoryWarehouse:
    return MemoryWarehouse()


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    if request.param != "postgres":
        return open_local(request.param, tmp_path)
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", request.getfixturevalue("postgres"))
    return Warehouse(destination="postgres", dataset=f"d{tmp_path.name}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        if url is None:
            pytest.skip("PostgreSQL is not installed")
        yield url
