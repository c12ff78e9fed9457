"""Links, tags and clicks of an account as rows, in files of several formats."""

from ._hours import hourly_clicks
from ._jobs import Summary, export_clicks, export_tags, export_urls
from ._selection import Sharing, selection
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
from ._target import AtomicFile, checked_path, remove_parts
from ._writers import (
    FORMATS,
    TEXT_FORMATS,
    TableFile,
    TextFormat,
    Writer,
    arrow_schema,
    ending_of,
    format_of,
    load_arrow,
    open_writer,
)

__all__ = [
    "FORMATS",
    "NAMED_URLS",
    "TAGS",
    "TEXT_FORMATS",
    "URLS",
    "AtomicFile",
    "Column",
    "Row",
    "Sharing",
    "Summary",
    "Table",
    "TableFile",
    "TextFormat",
    "Writer",
    "arrow_schema",
    "checked_path",
    "clicks_rows",
    "clicks_table",
    "dimension_rows",
    "dimensions_table",
    "ending_of",
    "export_clicks",
    "export_tags",
    "export_urls",
    "format_of",
    "hourly_clicks",
    "load_arrow",
    "named_url_row",
    "open_writer",
    "remove_parts",
    "selection",
    "tag_row",
    "url_row",
]
