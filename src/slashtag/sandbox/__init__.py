"""The service of docs/service.md on loopback, to build and test against offline."""

from .limits import Fault as Fault
from .routes import Behaviour as Behaviour
from .rules import Arrival as Arrival
from .rules import Envelope as Envelope
from .sandbox import Sandbox as Sandbox
from .store import Link as Link
from .store import Tag as Tag
from .truth import Selection as Selection
from .truth import TrueCounts as TrueCounts
from .truth import Truth as Truth
