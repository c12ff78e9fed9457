"""Failed requests of an export that goes on without them."""

from pathlib import Path
from typing import Annotated, Self

from typer import Option

from .. import Failure, InvalidRequestError, RequestTimeoutError, SlashtagError, TransportError
from .._internal import many
from ..export import Column, Table, TableFile
from .lines import Lines, one_line
from .run import Run

MaxFailures = Annotated[int, Option(min=0, metavar="N", help="Stop if more requests fail than this.")]
FAILURES = Table(
    (*map(Column, ("slashtag", "tag", "asked", "error")), Column("status", "int"), Column("message"))
)


class Failures:
    """`on_error` callback that writes failures to a file beside the export's, or to stderr without one.

    Raises SlashtagError if more than `most` requests fail, since then no single link is at fault. An error
    to reach the service is raised.
    """

    def __init__(self, lines: Lines, target: Path | None, most: int) -> None:
        if target is not None:
            # A folder may be named by dots alone.
            named = target if target.name else target.resolve()
            target = named.with_name(f"{named.name}.failures.jsonl")
        self._lines = lines
        self._path = target
        self._most = most
        self._file: TableFile | None = None
        self.count = 0

    def __call__(self, failure: Failure) -> None:
        """Record one failure."""
        call, error = failure.call, failure.error
        if isinstance(error, TransportError) and not isinstance(error, RequestTimeoutError):
            raise error
        self.count += 1
        if self.count > self._most:
            stop = SlashtagError(
                f"more than {many(self._most, 'request')} failed, the last one with: {error}"
            )
            stop.add_note("--max-failures sets how many may")
            raise stop
        if self._path is None:
            self._lines.print(f"{call.label}: {error}", label="failed: ", style="bold red")
            return
        self._file = self._file or TableFile(self._path, FAILURES)
        # A slashtag with a comma cannot be requested; it is one key, not two.
        keys = (dict(call.params)["url_keys"],) if isinstance(error, InvalidRequestError) else call.keys
        what = call.label, type(error).__name__, getattr(error, "status", None), one_line(str(error))
        self._file.write((key, call.tag, *what) for key in keys or (None,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Name the file, or after an error remove it; without failures, remove that of an earlier run."""
        if self._file is not None:
            self._file.__exit__(kind, error, trace)
        elif error is None and self._path is not None and self._path.is_file():
            self._path.unlink()

    def conclude(self, run: Run) -> None:
        """Print how many failed, where they are listed and what to do."""
        if self.count:
            where = "" if self._path is None else f", listed in {self._path}"
            text = f"left out: {many(self.count, 'request')} that failed{where}"
            run.say(f"{text}; run the same command again to request them again", failures=self.count)
            run.mark_incomplete()
