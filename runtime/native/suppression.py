"""Loads the loop of non-maximum suppression (`suppress.ll`), which compares a box with sixteen others at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable

import numpy as np

from ...promotion.arrays import Array
from .library import ObjectStore, cached_object, template
from .linking import link

_WIDTH = 16
_VALUES = 5
Suppress = Callable[[Array, Iterable[Array], int, float], Array]


def suppression_text() -> str:
    """Returns the LLVM IR of the loop."""
    read, kept, store = [], [], []
    vector = "<16 x float>"
    for number in range(_VALUES):
        read += [
            f"  %at{number} = add i64 %box, {'0' if number == 0 else f'%row{number}'}",
            f"  %p{number} = getelementptr float, ptr %boxes, i64 %at{number}",
            f"  %v{number} = load float, ptr %p{number}, align 4",
            f"  %s{number} = insertelement {vector} poison, float %v{number}, i32 0",
            f"  %b{number} = shufflevector {vector} %s{number}, {vector} poison, <16 x i32> zeroinitializer",
        ]
        if number:
            read.insert(0, f"  %row{number} = mul i64 %total, {number}")
        kept += [
            f"  %kr{number} = mul i64 %room, {number}",
            f"  %ka{number} = add i64 %kr{number}, %j",
            f"  %kp{number} = getelementptr float, ptr %kept, i64 %ka{number}",
            f"  %k{number} = load {vector}, ptr %kp{number}, align 4",
        ]
        store += [
            f"  %sr{number} = mul i64 %room, {number}",
            f"  %sa{number} = add i64 %sr{number}, %t",
            f"  %sp{number} = getelementptr float, ptr %kept, i64 %sa{number}",
            f"  store float %v{number}, ptr %sp{number}, align 4",
        ]
    return template("suppress", {"READ": "\n".join(read), "KEPT": "\n".join(kept), "STORE": "\n".join(store)})


def load_suppression(store: ObjectStore | None = None) -> Suppress:
    """Links the loop and returns a function that suppresses.

    Its arguments are boxes (5, n) in float32 (low and high corners, areas), arrays of candidates in order, how many boxes are
    taken at most, and the part of a union above which boxes overlap.
    """
    code = link([cached_object("suppress", suppression_text(), store)], ("jn_suppress",), {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    pointer, int64 = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(int64, pointer, int64, pointer, int64, int64, ctypes.c_float, pointer, pointer, int64, int64)(
        code["jn_suppress"]
    )

    def suppress(boxes: Array, candidates: Iterable[Array], limit: int, most: float) -> Array:
        total = boxes.shape[1]
        limit = min(limit, total)
        room = -(-limit // _WIDTH) * _WIDTH
        taken, kept = np.empty(limit, np.int64), np.zeros((_VALUES, room), np.float32)
        boxes, count = np.ascontiguousarray(boxes, np.float32), 0
        for each in candidates:
            order = np.ascontiguousarray(each, np.int64)
            pointers = [array.ctypes.data for array in (boxes, order, taken, kept)]
            count = run(pointers[0], total, pointers[1], order.size, limit, most, pointers[2], pointers[3], room, count)
            if count >= limit:  # before others are put in order
                break
        return taken[:count]

    return suppress
