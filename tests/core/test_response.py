"""Laws of answers: the HTTP status decides, then the envelope's; nothing that comes in breaks the reading."""

from __future__ import annotations

import html
import json
import pickle
from contextlib import nullcontext
from datetime import UTC, date, datetime
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from slashtag import (
    APIError,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    Page,
    RateLimitError,
    ServerError,
    ShortUrl,
    SlashtagError,
    Tag,
    TagLimitError,
    UnexpectedResponseError,
    UnknownTagError,
)
from slashtag._core.call import Call
from slashtag._core.response import answered_at, check_age, parse
from slashtag._core.retry import answer_lost, retryable
from slashtag._core.scrubber import EXCERPT_BYTES, Scrubber
from slashtag._core.statistics_answers import GeoAnswer, PeriodAnswer, RangeAnswer
from slashtag._resources.urls import RowsUpdated

from .test_statistics_answers import WEEK

URLS: Call[Any] = Call(method="GET", path="urls", returns=Page[ShortUrl])
UPDATE: Call[Any] = Call(method="PUT", path="urls/spring", returns=RowsUpdated, body=b"{}")
TAGS: Call[Any] = Call(method="GET", path="tags", returns=Page[Tag])
CREATE: Call[Any] = Call(method="POST", path="tags", returns=Tag, body=b"{}", repeat="if unsent")
STATS: Call[Any] = Call(method="GET", path="stats", returns=RangeAnswer)
YEARLY: Call[Any] = Call(method="GET", path="stats/yearly", returns=PeriodAnswer)
GEO: Call[Any] = Call(method="GET", path="stats/country/geo", returns=GeoAnswer)


def envelope(status: int = 200, message: str = "ok", data: Any = msgspec.UNSET) -> bytes:
    members = {"status": status, "message": message}
    return msgspec.json.encode(members if data is msgspec.UNSET else {**members, "data": data})


def error_of(
    call: Call[Any], status: int, body: bytes, headers: dict[str, str] | None = None, **more: Any
) -> Any:
    with pytest.raises(SlashtagError) as caught:
        parse(call, status, CIMultiDict(headers or {}), body, **more)
    return caught.value


def data_of(call: Call[Any], data: Any) -> Any:
    return parse(call, 200, CIMultiDict(), envelope(data=data))


# --- every error of the document ---------------------------------------------------------------------

TAG_UNKNOWN = "Bad request. Tag does not exists."
INVALID = "Bad request. Date is required."
UNAUTHORIZED = "Api key and secret is not valid or missing."
NOT_FOUND = "Not found. URL with specified slashtag doesn't exist."
TOO_MANY_TAGS = "You have reached the maximum allowed number of tags. Please contact support."

DOCUMENTED: list[tuple[Call[Any], int, str, Any, type[APIError]]] = [
    (URLS, 400, "Bad request. Page is invalid.", None, BadRequestError),
    (STATS, 400, TAG_UNKNOWN, [], UnknownTagError),
    (GEO, 400, "Bad request. Tag does not exist.", [], UnknownTagError),
    (STATS, 400, INVALID, [], BadRequestError),
    (URLS, 401, UNAUTHORIZED, msgspec.UNSET, AuthenticationError),
    (UPDATE, 404, NOT_FOUND, None, NotFoundError),
    (CREATE, 429, TOO_MANY_TAGS, None, TagLimitError),
    # Not in the document:
    (STATS, 429, "Too many requests.", [], RateLimitError),
    (STATS, 403, "Forbidden.", [], APIError),
    (STATS, 414, "Too long.", [], APIError),
    (STATS, 503, "Unavailable.", [], ServerError),
]


@pytest.mark.parametrize(("call", "status", "message", "data", "kind"), DOCUMENTED)
@pytest.mark.parametrize("http", ["as it is", "200"])
def test_each_error_is_of_its_class(
    call: Call[Any], status: int, message: str, data: Any, kind: type[APIError], http: str
) -> None:
    error = error_of(call, status if http == "as it is" else 200, envelope(status, message, data))
    assert type(error) is kind
    assert (error.status, error.message) == (status, message)
    assert error.data == (None if data is msgspec.UNSET else data)
    assert str(error) == f"{status} {message}"


@pytest.mark.parametrize("body", [b"", b'{"message": "no status"}', b"[]", b"\xff"])
@pytest.mark.parametrize(
    ("status", "kind"), [(400, BadRequestError), (429, RateLimitError), (418, APIError), (500, ServerError)]
)
def test_without_an_envelope_the_status_decides(status: int, kind: type[APIError], body: bytes) -> None:
    error = error_of(CREATE, status, body)
    assert (type(error), error.status, error.data) == (kind, status, None)
    assert error.message == body.decode(errors="replace")
    assert not error.from_service


@pytest.mark.parametrize("status", [200, 502])
def test_of_a_web_page_its_text_is_told(status: int) -> None:
    page = b"<!DOCTYPE html><title>502 Bad\nGateway</title><hr><b class='x'>nginx</b><p"
    error = error_of(STATS, status, page)
    assert "502 Bad Gateway nginx" in error.message
    assert "<" not in str(error)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>nginx</html>",
        b'{"message": "no status"}',
        b'{"status": 404}',
        envelope(200, "ok", None),
    ],
)
def test_a_404_without_the_envelope_may_be_anyones(body: bytes) -> None:
    error = error_of(URLS, 404, body)
    assert (type(error), error.status, error.excerpt) == (UnexpectedResponseError, 404, body)
    assert retryable(URLS, error)
    assert answer_lost(error)


@given(st.sampled_from([400, 401, 404, 429, 500, 502]), st.integers(100, 599))
def test_an_error_status_of_http_decides_over_the_envelope(status: int, told: int) -> None:
    assert error_of(STATS, status, envelope(told)).status == status


@given(st.integers(400, 599))
def test_an_error_in_a_200_acts_in_every_way_as_that_status(status: int) -> None:
    for call in (STATS, UPDATE, CREATE):
        bare, wrapped = (error_of(call, http, envelope(status, "no", None)) for http in (status, 200))
        assert (type(bare), str(bare), answer_lost(bare)) == (
            type(wrapped),
            str(wrapped),
            answer_lost(wrapped),
        )
        assert retryable(call, bare) == retryable(call, wrapped)


@pytest.mark.parametrize("status", [300, 302, 304, 308])
def test_a_redirect_is_unexpected_and_final(status: int) -> None:
    for error in (error_of(UPDATE, status, b"moved"), error_of(UPDATE, 200, envelope(status))):
        assert (type(error), error.status) == (UnexpectedResponseError, status)
        assert not retryable(UPDATE, error)
        assert not answer_lost(error)


@pytest.mark.parametrize("status", [201, 204])
def test_another_success_than_200_is_unexpected_and_final(status: int) -> None:
    error = error_of(STATS, status, envelope())
    assert (type(error), error.status, retryable(STATS, error)) == (UnexpectedResponseError, status, False)


@pytest.mark.parametrize(("told", "message"), [(201, "ok"), (200, "Partial.")])
def test_a_200_whose_envelope_says_something_else_may_be_asked_again(told: int, message: str) -> None:
    error = error_of(STATS, 200, envelope(told, message, {"total_clicks": 1}))
    assert (type(error), error.status) == (UnexpectedResponseError, 200)
    assert retryable(STATS, error)


@pytest.mark.parametrize("message", ["ok", "OK.", "Success"])
def test_a_success_says_so(message: str) -> None:
    assert parse(STATS, 200, {}, envelope(200, message, {"total_clicks": 1})).total_clicks == 1


# --- the two kinds of 429 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        (
            TagLimitError,
            [
                "Tag limit reached!",
                "Too many tags.",
                "You have reached the limit of 500 tags; for more, send your requests to support.",
            ],
        ),
        (
            RateLimitError,
            [
                "Too many requests to tags. Limit of tags is 10 per second.",
                "Limit reached: 10 tags per minute.",
            ],
        ),
    ],
)
def test_a_429_that_counts_tags_is_the_tag_limit(kind: type[APIError], messages: list[str]) -> None:
    for message in messages:
        assert type(error_of(CREATE, 429, envelope(429, message, None))) is kind, message


@pytest.mark.parametrize("call", [STATS, TAGS, UPDATE])
def test_only_the_service_tells_the_tag_limit_and_only_when_one_is_created(call: Call[Any]) -> None:
    assert type(error_of(call, 429, envelope(429, TOO_MANY_TAGS, None))) is RateLimitError
    assert type(error_of(CREATE, 429, TOO_MANY_TAGS.encode())) is RateLimitError


# --- retry-after ---------------------------------------------------------------------------------------

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Date": "Mon, 01 Jan 2024 12:00:00 GMT", "Age": "-5"}, NOON),
        ({"Date": "Mon, 01 Jan 2024 12:00:00 GMT", "Age": "0" * 5_000}, NOON),
        ({"Date": "Mon, 01 Jan 2024 12:00:00 GMT"}, NOON),
        ({"Date": "yesterday", "Age": "5"}, None),
    ],
)
def test_an_age_that_is_none_is_left_out_and_without_a_date_nothing_is_known(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert answered_at(CIMultiDict(headers)) == seconds


@given(st.integers(-100_000, 100_000), st.integers(0, 100_000))
def test_an_answer_was_made_by_the_earlier_of_both_clocks_less_its_age(ahead: int, age: int) -> None:
    headers = CIMultiDict({"Date": formatdate(NOON + ahead, usegmt=True), "Age": str(age)})
    assert answered_at(headers, NOON) == NOON + min(0, ahead) - age


@given(st.integers(-1_000, 1_000), st.integers(0, 1_000))
def test_an_answer_is_refused_if_it_was_made_before_the_time_that_its_call_names(
    after: int, age: int
) -> None:
    with pytest.raises(UnexpectedResponseError) if -age < after else nullcontext():
        check_age(NOON + after, CIMultiDict({"Age": str(age)}), NOON)


# --- what comes in -------------------------------------------------------------------------------------

GOOD = envelope(data={"total_clicks": 5, "clicks": {"2024-01-01": 5}, "device": {"Desktop": "5"}})


@given(st.binary(max_size=300), st.integers(200, 599))
def test_any_bytes_are_an_error_of_ours_that_pickles(body: bytes, status: int) -> None:
    error = error_of(STATS, status, body)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def json_with(floats: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        floats | st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )


@given(st.sampled_from([URLS, UPDATE, STATS, YEARLY, GEO]), json_with(st.floats()), st.booleans())
def test_any_json_is_data_of_the_right_type_or_an_error_of_ours(
    call: Call[Any], value: Any, wrapped: bool
) -> None:
    body = json.dumps({"status": 200, "message": "ok", "data": value} if wrapped else value).encode()
    told: Any
    try:
        told = parse(call, 200, CIMultiDict(), body)
    except SlashtagError as error:
        told = error
    assert type(told) is call.returns or str(pickle.loads(pickle.dumps(told))) == str(told)


@pytest.mark.parametrize(
    "body",
    [
        b'\xff{"status":200,"message":"ok","data":{"total_clicks":1}}',
        GOOD + b"x",
        b"[" * 100_000,
        envelope(),
        envelope(data={"total_clicks": 1.5}),
        envelope(data={"total_clicks": 1, "device": [1]}),
        envelope(data={"total_clicks": -1}),
        envelope(data={"total_clicks": 1, "device": {"Desktop": 2, "Mobile": -1}}),
        envelope(data={"total_clicks": 1, "clicks": {"1 January": 1}}),
        b'{"status":200,"message":"ok","data":{"total_clicks":"' + b"9" * 10_000 + b'"}}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_200_that_is_not_the_documented_answer_is_unexpected(body: bytes) -> None:
    error = error_of(STATS, 200, body)
    assert type(error) is UnexpectedResponseError
    assert error.excerpt == body[:EXCERPT_BYTES]
    assert retryable(STATS, error)


@pytest.mark.parametrize("text", [b"\xff", rb"\ud83d"])
def test_what_is_not_unicode_is_read(text: bytes) -> None:
    error = error_of(UPDATE, 404, b'{"status":404,"message":"Not found: %b","data":null}' % text)
    assert (type(error), error.message, error.from_service) == (NotFoundError, "Not found: \ufffd", True)
    told = list[str]()
    data = b'{"total_clicks":"1","clicks":{"2024-01-01":1},"device":{"%b":1}}' % text
    body = b'\xef\xbb\xbf{"status":200,"message":"ok","data":%b}' % data
    assert parse(STATS, 200, {}, body, report=told.append) == RangeAnswer(
        total_clicks=1, clicks={date(2024, 1, 1): 1}, device={"\ufffd": 1}
    )
    assert len(told) == 1


@pytest.mark.parametrize("text", [b"\xff", rb"\ud83d"])
def test_a_slashtag_that_is_not_unicode_is_none_and_other_texts_are_marked(text: bytes) -> None:
    items = b'[{"id": 1, "slashtag": "%b", "destination": "%b"}]' % (text, text)
    told = list[str]()
    body = b'{"status": 200, "message": "ok", "data": {"page": 1, "pageSize": 5, "items": %b}}' % items
    assert parse(URLS, 200, {}, body, report=told.append).items == [ShortUrl(id=1, destination="\ufffd")]
    assert len(told) == 2


@pytest.mark.parametrize("count", [0, 7, 2**63, 10**40])
def test_counts_come_as_numbers_and_as_digits(count: int) -> None:
    for given_count in (count, str(count)):
        data = {"total_clicks": given_count, "device": {"Desktop": given_count}}
        body = json.dumps({"status": 200, "message": "ok", "data": data}).encode()
        assert parse(STATS, 200, {}, body) == RangeAnswer(total_clicks=count, device={"Desktop": count})


@pytest.mark.parametrize("empty", [[], {}, None])
def test_an_empty_map_comes_as_an_object_an_array_or_null(empty: Any) -> None:
    totals = {"clicks_total": 0, "clicks_unique": 0, "clicks_repeated": 0}
    for call, data in (
        (STATS, {"total_clicks": 0, "device": empty, "clicks": empty}),
        (YEARLY, {**totals, "clicks_breakdown": empty, "languages": empty}),
        (YEARLY, {**totals, "clicks_breakdown": {"2024": empty}}),
        (GEO, {"state": empty, "city": empty, "postalcode": empty}),
    ):
        stats, problem = data_of(call, data).to_statistics(WEEK if call is STATS else None)
        assert (stats.total, list(stats.rows()), problem) == (0, [], None)


def test_numbers_of_records_may_be_digits_and_unknown_members_are_left_out() -> None:
    page = data_of(URLS, {"page": 1, "pageSize": "50", "items": [{"id": 7, "redirectCode": "301", "of": {}}]})
    assert page == Page(page=1, page_size=50, items=[ShortUrl(id=7, redirect_code=301)])


@pytest.mark.parametrize("depth", [3, 800, 100_000])
def test_data_of_an_error_is_kept_unless_it_is_too_deep(depth: int) -> None:
    body = b'{"status":400,"message":"no","data":' + b"[" * depth + b"]" * depth + b"}"
    error = error_of(STATS, 400, body)
    assert (type(error), error.status) == (BadRequestError, 400)
    assert depth > 3 or error.data == [[[]]]


# --- secrets -------------------------------------------------------------------------------------------


FORMS = {
    "raw": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1],
    "json in utf-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps(text))[3:-3],
    "json with \\/": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json for html": lambda text: "".join(
        f"\\u{ord(c):04X}" if c in "&<>'/" else json.dumps(c)[1:-1] for c in text
    ),
    "percent": lambda text: quote(text, safe=""),
    "percent but /": lambda text: quote(text),
    "percent in lower case": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "form": lambda text: quote_plus(text),
    "html": lambda text: html.escape(text),
    "html by number": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "html by hex": lambda text: "".join(f"&#x{ord(c):X};" for c in text),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_part_of_a_secret_is_left_at_the_end_of_the_excerpt(form: str) -> None:
    secret = "s3cr3tsX/3cr3t"
    echo = FORMS[form](secret).encode()
    for before in (*range(150, 202), *range(450, 502), 65_500):
        body = b"." * before + echo + b"." * 500
        for status, length in ((200, EXCERPT_BYTES), (500, 500)):
            error = error_of(STATS, status, body, scrubber=Scrubber([secret]))
            excerpt = error.excerpt if status == 200 else error.message.encode()
            assert set(excerpt) <= set(b".*")
            assert len(excerpt) == length


@example("pass\U0001f600wörd\n", "json in json", "", "")
@given(
    st.text(min_size=8, max_size=50),
    st.sampled_from(sorted(FORMS)),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_any_password_is_hidden_in_any_form(secret: str, form: str, before: str, after: str) -> None:
    scrub = Scrubber([secret])
    echo = FORMS[form](secret)
    assert echo not in scrub.text(before + echo + after)
    assert echo.encode() not in scrub.excerpt((before + echo + after).encode())


def test_a_secret_within_another_leaves_no_rest() -> None:
    scrub = Scrubber(["abc", "abcdefgh", "cdef", "abcd", ""])
    assert scrub.text("abcdefgh cdef abcd abc ab") == "*** *** *** *** ab"


def test_secrets_within_decoded_json_are_hidden_in_keys_and_values() -> None:
    assert Scrubber(["hide"]).value({"hide": ["a hide", {"b": "hide"}, 5]}) == {
        "***": ["a ***", {"b": "***"}, 5]
    }
