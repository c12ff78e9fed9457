"""A file appears whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slashtag import ExportError, RequestTimeoutError
from slashtag.tables import AtomicFile, check_table_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, data: bytes = b"whole") -> None:
    with AtomicFile(path) as target:
        target.write(data)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Have no more rights than a file's mode gives."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [None, b"before"])
def test_it_has_its_name_only_once_it_is_whole(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "out.csv"
    if before is not None:
        path.write_bytes(before)
    with AtomicFile(path) as target:
        target.write(b"whole")
        assert (path.read_bytes() if path.exists() else None) == before
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["out.csv"]


def test_its_name_is_durable_before_what_it_was_made_from_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append((os.readlink(f"/proc/self/fd/{handle}"), names(tmp_path)))
    )
    write(tmp_path / "out.csv")
    assert synced[0][0].endswith(".part")
    ((folder, found),) = synced[1:]
    assert (folder, found) == (str(tmp_path), ["out.csv"])


@pytest.mark.parametrize(
    "error", [ValueError(), KeyboardInterrupt(), RequestTimeoutError("late"), OSError("x")]
)
def test_an_error_leaves_no_trace_and_stays_itself(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    with pytest.raises(type(error)) as raised, AtomicFile(path) as target:  # noqa: PT012
        target.write(b"half")
        raise error
    assert raised.value is error
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["out.csv"]


def test_of_two_writers_of_a_file_the_last_to_end_is_it(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with AtomicFile(path) as one:
        write(path, b"other")
        one.write(b"one")
        assert path.read_bytes() == b"other"
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("written", range(0, 400_000, 100_000))
def test_a_writer_that_is_killed_leaves_what_was_there(tmp_path: Path, written: int) -> None:
    script = """if True:
        import os, sys
        from slashtag.tables import AtomicFile
        AtomicFile(sys.argv[1]).write(b"half" * int(sys.argv[2]))
        os.kill(os.getpid(), 9)
    """
    path = tmp_path / "out.csv"
    write(path, b"before")
    subprocess.run([sys.executable, "-c", script, str(path), str(written)])
    assert path.read_bytes() == b"before"
    write(path)
    assert path.read_bytes() == b"whole"


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


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
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


def test_a_target_that_is_a_link_stays_one(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    link = tmp_path / "link.csv"
    for before in (None, b"before"):
        link.unlink(missing_ok=True)
        link.symlink_to(there / "real.csv")
        if before is not None:
            (there / "real.csv").write_bytes(before)
        write(link)
        assert link.is_symlink()
        assert (there / "real.csv").read_bytes() == b"whole"
        assert (names(tmp_path), names(there)) == (["link.csv", "there"], ["real.csv"])


def test_a_name_as_long_as_names_can_be_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".csv")
    write(path)
    assert path.read_bytes() == b"whole"


def refused(path: Path, match: str) -> None:
    with pytest.raises(ExportError, match=match):
        AtomicFile(path)


def test_a_folder_a_device_and_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    refused(tmp_path, "is a folder")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "not a regular file")
    refused(Path(os.devnull), "not a regular file")
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize(
    ("name", "match"), [("", "cannot be"), ("a\0b", "cannot be"), ("\ud800", "cannot be")]
)
def test_a_path_that_cannot_be_one_is_told_at_once(name: str, match: str) -> None:
    with pytest.raises(ExportError, match=match):
        AtomicFile(name)
    if name:
        with pytest.raises(ExportError):
            check_table_path(f"{name}.csv")


def test_a_missing_folder_is_told_at_once(tmp_path: Path) -> None:
    refused(tmp_path / "missing" / "out.csv", "No such file")
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "out.csv", "Not a directory")


@pytest.fixture
def open_to_all(tmp_path: Path) -> Path:
    """A folder that everybody can look into."""
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest", "popen")):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    return tmp_path


def test_a_folder_that_cannot_be_written_is_told_at_once(open_to_all: Path) -> None:
    open_to_all.chmod(0o555)
    with unprivileged():
        refused(open_to_all / "out.csv", "Permission denied")
    assert names(open_to_all) == []


def test_a_folder_that_has_become_read_only_is_told_and_hides_no_other_error(open_to_all: Path) -> None:
    path = open_to_all / "out.csv"
    path.write_bytes(b"before")
    whole, half = AtomicFile(path), AtomicFile(open_to_all / "other.csv")
    open_to_all.chmod(0o555)
    with unprivileged():
        with pytest.raises(ExportError, match="cannot be written: "):
            whole.commit()
        with pytest.raises(RequestTimeoutError), half:
            raise RequestTimeoutError("late")
    assert path.read_bytes() == b"before"


def test_a_read_only_file_is_refused_at_once(open_to_all: Path) -> None:
    path = open_to_all / "out.csv"
    path.touch()
    path.chmod(0o444)
    if os.geteuid():
        refused(path, "read-only")
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "access", lambda *_: False)
            refused(path, "read-only")


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
    path = tmp_path / name
    path.write_bytes(b"before")
    # -B: a compiled module that the limit cuts would end the processes of other tests.
    command = [sys.executable, "-B", "-X", "dev", "-c", FULL, str(path)]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert re.search("cannot be written: .*File too large", run.stdout)
    assert path.read_bytes() == b"before"
    assert names(temporary) == []
    assert names(tmp_path) == [name, temporary.name]
