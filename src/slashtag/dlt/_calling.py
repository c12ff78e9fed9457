"""Calls of dlt: with settings of ours, and errors that say what failed and what to do."""

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from tempfile import gettempdir
from typing import Any

import dlt
from dlt.common.configuration.container import Container
from dlt.common.configuration.exceptions import ConfigFieldMissingException
from dlt.common.configuration.providers import DictionaryProvider
from dlt.common.configuration.specs.pluggable_run_context import PluggableRunContext
from dlt.common.runtime.telemetry import stop_telemetry

from .. import ConfigurationError, ExportError, SlashtagError
from ._files import whole_files

#: Errors that a load raises as they are.
_OWN = (SlashtagError, KeyboardInterrupt)
_FULL = re.compile("no space left|disk( is|) full|quota exceeded|could not extend file", re.IGNORECASE)
#: What drivers may quote of a connection string: what is before its host, where a password may have an @ that
#: was not quoted, and values of settings.
_CREDENTIALS = re.compile(
    r"(?:(?<=://)[^\s\"']+|[^\s\"'(/]+)(?=@[^\s@])"
    r"|(?:(?<=password=)|(?<=secret=)|(?<=token=)|(?<=key=))[^\s&;'\"]+",
    re.IGNORECASE,
)
#: Bytes that are left on a file system that counts as full.
_NOTHING = 2**20
#: What to do, by what the message of a destination says.
_ADVICE = {
    _FULL: "make room there",
    re.compile(
        "could not set lock|conflicting lock", re.IGNORECASE
    ): "close the other program that has it open",
    re.compile("lock timeout|database is locked|deadlock", re.IGNORECASE): (
        "another session has locked its tables: end its transaction (PostgreSQL: see pg_stat_activity)"
    ),
    re.compile("connection refused|could not translate host|timeout expired|connect to", re.IGNORECASE): (
        "check that it runs, and the address in DESTINATION__*__CREDENTIALS"
    ),
    re.compile("password|authentication|credentials|access denied|forbidden|permission", re.IGNORECASE): (
        "check its credentials and what they allow"
    ),
    re.compile("bucket does not exist|NoSuchBucket|container does not exist", re.IGNORECASE): (
        "make the bucket, or correct its name"
    ),
}


@contextmanager
def calling_dlt(destination: str, place: str, folders: Iterable[Path] = ()) -> Generator[None, None, None]:
    """Give dlt settings, unless its configuration has others, for the time of a call, and mend its errors.

    Errors of this library and Ctrl-C are raised as themselves, and others as ExportError, which names the
    `place` (a path, URL or database) or, if a disk is full, that of the `folders` that is on it.
    """
    settings: dict[str, Any] = {
        "runtime": {"dlthub_telemetry": False, "log_level": "CRITICAL"},
        # Otherwise the destination keeps a copy of the rows of the last load.
        "load": {"truncate_staging_dataset": True},
    }
    if destination == "filesystem":
        # Merging into plain files only appends: readers tell rows apart by the load that brought them.
        parquet = {"add_dlt_load_id": True}
        settings["normalize"] = {"loader_file_format": "parquet", "parquet_normalizer": parquet}
    provider = DictionaryProvider()
    providers = Container()[PluggableRunContext].providers.providers
    providers.append(provider)
    try:
        with provider.values(settings), whole_files():
            # dlt may have read its configuration before.
            stop_telemetry()
            dlt.current.run_context().initialize_runtime()
            yield
    except Exception as failed:
        cause: BaseException = failed
        while not isinstance(cause, _OWN) and (deeper := cause.__cause__ or cause.__context__):
            cause = deeper
        if isinstance(cause, _OWN):
            raise cause from None
        # Nothing that shows a credential is chained to an error of ours.
        shown = None if _tells_credentials(failed) else failed
        if isinstance(cause, ImportError):
            extra = {"sqlite": "sqlalchemy", "filesystem": place.partition("://")[0]}.get(
                destination, destination
            )
            package = "slashtag" if destination == "filesystem" else "dlt"
            problem = f'{destination} needs more packages: pip install "{package}[{extra}]"'
            raise ConfigurationError(problem) from shown
        if isinstance(cause, ConfigFieldMissingException):
            variable = f"DESTINATION__{destination.upper()}__CREDENTIALS"
            if place.startswith("s3://"):
                destination, variable = place, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise ConfigurationError(f"{destination} is not configured: set {variable}") from shown
        text = _message(cause, destination, place, folders)
        del cause
        raise ExportError(text) from shown
    finally:
        providers.remove(provider)


def _tells_credentials(error: BaseException | None) -> bool:
    """Return whether the message of an error, or of one that led to it, seems to have a credential."""
    while error is not None:
        if _CREDENTIALS.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _message(cause: BaseException, destination: str, place: str, folders: Iterable[Path]) -> str:
    """Return what failed, where, and what to do."""
    lines = str(cause).strip().splitlines()
    text = _CREDENTIALS.sub("***", (lines[0] if lines else type(cause).__name__).rstrip("."))
    if _FULL.search(text):
        # Such an error mostly names no file: it may be dlt's folder, or that of temporary files.
        full = [str(folder) for folder in (*folders, Path(gettempdir())) if _is_full(folder)]
        place = ", ".join(dict.fromkeys(full)) or place
    if destination != place and place not in text:
        text = f"{text} ({place})"
    advice = next((advice for pattern, advice in _ADVICE.items() if pattern.search(text)), "correct that")
    return f"{destination} failed: {text}; {advice}, and load again: the answers are kept"


def _is_full(folder: Path) -> bool:
    """Return whether next to nothing is left on the file system of a folder."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return disk_usage(folder).free < _NOTHING
