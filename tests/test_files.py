"""Locks of paths: one holder at a time, among objects and processes, whatever becomes of a holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag import _files
from slashtag._files import FileLock, lock_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")

HOLDER = """
import sys
from pathlib import Path
from slashtag._files import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locks")


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_of_all_locks_of_a_path_one_is_held_at_most(folder: Path, steps: list[tuple[int, bool]]) -> None:
    locks = [FileLock(folder / "a") for _ in range(4)]
    holder: int | None = None
    for n, acquires in steps:
        if acquires:
            assert locks[n].acquire() is (holder in (None, n))
            holder = n if holder is None else holder
        else:
            locks[n].release()
            holder = None if holder == n else holder
        assert [lock.is_held for lock in locks] == [n == holder for n in range(4)]
    for lock in locks:
        lock.release()
    assert list(folder.iterdir()) == []


def test_a_file_that_its_holder_removes_while_another_opens_it_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late, next_one = (FileLock(tmp_path / "a") for _ in range(3))
    assert first.acquire()

    def overtaken(handle: int) -> bool:
        # The file is open, and not locked yet.
        monkeypatch.setattr(_files, "lock_file", lock_file)
        first.release()
        assert next_one.acquire()
        return lock_file(handle)

    monkeypatch.setattr(_files, "lock_file", overtaken)
    assert not late.acquire()
    assert [lock.is_held for lock in (first, late, next_one)] == [False, False, True]
    next_one.release()


def test_a_process_that_is_killed_has_lost_its_lock_and_leaves_a_file_that_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        lock = FileLock(path)
        assert (lock.acquire(), lock.is_held) == (False, False)
        other.kill()
    assert [file.name for file in tmp_path.iterdir()] == ["a.lock"]
    assert lock.acquire()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_belongs_to_what_a_path_leads_to_and_needs_no_file_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    one, other = FileLock(tmp_path / "link"), FileLock(tmp_path / "a")
    assert (one.acquire(), other.acquire()) == (True, False)
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "a.lock").stat().st_mode & 0o777 == 0o600
    one.release()


def test_a_path_where_no_lock_can_be_is_an_error(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "missing" / "a")
    with pytest.raises(OSError, match="No such file"):
        lock.acquire()
    assert not lock.is_held
    lock.release()


@pytest.mark.parametrize(
    ("platform", "kind", "variables", "found"),
    [
        ("win32", "config", {"APPDATA": "/data"}, "/data/slashtag"),
        ("win32", "state", {"LOCALAPPDATA": "/local"}, "/local/slashtag"),
        ("win32", "state", {"LOCALAPPDATA": "", "HOME": "relative"}, None),
        ("darwin", "config", {"HOME": "/home"}, "/home/Library/Application Support/slashtag"),
        ("darwin", "config", {"HOME": "relative"}, None),
    ],
)
def test_folders_on_other_systems_are_those_that_are_usual_there(
    monkeypatch: pytest.MonkeyPatch, platform: str, kind: Any, variables: dict[str, str], found: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_files.sys, "platform", platform)
    assert _files.user_folder(kind) == (found and Path(found))


def test_a_child_that_was_forked_leaves_the_locks_to_its_parent(tmp_path: Path) -> None:
    lock, other = FileLock(tmp_path / "a"), FileLock(tmp_path / "a")
    assert lock.acquire()
    _files._forget_in_child()
    assert not lock.is_held
    lock.release()
    assert (tmp_path / "a.lock").exists()
    assert other.acquire()
    other.release()
