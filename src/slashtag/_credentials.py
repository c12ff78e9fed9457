"""Validation of the credentials, the base URL and the proxy.

A traceback may show the variables of functions. So none has a secret in a variable when it raises: the
objects below are made first, then checked.
"""

import os
import re
from base64 import b64encode
from hashlib import pbkdf2_hmac
from ipaddress import ip_address
from unicodedata import category

from yarl import URL

from ._errors import ConfigurationError

API_PREFIX = "/api/v1/"
_HEADER_SAFE = re.compile(r"[!-~]+", re.ASCII)


def strip_invisible(text: str) -> str:
    """Return a text without what a file or a copy adds unseen at its ends: blanks, line breaks, BOM."""
    start, end = 0, len(text)
    while start < end and _is_invisible(text[start]):
        start += 1
    while start < end and _is_invisible(text[end - 1]):
        end -= 1
    return text[start:end]


def account_hash(apikey: str, salt: str, base_url: str = "", length: int = 32) -> bytes:
    """Return bytes by which a file recognises an account, or one at an address, different for each salt.

    They are slow to compute, 2 ms, so that the apikey cannot be guessed from them. The apisecret has no part
    in them: it may be replaced without changing the account.
    """
    # In no variable, which a traceback may show.
    return pbkdf2_hmac(
        "sha256", (f"{base_url}\0{apikey}" if base_url else apikey).encode(), salt.encode(), 5_000, length
    )


def _is_invisible(character: str) -> bool:
    """Return whether it is white space, a control character, or a format character, such as a BOM."""
    return character.isspace() or category(character) in ("Cc", "Cf")


class Credentials:
    """Pair of apikey and apisecret, never shown; `check` it. See docs/service.md, Authentication."""

    __slots__ = ("apikey", "apisecret")

    def __init__(self, apikey: str | None, apisecret: str | None) -> None:
        self.apikey = _given(apikey, "SLASHTAG_APIKEY")
        self.apisecret = _given(apisecret, "SLASHTAG_APISECRET")

    def check(self) -> None:
        """Raise ConfigurationError unless both may be used; no message shows a value."""
        for name, low, high in (("apikey", 20, 30), ("apisecret", 12, 20)):
            if not isinstance(getattr(self, name), str):
                kind = getattr(self, name).__class__.__name__
                raise ConfigurationError(f"{name} must be a str, not {kind}")
            length = len(getattr(self, name))
            if not length:
                raise ConfigurationError(f"no {name}: pass {name}= or set SLASHTAG_{name.upper()}")
            if not low <= length <= high:
                raise ConfigurationError(f"{name} has {length} characters; it must have {low} to {high}")
            if not _HEADER_SAFE.fullmatch(getattr(self, name)):
                raise ConfigurationError(f"{name} contains characters that are invalid in a header")

    def __repr__(self) -> str:
        return "<Credentials ***>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("credentials are not pickled; pass them to each process in its environment")

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"apikey": self.apikey, "apisecret": self.apisecret}


def _given(value: str | None, variable: str) -> str:
    """Return what was passed, or what the environment has."""
    value = os.environ.get(variable, "") if value is None else value
    return strip_invisible(value) if isinstance(value, str) else value  # pyright: ignore[reportUnnecessaryIsInstance]


class Proxy:
    """HTTP proxy, whose user and password are never shown; `check` it.

    `url` is without them; `headers` has them in UTF-8, where aiohttp takes Latin-1 (RFC 7617).
    """

    __slots__ = ("_problem", "headers", "password", "url")

    def __init__(self, text: str) -> None:
        url, host = _parsed(text)
        self._problem = ""
        self.headers: dict[str, str] = {}
        self.password: str | None = None
        if url is None or not host or url.scheme not in ("http", "https"):
            self._problem = "the proxy must be a URL such as http://proxy.example:3128"
        elif url.raw_path not in ("", "/") or url.raw_query_string or url.raw_fragment:
            self._problem = (
                "the proxy's URL must end with its port; write /, ? and # of a password as %2F, %3F, %23"
            )
        elif ":" in (url.user or ""):
            self._problem = "the user of the proxy must not contain a colon"
        elif url.user is not None or url.password is not None:
            self.password = url.password
            token = b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()
            self.headers = {"Proxy-Authorization": f"Basic {token}"}
        self.url = URL() if self._problem or url is None else url.with_user(None)

    def check(self) -> None:
        """Raise ConfigurationError, without the URL, if it is no proxy's."""
        if self._problem:
            raise ConfigurationError(self._problem)

    def __repr__(self) -> str:
        return "<Proxy ***>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a proxy, which may have a password, is not pickled")


def parse_base_url(base_url: str | None, *, allow_http: bool) -> URL:
    """Return the base URL, with /api/v1/ added if missing. See docs/service.md, Versioning.

    Raises ConfigurationError unless the scheme is http(s), for credentials, a query or a fragment in the URL,
    and, without `allow_http`, for plain http to hosts other than loopback.
    """
    if base_url is None:
        base_url = os.environ.get("SLASHTAG_BASE_URL")
    if base_url is None:
        raise ConfigurationError("no base_url: pass it or set SLASHTAG_BASE_URL")
    url, host = _parsed(base_url)
    if url is not None and (url.user is not None or url.password is not None):
        raise ConfigurationError("the base URL must not contain credentials")
    if url is None or url.scheme not in ("http", "https") or not host:
        # Not shown here or below: it may be "key:secret@host" without a scheme. Raised outside a handler, as
        # the parser's error would show it too.
        raise ConfigurationError("the base URL must be an http or https URL with a host")
    if url.query_string or url.fragment:
        raise ConfigurationError("the base URL must not have a query or a fragment")
    if url.scheme == "http" and not allow_http and not _is_loopback(host):
        raise ConfigurationError(
            "the base URL would send the credentials in the clear: use https or allow_http (--allow-http)"
        )
    path = url.raw_path.rstrip("/")
    path = path + "/" if path.endswith(API_PREFIX.rstrip("/")) else path + API_PREFIX
    return URL(f"{url.origin()}{path}", encoded=True)


def _parsed(text: str) -> tuple[URL | None, str | None]:
    """Return a URL and its host, without quotes, which files of an environment keep, or blanks around it."""
    try:
        text = strip_invisible(text)
        while len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
            text = strip_invisible(text[1:-1])
        text.encode()  # yarl would drop half a character of two
        url = URL(text)
        (url.raw_host or "").encode("idna")  # as for DNS: labels must not be empty or too long
        is_url = url.port != 0 and not any(c.isspace() or category(c) == "Cc" for c in text)
        return (url, url.host) if is_url else (None, None)
    except (ValueError, TypeError):
        return None, None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
