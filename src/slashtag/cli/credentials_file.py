"""Credentials, from the environment or else from the file that `slashtag login` writes."""

import os
import re
import stat
from pathlib import Path
from tempfile import mkstemp

import msgspec
import typer

from .. import ConfigurationError
from .._internal import parse_base_url

VARIABLES = ("SLASHTAG_APIKEY", "SLASHTAG_APISECRET")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
#: Address, apikey, apisecret.
Found = tuple[str, str, str]


def credentials(base_url: str | None, profile: str | None = None) -> Found:
    """Return the address, apikey and apisecret to use; `base_url` is the option or the environment's.

    Key and secret come from the same place: the file of a profile that is named, else the environment, else
    the file without a profile. Those of a file are sent only to the service that they were saved for. Raises
    ConfigurationError.
    """
    given = [None if profile else os.environ.get(name) for name in VARIABLES]
    if profile and base_url == os.environ.get("SLASHTAG_BASE_URL"):
        base_url = None
    saved = None if any(given) and base_url else load(profile)
    if profile and saved is None:
        raise ConfigurationError(
            f"there is no profile {profile!r}; `slashtag login --profile {profile}` makes one, "
            "`slashtag login --list` shows those there are"
        )
    if saved is None or any(given):
        base_url = base_url or (saved[0] if saved else None)
        missing = [name for name, value in zip(VARIABLES, given, strict=True) if not value]
        if not base_url:
            missing.insert(0, "SLASHTAG_BASE_URL")
        if missing:
            raise ConfigurationError(
                f"not set in the environment: {', '.join(missing)}; "
                "`slashtag login` saves them in a file, `slashtag sandbox` prints some to try"
            )
        apikey, apisecret = given
        return str(base_url), str(apikey), str(apisecret)
    if base_url and _address(base_url) != _address(saved[0]):
        raise ConfigurationError(
            f"the saved credentials are for {saved[0]} and are not sent elsewhere; "
            f"run `slashtag login`, or set {' and '.join(VARIABLES)}"
        )
    return saved


def _address(base_url: str) -> str:
    return str(parse_base_url(base_url, allow_http=True))


def path(profile: str | None = None) -> Path:
    """Return the path of the file of a profile; raises ConfigurationError for a name that is none."""
    if profile and not _NAME.fullmatch(profile):
        raise ConfigurationError("a profile is named by up to 40 letters, digits, - and _")
    name = f"credentials-{profile}.json" if profile else "credentials.json"
    return Path(typer.get_app_dir("slashtag")) / name


def load(profile: str | None = None) -> Found | None:
    """Return the saved credentials, None if there are none; raises ConfigurationError if unusable."""
    file = path(profile)
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


def save(base_url: str, apikey: str, apisecret: str, profile: str | None = None) -> Path:
    """Save credentials in a file that only its owner may read, and return its path."""
    file = path(profile)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, part = mkstemp(dir=file.parent)
    try:
        os.chmod(part, 0o600)  # the umask may have taken something off
        with os.fdopen(handle, "wb") as opened:
            opened.write(
                msgspec.json.encode({"base_url": base_url, "apikey": apikey, "apisecret": apisecret})
            )
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise
    return file
