"""Ask a service whose answers are odd: each result has to be true, to say what it lacks, or to be an error.

python benchmarks/odd_answers.py [jobs]

A service of 300 links gives 1 to 20 % of its answers wrongly, in the ways of `ODD_STATISTICS`, `ODD_PAGES`
and `ODD_ANSWERS`; half of the jobs list links with equal times in an order that changes with every page. Then
one of two backends fails, contradicts itself or lags behind, chosen by connection or by request. For both
ways of sending. Exits with 1 if any result is silently wrong. Prints one row for each combination.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slashtag import (
    AllTime,
    AsyncSession,
    CountryGeo,
    DateRange,
    Failure,
    RetryPolicy,
    SlashtagError,
    Statistics,
    Year,
)

POLICY = RetryPolicy(max_attempts=6, backoff_base=0.0005, backoff_cap=0.002)
LINKS, DAYS = 300, 100
TODAY = datetime.now(UTC).date()
FIRST, LAST = TODAY - timedelta(days=DAYS), TODAY - timedelta(days=1)
#: A backend that lags behind has neither the last links nor clicks after this day.
LAG_LINKS, LAG_LAST = LINKS - 7, LAST - timedelta(days=2)
MAPS = ("device", "browser", "platform", "country", "referrer")

Data = dict[str, Any]


@dataclass(frozen=True)
class Click:
    """One click: its link, day and labels."""

    key: str
    day: date
    labels: tuple[str, ...]
    place: tuple[str, str, str]


def make_clicks(chance: random.Random) -> dict[str, list[Click]]:
    """Return clicks by link; two links in three have some."""
    clicks: dict[str, list[Click]] = {f"k{n}": [] for n in range(LINKS)}
    for key in clicks:
        for _ in range(chance.choice((0, 2, 30))):
            labels = tuple(f"{name} {chance.randrange(3)}" for name in MAPS)
            country = chance.choice(("US", "DE"))
            place = tuple(f"{name} {chance.randrange(3)}" for name in ("state", "city", "postalcode"))
            day = FIRST + timedelta(days=chance.choice((chance.randrange(DAYS), DAYS - 1)))
            clicks[key].append(
                Click(key, day, (*labels[:3], country, labels[4]), (place[0], place[1], place[2]))
            )
    return clicks


class Account:
    """The links of an account, and their clicks, counted as the service counts them."""

    def __init__(self, clicks: Mapping[str, list[Click]], *, lags: bool = False) -> None:
        self._clicks = clicks
        self._until = LAG_LAST if lags else LAST
        self.links = LAG_LINKS if lags else LINKS

    def _find(self, keys: Iterable[str], first: date, last: date) -> list[Click]:
        last = min(last, self._until)
        return [one for key in keys for one in self._clicks.get(key, ()) if first <= one.day <= last]

    def range(self, keys: Iterable[str], first: date, last: date) -> Data:
        found = self._find(keys, first, last)
        days = {(first + timedelta(days=n)).isoformat(): 0 for n in range((last - first).days + 1)}
        days |= Counter(one.day.isoformat() for one in found)
        return {"total_clicks": len(found), "clicks": days, **_labels(found)}

    def period(self, keys: Iterable[str], year: int | None = None) -> Data:
        first, last = (date(year, 1, 1), date(year, 12, 31)) if year else (date.min, date.max)
        found = self._find(keys, first, last)
        months: dict[str, dict[str, int]] = {}
        for one in found:
            of_year = months.setdefault(str(one.day.year), {})
            of_year[str(one.day.month)] = of_year.get(str(one.day.month), 0) + 1
        repeated = len(found) // 4
        return {
            "clicks_total": len(found),
            "clicks_unique": len(found) - repeated,
            "clicks_repeated": repeated,
            "clicks_breakdown": months,
            "languages": {},
            "timezone": dict(Counter(f"Zone/{one.labels[0][-1]}" for one in found)),
            **_labels(found),
        }

    def places(self, keys: Iterable[str], country: str, first: date, last: date) -> Data:
        found = [one for one in self._find(keys, first, last) if one.labels[3] == country]
        names = enumerate(("state", "city", "postalcode"))
        return {name: {**Counter(one.place[n] for one in found), "Other": 0} for n, name in names}


def _labels(clicks: list[Click]) -> Data:
    return {name: dict(Counter(one.labels[n] for one in clicks)) for n, name in enumerate(MAPS)}


# --- what is odd ---------------------------------------------------------------------------------------


def _total(data: Data) -> str:
    return next((name for name in ("total_clicks", "clicks_total") if name in data), "state")


def _change_map(change: Callable[[random.Random, Data, str], None]) -> Callable[[random.Random, Data], None]:
    def apply(chance: random.Random, data: Data) -> None:
        names = [name for name, value in data.items() if isinstance(value, dict) and name != "languages"]
        change(chance, data, chance.choice(names))

    return apply


def _partial(chance: random.Random, data: Data, name: str) -> None:
    data[name] = dict(list(data[name].items())[: len(data[name]) // 2])


def _negative(chance: random.Random, data: Data, name: str) -> None:
    if name != "clicks_breakdown" and data[name]:
        data[name][next(iter(data[name]))] = -1


def _over(chance: random.Random, data: Data, name: str) -> None:
    if name != "clicks_breakdown":
        data[name] = {**data[name], next(iter(data[name]), "label"): 10_000}


def _wrong_total(chance: random.Random, data: Data) -> None:
    if isinstance(data.get(_total(data)), int):
        data[_total(data)] += chance.choice((-1, 3))


def _unique(chance: random.Random, data: Data) -> None:
    if "clicks_unique" in data:
        data["clicks_unique"] = data["clicks_total"] + 5


def _minus(chance: random.Random, data: Data) -> None:
    if isinstance(data[_total(data)], int):
        data[_total(data)] = -5


def _months(chance: random.Random, data: Data) -> None:
    for year, months in data.get("clicks_breakdown", {}).items():
        data["clicks_breakdown"][year] = {f"{int(month):02}": n for month, n in months.items()}


#: Changes of the data of statistics.
ODD_STATISTICS: dict[str, Callable[[random.Random, Data], None]] = {
    "another total": _wrong_total,
    "null map": _change_map(lambda _, data, name: data.update({name: None})),
    "absent map": _change_map(lambda _, data, name: data.pop(name)),
    "partial map": _change_map(_partial),
    "negative count": _change_map(_negative),
    "count over the total": _change_map(_over),
    "more unique than all": _unique,
    "negative total": _minus,
    "months with a zero": _months,
}


def _odd_record(chance: random.Random, data: Data) -> None:
    odd = {
        "updatedAt": ("0000-00-00 00:00:00", "", None, "2024-05-06T07:08:09Z"),
        "createdAt": ("0000-00-00 00:00:00", None, 5),
        "hits": ("1,234", None, ""),
        "redirectCode": ("", None, "moved"),
        "tagId": ("", "none"),
    }
    for item in data["items"][:3]:
        name = chance.choice(list(odd))
        item[name] = chance.choice(odd[name])


#: Changes of a page of a listing.
ODD_PAGES: dict[str, Callable[[random.Random, Data], None]] = {
    "no items": lambda _, data: data.update(items=[]),
    "odd members": _odd_record,
    "another page": lambda _, data: data.update(page=data["page"] + 1),
}
#: Kinds of answers instead of the right one.
ODD_ANSWERS = ("404", "500", "502", "cut", "partial", "duplicate")


@dataclass
class Service:
    """Service of one account, with a share of odd answers and perhaps a bad backend."""

    clicks: Mapping[str, list[Click]]
    chance: random.Random
    share: float = 0.0
    #: Whether links have equal times, in an order that changes with every page.
    ties: bool = False
    #: "failing", "contradicting" or "lagging"; half of the connections or requests reach it.
    bad: str = ""
    by: str = ""
    requests: int = 0
    connections: int = 0
    job: str = ""
    odd: Counter[str] = field(default_factory=Counter[str])

    def respond(self, target: str, is_bad_connection: bool) -> bytes:
        """Return the bytes of an answer."""
        self.requests += 1
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        is_bad = is_bad_connection if self.by == "connection" else self.requests % 2 == 0
        bad = self.bad if is_bad else ""
        if bad == "failing":
            return http(503, "busy", None)
        account = Account(self.clicks, lags=bad == "lagging")
        data = self._data(parts.path.rpartition("/api/v1/")[2], query, account)
        if bad == "contradicting":
            _wrong_total(self.chance, data)
        if self.chance.random() >= self.share:
            return http(200, "ok", data)
        return self._spoil(data)

    def _data(self, path: str, query: Mapping[str, str], account: Account) -> Data:
        if path == "urls":
            return self._page(int(query["page"]), int(query["pagesize"]), account.links)
        keys = query["url_keys"].split(",")
        if path == "stats":
            first, last = (date.fromisoformat(each[:10]) for each in query["date_range"].split(","))
            return account.range(keys, first, last)
        if path == "stats/country/geo":
            first, last = (date.fromisoformat(query[name]) for name in ("start_date", "end_date"))
            return account.places(keys, query["iso_code"], first, last)
        return account.period(keys, int(query["year"]) if path == "stats/yearly" else None)

    def _page(self, page: int, size: int, links: int) -> Data:
        order = list(range(links))
        if self.ties:
            # Imported in blocks of 60 at one time each, which a database may order anew for every page.
            blocks = [order[n : n + 60] for n in range(0, links, 60)]
            order = [n for block in blocks for n in self.chance.sample(block, len(block))]
        items = [
            {
                "id": n + 1,
                "slashtag": f"k{n}",
                "hits": 5,
                "createdAt": f"2024-01-01 00:00:{n // 60:02}",
                "updatedAt": "2024-01-01 00:00:00",
            }
            for n in order[(page - 1) * size : page * size]
        ]
        return {"page": page, "pageSize": size, "items": items}

    def _spoil(self, data: Data) -> bytes:
        """Return the answer in one of the odd ways."""
        chance, changes = self.chance, ODD_PAGES if "items" in data else ODD_STATISTICS
        kind = chance.choice((*changes, *ODD_ANSWERS))
        self.odd[kind] += 1
        if kind in changes:
            changes[kind](chance, data)
            return http(200, "ok", data)
        if kind in ("404", "500", "502"):
            return http(int(kind), "Not found." if kind == "404" else "Failed.", None)
        if kind == "partial":
            # Consistent in itself: only the message says it.
            if "items" in data:
                data["items"] = data["items"][: len(data["items"]) // 2]
            else:
                data = {name: {} if isinstance(value, dict) else 0 for name, value in data.items()}
            return http(200, "Partial result", data)
        good = http(200, "ok", data)
        if kind == "cut":
            head, _, body = good.partition(b"\r\n\r\n")
            return (
                head.replace(b"%d" % len(body), b"%d" % (len(body) // 2))
                + b"\r\n\r\n"
                + body[: len(body) // 2]
            )
        # The first member once more, empty.
        name = next(iter(data))
        body = json.dumps({"status": 200, "message": "ok", "data": data})[:-2].encode() + b', "%s": %s}}' % (
            name.encode(),
            b"{}" if isinstance(data[name], dict) else b"0",
        )
        return framed(200, body)


def http(status: int, message: str, data: object) -> bytes:
    return framed(status, json.dumps({"status": status, "message": message, "data": data}).encode())


def framed(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Odd\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Connection(asyncio.Protocol):
    """One connection to the service, all of whose requests are GETs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = b""
        service.connections += 1
        self._is_bad = service.connections % 2 == 1

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            self._transport.write(self._service.respond(head.decode().split(" ", 2)[1], self._is_bad))


# --- jobs and what comes of them -----------------------------------------------------------------------


def figures(stats: Any) -> dict[str, Any]:
    """Return the counts of statistics without zeros, by member; unique clicks are bounds."""
    data = stats if isinstance(stats, dict) else stats.to_dict()
    left_out = ("clicks_unique", "clicks_repeated", "missing")
    found = {name: value for name, value in data.items() if name not in left_out}
    return {
        name: {str(label): n for label, n in value.items() if n} if isinstance(value, dict) else value
        for name, value in found.items()
        if isinstance(value, dict | int) and not isinstance(value, bool)
    }


def lies_between(low: Mapping[str, Any], found: Mapping[str, Any], high: Mapping[str, Any]) -> bool:
    """Return whether all counts are true at the time of one backend or the other, or at times in between."""
    for name in {*low, *found, *high}:
        bounds = [each.get(name, 0) for each in (low, found, high)]
        if any(isinstance(each, dict) for each in bounds):
            if not lies_between(*[each or {} for each in bounds]):
                return False
        elif not bounds[0] <= bounds[1] <= bounds[2]:
            return False
    return True


async def job(service: Service, session: AsyncSession, truth: Account, past: Account) -> tuple[bool, bool]:
    """Do one random job; return whether its result is true, and whether it says what it lacks."""
    chance, stats = service.chance, session.stats
    failures: list[Failure] = []
    keys = [f"k{n}" for n in sorted(chance.sample(range(LINKS), chance.choice((5, 60, 250))))]
    first = FIRST + timedelta(days=chance.randrange(DAYS))
    last = min(LAST, first + timedelta(days=chance.choice((0, 5, 40, 100))))
    service.job = kind = chance.choice(("list", "range", "year", "alltime", "places", "each", "listed"))
    on_error = chance.choice((None, failures.append))
    if kind == "list":
        pagesize = chance.choice((30, 100, 500))
        listed = [(url.id, url.slashtag) async for url in session.urls.list(pagesize=pagesize)]
        links = [(n + 1, f"k{n}") for n in range(truth.links)]
        return sorted(listed) in (links, links[: past.links]), False
    results: dict[str, Any] = {}
    expected: Callable[[Account, list[str]], Data]
    if kind == "each":
        query = DateRange(first, last)
        async for key, found in stats.collect_each(query, keys=keys, on_error=on_error):
            results[key] = found
        expected = lambda account, of: account.range(of, first, last)  # noqa: E731
        of_result = {key: [key] for key in results}
        missing = len(keys) - len(results) - len({key for failure in failures for key in failure.keys})
        if missing:
            return False, False
    else:
        year = chance.choice((FIRST.year, LAST.year))
        queries: dict[str, tuple[Any, Callable[[Account, list[str]], Data]]] = {
            "range": (DateRange(first, last), lambda account, of: account.range(of, first, last)),
            "year": (Year(year), lambda account, of: account.period(of, year)),
            "alltime": (AllTime(), lambda account, of: account.period(of)),
            "places": (
                CountryGeo("US", first, last),
                lambda account, of: account.places(of, "US", first, last),
            ),
        }
        query, expected = queries["range" if kind == "listed" else kind]
        selected: Any = session.urls.list(pagesize=100) if kind == "listed" else keys
        results[""] = await stats.collect(query, keys=selected, on_error=on_error)
        of_result = {"": [f"k{n}" for n in range(LINKS)] if kind == "listed" else keys}
        if failures and chance.random() < 0.5:
            again: list[Failure] = []
            results[""] = await stats.retry(results[""], failures, on_error=again.append)
            failures[:] = again
    is_true = all(
        lies_between(
            figures(expected(past, of_result[key])),
            figures(found),
            figures(expected(truth, of_result[key])),
        )
        for key, found in results.items()
    )
    said = bool(failures) or session.metrics.inconsistent > 0
    said |= any(
        not found.complete or (isinstance(found, Statistics) and bool(found.incomplete_dimensions))
        for found in results.values()
    )
    return is_true, said


async def jobs(number: int, seed: int, *, bad: str = "", by: str = "", odd: bool = True) -> Counter[str]:
    """Do random jobs, 20 at a time, each with a session of its own; return how many came out how."""
    chance, counts = random.Random(seed), Counter[str]()
    clicks = make_clicks(chance)
    loop = asyncio.get_running_loop()
    numbers = iter(range(number))

    async def work() -> None:
        for n in numbers:
            own = random.Random(f"{seed}/{n}")
            share = own.uniform(0.01, 0.2) if odd else 0.0
            service = Service(clicks, own, share, odd and own.random() < 0.5, bad, by)
            server = await loop.create_server(partial(Connection, service), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            truth = Account(clicks)
            past = Account(clicks, lags=bad == "lagging")
            session = AsyncSession(
                f"http://127.0.0.1:{port}", apikey="k" * 20, apisecret="s" * 12, retry=POLICY
            )
            async with session:
                try:
                    is_true, said = await job(service, session, truth, past)
                    outcome = "true" if is_true else "said" if said else "silent"
                except SlashtagError:
                    outcome = "error"
            server.close()
            counts[outcome] += 1
            counts["requests"] += service.requests
            if outcome == "silent":
                print(
                    f"job {n} of seed {seed} ({service.job}) is silently wrong: {dict(service.odd)}",
                    file=sys.stderr,
                )

    await asyncio.gather(*(work() for _ in range(20)))
    return counts


def main() -> int:
    """Run all combinations."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    logging.getLogger("slashtag").setLevel(logging.CRITICAL)
    cases: list[dict[str, Any]] = [{}]
    cases += [
        {"bad": bad, "by": by, "odd": False}
        for bad in ("failing", "contradicting", "lagging")
        for by in ("connection", "request")
    ]
    silent = 0
    print("service                        jobs  true  said  error  silent  requests")
    for case in cases:
        name = f"{case['bad']} backend, by {case['by']}" if case else "odd answers"
        got = asyncio.run(jobs(number, 7, **case))
        silent += got["silent"]
        figures_ = "  ".join(f"{got[each]:{len(each)}}" for each in ("true", "said", "error", "silent"))
        print(f"{name:29}  {number:4}  {figures_}  {got['requests']:8}", flush=True)
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
