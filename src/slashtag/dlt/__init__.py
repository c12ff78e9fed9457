"""Links, tags and clicks as a source for dlt, which loads them into a database, warehouse or files.

    import dlt
    from slashtag.dlt import slashtag_source

    pipeline = dlt.pipeline("slashtag", destination="duckdb", dataset_name="slashtag")
    pipeline.run(slashtag_source(since="2022-01-01"))

Needs the extra `dlt`. The base URL and the credentials come from dlt's configuration
(`sources.slashtag.base_url`, `apikey`, `apisecret`) or from SLASHTAG_BASE_URL, SLASHTAG_APIKEY and
SLASHTAG_APISECRET. `load` runs a pipeline under a lock and raises this library's errors; `slashtag sync` does
that on the command line.
"""

from ._audit import Audit as Audit
from ._audit import audit as audit
from ._audit import audit_file as audit_file
from ._compare import Difference as Difference
from ._compare import Unproved as Unproved
from ._destination import local_pipeline as local_pipeline
from ._pipeline import load as load
from ._records import Monitor as Monitor
from ._source import ShrunkListingError as ShrunkListingError
from ._source import slashtag_source as slashtag_source
