"""The generated account: the same for the same seed, and lifelike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import pytest

from slashtag.sandbox.generate import fill
from slashtag.sandbox.store import Store

SINCE, UNTIL = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2022, 2026))


def filled(urls: int, clicks: int, *, seed: int = 7, tags: int = 20) -> Store:
    made = partial(fill, urls=urls, clicks=clicks, tags=tags, seed=seed, since=SINCE, until=UNTIL)
    return Store(None, made)


@pytest.fixture(scope="module")
def usual() -> Iterator[Store]:
    with closing(filled(3_000, 50_000)) as store:
        yield store


def test_the_same_seed_makes_the_same_account_and_another_another() -> None:
    accounts = list[object]()
    for seed in (7, 7, 8):
        with closing(filled(300, 2_000, seed=seed)) as store:
            accounts.append((store.links(), store.tags(), store.log(), store.labels))
    assert accounts[0] == accounts[1] != accounts[2]


@pytest.mark.parametrize(
    ("urls", "clicks", "tags"), [(0, 0, 0), (0, 100, 3), (1, 1, 0), (1, 50, 1), (40, 0, 60)]
)
def test_an_account_has_as_much_as_was_asked_for(urls: int, clicks: int, tags: int) -> None:
    with closing(filled(urls, clicks, tags=tags)) as store:
        found = len(store.links()), len(store.log()), len(store.tags())
    assert found == (urls, clicks if urls else 0, tags)


def test_clicks_lie_between_the_creation_of_their_link_and_the_end(usual: Store) -> None:
    links = usual.rows("SELECT id, created_at, updated_at FROM link")
    birth = {id: created for id, created, _ in links}
    assert all(birth[click[0]] <= click[1] <= UNTIL for click in usual.log())
    assert all(SINCE <= created <= updated <= UNTIL for _, created, updated in links)


def test_four_links_in_ten_have_no_click_and_days_are_clicked_at_their_ends(usual: Store) -> None:
    log = usual.log()
    assert 0.35 < 1 - len({click[0] for click in log}) / 3_000 < 0.5
    seconds = Counter(click[1] % 86_400 for click in log)
    assert min(seconds[0], seconds[86_399]) > 100


def test_slashtags_are_of_every_kind(usual: Store) -> None:
    links = usual.links()
    slashtags = Counter(link.slashtag for link in links)
    assert all(len(slashtag) <= 100 and "," not in slashtag for slashtag in slashtags)
    assert sum(count > 1 for count in slashtags.values()) > 12
    assert sum(slashtag.isdigit() for slashtag in slashtags) > 6
    assert sum(not slashtag.isascii() for slashtag in slashtags) > 30
    for awkward in "/?#% +&=":
        assert any(awkward in slashtag for slashtag in slashtags)
    assert 0.2 < sum(link.tag_id is None for link in links) / len(links) < 0.4
    assert len({link.created_at for link in links}) < len(links)
