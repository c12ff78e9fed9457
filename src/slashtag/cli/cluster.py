"""`slashtag export clicks --scheduler`: the workers of a Dask cluster write a dataset."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .. import ConfigurationError, DateRange, SlashtagError
from ..export import Sharing, ending_of, list_selection
from .credentials_file import credentials
from .errors import many
from .export_job import tell_shared
from .options import Connection
from .selection import Selection

if TYPE_CHECKING:
    from ..dask import Written

#: Seconds for a scheduler to answer, and for its first worker to be there.
PATIENCE = 10.0
PATIENCE_FOR_WORKERS = 10.0
_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:\d+")


@dataclass(frozen=True)
class OnCluster:
    """The option to have a Dask cluster do an export."""

    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT",
            help="Have the workers of a running Dask cluster write Parquet parts into the folder of -o, "
            "which all see under the same name. Run again, it skips finished parts. Key and secret are those "
            "of the workers' environment (SLASHTAG_APIKEY, SLASHTAG_APISECRET), never sent to them; "
            "--base-url is.",
            rich_help_panel="On a Dask cluster",
            show_default=False,
        ),
    ] = None


def check(scheduler: str, output: Path | None, *, connection: Connection, refused: dict[str, bool]) -> Path:
    """Return the folder to write; raises BadParameter for what does not go with a cluster."""
    if given := [option for option, is_given in refused.items() if is_given]:
        raise typer.BadParameter(f"--scheduler does not go with {', '.join(given)}")
    if connection.rate is not None:
        raise typer.BadParameter("--scheduler does not go with --rate: each worker learns its share")
    if not _ADDRESS.fullmatch(scheduler):
        raise typer.BadParameter(f"--scheduler takes an address such as tcp://host:8786, not {scheduler!r}")
    if output is None:
        raise typer.BadParameter("--scheduler writes a folder of Parquet files: name it with -o")
    if ending_of(output) not in (None, ".parquet"):
        raise typer.BadParameter(f"--scheduler writes a folder of Parquet files, not {output.name}")
    return output


async def run(
    scheduler: str,
    query: DateRange,
    folder: Path,
    selection: Selection,
    connection: Connection,
    timezone: Any,
    range_end: Literal["inclusive", "exclusive"],
) -> None:
    """Have the workers write the clicks of each link, and print how it went."""
    # Not before it is needed: distributed takes a second.
    dask: Any = import_module("..dask", __package__)
    finished = 0
    async with _joined(scheduler, quiet=not connection.verbose) as client:
        sharing = Sharing()
        keys, base_url = await _links(selection, connection, sharing)
        try:
            with connection.bars() as start:
                show = start("parts")

                def progress(done: int, total: int) -> None:
                    nonlocal finished
                    finished = done
                    show(done, total)

                written = await dask.export_clicks(
                    client,
                    keys,
                    query,
                    folder,
                    timezone=timezone,
                    base_url=base_url,
                    progress=progress,
                    session_options={
                        "concurrency": connection.concurrency,
                        "timeout": connection.timeout,
                        "allow_http": connection.allow_http,
                        "range_end": range_end,
                    },
                )
        except asyncio.CancelledError:
            connection.stop(
                f"stopped; run the same command again to go on: {folder} holds the finished parts"
            )
            raise
        except SlashtagError as error:
            if finished:
                error.add_note(
                    f"{folder} holds {many(finished, 'finished part')}; run the same command again to go on"
                )
            raise
    connection.say(_summary(written, folder))
    tell_shared(connection, sharing.count)


async def _links(
    selection: Selection, connection: Connection, sharing: Sharing
) -> tuple[list[Any], str | None]:
    """Return the slashtags, and the base URL for the workers, None for their own."""
    if not (selection.tag or selection.every or selection.check):
        return list(selection.slashtags), connection.base_url
    # Links are listed and checked here, so that all workers mean the same account.
    async with connection.session() as session:
        selected = await selection.streamed(session)
        keys, _ = await list_selection(session, **selected, by="slashtag", merged=False, sharing=sharing)
        return keys or [], credentials(connection.base_url)[0]


@asynccontextmanager
async def _joined(scheduler: str, *, quiet: bool) -> AsyncGenerator[Any, None]:
    """Connect to a cluster that has a worker."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise ConfigurationError('--scheduler needs distributed: pip install "slashtag[dask]"') from None
    with _log_off(quiet):
        client = distributed.Client(scheduler, asynchronous=True, timeout=PATIENCE, set_as_default=False)
        try:
            try:
                await client
            except Exception:
                # Errors of many kinds, as anything may listen there.
                raise ConfigurationError(
                    f"no Dask scheduler answers at {scheduler}: start one with `dask scheduler`, or check "
                    "the address, its port and the firewalls between"
                ) from None
            try:
                await client.wait_for_workers(1, timeout=PATIENCE_FOR_WORKERS)
            except TimeoutError:
                raise ConfigurationError(
                    f"the cluster at {scheduler} has no workers: start some with `dask worker {scheduler}`"
                ) from None
            yield client
        finally:
            await client.close()


@contextmanager
def _log_off(quiet: bool) -> Generator[None, None, None]:
    """Keep the log of distributed off the terminal: what matters is raised."""
    log = logging.getLogger("distributed")
    before = log.level
    if quiet:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _summary(written: "Written", folder: Path) -> str:
    parts = [
        f"{many(written.rows, 'row')} to {folder}; parts: {written.parts:,} written, "
        f"{written.skipped:,} skipped; "
        f"requests: {written.requests:,} sent; {many(written.throttled, 'time')} 429; {written.seconds:.1f} s"
    ]
    if not written.reconciles:
        parts.append(
            "THE DAYS OF SOME WINDOWS are missing or do not add up to the total that the service gave"
        )
    elif written.parts:
        parts.append("the days add up to the totals")
    return "; ".join(parts)
