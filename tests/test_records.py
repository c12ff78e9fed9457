"""Records as values that other programs take."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta

import slashtag
from slashtag import Page, PeriodStats, RangeStats, ShortUrl

LINK = ShortUrl(id=1, slashtag="ä", created_at=datetime(2024, 3, 5, 10), redirect_code=301)
DAYS = RangeStats(total_clicks=3, clicks={date(2024, 1, 1): 3}, country={"DE": 3}, reconciles=False)
MONTHS = PeriodStats(clicks_total=5, clicks_breakdown={2024: {1: 5}}, languages={"de": 5})


def test_records_become_values_that_json_takes() -> None:
    found = LINK.to_dict()
    assert list(found) == list(LINK.__struct_fields__)
    assert (found["slashtag"], found["redirect_code"], found["tag_id"]) == ("ä", 301, None)
    assert found["created_at"] == "2024-03-05T10:00:00"
    assert DAYS.to_dict()["clicks"] == {"2024-01-01": 3}
    assert MONTHS.to_dict()["clicks_breakdown"] == {"2024": {"1": 5}}
    assert Page(page=1, page_size=50, items=[LINK]).to_dict() == {
        "page": 1,
        "page_size": 50,
        "items": [found],
    }
    assert json.loads(json.dumps(found)) == found


def test_the_repr_of_a_year_is_short() -> None:
    days = {date(2024, 1, 1) + timedelta(n): 1 for n in range(366)}
    year = RangeStats(clicks=days, country={f"country {n}": n for n in range(100)})
    assert len(repr(year)) < 1_000
    assert "clicks={datetime.date(2024, 1, 1): 1, datetime.date(2024, 1, 2): 1, " in repr(year)
    assert eval(repr(MONTHS), vars(slashtag)) == MONTHS
