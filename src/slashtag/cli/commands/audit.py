"""`slashtag audit`: whether a warehouse holds what the service counts."""

from pathlib import Path

from msgspec.structs import astuple

from ... import InvalidRequestError
from ..._files import object_url
from ..._wording import many
from ...tables import Column, Table
from ..output import OutputOptions
from ..run import Run, command
from .sync import DATASET, DESTINATION, TARGET, imported, progress_of

DIFFERENCES = Table(
    (
        Column("table"),
        Column("name"),
        Column("date", "date"),
        Column("held", "int"),
        Column("counted", "int"),
        Column("dimension"),
        Column("label"),
    )
)
#: So many slashtags are named on stderr.
NAMED = 3


@command
async def audit(
    run: Run,
    output: OutputOptions,
    target: str | None = TARGET,
    destination: str | None = DESTINATION,
    dataset: str | None = DATASET,
) -> None:
    """Compare the clicks of a warehouse with what the service counts, as `slashtag sync` does.

    Nothing is written: the next sync mends what differs. Each day of a link or a tag that differs is a row.
    The exit code is 3 if there are any, or if something cannot be compared.
    """
    if target is not None and object_url(target) is None and not Path(target).exists():
        raise InvalidRequestError(f"there is no {target}: nothing can be audited")
    auditing = imported("audit")
    warehouse = auditing.Warehouse(target, destination, dataset=dataset)
    async with run.session() as session:
        with run.bars() as start_bar, output.writer(DIFFERENCES, before=run.end_bars) as writer:
            found = await auditing.audit(
                session,
                warehouse,
                progress=progress_of(start_bar),
                on_error=run.note_failure,
            )
            run.end_bars()
            writer.write(map(astuple, found.differences))
    run.figures |= {
        "links": found.links,
        "first": str(found.since),
        "last": str(found.through),
        "timezone": found.timezone,
        "differences": len(found.differences),
        "not_proved": len(found.missing),
    }
    if not found.is_proved:
        run.mark_incomplete()
    if found.changed:
        names = ", ".join(map(repr, found.changed[:NAMED]))
        run.say(f"new or renamed since the load, not compared: {names}, {len(found.changed):,} in all")
    links = len({each.name for each in found.differences})
    told = f"{many(len(found.differences), 'difference')} of {many(links, 'link or tag', 'links or tags')}"
    verdict = told if links else "not all of it is proved" if found.missing else "no differences"
    span = f"{found.since} to {found.through}, {found.timezone}"
    run.say(f"{many(found.links, 'link')}, {span}: {verdict}; {run.cost()}")
