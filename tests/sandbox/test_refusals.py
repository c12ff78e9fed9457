"""What is refused, and in which envelope: docs/service.md, Authentication and Errors."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slashtag.sandbox import Arrival, Behaviour
from slashtag.sandbox.generate import fill
from slashtag.sandbox.routes import Service
from slashtag.sandbox.rules import Envelope
from slashtag.sandbox.store import Store

DAY = "2024-01-01T00:00:00+00:00"
LAST = "2024-02-02T00:00:00+00:00"  # 32 days later
GEO = {"iso_code": "us", "start_date": "2024-01-01", "end_date": "2024-01-31"}
# Each statistics path with what it needs beside a selector.
COMPLETE: dict[str, dict[str, str]] = {
    "stats": {"date": DAY},
    "stats/yearly": {"year": "2024"},
    "stats/alltime": {},
    "stats/country/geo": GEO,
}
MEMBERS = ("destination", "slashtag", "redirect_code", "password", "domain_id", "name", "description")
BEHAVIOURS = [
    Behaviour(),
    Behaviour(range_end="exclusive", zero_days=True, paths="both"),
    Behaviour(day_clicks=True, zero_days=True, empty_maps="array", unknown_keys="error", paths="samples"),
]
HEADERS = {"apikey": "k", "apisecret": "s", "content-type": "application/json"}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = Store(None, partial(fill, urls=3, clicks=20, tags=2, seed=1, since=0, until=2**31))
    yield store
    store.close()


def answer(
    store: Store, path: str, method: str = "GET", body: bytes = b"", headers: Any = HEADERS, **query: str
) -> Envelope:
    service = Service(store, Behaviour(max_tags=2), "k", "s")
    return service.answer(Arrival(method, f"/api/v1/{path}", query, body=body), headers)


@pytest.mark.parametrize("path", ["urls", "tags", *COMPLETE])
@pytest.mark.parametrize("wrong", [{"apikey": "x"}, {"apisecret": "x"}, {"apikey": ""}])
def test_wrong_credentials_are_the_documented_401_without_data(
    store: Store, path: str, wrong: dict[str, str]
) -> None:
    refused = msgspec.to_builtins(answer(store, path, headers=HEADERS | wrong))
    assert refused == {"status": 401, "message": "Api key and secret is not valid or missing."}


@pytest.mark.parametrize("path", ["urls", "tags"])
@pytest.mark.parametrize(
    "query",
    [
        *({"page": page} for page in ("0", "x", "-1", "")),
        *({"pagesize": size} for size in ("0", "501")),
        {"orderby": "id"},
    ],
    ids=str,
)
def test_a_listing_against_the_rules_is_a_400_with_null(
    store: Store, path: str, query: dict[str, str]
) -> None:
    refused = answer(store, path, **query)
    assert (refused.status, refused.data) == (400, None)
    assert refused.message.startswith("Bad request. ")


KEYS = {"url_keys": "a"}
# Path, what is added to a complete question with a selector or replaces it there, and what the refusal says.
WRONG: list[tuple[str, dict[str, str], str]] = [
    *((path, {"url_keys": "", "tag": ""}, "Tag and URL keys both can not be empty.") for path in COMPLETE),
    *((path, {"url_keys": ","}, "Tag and URL keys both can not be empty.") for path in COMPLETE),
    *((path, {"tag": "newsletter"}, "not both") for path in COMPLETE),
    *((path, {"url_keys": "", "tag": "nobody"}, "Tag does not exists.") for path in COMPLETE),
    *((path, {"url_keys": ",".join(f"k{n}" for n in range(101))}, "100") for path in COMPLETE),
    *(
        (path, {"timezone": offset}, "imezone")
        for path in COMPLETE
        for offset in ("02:00", "+2:00", "+0200", "UTC", "", "+24:00", "+01:60")
    ),
    ("stats", {"date": ""}, "Date is required."),
    ("stats", {"date_range": f"{DAY},{DAY}"}, "not both"),
    *(
        ("stats", {"date": date}, "ISO 8601")
        for date in (
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00Z",
            "2024-01-01 00:00:00+00:00",
            "2024-02-30T00:00:00+00:00",
            "2024-01-01T24:00:00+00:00",
            "2024-01-01T00:00:00.5+00:00",
            "2024-01-01T00:00:00+25:00",
        )
    ),
    *(
        ("stats", {"date": "", "date_range": text}, detail)
        for text, detail in [
            (DAY, "two dates"),
            (f"{DAY},{DAY},{DAY}", "two dates"),
            (f"{DAY},yesterday", "ISO 8601"),
            (f"{DAY},2023-12-31T23:59:59+00:00", "before it starts"),
            (f"{DAY},2024-02-02T00:00:01+00:00", "32 days"),
        ]
    ),
    *(("stats/yearly", {"year": year}, "ear") for year in ("", "24", "02024", "20x4", "0000")),
    *(("stats/country/geo", {"iso_code": code}, "") for code in ("", "U", "USA", "U1", "üß")),
    ("stats/country/geo", {"end_date": ""}, "Date is required."),
    ("stats/country/geo", {"end_date": "2024-02-30"}, "ISO 8601"),
    ("stats/country/geo", {"start_date": "20240101"}, "ISO 8601"),
    ("stats/country/geo", {"start_date": "2024-02-01"}, "before"),
]


@pytest.mark.parametrize(("path", "query", "detail"), WRONG)
def test_statistics_against_the_rules_are_a_400_with_an_empty_array(
    store: Store, path: str, query: dict[str, str], detail: str
) -> None:
    refused = answer(store, path, **KEYS | COMPLETE[path] | query)
    assert (refused.status, refused.data) == (400, [])
    assert refused.message.startswith("Bad request. ")
    assert detail in refused.message


@pytest.mark.parametrize(
    ("path", "query"),
    [
        *((path, KEYS) for path in COMPLETE),
        *((path, {"tag": "newsletter"}) for path in COMPLETE),
        *((path, {"url_keys": ",".join(f"k{n}" for n in range(100))}) for path in COMPLETE),
        *((path, KEYS | {"timezone": "-03:30"}) for path in COMPLETE),
        ("stats", KEYS | {"date": "", "date_range": f"{DAY},{LAST}"}),
        ("stats", KEYS | {"date": "", "date_range": f"{DAY},{DAY}"}),
    ],
)
def test_statistics_by_the_rules_are_answered(store: Store, path: str, query: dict[str, str]) -> None:
    assert answer(store, path, **COMPLETE[path] | query).status == 200


# Of both writes: their body, and whether it is against the rules.
UPDATES: list[dict[str, object]] = [
    *({"slashtag": slashtag} for slashtag in ("x" * 101, "", 7)),
    *({"redirect_code": code} for code in (305, "301", True)),
    *({"password": password} for password in ("x" * 51, None)),
    *({"domain_id": domain} for domain in ("1", 99)),
    *({"destination": url} for url in ("", "no url")),
]
TAGS: list[dict[str, object]] = [
    *({} if name is None else {"name": name} for name in (None, "", "x" * 26, 5, "newsletter")),
    {"name": "new", "description": "x" * 256},
]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [*(("PUT", "urls/1000001", body) for body in UPDATES), *(("POST", "tags", body) for body in TAGS)],
)
def test_a_write_against_the_rules_is_a_400_with_null_and_changes_nothing(
    store: Store, method: str, path: str, body: dict[str, object]
) -> None:
    before = store.links(), store.tags()
    refused = answer(store, path, method, msgspec.json.encode(body))
    assert (refused.status, refused.data) == (400, None)
    assert refused.message.startswith("Bad request. ")
    assert (store.links(), store.tags()) == before


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        *(("application/json", body) for body in (b"{", b"[]", b'{"name": "\xff"}', b"[" * 100_000)),
        ("text/plain", b'{"name": "x"}'),
        ("application/x-www-form-urlencoded", b"name=x"),
    ],
)
def test_a_body_must_be_a_json_object_and_said_to_be_json(
    store: Store, content_type: str, body: bytes
) -> None:
    refused = answer(store, "tags", "POST", body, HEADERS | {"content-type": content_type})
    assert (refused.status, refused.data) == (400, None)


def test_the_limit_of_tags_is_a_429_that_speaks_of_tags_and_support(store: Store) -> None:
    refused = answer(store, "tags", "POST", b'{"name": "one too many"}')
    assert (refused.status, refused.data) == (429, None)
    assert "maximum allowed number of tags" in refused.message
    assert "support" in refused.message


PATHS = {
    "urls": {"GET"},
    "urls/spring": {"PUT"},
    "tags": {"GET", "POST"},
    **{path: {"GET"} for path in COMPLETE},
    **{path: set[str]() for path in ("urls/", "urls/a/b", "stats/daily", "", "tags/1", "../v2/urls")},
}


@pytest.mark.parametrize(("path", "allowed"), PATHS.items())
def test_another_path_is_a_404_and_another_method_a_405(store: Store, path: str, allowed: set[str]) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"} - allowed:
        refused = answer(store, path, method)
        assert refused.status == (405 if allowed else 404)
        assert refused.data == ([] if path.startswith("stats") else None)


values = st.one_of(st.text(max_size=20), st.integers(), st.none(), st.booleans(), st.floats(), st.just([1]))
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "0", "1", "500", "a", "a,b", "t", "date", "US", "2024", "9999", "0001", "+14:00", "-12:00"]
    ),
    st.sampled_from(["2024-01-01", "9999-12-31", "0001-01-01", DAY, f"{DAY},{DAY}"]),
    st.sampled_from(["9999-12-31T23:59:59+00:00,9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+00:00"]),
)
NAMES = ("tag", "url_keys", "date", "date_range", "timezone", "year", "iso_code", "start_date", "end_date")


@given(
    st.sampled_from(["GET", "PUT", "POST"]),
    st.sampled_from(["urls", "tags", *COMPLETE, "urls/a%00%ff"]),
    st.dictionaries(st.sampled_from([*NAMES, "page", "pagesize", "orderby"]), texts),
    st.one_of(
        st.binary(max_size=20), st.dictionaries(st.sampled_from(MEMBERS), values).map(msgspec.json.encode)
    ),
    st.sampled_from(BEHAVIOURS),
)
def test_whatever_is_sent_is_answered_in_an_envelope(
    store: Store, method: str, path: str, query: dict[str, str], body: bytes, behaviour: Behaviour
) -> None:
    arrival = Arrival(method, f"/api/v1/{path}", query, body=body)
    envelope = Service(store, behaviour, "k", "s").answer(arrival, HEADERS)
    assert envelope.status in (200, 400, 404, 405, 429)
    assert msgspec.json.decode(msgspec.json.encode(envelope))["status"] == envelope.status
