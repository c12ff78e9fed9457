"""Files of rows: JSON Lines, CSV (each also gzipped), Parquet, behind one small protocol."""

from ._dataset import update_parquet
from ._file import TableFile
from ._jobs import Summary, export_clicks, export_tags, export_urls
from ._table import (
    NAMED_URLS,
    TAGS,
    URLS,
    Column,
    Row,
    Table,
    clicks_rows,
    clicks_table,
    dimension_rows,
    dimensions_table,
    named_url_row,
    tag_row,
    url_row,
)
from ._target import AtomicFile
from ._update import update_sqlite
from ._writers import FORMATS, Writer, format_of, open_writer

__all__ = [
    "FORMATS",
    "NAMED_URLS",
    "TAGS",
    "URLS",
    "AtomicFile",
    "Column",
    "Row",
    "Summary",
    "Table",
    "TableFile",
    "Writer",
    "clicks_rows",
    "clicks_table",
    "dimension_rows",
    "dimensions_table",
    "export_clicks",
    "export_tags",
    "export_urls",
    "format_of",
    "named_url_row",
    "open_writer",
    "tag_row",
    "update_parquet",
    "update_sqlite",
    "url_row",
]
