"""Codes of countries (ISO 3166-1 alpha-2, and XK as the Unicode CLDR has it)."""

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
    if isinstance(code, str) and code.upper() in countries():
        return code.upper()
    raise InvalidRequestError(f"iso_code must be a 2-letter ISO country code, such as GB or US, not {code!r}")
