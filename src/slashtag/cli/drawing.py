"""Tables and bar charts drawn on a terminal, fitted to its width."""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import groupby
from operator import itemgetter

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from .. import PeriodStats, RangeStats, Statistics
from .._internal import by_month
from ..export import Row, Table
from .errors import one_line

#: Characters that the first text of a row leaves to the other columns.
OTHERS = 24
#: The longest range drawn by day; longer ones are drawn by month.
MOST_DAYS = 31
#: Labels drawn of a dimension; the others are summed in one line.
MOST_LABELS = 8
BAR = 30


def _new_drawing() -> RichTable:
    return RichTable(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def draw_rows(table: Table, rows: Sequence[Row], shown: Mapping[str, int] | None) -> None:
    """Print rows on stdout.

    `shown` has the columns to draw, each with the width of a terminal that has room for it. Every row is
    then one line, its texts cut where they do not fit. Without it all columns are drawn, and texts wrap.
    """
    console = Console(highlight=False)
    names = [name for name in shown or table.names if not shown or shown[name] <= console.width]
    positions = [table.names.index(name) for name in names]
    drawing = _new_drawing()
    columns = [table.columns[n] for n in positions]
    first_text = next((column for column in columns if column.kind == "text"), None)
    for column in columns:
        drawing.add_column(
            column.name.replace("_", " "),
            justify="right" if column.kind in ("int", "float") else "left",
            # Of the other columns, rich makes the widest ones narrower. The first text names the record.
            overflow="ellipsis" if shown else "fold",
            no_wrap=column.kind != "text" or (bool(shown) and column is first_text),
            max_width=console.width - OTHERS if shown and column is first_text else None,
        )
    for row in rows:
        # Text, not markup: what the service sends is data.
        texts = ["" if row[n] is None else one_line(str(row[n])) for n in positions]
        drawing.add_row(*(Text(text, no_wrap=bool(shown)) for text in texts))
    console.print(drawing)


def draw(stats: Statistics) -> None:
    """Print the clicks by day or month and the largest labels of each dimension, with bars and a total."""
    table = _new_table()
    _add(table, _times(stats), stats.total)
    for dimension, rows in groupby(stats.rows(), itemgetter(0)):
        if dimension not in ("day", "month"):
            table.add_row(Text(dimension, "bold"))
            counts = [(f"  {label}", clicks) for _, label, clicks in rows]
            if len(rest := counts[MOST_LABELS:]) > 1:
                counts[MOST_LABELS:] = [(f"  {len(rest)} others", sum(n for _, n in rest))]
            _add(table, dict(counts), stats.total)
    if isinstance(stats, PeriodStats):
        bound = "" if stats.unique_is_exact else " at most"
        table.add_row(Text(f"unique{bound}", "bold"), f"{stats.clicks_unique:,}")
    _print(table, stats.total)


def draw_labels(counts: dict[str, int], total: int) -> None:
    """Print the clicks of every label of one dimension, with bars and a total."""
    table = _new_table()
    _add(table, counts, total)
    _print(table, total)


def _new_table() -> RichTable:
    table = _new_drawing()
    for header in ("", "clicks", "%", ""):
        table.add_column(header, justify="right" if header else "left")
    return table


def _add(table: RichTable, counts: dict[str, int], total: int) -> None:
    most = max(counts.values(), default=0)
    for label, clicks in counts.items():
        share = f"{percent(clicks, total):.1f}" if total else ""
        eighths = round(8 * BAR * clicks / most) if most else 0
        bar = Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), "cyan")
        table.add_row(one_line(label), f"{clicks:,}", share, bar)
    table.add_section()


def _print(table: RichTable, total: int) -> None:
    table.add_row(Text("total", "bold"), Text(f"{total:,}", "bold"))
    Console(highlight=False, markup=False).print(table)


def percent(part: int, whole: int) -> float:
    """Return a share in percent, with one decimal."""
    return round(100 * part / whole, 1) if whole else 0.0


def _times(stats: Statistics) -> dict[str, int]:
    if not isinstance(stats, RangeStats):
        return {label: clicks for dimension, label, clicks in stats.rows() if dimension == "month"}
    if len(stats.clicks) > MOST_DAYS:
        return months_of(stats.clicks)
    return {f"{day} {day:%a}": n for day, n in sorted(stats.clicks.items())}


def months_of(clicks: dict[date, int]) -> dict[str, int]:
    """Return the clicks of days by month, `YYYY-MM`."""
    return {f"{year}-{month:02d}": n for (year, month), n in sorted(by_month(clicks).items())}
