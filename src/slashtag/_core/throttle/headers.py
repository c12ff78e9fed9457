"""Parser of `Retry-After` and rate-limit headers.

Parsing is strict: a value that the specification does not allow counts as absent, because a wrong pause is
worse than none.

    Retry-After            RFC 9110, 10.2.3: delay in seconds, or an HTTP date
    RateLimit              draft-ietf-httpapi-ratelimit-headers, structured: "default";r=50;t=30
    RateLimit-Policy       the same: "default";q=100;w=60
    RateLimit-Limit, -Remaining, -Reset          the draft's older triple
    X-RateLimit-Limit, -Remaining, -Reset        before any draft; the reset in seconds or as epoch seconds
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Protocol

import msgspec

MAX_DELAY = 86_400.0
"""Longest Retry-After used, in seconds; longer ones are shortened to a day."""

MAX_RESET = 900.0
"""Longest reset used, in seconds: a longer one is in another unit (milliseconds), or too long to pause
without a 429."""

_EPOCH_FROM = 1_000_000_000
"""A reset at or above this many seconds (2001-09-09 as an epoch, 31 years as a delay) is an epoch time."""

_SECONDS = re.compile(r"[0-9]{1,18}")
_COUNT = re.compile(r"[0-9]{1,15}")
_LIMIT = re.compile(r"([0-9]{1,15})\s*(?:,.*)?", re.DOTALL)  # "100", or with policies "100, 100;w=60"
_OLD_WINDOW = re.compile(r"[,;]\s*w=([0-9]{1,9})(?![0-9.])")
_ITEM = re.compile(
    r'\s*(?:"[^"\\]*"|[A-Za-z*][A-Za-z0-9_.:*/-]*)((?:\s*;\s*[a-z][a-z0-9_-]*=(?:"[^"\\]*"|[^;,"\s]+))*)\s*'
)
_PARAMETER = re.compile(r'([a-z][a-z0-9_-]*)=("[^"\\]*"|[^;,"\s]+)')


class Headers(Protocol):
    """Mapping of response headers whose `get` ignores case, such as `multidict.CIMultiDictProxy`."""

    def get(self, key: str, /) -> str | None: ...


class RateHint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Content of rate-limit headers: `remaining` requests until `reset` seconds from the answer.

    `limit` requests are allowed in a window of `window` seconds, if given. `reset` is None if the end of the
    window is missing or implausible.
    """

    remaining: int
    reset: float | None = None
    limit: int | None = None
    window: float | None = None


def retry_after(headers: Headers, now_wall: float | None = None) -> float | None:
    """Return the delay of `Retry-After`, in seconds, or None if it is absent or malformed.

    A date counts from the answer's own `Date` (the server's clock), else from `now_wall` (epoch seconds);
    with neither it is unknown: None. The delay is never negative, and at most `MAX_DELAY` (one day).
    """
    value = headers.get("Retry-After")
    if value is None:
        return None
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_DELAY)
    at = _http_date(value)
    if at is None:
        return None
    start = _clock(headers, now_wall)
    return None if start is None else min(max(at - start, 0.0), MAX_DELAY)


def rate_hint(headers: Headers, now_wall: float | None = None) -> RateHint | None:
    """Return the content of the rate-limit headers, or None if they are missing or invalid.

    Of several policies the one with the fewest requests left is returned. `now_wall` (epoch seconds)
    replaces a missing `Date` if the reset is an epoch time.
    """
    value = headers.get("RateLimit")
    if value is not None:
        return _structured(value, headers.get("RateLimit-Policy"))
    for prefix in ("RateLimit", "X-RateLimit"):
        value = headers.get(prefix + "-Remaining")
        if value is not None:
            return _triple(value, headers, prefix, now_wall)
    return None


def _triple(value: str, headers: Headers, prefix: str, now_wall: float | None) -> RateHint | None:
    remaining = _count(value)
    if remaining is None:
        return None
    limit = window = None
    text = headers.get(prefix + "-Limit")
    if text is not None and (found := _LIMIT.fullmatch(text.strip(" \t"))):
        limit = int(found[1])
        if wide := _OLD_WINDOW.search(text):
            window = float(wide[1]) or None
    reset: float | None = None
    at = _count(headers.get(prefix + "-Reset"))
    if at is not None and at < _EPOCH_FROM:
        reset = float(at)
    elif at is not None and (start := _clock(headers, now_wall)) is not None:
        reset = max(at - start, 0.0)
    return RateHint(remaining=remaining, reset=_plausible(reset, window), limit=limit, window=window)


def _plausible(reset: float | None, window: float | None) -> float | None:
    """Return the reset, or None if it is too far off or after the end of its own window."""
    if reset is None or reset > MAX_RESET or (window and reset > window + 1):
        return None
    return reset


def _structured(value: str, policy: str | None) -> RateHint | None:
    best: RateHint | None = None
    policies = _items(policy or "")
    for name, found in _items(value).items():
        remaining = _count(found.get("r"))
        if remaining is None:
            continue
        if best is None or remaining < best.remaining:
            of = policies.get(name, {})
            reset, limit, window = _count(found.get("t")), _count(of.get("q")), _count(of.get("w"))
            width = None if not window else float(window)
            left = _plausible(None if reset is None else float(reset), width)
            best = RateHint(remaining=remaining, reset=left, limit=limit, window=width)
    return best


def _items(value: str) -> dict[str, dict[str, str]]:
    """Return the parameters of each member of a structured list by name; a malformed list is empty."""
    members: dict[str, dict[str, str]] = {}
    at = 0
    while at < len(value):
        found = _ITEM.match(value, at)
        if found is None or (found.end() < len(value) and value[found.end()] != ","):
            return {}
        name = found[0].split(";", 1)[0].strip().strip('"')
        members[name] = dict(_PARAMETER.findall(found[1]))
        at = found.end() + 1
    return members


def _count(value: str | None) -> int | None:
    if value is None:
        return None
    value = value.strip(" \t")
    return int(value) if _COUNT.fullmatch(value) else None


def _clock(headers: Headers, now_wall: float | None) -> float | None:
    """Return the server's time of the answer in epoch seconds, else `now_wall`."""
    text = headers.get("Date")
    at = None if text is None else _http_date(text.strip(" \t"))
    return now_wall if at is None else at


_DATE = re.compile(
    r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"  # IMF-fixdate
    r"|[A-Z][a-z]{5,8}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9:]{8} GMT"  # RFC 850
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9 ][0-9] [0-9:]{8} [0-9]{4}"  # asctime
)


def _http_date(value: str) -> float | None:
    """Return an HTTP date in epoch seconds, or None if it is not one."""
    if not _DATE.fullmatch(value):
        return None
    try:
        found = parsedate_to_datetime(value)
        return found.replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError, TypeError):  # day 31 of February, hour 77, year 0
        return None
