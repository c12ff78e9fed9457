"""vcrpy and OpenTelemetry see each request once, and no credential."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "support" / "observers.py"


@pytest.mark.parametrize(
    ("work", "seen"),
    [
        ("record_with_vcrpy", "40 requests recorded, 40 replayed"),
        ("trace_with_opentelemetry", "40 spans of 40 requests"),
    ],
)
def test_each_request_is_seen_once_and_no_credential(tmp_path: Path, work: str, seen: str) -> None:
    ran = subprocess.run(
        [sys.executable, SCRIPT, work], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(seen)
