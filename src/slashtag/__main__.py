"""`python -m slashtag` is the command `slashtag`."""

import sys

from .cli import main

sys.exit(main())
