"""The service of docs/service.md on loopback, to build and test against offline."""

from .faults import Fault
from .limits import FixedWindow, InFlightCap, Limiter, SlidingWindow, TokenBucket
from .options import Behaviour
from .records import TrueCountry, TruePeriod, TrueRange, TrueTag, TrueUrl
from .sandbox import Arrival, Sandbox
from .truth import Truth

__all__ = [
    "Arrival",
    "Behaviour",
    "Fault",
    "FixedWindow",
    "InFlightCap",
    "Limiter",
    "Sandbox",
    "SlidingWindow",
    "TokenBucket",
    "TrueCountry",
    "TruePeriod",
    "TrueRange",
    "TrueTag",
    "TrueUrl",
    "Truth",
]
