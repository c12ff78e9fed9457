"""Reports made by hand, and a parser of their pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

from slashtag import RangeStats
from slashtag.report import Report, TopLink

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


def stats(start: date, clicks: list[int], **maps: Any) -> RangeStats:
    """Statistics of days from `start` on."""
    days = {start + timedelta(days=n): count for n, count in enumerate(clicks)}
    return RangeStats(total_clicks=sum(clicks), clicks=days, **maps)


def report(clicks: list[int], *, start: date = date(2024, 1, 1), top: Any = (), **changes: Any) -> Report:
    """A report of these clicks by day, from `start` on; `top` are slashtags, each with all of the clicks."""
    maps = {name: changes.pop(name, {}) for name in ("device", "browser", "platform", "country", "referrer")}
    counted = stats(start, clicks, **maps)
    end = start + timedelta(days=len(clicks) - 1)
    links = tuple(
        TopLink(
            slashtag=name, short_url=f"https://s.example/{name}", clicks=sum(clicks), by_day=counted.clicks
        )
        for name in top
    )
    values: dict[str, Any] = {
        "start": start,
        "end": end,
        "asked_at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        "requests": 7,
        "selection": "all links of the account",
        "links": 3,
        "links_clicked": 2,
        "stats": counted,
        "before": 0,
        "top": links,
    }
    return Report(**values | changes)


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
        self.html = html
        self.root = read(html)

    def figure(self, name: str) -> int:
        """A figure by its id; what is shown and what machines read are the same."""
        element = self.root.one("data", id=name)
        return same(element)

    @property
    def days(self) -> dict[date, int]:
        rows = self.root.one("table", id="days").one("tbody").all("tr")
        return {
            date.fromisoformat(row.one("time").attributes["datetime"]): plain(row.one("td").text)
            for row in rows
        }

    @property
    def heat(self) -> list[list[int | None]]:
        rows = self.root.one("table", id="weekdays").one("tbody").all("tr")
        return [
            [plain(cell.attributes.get("title", cell.text)) if cell.text else None for cell in row.all("td")]
            for row in rows
        ]

    @property
    def top(self) -> list[tuple[str, int]]:
        rows = self.root.one("table", id="links-table").one("tbody").all("tr")
        return [(row.all("bdi")[0].text, same(row.one("data"))) for row in rows]

    def counts(self, dimension: str) -> dict[str, int]:
        """All labels of a dimension: those shown and those on demand."""
        found: dict[str, int] = {}
        for table in self.root.all("table", data_dimension=dimension):
            for row in table.one("tbody").all("tr"):
                if "data-label" in row.attributes:
                    label = row.attributes["data-label"]
                    assert label not in found
                    found[label] = same(row.one("data"))
        return found

    def shown(self, dimension: str) -> int:
        """The sum of what is seen of a dimension before anything is opened."""
        table = self.root.all("table", data_dimension=dimension)[0]
        return sum(same(element) for element in table.all("data"))


def same(element: Element) -> int:
    """The number of an element, which it must tell to eyes and machines alike."""
    value = int(element.attributes["value"])
    assert element.text == f"{value:,}"
    return value


def plain(text: str) -> int:
    """A number with thousands separators."""
    number = int(text.replace(",", ""))
    assert text == f"{number:,}"
    return number
