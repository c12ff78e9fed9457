"""Codes of countries: ISO 3166-1 alpha-2, and XK as the Unicode CLDR has it."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from .._errors import InvalidRequestError


@cache
def countries() -> Mapping[str, str]:
    """Return the names of countries by their code."""
    text = files("slashtag._core").joinpath("countries.txt").read_text("utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())


def check_country(code: object) -> str:
    """Return the code of a country in upper case; raises InvalidRequestError for what is none."""
    if not isinstance(code, str) or code.upper() not in countries():
        raise InvalidRequestError(f"iso_code must be a 2-letter code of ISO 3166, such as GB, not {code!r}")
    return code.upper()
