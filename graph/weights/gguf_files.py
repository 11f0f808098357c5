"""Reads arrays by name out of files of the format GGUF, in which quantised language models are published.

The package `gguf`, an extra, has the block formats and decodes them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any, BinaryIO, Literal, overload

import ml_dtypes
import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UnsupportedError, UserError
from ...promotion.float_modes import default_modes
from .block_quantised import BlockQuantized
from .gguf_blocks import FORMATS, apart
from .gguf_directory import Entry, directory

_PLAIN = {
    "F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "F64": np.dtype(np.float64), "BF16": np.dtype(ml_dtypes.bfloat16),
    "I8": np.dtype(np.int8), "I16": np.dtype(np.int16), "I32": np.dtype(np.int32), "I64": np.dtype(np.int64),
}  # fmt: skip
"""Formats that are dtypes."""


@overload
def load_gguf(
    path: str | os.PathLike[str], names: Iterable[str] | None = None, *, blocks: Literal["dequantize"] = "dequantize"
) -> dict[str, Array]: ...
@overload
def load_gguf(
    path: str | os.PathLike[str], names: Iterable[str] | None = None, *, blocks: Literal["keep"]
) -> dict[str, Array | BlockQuantized]: ...
def load_gguf(
    path: str | os.PathLike[str], names: Iterable[str] | None = None, *, blocks: str = "dequantize"
) -> dict[str, Any]:
    """Return the arrays of a file of the format GGUF by name, read-only.

    Args:
        path: the file.
        names: which arrays to read; by default all of them.
        blocks: what becomes of quantised arrays: "dequantize" makes float32 of them; "keep" makes `jn.BlockQuantized` of
            those in the formats Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K, which are integers with scales, and float32 of
            the others (IQ…, TQ…, MXFP4, NVFP4), which go through tables.

    Floats and integers keep their dtype, bfloat16 included. Where arrays lie is checked before any is read: counts, names,
    offsets that overlap or leave the file. Raises `UserError` for a file that is not well formed, and `UnsupportedError` for
    block formats that the package does not decode. Needs the package `gguf`, an extra: `pip install 'joinery-graph[gguf]'`.
    """
    library = _library()
    if blocks not in ("dequantize", "keep"):
        raise UserError(f"load_gguf: blocks is {blocks!r}; fix: 'dequantize' or 'keep'")
    source = os.fspath(path)
    what = f"load_gguf: {source!r}"
    formats = {int(code): sizes for code, sizes in library.GGML_QUANT_SIZES.items()}
    try:
        if not stat.S_ISREG(os.stat(source).st_mode):  # a pipe would wait for a writer
            raise UserError(f"{what} is no regular file; fix: check the path")
        with open(source, "rb") as stream:
            entries, swapped = directory(stream, what, formats)
            known = {entry.name: entry for entry in entries}
            wanted = list(known) if names is None else list(names)
            missing = sorted({*wanted} - {*known})
            if missing:
                raise UserError(f"{what} has no {missing[0]!r}; it has {', '.join(known)[:200]}; fix: use its names")
            found = {name: _read(library, stream, known[name], what, swapped, blocks == "keep") for name in wanted}
    except OSError as error:
        raise UserError(f"{what} cannot be read ({error.strerror or error}); fix: check the path") from None
    return found


def _library() -> Any:
    """Return the package `gguf`. Raises `UserError` where it is not installed."""
    try:
        import gguf
    except ImportError:
        raise UserError("load_gguf needs the package gguf; fix: pip install 'joinery-graph[gguf]'") from None
    return gguf


def _read(library: Any, stream: BinaryIO, entry: Entry, what: str, swapped: bool, keep: bool) -> Array | BlockQuantized:
    code = library.GGMLQuantizationType(entry.code)
    form, (elements, size) = code.name, library.GGML_QUANT_SIZES[code]
    if swapped and form not in _PLAIN:
        raise UnsupportedError(
            f"{what}: array {entry.name!r} is quantised ({form}) with the highest bytes first; fix: convert the file"
        )
    stream.seek(entry.offset)
    data = stream.read(entry.elements // elements * size)
    if len(data) != entry.elements // elements * size:
        raise UserError(f"{what} changed while it was read; fix: read it again")
    if form in _PLAIN:
        dtype = _PLAIN[form]
        array = np.frombuffer(data, dtype)
        array = (array.byteswap() if swapped else array).reshape(entry.shape)
    elif keep and form in FORMATS:
        return apart(form, np.frombuffer(data, np.uint8).reshape(-1, size), entry.shape)
    else:
        array = _decoded(library, data, entry, what, code)
    array.flags.writeable = False
    return array


def _decoded(library: Any, data: bytes, entry: Entry, what: str, code: Any) -> Array:
    """Return a quantised array as float32, by the package."""
    elements, size = library.GGML_QUANT_SIZES[code]
    rows = (*entry.shape[:-1], entry.shape[-1] // elements * size)
    try:
        if not entry.elements:  # the package makes no array of nothing
            library.quants.dequantize(np.zeros((1, size), np.uint8), code)
            return np.zeros(entry.shape, np.float32)
        with default_modes(), np.errstate(all="ignore"):  # stored scales may be any bits
            found: Array = library.quants.dequantize(np.frombuffer(data, np.uint8).reshape(rows), code)
    except NotImplementedError:
        raise UnsupportedError(
            f"{what}: array {entry.name!r} is quantised as {code.name}, which the package gguf does not decode; "
            "fix: a newer version of it, or another quantisation"
        ) from None
    return found.astype(np.float32, copy=False)
