"""Order of the slashtags of a question, and their batches, as an earlier run of the job had them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

#: A slashtag, and the id of its link if that is known.
Link = tuple[str, int | None]


class KeptOrder:
    """Batches of an earlier run, so that a rerun makes them again although links have changed meanwhile.

    A batch begins where one began before, and ends where that ended. So links that were added or removed
    change only the batches that they are in. `keep` is called with each batch that is not as it was.
    """

    def __init__(self, batches: Iterable[Sequence[Link]], keep: Callable[[Sequence[Link]], object]) -> None:
        self._keep = keep
        # A later batch replaces those that had its slashtags before.
        self._batch_of = {slashtag: batch for batch in batches for slashtag, _ in batch}
        self._rank: dict[str, int] = {}
        for batch in {id(batch): batch for batch in self._batch_of.values()}.values():
            for slashtag, _ in batch:
                if self._batch_of[slashtag] is batch:
                    self._rank[slashtag] = len(self._rank)

    def arrange(self, keys: Iterable[Any]) -> list[Any]:
        """Return keys in the order that they had; those that are new come last, in the given order."""
        return sorted(keys, key=lambda key: self._rank.get(str(getattr(key, "slashtag", key)), inf))

    def begins(self, slashtag: str) -> bool:
        """Return whether a batch began with a slashtag."""
        return self._batch_of.get(slashtag, ((None, None),))[0][0] == slashtag

    def ends(self, first: str, slashtag: str) -> bool:
        """Return whether the batch that began with `first` ended with a slashtag."""
        return self.begins(first) and self._batch_of[first][-1][0] == slashtag

    def take(self, batch: Sequence[Link]) -> None:
        """Keep a batch unless it is as before."""
        if self._batch_of.get(batch[0][0]) != batch:
            self._keep(batch)
