"""Objects in buckets, which appear whole or not at all."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from .. import ExportError
from .._internal import writing_to


@contextmanager
def _reaching(url: str, then: str = "") -> Generator[None, None, None]:
    """Raise whatever a bucket's library raises as ExportError."""
    try:
        yield
    except ImportError:
        extra = url.partition(":")[0]
        raise ExportError(f'{extra}:// needs more packages: pip install "slashtag[{extra}]"') from None
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ExportError(f"{url} cannot be written: {reason}{then}") from None


class ObjectFile(AbstractContextManager["ObjectFile"]):
    """Binary file that is written on this machine and becomes an object in a bucket once complete.

    The credentials are those of the environment, as s3fs, gcsfs and adlfs find them. Raises ExportError at
    once where the package is missing or there is no such bucket. If the object cannot be written in the end,
    the file stays on this machine, and the error names it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        with _reaching(url):
            self._system, self._target = import_module("fsspec").core.url_to_fs(url)
            bucket = self._target.partition("/")[0]
            if not self._system.exists(bucket):
                raise FileNotFoundError(f"check the bucket {bucket}, the credentials and the address")
        self._file: Any = NamedTemporaryFile(prefix="slashtag-", suffix=Path(url).suffix, delete=False)  # noqa: SIM115

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        (self.commit if error is None else self.discard)()

    @property
    def closed(self) -> bool:
        """Whether it was committed or discarded."""
        return bool(self._file.closed)

    def write(self, data: bytes, /) -> int:
        """Write bytes; without effect once discarded."""
        with writing_to(self._file.name):
            return len(data) if self.closed else self._file.write(data)

    def flush(self) -> None:
        """Do nothing, as `commit` flushes."""

    def commit(self) -> None:
        """Write the object; raises ExportError where that fails."""
        self._file.close()
        with _reaching(self.url, f"; the whole file is kept at {self._file.name}"):
            self._system.put_file(self._file.name, self._target)
        Path(self._file.name).unlink()

    def discard(self) -> None:
        """Remove what was written; safe to repeat."""
        if not self.closed:
            self._file.close()
            Path(self._file.name).unlink()
