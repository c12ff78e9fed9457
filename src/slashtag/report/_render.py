"""Templates of a report."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from textwrap import wrap
from typing import Any

from .. import ExportError
from . import _format as fmt


def extra(name: str) -> Any:
    """Import a module of the extra `report`. Raises ExportError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ExportError('a report needs jinja2 and vl-convert: pip install "slashtag[report]"') from None


def render(template: str, **values: Any) -> str:
    """Fill in a template of this folder."""
    text: str = _templates().get_template(template).render(values)
    return text


@cache
def _templates() -> Any:
    """Return the templates; every text put into them is cleaned, and escaped unless marked safe."""
    jinja2 = extra("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slashtag", "report"),
        autoescape=jinja2.select_autoescape(disabled_extensions=["txt"], default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_cleaned,
    )
    environment.globals |= {"fmt": fmt, "wrap": wrap}
    environment.filters |= {"heat_step": heat_step}
    return environment


def _cleaned(value: object) -> object:
    return fmt.plain(value) if type(value) is str else value  # other strings are markup


def heat_step(clicks: int, most: int) -> int:
    """Return the step of the heat scale: 0 for no clicks, 1 to 5 for each fifth of the most."""
    return -(-clicks * 5 // most) if clicks else 0
