"""The service of docs/service.md on loopback, to build and test against offline."""

from .faults import Fault
from .limits import Limiter, TokenBucket
from .options import Behaviour
from .records import TrueCountry, TruePeriod, TrueRange, TrueTag, TrueUrl
from .sandbox import Arrival, Sandbox
from .truth import Truth

__all__ = [
    "Arrival",
    "Behaviour",
    "Fault",
    "Limiter",
    "Sandbox",
    "TokenBucket",
    "TrueCountry",
    "TruePeriod",
    "TrueRange",
    "TrueTag",
    "TrueUrl",
    "Truth",
]
