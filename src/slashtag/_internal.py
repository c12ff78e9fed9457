"""The internal names that what is built on top (`SATELLITES` in tests/test_layers.py) may import.

They use public names of `slashtag`, the methods of AsyncSession that are marked for them, and otherwise only
these; tests/test_layers.py checks that. These names may change without notice. Add one only if the public
interface is not sufficient.
"""

from ._arrow import Kind as Kind
from ._arrow import arrow_columns as arrow_columns
from ._arrow import import_extra as import_extra
from ._atomic_file import AtomicFile as AtomicFile
from ._atomic_file import writing_to as writing_to
from ._core.checks import check_callback as check_callback
from ._core.countries import countries as countries
from ._core.secret import Secret as Secret
from ._core.windows import DAY as DAY
from ._core.windows import windows as windows
from ._credentials import strip_invisible as strip_invisible
from ._fanout import Tasks as Tasks
from ._fanout import WorkerPool as WorkerPool
from ._files import check_local_path as check_local_path
from ._files import in_thread as in_thread
from ._files import object_url as object_url
from ._files import sync_folder as sync_folder
from ._journal.file import remove_journal as remove_journal
from ._resources.urls import address as address
from ._resources.urls import check_change as check_change
from ._saved_logins import VARIABLES as VARIABLES
from ._saved_logins import Login as Login
from ._saved_logins import check_variables as check_variables
from ._saved_logins import find_saved as find_saved
from ._saved_logins import login_path as login_path
from ._saved_logins import profiles as profiles
from ._saved_logins import read_login as read_login
from ._saved_logins import save_login as save_login
from ._saved_logins import settings as settings
from ._sending.metrics import MOST_BEHIND as MOST_BEHIND
from ._wording import did_you_mean as did_you_mean
from ._wording import many as many
