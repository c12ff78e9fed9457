"""What answers have shown about the service. It is forgotten after some minutes: a bad hour passes."""

from collections import defaultdict
from math import inf
from time import monotonic

#: Seconds after which a finding is forgotten: half of the ten minutes in which a session that lives for weeks
#: has to be back to normal, and thousands of requests that do not find out the same again.
KEPT = 300.0
#: Second requests in vain, in a row, after which no other second one is made.
MOST_IN_VAIN = 8


class Finding:
    """Whether answers of the last minutes have shown something."""

    def __init__(self) -> None:
        self._until = -inf

    def __bool__(self) -> bool:
        return monotonic() < self._until

    def note(self) -> None:
        """Note that an answer has shown it."""
        self._until = monotonic() + KEPT


class ServiceTraits:
    """Findings about the service, shared by all views of a session."""

    def __init__(self) -> None:
        #: By stated path: that the service answers there, or nowhere; or on the samples' path.
        self.has_stated_path: defaultdict[str, Finding] = defaultdict(Finding)
        self.uses_sample_path: defaultdict[str, Finding] = defaultdict(Finding)
        #: That all-time statistics failed, or contradict those of days.
        self.all_time_is_wrong = Finding()
        #: That the service does not count what it is asked: the halves of a batch do not add up to it.
        self.is_not_additive = Finding()
        #: That answers which contradict themselves do so a second time too.
        self.contradictions_stay = Finding()
        self._in_vain = 0

    def second_request(self, *, in_vain: bool) -> None:
        """Note whether a second request was in vain: its answer contradicted itself too."""
        self._in_vain = self._in_vain + 1 if in_vain else 0
        if self._in_vain == MOST_IN_VAIN:
            self._in_vain = 0
            self.contradictions_stay.note()
