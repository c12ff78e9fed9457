"""Functions in a thread, and paths that are none."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from slashtag import InvalidRequestError
from slashtag._files import check_local_path, in_thread, object_url, running_loop


async def test_a_function_in_a_thread_ends_before_its_caller_even_if_that_is_cancelled() -> None:
    go_on, ended = threading.Event(), list[int]()

    def work() -> int:
        go_on.wait(60)
        ended.append(1)
        return 7

    call = asyncio.ensure_future(in_thread(work))
    for _ in range(3):
        await asyncio.sleep(0.01)
        call.cancel()
    assert not call.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended == [1]
    assert await in_thread(work) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://bucket/a.csv", "s3://bucket/a.csv"),
        (Path("s3://bucket/a.csv"), "s3://bucket/a.csv"),
        ("GS://bucket/a b", "gs://bucket/a b"),
        ("a.csv", None),
        ("C:\\a.csv", None),
        ("c:/a.csv", None),
        ("https://host/a.csv", None),
        ("s3:", None),
    ],
)
def test_what_is_a_path_here_and_what_is_in_a_bucket(path: str | Path, url: str | None) -> None:
    assert object_url(path) == url
    is_url = url is not None or str(path).startswith("https:")
    with pytest.raises(InvalidRequestError) if is_url else nullcontext():
        check_local_path(path)


@pytest.mark.parametrize("path", ["s3://key:password@bucket/a.csv", "s3:///", "s3://"])
def test_a_bucket_with_credentials_or_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequestError) as told:
        object_url(path)
    assert "password" not in str(told.value)


def test_without_a_loop_it_says_what_is_needed() -> None:
    with pytest.raises(ValueError, match="asyncio"):
        running_loop()
