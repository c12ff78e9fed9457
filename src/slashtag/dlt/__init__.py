"""Links, tags and clicks of an account in a warehouse: a database, or Parquet files, that dlt can reach.

    async with AsyncSession() as session:
        print(await load(session, Warehouse("clicks.duckdb"), since="2022-01-01"))

`load` brings the tables up to date and `audit` says what differs: both are one comparison, see
docs/warehouse.md. `slashtag sync` and `slashtag audit` do that on the command line. Needs the extra `dlt`.
"""

from ._account import ShrunkListingError as ShrunkListingError
from ._load import Difference as Difference
from ._load import Load as Load
from ._load import audit as audit
from ._load import load as load
from ._warehouse import Warehouse as Warehouse
