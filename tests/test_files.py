"""A file appears whole or not at all; paths that are none are refused."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from slashtag import ExportError, InvalidRequestError, RequestTimeoutError
from slashtag._files import check_local_path, object_url
from slashtag.tables import AtomicFile

from .support.processes import python


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, data: bytes = b"whole") -> None:
    with AtomicFile(path) as target:
        target.write(data)


def refused(path: Path | str, match: str) -> None:
    with pytest.raises(ExportError, match=match):
        AtomicFile(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# --- a file is whole -----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, b"before"])
def test_it_has_its_name_only_once_it_is_whole_and_durable(
    tmp_path: Path, before: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.csv"
    if before is not None:
        path.write_bytes(before)
    synced = list[tuple[str, list[str]]]()

    def note(handle: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{handle}"), names(tmp_path)))

    monkeypatch.setattr(os, "fsync", note)
    with AtomicFile(path) as target:
        target.write(b"whole")
        assert (path.read_bytes() if path.exists() else None) == before
    assert path.read_bytes() == b"whole"
    assert synced[0][0].endswith(".part")
    assert synced[1:] == [(str(tmp_path), ["out.csv"])]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RequestTimeoutError("late"), OSError("x")])
def test_an_error_leaves_no_trace_and_stays_itself(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    with pytest.raises(type(error)) as raised, AtomicFile(path) as target:  # noqa: PT012
        target.write(b"half")
        raise error
    assert raised.value is error
    assert (path.read_bytes(), names(tmp_path)) == (b"before", ["out.csv"])


def test_of_two_writers_of_a_file_the_last_to_end_is_it(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with AtomicFile(path) as one:
        write(path, b"other")
        one.write(b"one")
        assert path.read_bytes() == b"other"
    assert (path.read_bytes(), names(tmp_path)) == (b"one", ["out.csv"])


@pytest.mark.parametrize("written", [0, 300_000])
def test_a_writer_that_is_killed_leaves_what_was_there(tmp_path: Path, written: int) -> None:
    script = """if True:
        import os, sys
        from slashtag.tables import AtomicFile
        AtomicFile(sys.argv[1]).write(b"half" * int(sys.argv[2]))
        os.kill(os.getpid(), 9)
    """
    path = tmp_path / "out.csv"
    write(path, b"before")
    python("-c", script, path, written)
    assert path.read_bytes() == b"before"
    write(path)
    assert path.read_bytes() == b"whole"


FULL = """
import resource, sys
from slashtag import ExportError
from slashtag.export import URLS
from slashtag.tables import open_table

before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
row = (1, "x" * 50, "y" * 50, "z" * 50, 1, 301, None, None, None)
try:
    with open_table(sys.argv[1], URLS) as out:
        for n in range(400):
            out.write([(n * 7919 % 10**6, str(hash(str(n * i))) * 3, *row[2:]) for i in range(50)])
except ExportError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, before)  # what measures the tests writes files of its own
"""


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet", "out.xlsx"])
def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    path, temporary = tmp_path / name, tmp_path / "temporary"
    path.write_bytes(b"before")
    temporary.mkdir()
    # -B: a compiled module that the limit cuts would end the processes of other tests.
    ran = python("-B", "-X", "dev", "-c", FULL, path, env={**os.environ, "TMPDIR": str(temporary)})
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search("cannot be written: .*File too large", ran.stdout)
    assert path.read_bytes() == b"before"
    assert (names(temporary), names(tmp_path)) == ([], [name, temporary.name])


# --- modes, links and names ----------------------------------------------------------------------------


def test_where_no_mode_can_be_set_the_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "out.csv"
    write(path, b"before")
    monkeypatch.setattr(Path, "chmod", refuse)
    write(path)
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_is_as_public_as_the_umask_allows(tmp_path: Path, mask: int, expected: int) -> None:
    with umask(mask):
        write(tmp_path / "out.csv")
    assert mode(tmp_path / "out.csv") == expected


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o200])
def test_a_private_file_is_private_while_it_is_written(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "out.csv"
    path.touch()
    path.chmod(kept)
    with umask(0), AtomicFile(path) as target:
        target.write(b"whole")
        (part,) = tmp_path.glob(".*.part")
        assert mode(part) == kept
    assert mode(path) == kept


@pytest.mark.parametrize("before", [None, b"before"])
def test_a_target_that_is_a_link_stays_one(tmp_path: Path, before: bytes | None) -> None:
    there, link = tmp_path / "there", tmp_path / "link.csv"
    there.mkdir()
    link.symlink_to(there / "real.csv")
    if before is not None:
        (there / "real.csv").write_bytes(before)
    write(link)
    assert (link.is_symlink(), (there / "real.csv").read_bytes()) == (True, b"whole")
    assert (names(tmp_path), names(there)) == (["link.csv", "there"], ["real.csv"])


def test_a_name_as_long_as_names_can_be_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".csv")
    write(path)
    assert path.read_bytes() == b"whole"


def test_what_cannot_be_written_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for path, why in (
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "not a regular file"),
        (Path(os.devnull), "not a regular file"),
        (tmp_path / "missing" / "out.csv", "No such file"),
        (tmp_path / "file" / "out.csv", "Not a directory"),
        ("", "cannot be"),
        ("a\0b", "cannot be"),
        ("\ud800", "cannot be"),
    ):
        refused(path, why)
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(tmp_path / "file", "read-only")
    assert names(tmp_path) == ["file", "pipe"]


def test_a_folder_that_is_or_becomes_read_only_is_told_and_hides_no_other_error(tmp_path: Path) -> None:
    for folder in tmp_path.parents:  # everybody may look into it
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest", "popen")):
            folder.chmod(0o755)
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    whole, half = AtomicFile(path), AtomicFile(tmp_path / "other.csv")
    tmp_path.chmod(0o555)
    root = os.geteuid() == 0
    os.seteuid(65534 if root else os.geteuid())  # no more rights than modes give
    try:
        with pytest.raises(ExportError, match="cannot be written: "):
            whole.commit()
        with pytest.raises(RequestTimeoutError), half:
            raise RequestTimeoutError("late")
        refused(tmp_path / "new.csv", "Permission denied")
    finally:
        os.seteuid(0 if root else os.geteuid())
    assert path.read_bytes() == b"before"


# --- paths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://bucket/a.csv", "s3://bucket/a.csv"),
        (Path("s3://bucket/a.csv"), "s3://bucket/a.csv"),
        ("GS://bucket/a b", "gs://bucket/a b"),
        ("a.csv", None),
        ("C:\\a.csv", None),
        ("c:/a.csv", None),
        ("s3:", None),
    ],
)
def test_what_is_a_path_here_and_what_is_in_a_bucket(path: str | Path, url: str | None) -> None:
    assert object_url(path) == url
    with pytest.raises(InvalidRequestError) if url else nullcontext():
        check_local_path(path)


@pytest.mark.parametrize("path", ["s3://key:password@bucket/a.csv", "s3:///", "s3://", "https://host/a.csv"])
def test_a_bucket_with_credentials_or_without_a_name_and_another_url_are_refused(path: str) -> None:
    with pytest.raises(InvalidRequestError) as told:
        object_url(path)
    assert "password" not in str(told.value)
