"""The version of the package, which tells builds apart."""

try:
    # Written by the build.
    from ._built import __version__ as __version__  # type: ignore[import-not-found,unused-ignore] # pyright: ignore
except ImportError:  # run from its sources, without an installation
    __version__ = "0.1.0"
