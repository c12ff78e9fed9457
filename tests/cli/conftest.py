"""An account for the commands, and the command line, called in this process."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slashtag import RetryPolicy
from slashtag._saved_logins import login_path
from slashtag.bulk_update import COLUMNS
from slashtag.cli import main
from slashtag.sandbox import Fault, Sandbox
from tests.support.sandboxes import forget

VARIABLES = ("SLASHTAG_PROFILE", "SLASHTAG_TIMEZONE", "FORCE_COLOR", "TTY_COMPATIBLE")
APIKEY = "key-of-the-tests-0123456"
APISECRET = "secret-of-tests-7"


@dataclass
class Ran:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The single line of stderr, with nothing on stdout."""
        assert self.out == ""
        (line,) = self.err.splitlines()
        return line


Cli = Callable[..., Ran]
Serve = Callable[..., AbstractContextManager[Sandbox]]
Write = Callable[..., Path]


def objects(text: str) -> list[Any]:
    """The objects of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def names(folder: Path) -> list[str]:
    """The names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="session")
def shared_box() -> Iterator[Sandbox]:
    with Sandbox(urls=130, clicks=3_000, apikey=APIKEY, apisecret=APISECRET) as box:
        yield box


@pytest.fixture
def box(shared_box: Sandbox) -> Sandbox:
    """Serve the account that all tests share, with an empty record of requests."""
    forget(shared_box)
    return shared_box


@pytest.fixture
def environment(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Set the variables of the account and the width of piped output; no credentials are saved."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    named = {
        "SLASHTAG_BASE_URL": box.base_url,
        "SLASHTAG_APIKEY": box.apikey,
        "SLASHTAG_APISECRET": box.apisecret,
        "COLUMNS": "80",
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("config")),
    }
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    return named


@pytest.fixture
def cli(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Call main() as the installed script does."""
    # main() replaces the hooks; they are restored after the test.
    for hook in ("excepthook", "unraisablehook"):
        monkeypatch.setattr(sys, hook, getattr(sys, hook))

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["slashtag", *arguments])
        code = main()
        out, err = capsys.readouterr()
        assert APIKEY not in out + err
        assert APISECRET not in out + err
        return Ran(code, out, err)

    return run


@pytest.fixture
def nothing_set(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no credentials in the environment."""
    for name in ("SLASHTAG_BASE_URL", "SLASHTAG_APIKEY", "SLASHTAG_APISECRET"):
        monkeypatch.delenv(name)


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Have these lines on stdin."""
    text = "".join(f"{line}\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


@pytest.fixture
def logged_in(cli: Cli, nothing_set: None, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Save the credentials of the account in the file that is returned."""
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    ran = cli("login")
    assert (ran.code, ran.out, str(login_path()) in ran.err) == (0, "", True)
    return login_path()


@pytest.fixture
def serve(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[Sandbox]]:
    """Serve another account, by default of a few links, and name it in the environment."""

    @contextmanager
    def serve(**options: Any) -> Iterator[Sandbox]:
        given = {"urls": 3, "clicks": 3, "apikey": APIKEY, "apisecret": APISECRET, **options}
        with Sandbox(**given) as box:
            monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
            yield box

    return serve


@pytest.fixture
def own(serve: Serve) -> Iterator[Sandbox]:
    """Serve an account that tests may change: links a0 to a59 and the usual tags, no clicks."""
    with serve(urls=0, clicks=0) as box:
        for n in range(60):
            box.add_url(f"a{n}", destination=f"https://www.example/{n}", redirect_code=302, password="old")
        yield box


@contextmanager
def failing(box: Sandbox, *faults: Fault) -> Iterator[None]:
    """Let requests of the shared account fail."""
    box.faults = faults
    try:
        yield
    finally:
        box.faults = ()


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions have little patience, so that a service that is down is noticed sooner."""
    policy = RetryPolicy(max_attempts=2, backoff_base=0.001, max_elapsed=20)
    monkeypatch.setattr("slashtag._session.RetryPolicy", lambda: policy)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of changes, rows as dicts."""

    def write(*rows: dict[str, object], name: str = "changes.csv") -> Path:
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write


def puts(box: Sandbox) -> list[Any]:
    """The changes that arrived."""
    return [arrival for arrival in list(box.requests) if arrival.method == "PUT"]
