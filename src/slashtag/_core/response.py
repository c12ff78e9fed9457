"""Decode a response: `parse(call, status, headers, body)` returns its data or raises its error."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from math import inf
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import fields, replace

from .._errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TagLimitError,
    UnexpectedResponseError,
    UnknownTagError,
)
from .._records import Page, Record
from .call import Call
from .lenient_json import REPLACEMENT, as_unicode
from .scrubber import SCRUBBED_BYTES, Scrubber
from .throttle.retry_after import http_date
from .throttle.retry_after import retry_after as parse_retry_after

T = TypeVar("T")
R = TypeVar("R", bound=Record)

#: Is called with each member and text that cannot be read, in words, which may have a secret.
ReportUnreadable = Callable[[str], object]

_NO_SECRETS = Scrubber(())
_LONGEST_MESSAGE = 500

# Bad UTF-8 (a ValueError) and very deep nesting do not raise msgspec errors, nor does the lenient decoder.
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)
# Mistaken for a rate limit, it would be repeated.
_COUNTS_TAGS = re.compile(r"\b(number of|too many|limit of [0-9]+) tags\b|\btag limit\b", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>?")
_BLANK = b" \t\r\n\xef\xbb\xbf"
_VALUE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(strict=False)
_ENVELOPE = {"status", "message", "data"}


class Envelope(Struct, Generic[T], gc=False):
    """Envelope of an answer; `status` mirrors the HTTP status. See docs/service.md, General conventions."""

    status: int
    message: str | None = None
    data: T | UnsetType = UNSET


class AnyData:
    """What `Call.returns` is of an endpoint that has no method here: any 2xx is a success, with any data.

    | body                                           | data        |
    |------------------------------------------------|-------------|
    | empty, as with a 204                           | None        |
    | an envelope, without other members, with data  | its `data`  |
    | other JSON                                     | all of it   |
    """


#: Members of records that are keys of statistics.
_KEYS = ("slashtag", "name")


@lru_cache(maxsize=64)
def _decoder(returns: Any) -> msgspec.json.Decoder[Envelope[Any]]:
    """Return the decoder of answers with data of a type."""
    return msgspec.json.Decoder(Envelope[returns], strict=False)


def _decode(
    decoder: msgspec.json.Decoder[Any], body: bytes | bytearray, report: ReportUnreadable = lambda text: None
) -> Any:
    """Decode a body whose texts may not be Unicode; raises _UNDECODABLE."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = as_unicode(body)
    if REPLACEMENT in text:
        report("texts that are not Unicode")
    return decoder.decode(text)


def _read(returns: Any, data: Any, report: ReportUnreadable) -> Any:
    """Return decoded data as a type, records member by member; raises msgspec.ValidationError.

    Only an id, and the members of the page itself, are indispensable.
    """
    if get_origin(returns) is Page:
        page: Page[dict[str, Any]] = msgspec.convert(data, Page[dict[str, Any]], strict=False)
        return replace(page, items=[_record(get_args(returns)[0], item, report) for item in page.items])
    if issubclass(returns, Record):
        return _record(returns, msgspec.convert(data, dict[str, Any]), report)
    return msgspec.convert(data, returns, strict=False)


def _record(kind: type[R], data: dict[str, Any], report: ReportUnreadable) -> R:
    id = msgspec.convert(data.get("id"), int, strict=False)
    members: dict[str, Any] = {}
    for field in fields(kind):
        given, value = data.get(field.encode_name), None
        with suppress(msgspec.ValidationError):
            value = msgspec.convert(given, field.type, strict=False)
        if field.name in _KEYS and REPLACEMENT in (value or ""):
            # As a key of statistics the text would be another one.
            value = None
        if value is None and given is not None:
            report(f"{field.encode_name} of the {kind.__name__} {id}: {repr(given)[:SCRUBBED_BYTES]}")
        members[field.name] = value
    return kind(**members)


def _data(call: Call[Any], body: bytes | bytearray, report: ReportUnreadable) -> Any:
    """Return the data of a success; raises _UNDECODABLE, also where the envelope tells no success."""
    returns: Any = call.returns
    if returns is AnyData:
        return _any_data(body, report)
    try:
        envelope, is_read = _decoder(returns).decode(body), True
    except (msgspec.DecodeError, UnicodeDecodeError):
        envelope, is_read = _decode(_decoder(Any), body, report), False
    if envelope.status != 200:
        raise ValueError(f"the envelope says {envelope.status}")
    if (envelope.message or "ok").strip(" .!").lower() not in ("ok", "success"):
        raise ValueError(f"the message is {envelope.message!r}")
    if envelope.data is UNSET:
        raise ValueError("the envelope has no data")
    return envelope.data if is_read else _read(returns, envelope.data, report)


def _any_data(body: bytes | bytearray, report: ReportUnreadable) -> Any:
    """Return what the body of a success holds, by the table of AnyData; raises _UNDECODABLE."""
    if not body.strip(_BLANK):
        return None
    value = _decode(_VALUE, body, report)
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    status = members.get("status")
    if isinstance(status, int) and status >= 300 and "message" in members:
        raise ValueError(f"the envelope says {status}")
    return members["data"] if "data" in members and members.keys() <= _ENVELOPE else members


def parse(
    call: Call[T],
    status: int,
    headers: Mapping[str, str],
    body: bytes | bytearray,
    scrubber: Scrubber = _NO_SECRETS,
    report: ReportUnreadable = lambda text: None,
) -> T:
    """Return the `data` of an answer, or raise its error.

    The HTTP status decides; in a 200 the envelope's status is treated exactly as that HTTP status.
    `scrubber` has the secrets that no error may show; `report` takes the members of records that are None,
    and texts that have U+FFFD, as they cannot be read. Raises APIError and its subclasses, and
    UnexpectedResponseError. See docs/service.md, Errors.

    A 404 without the service's envelope is an UnexpectedResponseError that may be repeated: a load balancer
    may have sent it, so it does not show that a link, a tag or a page is missing.
    """
    problem = None
    # Where nothing is documented any 2xx is a success.
    if status == 200 or (call.returns is AnyData and 200 <= status < 300):
        try:
            data: T = _data(call, body, report)
            return data
        except _UNDECODABLE as error:
            problem = str(error)
    # Raised outside the handler: its context, the decoding error, would keep the body.
    failure = _error(call, status, headers, body, scrubber.adding(call.secrets), problem)
    del headers, body  # which may echo a secret, and which a traceback would show
    raise failure


def answered_at(headers: Mapping[str, str], now: float = inf) -> float | None:
    """Return when the service made an answer, in epoch seconds: its Date less its Age, or None.

    With `now`, this machine's time at its arrival, by the earlier of the two clocks: one that is ahead would
    show a period as over that is not. A cache keeps the Date of an answer, or sets its own: the result is
    never too late. None without a valid Date; an Age that is no number of seconds counts as absent. See
    RFC 9111, 5.1.
    """
    date = http_date(headers.get("Date") or "")
    return None if date is None else (date if date < now else now) - _age(headers)


def check_age(
    made_after: float, headers: Mapping[str, str], now: float, scrubber: Scrubber = _NO_SECRETS
) -> None:
    """Raise UnexpectedResponseError for an answer that was made before `Call.made_after`.

    It was made when it arrived, at `now`, less its Age; both are times of this machine, in epoch seconds.
    """
    if (made := now - _age(headers)) < made_after:
        text = f"a cache answered, with what was so {now - made:.0f} s before"
        shown = scrubber.headers(headers)
        del headers  # as in `parse`
        raise UnexpectedResponseError(text, status=200, repeatable=False, headers=shown)


def _age(headers: Mapping[str, str]) -> int:
    """Return the seconds that a cache has kept an answer; a value that is no number counts as absent."""
    age = headers.get("Age") or ""
    # Nine digits are 31 years. Python refuses to read thousands.
    return int(age[:9]) if age.isdigit() and age.isascii() else 0


def _error(
    call: Call[Any],
    status: int,
    headers: Mapping[str, str],
    body: bytes | bytearray,
    scrub: Scrubber,
    problem: str | None,
) -> APIError | UnexpectedResponseError:
    """Return the error of an answer; `problem`: why that of a successful HTTP status is one."""
    envelope: Envelope[Any] | None = None
    data: Any = None
    with suppress(*_UNDECODABLE):
        decoded = _decode(_decoder(Any), body)
        data = scrub.value(decoded.data)
        envelope = decoded
    is_success = problem is not None  # by its HTTP status
    effective = envelope.status if envelope is not None and is_success else status
    told = body[:SCRUBBED_BYTES].decode(errors="replace") if envelope is None else envelope.message or ""
    message = _shown(told, scrub)
    # Gateways answer with JSON too, but not with both members of the envelope, nor with the status mirrored.
    from_service = envelope is not None and envelope.status == effective and envelope.message is not None
    # Of an endpoint that is not modelled, a router may say so that there is none.
    if effective < 400 or (effective == 404 and not from_service and call.returns is not AnyData):
        what = "an answer that is not documented"
        if 300 <= effective < 400:
            what = "a redirect, which is never followed, as it would leak the credentials"
        elif problem:
            what += f": {message if envelope is None else _shown(problem, scrub)}"
        return UnexpectedResponseError(
            f"{what} ({effective})",
            # A 2xx in the envelope of a 200 is no status of its own.
            status=effective if effective >= 300 else status,
            excerpt=scrub.excerpt(body),
            headers=scrub.headers(headers),
            repeatable=effective >= 400 or (is_success and effective < 300),
        )
    return _kind(call, effective, message, from_service=from_service)(
        message,
        status=effective,
        data=None if data is UNSET else data,
        retry_after=parse_retry_after(headers),
        from_service=from_service,
        headers=scrub.headers(headers),
    )


def _shown(text: str, scrub: Scrubber) -> str:
    """Return the start of a text as an error shows it; of a web page without its tags."""
    text = scrub.text(text[:SCRUBBED_BYTES])
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        text = f"a web page: {' '.join(_TAG.sub(' ', text).split())}"
    return text[:_LONGEST_MESSAGE]


def _kind(call: Call[Any], status: int, message: str, *, from_service: bool) -> type[APIError]:
    if status == 400 and "tag does not exist" in message.lower():
        return UnknownTagError
    if status == 429 and call.method == "POST" and from_service and _COUNTS_TAGS.search(message):
        return TagLimitError
    kinds = {400: BadRequestError, 401: AuthenticationError, 404: NotFoundError, 429: RateLimitError}
    return kinds.get(status, ServerError if status >= 500 else APIError)
