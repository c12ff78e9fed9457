"""`slashtag login`: what is saved, who may read it, and where it is sent."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from slashtag import _saved_logins as kept
from slashtag._core.secret import Secret
from slashtag.sandbox import Sandbox
from tests.support.sandboxes import forget

from .conftest import APIKEY, APISECRET, Cli, answer
from .test_entry import SCRIPT


def login(base_url: str) -> kept.Login:
    return kept.Login(base_url=base_url, apikey=Secret(APIKEY), apisecret=Secret(APISECRET))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
@pytest.mark.usefixtures("nothing_set")
def test_only_its_owner_may_read_it_whatever_the_umask(umask: int) -> None:
    kept.login_path().parent.mkdir()
    before = os.umask(umask)
    try:
        kept.save_login(login("http://127.0.0.1"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.login_path().stat().st_mode) == 0o600


def test_credentials_that_are_refused_are_not_kept(
    cli: Cli, nothing_set: None, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, APIKEY, "another-secret-42")
    ran = cli("login", "--base-url", box.base_url)
    assert ran.code == 1
    assert "401" in ran.error
    assert "another-secret-42" not in ran.err
    assert not kept.login_path().exists()


def test_the_environment_goes_first(
    cli: Cli, logged_in: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
    monkeypatch.setenv("SLASHTAG_APIKEY", "another-key-of-the-tests")
    # A key from one source is never combined with a secret from another.
    assert "SLASHTAG_APISECRET" in cli("tags", "list").error
    monkeypatch.setenv("SLASHTAG_APISECRET", "another-secret-42")
    assert "401" in cli("tags", "list").error


def test_what_was_kept_goes_to_its_service_only(cli: Cli, logged_in: Path, box: Sandbox) -> None:
    assert cli("tags", "list", "--base-url", f"{box.base_url}/api/v1/").code == 0
    ran = cli("tags", "list", "--base-url", "http://127.0.0.1:1")
    assert ran.code == 1
    assert "not sent elsewhere" in ran.error


def test_a_terminal_shows_no_credentials(nothing_set: None, box: Sandbox) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.execv(SCRIPT, [SCRIPT, "login"])
    shown = b""
    answers = [(b"service: ", box.base_url), (b"apikey: ", APIKEY), (b"apisecret: ", APISECRET)]
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
            if answers and answers[0][0] in shown:
                os.write(terminal, f"{answers.pop(0)[1]}\n".encode())
    except OSError:
        pass  # the terminal's other end is closed
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"saved in" in shown
    assert APIKEY.encode() not in shown
    assert APISECRET.encode() not in shown
    ran = subprocess.run([SCRIPT, "tags", "list"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0


def test_profiles_are_kept_apart_and_chosen_by_name(
    cli: Cli, logged_in: Path, own: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLASHTAG_BASE_URL")
    answer(monkeypatch, own.base_url, APIKEY, APISECRET)
    ran = cli("login", "--profile", "client-a")
    assert ran.err.endswith("credentials-client-a.json\n")
    file = logged_in.with_name("credentials-client-a.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(cli("urls", "list").out.splitlines()) == 130
    # Named, it is used whatever the environment has.
    for name, value in {"SLASHTAG_BASE_URL": "http://127.0.0.1:1", "SLASHTAG_APIKEY": "k" * 20}.items():
        monkeypatch.setenv(name, value)
    assert len(cli("urls", "list", "--profile", "client-a").out.splitlines()) == 60
    monkeypatch.setenv("SLASHTAG_PROFILE", "client-a")
    assert len(cli("urls", "list").out.splitlines()) == 60
    logged_in.with_name("credentialsfoo.json").touch()
    listed = [line.split("\t") for line in cli("login", "--list").out.splitlines()]
    assert [name for name, *_ in listed] == ["(no name)", "client-a"]
    assert listed[1][1:] == [own.base_url]
    assert cli("login", "--remove").err == f"removed {file}\n"
    assert "there is no profile 'client-a'" in cli("tags", "list").error
    assert "letters" in cli("tags", "list", "--profile", "../x").error


def test_what_was_kept_is_used_until_it_is_removed(cli: Cli, logged_in: Path) -> None:
    assert stat.S_IMODE(logged_in.parent.stat().st_mode) == 0o700
    assert cli("tags", "list").code == 0
    assert cli("login", "--remove").err == f"removed {logged_in}\n"
    assert cli("login", "--remove").err == "no credentials were saved\n"
    assert "`slashtag login`" in cli("tags", "list").error
    # Nothing is on stdin.
    ran = cli("login", "--base-url", "http://127.0.0.1:1")
    assert (ran.code, ran.error) == (2, "error: no apikey on stdin")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"base_url": "x", "apikey": "y"}', b"\xff\xfe"])
def test_a_file_that_is_damaged_or_no_file_or_public_is_told(
    cli: Cli, logged_in: Path, content: bytes
) -> None:
    logged_in.write_bytes(content)
    assert "run `slashtag login` again" in cli("tags", "list").error
    logged_in.chmod(0o644)
    assert f"chmod 600 {logged_in}" in cli("tags", "list").error
    logged_in.unlink()
    logged_in.mkdir(mode=0o700)
    assert "Is a directory" in cli("tags", "list").error


@pytest.mark.unmeasured
@pytest.mark.parametrize("config", ["", "relative", "./relative", "~/config"])
def test_a_config_home_that_is_not_absolute_is_ignored(
    cli: Cli, nothing_set: None, box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: str
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", config)
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert cli("login").code == 0
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == [
        "home/.config/slashtag/credentials.json"
    ]
    assert cli("tags", "list").code == 0


@pytest.mark.parametrize("home", [None, "", "relative"])
@pytest.mark.parametrize("known", [True, False])
def test_without_a_home_it_is_that_of_the_user(
    cli: Cli,
    nothing_set: None,
    box: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    home: str | None,
    known: bool,
) -> None:
    def getpwuid(number: int) -> SimpleNamespace:
        if not known:
            raise KeyError(number)
        return SimpleNamespace(pw_dir=str(tmp_path))

    monkeypatch.setattr("pwd.getpwuid", getpwuid)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert cli("login").code == (0 if known else 1)
    assert len(list(tmp_path.rglob("credentials.json"))) == known
    assert cli("tags", "list").code == (0 if known else 1)


@pytest.mark.unmeasured
def test_a_zone_is_that_of_the_option_else_of_the_environment_else_of_the_login_that_is_used(
    cli: Cli, logged_in: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "stats", "range", "2024-06-01", "--all"
    assert "(UTC)" in cli(*question).err
    saved = logged_in.read_bytes()
    assert cli("login", "--timezone", "Asia/Tokyo").code == 0
    assert json.loads(logged_in.read_bytes()) == json.loads(saved) | {"timezone": "Asia/Tokyo"}
    assert cli("login", "--list").out.split("\t")[2] == "Asia/Tokyo\n"
    ran = cli(*question)
    true = box.truth.range("2024-06-01", "2024-06-01", timezone=ZoneInfo("Asia/Tokyo")).total_clicks
    assert true != box.truth.range("2024-06-01", "2024-06-01").total_clicks
    assert f"2024-06-01 (Asia/Tokyo): {true} click" in ran.err
    # Credentials that are asked for again keep the zone.
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert cli("login").code == 0
    assert "(Asia/Tokyo)" in cli("export", "clicks", "last-month", "--all").err
    monkeypatch.setenv("SLASHTAG_TIMEZONE", "Europe/Berlin")
    assert "(Europe/Berlin)" in cli(*question).err
    assert "(UTC-03:00)" in cli("top", "2024-06", "--timezone", "-03:00").err
    monkeypatch.delenv("SLASHTAG_TIMEZONE")
    # The zone of a login is not that of other credentials.
    monkeypatch.setenv("SLASHTAG_BASE_URL", box.base_url)
    monkeypatch.setenv("SLASHTAG_APIKEY", APIKEY)
    monkeypatch.setenv("SLASHTAG_APISECRET", APISECRET)
    assert "(UTC)" in cli(*question).err


def test_login_names_the_variables_that_win_over_what_it_saved(
    cli: Cli, logged_in: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = "login", "--timezone", "Asia/Tokyo"
    assert "SLASHTAG" not in cli(*zone).err
    monkeypatch.setenv("SLASHTAG_TIMEZONE", "Asia/Tokyo")
    assert "SLASHTAG" not in cli(*zone).err
    monkeypatch.setenv("SLASHTAG_TIMEZONE", "Europe/Berlin")
    ran = cli(*zone)
    assert (ran.code, "SLASHTAG_TIMEZONE" in ran.err) == (0, True)
    monkeypatch.delenv("SLASHTAG_TIMEZONE")
    monkeypatch.setenv("SLASHTAG_APIKEY", APIKEY)
    ran = cli(*zone)
    assert (ran.code, "SLASHTAG_APIKEY" in ran.err) == (0, True)
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert "SLASHTAG_APIKEY" in cli("login").err
    # A profile that is named wins over the environment.
    answer(monkeypatch, box.base_url, APIKEY, APISECRET)
    assert "SLASHTAG_APIKEY" not in cli("login", "--profile", "shop").err


def test_a_zone_that_is_none_is_refused_wherever_it_stands(
    cli: Cli, logged_in: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = "stats", "range", "2024-06-01", "--all"
    forget(box)
    ran = cli("login", "--timezone", "Europe/Berln")
    assert (ran.code, "Europe/Berln" in ran.error) == (2, True)
    saved = json.loads(logged_in.read_bytes())
    logged_in.write_text(json.dumps(saved | {"timezone": "CEST"}))
    ran = cli(*question)
    assert (ran.code, "slashtag login --timezone" in ran.error, "'CEST'" in ran.error) == (2, True, True)
    monkeypatch.setenv("SLASHTAG_TIMEZONE", "+25:00")
    ran = cli(*question)
    assert (ran.code, "SLASHTAG_TIMEZONE" in ran.error) == (2, True)
    assert box.requests == []
    assert cli(*question, "--timezone", "+01:00").code == 0


@pytest.mark.unmeasured
@pytest.mark.parametrize("around", [" {}", "{}\t", "\ufeff{}", "\u200b{}\u00a0", "{}\r"])
def test_what_surrounds_an_answer_unseen_is_not_saved(
    cli: Cli, nothing_set: None, box: Sandbox, monkeypatch: pytest.MonkeyPatch, around: str
) -> None:
    answer(monkeypatch, *map(around.format, (box.base_url, APIKEY, APISECRET)))
    assert cli("login").code == 0
    assert kept.read_login() == login(box.base_url)
    # The same service, however it is written.
    for url in (f'"{box.base_url}/"', around.format(box.base_url), f"{box.base_url}/api/v1"):
        assert cli("tags", "list", "--base-url", url).code == 0


def test_the_environment_may_have_line_breaks(
    cli: Cli, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLASHTAG_BASE_URL", "SLASHTAG_APIKEY", "SLASHTAG_APISECRET"):
        monkeypatch.setenv(name, f"{environment[name]}\r\n")
    assert cli("tags", "list").code == 0
    monkeypatch.setenv("SLASHTAG_APIKEY", " \n")
    assert "SLASHTAG_APIKEY" in cli("tags", "list").error


def test_a_repr_shows_no_credentials() -> None:
    shown = repr(login("https://example.com"))
    assert APIKEY not in shown
    assert APISECRET not in shown


def test_a_zone_is_saved_for_credentials_of_the_environment_and_asks_for_none(cli: Cli, box: Sandbox) -> None:
    assert cli("login", "--timezone", "Asia/Tokyo").code == 0
    assert not box.requests
    assert "apikey" not in json.loads(kept.login_path().read_bytes())
    assert "(Asia/Tokyo)" in cli("stats", "2024-06", "--by", "device").err
    assert "(UTC-03:00)" in cli("stats", "2024-06", "--timezone", "-03:00", "--by", "device").err
    assert cli("login", "--timezone", "").code == 0
    assert "(UTC)" in cli("stats", "2024-06", "--by", "device").err


@pytest.mark.usefixtures("nothing_set")
def test_a_zone_alone_is_no_login(cli: Cli, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.save_login(kept.Login(timezone="Asia/Tokyo"))
    assert "SLASHTAG_APIKEY" in cli("tags", "list").error
    answer(monkeypatch, APIKEY, APISECRET)
    assert cli("login", "--base-url", box.base_url).code == 0
    assert "(Asia/Tokyo)" in cli("stats", "2024-06", "--by", "device").err


def test_a_login_that_cannot_be_read_is_not_replaced_by_a_zone(cli: Cli) -> None:
    file = kept.save_login(kept.Login(timezone="Asia/Tokyo"))
    file.write_text('{"timezone": 99}')
    assert cli("login", "--timezone", "Asia/Tokyo").code == 1
    assert file.read_text() == '{"timezone": 99}'
