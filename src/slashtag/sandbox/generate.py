"""Generated content: the same seed gives the same account on any machine and day."""

import random
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from itertools import accumulate, count
from typing import Any

import msgspec

from .store import ADD_LINK, DOMAINS, UNKNOWN, Click, Store

_DAY = 86_400
# Ids of labels that occur together, and their cumulated shares of clicks.
_Shares = tuple[list[tuple[int, ...]], list[float]]
# Invented but lifelike labels and words. A state has its country, the share of clicks of that, the pattern of
# postal codes, name, time zone and cities; agents and referrers end with their share, hours are in UTC.
_WORLD: dict[str, Any] = msgspec.json.decode(files("slashtag.sandbox").joinpath("world.json").read_bytes())


def fill(store: Store, *, urls: int, clicks: int, tags: int, seed: int, since: int, until: int) -> None:
    """Fill an empty store with links, tags and a click log.

    `since` and `until` are Unix seconds, both included. Clicks follow Zipf's law over the links, and four
    links in ten have none; a link's clicks begin at its creation and lie in bursts; weekends are quieter and
    later years are busier.
    """
    rng = random.Random(seed)
    for name in [*_WORLD["tag_names"], *(f"campaign {n}" for n in range(1, tags + 1))][:tags]:
        about = f"Links of {name}" if rng.random() < 0.7 else ""
        store.add_tag(name, about, rng.randint(since, until))
    tag_ids = [tag.id for tag in store.tags("ORDER BY created_at, id")]
    created = _fill_links(store, urls, tag_ids, rng, since, until)
    if urls and clicks:
        labels = _fill_labels(store, rng)
        store.add_clicks(sorted(_clicks(created, clicks, labels, rng, until)))


def _slashtags(rng: random.Random) -> Iterator[str]:
    """Yield plain, foreign, awkward and all-digit slashtags, each once, as they occur in real accounts."""
    for n in count(1):
        dice = rng.random()
        if dice < 0.02:
            yield f"{rng.choice(_WORLD['foreign'])}-{n}"
        elif dice < 0.035:
            yield f"{rng.choice(_WORLD['awkward'])} {n}"
        elif dice < 0.04:
            yield str(20_000 + n)
        else:
            yield f"{rng.choice(_WORLD['topics'])}-{rng.choice(_WORLD['media'])}-{n}"


def _fill_links(
    store: Store, urls: int, tag_ids: list[int], rng: random.Random, since: int, until: int
) -> list[tuple[Any, ...]]:
    """Insert the links and return the (id, creation) of each."""
    span = until - since
    # A bulk import gives many links one creation second.
    instants: list[int] = []
    while len(instants) < urls:
        at = since + int(span * 0.97 * rng.random())
        instants += [at] * (rng.randint(2, 9) if rng.random() < 0.02 else 1)
    instants = sorted(instants[:urls])
    weights = [1 / rank for rank in range(1, len(tag_ids) + 1)]
    fresh = _slashtags(rng)
    slashtag, domain = "", 0
    links: list[tuple[object, ...]] = []
    for n, at in enumerate(instants, 1):
        if slashtag and domain < max(DOMAINS) and rng.random() < 0.01:
            domain += 1  # the last slashtag again, on another domain
        else:
            slashtag = next(fresh)
            domain = rng.choices((0, 1, 2), (70, 20, 10))[0]
        tag = rng.choices(tag_ids, weights)[0] if tag_ids and rng.random() < 0.7 else None
        code = rng.choices((301, 302, 307, 308, 303), (70, 20, 4, 4, 2))[0]
        changed = at if rng.random() < 0.6 else rng.randint(at, until)
        password = "opensesame" if rng.random() < 0.01 else ""
        destination = f"https://www.example/landing/{n}?utm_source={rng.choice(_WORLD['media'])}"
        links.append((slashtag, domain, destination, code, password, at, changed, tag))
    store.insert(ADD_LINK, links)
    return store.rows("SELECT id, created_at FROM link ORDER BY id")


def _fill_labels(store: Store, rng: random.Random) -> list[_Shares]:
    """Insert the labels of referrers, places and agents; return ids and cumulated shares of each kind."""
    places: dict[tuple[str, ...], float] = {}
    ranks = Counter[str]()
    for country, share, code, state, zone, cities in _WORLD["states"]:
        ranks[country] += 1
        weight = share / ranks[country]
        for city_rank, city in enumerate(cities, 1):
            for _ in range(5):
                places[country, state, city, code.format(rng.randint(1, 999)), zone] = weight / city_rank
        places[country, state, UNKNOWN, UNKNOWN, zone] = weight / 20
    places[(UNKNOWN,) * 5] = sum(places.values()) * _WORLD["unknown_country_share"] / 1000
    agents = {tuple(labels): share for *labels, share in _WORLD["agents"]}
    referrers = {(name,): share for name, share in _WORLD["referrers"]}
    return [
        ([store.label_ids(labels) for labels in shares], list(accumulate(shares.values())))
        for shares in (referrers, places, agents)
    ]


def _clicks(
    created: list[tuple[Any, ...]], clicks: int, labels: list[_Shares], rng: random.Random, until: int
) -> Iterator[Click]:
    """Yield all clicks, link by link."""
    active = rng.sample(created, max(1, round(len(created) * 0.6)))
    # An older link has had more time for clicks.
    zipf = list(accumulate((until - birth + 1) / (rank + 2) for rank, (_, birth) in enumerate(active, 1)))
    per_link = [0] * len(active)
    for chosen in rng.choices(range(len(active)), cum_weights=zipf, k=clicks):
        per_link[chosen] += 1
    referrers, places, agents = (rng.choices(ids, cum_weights=shares, k=clicks) for ids, shares in labels)
    source = iter(referrers)
    everyday = iter(rng.choices(range(24), weights=_WORLD["hours"], k=clicks))
    dice = rng.random
    visitor = 0
    for (link, birth), share in zip(active, per_link, strict=True):
        life = max(1, until - birth)
        bursts = [birth + int(life * dice() ** 0.8) for _ in range(1 + int(share**0.6))]
        bursts[0] = birth
        for _ in range(share):
            at = bursts[int(dice() * len(bursts))] + int(rng.expovariate(1 / (2.5 * _DAY)))
            weekday = (at // _DAY + 3) % 7
            if weekday > 4 and dice() < 0.45:
                at += (7 - weekday + int(dice() * 5)) * _DAY
            edge = dice()
            second = (
                0 if edge < 0.005 else _DAY - 1 if edge < 0.01 else next(everyday) * 3600 + int(dice() * 3600)
            )
            at = max(birth, at - at % _DAY + second)
            if at > until:
                at = birth + (at - until) % life
            # A visitor keeps place and device; about one click in six is by the previous visitor.
            if not visitor or dice() > 0.16:
                visitor = 1 + int(dice() * clicks)
            yield link, at, visitor, *places[visitor - 1], *agents[visitor - 1], *next(source)
