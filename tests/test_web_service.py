"""The application of the guide for web services: its pages, errors, deadlines and end."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slashtag import RetryPolicy
from slashtag.sandbox import Fault, Sandbox
from tests.asgi import get, request
from tests.support.sending import until

ROOT = Path(__file__).parent.parent
ACCOUNT = {"urls": 30, "clicks": 500}
DAYS = "days=2024-01-01..2024-12-31"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    for name in ("base_url", "apikey", "apisecret"):
        monkeypatch.setenv(f"SLASHTAG_{name.upper()}", getattr(box, name))
    return importlib.import_module("fastapi_app")


@pytest.fixture
async def running(module: ModuleType) -> AsyncIterator[AsyncExitStack]:
    """Run the application; closing the stack stops it."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(module.app.router.lifespan_context(module.app))
        yield stack


@pytest.fixture
async def app(module: ModuleType, running: AsyncExitStack, box: Sandbox) -> Any:
    """Let the job end its first round."""
    await until(lambda: module.app.state.report)
    box.requests.clear()
    return module.app


async def test_pages_show_what_the_account_has(app: Any, box: Sandbox) -> None:
    status, links = await get(app, "/links?limit=7")
    assert (status, len(links)) == (200, 7)
    path, truth = f"/clicks/{links[0]['slashtag']}", box.truth.per_key("2024-01-01", "2024-12-31")
    _, by_url = await get(app, f"{path}?{DAYS}")
    assert by_url["total_clicks"] == truth[links[0]["slashtag"]].total_clicks
    status, found = await get(app, f"/totals?seconds=30&{DAYS}")
    assert found == {"complete": True, "clicks": {key: stats.total_clicks for key, stats in truth.items()}}
    assert (await get(app, "/report"))[0] == 200
    assert [(await get(app, page))[0] for page in ("/clicks/a?days=gibberish", "/clicks/a,b")] == [422, 422]


async def test_changes_are_made_and_told(app: Any, box: Sandbox) -> None:
    first, second, *_ = box.truth.urls()
    changes = [{"key": first.id, "redirect_code": 308}, {"key": "no such link", "redirect_code": 302}]
    status, outcomes = await request(app, "PUT", "/links", changes)
    states = {each["key"]: each["status"] for each in outcomes}
    assert (status, states) == (200, {first.id: "done", "no such link": "failed"})
    assert box.truth.urls()[0].redirect_code == 308
    box.requests.clear()
    assert (await request(app, "PUT", "/links", [{"key": second.id, "redirect_code": 309}]))[0] == 422
    assert box.requests == []
    status, numbers = await get(app, "/metrics")
    assert (status, numbers["attempts"]) == (200, app.state.session.metrics.attempts)


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault(kind="404"), 404),
        (Fault(kind="reset"), 502),
        (Fault(kind="stall"), 504),
        (Fault(kind="429", headers={"Retry-After": "7"}), 503),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
async def test_a_failure_of_the_service_is_a_status(
    app: Any, box: Sandbox, fault: Fault, status: int
) -> None:
    box.faults = [fault]
    retry = RetryPolicy(max_attempts=2, backoff_cap=0.001, max_wait=0.2)
    app.state.session = app.state.session.with_options(retry=retry, timeout=0.2)
    found, answer = await get(app, "/links")
    assert found == status
    assert (box.base_url in str(answer), "sandbox" in str(answer)) == (False, False)


async def test_a_page_ends_at_its_deadline(
    app: Any, module: ModuleType, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.latency = 60
    monkeypatch.setattr(module.for_client, "__defaults__", (0.05,))
    assert (await get(app, "/links"))[0] == 504
    status, found = await get(app, f"/totals?seconds=0.05&{DAYS}")
    assert (status, found) == (200, {"complete": False, "clicks": {}})
    assert app.state.session.metrics.in_flight == 0


async def test_a_client_that_disconnects_ends_its_work(app: Any, box: Sandbox) -> None:
    box.latency = 60
    session = app.state.session = app.state.session.with_options(timeout=100)
    gone = asyncio.Event()
    page = asyncio.create_task(request(app, "GET", "/clicks/a?days=2024-01", gone=gone))
    await until(lambda: box.requests)
    assert session.metrics.in_flight == 1
    gone.set()
    assert (await page)[0] == 499
    assert (session.metrics.in_flight, session.metrics.waiting) == (0, 0)
    box.latency = 0.0
    assert (await get(app, "/links"))[0] == 200
    assert [arrival.path for arrival in box.requests].count("/api/v1/stats") == 1
