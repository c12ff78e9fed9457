"""Each example runs as it is, on a sandbox, and on the account that the environment names."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from .support.processes import python

EXAMPLES = Path(__file__).parent.parent / "examples"
PRINTS = {
    "list_links": r"300 links\nmost clicked: https://\S+ with \d+ clicks\n",
    "daily_clicks_to_csv": r"date,clicks\n2024-01-01,\d+\n(2024-\d\d-\d\d,\d+\n){364}2024-12-31,\d+\n",
    "many_tags": r"(.+: \d+ clicks, \d+ unique\n){20}",
    "known_rate_limit": r"5000 clicks; \d+ requests in \d+\.\d s, \d+ refused\n",
    "demo": r"A made-up account [^\0]+: as in the click log\n[^\0]+\nEvery figure is exact\.\n",
    "own_http_session": r"\d+ clicks of 100 links; requests: /api/v1/urls, /api/v1/stats/yearly\n",
}


#: The demo on a smaller account; `make demo` runs it as it is.
SMALL_DEMO = "import sys, demo; demo.URLS, demo.CLICKS, demo.RATE = 500, 20_000, 300; sys.exit(demo.main())"


# polars, pandas and DuckDB are large: .ci/proof runs data_frames.
def test_each_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTS, "account", "fastapi_app", "data_frames"}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs_as_it_is(name: str) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SLASHTAG_")}
    what = ["-c", SMALL_DEMO] if name == "demo" else [f"{name}.py"]
    ran = python("-W", "error", *what, cwd=EXAMPLES, env=clean)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(PRINTS[name], ran.stdout)
    assert "Traceback" not in ran.stderr


async def test_the_cells_of_the_notebook_run() -> None:
    cells = json.loads((EXAMPLES / "clicks.ipynb").read_text("utf-8"))["cells"]
    names = dict[str, Any]()
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            source = compile(
                "".join(cell["source"]), f"cell {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            found = eval(source, names)
            if inspect.iscoroutine(found):
                await found
    assert names["stats"].total == sum(clicks for _, clicks in names["each"]) > 0
