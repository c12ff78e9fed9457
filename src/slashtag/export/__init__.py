"""Links, tags and clicks of an account as rows, in files of several formats."""

from .._shared_slashtags import Bounds as Bounds
from .._shared_slashtags import Links as Links
from .._shared_slashtags import Share as Share
from .._shared_slashtags import names_of_tags as names_of_tags
from ..tables import FORMATS as FORMATS
from ..tables import VOLATILE as VOLATILE
from ..tables import AtomicFile as AtomicFile
from ..tables import Column as Column
from ..tables import Row as Row
from ..tables import RowDifference as RowDifference
from ..tables import Table as Table
from ..tables import TextFormat as TextFormat
from ..tables import Writer as Writer
from ..tables import arrow_table as arrow_table
from ..tables import check_table_path as check_table_path
from ..tables import compare_files as compare_files
from ..tables import open_table as open_table
from ..tables import open_writer as open_writer
from ..tables import read_table as read_table
from ._columns import LINK_COLUMNS as LINK_COLUMNS
from ._columns import LinkColumns as LinkColumns
from ._columns import with_columns as with_columns
from ._exports import NAMED_URLS as NAMED_URLS
from ._exports import TAGS as TAGS
from ._exports import URLS as URLS
from ._exports import By as By
from ._exports import Summary as Summary
from ._exports import clicks_rows as clicks_rows
from ._exports import clicks_table as clicks_table
from ._exports import dimension_rows as dimension_rows
from ._exports import dimensions_table as dimensions_table
from ._exports import export_clicks as export_clicks
from ._exports import export_tags as export_tags
from ._exports import export_urls as export_urls
from ._exports import named_url_row as named_url_row
from ._exports import tag_row as tag_row
from ._exports import url_row as url_row
from ._hours import hourly_clicks as hourly_clicks

# The names that are not here are those of `slashtag.tables`, their home. Until version 1.0 they can be
# imported from here too, as programs do that were written before there was that package.
__all__ = [
    "LINK_COLUMNS",
    "NAMED_URLS",
    "TAGS",
    "URLS",
    "Bounds",
    "By",
    "LinkColumns",
    "Links",
    "Share",
    "Summary",
    "clicks_rows",
    "clicks_table",
    "dimension_rows",
    "dimensions_table",
    "export_clicks",
    "export_tags",
    "export_urls",
    "hourly_clicks",
    "named_url_row",
    "names_of_tags",
    "tag_row",
    "url_row",
    "with_columns",
]
