"""The file of outcomes: durable before anything is sent, whole lines, of one account, and without secrets."""

from __future__ import annotations

import json
import os
import resource
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from slashtag import AsyncSession, Change, ExportError, InvalidRequestError
from slashtag.bulk_update import BulkUpdate
from slashtag.sandbox import Sandbox
from tests.support.sending import connect
from tests.support.wire import Answer, Request, Wire, ok

from .conftest import puts

ACCOUNT = {"urls": 0, "clicks": 0}
CHANGES = [Change(f"a{n}", redirect_code=307, password="hush") for n in range(20)]


async def run(session: AsyncSession, path: Path) -> list[str]:
    async with BulkUpdate(session, CHANGES, outcomes=path) as update:
        return [outcome.status async for outcome in update]


async def test_links_are_recorded_before_the_first_change_is_sent_and_only_their_owner_reads_it(
    box: Sandbox, session: AsyncSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, durable, fsync = tmp_path / "told.jsonl", list[bytes](), os.fsync

    def look(handle: int) -> None:
        assert durable or puts(box) == 0
        fsync(handle)
        if os.fstat(handle).st_ino == path.stat().st_ino:  # and not the file that undoes it
            durable.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", look)
    assert await run(session, path) == ["done"] * 20
    seen = [json.loads(line) for line in durable[0].splitlines()]
    assert [line["is"] for line in seen] == ["heading", *["link"] * 20]
    assert all(line["base"]["redirect_code"] == 302 for line in seen[1:])
    assert b"hush" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_nothing_is_sent_where_the_record_is_not_durable(
    box: Sandbox, session: AsyncSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
    with pytest.raises(ExportError, match="Input/output error"):
        await run(session, tmp_path / "told.jsonl")
    assert puts(box) == 0


async def test_a_line_that_was_cut_is_written_anew(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    path = tmp_path / "told.results.jsonl"
    await run(session, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines)[:-10])
    # The password of one may have been sent or not.
    assert await run(session, path) == ["done"]
    assert [json.loads(line)["is"] for line in path.read_bytes().splitlines()].count("outcome") == 20
    path.with_name("told.undo.csv").unlink()
    for size in (3, 40):
        path.write_bytes(lines[0][:size])
        assert await run(session, path) == ["done"] * 20


async def test_a_full_disk_ends_the_run_and_spoils_no_line(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    path, before = tmp_path / "told.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    async with BulkUpdate(session, CHANGES, outcomes=path) as update:
        await anext(update)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
        try:
            with pytest.raises(ExportError, match="cannot be written"):
                [outcome async for outcome in update]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert set(await run(session, path)) == {"done"}
    assert await run(session, path) == []


@pytest.mark.parametrize(
    "content", ["my own notes", "{}\n", '{"is":"outcome","line":1}\n', '{"is":"x"}\n', "\xff\n"]
)
async def test_another_file_is_refused_and_left_as_it_is(
    box: Sandbox, session: AsyncSession, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "told.jsonl"
    path.write_text(content, "latin-1")
    with pytest.raises(ExportError, match="file of outcomes"):
        await run(session, path)
    assert path.read_text("latin-1") == content
    assert puts(box) == 0


def answer(request: Request) -> Answer:
    link = {"id": 1, "slashtag": "a1", "destination": "https://www.example/", "redirectCode": "302"}
    is_change = request.method == "PUT"
    return ok({"rows_updated": 1} if is_change else {"page": 1, "pageSize": 500, "items": [link]})


async def test_a_file_belongs_to_service_and_apikey_and_outlives_the_apisecret(tmp_path: Path) -> None:
    async def change(wire: Wire, name: str, password: str = "hush", **options: str) -> list[str]:
        async with connect(wire, **options) as session:
            update = BulkUpdate(session, [Change("a1", password=password)], outcomes=tmp_path / name)
            return [outcome.status async for outcome in update]

    async with Wire(answer) as wire, Wire(answer) as other:
        assert await change(wire, "told") == ["done"]
        content = (tmp_path / "told").read_bytes()
        assert await change(wire, "told", apisecret="another-secret-1") == []
        for elsewhere, options in ((other, {}), (wire, {"apikey": "another-key-of-the-tests"})):
            with pytest.raises(ExportError, match="another service or apikey"):
                await change(elsewhere, "told", **options)
        assert (tmp_path / "told").read_bytes() == content
        # A password is known by a hash that differs from file to file.
        assert await change(wire, "another") == ["done"]
        hashes = [
            json.loads((tmp_path / name).read_text().splitlines()[1])["hidden"]
            for name in ("told", "another")
        ]
        assert len({*hashes}) == 2
        assert await change(wire, "told", "another") == ["done"]


async def test_two_runs_with_one_file_are_one_too_many(
    box: Sandbox, session: AsyncSession, tmp_path: Path
) -> None:
    async with BulkUpdate(session, CHANGES, outcomes=tmp_path / "told.jsonl") as update:
        await anext(update)
        with pytest.raises(ExportError, match="another run writes to"):
            await run(session, tmp_path / "told.jsonl")


@pytest.mark.parametrize("outcomes", ["s3://user:pass-word@bucket/o.jsonl", "a\0b", "/dev/null/all.jsonl"])
async def test_a_path_that_cannot_be_one_is_told_before_anything_is_sent(
    box: Sandbox, session: AsyncSession, outcomes: str
) -> None:
    with pytest.raises((ExportError, InvalidRequestError)) as raised:
        async with BulkUpdate(session, CHANGES, outcomes=outcomes) as update:
            await anext(update)
    assert "pass-word" not in str(raised.value)
    assert box.requests == []
