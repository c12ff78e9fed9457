"""Tables in files: written whole, read by one set of rules, and compared."""

from .._files import AtomicFile
from ._comparing import VOLATILE, Comparison, RowDifference, compare_files
from ._reading import LoadedTable, load_table
from ._table import About, Column, Row, Table, Writer
from ._writing import (
    BATCH,
    FORMATS,
    TextFormat,
    batches,
    check_table_path,
    open_table,
    open_writer,
)

__all__ = [
    "BATCH",
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
    "batches",
    "check_table_path",
    "compare_files",
    "load_table",
    "open_table",
    "open_writer",
]
