"""The eight endpoints, from request values to answer values; no socket and no waiting."""
# ruff: noqa: S608 - only names from this package are put into a query; values are bound

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from itertools import islice
from time import time
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from . import rules
from .rules import DAY, EPOCH, RefusedError, Request, bad_request
from .store import DIRECT, DOMAINS, OTHER, VISITOR, Link, Store

API = "/api/v1"
Endpoint = Callable[[Request], object]
# A WHERE clause of links, and its parameters.
Selection = tuple[str, Sequence[object]]
T = TypeVar("T")


class Behaviour(TypedDict, total=False):
    """Choice for each behaviour that docs/service.md does not state: keyword arguments of Sandbox."""

    range_end: Literal["inclusive", "exclusive"]
    """Whether a click at the end instant of `date_range` is counted; inclusive by default."""
    day_clicks: bool
    """Whether the answer for a single day has the member `clicks`; not by default."""
    zero_days: bool
    """Whether `clicks` lists days, and `clicks_breakdown` the months of an active year, without clicks; not
    by default."""
    empty_maps: Literal["object", "array"]
    """How a map without entries is written: `{}`, by default, or `[]`."""
    places: Annotated[int, Meta(ge=0)]
    """Number of names that a geo map shows before `Other`; 50 by default."""
    paths: Literal["stated", "samples", "both"]
    """Paths of yearly and all-time statistics: the stated ones, by default, those of the samples, or both."""
    unknown_keys: Literal["ignore", "error"]
    """Whether a slashtag that no link has counts zero, by default, or gives a 400."""
    counted_keys: Annotated[int, Meta(ge=1)]
    """Number of slashtags of a request that are counted; all by default."""
    ignores_case: bool
    """Whether slashtags that differ in case only are counted as one; not by default."""
    max_pagesize: Annotated[int, Meta(ge=1, le=500)]
    """Larger page sizes, up to the documented 500, are lowered to this; the answer's `pageSize` shows it."""
    tie_order: Literal["id", "unstable"]
    """Order of records that were created in the same second: by id, by default, or another on each page."""
    max_tags: Annotated[int, Meta(ge=0)]
    """Maximum number of tags of the account; 500 by default."""


class Envelope(msgspec.Struct, frozen=True):
    """Answer without the member `data` if that is UNSET. See docs/service.md, General conventions."""

    status: int
    message: str
    data: Any = msgspec.UNSET


class Clicks(NamedTuple):
    """Counts: visitors, clicks by day without zeros, and maps by label, the most clicked first."""

    total: int
    unique: int
    days: dict[date, int]
    maps: dict[str, dict[str, int]]


def error_data(path: str) -> list[object] | None:
    """Return the `data` of an error: an empty array on statistics paths, null elsewhere."""
    return [] if path.startswith(f"{API}/stats") else None


class Service:
    """Endpoints over a store."""

    def __init__(self, store: Store, behaviour: Behaviour, apikey: str, apisecret: str) -> None:
        self._store = store
        self._behaviour = behaviour
        self._credentials = (apikey, apisecret)
        self._endpoints: dict[str, Endpoint] = {
            f"GET {API}/urls": self._list_urls,
            f"PUT {API}/urls": self._update_url,
            f"GET {API}/tags": self._list_tags,
            f"POST {API}/tags": self._create_tag,
            f"GET {API}/stats": self._range,
            f"GET {API}/stats/country/geo": self._country,
        }
        if behaviour.get("paths") != "samples":
            self._endpoints[f"GET {API}/stats/yearly"] = self._yearly
            self._endpoints[f"GET {API}/stats/alltime"] = self._alltime

    def answer(self, request: Request) -> Envelope:
        """Answer one request; a refusal is an answer too."""
        # The last segment of an update is the key of a link.
        path = request.path.rpartition("/")[0] if request.method == "PUT" else request.path
        endpoint = self._endpoints.get(f"{request.method} {path}")
        try:
            if endpoint is None or request.path.endswith("/"):
                raise RefusedError(404, "Not found. No such endpoint.")
            if (request.headers.get("apikey"), request.headers.get("apisecret")) != self._credentials:
                return Envelope(401, "Api key and secret is not valid or missing.")
            return Envelope(200, "ok", endpoint(request))
        except RefusedError as refused:
            return Envelope(refused.status, refused.message, error_data(request.path))

    # Links and tags

    def _list_urls(self, request: Request) -> object:
        """Answer endpoint 1, List short URLs."""
        page, links = self._page(request, self._store.links)
        return page | {"items": [_url_item(link) for link in links]}

    def _list_tags(self, request: Request) -> object:
        """Answer endpoint 3, List tags."""
        page, tags = self._page(request, self._store.tags)
        return page | {"items": tags}

    def _page(
        self, request: Request, fetch: Callable[[str, Sequence[int]], list[T]]
    ) -> tuple[dict[str, object], list[T]]:
        """Return number, size and records of a page of a listing by creation date."""
        try:
            asked = msgspec.convert(request.query, rules.Listing, strict=False)
        except msgspec.ValidationError as error:
            raise bad_request(f"{error}.") from None
        size = min(asked.pagesize, self._behaviour.get("max_pagesize", 500))
        way = "DESC" if asked.orderby == "-date" else "ASC"
        offset = min((asked.page - 1) * size, 2**63 - 1)  # as far as SQLite can count
        ties = "random()" if self._behaviour.get("tie_order") == "unstable" else f"id {way}"
        records = fetch(f"ORDER BY created_at {way}, {ties} LIMIT ? OFFSET ?", (size, offset))
        return {"page": asked.page, "pageSize": size}, records

    def _update_url(self, request: Request) -> object:
        """Answer endpoint 2, Update a short URL; digits are an id, or a slashtag if no link has that id.

        Omitted members are kept.
        """
        change: dict[str, Any] = msgspec.to_builtins(request.json(rules.UrlUpdate))
        key = unquote(request.path.rpartition("/")[2])
        links: list[Link] = []
        if key.isascii() and key.isdigit() and len(key) < 19:
            links = self._store.links("WHERE id = ?", (int(key),))
        if not links:
            links = self._store.links("WHERE slashtag = ?", (key,))
        if not links:
            raise RefusedError(404, "Not found. URL with specified slashtag doesn't exist.")
        if len(links) > 1:
            raise bad_request("Several URLs have this slashtag. Use the ID of the URL.")
        if change.get("domain_id", 0) not in DOMAINS:
            raise bad_request("Domain does not exist.")
        change["updated_at"] = int(time())
        columns = ", ".join(f"{name} = ?" for name in change)
        try:
            self._store.write(f"UPDATE link SET {columns} WHERE id = ?", (*change.values(), links[0].id))
        except sqlite3.IntegrityError:
            raise bad_request("Slashtag is already in use.") from None
        return {"rows_updated": 1}

    def _create_tag(self, request: Request) -> object:
        """Answer endpoint 4, Create a tag."""
        new = request.json(rules.NewTag)
        if self._store.tags("WHERE name = ?", (new.name,)):
            raise bad_request("Tag with this name already exists.")
        if self._store.rows("SELECT count(*) FROM tag")[0][0] >= self._behaviour.get("max_tags", 500):
            message = "The maximum allowed number of tags is reached. Please contact support to raise it."
            raise RefusedError(429, message)
        return self._store.add_tag(new.name, new.description, int(time()))

    # Statistics

    def _links(self, query: Mapping[str, str]) -> Selection:
        """Select links by tag or slashtags. See docs/service.md, Statistics: common selector."""
        tag, keys = query.get("tag"), [key for key in query.get("url_keys", "").split(",") if key]
        if not tag and not keys:
            raise bad_request("Tag and URL keys both can not be empty.")
        if tag and keys:
            raise bad_request("Either tag or URL keys can be given, not both.")
        if len(keys) > rules.MAX_KEYS:
            raise bad_request(f"At most {rules.MAX_KEYS} URL keys are allowed.")
        if tag:
            tags = self._store.tags("WHERE name = ?", (tag,))
            if not tags:
                raise bad_request("Tag does not exists.")
            return "WHERE tag_id = ?", [tags[0].id]
        keys = keys[: self._behaviour.get("counted_keys", rules.MAX_KEYS)]
        collation = " COLLATE NOCASE" if self._behaviour.get("ignores_case") else ""
        where = f"WHERE slashtag{collation} IN ({', '.join('?' * len(keys))})"
        if self._behaviour.get("unknown_keys") == "error":
            known = {link.slashtag for link in self._store.links(where, keys)}
            for key in keys:
                if key not in known:
                    raise bad_request(f"URL key does not exist: {key}")
        return where, keys

    def _clicks(
        self,
        links: Selection,
        labels: Sequence[str],
        span: tuple[int, int],
        *,
        offset: int = 0,
        country: str | None = None,
    ) -> Clicks:
        """Count clicks on links in a span of Unix seconds, its end not included.

        Days are of a zone `offset` seconds east of UTC. The rows are fetched once: for the few thousand of a
        usual request this is faster than one GROUP BY for each label.
        """
        where, values = links
        inside = "" if country is None else " AND country = (SELECT id FROM label WHERE text = ?)"
        rows = self._store.rows(
            f"SELECT {VISITOR}, (at + {offset}) / {DAY}, {', '.join(labels)} FROM click"
            f" WHERE link IN (SELECT id FROM link {where}) AND at >= ? AND at < ?{inside}",
            [*values, *span, *([] if country is None else [country])],
        )
        visitors, days, *columns = zip(*rows, strict=True) if rows else [()] * (2 + len(labels))
        maps: dict[str, dict[str, int]] = {}
        for name, ids in zip(labels, columns, strict=True):
            counts = [(self._store.labels[id], n) for id, n in Counter(ids).items()]
            # Ties are ordered by label, so that an answer does not depend on the order of rows.
            maps[name] = dict(sorted(counts, key=lambda entry: (-entry[1], entry[0])))
        by_day = {date.fromordinal(EPOCH + day): n for day, n in sorted(Counter(days).items())}
        return Clicks(len(rows), len(set(visitors)), by_day, maps)

    def _range(self, request: Request) -> object:
        """Answer endpoint 5, Statistics for a date or date range, or 6 or 7 in the form of the samples."""
        query, behaviour = request.query, self._behaviour
        if behaviour.get("paths", "stated") != "stated" and not (
            query.get("date") or query.get("date_range")
        ):
            return self._yearly(request) if query.get("year") else self._alltime(request)
        links, offset = self._links(query), rules.offset(query)
        span = rules.instants(query, includes_end=behaviour.get("range_end") != "exclusive")
        labels = ("device", "browser", "platform", "country", "referrer")
        clicks = self._clicks(links, labels, span, offset=offset)
        data: dict[str, object] = {"total_clicks": clicks.total}
        first, last = _day(span[0], offset), _day(max(span[0], span[1] - 1), offset)
        if first < last or behaviour.get("day_clicks"):
            every = (first + timedelta(days=n) for n in range((last - first).days + 1))
            days = {day.isoformat(): clicks.days.get(day, 0) for day in every}
            data["clicks"] = self._map({day: n for day, n in days.items() if n or behaviour.get("zero_days")})
        return data | self._maps(clicks)

    def _yearly(self, request: Request) -> object:
        """Answer endpoint 6, Statistics for a year."""
        links, offset = self._links(request.query), rules.offset(request.query)
        return self._period(links, rules.year(request.query, offset), offset)

    def _alltime(self, request: Request) -> object:
        """Answer endpoint 7, Statistics for all time."""
        return self._period(self._links(request.query), (-(2**62), 2**62), rules.offset(request.query))

    def _period(self, links: Selection, span: tuple[int, int], offset: int) -> object:
        labels = ("browser", "country", "device", "platform", "referrer", "timezone")
        clicks = self._clicks(links, labels, span, offset=offset)
        breakdown: dict[str, dict[str, int]] = {}
        zeros = {str(month): 0 for month in range(1, 13)} if self._behaviour.get("zero_days") else {}
        for day, n in clicks.days.items():
            months = breakdown.setdefault(f"{day.year:04d}", zeros.copy())
            months[str(day.month)] = months.get(str(day.month), 0) + n
        data: dict[str, object] = {
            "clicks_total": clicks.total,
            "clicks_unique": clicks.unique,
            "clicks_repeated": clicks.total - clicks.unique,
            "clicks_breakdown": self._map(breakdown),
            "languages": self._map({}),
        }
        return data | self._maps(clicks)

    def _country(self, request: Request) -> object:
        """Answer endpoint 8, Country geo-location statistics."""
        links, offset = self._links(request.query), rules.offset(request.query)
        code, span = rules.country(request.query, offset)
        clicks = self._clicks(links, ("state", "city", "postalcode"), span, country=code)
        data: dict[str, object] = {}
        for name, counts in clicks.maps.items():
            shown = dict(islice(counts.items(), self._behaviour.get("places", 50)))
            other = clicks.total - sum(shown.values())
            data[name] = {**{label: str(n) for label, n in shown.items()}, OTHER: other}
        return data

    def _maps(self, clicks: Clicks) -> dict[str, object]:
        """Count as strings of digits, but the `Direct` entry. See docs/service.md, Statistics records."""
        return {
            name: self._map({label: n if label == DIRECT else str(n) for label, n in counts.items()})
            for name, counts in clicks.maps.items()
        }

    def _map(self, entries: Mapping[str, object]) -> object:
        return [] if not entries and self._behaviour.get("empty_maps") == "array" else entries


def _url_item(link: Link) -> dict[str, object]:
    """Return a link as an item of the URL list. See docs/service.md, Short URL."""
    item: dict[str, object] = {
        "id": link.id,
        "destination": link.destination,
        "hits": link.hits,
        "redirectCode": str(link.redirect_code),
        "shortUrl": link.short_url,
        "slashtag": link.slashtag,
        "createdAt": link.created_at,
        "updatedAt": link.updated_at,
    }
    return item if link.tag_id is None else item | {"tagId": link.tag_id}


def _day(at: int, offset: int) -> date:
    """Return the date of an instant, clamped to the calendar."""
    ordinal = (at + offset) // DAY + EPOCH
    return date.fromordinal(min(max(ordinal, date.min.toordinal()), date.max.toordinal()))
