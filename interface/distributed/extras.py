"""Imports the libraries of extras, with an error that names the extra where one is missing."""

from __future__ import annotations

import importlib
from typing import Any

from ...promotion.errors import UnsupportedError

_EXTRAS = {
    "dask": "dask", "dask.array": "dask", "distributed": "dask", "zarr": "dask", "pyarrow": "dask", "pyarrow.parquet": "dask",
    "xarray": "dask", "ray": "ray",
}  # fmt: skip


def required(module: str, what: str) -> Any:
    """Return a module of a library that an extra brings.

    what: the function or option that needs it, for the message. Raises `UnsupportedError` where it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise UnsupportedError(
            f"{what}: {library} cannot be imported ({error}); fix: pip install 'joinery-graph[{_EXTRAS[module]}]'"
        ) from error
