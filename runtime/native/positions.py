"""Loads the loop that finds what is not 0 (`positions.ll`), 32 bytes at a time."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array
from .library import ObjectStore, cached_object, template
from .linking import link

_BYTES = 4
"""Bytes of the bits of 32 elements."""


def positions_text() -> str:
    """Returns the LLVM IR of the loop."""
    lines: list[str] = []
    for number in range(_BYTES):
        before = "%t" if number == 0 else f"%t.b{number - 1}"
        lines += [
            f"  %h{number} = lshr i32 %bits, {8 * number}",
            f"  %i{number} = trunc i32 %h{number} to i8",
            f"  %e{number} = zext i8 %i{number} to i64",
            f"  %a{number} = getelementptr <8 x i8>, ptr %table, i64 %e{number}",
            f"  %k{number} = load <8 x i8>, ptr %a{number}, align 8",
            f"  %w{number} = zext <8 x i8> %k{number} to <8 x i64>",
            f"  %o{number} = add i64 %c, {8 * number}",
            f"  %f{number} = insertelement <8 x i64> poison, i64 %o{number}, i32 0",
            f"  %g{number} = shufflevector <8 x i64> %f{number}, <8 x i64> poison, <8 x i32> zeroinitializer",
            f"  %n{number} = add <8 x i64> %w{number}, %g{number}",
            f"  %d{number} = getelementptr i64, ptr %positions, i64 {before}",
            f"  store <8 x i64> %n{number}, ptr %d{number}, align 8",
            f"  %u{number} = call i8 @llvm.ctpop.i8(i8 %i{number})",
            f"  %m{number} = zext i8 %u{number} to i64",
            f"  %t.b{number} = add i64 {before}, %m{number}",
        ]
    return template("positions", {"TOGETHER": "\n".join(lines), "LAST": f"b{_BYTES - 1}"})


def _table() -> Array:
    """Returns the positions of the bits of each byte, and zeros after them."""
    found = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        bits = [bit for bit in range(8) if byte >> bit & 1]
        found[byte, : len(bits)] = bits
    return found


def load_positions(store: ObjectStore | None = None) -> Callable[[Array], Array]:
    """Links the loop and returns `numpy.nonzero` of truth values that have an axis, as an int64 array of a row per axis."""
    code = link([cached_object("positions", positions_text(), store)], ("jn_positions",), {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    pointer, int64 = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(None, pointer, int64, int64, pointer, int64, pointer, pointer)(code["jn_positions"])
    table = _table()

    def positions(holds: Array) -> Array:
        holds = np.ascontiguousarray(holds)
        *outer, columns = holds.shape
        rows, total = math.prod(outer), int(np.count_nonzero(holds))
        found, counts = np.empty((holds.ndim, total), np.int64), np.zeros(rows, np.int64)
        if total:
            run(holds.ctypes.data, rows, columns, found[-1].ctypes.data, total, counts.ctypes.data, table.ctypes.data)
        for axis, extent in enumerate(outer):
            own = np.arange(extent).repeat(math.prod(outer[axis + 1 :]))
            found[axis] = np.tile(own, math.prod(outer[:axis])).repeat(counts)
        return found

    return positions
