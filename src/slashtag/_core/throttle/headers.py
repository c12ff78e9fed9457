"""Parser of the delay that an answer asks for, in `Retry-After` or in rate-limit headers.

Parsing is strict: a value that the specification does not allow counts as absent, because a wrong pause is
worse than none.

    Retry-After                                  RFC 9110, 10.2.3: delay in seconds, or an HTTP date
    RateLimit                                    draft-ietf-httpapi-ratelimit-headers: "default";r=0;t=30
    RateLimit-Remaining, -Reset                  an older version of the draft
    X-RateLimit-Remaining, -Reset                before any draft; the reset in seconds or as epoch seconds
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Protocol

MAX_DELAY = 86_400.0
"""Longest Retry-After used, in seconds; longer ones are shortened to a day."""

MAX_RESET = 900.0
"""Longest reset used, in seconds: a longer one is in another unit (milliseconds), or for another quota."""

_EPOCH_FROM = 1_000_000_000
"""A reset at or above this many seconds (2001-09-09 as an epoch, 31 years as a delay) is an epoch time."""

_SECONDS = re.compile(r"[0-9]{1,18}")
_USED_UP = re.compile(r'\s*"[^"\\]*"\s*;\s*r=0\s*;\s*t=([0-9]{1,15})\s*')  # one member of RateLimit
_WINDOW = re.compile(r"[,;]\s*w=([0-9]{1,9})(?![0-9.])")
_DATE = re.compile(
    r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"  # IMF-fixdate
    r"|[A-Z][a-z]{5,8}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9:]{8} GMT"  # RFC 850
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9 ][0-9] [0-9:]{8} [0-9]{4}"  # asctime
)


class Headers(Protocol):
    """Mapping of response headers whose `get` ignores case, such as `multidict.CIMultiDictProxy`."""

    def get(self, key: str, /) -> str | None: ...


def retry_after(headers: Headers, now_wall: float | None = None) -> float | None:
    """Return the delay of `Retry-After`, in seconds, or None if it is absent or malformed.

    A date counts from the answer's own `Date` (the server's clock), else from `now_wall` (epoch seconds);
    with neither it is unknown: None. The delay is never negative, and at most `MAX_DELAY` (one day).
    """
    value = headers.get("Retry-After")
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is None:
        at, start = _http_date(value), _clock(headers, now_wall)
        if at is None or start is None:
            return None
        seconds = at - start
    return min(max(seconds, 0.0), MAX_DELAY)


def reset_after(headers: Headers, now_wall: float | None = None) -> float | None:
    """Return the seconds until the reset of a limit that is used up according to the rate-limit headers.

    None if requests remain, and if a header is missing, malformed or implausible: more than `MAX_RESET` away,
    or after the end of the stated window. `now_wall` is used as in `retry_after`.
    """
    limit = headers.get("RateLimit")
    if limit is not None:
        resets = [float(found[1]) for part in limit.split(",") if (found := _USED_UP.fullmatch(part))]
        return _plausible(max(resets, default=None), headers.get("RateLimit-Policy"))
    for prefix in ("RateLimit", "X-RateLimit"):
        remaining = headers.get(prefix + "-Remaining")
        if remaining is not None:
            reset = _seconds(headers.get(prefix + "-Reset") or "")
            if _seconds(remaining) != 0 or reset is None:
                return None
            if reset >= _EPOCH_FROM:
                start = _clock(headers, now_wall)
                reset = None if start is None else max(reset - start, 0.0)
            return _plausible(reset, headers.get(prefix + "-Limit"))
    return None


def _plausible(reset: float | None, policy: str | None) -> float | None:
    windows = [float(width) for width in _WINDOW.findall(policy or "")]
    longest = min(MAX_RESET, max(windows) + 1) if windows else MAX_RESET
    return None if reset is None or reset > longest else reset


def _seconds(value: str) -> float | None:
    value = value.strip(" \t")
    return float(value) if _SECONDS.fullmatch(value) else None


def _clock(headers: Headers, now_wall: float | None) -> float | None:
    """Return the server's time of the answer in epoch seconds, else `now_wall`."""
    at = _http_date(headers.get("Date") or "")
    return now_wall if at is None else at


def _http_date(value: str) -> float | None:
    """Return an HTTP date in epoch seconds, or None if it is not one."""
    value = value.strip(" \t")
    if not _DATE.fullmatch(value):
        return None
    try:
        return parsedate_to_datetime(value).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError, TypeError):  # day 31 of February, hour 77, year 0
        return None
