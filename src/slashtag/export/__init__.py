"""Links, tags and clicks of an account as rows, in files of several formats."""

from ._exports import NAMED_URLS as NAMED_URLS
from ._exports import TAGS as TAGS
from ._exports import URLS as URLS
from ._exports import By as By
from ._exports import Summary as Summary
from ._exports import begins_anew as begins_anew
from ._exports import clicks_table as clicks_table
from ._exports import export_clicks as export_clicks
from ._exports import export_tags as export_tags
from ._exports import export_urls as export_urls
from ._exports import link_cells as link_cells
from ._exports import named_url_row as named_url_row
from ._exports import tag_row as tag_row
from ._exports import url_row as url_row
from ._hours import hourly_clicks as hourly_clicks
