"""The internal names that cli, export, report, dask, dlt and bulk_update may import.

They use public names of `slashtag` and otherwise only these; tests/test_layers.py checks that. These names
may change without notice. Add one only if the public interface is not sufficient.
"""

from ._core.batches import check_slashtag as check_slashtag
from ._core.change import find_problems as find_problems
from ._fanout import WorkerPool as WorkerPool
from ._files import FileLock as FileLock
from ._files import in_thread as in_thread
from ._files import sync_folder as sync_folder
from ._hints import did_you_mean as did_you_mean
from ._journal.file import remove_journal as remove_journal
from ._models import days as days
from ._models import many as many
from ._session import account_key as account_key
from ._session import optional as optional
