"""What commands report to machines: lines of JSON, and the figures of a run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from slashtag.sandbox import Fault, Sandbox
from tests.support.sandboxes import refused_link

from .conftest import Cli, Serve, failing, names, objects

SPAN = ("2024-06-01", "2024-06-30")


def test_the_figures_of_a_run_are_in_a_file(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    target = tmp_path / "c.csv"
    ran = cli("export", "clicks", *SPAN, "--all", "-o", str(target), "--summary", str(file))
    assert ran.code == 0
    found = json.loads(file.read_text("utf-8"))
    assert (found["exit_code"], found["complete"], found["error"]) == (0, True, None)
    assert found["command"] == "slashtag export clicks"
    assert found["rows"] == len(target.read_text("utf-8").splitlines()) - 1
    assert found["attempts"] == len(box.requests)


def test_a_run_that_fails_has_figures_too(
    cli: Cli, serve: Serve, quick_retries: None, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    with serve(faults=[Fault(kind="403")]):
        ran = cli("stats", "alltime", "--all", "--summary", str(file))
    found = json.loads(file.read_text("utf-8"))
    assert (found["exit_code"], found["complete"]) == (ran.code, False) == (1, False)
    assert found["error"] in ran.err


def test_a_summary_that_cannot_be_written_is_told_before_anything_is_sent(
    cli: Cli, box: Sandbox, tmp_path: Path
) -> None:
    ran = cli("tags", "list", "--summary", str(tmp_path / "missing" / "run.json"))
    assert (ran.code, len(box.requests)) == (1, 0)


def lines(text: str) -> list[dict[str, Any]]:
    found = objects(text)
    assert all({"time", "level", "message"} <= line.keys() for line in found)
    return found


def test_each_line_is_an_object_and_the_last_one_is_the_summary(
    cli: Cli, serve: Serve, quick_retries: None, tmp_path: Path
) -> None:
    with serve(faults=[Fault(kind="500", times=1)]) as box:
        ran = cli("export", "tags", "-o", str(tmp_path / "t.csv"), "-v", "--log-format", "json")
        found = lines(ran.err)
        assert found[-1]["message"] == "summary"
        assert found[-1]["attempts"] == len(box.requests)
        retried = next(line for line in found if "attempt" in line)
        assert (retried["level"], retried["attempt"]) == ("warning", 1)
    ran = cli("stats", "range", *SPAN, "--keys", "no,such#slashtag", "--log-format", "json")
    assert [line["level"] for line in lines(ran.err)][-1] == "info"
    assert found[-1]["exit_code"] == 0


def test_a_warning_of_a_library_is_an_object_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object, **__: object) -> None:
        warnings.warn("of a library", stacklevel=2)
        raise RuntimeError("a bug")

    monkeypatch.setattr("slashtag._resources.listing.Resource.list", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warning, error, summary = lines(cli("tags", "list", "--log-format", "json").err)
    assert (warning["level"], error["level"], summary["level"]) == ("warning", "error", "info")


@pytest.mark.parametrize("arguments", [("--log-format", "json"), ("--log-format=json",)])
def test_wrong_usage_is_an_object_too(cli: Cli, arguments: tuple[str, ...]) -> None:
    ran = cli("stats", "range", *arguments, "--no-such-option")
    (line,) = lines(ran.err)
    assert (ran.code, line["level"]) == (2, "error")


def test_a_journal_of_another_account_is_refused_and_left_as_it_is(
    cli: Cli, box: Sandbox, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("export", "clicks", *SPAN, "--all", "-o", str(tmp_path / "c.jsonl"), "--max-failures", "0")
    with failing(box, Fault(kind="302", every=3, path="/api/v1/stats*")):
        assert cli(*command, "--concurrency", "1").code == 1
    content = (tmp_path / ".c.jsonl.journal").read_bytes()
    with serve(urls=5, clicks=5) as other:
        monkeypatch.setenv("SLASHTAG_APIKEY", other.apikey)
        monkeypatch.setenv("SLASHTAG_APISECRET", other.apisecret)
        ran = cli(*command)
    assert ran.code == 1
    assert "remove it to begin anew" in ran.err
    assert (tmp_path / ".c.jsonl.journal").read_bytes() == content
    assert names(tmp_path) == [".c.jsonl.journal"]


def test_files_of_clicks_say_what_they_are(
    cli: Cli, own: Sandbox, quick_retries: None, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    openpyxl = pytest.importorskip("openpyxl")
    expected = {"timezone": "Europe/Berlin", "span": "..".join(SPAN), "account": own.base_url + "/api/v1/"}
    command = ("export", "clicks", *SPAN, "--all", "--timezone", "Europe/Berlin", "-o")
    with refused_link(own, "a7", 403):
        ran = cli(*command, str(tmp_path / "c.parquet"))
    assert ran.code == 3
    assert f"span: {expected['span']}, complete: false, missing: a7" in ran.err
    found = parquet.read_metadata(tmp_path / "c.parquet").metadata
    said = {name: found[f"slashtag.{name}".encode()].decode() for name in (*expected, "complete", "missing")}
    assert said == {**expected, "complete": "false", "missing": "a7"}
    assert cli(*command, str(tmp_path / "c.xlsx")).code == 0
    about = openpyxl.load_workbook(tmp_path / "c.xlsx")["about"]
    workbook = dict(about.iter_rows(values_only=True))
    assert workbook == {**expected, "collected": workbook["collected"], "complete": "true"}
