"""The service of docs/service.md on loopback, to build and test against offline."""

from .limits import Fault
from .routes import Behaviour
from .rules import Arrival
from .sandbox import Sandbox
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
