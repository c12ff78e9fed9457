"""Validation of the credentials and the base URL."""

import os
import re
from ipaddress import ip_address

from yarl import URL

from ._errors import ConfigurationError

API_PREFIX = "/api/v1/"
_HEADER_SAFE = re.compile(r"[!-~]+", re.ASCII)


class Credentials:
    """Pair of apikey and apisecret, never shown. See docs/service.md, Authentication."""

    __slots__ = ("apikey", "apisecret")

    def __init__(self, apikey: str | None, apisecret: str | None) -> None:
        self.apikey = _checked("apikey", apikey, "SLASHTAG_APIKEY", 20, 30)
        self.apisecret = _checked("apisecret", apisecret, "SLASHTAG_APISECRET", 12, 20)

    def __repr__(self) -> str:
        return "<Credentials ***>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("credentials are not pickled; pass them to each process in its environment")

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"apikey": self.apikey, "apisecret": self.apisecret}


def _checked(name: str, value: str | None, variable: str, low: int, high: int) -> str:
    if value is None:
        value = os.environ.get(variable)
    if value is None:
        raise ConfigurationError(f"no {name}: pass {name}= or set {variable}")
    # No message shows the value itself.
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{name} must be a str, not {type(value).__name__}")
    if not low <= len(value) <= high:
        raise ConfigurationError(f"{name} has {len(value)} characters; it must have {low} to {high}")
    if not _HEADER_SAFE.fullmatch(value):
        raise ConfigurationError(f"{name} contains characters that are invalid in a header")
    return value


def parse_proxy(proxy: str) -> URL:
    """Return the URL of a proxy. Raises ConfigurationError, without the URL: it may hold a password."""
    url, host = _parsed(proxy)
    if url is None or not host or url.scheme not in ("http", "https"):
        raise ConfigurationError("the proxy must be a URL such as http://proxy.example:3128") from None
    return url


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
    try:
        url = URL(text)
        (url.raw_host or "").encode("idna")  # as for DNS: labels must not be empty or too long
        return url, url.host
    except (ValueError, TypeError):
        return None, None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
