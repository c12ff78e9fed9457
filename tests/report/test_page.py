"""Every figure on a page is the report's, and every label is text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from slashtag import ExportError, InvalidRequestError
from slashtag.counts import Compared
from slashtag.report import to_html, write
from tests.report.figures import HOSTILE, Element, Seen, read, report
from tests.support.laws import examples

DIMENSIONS = ("tag", "destination", "country", "referrer", "device", "browser", "platform")
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\u202a-\u202e]")


def walk(element: Element) -> list[Element]:
    return [element, *(below for child in element.children for below in walk(child))]


def test_labels_are_text_wherever_they_stand() -> None:
    counts = {name: 100 - n for n, name in enumerate(HOSTILE)}
    found = replace(
        report([sum(counts.values()), 0, 5], top=HOSTILE, **dict.fromkeys(DIMENSIONS, counts)),
        title=HOSTILE[1],
        selection=f"links tagged {HOSTILE[0]}",
        zone=HOSTILE[2],
    )
    page = to_html(found)
    root = read(page)
    elements = walk(root)
    forbidden = {"script", "img", "b", "iframe", "object", "foreignobject"}
    assert not forbidden & {element.tag for element in elements}
    names = {name for element in elements for name in element.attributes}
    assert not [name for name in names if name.startswith("on") or name in {"src", "xlink:href"}]
    addresses = [element.attributes["href"] for element in elements if "href" in element.attributes]
    assert all(address.startswith("https://s.example/") for address in addresses[1:])
    assert addresses[0] == "data:,"
    texts = [element.text for element in root.all("bdi")]
    assert all(label in texts for label in HOSTILE[:7])
    assert "\ufffdgnp.exe" in texts
    assert not CONTROLS.search(page)
    assert not re.search(r"url\(|@import|@font-face", root.one("style").text)
    policy = root.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    assert policy.startswith("default-src 'none'")


def test_countries_have_names_and_other_labels_stay_as_they_are() -> None:
    counts = {"DE": 8, "unknown.": 1}
    root = read(to_html(report([9], **dict.fromkeys(DIMENSIONS, counts))))
    for name in DIMENSIONS:
        labels = [each.text for each in root.one("section", id=name).all("bdi", **{"class": "label"})]
        assert labels == ["Germany" if name == "country" else "DE", "Unknown"]


@examples(12)
@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=40),
    st.dictionaries(st.text(min_size=1, max_size=20), st.integers(0, 10**9), max_size=40),
)
@example([1], {f"label {n}": n for n in range(12)})
def test_every_figure_is_on_the_page(clicks: list[int], counts: dict[str, int]) -> None:
    counts = {label: n for label, n in counts.items() if label.isprintable()}
    seen = Seen(to_html(report(clicks, country=counts)))
    assert seen.figure("total") == sum(clicks)
    assert seen.counts("country") == {label: [n, 3] for label, n in counts.items()}
    hidden = list(counts.values())[10:]
    told = [re.findall(r"\d[\d,]*", each.text) for each in seen.root.all("summary")]
    assert [f"{len(hidden)}", f"{sum(hidden):,}"] in told or not hidden
    if any(clicks):
        rows = seen.root.one("table", id="steps").one("tbody").all("tr")
        assert [int(row.all("td")[0].text.replace(",", "")) for row in rows] == clicks


def test_what_is_not_over_or_not_complete_is_said() -> None:
    found = report([1, 2])
    assert not read(to_html(found)).all("p", **{"class": "unfinished"})
    for changed in (
        replace(found, spans=found.spans._replace(is_cut=True)),
        replace(found, complete=False),
    ):
        assert read(to_html(changed)).all("p", **{"class": "unfinished"})


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    write(report([1]), path)
    whole = path.read_bytes()
    with pytest.raises(InvalidRequestError):
        write(report([1]), tmp_path / "report.pdf")
    with pytest.raises(ExportError):
        write(report([1]), tmp_path / "missing" / "report.html")
    monkeypatch.setattr("vl_convert.vegalite_to_svg", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        write(report([1]), path)
    assert path.read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_only_what_had_no_clicks_before_is_new() -> None:
    rows = [Compared((f"2024-01-0{n}",), 5, before, None) for n, before in enumerate((0, None, 4), 1)]
    root = read(to_html(replace(report([5, 5, 5]), steps=rows)))
    changes = [row.all("td")[-1].text for row in root.one("table", id="steps").one("tbody").all("tr")]
    assert changes == ["new", "", "+25.0 %"]
