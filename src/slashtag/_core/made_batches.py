"""Batches of slashtags that a job has made, so that it makes them again and can replay their answers."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from .look_alikes import folded

#: Ids in ascending order, of several links if these share a slashtag; empty if not known.
LinkIds = tuple[int, ...]
#: A slashtag, and the ids of its links.
Link = tuple[str, LinkIds]


class MadeBatch(Struct, frozen=True):
    """A batch that a job has made: full, or the rest of a question, which had no more links."""

    links: tuple[Link, ...]
    is_full: bool


class MadeBatches:
    """Batches that a job has made, so that a question about the same links makes them again.

    A full batch is made again if all its links are asked about, with the same slashtags and ids, and the
    oldest first: later ones cannot change which are made. So a link that was added, removed or renamed
    changes the batch that it was in, and the answers about all others can be replayed. So does one that looks
    like a link of the batch: a service that takes both for one must have them in one request. `keep` is
    called with each batch that is new.
    """

    def __init__(self, batches: Iterable[MadeBatch], keep: Callable[[MadeBatch], object]) -> None:
        self._keep = keep
        self._number_of: dict[tuple[Link, ...], int] = {}
        self._full: dict[Link, list[tuple[Link, ...]]] = {}  # by their first link
        self._rests: dict[frozenset[Link], tuple[Link, ...]] = {}
        for batch in batches:
            self._note(batch)

    def _note(self, batch: MadeBatch) -> bool:
        """Note a batch; return whether it is new."""
        links = batch.links
        if batch.is_full:
            if links not in self._number_of:
                self._number_of[links] = len(self._number_of)
                self._full.setdefault(links[0], []).append(links)
                return True
            return False
        together = frozenset(links)
        is_new = self._rests.get(together) != links
        self._rests[together] = links
        return is_new

    def add(self, batch: MadeBatch) -> None:
        """Note a batch, and keep it if it is new; one link is the same batch in any case."""
        if len(batch.links) > 1 and self._note(batch):
            self._keep(batch)

    def arrange(self, links: Sequence[Link]) -> tuple[list[tuple[Link, ...]], list[Link]]:
        """Return the full batches to make again of these links, and the links that are left."""
        left = dict.fromkeys(links)
        alike = Counter(folded(slashtag) for slashtag, _ in left)
        again: list[tuple[Link, ...]] = []
        found = [batch for link in links for batch in self._full.get(link, ())]
        for batch in sorted(found, key=self._number_of.__getitem__):
            names = Counter(folded(slashtag) for slashtag, _ in batch)
            if all(link in left for link in batch) and all(alike[name] == n for name, n in names.items()):
                again.append(batch)
                for link in batch:
                    del left[link]
        return again, list(self._rests.get(frozenset(left), left))

    def begins(self, links: Sequence[Link], at: int) -> tuple[Link, ...] | None:
        """Return the full batch whose links stand in a row here, if there is one."""
        found = self._full.get(links[at], ())
        return next((batch for batch in found if tuple(links[at : at + len(batch)]) == batch), None)
