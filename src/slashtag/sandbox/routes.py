"""The eight endpoints, from request values to answer values; no socket and no waiting."""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import date
from time import time
from urllib.parse import unquote

from . import rules, statistics
from .answers import API, Envelope, Request, digits, error_data, tag_item, url_item
from .options import Behaviour
from .rules import RefusedError, bad_request
from .store import Store, Tag
from .world import DOMAINS, OTHER

Endpoint = Callable[[Request], object]


class Service:
    """Endpoints over a store."""

    def __init__(self, store: Store, behaviour: Behaviour, apikey: str, apisecret: str) -> None:
        self._store = store
        self._behaviour = behaviour
        self._credentials = (apikey, apisecret)
        stats: dict[str, Endpoint] = {f"{API}/stats": self._range_or_sample}
        if behaviour.paths != "samples":
            stats |= {f"{API}/stats/yearly": self._yearly, f"{API}/stats/alltime": self._alltime}
        stats[f"{API}/stats/country/geo"] = self._country
        self._endpoints: dict[str, dict[str, Endpoint]] = {
            f"{API}/urls": {"GET": self._list_urls},
            f"{API}/tags": {"GET": self._list_tags, "POST": self._create_tag},
            **{path: {"GET": handler} for path, handler in stats.items()},
        }

    def answer(self, request: Request) -> Envelope:
        """Answer one request; a refusal is an answer too."""
        try:
            methods = self.methods(request.path)
            if request.method not in methods:
                raise RefusedError(405, f"Method not allowed. Use {' or '.join(methods)}.")
            if (request.headers.get("apikey"), request.headers.get("apisecret")) != self._credentials:
                return Envelope(401, "Api key and secret is not valid or missing.")
            return Envelope(200, "ok", methods[request.method](request))
        except RefusedError as refused:
            return Envelope(refused.status, refused.message, error_data(request.path))

    def methods(self, path: str) -> Mapping[str, Endpoint]:
        """Return the endpoints of a path by method; a path without any is refused."""
        if methods := self._endpoints.get(path):
            return methods
        head, _, segment = path.rpartition("/")
        if head == f"{API}/urls" and segment:
            return {"PUT": self._update_url}
        raise RefusedError(404, "Not found. No such endpoint.")

    # Links

    def _list_urls(self, request: Request) -> object:
        """Answer endpoint 1, List short URLs."""
        listing = rules.listing(request.query, self._behaviour.max_pagesize)
        links = self._store.links(
            latest_first=listing.latest_first, offset=listing.offset, limit=listing.pagesize
        )
        hits = self._store.hits([link.id for link in links])
        items = [url_item(link, hits.get(link.id, 0)) for link in links]
        return {"page": listing.page, "pageSize": listing.pagesize, "items": items}

    def _update_url(self, request: Request) -> object:
        """Answer endpoint 2, Update a short URL; digits are an id, or a slashtag if no link has that id."""
        change = rules.update(request.json())
        key = unquote(request.path.rpartition("/")[2])
        by_id = (
            self._store.find_links(id=int(key)) if key.isascii() and key.isdigit() and len(key) < 19 else []
        )
        links = by_id or self._store.find_links(slashtag=key)
        if not links:
            raise RefusedError(404, "Not found. URL with specified slashtag doesn't exist.")
        if len(links) > 1:
            raise bad_request("Several URLs have this slashtag. Use the ID of the URL.")
        link = links[0]
        reset = self._behaviour.omitted == "reset"
        domain = (0 if reset else link.domain) if change.domain is None else change.domain
        if domain not in DOMAINS:
            raise bad_request("Domain does not exist.")
        changed = link._replace(
            destination=change.destination or link.destination,
            slashtag=change.slashtag or link.slashtag,
            redirect_code=change.redirect_code or (301 if reset else link.redirect_code),
            password=("" if reset else link.password) if change.password is None else change.password,
            domain=domain,
            updated_at=int(time()),
        )
        try:
            self._store.change_link(changed)
        except sqlite3.IntegrityError:
            raise bad_request("Slashtag is already in use.") from None
        return {"rows_updated": 1}

    # Tags

    def _list_tags(self, request: Request) -> object:
        """Answer endpoint 3, List tags."""
        listing = rules.listing(request.query, self._behaviour.max_pagesize)
        tags = self._store.tags(
            latest_first=listing.latest_first, offset=listing.offset, limit=listing.pagesize
        )
        items = [tag_item(tag) for tag in tags]
        return {"page": listing.page, "pageSize": listing.pagesize, "items": items}

    def _create_tag(self, request: Request) -> object:
        """Answer endpoint 4, Create a tag."""
        name, description = rules.new_tag(request.json())
        if self._store.find_tag(name):
            raise bad_request("Tag with this name already exists.")
        if self._store.rows("SELECT count(*) FROM tag")[0][0] >= self._behaviour.max_tags:
            message = (
                "The maximum allowed number of tags is reached. Please contact support to have it raised."
            )
            raise RefusedError(429, message)
        tag = Tag(0, name, description, int(time()))
        return tag_item(tag._replace(id=self._store.add_tag(tag)))

    # Statistics

    def _selector(self, request: Request) -> statistics.Selector:
        name, keys = rules.selector(request.query)
        if name is not None:
            tag = self._store.find_tag(name)
            if tag is None:
                raise bad_request("Tag does not exists.")
            return statistics.Selector(tag_id=tag.id)
        if self._behaviour.unknown_keys == "error":
            unknown = statistics.unknown_slashtags(self._store, keys)
            if unknown:
                raise bad_request(f"URL key does not exist: {unknown[0]}")
        return statistics.Selector(slashtags=keys)

    def _range_or_sample(self, request: Request) -> object:
        """Answer endpoint 5, and 6 and 7 on the path of the document's samples if so configured."""
        if self._behaviour.paths != "stated" and not (
            request.query.get("date") or request.query.get("date_range")
        ):
            return self._yearly(request) if request.query.get("year") else self._alltime(request)
        return self._range(request)

    def _range(self, request: Request) -> object:
        """Answer endpoint 5, Statistics for a date or date range."""
        selector = self._selector(request)
        offset = rules.offset(request.query)
        bounds = rules.instants(request.query, self._behaviour.range_end, self._behaviour.range_span)
        if bounds is None:
            raise bad_request("Date is required.")
        start, end = bounds
        counts = statistics.count(self._store, selector, start, end, offset)
        data: dict[str, object] = {"total_clicks": counts.total}
        days = statistics.days_between(_day(start, offset), _day(max(start, end - 1), offset))
        if len(days) > 1 or self._behaviour.day_clicks:
            every = {day: counts.days.get(day, 0) for day in days}
            shown = {day.isoformat(): n for day, n in every.items() if n or self._behaviour.zero_days}
            data["clicks"] = self._map(shown)
        for name in ("device", "browser", "platform", "country", "referrer"):
            data[name] = self._map(digits(counts.maps[name]))
        return data

    def _yearly(self, request: Request) -> object:
        """Answer endpoint 6, Statistics for a year."""
        selector = self._selector(request)
        offset = rules.offset(request.query)
        year = rules.year(request.query)
        start, end = statistics.whole_days(date(year, 1, 1), date(year, 12, 31), offset)
        return self._period(statistics.count(self._store, selector, start, end, offset))

    def _alltime(self, request: Request) -> object:
        """Answer endpoint 7, Statistics for all time."""
        selector = self._selector(request)
        return self._period(statistics.count_all(self._store, selector, rules.offset(request.query)))

    def _period(self, counts: statistics.Counts) -> object:
        breakdown: dict[str, dict[str, int]] = {}
        for day, n in counts.days.items():
            year = f"{day.year:04d}"
            if year not in breakdown:
                breakdown[year] = {str(m): 0 for m in range(1, 13)} if self._behaviour.zero_days else {}
            months = breakdown[year]
            months[str(day.month)] = months.get(str(day.month), 0) + n
        data: dict[str, object] = {
            "clicks_total": counts.total,
            "clicks_unique": counts.unique,
            "clicks_repeated": counts.total - counts.unique,
            "clicks_breakdown": self._map(breakdown),
            "languages": self._map({}),
        }
        for name in ("browser", "country", "device", "platform", "referrer", "timezone"):
            data[name] = self._map(digits(counts.maps[name]))
        return data

    def _country(self, request: Request) -> object:
        """Answer endpoint 8, Country geo-location statistics."""
        selector = self._selector(request)
        offset = rules.offset(request.query)
        code, first, last = rules.country_days(request.query)
        start, end = statistics.whole_days(first, last, offset)
        maps = statistics.count_country(self._store, selector, start, end, code)
        data: dict[str, object] = {}
        for name, counter in maps.items():
            shown = counter.most_common(self._behaviour.places)
            other = counter.total() - sum(n for _, n in shown)
            data[name] = {**{label: str(n) for label, n in shown}, OTHER: other}
        return data

    def _map(self, entries: Mapping[str, object]) -> object:
        return [] if not entries and self._behaviour.empty_maps == "array" else entries


def _day(at: int, offset: int) -> date:
    """Return the date of an instant, clamped to the calendar."""
    ordinal = (at + offset) // statistics.DAY + statistics.EPOCH
    return date.fromordinal(min(max(ordinal, date.min.toordinal()), date.max.toordinal()))
