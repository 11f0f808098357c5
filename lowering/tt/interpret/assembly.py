"""Interprets inline assembly as it stands, not as it is expanded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Operation

from ....promotion.arrays import Array, NumpyDType
from ...ptx.effects import Access
from ...ptx.evaluate import run
from .. import types as t
from ..dialect.external import ElementwiseInlineAsmOp, program_of
from ..transforms.inline_asm_text import Slot
from ..types import numpy_dtype
from .machine import EnvironmentT, Machine, Step, Translator
from .memory import AccessError


def inline_asm(translator: Translator[EnvironmentT], op: Operation) -> Step[EnvironmentT]:
    """Translates inline assembly.

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
    operands, outputs = [translator.slot(each) for each in op.args], [translator.slot(each) for each in op.results]
    pointers, memory = [t.is_pointer(each.type) for each in op.args], translator.machine.memory
    surroundings = _Surroundings(translator.machine)

    def step(env: EnvironmentT) -> None:
        given = [env[slot] for slot in operands]
        given = [memory.to_host(each) if points else each for each, points in zip(given, pointers, strict=True)]
        # Inside regions, scalars are arrays, since a region runs on all its elements at once.
        whole = np.broadcast_shapes(shape, *[np.shape(each) for each in given])
        groups = math.prod(whole) // members
        inputs: dict[str, Array] = {}
        for slots, each in zip(program.operands, given, strict=True):
            elements = np.zeros((groups, packed), np.uint64)
            elements[:, :members] = _bits_of(np.broadcast_to(each, whole)).reshape(groups, members)
            _spread(inputs, slots, elements)
        state = run(instructions, program.registers, inputs, groups, surroundings)
        for output, slots, dtype in zip(outputs, program.results, dtypes, strict=True):
            columns = []
            for slot in slots:
                bits = state[slot.name].astype(np.uint64) if slot.name in state else np.zeros(groups, np.uint64)
                columns += [bits >> np.uint64(slot.bits * i) & np.uint64((1 << slot.bits) - 1) for i in range(slot.count)]
            found = _from_bits(np.stack(columns[:members], axis=1), dtype).reshape(whole)
            env[output] = found if whole else found[()]

    return step


class _Surroundings:
    """Memory and special registers as inline assembly sees them in the interpreter, where one worker runs all programs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def special(self, name: str) -> int:
        match name:
            case "%globaltimer" | "%clock64":
                return time.monotonic_ns()
            case "%globaltimer_lo" | "%clock":
                return time.monotonic_ns() & 0xFFFFFFFF
            case "%globaltimer_hi" | "%clock_hi":
                return time.monotonic_ns() >> 32
            case "%smid":
                return 0
            case "%nsmid":
                return 1
        what, axis = name.split(".")
        return int((self._machine.program if what == "%ctaid" else self._machine.grid)["xyz".index(axis)])

    def access(self, d: Access, addresses: Array, values: Sequence[Array], where: Array | None) -> Sequence[Array]:
        memory, dtype = self._machine.memory, _DTYPES[d.type]
        addresses = memory.from_host(addresses, nearest=True)
        if d.opcode in ("atom", "red"):
            return [self._update(d, addresses, values, where, dtype)]
        whole = d.count * dtype.itemsize
        if d.count > 1 and (addresses[... if where is None else where] % whole).any():
            raise AccessError(f"{d.spelling}: an address is no multiple of {whole}, the bytes of the vector")
        parts = [addresses + np.int64(index * dtype.itemsize) for index in range(d.count)]
        if d.opcode == "st":
            for part, value in zip(parts, values, strict=True):
                memory.store(part, _from_bits(value, dtype), where)
            return ()
        return [_bits_of(memory.load(part, where, dtype, 0)) for part in parts]

    def _update(
        self, d: Access, addresses: Array, values: Sequence[Array], where: Array | None, dtype: NumpyDType
    ) -> Array:
        """Updates memory lane by lane, since several may have one address; returns the bits that were there."""
        memory, old = self._machine.memory, np.zeros(len(addresses), np.uint64)
        operands = [_from_bits(value, dtype) for value in values]
        for lane in np.flatnonzero(np.ones(len(addresses), np.bool_) if where is None else where):
            at = addresses[lane : lane + 1]
            found = memory.load(at, None, dtype, 0, "written")
            given = [operand[lane : lane + 1] for operand in operands]
            memory.store(at, np.asarray(_COMBINE[d.operation](found, *given)).astype(dtype), None)
            old[lane] = _bits_of(found)[0]
        return old


_DTYPES: dict[str, NumpyDType] = {
    **{f"{kind}{8 * size}": np.dtype(f"{'i' if kind == 's' else 'u'}{size}") for kind in "bus" for size in (1, 2, 4, 8)},
    **{str(type_): numpy_dtype(type_) for type_ in (t.F16, t.BF16, t.F32, t.F64)},
}
_COMBINE: dict[str, Callable[..., Array]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "max": np.maximum, "min": np.minimum,
    "exch": lambda old, value: value, "cas": lambda old, expected, value: value if old[0] == expected[0] else old,
}  # fmt: skip


def _spread(inputs: dict[str, Array], slots: tuple[Slot, ...], elements: Array) -> None:
    """Packs elements of shape (groups, packed) into registers."""
    index = 0
    for slot in slots:
        bits = np.zeros(len(elements), np.uint64)
        for i in range(slot.count):
            bits |= elements[:, index] << np.uint64(slot.bits * i)
            index += 1
        inputs[slot.name] = bits != 0 if slot.type == "pred" else bits


def _bits_of(x: Array) -> Array:
    x = np.ascontiguousarray(x)
    if x.dtype == np.bool_:
        return x.astype(np.uint64)
    return x.view(f"u{x.dtype.itemsize}").astype(np.uint64)


def _from_bits(x: Array, dtype: NumpyDType) -> Array:
    if dtype == np.bool_:
        return np.asarray(x != 0)
    return np.asarray(np.ascontiguousarray(x.astype(f"u{dtype.itemsize}")).view(dtype))
