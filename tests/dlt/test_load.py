"""What loads request, hold and refuse."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from math import ceil
from pathlib import Path
from typing import Any

import dlt
import duckdb
import pytest
from dlt.common.runtime import anon_tracker
from dlt.destinations.impl.duckdb.duck import DuckDbClient
from msgspec.structs import replace

from slashtag import (
    AuthenticationError,
    ConfigurationError,
    ExportError,
    InvalidRequestError,
    UnexpectedResponseError,
)
from slashtag.dlt import _source, load, local_pipeline, slashtag_source
from slashtag.dlt._incremental import ClicksLoad, Listed
from slashtag.dlt._pipeline import _destination_locked, _file_locked
from slashtag.dlt._source import LoadSession
from slashtag.sandbox import Arrival, Sandbox
from tests.support.journals import asked, committed
from tests.support.sandboxes import forget
from tests.support.warehouse_days import swap
from tests.support.warehouses import (
    DAY,
    START,
    Clock,
    Target,
    as_date,
    local,
    options,
    simulated_clock,
    truth,
)


@pytest.mark.unmeasured
def test_run_twice_it_asks_for_what_may_have_changed_and_alters_nothing(
    box: Sandbox, clock: Clock, duck: Target
) -> None:
    first = duck.load(box, by_tag=True, dimensions=("country",))
    assert first["clicks_daily"] == len(truth(box, clock.today))
    with duck.pipeline().sql_client() as client:
        # No second copy of the rows is left.
        assert client.execute_sql("SELECT count(*) FROM slashtag_staging.clicks_daily") == [(0,)]
    held = {table: sorted(duck.rows(table)) for table in TABLES}
    forget(box)
    again = duck.load(box, by_tag=True, dimensions=("country",))
    assert {table: n for table, n in again.items() if table.startswith("clicks")} == {}
    # Nothing has changed. Each listing is a page, of links also the one behind it, as 130 may be a cap, and
    # two second answers, the latest page. The days, and the present month of the dimension, are a request a
    # batch; the days of the links with the most hits two second answers. Each tag is a request.
    batches = ceil(len({url.slashtag for url in box.truth.urls()}) / 100)
    links, tags, days = 2 + 2, 1 + 2, batches + 2
    assert len(box.requests) == links + tags + days + batches + len(box.truth.tags())
    assert {table: sorted(duck.rows(table)) for table in TABLES} == held


TABLES = ("links", "tags", "clicks_daily", "clicks_by_tag", "clicks_by_dimension")


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "target",
    ["filesystem", "postgres", "sqlite"],
    indirect=True,
)
def test_tags_and_dimensions_are_the_truth_after_another_day(
    box: Sandbox, clock: Clock, target: Target
) -> None:
    for _ in range(2):
        target.load(box, by_tag=True, dimensions=("country", "device"))
        end = clock.today.isoformat()
        assert {(tag, as_date(day)): n for tag, day, n, _ in target.rows("clicks_by_tag")} == {
            (tag.name, day): n
            for tag in box.truth.tags()
            for day, n in box.truth.range(START.isoformat(), end, tag=tag.name).clicks.items()
        }
        labels: Counter[tuple[Any, ...]] = Counter()
        for name in {url.slashtag for url in box.truth.urls()}:
            for first, last in (("2024-02-20", "2024-02-29"), ("2024-03-01", end)):
                true = box.truth.range(first, last, keys=[name])
                month = datetime.fromisoformat(first).date().replace(day=1)
                labels.update({(name, month, "country", label): n for label, n in true.country.items() if n})
                labels.update({(name, month, "device", label): n for label, n in true.device.items() if n})
        found = target.rows("clicks_by_dimension")
        assert {(row[0], as_date(row[1]), *row[2:4]): row[4] for row in found} == dict(labels)
        assert len(found) == len(labels)
        clock.today += DAY
        for url in box.truth.urls()[:5]:
            box.add_click(url.slashtag, datetime.combine(clock.today, clock_time(9), UTC), country="SE")
        # A month of a link falls to zero, and two links swap their slashtags.
        names = Counter(url.slashtag for url in box.truth.urls())
        free = [url for url in box.truth.urls() if url.tag_id is None and names[url.slashtag] == 1]
        swap(box, free[0].slashtag, free[1].slashtag)
        march = datetime(2024, 3, 1, tzinfo=UTC).timestamp()
        busy = max(free, key=lambda url: url.hits)
        box.store.write("DELETE FROM click WHERE link = ? AND at >= ?", (busy.id, march))


@pytest.mark.unmeasured
def test_clicks_that_the_hits_do_not_show_are_found(
    box: Sandbox, clock: Clock, duck: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = LoadSession.list_links

    async def stand_still(self: LoadSession, session: Any) -> Listed:
        listed = await before(self, session)
        return listed._replace(series={key: replace(series, hits=7) for key, series in listed.series.items()})

    monkeypatch.setattr(LoadSession, "list_links", stand_still)
    duck.load(box)
    names = [url.slashtag for url in box.truth.urls()]
    for n, ago in ((0, 0), (60, 2), (-1, 3)):
        box.add_click(names[n], datetime.combine(clock.today - ago * DAY, clock_time(9), UTC), times=2)
    loaded = duck.load(box)
    assert loaded["clicks_daily"] == 3
    assert duck.daily() == truth(box, clock.today)


@pytest.mark.unmeasured
def test_late_clicks_whose_requests_failed_are_loaded_by_the_next_load(
    box: Sandbox, clock: Clock, duck: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    duck.load_first(box)
    box.add_click(box.truth.urls()[0].slashtag, datetime.combine(START, clock_time(9), UTC), times=3)
    before = ClicksLoad._collect

    def collect(self: ClicksLoad, session: Any, keys: list[str], start: date, end: date) -> Any:
        return before(self, session, [] if end < self._first else keys, start, end)

    with monkeypatch.context() as patch:
        patch.setattr(ClicksLoad, "_collect", collect)
        duck.load(box)
    assert duck.daily() != truth(box, clock.today)
    # The first says that it is complete, and the second that it is not.
    assert sorted(row[5] for row in duck.rows("loads")) == [False, True]
    duck.load(box)
    assert duck.daily() == truth(box, clock.today)


@pytest.mark.unmeasured
def test_an_earlier_start_and_more_lookback_are_filled(box: Sandbox, clock: Clock, duck: Target) -> None:
    late = START + 10 * DAY
    duck.load(box, since=late)
    assert min(day for _, day in duck.daily()) == late
    duck.load(box)
    assert duck.daily() == truth(box, clock.today)
    box.add_click(box.truth.urls()[0].slashtag, datetime.combine(clock.today - 8 * DAY, clock_time(9), UTC))
    duck.load(box, lookback=9)
    assert duck.daily() == truth(box, clock.today)
    # A later start leaves out no earlier day, of a new link neither, nor late clicks of which the hits tell.
    box.add_url("new")
    box.add_click(box.truth.urls()[1].slashtag, datetime.combine(START, clock_time(9), UTC))
    duck.load(box, since=late)
    assert duck.daily() == truth(box, clock.today)


@pytest.mark.unmeasured
@pytest.mark.parametrize("target", ["duckdb", "filesystem"], indirect=True)
def test_tables_that_were_dropped_are_filled_anew(
    box: Sandbox, clock: Clock, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.load_first(box)
    with target.pipeline().destination_client() as client:
        client.drop_tables("clicks_daily", "links")

    def killed(_: dlt.Pipeline) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # The tables are there again, but empty.
        patched.setattr(dlt.Pipeline, "load", killed)
        with pytest.raises(KeyboardInterrupt):
            target.load(box)
    loaded = target.load(box)
    assert target.daily() == truth(box, clock.today)
    assert loaded["links"] == len(box.truth.urls())


@pytest.mark.unmeasured
@pytest.mark.parametrize(("ahead", "age"), [(18, "0"), (0, "54000")])
def test_a_day_that_is_not_over_for_the_service_is_not_final(
    box: Sandbox, clock: Clock, duck: Target, ahead: int, age: str
) -> None:
    clock.ahead = timedelta(hours=ahead)
    box.headers["Age"] = age
    # It may be refused as an answer of a cache, but must not be taken for final.
    with suppress(UnexpectedResponseError):
        duck.load(box, lookback=0)
    clock.ahead, box.headers["Age"] = 0 * DAY, "0"
    for url in box.truth.urls():
        box.add_click(url.slashtag, datetime.combine(clock.today, clock_time(22), UTC))
    clock.today += DAY
    duck.load(box, lookback=0)
    assert duck.daily() == truth(box, clock.today)


@pytest.mark.unmeasured
def test_a_file_that_is_gone_after_a_load_was_killed_is_filled_anew(
    box: Sandbox, clock: Clock, duck: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        # All tables are loaded, but not yet the state.
        patched.setattr(DuckDbClient, "complete_load", killed)
        with pytest.raises(KeyboardInterrupt):
            duck.load(box)
    assert duck.daily() == truth(box, clock.today)
    (tmp_path / "clicks.duckdb").unlink()
    duck.load(box)
    assert duck.daily() == truth(box, clock.today)


def test_a_wrong_argument_is_refused_before_anything_is_sent(
    box: Sandbox, clock: Clock, duck: Target
) -> None:
    for wrong, says in (
        ({"dimensions": ("shoe size",)}, "no dimension 'shoe size'"),
        ({"timezone": "Nowhere"}, "Nowhere"),
        ({"since": "yesterday"}, "yesterday"),
        ({"since": clock.today + DAY}, "after today, 2024-03-10"),
        ({"reload": ("2024-02-01", "2024-02-02")}, "no day from"),
        ({"reload": ("2024-03-11", "2024-03-12")}, "no day from"),
    ):
        with pytest.raises(InvalidRequestError, match=says):
            slashtag_source(**options(box, **wrong))
    slashtag_source(**options(box, reload=("2024-02-01", START)))
    with pytest.raises(InvalidRequestError, match="needs the path"):
        local_pipeline("duckdb")
    with pytest.raises(InvalidRequestError, match="takes no path"):
        local_pipeline("postgres", "clicks")
    assert not box.requests


@pytest.mark.parametrize(("zone", "today"), [("+14:00", 11), ("+00:00", 10), ("-12:00", 9)])
def test_the_first_day_is_at_most_today_in_the_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str, today: int
) -> None:
    class Datetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2024, 3, 10, 11, tzinfo=UTC).astimezone(tz)

    monkeypatch.setattr(_source, "datetime", Datetime)
    slashtag_source(since=f"2024-03-{today:02}", timezone=zone)
    with pytest.raises(InvalidRequestError, match=f"after today, 2024-03-{today:02}"):
        slashtag_source(since=f"2024-03-{today + 1:02}", timezone=zone)


def test_two_loads_at_once_are_one_too_many(box: Sandbox, clock: Clock, duck: Target) -> None:
    lock = Path(duck.pipeline().pipelines_dir) / "slashtag"
    with _file_locked(lock), pytest.raises(ExportError, match="is under way"):
        duck.load(box)
    assert not box.requests


def test_a_destination_that_refuses_is_an_error_of_ours(
    box: Sandbox, clock: Clock, duck: Target, tmp_path: Path
) -> None:
    (tmp_path / "clicks.duckdb").write_text("my only copy")
    with pytest.raises(ExportError, match="duckdb failed"):
        duck.load(box)
    assert (tmp_path / "clicks.duckdb").read_text() == "my only copy"


@pytest.mark.parametrize(
    ("destination", "other", "head"),
    [
        ("duckdb", "sqlite", b"SQLite format 3\0"),
        ("filesystem", "sqlite", b"SQLite format 3\0"),
        ("sqlite", "duckdb", b"12345678DUCK@"),
        ("filesystem", "duckdb", b"12345678DUCK@"),
        ("duckdb", "filesystem", b""),
        ("sqlite", "filesystem", b""),
    ],
)
@pytest.mark.parametrize("name", ["clicks", "clicks.sqlite", "clicks.duckdb"])
def test_a_path_of_another_kind_than_the_destination_is_refused(
    tmp_path: Path, destination: str, other: str, head: bytes, name: str
) -> None:
    path = tmp_path / name
    if head:
        path.write_bytes(head)
    else:
        path.mkdir()
    with pytest.raises(InvalidRequestError) as raised:
        local_pipeline(destination, path, pipelines_dir=tmp_path / "pipelines")
    assert destination in str(raised.value)
    assert other in str(raised.value)
    local_pipeline(other, path, pipelines_dir=tmp_path / "pipelines")


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", ["clicks.sqlite", "clicks.db", "CLICKS.PARQUET"])
def test_without_a_destination_a_name_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InvalidRequestError, match="--destination"):
        local_pipeline(None, tmp_path / name, pipelines_dir=tmp_path)
    for usual in ("clicks", "clicks.duckdb", "clicks.2024"):
        pipeline = local_pipeline(None, tmp_path / usual, pipelines_dir=tmp_path)
        assert pipeline.destination.destination_name == "duckdb"


def test_errors_name_a_destination_as_it_was_given(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "clicks").write_text("my only copy, which is no database")
    pipeline = local_pipeline("sqlite", tmp_path / "clicks", pipelines_dir=tmp_path)
    with pytest.raises(ExportError, match=r"^sqlite failed: "):
        load(pipeline, slashtag_source(**options(box)))


@pytest.mark.parametrize(("destination", "package"), [("sqlite", "sqlalchemy"), ("postgres", "psycopg2")])
def test_a_missing_package_of_a_destination_is_named(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, destination: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in [name for name in sys.modules if name.startswith(f"dlt.destinations.impl.{destination}")]:
        monkeypatch.delitem(sys.modules, module)
    path = tmp_path / "clicks" if destination == "sqlite" else None
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", "postgresql://loader:x@127.0.0.1:1/clicks")
    with pytest.raises(ConfigurationError, match=r"pip install \"dlt\["):
        load(local_pipeline(destination, path, pipelines_dir=tmp_path), slashtag_source(**options(box)))
    assert not box.requests


def test_a_destination_that_is_not_configured_is_refused(box: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="set DESTINATION__POSTGRES__CREDENTIALS"):
        load(local_pipeline("postgres", pipelines_dir=tmp_path), slashtag_source(**options(box)))
    assert not box.requests


@pytest.mark.unmeasured
@pytest.mark.parametrize("target", ["postgres", "sqlite"], indirect=True)
def test_a_destination_into_which_another_loads_is_refused(
    box: Sandbox, clock: Clock, target: Target
) -> None:
    target.load_first(box, since=clock.today)
    with _destination_locked(target.pipeline()), pytest.raises(ExportError, match="is under way"):
        target.load(box)
    target.load(box)
    assert target.daily() == truth(box, clock.today)


@pytest.mark.parametrize(
    ("destination", "name"),
    [("duckdb", "a?b"), ("sqlite", "a?b"), ("sqlite", "a%20b"), ("filesystem", "[b]")],
)
def test_a_path_that_would_be_read_as_another_is_refused(destination: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"^{destination} cannot have . in a path"):
        local_pipeline(destination, tmp_path / name / "clicks", pipelines_dir=tmp_path / "pipelines")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["", "data", "./data", "~/data"])
def test_without_an_absolute_folder_of_data_dlt_uses_that_of_the_user(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("DLT_DATA_DIR")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", given)
    monkeypatch.setattr("os.geteuid", lambda: 1000, raising=False)
    pipeline = local_pipeline("filesystem", tmp_path / "clicks")
    assert Path(pipeline.working_dir).is_relative_to(home / ".dlt" / "pipelines")
    assert not list(here.iterdir())
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (home / ".dlt").rename(home / "dlt")  # dlt prefers it where it is there
    pipeline = local_pipeline("filesystem", tmp_path / "clicks")
    assert Path(pipeline.working_dir).is_relative_to(tmp_path / "data" / "dlt" / "pipelines")


@pytest.mark.parametrize("named", ["--pipelines-dir", "DLT_DATA_DIR", None])
def test_one_folder_that_can_be_written_is_enough(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DLT_DATA_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    if named == "DLT_DATA_DIR":
        monkeypatch.setenv(named, str(tmp_path / "dlt"))
    given = str(tmp_path / "dlt") if named == "--pipelines-dir" else None
    # dlt decides where its folders are when it is imported.
    code = f"""
import os, sys, tempfile
tempfile._candidate_tempdir_list = lambda: [{str(tmp_path / "none")!r}]
os.geteuid = lambda: 1000
from slashtag import ConfigurationError
from slashtag.dlt import local_pipeline
try:
    print(local_pipeline("duckdb", {str(tmp_path / "a.duckdb")!r}, pipelines_dir={given!r}).working_dir)
    print(tempfile.gettempdir())
except ConfigurationError as error:
    sys.exit(str(error))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert not ran.stderr.startswith("Traceback")
    if named is None:
        assert (ran.returncode, "DLT_DATA_DIR" in ran.stderr) == (1, True)
    else:
        assert all(line.startswith(str(tmp_path / "dlt")) for line in ran.stdout.split())
        assert len(ran.stdout.split()) == 2


def test_temporary_files_go_to_the_folder_of_data_where_no_other_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    local_pipeline("filesystem", tmp_path / "clicks")
    assert tempfile.gettempdir() == str(tmp_path / "dlt")


def test_telemetry_is_off_unless_the_user_turned_it_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNTIME__DLTHUB_TELEMETRY", raising=False)
    local_pipeline("filesystem", tmp_path / "a", pipelines_dir=tmp_path)
    assert anon_tracker._ANON_TRACKER_ENDPOINT is None
    assert not dlt.current.run_context().runtime_config.dlthub_telemetry
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "true")
    monkeypatch.setattr(anon_tracker, "track", lambda *_: None)
    local_pipeline("duckdb", tmp_path / "a.duckdb", pipelines_dir=tmp_path)
    assert dlt.current.run_context().runtime_config.dlthub_telemetry
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    local_pipeline("duckdb", tmp_path / "a.duckdb", pipelines_dir=tmp_path)


@pytest.mark.unmeasured
def test_credentials_come_from_the_configuration_of_dlt(
    box: Sandbox, clock: Clock, duck: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("base_url", "apikey", "apisecret"):
        monkeypatch.setenv(f"SOURCES__SLASHTAG__{name.upper()}", getattr(box, name))
    load(duck.pipeline(), slashtag_source(since=START.isoformat()))
    assert duck.daily() == truth(box, clock.today)


@pytest.mark.unmeasured
def test_a_first_load_that_is_killed_goes_on_and_is_merged_once(
    box: Sandbox, duck: Target, tmp_path: Path
) -> None:
    box.latency = 0.03
    options = {"since": "2024-01-01", "session_options": {"concurrency": 4}}
    with duck.start(box, datetime.now(UTC), **options) as running:
        while len(settled(box)) < 20 and running.poll() is None:
            time.sleep(0.01)
        # All but the last four were answered, and come into the journal.
        known = settled(box)[:-4]
        arrivals = (each for each in list(box.requests) if name_of(each) in known)
        names = asked(arrivals, box.truth.urls())
        while not names <= committed(next((tmp_path / "pipelines").rglob("*.journal"))):
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL
    box.latency = 0.0
    forget(box)
    duck.load(box, **options)
    assert set(known).isdisjoint(settled(box))
    true = box.truth.range("2024-01-01", "2100-01-01")
    assert sum(duck.daily().values()) == true.total_clicks
    assert not list((tmp_path / "pipelines").rglob("*.journal"))


def name_of(arrival: Arrival) -> tuple[object, ...]:
    """What tells the first request for a batch from its confirmation, and both from others."""
    return arrival.no_cache, *sorted(arrival.query.items())


def settled(box: Sandbox) -> list[tuple[object, ...]]:
    """The requests for windows that ended in 2024, in the order in which they came."""
    ends = ((each, each.query.get("date_range", "").partition(",")[2]) for each in list(box.requests))
    return [name_of(each) for each, end in ends if end.startswith("2024")]


CLASHING = ("slashtag.duckdb", "Slashtag.duckdb", "slashtag.2024.duckdb", ".SLASHTAG", "slashtag_staging.db")


@pytest.mark.parametrize(
    "name", [*CLASHING, "2024.slashtag.duckdb", "a\"b'c.duckdb", "main.duckdb", "slashtag_data.duckdb"]
)
def test_a_dataset_is_called_otherwise_than_its_database(tmp_path: Path, name: str) -> None:
    dataset = local_pipeline("duckdb", tmp_path / name, pipelines_dir=tmp_path).dataset_name
    assert dataset == ("slashtag_data" if name in CLASHING else "slashtag")


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", ["slashtag.2024.duckdb", "SLASHTAG_staging.db", "2024 ünï \"b'c.duckdb"])
def test_a_duckdb_file_may_have_any_name(box: Sandbox, clock: Clock, tmp_path: Path, name: str) -> None:
    target = local("duckdb", tmp_path)
    target.arguments["path"] = tmp_path / name
    target.load(box, since=clock.today)
    clock.today += DAY
    target.load(box, since=clock.today)
    dataset = target.pipeline().dataset_name
    with duckdb.connect(str(tmp_path / name)) as file:
        found = file.execute(f"SELECT count(DISTINCT date) FROM {dataset}.clicks_daily").fetchall()
    assert found == [(2,)]


@pytest.mark.unmeasured
def test_two_duckdb_files_of_one_stem_are_two_warehouses(box: Sandbox, clock: Clock, tmp_path: Path) -> None:
    true = {cell: n for cell, n in truth(box, clock.today).items() if cell[1] == clock.today}
    for name, zeros in (("clicks.1.duckdb", True), ("clicks.2.duckdb", False)):
        target = local("duckdb", tmp_path)
        target.arguments["path"] = tmp_path / name
        target.load(box, since=clock.today, zeros=zeros)
        assert target.daily() == {cell: n for cell, n in true.items() if n or zeros}


def test_a_duckdb_file_that_cannot_be_told_from_a_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has a schema of that name"):
        local_pipeline("duckdb", tmp_path / "Information_Schema.duckdb", pipelines_dir=tmp_path)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("target", "links"),
    [("duckdb", 0), ("sqlite", 2), ("postgres", 0), ("filesystem", 2)],
    indirect=["target"],
)
def test_every_table_is_there_from_the_first_load_on(target: Target, links: int) -> None:
    with Sandbox(urls=0, clicks=0, tags=0) as box, simulated_clock(box) as clock:

        def load() -> None:
            target.load(box, by_tag=True, dimensions=("country",), since=clock.today)

        for n in range(links):
            box.add_url(f"link-{n}")
        load()
        if target.arguments["destination"] != "filesystem":
            assert (len(target.rows("links")), target.rows("tags")) == (links, [])
        assert len(target.rows("clicks_daily")) == links
        assert target.rows("clicks_by_tag") == target.rows("clicks_by_dimension") == []
        # What comes later is loaded into them.
        box.add_tag("spring")
        box.add_click(box.add_url("new", tag="spring"), datetime.combine(clock.today, clock_time(9), UTC))
        load()
        assert len(target.rows("clicks_daily")) == links + 1
        assert [row[2] for row in target.rows("clicks_by_tag")] == [1]
        assert [row[4] for row in target.rows("clicks_by_dimension")] == [1]


@pytest.mark.parametrize(
    "target", ["filesystem", pytest.param("duckdb", marks=pytest.mark.unmeasured)], indirect=True
)
def test_a_warehouse_is_bound_to_its_account(
    box: Sandbox, clock: Clock, target: Target, tmp_path: Path
) -> None:
    target.load_first(box, since=clock.today)
    state = state_of(target)
    assert box.apikey not in str(state)
    with Sandbox(urls=5, clicks=5, apikey="the-key-of-another-account") as other:
        named = {"apikey": other.apikey, "apisecret": other.apisecret}
        with pytest.raises(ConfigurationError, match="another account"):
            target.load(box, since=clock.today, base_url=other.base_url, **named)
        assert not other.requests
    # A secret may be replaced: the account stays the same, though the service knows only the old one here.
    with pytest.raises(AuthenticationError):
        target.load(box, since=clock.today, apisecret="a-new-secret-567")
    forget(box)
    assert target.load(box, since=clock.today)["links"] == 130
    assert state_of(target)["account"] == state["account"]


def state_of(target: Target) -> dict[str, Any]:
    """What the destination keeps of the source."""
    pipeline = target.pipeline()
    pipeline.sync_destination()
    return dict(pipeline.state["sources"]["slashtag"])
