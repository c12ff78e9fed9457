"""Internal names of the client that what is built on it may import (`SATELLITES` in tests/test_layers.py).

They use public names of `slashtag`, the methods of AsyncSession that are marked for them, modules that know
nothing of the service (`LEAVES` there), and otherwise only these, which may change without notice. Add one
only if the public interface is not sufficient.
"""

from ._core.batches import check_selector as check_selector
from ._core.countries import countries as countries
from ._core.secret import Secret as Secret
from ._core.windows import windows as windows
from ._fanout import Tasks as Tasks
from ._fanout import in_thread as in_thread
from ._fanout import run_workers as run_workers
from ._journal.file import remove_journal as remove_journal
from ._resources.urls import check_change as check_change
from ._sending.session_log import tell as tell
