"""The service of docs/service.md on loopback, to build and test against offline."""

from .faults import Fault
from .routes import Behaviour
from .sandbox import Arrival, Sandbox
from .store import Link, Tag
from .truth import TrueCountry, TruePeriod, TrueRange, Truth

__all__ = [
    "Arrival",
    "Behaviour",
    "Fault",
    "Link",
    "Sandbox",
    "Tag",
    "TrueCountry",
    "TruePeriod",
    "TrueRange",
    "Truth",
]
