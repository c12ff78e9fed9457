"""One call, as the throttle knows it."""

from math import inf

from msgspec import Struct


class Ticket(Struct, eq=False, gc=False):
    """One call: its request in flight, and the 429s that it met."""

    sent: float = 0.0
    rejects: int = 0  # all of its 429s
    refusals: int = 0  # the last ones, while others passed: they have a reason of the call's own
    first: float = inf  # time of its first 429
    last: float = -inf  # time of its last one
