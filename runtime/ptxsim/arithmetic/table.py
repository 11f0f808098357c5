"""Chooses the code for arithmetic instructions: array code where there is some, else the evaluator of inline
assembly."""

from __future__ import annotations

from functools import partial

import numpy as np

from ....lowering.ptx.evaluate import compute
from ....lowering.ptx.instructions import FLOATS, WIDTHS, Decoded
from ....lowering.ptx.syntax import Pair
from ....promotion.arrays import Array
from ..core.binding import Binding
from ..core.types import UNSIGNED, Mask, Step
from .conversions import convert
from .floats import FLOAT_BUILDERS
from .integers import INTEGERS


def arithmetic(k: Binding, d: Decoded) -> Step:
    """Returns the step of a decoded instruction."""
    step: Step | None = None
    if d.opcode == "cvt":
        step = convert(k, d)
    elif not d.flags & {"cc"} and d.opcode not in ("addc", "subc", "madc"):
        table = FLOAT_BUILDERS if d.types and d.types[0] in FLOATS else INTEGERS
        builder = (
            table.get(d.opcode) or INTEGERS.get(d.opcode)
            if d.opcode in ("mov", "selp")
            else table.get(d.opcode)
        )
        step = builder(k, d) if builder is not None else None
    return step if step is not None else evaluated(k, d)


def evaluated(k: Binding, d: Decoded) -> Step:
    """Builds a step that runs one instruction through the evaluator, for the lanes that execute."""
    sources = []
    for operand, type_ in zip(d.sources, d.source_types, strict=True):
        if type_ == "pred":
            sources.append(k.predicate(operand))
        else:
            array = np.broadcast_to(
                np.asarray(k.source(operand, type_)).view(UNSIGNED[WIDTHS[type_]]), (k.lanes,)
            )
            sources.append(partial(np.asarray, array))
    outs: list[tuple[Array, str]] = []
    for operand, type_ in zip(d.results, d.result_types, strict=True):
        parts = (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)
        outs += [(k.destination(part, type_), type_) for part in parts]
    carry = k.machine.registers.carry
    chained = "cc" in d.flags or d.opcode in ("addc", "subc", "madc")

    def step(mask: Mask) -> None:
        lanes = slice(None) if mask is None else np.flatnonzero(mask)
        values = [source()[lanes] for source in sources]
        bits = [v if v.dtype == np.bool_ else v.astype(np.uint64) for v in values]
        found = compute(d, bits, carry[lanes] if chained else None)
        for (out, type_), value in zip(outs, found, strict=False):
            if type_ != "pred":
                value = value.astype(UNSIGNED[WIDTHS[type_]])
                if out.dtype.kind == "i" or out.dtype.itemsize == value.dtype.itemsize:
                    value = value.view(
                        f"{out.dtype.kind if out.dtype.kind != 'b' else 'u'}{value.dtype.itemsize}"
                    )
            out[lanes] = value
        if len(found) == 3:
            carry[lanes] = found[2]

    return step
