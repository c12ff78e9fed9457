"""The public surface: its names, their docstrings, and the types that a type checker infers."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mypy import api

import slashtag
from slashtag import AllTime, CountryGeo, DateRange, Day, Year
from slashtag._core.queries import make_plan

PUBLIC_MODULES = {
    "bulk_update",
    "cli",
    "counts",
    "dask",
    "dlt",
    "export",
    "pytest_plugin",
    "report",
    "sandbox",
    "tables",
}

#: Every public name. A name that is added, renamed or removed is a change for users: note it in CHANGELOG.md.
PUBLIC_NAMES = """
APIError AllTime AsyncSession AuthenticationError BadRequestError Change ClicksTable ConfigurationError
CountryGeo DateRange Day ExportError Failure GeoStats InvalidRequestError JournalError Keys Listing
Metrics NotFoundError OnError Outcome OutcomeUnknownError Page PaginationError PeriodStats Plan Progress
Query QueueTimeoutError RangeStats RateLimitError RequestFailedError RequestTimeoutError Results
RetryPolicy ServerError SessionClosedError ShortUrl SlashtagError Statistics Tag TagLimitError
TransportError UnexpectedResponseError UnknownTagError Year Zone parse_zone
"""

NOW = datetime(2024, 5, 1, tzinfo=UTC)
#: A query of each kind, and its own members.
QUERIES = [
    (DateRange.last(9), {"start", "end", "bounds", "last", "parse", "with_previous"}),
    (Day("2024-01-01"), {"date", "bounds"}),
    (Year(2024), {"year"}),
    (AllTime(), set[str]()),
    (CountryGeo("US", "2024-01-01", "2024-02-01"), {"iso_code", "start", "end"}),
]


def public() -> dict[str, Any]:
    return {name: getattr(slashtag, name) for name in slashtag.__all__}


def test_these_names_are_public_and_no_others() -> None:
    names = PUBLIC_NAMES.split()
    assert slashtag.__all__ == names == sorted(set(names))
    assert len(names) <= 50
    found = {n for n, v in vars(slashtag).items() if not n.startswith("_") and not isinstance(v, ModuleType)}
    assert sorted(found) == names


def test_every_other_module_is_private() -> None:
    folder = Path(slashtag.__file__).parent
    modules = {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {name for name in modules if not name.startswith("_")} <= PUBLIC_MODULES


def test_the_package_is_typed() -> None:
    assert (Path(slashtag.__file__).parent / "py.typed").exists()


# --- docstrings ----------------------------------------------------------------------------------------


def classes() -> Iterator[type]:
    """Yield the public classes and those that a session and its listings are made of."""
    yield from (value for value in public().values() if isinstance(value, type))
    for path in ("urls", "tags", "stats"):
        module = sys.modules[f"slashtag._resources.{path}"]
        yield getattr(module, path.capitalize())
    listing = sys.modules["slashtag._resources.listing"]
    yield from (listing.Listing, listing.PageStream)


def test_every_public_class_and_method_has_a_docstring() -> None:
    documented = {cls: inspect.getdoc(cls) for cls in classes()}
    for cls in list(documented):
        for name, value in inspect.getmembers(cls):
            ours = any(name in vars(base) for base in cls.__mro__ if base.__module__.startswith("slashtag"))
            if (
                not name.startswith("_")
                and ours
                and (inspect.isroutine(value) or isinstance(value, property))
            ):
                documented[value] = inspect.getdoc(value) or (f"`{name}`" in (cls.__doc__ or ""))
    assert [thing for thing, text in documented.items() if not text] == []


# --- types ---------------------------------------------------------------------------------------------

SETTINGS = """
[mypy]
strict = True
[mypy-slashtag.*]
follow_imports = silent
[mypy-aiohttp.*,yarl.*,multidict.*,tenacity.*,anyio.*]
follow_imports = skip
"""


MISSPELT = """
from slashtag import AsyncSession, Change, DateRange

async def main(session: AsyncSession) -> None:
    await session.urls.page(1, orderby="dates")  # wrong
    session.urls.list(orderby="created")  # wrong
    session.urls.list(orderby="-date")
    await session.urls.update("spring", destinaton="https://www.example")  # wrong
    stats = await session.stats.collect(DateRange("2024-01-01", "2024-12-31"), keys=["spring"])
    print(stats.contry)  # wrong
    DateRange("2024-01-01")  # wrong
    DateRange("30d", "today")
    async for link in session.urls.list():
        await session.urls.update("spring", redirect_code=link.redirect_code)
    print(stats.country)
"""


#: Also checked by `make check`, with mypy and pyright.
WRAPPER = Path(__file__).with_name("typed_wrapper.py")


def test_types_follow_from_the_question_and_misspelt_words_are_found(tmp_path: Path) -> None:
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    told, complaints, status = api.run(
        [
            "--config-file",
            str(tmp_path / "mypy.ini"),
            "--cache-dir",
            str(tmp_path),
            str(tmp_path / "misspelt.py"),
            str(WRAPPER),
        ]
    )
    wrong = {n for n, line in enumerate(MISSPELT.splitlines(), 1) if line.endswith("# wrong")}
    assert {int(n) for n in re.findall(r"misspelt\.py:(\d+): error", told)} == wrong
    assert (told.count(": error:"), complaints, status) == (len(wrong), "", 1)


def test_queries_and_plans_complete_to_what_users_use() -> None:
    def shown(value: object) -> set[str]:
        return {name for name in dir(value) if not name.startswith("_")}

    common = {"resolve", "span"}
    for query, own in QUERIES:
        assert shown(query) == common | own
        assert shown(make_plan(query, (), None, NOW, "inclusive")) == {"query", "span", "missing", "split"}


def test_a_name_that_there_is_not_is_an_error_and_all_others_are_listed() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        slashtag.nothing  # noqa: B018
    assert set(slashtag.__all__) <= set(dir(slashtag))
