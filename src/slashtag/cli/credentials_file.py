"""Credentials: those of the environment first, then those that `slashtag login` kept in a file."""

import os
import secrets
import stat
from pathlib import Path

import msgspec
import typer

from .. import ConfigurationError
from .._internal import parse_base_url

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
#: Address, apikey, apisecret.
Found = tuple[str, str, str]


def credentials(base_url: str | None) -> Found:
    """Return the address, apikey and apisecret to use; `base_url` is what was given or is in the environment.

    Key and secret come from one place. What was kept is sent only to the service that it was kept for.
    Raises ConfigurationError.
    """
    given = [os.environ.get(name) for name in VARIABLES]
    kept = None if any(given) and base_url else load()
    if kept is None or any(given):
        base_url = base_url or (kept[0] if kept else None)
        missing = [name for name, value in zip(VARIABLES, given, strict=True) if not value]
        if not base_url:
            missing.insert(0, "SLASHTAG_BASE_URL")
        if missing:
            raise ConfigurationError(
                f"not set in the environment: {', '.join(missing)}; "
                "`slashtag login` keeps them in a file, `slashtag sandbox` gives you some to try"
            )
        apikey, apisecret = given
        return str(base_url), str(apikey), str(apisecret)
    if base_url and _address(base_url) != _address(kept[0]):
        raise ConfigurationError(
            f"the credentials that were kept are for {kept[0]} and not sent elsewhere; "
            f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
        )
    return kept


def _address(base_url: str) -> str:
    return str(parse_base_url(base_url, allow_http=True))


def path() -> Path:
    """Return where credentials are kept."""
    return Path(typer.get_app_dir("slashtag")) / "credentials.json"


def load() -> Found | None:
    """Return what was kept, None where nothing was; raises ConfigurationError for a file that will not do."""
    file = path()
    try:
        mode = file.stat().st_mode
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"{file} cannot be read; run `slashtag login` again") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
    try:
        members = msgspec.json.decode(text, type=dict[str, str])
        return members["base_url"], members["apikey"], members["apisecret"]
    except (msgspec.DecodeError, KeyError):
        raise ConfigurationError(f"{file} is damaged; run `slashtag login` again") from None


def keep(base_url: str, apikey: str, apisecret: str) -> Path:
    """Keep credentials in a file that only its owner may read, and return its path."""
    file = path()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        part.chmod(0o600)  # the umask may have taken something off
        with os.fdopen(handle, "wb") as opened:
            opened.write(
                msgspec.json.encode({"base_url": base_url, "apikey": apikey, "apisecret": apisecret})
            )
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return file


def remove() -> bool:
    """Forget what was kept; False where nothing was."""
    try:
        path().unlink()
    except FileNotFoundError:
        return False
    return True
