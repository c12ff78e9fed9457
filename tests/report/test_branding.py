"""Title, logo and colours: checked at once, escaped, embedded and readable."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from slashtag import InvalidRequestError
from slashtag.report import Branding
from slashtag.report._branding import MAX_LOGO, contrast
from tests.report.figures import HOSTILE, read, report
from tests.report.test_files import size

LOGO = vl_convert.svg_to_png("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", scale=1)
COLOURS = st.binary(min_size=3, max_size=3).map(lambda parts: f"#{parts.hex()}")


@pytest.mark.parametrize(
    "options",
    [
        {"accent": "reed"},
        {"accent": "#35d"},
        {"accent": "3355d"},
        {"accent": "##3355d1"},
        {"accent": "#3355d1;}"},
        {"accent": "#3355d1\n"},
        {"accent": None},
        {"title": "x" * 201},
        {"title": None},
        {"logo": b"<svg xmlns='http://www.w3.org/2000/svg'/>"},
        {"logo": b"GIF89a"},
        {"logo": "logo.png"},
        {"logo": LOGO + bytes(MAX_LOGO)},
    ],
)
def test_what_cannot_be_shown_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        Branding(**options)


@given(COLOURS)
def test_text_and_bars_can_be_seen_in_any_accent_colour(accent: str) -> None:
    for colours in Branding(accent=accent).palettes:
        for name in ("ink", "muted", "text", "up", "down"):
            assert contrast(colours[name], colours["card"]) >= 4.5, name
            assert contrast(colours[name], colours["page"]) >= 4.5, name
        for name in ("ink", "muted"):
            assert contrast(colours[name], colours["soft"]) >= 4.5, name
        assert contrast(colours["muted"], colours["h0"]) >= 4.5
        assert all(contrast(colours["ink"], colours[f"h{n}"]) >= 4.5 for n in range(6))
        assert contrast(colours["accent"], colours["card"]) >= 1.4


@pytest.mark.parametrize(
    ("name", "colour"),
    [("teal", "#008080"), ("0A7f5a", "#0a7f5a"), ("Dark Blue", "#00008b"), ("red", "#ff0000")],
)
def test_an_accent_may_be_named(name: str, colour: str) -> None:
    assert Branding(accent=name) == Branding(accent=colour)


@pytest.mark.unmeasured
def test_a_title_and_a_logo_are_on_the_page() -> None:
    found = report([1, 2], branding=Branding(title=HOSTILE[0], logo=LOGO))
    root = read(found.to_html())
    assert root.one("h1").text == HOSTILE[0]
    assert root.all("title")[0].text.startswith(HOSTILE[0])
    assert "1\u00a0– 2 Jan 2024" in root.one("header").text
    assert root.all("script") == []
    image = root.one("img").attributes
    assert set(image) == {"class", "src", "alt"}
    start, _, data = image["src"].partition(",")
    assert (start, b64decode(data)) == ("data:image/png;base64", LOGO)
    assert Branding(logo=b"\xff\xd8\xff\xe0").logo_uri.startswith("data:image/jpeg;base64,")
    plain = read(report([1, 2]).to_html())
    assert plain.one("h1").text == "1\u00a0– 2 Jan 2024"
    assert plain.all("img") == []


@pytest.mark.unmeasured
def test_a_picture_has_title_logo_and_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    found = report([1, 2], branding=Branding(title=HOSTILE[0], logo=LOGO, accent="#0a7f5a"))
    assert size(found.to_png(scale=1)) == size(report([1, 2]).to_png(scale=1))
    drawn: list[str] = []
    monkeypatch.setattr("vl_convert.svg_to_png", lambda svg, scale: drawn.append(svg) or b"")
    found.to_png()
    root = read(drawn[-1])
    assert root.one("image").attributes["href"] == found.branding.logo_uri
    assert HOSTILE[0] in [element.text for element in root.all("text")]
    assert "#0a7f5a" in drawn[-1]
    assert "var(" not in drawn[-1]
