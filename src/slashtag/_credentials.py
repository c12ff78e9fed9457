"""Validation of the credentials, the base URL and the proxy."""

import re
import string
from base64 import b64encode
from hashlib import pbkdf2_hmac
from ipaddress import ip_address

from yarl import URL

from ._core.secret import Secret, hidden
from ._errors import ConfigurationError

API_PREFIX = "/api/v1/"
_HEADER_SAFE = re.compile(r"[!-~]+", re.ASCII)
_INVISIBLE = string.whitespace + "\u00a0\u200b\u2060\ufeff"


def strip_invisible(text: str) -> str:
    """Return a text without what a file or a copy adds unseen at its ends: blanks, line breaks, BOM."""
    return text.strip(_INVISIBLE)


def account_hash(apikey: str, salt: str, base_url: str, length: int = 32) -> bytes:
    """Return bytes by which a file recognises an account at an address, different for each salt.

    They are slow to compute, 2 ms, so that the apikey cannot be guessed from them. The apisecret has no part
    in them: it may be replaced without changing the account.
    """
    return pbkdf2_hmac("sha256", f"{base_url}\0{apikey}".encode(), salt.encode(), 5_000, length)


class Credentials:
    """Pair of apikey and apisecret. See docs/service.md, Authentication.

    Raises ConfigurationError for a pair that the service cannot accept.
    """

    def __init__(self, apikey: str | None, apisecret: str | None) -> None:
        self.apikey = _checked("apikey", apikey, 20, 30)
        self.apisecret = _checked("apisecret", apisecret, 12, 20)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"apikey": self.apikey, "apisecret": self.apisecret}


def _checked(name: str, given: str | None, low: int, high: int) -> Secret:
    """Return one of the credentials, or raise ConfigurationError, whose message does not show it."""
    if not isinstance(given, str | None):
        raise ConfigurationError(f"{name} must be a str, not {type(given).__name__}")
    value = Secret(strip_invisible(given or ""))
    if not value:
        raise ConfigurationError(
            f"no {name}: pass {name}=, set SLASHTAG_{name.upper()}, or run `slashtag login`"
        )
    if not low <= len(value) <= high:
        raise ConfigurationError(f"{name} has {len(value)} characters; it must have {low} to {high}")
    if not _HEADER_SAFE.fullmatch(value):
        raise ConfigurationError(f"{name} contains characters that are invalid in a header")
    return value


class Proxy:
    """HTTP proxy: its `url` without user and password, and the `headers` that have them.

    They are in UTF-8 there, where aiohttp takes Latin-1 (RFC 7617). Raises ConfigurationError, without the
    URL, if it is no proxy's.
    """

    def __init__(self, text: str) -> None:
        url, user, self.password = _parsed(text)
        if url is None:
            raise ConfigurationError("the proxy must be a URL such as http://proxy.example:3128")
        if url.raw_path not in ("", "/") or url.raw_query_string or url.raw_fragment:
            raise ConfigurationError(
                "the proxy's URL must end with its port; write /, ? and # of a password as %2F, %3F, %23"
            )
        self.url, self.headers = url, dict[str, str]()
        if user is not None or self.password is not None:
            token = b64encode(f"{user or ''}:{self.password or ''}".encode()).decode()
            self.headers = {"Proxy-Authorization": Secret(f"Basic {token}")}


def parse_base_url(base_url: str | None, *, allow_http: bool) -> URL:
    """Return the base URL, with /api/v1/ added if missing. See docs/service.md, Versioning.

    Raises ConfigurationError unless the scheme is http(s), for credentials, a query or a fragment in the URL,
    and, without `allow_http`, for plain http to hosts other than loopback.
    """
    if base_url is None:
        raise ConfigurationError(
            "no base_url: pass it, set SLASHTAG_BASE_URL, or run `slashtag login`, whose account is used "
            "unless the environment has keys"
        )
    # Not shown here or below: it may be "key:secret@host" without a scheme.
    url, user, password = _parsed(Secret(base_url))
    if user is not None or password is not None:
        raise ConfigurationError("the base URL must not contain credentials")
    if url is None:
        raise ConfigurationError("the base URL must be an http or https URL with a host")
    if url.query_string or url.fragment:
        raise ConfigurationError("the base URL must not have a query or a fragment")
    if url.scheme == "http" and not allow_http and not _is_loopback(url.host or ""):
        raise ConfigurationError(
            "the base URL would send the credentials in the clear: use https, or SLASHTAG_ALLOW_HTTP=true"
        )
    path = url.raw_path.rstrip("/")
    path = path + "/" if path.endswith(API_PREFIX.rstrip("/")) else path + API_PREFIX
    return URL(f"{url.origin()}{path}", encoded=True)


def _parsed(text: str) -> tuple[URL | None, Secret | None, Secret | None]:
    """Return an http or https URL with a host, without user and password, and these; None where it is none.

    Blanks around it are dropped.
    """
    user = password = None
    try:
        text = strip_invisible(text)
        text.encode()  # yarl would drop half a character of two
        url = URL(text)
        user, password = hidden(url.user), hidden(url.password)
        (url.raw_host or "").encode("idna")  # as for DNS: labels must not be empty or too long
        if url.host and url.scheme in ("http", "https") and not re.search(r"[\s\x00-\x1f\x7f]", text):
            return url.with_user(None), user, password
    except (ValueError, AttributeError):  # AttributeError: it is no str
        pass
    return None, user, password


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
