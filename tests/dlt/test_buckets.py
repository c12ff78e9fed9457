"""Warehouses and exports in a bucket, over the loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from slashtag import ExportError
from slashtag.dlt import audit
from slashtag.sandbox import Sandbox
from slashtag.tables import Column, Table, open_table
from tests.support.buckets import s3_server
from tests.support.warehouses import DAY, Clock, Target, sql_rows, truth


@pytest.fixture
def bucket() -> Iterator[Any]:
    if not os.environ.get("CI"):
        pytest.importorskip("moto")
        pytest.importorskip("s3fs")
    with s3_server("lake") as system:
        yield system


@pytest.mark.unmeasured
@pytest.mark.filterwarnings("ignore")
def test_loads_into_a_bucket_are_the_truth(box: Sandbox, clock: Clock, bucket: Any, tmp_path: Path) -> None:
    target = Target({"destination": None, "path": "s3://lake/a", "pipelines_dir": tmp_path}, sql_rows)
    link = box.truth.urls()[0].slashtag
    for _ in range(2):
        # The hits of a link say that it has late clicks: the second load reads what the bucket holds.
        box.add_click(link, "2024-02-20T12:00:00+00:00", times=2)
        target.load(box)
        found = {}
        bucket.invalidate_cache()
        files = sorted(
            bucket.glob("lake/a/slashtag/clicks_daily/*/*.parquet"), key=lambda name: name.split("/")[-1]
        )
        for file in files:
            for row in pyarrow.parquet.read_table(bucket.open(file)).to_pylist():
                found[row["slashtag"], row["date"]] = row["clicks"]
        assert found == truth(box, clock.today)
        assert len(bucket.glob("lake/a/slashtag/links/*.parquet")) == 1
        clock.today += DAY
    assert {file.split("/")[4] for file in files} == {"2024-02", "2024-03"}
    login = {"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret}
    assert audit(target.pipeline(), **login).differences == ()
    box.add_click(link, "2024-02-20T12:00:00+00:00")
    (difference,) = audit(target.pipeline(), repair=True, **login).repaired
    assert (difference.slashtag, difference.date) == (link, date(2024, 2, 20))
    assert audit(target.pipeline(), **login).differences == ()


@pytest.mark.filterwarnings("ignore")
def test_a_bucket_that_is_not_there_is_told_before_anything_is_sent(
    box: Sandbox, clock: Clock, bucket: Any, tmp_path: Path
) -> None:
    other = Target({"destination": None, "path": "s3://none/a", "pipelines_dir": tmp_path}, sql_rows)
    with pytest.raises(ExportError, match="check the bucket none"):
        other.load(box)
    assert not box.requests
    other.arguments["path"] = "s3://lake/b"
    assert other.load(box, since=clock.today)["links"] == 130


@pytest.mark.filterwarnings("ignore")
def test_an_object_appears_whole_or_not_at_all(bucket: Any) -> None:
    table = Table((Column("n", "int"),))
    with open_table("s3://lake/x/n.parquet", table) as writer:
        writer.write([(1,), (2,)])
        assert not bucket.exists("lake/x/n.parquet")
    bucket.invalidate_cache()
    assert pyarrow.parquet.read_table(bucket.open("lake/x/n.parquet")).to_pylist() == [{"n": 1}, {"n": 2}]
    with pytest.raises(RuntimeError), open_table("s3://lake/x/m.csv", table):
        raise RuntimeError
    with pytest.raises(ExportError, match="check the bucket none"), open_table("s3://none/n.csv", table):
        pass
    bucket.invalidate_cache()
    assert bucket.ls("lake/x") == ["lake/x/n.parquet"]
