"""`slashtag login` with the system's keyring: where secrets are, and what happens where it does not work."""

from __future__ import annotations

import os
import sys
import threading

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("keyring")

import keyring.core
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.backends.chainer import ChainerBackend
from keyring.errors import KeyringLocked

from slashtag.cli import credentials_file as kept
from slashtag.sandbox import Sandbox

from .conftest import APIKEY, APISECRET, Cli, answer


class Memory(KeyringBackend):
    """Keyring that keeps its entries in memory, and raises `error` if there is one."""

    priority = 5
    error: Exception | None = None
    hangs = False

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def _check(self) -> None:
        if self.hangs:
            threading.Event().wait()
        if self.error is not None:
            raise self.error

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        del self.entries[service, username]


def use(monkeypatch: pytest.MonkeyPatch, backend: KeyringBackend) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", backend)


@pytest.fixture
def memory(cli: Cli, nothing_set: None, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A keyring in which credentials were saved."""
    backend = Memory()
    use(monkeypatch, backend)
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    ran = cli("login")
    assert ran.err == "the service accepts them; saved in the system's keyring\n"
    return backend


def test_the_keyring_has_the_secrets_and_the_file_has_none(cli: Cli, memory: Memory, box: Sandbox) -> None:
    assert kept.path().read_text() == f'{{"base_url":"{box.base_url}"}}'
    assert list(memory.entries) == [("slashtag", "credentials")]
    assert cli("tags", "list").code == 0
    assert cli("login", "--list").out == f"(no name)\t{box.base_url}\n"
    assert cli("login", "--remove").code == 0
    assert memory.entries == {}
    assert not kept.path().exists()


@pytest.mark.parametrize("error", [KeyringLocked("locked"), RuntimeError("no bus"), OSError("broken")])
@pytest.mark.parametrize("command", [("tags", "list"), ("login", "--remove")])
def test_a_keyring_that_raises_is_told_in_one_line(
    cli: Cli,
    memory: Memory,
    box: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    error: Exception,
) -> None:
    memory.error = error
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    ran = cli(*command)
    assert ran.code == 1
    assert type(error).__name__ in ran.error
    assert kept.path().exists()


def test_a_keyring_that_hangs_is_told_and_new_credentials_are_saved_in_the_file(
    cli: Cli, memory: Memory, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.hangs = True
    monkeypatch.setattr(kept, "PATIENCE", 0.05)
    ran = cli("tags", "list")
    assert (ran.code, "does not answer" in ran.error) == (1, True)
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert str(kept.path()) in cli("login").error
    assert cli("tags", "list").code == 0


def test_a_locked_keyring_does_not_matter_to_the_environment(
    cli: Cli, memory: Memory, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.error = KeyringLocked("locked")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cli("tags", "list").code == 0
    assert cli("login", "--list").code == 0


@pytest.mark.parametrize("entry", [None, "", "[", "{}", '{"base_url": "http://127.0.0.1:1"}'])
def test_an_entry_that_is_gone_or_damaged_is_told(cli: Cli, memory: Memory, entry: str | None) -> None:
    if entry is None:
        memory.entries.clear()
    else:
        memory.entries["slashtag", "credentials"] = entry
    assert "run `slashtag login` again" in cli("tags", "list").error


def test_credentials_in_the_keyring_go_to_their_service_only(
    cli: Cli, memory: Memory, own: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLASHTAG_BASE_URL")
    kept.path().write_text(f'{{"base_url":"{own.base_url}"}}')
    assert "has none for this service" in cli("tags", "list").error
    assert own.requests == []


def test_without_a_keyring_that_is_fit_the_file_is_used(
    cli: Cli, memory: Memory, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyring.backend.get_all_keyring", list)
    for backend in (fail.Keyring(), null.Keyring(), ChainerBackend(), None):
        if backend is None:
            monkeypatch.setitem(sys.modules, "keyring", None)
        else:
            use(monkeypatch, backend)
        assert "not available here" in cli("tags", "list").error
        answer(monkeypatch, box.base_url, APIKEY, APISECRET)
        assert cli("login").err == f"the service accepts them; saved in {kept.path()}\n"
        assert cli("tags", "list").code == 0
        if backend is not None:
            use(monkeypatch, memory)
            answer(monkeypatch, box.base_url, APIKEY, APISECRET)
            cli("login")
            # What was saved in the file before has left it.
            assert APISECRET not in kept.path().read_text()
