"""`slashtag audit`: whether a warehouse or a file holds what the service counts."""

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from typer import Argument, Option

from ... import InvalidRequestError
from ..._internal import many
from ...tables import Column, Row, Table
from ..output import OutputOptions
from ..run import MAX_FAILURES, Run, command
from ..service import find_credentials
from .sync import LOCAL, PIPELINES_DIR, imported, monitor_of

DIFFERENCES = Table(
    (
        Column("slashtag"),
        Column("date", "date"),
        Column("held", "int"),
        Column("counted", "int"),
        Column("rows", "int"),
        Column("problem"),
    )
)
FILES = (".parquet", ".csv", ".jsonl")
#: So many slashtags are named on stderr.
NAMED = 3


@command
def audit(
    run: Run,
    output: OutputOptions,
    target: str | None = Argument(
        None,
        metavar="WAREHOUSE|FILE",
        help=f"What `slashtag sync` loaded into, or a file of `slashtag export clicks`: {', '.join(FILES)}.",
    ),
    destination: str | None = Option(
        None, metavar="NAME", help=f"As of `slashtag sync`: {', '.join(LOCAL)}, postgres, ..."
    ),
    dataset: str | None = Option(None, metavar="NAME", help="Schema of the tables. Default: slashtag."),
    repair: bool = Option(False, "--repair", help="Load the days that differ again, and audit them again."),
    by_day: bool = Option(
        False,
        "--by-day",
        help="Compare days instead of months, in a request for each month and hundred links: also finds "
        "faults that cancel out within a month.",
    ),
    timezone: str | None = Option(
        None, metavar="ZONE", help="Zone of a file's days: +HH:MM, or a name such as Europe/Berlin."
    ),
    since: datetime | None = Option(
        None, formats=["%Y-%m-%d"], metavar="DATE", help="First day that a file should hold."
    ),
    until: datetime | None = Option(
        None, formats=["%Y-%m-%d"], metavar="DATE", help="Last day that a file should hold."
    ),
    all_links: bool = Option(False, "--all", help="A file should hold every link of the account."),
    pipelines_dir: Path | None = PIPELINES_DIR,
    max_failures: int = MAX_FAILURES,
) -> None:
    """Compare the clicks of a warehouse or a file with what the service counts, day by day.

    One request for a hundred links has the sums of all months; those that differ are taken apart. Each day
    of a link that differs is a row. The exit code is 3 if there are any, or if something cannot be proved.
    """
    is_file = destination is None and target is not None and Path(target).suffix.lower() in FILES
    of_file = {"--timezone": timezone, "--since": since, "--until": until, "--all": all_links}
    if target is not None and "://" not in target and not Path(target).exists():
        raise InvalidRequestError(f"there is no {target}: nothing can be audited")
    if is_file and (repair or dataset or pipelines_dir):
        raise InvalidRequestError(
            "--repair, --dataset and --pipelines-dir are for warehouses: export a file again instead"
        )
    if not is_file and (given := [name for name, value in of_file.items() if value]):
        raise InvalidRequestError(f"{', '.join(given)}: a warehouse knows its zone and days itself")
    credentials = find_credentials(run.options)
    auditing = imported("audit")
    with run.bars() as start_bar, output.writer(DIFFERENCES, before=run.end_bars) as writer:
        bar = cache(start_bar)
        bar("audit", "batches")
        options = {
            "by_day": by_day,
            "session_options": run.options.of_session(),
            "monitor": monitor_of(run, auditing, bar, max_failures),
        }
        if is_file:
            days = {name: at and at.date() for name, at in (("since", since), ("until", until))}
            found = auditing.audit_file(
                target, timezone=timezone, all_links=all_links, **days, **options, **credentials.arguments
            )
        else:
            pipeline = auditing.local_pipeline(
                destination, target, dataset=dataset, pipelines_dir=pipelines_dir
            )
            found = auditing.audit(pipeline, repair=repair, **options, **credentials.arguments)
        run.end_bars()
        writer.write(_rows(found))
    _report(run, found)


def _rows(found: Any) -> Iterator[Row]:
    for each in found.differences:
        yield each.slashtag, each.date, each.held, each.counted, each.rows, each.problem


def _report(run: Run, found: Any) -> None:
    """Print what is no fault, what is not proved, and the summary."""
    run.figures |= {
        "links": found.links,
        "first": str(found.first),
        "last": str(found.last),
        "timezone": found.timezone,
        "differences": len(found.differences),
        "repaired": len(found.repaired),
        "not_proved": len(found.unproved),
    }
    if found.renamed:
        pairs = [f"{old!r} is {new!r}" for old, new in list(found.renamed.items())[:NAMED]]
        run.say(f"renamed since the load, and compared: {_some(pairs, len(found.renamed))}")
    for text, names in (
        ("not compared, as no link has them any more", found.gone),
        ("not in the file, and not compared without --all", found.not_held),
    ):
        if names:
            run.say(f"{text}: {_some([repr(name) for name in names[:NAMED]], len(names))}")
    for each in found.unproved:
        run.warn(str(each), "not proved: ")
    if found.repaired:
        run.say(
            f"repaired: {many(len(found.repaired), 'day')} of links, {many(found.repair_requests, 'request')}"
        )
    if found.differences:
        run.mark_incomplete()
        links = len({each.slashtag for each in found.differences})
        verdict = f"differences on {many(len(found.differences), 'day')} of {many(links, 'link')}"
    else:
        verdict = "not all of it is proved" if found.unproved else "no differences"
    span = f"{found.first} to {found.last}, {found.timezone}"
    if found.first > found.last:
        span = "no day was over at the last load"
    run.say(f"{many(found.links, 'link')}, {span}: {verdict}; {run.cost()}")


def _some(texts: list[str], count: int) -> str:
    others = f" and {many(count - len(texts), 'other')}" if count > len(texts) else ""
    return ", ".join(texts) + others
