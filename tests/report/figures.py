"""Reports made by hand, and a parser of their pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

from slashtag import RangeStats, ShortUrl
from slashtag.counts import Compared, Spans
from slashtag.report import Report, TopLink

START = date(2024, 1, 1)
VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}
HOSTILE = [
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "</title></style></svg><b>",
    "a&amp;b",
    "x" * 300,
    "🎉🎂 party",
    "مرحبا-بالعالم",
    "\u202egnp.exe",
    "tab\there\x00",
    "javascript:alert(1)",
]


def report(clicks: list[int], *, top: Any = (), **tables: dict[str, int]) -> Report:
    """A report of these clicks by day, and labels; `top` are slashtags, each with all of the clicks."""
    first, last = START, START + timedelta(days=len(clicks) - 1)
    days = [first + timedelta(days=n) for n in range(len(clicks))]
    total = sum(clicks)
    labels: Any = {name: {"a": total} for name in RangeStats.SUMS}
    links = tuple(
        TopLink(
            slashtag=name,
            links=(ShortUrl(id=1, slashtag=name, short_url=f"https://s.example/{name}", destination=name),),
            clicks=total,
            before=n,
        )
        for n, name in enumerate(top)
    )
    return Report(
        title="",
        account="https://s.example/api/v1/",
        selection="all links of the account",
        zone="UTC",
        asked_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        spans=Spans(first, last, first - timedelta(days=366), last - timedelta(days=366)),
        stats=RangeStats(
            total_clicks=total,
            clicks=dict(zip(days, clicks, strict=True)),
            **labels,
        ),
        before=RangeStats(),
        unit="day",
        steps=[Compared((str(day),), n, n // 2, str(day)) for day, n in zip(days, clicks, strict=True)],
        tables={
            name: [Compared((label,), n, 3, None) for label, n in counts.items()]
            for name, counts in tables.items()
        },
        top=links,
    )


@dataclass
class Element:
    """One element: its attributes, what is in it, the text of all that."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Every element below that has this tag and these attributes, in order."""
        found = []
        for child in self.children:
            if child.tag == tag and all(
                child.attributes.get(name.replace("_", "-")) == value for name, value in attributes.items()
            ):
                found.append(child)
            found += child.all(tag, **attributes)
        return found

    def one(self, tag: str, **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.at = Element("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> ends <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        at: Element | None = self.at
        while at is not None:
            at.texts.append(data)
            at = at.parent


def read(html: str) -> Element:
    """Read a page; every element of it must be closed where it should."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root
    return reader.root


class Seen:
    """The figures of a page, as its reader sees them."""

    def __init__(self, html: str) -> None:
        self.root = read(html)

    def figure(self, name: str) -> int:
        """A figure by its id; what is shown and what machines read are the same."""
        return same(self.root.one("data", id=name))

    def counts(self, dimension: str) -> dict[str, list[int]]:
        """The clicks of all labels of a dimension and those before: those shown and those on demand."""
        found = dict[str, list[int]]()
        for table in self.root.all("table", data_dimension=dimension):
            for row in table.one("tbody").all("tr"):
                assert row.attributes["data-label"] not in found
                found[row.attributes["data-label"]] = [same(each) for each in row.all("data")]
        return found


def same(element: Element) -> int:
    """The number of an element, which it must tell to eyes and machines alike."""
    value = int(element.attributes["value"])
    assert element.text == f"{value:,}"
    return value
