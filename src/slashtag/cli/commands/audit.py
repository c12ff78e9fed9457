"""`slashtag audit`: whether a warehouse holds what the service counts."""

from pathlib import Path

from msgspec.structs import astuple

from ... import InvalidRequestError
from ..._files import object_url
from ..._wording import many
from ...counts import between
from ..output import OutputOptions, table_of
from ..run import Run, command
from .sync import DATASET, DESTINATION, TARGET, imported, progress_of

DIFFERENCES = table_of(("table", "name", "date", "held", "counted", "dimension", "label"))


@command
async def audit(
    run: Run,
    output: OutputOptions,
    target: str | None = TARGET,
    destination: str | None = DESTINATION,
    dataset: str | None = DATASET,
) -> None:
    """Compare the clicks of a warehouse with what the service counts, as `slashtag sync` does.

    No row is written: the next sync mends what differs. Each day of a link or a tag that differs is a row.
    The exit code is 3 if there are any, or if something cannot be compared.
    """
    if target is not None and object_url(target) is None and not Path(target).exists():
        raise InvalidRequestError(f"there is no {target}: nothing can be audited")
    auditing = imported("audit")
    warehouse = auditing.Warehouse(target, destination, dataset=dataset)
    async with run.session() as session:
        with run.bars() as start_bar:
            found = await auditing.audit(
                session,
                warehouse,
                progress=progress_of(start_bar),
                on_error=run.note_failure,
            )
    written = output.print(DIFFERENCES, map(astuple, found.differences))
    if not found.complete:
        run.is_incomplete = True
    verdict = "no differences" if found.complete else "not all could be compared"
    if found.differences:
        verdict = many(len(found.differences), "difference")
    days = f"{between(found.since, found.through)} ({found.timezone})"
    run.say(f"{days}: {verdict}; {written}{run.cost()}")
