"""What an answer means: `parse(call, status, headers, body)` returns the data or raises the error."""

from __future__ import annotations

import codecs
import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from .._errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    RateLimitError,
    ServerError,
    SlashtagError,
    TagLimitError,
    UnexpectedResponseError,
    UnknownTagError,
)
from .call import Call
from .throttle.headers import rate_hint
from .throttle.headers import retry_after as parse_retry_after

T = TypeVar("T")

EXCERPT_BYTES = 200
HIDDEN = "***"
# So much that a secret cut at its end stays beyond the excerpt, however many were replaced before it.
SCRUBBED_BYTES = 2**16
_LONGEST_MESSAGE = 2_000

# bad UTF-8 and very deep nesting are not msgspec errors.
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# "the maximum allowed number of tags is reached": one sentence that counts tags, where a rate limit counts
# requests. Taken for a rate limit it would be sent again for ever.
_SENTENCES = re.compile(r"[.!?;\n]+")
_TAGS = re.compile(r"\btags?\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\b(?:number|maximum|max|limit|many|quota|allowed)\b", re.IGNORECASE)
_REQUESTS = re.compile(r"\brequests\b|\brequest (?:rate|limit|quota)\b|\bper (?:second|minute|hour)\b", re.I)
_RATE = re.compile(r"\brate\b|too many requests", re.IGNORECASE)
# The documented `data` of an error is null or empty; deeper than this it could not be pickled everywhere.
_DEEPEST_DATA = 32


class Envelope(Struct, Generic[T], gc=False):
    """Shape every answer of the service: `status` mirrors the HTTP status (General conventions)."""

    data: T
    status: int = 200
    message: str | None = None


class _AnyEnvelope(Struct, gc=False):
    status: int
    message: str | None = None
    data: Any = None


_any_decoder = msgspec.json.Decoder(_AnyEnvelope, strict=False)


@lru_cache(maxsize=64)
def _decoder(returns: Any) -> msgspec.json.Decoder[Envelope[Any]]:
    return msgspec.json.Decoder(Envelope[returns], strict=False)


def parse(
    call: Call[T],
    status: int,
    headers: Mapping[str, str],
    body: bytes | bytearray,
    secrets: Iterable[str] = (),
    now: float | None = None,
) -> T:
    """Return the `data` of an answer, or raise what it tells.

    The HTTP status decides first, then the envelope's, which acts in every way as that HTTP status.
    `secrets` are strings that no error may show; `now` is the wall clock in seconds, for a Retry-After
    date without a Date header. Raises APIError and its kinds, UnexpectedResponseError (Errors).
    """
    if status == 200:
        problem: str
        try:
            returns: Any = call.returns
            envelope = _decoder(returns).decode(body)
            if envelope.status == 200:
                return envelope.data  # type: ignore[no-any-return]
        except _UNDECODABLE as error:
            problem = str(error)
        else:
            problem = f"the envelope says {envelope.status}"
    else:
        problem = ""
    # Raised outside the handler: a decoding error as context would keep the body.
    raise _error(call, status, headers, body, Scrubber([*secrets, *call.secrets]), problem, now)


def _error(
    call: Call[Any],
    status: int,
    headers: Mapping[str, str],
    body: bytes | bytearray,
    scrub: Scrubber,
    problem: str,
    now: float | None,
) -> SlashtagError:
    told = _read_envelope(body)
    effective = told.status if told is not None and status == 200 else status
    if effective < 400:
        if effective >= 300:
            what = f"an answer of {effective}: redirects are never followed, they would give the key away"
        elif status == 200:
            what = f"not the documented answer: {scrub.text(problem)}"
        else:
            what = f"an undocumented status {status}"
        repeatable = status == 200 and effective < 300
        return UnexpectedResponseError(
            what,
            status=effective if effective >= 300 else status,
            excerpt=_excerpt(body, scrub),
            repeatable=repeatable,
            method=call.method,
            path=call.path,
        )
    if told is not None:
        message = scrub.text((told.message or "")[:SCRUBBED_BYTES])[:_LONGEST_MESSAGE]
        data = scrub.value(told.data)
    else:
        message = scrub.text(_excerpt(body, scrub).decode(errors="replace"))
        data = None
    kind = _kind(call, effective, message, enveloped=told is not None)
    after = parse_retry_after(headers, now)
    if after is None and effective == 429 and (hint := rate_hint(headers, now)) and not hint.remaining:
        after = hint.reset
    return kind(message, status=effective, data=data, method=call.method, path=call.path, retry_after=after)


def _excerpt(body: bytes | bytearray, scrub: Scrubber) -> bytes:
    return scrub.data(bytes(body[:SCRUBBED_BYTES]))[:EXCERPT_BYTES]


def _read_envelope(body: bytes | bytearray) -> _AnyEnvelope | None:
    try:
        return _any_decoder.decode(body)
    except _UNDECODABLE:
        return None


def _kind(call: Call[Any], status: int, message: str, *, enveloped: bool) -> type[APIError]:
    if status == 400:
        unknown = call.path.startswith("stats") and "tag does not exist" in message.lower()
        return UnknownTagError if unknown else BadRequestError
    if status == 401:
        return AuthenticationError
    if status == 404:
        return NotFoundError
    if status == 429:
        of_tags = call.method == "POST" and enveloped and _counts_tags(message)
        return TagLimitError if of_tags else RateLimitError
    return ServerError if status >= 500 else APIError


def _counts_tags(message: str) -> bool:
    return not _RATE.search(message) and any(
        _TAGS.search(sentence) and _AMOUNT.search(sentence) and not _REQUESTS.search(sentence)
        for sentence in _SENTENCES.split(message)
    )


class Scrubber:
    """Replace secrets in what an error shows, in each form in which an answer may echo them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, or a secret that holds another would leave a rest.
        ordered = sorted({*filter(None, secrets)}, key=len, reverse=True)
        pattern = "|".join("".join(map(_in_each_form, secret)) for secret in ordered)
        self._pattern = re.compile(pattern) if pattern else None
        self._bytes = re.compile(pattern.encode()) if pattern else None

    def text(self, text: str) -> str:
        """Scrub a text."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def data(self, data: bytes) -> bytes:
        """Scrub bytes."""
        return self._bytes.sub(HIDDEN.encode(), data) if self._bytes else data

    def value(self, value: Any, depth: int = _DEEPEST_DATA) -> Any:
        """Scrub every text within decoded JSON; what is nested deeper than `depth` becomes None."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | dict) and not depth:
            return None
        if isinstance(value, list):
            return [self.value(item, depth - 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(v, depth - 1) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return value


# Looked up here, as a codec is a file: errors are told also where no file can be opened.
_utf16 = codecs.getencoder("utf-16-be")


@lru_cache(maxsize=256)
def _in_each_form(char: str) -> str:
    """Give a pattern for one character as it is, in JSON, percent-encoded and in HTML."""
    in_json = r"\/" if char == "/" else json.dumps(char)[1:-1]
    in_form = "+" if char == " " else char
    units = _utf16(char)[0].hex()
    # An echo may be JSON within JSON.
    forms = {r"\\{0,7}" + re.escape(form) for form in (char, in_json, in_form, html.escape(char))} | {
        "".join(rf"\\{{1,7}}u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4)),
        "(?i:" + "".join(f"%{byte:02x}" for byte in char.encode()) + ")",
        f"(?i:&#(?:0*{ord(char)}|x0*{ord(char):x});)",
    }
    return f"(?:{'|'.join(sorted(forms))})"
