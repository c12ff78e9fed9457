"""Warehouses and exports in a bucket, over the loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from datetime import time as clock_time
from pathlib import Path
from typing import Any

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")

import pyarrow.parquet

from slashtag import ExportError
from slashtag.dlt import audit
from slashtag.sandbox import Sandbox
from slashtag.tables import Column, Table, open_table
from tests.support.buckets import rows_in_bucket, s3_server
from tests.support.warehouses import DAY, START, Clock, Target, truth


@pytest.fixture
def bucket() -> Iterator[Any]:
    """Serve S3 with a bucket `lake`, and return a file system on it."""
    with s3_server("lake") as system:
        yield system


@pytest.mark.filterwarnings("ignore")
def test_loads_into_a_bucket_are_the_truth(box: Sandbox, clock: Clock, bucket: Any, tmp_path: Path) -> None:
    place = {"destination": None, "path": "s3://lake/a", "pipelines_dir": tmp_path}
    target = Target(place, rows_in_bucket)
    login = {"base_url": box.base_url, "apikey": box.apikey, "apisecret": box.apisecret}
    for _ in range(2):
        target.load(box)
        assert target.daily() == truth(box, clock.today)
        bucket.invalidate_cache()
        assert len(bucket.glob("lake/a/slashtag/links/*.parquet")) == 1
        assert audit(target.pipeline(), **login).is_proved
        clock.today += DAY
        # Later than the lookback: the next load looks into the bucket for what it holds of that day.
        box.add_click(box.truth.urls()[0].id, datetime.combine(START + DAY, clock_time(9), UTC))
    files = bucket.glob("lake/a/slashtag/clicks_daily/*/*.parquet")
    assert {file.split("/")[4] for file in files} == {"2024-02", "2024-03"}
    other = Target({**place, "path": "s3://none/a"}, rows_in_bucket)
    box.requests.clear()
    with pytest.raises(ExportError, match="check the bucket none"):
        other.load(box)
    assert not box.requests


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
