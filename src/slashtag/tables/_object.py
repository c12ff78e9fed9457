"""Files that appear whole or not at all, on this machine or in a bucket."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

from .. import ExportError
from .._files import AtomicFile, object_url

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Generator[AtomicFile, None, None]:
    """Open a file in a `with` block, or a file that becomes an object in a bucket at its end.

    The credentials are those of the environment, as s3fs, gcsfs and adlfs find them. Raises ExportError at
    once where the package is missing or there is no such bucket. If the object cannot be written in the end,
    the file stays on this machine, and the error names it.
    """
    url = object_url(path)
    if url is None:
        with AtomicFile(path) as file:
            yield file
        return
    with _reaching(url):
        import_module(_PACKAGES[url.partition(":")[0]])
        system, target = import_module("fsspec").core.url_to_fs(url)
        bucket = target.partition("/")[0]
        if not system.exists(bucket):
            raise FileNotFoundError(f"check the bucket {bucket}, the credentials and the address")
    folder = Path(mkdtemp(prefix="slashtag-"))
    whole = folder / Path(url).name
    try:
        with AtomicFile(whole) as file:
            yield file
    except BaseException:
        shutil.rmtree(folder)
        raise
    with _reaching(url, f"; the whole file is kept at {whole}"):
        system.put_file(whole, target)
    shutil.rmtree(folder)


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
