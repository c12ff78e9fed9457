"""The version of the package, which tells builds apart."""

from importlib import import_module

try:
    __version__: str = import_module("._built", __package__).__version__  # written by the build
except ImportError:  # run from its sources, without an installation
    __version__ = "0.1.0"
