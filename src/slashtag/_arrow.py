"""Columns as Arrow tables, which polars, pandas, DuckDB and pyarrow take; needs pyarrow."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Literal

from ._errors import ExportError

Kind = Literal["text", "int", "date", "timestamp", "float", "bool"]
_TYPE = {
    "text": "string",
    "int": "int64",
    "date": "date32",
    "timestamp": "timestamp[us]",
    "float": "float64",
    "bool": "bool",
}


def arrow_columns(kinds: Mapping[str, Kind], columns: Iterable[Iterable[Any]]) -> Any:
    """Return a pyarrow.Table of named and typed columns.

    Raises ExportError without pyarrow, and for a count that int64 cannot hold.
    """
    arrow = import_extra("parquet", "pyarrow")
    schema = arrow.schema([(name, _TYPE[kind]) for name, kind in kinds.items()])
    try:
        return arrow.table(list(columns) or [()] * len(schema), schema=schema)
    except (OverflowError, arrow.ArrowInvalid) as error:
        raise ExportError(
            f"{error}: Arrow and Parquet hold numbers up to 2**63 - 1; use rows(), .jsonl or .csv"
        ) from None


def import_extra(extra: str, name: str) -> Any:
    """Import a library of one of the package's extras; raises ExportError that says what to install."""
    try:
        return import_module(name)
    except ImportError:
        raise ExportError(f'{name} is not installed: pip install "slashtag[{extra}]"') from None
