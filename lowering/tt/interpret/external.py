"""Interprets library functions and inline assembly as they stand, not as they are expanded."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array, NumpyDType
from ...libdevice.reference import evaluate
from ...libdevice.signatures import known_signature
from ...ptx.evaluate import run
from .. import types as t
from ..dialect.external import ElementwiseInlineAsmOp, ExternElementwiseOp, program_of
from ..transforms.inline_asm_text import Slot
from ..types import numpy_dtype


def extern_elementwise(op: Operation) -> Callable[..., Array]:
    """Returns the evaluator of a library function. Raises `UnsupportedError` for an unknown symbol."""
    assert isinstance(op, ExternElementwiseOp)
    signature = known_signature(op.symbol.data)

    def apply(*operands: Array) -> Array:
        found = evaluate(signature, operands)
        return found if found.shape else found[()]

    return apply


def inline_asm(op: Operation) -> Callable[..., Array | tuple[Array, ...]]:
    """Returns the evaluator of inline assembly.

    Elements are taken in row-major order, `packed_element` at a time; a block with fewer is filled up with
    zeros. Raises `UnsupportedError` for unknown instructions.
    """
    assert isinstance(op, ElementwiseInlineAsmOp)
    program = program_of(op)
    instructions = program.instructions()
    packed = op.packed_element.value.data
    shape = t.shape_of(op.results[0].type)
    members = min(packed, t.element_count(op.results[0].type))  # elements of a group; the rest of it is zero
    dtypes = [numpy_dtype(result.type) for result in op.results]

    def apply(*operands: Array) -> Array | tuple[Array, ...]:
        # Inside regions, scalars are arrays, since a region runs on all its elements at once.
        whole = np.broadcast_shapes(shape, *[np.shape(operand) for operand in operands])
        groups = math.prod(whole) // members
        inputs: dict[str, Array] = {}
        for slots, operand in zip(program.operands, operands, strict=True):
            elements = np.zeros((groups, packed), np.uint64)
            elements[:, :members] = _bits_of(np.broadcast_to(operand, whole)).reshape(groups, members)
            _spread(inputs, slots, elements)
        state = run(instructions, program.registers, inputs, groups)
        results = []
        for slots, dtype in zip(program.results, dtypes, strict=True):
            columns = []
            for slot in slots:
                word = state[slot.name].astype(np.uint64) if slot.name in state else np.zeros(groups, np.uint64)
                columns += [word >> np.uint64(slot.bits * i) & np.uint64((1 << slot.bits) - 1) for i in range(slot.count)]
            found = _from_bits(np.stack(columns[:members], axis=1).reshape(whole), dtype)
            results.append(found if whole else found[()])
        return results[0] if len(results) == 1 else tuple(results)

    return apply


def _spread(inputs: dict[str, Array], slots: tuple[Slot, ...], elements: Array) -> None:
    """Packs elements of shape (groups, packed) into registers."""
    index = 0
    for slot in slots:
        word = np.zeros(len(elements), np.uint64)
        for i in range(slot.count):
            word |= elements[:, index] << np.uint64(slot.bits * i)
            index += 1
        inputs[slot.name] = word != 0 if slot.type == "pred" else word


def _bits_of(x: Array) -> Array:
    x = np.ascontiguousarray(x)
    if x.dtype == np.bool_:
        return x.astype(np.uint64)
    return x.view(f"u{x.dtype.itemsize}").astype(np.uint64)


def _from_bits(x: Array, dtype: NumpyDType) -> Array:
    if dtype == np.bool_:
        return np.asarray(x != 0)
    return np.asarray(np.ascontiguousarray(x.astype(f"u{dtype.itemsize}")).view(dtype))
