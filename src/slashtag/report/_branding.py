"""Title, logo and colours of a report."""

import re
from base64 import b64encode
from functools import cache
from importlib.resources import files

from msgspec import Struct
from msgspec.structs import force_setattr

from .. import InvalidRequestError
from .._internal import did_you_mean

#: The largest logo, in bytes.
MAX_LOGO = 500_000
_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
#: Contrast of text, as the Web Content Accessibility Guidelines have it, and of bars with their ground.
_OF_TEXT, _OF_BARS = 4.5, 1.4
# Light and dark.
_NEUTRAL = {
    "page": ("#f4f5f8", "#0e1217"),
    "card": ("#ffffff", "#171c24"),
    "ink": ("#14181f", "#e8ebf0"),
    "muted": ("#59636f", "#a0aab8"),
    "line": ("#e3e6ea", "#2b323d"),
    "before": ("#c3c8d0", "#4a5361"),
    "up": ("#17714a", "#5fd39b"),
    "down": ("#b3261e", "#ff9c94"),
    "h0": ("#f1f3f6", "#1c222b"),
}


@cache
def colours() -> dict[str, str]:
    """Return the colours that CSS has names for, by name."""
    text = files("slashtag.report").joinpath("colours.txt").read_text("utf-8")
    return dict(line.split(" ") for line in text.splitlines())


class Branding(Struct, frozen=True, kw_only=True):
    """Title, logo and accent colour of a report.

    `logo` is the content of a PNG or JPEG file of at most 500 kB. `accent` is a colour such as #3355d1, or
    3355d1, or the name of one in CSS, such as teal or dark blue, which becomes such a number; bars have it,
    and text too unless it would be hard to read. Raises InvalidRequestError for another title (at most 200
    characters), logo or colour.
    """

    title: str = ""
    logo: bytes = b""
    accent: str = "#3355d1"

    def __post_init__(self) -> None:
        """Check all options."""
        if not isinstance(self.title, str) or len(self.title) > 200:
            raise InvalidRequestError("the title must be a text of at most 200 characters")
        if not isinstance(self.logo, bytes) or (self.logo and not self.logo_uri):
            raise InvalidRequestError("the logo must be the content of a PNG or JPEG file")
        if len(self.logo) > MAX_LOGO:
            raise InvalidRequestError(f"the logo is larger than {MAX_LOGO:,} bytes")
        name = self.accent.lower().replace(" ", "") if isinstance(self.accent, str) else ""
        # A shell takes what follows an unquoted # for a comment.
        number = f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else self.accent
        accent = colours().get(name, number)
        if not isinstance(accent, str) or not re.fullmatch("#[0-9a-fA-F]{6}", accent):
            told = f"it must be a colour such as teal or 3355d1{did_you_mean(name, colours())}"
            raise InvalidRequestError(f"accent is {self.accent!r}; {told}")
        force_setattr(self, "accent", accent)

    @property
    def logo_uri(self) -> str:
        """The logo as a data URI; empty without one, or for another type."""
        kind = next((kind for start, kind in _TYPES.items() if self.logo.startswith(start)), None)
        return f"data:{kind};base64,{b64encode(self.logo).decode()}" if kind else ""

    @property
    def palettes(self) -> tuple[dict[str, str], dict[str, str]]:
        """Colours by name, on a light and on a dark background.

        `accent` is for bars, `text` for text; `soft` is the background of a label, h0 to h5 are the steps of
        the heat scale, with text in `ink`.
        """
        return self._palette(0, 0.16), self._palette(1, 0.28)

    def _palette(self, mode: int, tint: float) -> dict[str, str]:
        colours = {name: pair[mode] for name, pair in _NEUTRAL.items()}
        card, ink = colours["card"], colours["ink"]
        accent = _distinct(self.accent, "#ffffff" if mode else "#000000", [card], _OF_BARS)
        is_readable = min(contrast(accent, card), contrast(accent, colours["page"])) >= _OF_TEXT
        soft = _distinct(_mix(card, accent, tint), card, [ink, colours["muted"]])
        hot = _distinct(accent, card, [ink])
        heat = {f"h{n}": _mix(card, hot, n * 0.21 - 0.05) for n in range(1, 6)}
        return colours | {"accent": accent, "text": accent if is_readable else ink, "soft": soft} | heat


def _distinct(colour: str, toward: str, others: list[str], least: float = _OF_TEXT) -> str:
    """Change a colour toward another until it has enough contrast with all others."""
    mixed = (_mix(colour, toward, n / 40) for n in range(40))
    fits = (each for each in mixed if all(contrast(each, other) >= least for other in others))
    return next(fits, toward)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, as the Web Content Accessibility Guidelines define it."""
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in bytes.fromhex(colour[1:])]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mix(one: str, other: str, part: float) -> str:
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes(round(a + (b - a) * part) for a, b in pairs).hex()
