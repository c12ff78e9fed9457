"""The doctor finds out how sandboxes differ, and says which options to use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from slashtag import RateLimitError, RetryPolicy
from slashtag.cli.probes import DAY, SECOND, Prober, Reading, after, first_end, percentile, read_end
from slashtag.sandbox import Fault, Sandbox

from .conftest import APIKEY, APISECRET, Cli, Ran

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


@contextmanager
def account(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[Sandbox]:
    """Serve an account of a few links and name it in the environment."""
    given: dict[str, Any] = {"urls": 40, "clicks": 600, "apikey": APIKEY, "apisecret": APISECRET, **options}
    with Sandbox(**given) as box:
        monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
        yield box


@pytest.fixture
def examine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Examine a sandbox of these options, and return the findings by what was checked."""

    def run(*arguments: str, exit_code: int = 0, **options: Any) -> dict[str, Any]:
        with account(monkeypatch, **options) as box:
            ran = cli("doctor", "--no-limit", *arguments)
            assert {arrival.method for arrival in box.requests} == {"GET"}
            assert len(box.requests) < 100
        assert ran.code == exit_code
        return findings(ran)

    return run


def findings(ran: Ran) -> dict[str, Any]:
    return {row["check"]: row for row in map(json.loads, ran.out.splitlines())}


Examine = Callable[..., dict[str, Any]]


def results(found: dict[str, Any]) -> dict[str, str]:
    return {check: row["result"] for check, row in found.items()}


DEFAULT = {
    "credentials": "ok",
    "page size": "ok",
    "path, yearly": "ok",
    "path, alltime": "ok",
    "one day": "ok",
    "range end": "ok",
    "timezone, days": "ok",
    "timezone, months": "ok",
    "latency": "ok",
    "compression": "ok",
}


def test_a_service_as_expected_needs_no_options(examine: Examine) -> None:
    found = examine()
    assert results(found) == DEFAULT
    assert {row["option"] for row in found.values()} == {None}
    assert "no `clicks`" in found["one day"]["found"]
    assert "inclusive" in found["range end"]["found"]
    assert "not compressed" in found["compression"]["found"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("range_end", ["inclusive", "exclusive"])
def test_the_end_of_ranges_is_found(examine: Examine, range_end: str, seed: int) -> None:
    found = examine(range_end=range_end, seed=seed, clicks=30, urls=5)["range end"]
    assert found["found"].startswith(range_end)
    exclusive = ("--range-end exclusive", 'range_end="exclusive"')
    assert (found["option"], found["argument"]) == (exclusive if range_end == "exclusive" else (None, None))


@pytest.mark.parametrize(
    ("options", "check", "told"),
    [
        ({"max_pagesize": 100}, "page size", "at most 100 links and 100 tags come"),
        ({"day_clicks": True}, "one day", "bears `clicks`"),
        ({"paths": "samples"}, "path, yearly", "the path of the samples"),
        ({"paths": "samples"}, "path, alltime", "the path of the samples"),
        ({"paths": "both"}, "path, alltime", "its stated path, also on that of the samples"),
        ({"clicks": 0}, "range end", "no link with a click was found: give one with --keys"),
        ({"clicks": 0}, "one day", "no link with a click was found"),
        ({"clicks": 0, "day_clicks": True}, "one day", "bears `clicks`"),
        ({"clicks": 0, "empty_maps": "array"}, "timezone, months", "tell no month with clicks"),
        ({"clicks": 0, "urls": 0}, "paths", "the account has no link to ask about"),
        ({"zero_days": True, "empty_maps": "array"}, "timezone, days", "those of the zone asked for"),
        ({"clicks": 1, "urls": 1}, "timezone, months", "no click lies close enough"),
    ],
)
def test_what_differs_is_found(examine: Examine, options: dict[str, Any], check: str, told: str) -> None:
    assert told in examine(**options)[check]["found"]


def test_links_can_be_named(examine: Examine, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, clicks=0) as box:
        box.add_url("clicked")
        box.add_click("clicked", "2024-02-29T23:59:59+00:00")
        found = findings(cli("doctor", "--no-limit", "--keys", "clicked"))
        assert {arrival.query.get("url_keys", "clicked") for arrival in box.requests} == {"clicked"}
    assert results(found) == DEFAULT
    assert "(+14:00)" in found["timezone, days"]["found"]
    too_many = cli("doctor", "--keys", ",".join(map(str, range(101))))
    assert too_many.code == 2


def test_links_that_cannot_be_asked_about_are_passed_over(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, urls=3, clicks=5) as box:
        box.add_url("with,comma")
        box.add_click("with,comma", "2024-02-29T12:00:00+00:00", times=50)
        assert findings(cli("doctor", "--no-limit"))["range end"]["result"] == "ok"


def test_without_all_time_statistics_the_last_months_are_looked_at(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [Fault(kind="404", path="/api/v1/stats/*")]
    with account(monkeypatch, urls=1, clicks=0, faults=faults) as box:
        box.add_url("clicked")
        box.add_click("clicked", datetime.now(UTC) - timedelta(days=80))
        found = findings(cli("doctor", "--no-limit"))
    assert found["path, yearly"]["found"] == found["path, alltime"]["found"] == "answers on neither path"
    assert found["range end"]["result"] == "ok"
    assert found["timezone, months"]["result"] == "unknown"


def test_a_click_of_this_month_will_do(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, urls=1, clicks=0) as box:
        box.add_url("clicked")
        box.add_click("clicked", datetime.now(UTC) - timedelta(minutes=1))
        assert findings(cli("doctor", "--no-limit"))["range end"]["result"] == "ok"


def test_wrong_credentials_are_told_plainly_and_exit_with_1(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with account(monkeypatch, apisecret="another-secret-1") as box:
        ran = cli("doctor")
        assert len(box.requests) == 1
    assert ran.code == 1
    assert results(findings(ran)) == {"credentials": "failed"}
    assert ran.err.startswith(
        "error: GET urls: 401 Api key and secret is not valid or missing; run `slashtag"
    )


@pytest.mark.usefixtures("quick_retries")
def test_a_check_that_fails_does_not_end_the_others(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, faults=[Fault(kind="501", path="/api/v1/stats")]):
        found = findings(cli("doctor", "--no-limit"))
    assert found["one day"]["result"] == "failed"
    assert found["latency"]["result"] == "ok"


def test_a_service_that_is_not_there_is_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag.cli.doctor.PATIENCE", RetryPolicy(max_attempts=1))
    with account(monkeypatch):
        pass
    ran = cli("doctor")
    assert ran.code == 1
    assert ran.error.startswith("error: GET urls: ")


def test_the_table_ends_with_the_options(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, range_end="exclusive"):
        drawn = cli("doctor", "--no-limit", "--format", "table")
    assert drawn.out.endswith(
        'Options to use: --range-end exclusive\nIn Python:      AsyncSession(range_end="exclusive")\n'
    )
    with account(monkeypatch):
        drawn = cli("doctor", "--no-limit", "--format", "table", "--quiet")
    assert drawn.out.endswith("Options to use: none, the defaults fit.\n")
    assert drawn.err == ""


def test_a_limit_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, rate=20, burst=10, retry_after=None) as box:
        monkeypatch.setattr("slashtag.cli.doctor.TIMED", 1)
        found = findings(cli("doctor", "--keys", box.truth.urls()[0].slashtag))["rate limit"]
    assert found["result"] == "differs"
    # Up to 20: what is told is a rate by the clock, and a busy machine may not let the burst go on evenly.
    told = re.fullmatch(r"at least ([0-9.]+) requests/s; .*", found["found"])
    assert told is not None
    assert 5 < float(told[1]) < 30
    # A lower bound would throttle whoever gives it.
    assert found["option"] is None


def test_a_limit_that_headers_state_is_recommended(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"RateLimit": '"default";r=50;t=30', "RateLimit-Policy": '"default";q=100;w=60'}
    with account(monkeypatch, urls=0, clicks=0, faults=[Fault(kind="429", every=20, headers=headers)]):
        monkeypatch.setattr("slashtag.cli.doctor.TIMED", 1)
        ran = cli("doctor")
    found = findings(ran)["rate limit"]
    assert found["found"] == "1.666 requests/s, as the headers of its answers state"
    assert found["option"] == "--rate 1.666"


def test_where_there_is_no_limit_the_burst_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch, latency=0.001) as box:
        ran = cli("doctor")
        assert len(box.requests) < 300
    assert "none found up to" in findings(ran)["rate limit"]["found"]
    assert "0 times 429" in ran.err


def test_a_given_rate_is_not_looked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with account(monkeypatch):
        assert "rate limit" not in findings(cli("doctor", "--rate", "5000"))


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask without zones, so that answers are those of a service that does not heed them."""
    asked_range, asked_period = Prober.range, Prober.period

    async def range(self: Prober, start: datetime, end: datetime, offset: object = None) -> Any:
        return await asked_range(self, start, end)

    async def period(self: Prober, path: str, **params: str) -> Any:
        params.pop("timezone", None)
        return await asked_period(self, path, **params)

    monkeypatch.setattr(Prober, "range", range)
    monkeypatch.setattr(Prober, "period", period)


@pytest.mark.usefixtures("deaf")
def test_zones_that_are_not_heeded_are_found(examine: Examine) -> None:
    found = examine()
    assert found["timezone, days"]["found"].startswith("days do not follow `timezone`")
    assert found["timezone, months"]["found"].startswith("all-time months do not follow `timezone`")


@pytest.mark.usefixtures("deaf")
def test_without_clicks_near_the_end_of_a_month_its_zone_stays_unknown(examine: Examine) -> None:
    assert examine(clicks=1, urls=1)["timezone, months"]["result"] == "unknown"


def test_a_refused_zone_is_told(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Prober.period

    async def period(self: Prober, path: str, **params: str) -> Any:
        return None if "timezone" in params else await asked(self, path, **params)

    monkeypatch.setattr(Prober, "period", period)
    assert "refuse `timezone`" in examine()["timezone, months"]["found"]


def test_answers_without_days_are_told(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag.cli.doctor.days_of", lambda _: None)
    found = examine()
    assert found["several days"]["result"] == "differs"
    assert found["range end"]["result"] == "ok"
    assert found["timezone, days"]["result"] == "unknown"


@pytest.mark.parametrize(
    ("reading", "result", "told"),
    [("days", "differs", "the time of day is not heeded"), ("unclear", "unknown", "contradict each other")],
)
def test_ends_that_are_read_otherwise_are_told(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, reading: str, result: str, told: str
) -> None:
    async def read(*_: object) -> str:
        return reading

    monkeypatch.setattr("slashtag.cli.doctor.read_end", read)
    found = examine()
    assert found["range end"]["result"] == result
    assert told in found["range end"]["found"]
    assert found["timezone, days"]["found"] == "no single click was found"


class Past:
    """Stand in for a burst that is over."""

    def __init__(self, **what: Any) -> None:
        self.answered, self.speed, self.kept, self.limited = 40, 8.0, 7.0, True
        self.stated, self.stopped = None, None
        self.__dict__ |= what

    def __call__(self, session: object) -> Past:
        return self

    async def run(self) -> None:
        """Have been."""


@pytest.mark.parametrize(
    ("past", "told", "option"),
    [
        (Past(kept=7.09), "at least 7.0 requests/s; ", None),
        (Past(kept=20.9), "at least 20 requests/s; ", None),
        (Past(stated=50.0), "50 requests/s, as the headers of its answers state", "--rate 50"),
        (Past(stated=100 / 60, limited=False), "1.666 requests/s, as the headers", "--rate 1.666"),
        (
            Past(stopped=RateLimitError("", status=429, retry_after=60)),
            "after 40 requests and asks to wait 60 s",
            None,
        ),
        (Past(stopped=RateLimitError("", status=429)), "refuses after 40 requests", None),
    ],
)
def test_what_a_burst_found_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, past: Past, told: str, option: str | None
) -> None:
    monkeypatch.setattr("slashtag.cli.doctor.Burst", past)
    with account(monkeypatch, urls=0, clicks=0):
        found = findings(cli("doctor"))["rate limit"]
    assert told in found["found"]
    assert found["option"] == option


def test_a_long_pause_ends_the_burst(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slashtag.cli.doctor.TIMED", 1)
    faults = [Fault(kind="429", every=20, headers={"Retry-After": "3600"})]
    with account(monkeypatch, urls=0, clicks=0, faults=faults):
        found = findings(cli("doctor"))["rate limit"]
    assert found["found"].startswith("refuses after ")


# How ends are read, by what counting tells alone.


def counting(clicks: list[datetime], reading: str) -> Callable[[datetime, datetime], Any]:
    """Count as a service that reads ends this way."""

    async def count(start: datetime, end: datetime) -> int:
        if reading == "days":
            return sum(start.date() <= click.date() <= end.date() for click in clicks)
        if reading == "inclusive":
            return sum(start <= click <= end for click in clicks)
        return sum(start <= click < end for click in clicks)

    return count


@pytest.mark.parametrize("also", [[], [NOON + SECOND], [NOON, NOON + SECOND, NOON + 2 * SECOND]])
@pytest.mark.parametrize("reading", ["inclusive", "exclusive", "days"])
async def test_the_first_end_with_clicks_tells_how_ends_are_read(reading: str, also: list[datetime]) -> None:
    count = counting([NOON, *also], reading)
    end = await first_end(count, NOON - 40 * DAY, NOON - 2 * DAY, NOON + DAY)
    assert end == {
        "inclusive": NOON,
        "exclusive": NOON + SECOND,
        "days": NOON.replace(hour=0),
    }.get(reading)
    assert await read_end(count, end) == reading
    assert reading in get_args(Reading)


async def test_a_click_at_midnight_is_not_taken_for_whole_days() -> None:
    midnight = NOON.replace(hour=0)
    count = counting([midnight], "inclusive")
    assert await first_end(count, midnight - DAY, midnight - DAY, midnight + DAY) == midnight
    assert await read_end(count, midnight) == "inclusive"


async def test_counts_that_contradict_each_other_tell_nothing() -> None:
    async def none(*_: datetime) -> int:
        return 0

    assert await first_end(none, NOON - DAY, NOON - DAY, NOON) is None
    assert await read_end(none, NOON) == "unclear"


def test_months_follow_each_other_and_percentiles_occur() -> None:
    assert after((2023, 12)) == (2024, 1)
    assert after((2024, 1)) == (2024, 2)
    assert percentile([3, 1, 2, 4], 0.5) == 3
    assert percentile([5], 0.95) == 5
