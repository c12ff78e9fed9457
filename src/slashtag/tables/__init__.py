"""Tables in files: written whole, read by one set of rules, and compared."""

from .._files import AtomicFile
from ._comparing import VOLATILE, Comparison, RowDifference, compare_files
from ._reading import LoadedTable, load_table
from ._table import About, Column, Row, Table, Writer
from ._writing import (
    CHUNK,
    FORMATS,
    TextFormat,
    check_table_path,
    chunks,
    open_table,
)

__all__ = [
    "CHUNK",
    "FORMATS",
    "VOLATILE",
    "About",
    "AtomicFile",
    "Column",
    "Comparison",
    "LoadedTable",
    "Row",
    "RowDifference",
    "Table",
    "TextFormat",
    "Writer",
    "check_table_path",
    "chunks",
    "compare_files",
    "load_table",
    "open_table",
]
