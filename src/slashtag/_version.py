"""The version of the package, which tells builds apart."""

from importlib import import_module

try:
    __version__: str = import_module("._built", __package__).__version__  # written by the build
except (ImportError, AttributeError):  # run from its sources; or another installation is writing it
    __version__ = "0.1.0"
