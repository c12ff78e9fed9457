"""The doctor finds out how sandboxes differ, and names the options to use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slashtag._resources.stats import Stats
from slashtag.sandbox import Fault

from .conftest import Cli, Ran, Serve

EXCLUSIVE = "range_end=exclusive"


@pytest.fixture
def examine(cli: Cli, serve: Serve) -> Callable[..., dict[str, Any]]:
    """Examine a sandbox with these options and clicks on one more link; return the findings by check."""

    def run(*clicks: str, **options: Any) -> dict[str, Any]:
        with serve(**{"urls": 40, "clicks": 600, **options}) as box:
            if clicks:
                box.add_url("clicked")
                for click in clicks:
                    box.add_click("clicked", click)
            ran = cli("doctor", *(["--keys", "clicked"] if clicks else []))
            assert {arrival.method for arrival in box.requests} == {"GET"}
            assert len(box.requests) < 120
            keys = "clicked" if clicks else None
            assert {arrival.query.get("url_keys", keys) for arrival in box.requests} <= {keys} or not keys
        assert ran.code == 0
        return findings(ran)

    return run


def findings(ran: Ran) -> dict[str, Any]:
    return {row["check"]: row for row in map(json.loads, ran.out.splitlines())}


Examine = Callable[..., dict[str, Any]]


def results(found: dict[str, Any]) -> dict[str, str]:
    return {check: row["result"] for check, row in found.items()}


DEFAULT = {"credentials": "ok", "page size": "ok", "range end": "ok", "timezone": "ok"}


def test_a_service_as_expected_needs_no_options(examine: Examine) -> None:
    found = examine()
    assert results(found) == DEFAULT
    assert "inclusive" in found["range end"]["found"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("range_end", ["inclusive", "exclusive"])
def test_the_end_of_ranges_is_found(examine: Examine, range_end: str, seed: int) -> None:
    found = examine(range_end=range_end, seed=seed, clicks=30, urls=5)["range end"]
    assert found["found"].startswith(range_end)
    assert (EXCLUSIVE in found["found"]) == (range_end == "exclusive")


@pytest.mark.parametrize(
    ("options", "check", "told"),
    [
        ({"max_pagesize": 100}, "page size", "at most 100 a page"),
        ({"clicks": 0, "empty_maps": "array"}, "range end", "with --keys"),
        ({"clicks": 0, "urls": 0}, "range end", "with --keys"),
        ({"zero_days": True, "empty_maps": "array"}, "timezone", "those of the zone asked for"),
        ({"paths": "samples"}, "range end", "inclusive"),
    ],
)
def test_what_differs_is_found(examine: Examine, options: dict[str, Any], check: str, told: str) -> None:
    assert told in examine(**options)[check]["found"]


def test_links_that_cannot_be_asked_about_are_passed_over(cli: Cli, serve: Serve) -> None:
    with serve(clicks=50) as box:
        box.add_url("with,comma")
        box.add_click("with,comma", "2024-02-29T12:00:00+00:00", times=50)
        assert findings(cli("doctor"))["range end"]["result"] == "ok"


@pytest.mark.usefixtures("quick_retries")
def test_only_what_fails_at_first_ends_it(cli: Cli, serve: Serve) -> None:
    with serve(apisecret="another-secret-1") as box:
        ran = cli("doctor")
        assert len(box.requests) == 1
    assert ran.code == 1
    assert "slashtag login" in ran.error
    with serve(urls=40, faults=[Fault(kind="501", path="/api/v1/stats")]):
        ran = cli("doctor")
    found = findings(ran)
    assert ran.code == 3
    assert found["range end"]["result"] == "failed"
    assert found["page size"]["result"] == "ok"


@pytest.mark.parametrize("hour", ["00:00:00", "10:59:59", "11:00:00", "23:59:58"])
@pytest.mark.parametrize("range_end", ["inclusive", "exclusive"])
def test_zones_that_are_obeyed_are_found_whatever_the_hour(
    examine: Examine, range_end: str, hour: str
) -> None:
    clicks = [f"2024-02-{day}T{hour}+00:00" for day in (28, 29)]
    assert examine(*clicks, range_end=range_end)["timezone"]["result"] == "ok"


@pytest.mark.parametrize("range_end", ["inclusive", "exclusive"])
def test_zones_that_are_ignored_are_found(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, range_end: str
) -> None:
    collect = Stats.collect

    async def in_utc(*arguments: Any, timezone: object = None, **more: Any) -> Any:
        return await collect(*arguments, **more)

    monkeypatch.setattr(Stats, "collect", in_utc)
    assert examine(range_end=range_end)["timezone"]["result"] == "differs"
