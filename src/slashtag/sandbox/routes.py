"""The eight endpoints, from request values to answer values; no socket and no waiting."""
# ruff: noqa: S608 - only names from this package are put into a query; values are bound

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import islice
from time import time
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Struct

from . import rules
from .rules import API, DAY, EPOCH, Arrival, Envelope, RefusedError, Selector, Span, bad_request, error_data
from .store import DIRECT, OTHER, VISITOR, Link, Store, Tag

_RANGE_MAPS = ("device", "browser", "platform", "country", "referrer")


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
    max_pagesize: Annotated[int, Meta(ge=1, le=500)]
    """Larger page sizes, up to the documented 500, are lowered to this; the answer's `pageSize` shows it."""
    max_tags: Annotated[int, Meta(ge=0)]
    """Maximum number of tags of the account; 500 by default."""


class Clicks(NamedTuple):
    """Counts: visitors, clicks by days since 1970, and maps by label, the most clicked first."""

    total: int
    unique: int
    days: Counter[int]
    maps: dict[str, dict[str, int]]


class Service:
    """Endpoints over a store."""

    def __init__(self, store: Store, behaviour: Behaviour, apikey: str, apisecret: str) -> None:
        self._store = store
        self._behaviour = behaviour
        self._credentials = (apikey, apisecret)
        self._endpoints: dict[str, tuple[type[Struct], Callable[..., object]]] = {
            f"GET {API}/urls": (rules.Listing, partial(self._page, store.links)),
            f"PUT {API}/urls": (rules.UrlUpdate, self._update_url),
            f"GET {API}/tags": (rules.Listing, partial(self._page, store.tags)),
            f"POST {API}/tags": (rules.NewTag, self._create_tag),
            f"GET {API}/stats": (rules.Range, self._range),
            f"GET {API}/stats/country/geo": (rules.Country, self._country),
        }
        if behaviour.get("paths") != "samples":
            self._endpoints[f"GET {API}/stats/yearly"] = rules.Year, self._yearly
            self._endpoints[f"GET {API}/stats/alltime"] = rules.Selector, self._alltime

    def answer(self, arrival: Arrival, headers: Mapping[str, str]) -> Envelope:
        """Answer one request; a refusal is an answer too. `headers` knows lower-case names.

        Refused are first a path or method that no endpoint has, then credentials, then parameters.
        """
        # The last segment of an update is the key of a link.
        path, _, key = arrival.path.rpartition("/") if arrival.method == "PUT" else (arrival.path, "", "")
        try:
            name = f"{arrival.method} {path}"
            if name not in self._endpoints:
                raise RefusedError(404, "Not found. No such endpoint.")
            if (headers.get("apikey"), headers.get("apisecret")) != self._credentials:
                return Envelope(401, "Api key and secret is not valid or missing.")
            form, endpoint = self._endpoints[name]
            if arrival.method == "GET":
                return Envelope(200, "ok", endpoint(msgspec.convert(arrival.query, form, strict=False)))
            if not headers.get("content-type", "").startswith("application/json"):
                raise bad_request("Content-Type must be application/json.")
            asked = msgspec.json.decode(arrival.body, type=form)
            done = endpoint(asked, unquote(key)) if arrival.method == "PUT" else endpoint(asked)
            return Envelope(200, "ok", done)
        except RefusedError as refused:
            status, message = refused.args
            return Envelope(status, message, error_data(arrival.path))
        # SQLite's: a tag or a slashtag that is there already, or a domain that is not.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, sqlite3.IntegrityError) as error:
            return Envelope(400, f"Bad request. {error}.", error_data(arrival.path))

    # Links and tags

    def _page(
        self, fetch: Callable[[str, Sequence[int]], Sequence[Link | Tag]], asked: rules.Listing
    ) -> object:
        """Answer endpoint 1 or 3, List short URLs or List tags."""
        size = min(asked.pagesize, self._behaviour.get("max_pagesize", 500))
        way = "DESC" if asked.orderby == "-date" else "ASC"
        offset = min((asked.page - 1) * size, 2**63 - 1)  # as far as SQLite can count
        records = fetch(f"ORDER BY created_at {way}, id {way} LIMIT ? OFFSET ?", (size, offset))
        return {"page": asked.page, "pageSize": size, "items": list(map(_item, records))}

    def _update_url(self, asked: rules.UrlUpdate, key: str) -> object:
        """Answer endpoint 2, Update a short URL; digits are an id, or a slashtag if no link has that id.

        Omitted members are kept.
        """
        change: dict[str, Any] = msgspec.to_builtins(asked)
        links = self._store.links("WHERE id = ?", (key,)) if key.isdigit() else []
        links = links or self._store.links("WHERE slashtag = ?", (key,))
        if not links:
            raise RefusedError(404, "Not found. URL with specified slashtag doesn't exist.")
        if len(links) > 1:
            raise bad_request("Several URLs have this slashtag. Use the ID of the URL.")
        change["updated_at"] = int(time())
        columns = ", ".join(f"{name} = ?" for name in change)
        self._store.write(f"UPDATE link SET {columns} WHERE id = ?", (*change.values(), links[0].id))
        return {"rows_updated": 1}

    def _create_tag(self, new: rules.NewTag) -> object:
        """Answer endpoint 4, Create a tag."""
        others = self._store.rows("SELECT count(*) FROM tag WHERE name != ?", (new.name,))[0][0]
        if others >= self._behaviour.get("max_tags", 500):
            message = "The maximum allowed number of tags is reached. Please contact support to raise it."
            raise RefusedError(429, message)
        return self._store.add_tag(new.name, new.description, int(time()))

    # Statistics

    def _select(self, asked: Selector) -> tuple[str, Sequence[object]]:
        """Return the WHERE clause of the links, and its values."""
        if not (keys := asked.keys):
            tags = self._store.tags("WHERE name = ?", (asked.tag,))
            if not tags:
                raise bad_request("Tag does not exists.")
            return "WHERE tag_id = ?", [tags[0].id]
        where = f"WHERE slashtag IN ({', '.join('?' * len(keys))})"
        if self._behaviour.get("unknown_keys") == "error":
            known = {link.slashtag for link in self._store.links(where, keys)}
            for key in keys:
                if key not in known:
                    raise bad_request(f"URL key does not exist: {key}")
        return where, keys

    def _clicks(
        self, asked: Selector, labels: Sequence[str], span: Span, *, country: str | None = None
    ) -> Clicks:
        """Count clicks.

        The rows are fetched once: for the few thousand of a usual request this is faster than one GROUP BY
        for each label.
        """
        where, values = self._select(asked)
        inside = "" if country is None else " AND country = (SELECT id FROM label WHERE text = ?)"
        rows = self._store.rows(
            f"SELECT {VISITOR}, (at + {asked.offset}) / {DAY}, {', '.join(labels)} FROM click"
            f" WHERE link IN (SELECT id FROM link {where}) AND at >= ? AND at < ?{inside}",
            [*values, *span, *([] if country is None else [country])],
        )
        visitors, days, *columns = zip(*rows, strict=True) if rows else [()] * (2 + len(labels))
        maps: dict[str, dict[str, int]] = {}
        for name, ids in zip(labels, columns, strict=True):
            counts = [(self._store.labels[id], n) for id, n in Counter(ids).items()]
            # Ties are ordered by label, so that an answer does not depend on the order of rows.
            maps[name] = dict(sorted(counts, key=lambda entry: (-entry[1], entry[0])))
        return Clicks(len(rows), len(set(visitors)), Counter(days), maps)

    def _range(self, asked: rules.Range) -> object:
        """Answer endpoint 5, Statistics for a date or date range, or 6 or 7 in the form of the samples."""
        behaviour = self._behaviour
        if behaviour.get("paths", "stated") != "stated" and not (asked.date or asked.date_range):
            return self._yearly(asked) if asked.year else self._alltime(asked)
        start, end = asked.range_span(includes_end=behaviour.get("range_end") != "exclusive")
        clicks = self._clicks(asked, _RANGE_MAPS, (start, end))
        data: dict[str, object] = {"total_clicks": clicks.total}
        first, last = ((at + asked.offset) // DAY for at in (start, max(start, end - 1)))
        if first < last or behaviour.get("day_clicks"):
            days = range(first, last + 1) if behaviour.get("zero_days") else sorted(clicks.days)
            data["clicks"] = self._map(
                {date.fromordinal(EPOCH + day).isoformat(): clicks.days[day] for day in days}
            )
        return data | self._maps(clicks)

    def _yearly(self, asked: rules.Year) -> object:
        """Answer endpoint 6, Statistics for a year."""
        return self._period(asked, asked.span())

    def _alltime(self, asked: Selector) -> object:
        """Answer endpoint 7, Statistics for all time."""
        return self._period(asked, (-(2**62), 2**62))

    def _period(self, asked: Selector, span: Span) -> object:
        clicks = self._clicks(asked, (*_RANGE_MAPS, "timezone"), span)
        breakdown: dict[str, dict[str, int]] = {}
        zeros = {str(month): 0 for month in range(1, 13)} if self._behaviour.get("zero_days") else {}
        for number, n in sorted(clicks.days.items()):
            day = date.fromordinal(EPOCH + number)
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

    def _country(self, asked: rules.Country) -> object:
        """Answer endpoint 8, Country geo-location statistics."""
        labels = ("state", "city", "postalcode")
        clicks = self._clicks(asked, labels, asked.span(), country=asked.iso_code.upper())
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


def _item(record: Link | Tag) -> object:
    """Return a record as an item of a list. See docs/service.md, Short URL."""
    if isinstance(record, Tag):
        return record
    item: dict[str, object] = {
        "id": record.id,
        "destination": record.destination,
        "hits": record.hits,
        "redirectCode": str(record.redirect_code),
        "shortUrl": record.short_url,
        "slashtag": record.slashtag,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
    }
    return item if record.tag_id is None else item | {"tagId": record.tag_id}
