"""Codes of countries (ISO 3166-1 alpha-2, and XK as the Unicode CLDR has it), and what is meant by others."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from .._errors import InvalidRequestError

#: Codes and names that people use for the same country.
_SAME = {
    "UK": "GB",
    "GREAT BRITAIN": "GB",
    "USA": "US",
    "UNITED STATES OF AMERICA": "US",
    "UAE": "AE",
    "HOLLAND": "NL",
}
#: Codes of other standards, of languages, of former countries and of parts, by what may be meant.
_MEANT = {
    "EL": "GR",
    "EN": "GB",
    "SF": "FI",
    "FX": "FR",
    "DD": "DE",
    "SU": "RU",
    "BU": "MM",
    "TP": "TL",
    "ZR": "CD",
    "YU": "RS",
    "JA": "JP",
    "KO": "KR",
    "ENGLAND": "GB",
    "SCOTLAND": "GB",
    "WALES": "GB",
}


@cache
def countries() -> Mapping[str, str]:
    """Return the names of countries by their code."""
    text = files("slashtag._core").joinpath("countries.txt").read_text("utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())


def find_country(text: str) -> str | None:
    """Return the code of a country that a code or an English name names, in any case; None for others."""
    given = " ".join(text.upper().split())
    named = (code for code, name in countries().items() if name.upper() == given)
    return given if given in countries() else _SAME.get(given) or next(named, None)


def check_country(code: object) -> str:
    """Return the code of a country in upper case; raises InvalidRequestError for what is none."""
    given = code.strip().upper() if isinstance(code, str) else ""
    if given in countries() and given == str(code).upper():
        return given
    meant = find_country(given) or _MEANT.get(given, given)
    question = f": did you mean {meant!r}, {countries()[meant]}?" if meant in countries() else ""
    raise InvalidRequestError(f"iso_code must be a 2-letter ISO country code, not {code!r}{question}")
