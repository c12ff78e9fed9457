"""Links, tags and clicks of an account as rows, in files of several formats."""

from ._hours import hourly_clicks
from ._jobs import Summary, export_clicks, export_tags, export_urls
from ._selection import By, Sharing, names_of_tags, selection
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
from ._writers import (
    FORMATS,
    TEXT_FORMATS,
    TableFile,
    TextFormat,
    Writer,
    arrow_schema,
    check_rows,
    format_of,
    open_writer,
)

__all__ = [
    "FORMATS",
    "NAMED_URLS",
    "TAGS",
    "TEXT_FORMATS",
    "URLS",
    "AtomicFile",
    "By",
    "Column",
    "Row",
    "Sharing",
    "Summary",
    "Table",
    "TableFile",
    "TextFormat",
    "Writer",
    "arrow_schema",
    "check_rows",
    "clicks_rows",
    "clicks_table",
    "dimension_rows",
    "dimensions_table",
    "export_clicks",
    "export_tags",
    "export_urls",
    "format_of",
    "hourly_clicks",
    "named_url_row",
    "names_of_tags",
    "open_writer",
    "selection",
    "tag_row",
    "url_row",
]
