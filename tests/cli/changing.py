"""What tests of changes from a file have in common."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slashtag.sandbox import Sandbox

SLASHTAG = [sys.executable, "-c", "import sys; from slashtag.cli import main; sys.exit(main())"]
Write = Callable[..., Path]


def told(path: Path) -> dict[str, Any]:
    """What the file of results tells in the end, by fingerprint."""
    results = path.with_name(f"{path.stem}.results.jsonl")
    entries = [json.loads(line) for line in results.read_text("utf-8").splitlines()[1:]]
    return {entry["fingerprint"]: entry for entry in entries}


def puts(box: Sandbox) -> list[Any]:
    return [arrival for arrival in list(box.requests) if arrival.method == "PUT"]


def sent(box: Sandbox) -> Counter[str]:
    """How often a change of each of the links a0 to a59 was sent, as the service's own record tells."""
    return Counter(f"a{int(arrival.path.rpartition('/')[2]) - 1_000_001}" for arrival in puts(box))
