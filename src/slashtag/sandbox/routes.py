"""The eight endpoints, from a request's values to an answer's values; no socket and no waiting."""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import date
from time import time
from urllib.parse import unquote

from . import rules, statistics
from .answers import API, Ask, Envelope, nothing, tag_item, texts, url_item
from .options import Behaviour
from .rules import RefusedError, bad_request
from .store import Store, Tag
from .world import DOMAINS, OTHER

Endpoint = Callable[[Ask], object]


class Service:
    """Answer requests from a store."""

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

    def answer(self, ask: Ask) -> Envelope:
        """Answer one request; a refusal is an answer too."""
        try:
            methods = self._methods(ask.path)
            if ask.method not in methods:
                raise RefusedError(405, f"Method not allowed. Use {' or '.join(methods)}.")
            if (ask.headers.get("apikey"), ask.headers.get("apisecret")) != self._credentials:
                return Envelope(401, "Api key and secret is not valid or missing.")
            return Envelope(200, "ok", methods[ask.method](ask))
        except RefusedError as refused:
            return Envelope(refused.status, refused.message, nothing(ask.path))

    def _methods(self, path: str) -> Mapping[str, Endpoint]:
        if methods := self._endpoints.get(path):
            return methods
        head, _, segment = path.rpartition("/")
        if head == f"{API}/urls" and segment:
            return {"PUT": self._update_url}
        raise RefusedError(404, "Not found. No such endpoint.")

    # Links

    def _list_urls(self, ask: Ask) -> object:
        """Answer endpoint 1, List short URLs."""
        asked = rules.listing(ask.query, self._behaviour.max_pagesize)
        offset = (asked.page - 1) * asked.pagesize
        links = self._store.links(latest_first=asked.latest_first, offset=offset, limit=asked.pagesize)
        hits = self._store.hits([link.id for link in links])
        items = [url_item(link, hits.get(link.id, 0)) for link in links]
        return {"page": asked.page, "pageSize": asked.pagesize, "items": items}

    def _update_url(self, ask: Ask) -> object:
        """Answer endpoint 2, Update a short URL; digits are an id, or a slashtag where no link has the id."""
        change = rules.update(ask.json())
        key = unquote(ask.path.rpartition("/")[2])
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

    def _list_tags(self, ask: Ask) -> object:
        """Answer endpoint 3, List tags."""
        asked = rules.listing(ask.query, self._behaviour.max_pagesize)
        offset = (asked.page - 1) * asked.pagesize
        tags = self._store.tags(latest_first=asked.latest_first, offset=offset, limit=asked.pagesize)
        items = [tag_item(tag) for tag in tags]
        return {"page": asked.page, "pageSize": asked.pagesize, "items": items}

    def _create_tag(self, ask: Ask) -> object:
        """Answer endpoint 4, Create a tag."""
        name, description = rules.new_tag(ask.json())
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

    def _selector(self, ask: Ask) -> statistics.Selector:
        name, keys = rules.selector(ask.query)
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

    def _range_or_sample(self, ask: Ask) -> object:
        """Answer endpoint 5, or 6 and 7 in the form of the document's samples where that is the behaviour."""
        if self._behaviour.paths != "stated" and not (ask.query.get("date") or ask.query.get("date_range")):
            return self._yearly(ask) if ask.query.get("year") else self._alltime(ask)
        return self._range(ask)

    def _range(self, ask: Ask) -> object:
        """Answer endpoint 5, Statistics for a date or date range."""
        selector = self._selector(ask)
        offset = rules.offset(ask.query)
        bounds = rules.instants(ask.query, self._behaviour.range_end, self._behaviour.range_span)
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
            data[name] = self._map(texts(counts.maps[name]))
        return data

    def _yearly(self, ask: Ask) -> object:
        """Answer endpoint 6, Statistics for a year."""
        selector = self._selector(ask)
        offset = rules.offset(ask.query)
        year = rules.year(ask.query)
        start, end = statistics.whole_days(date(year, 1, 1), date(year, 12, 31), offset)
        return self._period(statistics.count(self._store, selector, start, end, offset))

    def _alltime(self, ask: Ask) -> object:
        """Answer endpoint 7, Statistics for all time."""
        selector = self._selector(ask)
        return self._period(statistics.count_all(self._store, selector, rules.offset(ask.query)))

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
            data[name] = self._map(texts(counts.maps[name]))
        return data

    def _country(self, ask: Ask) -> object:
        """Answer endpoint 8, Country geo-location statistics."""
        selector = self._selector(ask)
        offset = rules.offset(ask.query)
        code, first, last = rules.country_days(ask.query)
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
    """Return the date of an instant; the calendar ends before every offset of its last day has."""
    ordinal = (at + offset) // statistics.DAY + statistics.EPOCH
    return date.fromordinal(min(max(ordinal, date.min.toordinal()), date.max.toordinal()))
