"""Interprets tt.atomic_poll."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array
from ....promotion.errors import UnsupportedError
from ..types import numpy_dtype
from .memory import Memory


def atomic_poll(op: Operation, memory: Memory) -> Callable[..., Array]:
    """Returns the evaluator of a poll. Programs run one after the other, so what it reads first is what it
    reads until its timeout."""
    dtype = numpy_dtype(op.operands[1].type)
    has_timeout = len(op.operands) > 2

    def run(pointer: Array, expected: Array, timeout: Array | None = None) -> Array:
        found = memory.load(pointer, None, dtype, 0) == expected
        if not has_timeout and not np.all(found):
            raise UnsupportedError(
                "tt.atomic_poll without a timeout waits for what another program has to write; the interpreter runs programs "
                "one after the other, so the wait would not end; fix: pass a timeout, or launch() the kernel"
            )
        result: Array = found
        return result

    return run
