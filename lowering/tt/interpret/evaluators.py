"""Defines one evaluator per operation without regions: (operation, memory) -> a function of the operands'
NumPy values.

What can be decided once (element types, shapes, predicates) is decided when the evaluator is made, not when
it runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation

from ....promotion.arrays import Array, NumpyDType
from ....promotion.errors import UserError
from .. import types as t
from ..analysis.distances import moves_by_distance
from ..constants import block_values, is_splat, scalar_value, splat_value
from ..dialect.arith import FLOAT_PREDICATES, INTEGER_PREDICATES
from ..dialect.attributes import ROUNDING_MODES, case_name, property_number
from ..dialect.compute import FftOp
from ..dialect.memory.atomics import RMW_OPERATIONS
from ..types import numpy_dtype
from .external import extern_elementwise
from .matrix_product import product
from .memory import AccessError, Memory, Scalar
from .microscaling import scaled_product
from .numerics import (
    ELEMENTARY,
    FLOAT,
    FLOAT_RELATIONS,
    SIGNED,
    UNSIGNED,
    as_integer,
    clamp,
    convert_float,
    float_to_integer,
    integer_power,
    integer_relation,
    integer_to_float,
    is_wide,
    low_bits,
    round_float,
    signed,
    unsigned,
)
from .waiting import atomic_poll

Evaluator = Callable[..., Any]
Maker = Callable[[Operation, Memory], Evaluator]

_POISON_BYTE = 0x5A


def _result(op: Operation) -> Attribute:
    return op.results[0].type


# Elementwise operations


def _integer_function(name: str) -> Maker:
    function, view = (SIGNED[name], signed) if name in SIGNED else (UNSIGNED[name], unsigned)

    def make(op: Operation, memory: Memory) -> Evaluator:
        dtype = numpy_dtype(_result(op))
        if dtype != np.bool_ and view is signed:
            return function
        return lambda *operands: as_integer(function(*map(view, operands)), dtype)

    return make


def _float_function(name: str) -> Maker:
    elementary = name in ELEMENTARY
    function = ELEMENTARY[name] if elementary else FLOAT[name]

    def make(op: Operation, memory: Memory) -> Evaluator:
        dtype = numpy_dtype(_result(op))
        return _in_float(function, dtype, np.dtype(np.float64) if elementary else None)

    return make


def _in_float(function: Evaluator, dtype: NumpyDType, wider: NumpyDType | None = None) -> Evaluator:
    """Makes `function` compute in float32 for narrow types (in `wider` if given, rounded to float32 on the
    way) and round to `dtype`."""
    if is_wide(dtype) and (
        wider is None or wider == dtype
    ):  # a dtype equals None: never write `in (None, …)`
        return function
    if wider is None:
        return lambda *xs: function(*[np.asarray(x).astype(np.float32) for x in xs]).astype(dtype)
    middle = dtype if is_wide(dtype) else np.dtype(np.float32)
    return lambda *xs: (
        np.asarray(function(*[np.asarray(x).astype(wider) for x in xs]))
        .astype(middle)
        .astype(dtype, copy=False)
    )


def _compare_integers(op: Operation, memory: Memory) -> Evaluator:
    return integer_relation(INTEGER_PREDICATES[property_number(op, "predicate")])


def _compare_floats(op: Operation, memory: Memory) -> Evaluator:
    function = FLOAT_RELATIONS[FLOAT_PREDICATES[property_number(op, "predicate")]]
    if is_wide(numpy_dtype(op.operands[0].type)):
        return function
    return lambda x, y: function(np.asarray(x).astype(np.float32), np.asarray(y).astype(np.float32))


def _wide_integers(function: Callable[[Array, Array], Array], view: Evaluator) -> Maker:
    """Makes evaluators that return the low half of a function of unbounded integers, and the bits above
    it."""

    def make(op: Operation, memory: Memory) -> Evaluator:
        dtype, high, width = numpy_dtype(_result(op)), numpy_dtype(op.results[1].type), t.bit_width(_result(op))

        def evaluate(x: Array, y: Array) -> tuple[Array, Array]:
            exact = np.asarray(function(view(x).astype(object), view(y).astype(object)), object)
            return low_bits(exact, dtype), low_bits(exact >> width, high)

        return evaluate

    return make


def _integer_power(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    power = np.frompyfunc(integer_power, 2, 1)
    return lambda x, n: low_bits(np.asarray(power(signed(x).astype(object), signed(n).astype(object)), object), dtype)


def _float_power(op: Operation, memory: Memory) -> Evaluator:
    """Makes the evaluator of math.fpowi. The sign is computed apart: whether an exponent is odd is lost when
    it becomes a float."""
    dtype = numpy_dtype(_result(op))

    def power(x: Array, n: Array) -> Array:
        found = np.float_power(np.abs(x), np.asarray(signed(n)).astype(np.float64))
        return np.where(np.signbit(x) & (np.asarray(n) & 1).astype(np.bool_), -found, found)

    return lambda x, n: _in_float(lambda y: power(y, n), dtype, np.dtype(np.float64))(x)


def _clamp(op: Operation, memory: Memory) -> Evaluator:
    propagate = property_number(op, "propagateNan") != 0
    return _in_float(lambda x, low, high: clamp(x, low, high, propagate), numpy_dtype(_result(op)))


# Casts


def _extend(view: Evaluator) -> Maker:
    def make(op: Operation, memory: Memory) -> Evaluator:
        dtype = numpy_dtype(_result(op))
        unsigned_dtype = np.dtype(f"u{dtype.itemsize}")
        if view is signed:
            return lambda x: signed(x).astype(dtype)
        return lambda x: unsigned(x).astype(unsigned_dtype).view(dtype)

    return make


def _truncate(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    return lambda x: as_integer(x, dtype)


def _resize_float(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    source = numpy_dtype(op.operands[0].type)
    if is_wide(source):
        return lambda x: round_float(x, dtype)
    return lambda x: np.asarray(x).astype(np.float32).astype(dtype)


def _convert_float(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    rounding = op.properties.get("rounding")
    toward_zero = rounding is not None and property_number(op, "rounding") == ROUNDING_MODES["rtz"]
    return lambda x: convert_float(x, dtype, toward_zero)


def _from_integer(is_signed: bool) -> Maker:
    def make(op: Operation, memory: Memory) -> Evaluator:
        dtype = numpy_dtype(_result(op))
        return lambda x: integer_to_float(x, dtype, is_signed)

    return make


def _to_integer(is_signed: bool) -> Maker:
    def make(op: Operation, memory: Memory) -> Evaluator:
        dtype = numpy_dtype(_result(op))
        return lambda x: float_to_integer(x, dtype, is_signed)

    return make


def _bitcast(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    return lambda x: np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype)


def _pointer_to_integer(op: Operation, memory: Memory) -> Evaluator:
    return memory.to_host


def _integer_to_pointer(op: Operation, memory: Memory) -> Evaluator:
    return memory.from_host


# Sources and shapes


def _constant(op: Operation, memory: Memory) -> Evaluator:
    attr = op.properties["value"]
    type_ = _result(op)
    dtype = numpy_dtype(type_)
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        value: Array = dtype.type(scalar_value(attr))
    elif is_splat(attr):
        value = np.full(t.shape_of(type_), splat_value(attr), dtype)
    else:
        value = np.array(block_values(attr), dtype).reshape(t.shape_of(type_))
    return lambda: value


def _poison(op: Operation, memory: Memory) -> Evaluator:
    type_ = _result(op)
    value = np.broadcast_to(poison(numpy_dtype(type_)), t.shape_of(type_))
    return lambda: value


def poison(dtype: NumpyDType) -> Scalar:
    """Returns the value that undefined values hold: NaN, or a conspicuous integer."""
    if dtype == np.bool_:
        return np.True_
    if dtype.kind == "i":
        found: Scalar = np.frombuffer(bytes([_POISON_BYTE] * dtype.itemsize), dtype)[0]
        return found
    return np.asarray(np.nan).astype(dtype)[()]


def _make_range(op: Operation, memory: Memory) -> Evaluator:
    value = np.arange(property_number(op, "start"), property_number(op, "end"), dtype=np.int32)
    return lambda: value


def _splat(op: Operation, memory: Memory) -> Evaluator:
    shape = t.shape_of(_result(op))
    return lambda x: np.broadcast_to(x, shape)


def _reshape(op: Operation, memory: Memory) -> Evaluator:
    shape = t.shape_of(_result(op))
    return lambda x: x.reshape(shape)


def _transpose(op: Operation, memory: Memory) -> Evaluator:
    order = op.properties["order"].get_values()  # type: ignore[attr-defined]
    return lambda x: x.transpose(order)


def _gather(op: Operation, memory: Memory) -> Evaluator:
    axis = property_number(op, "axis")
    extent = t.shape_of(op.operands[0].type)[axis]

    def evaluate(x: Array, indices: Array) -> Array:
        outside = (indices < 0) | (indices >= extent)
        if outside.any():
            raise AccessError(f"index {int(indices[outside][0])} lies outside axis {axis}, which has {extent} elements")
        return np.take_along_axis(x, indices.astype(np.int64), axis)

    return evaluate


# Memory


def _add_pointer(op: Operation, memory: Memory) -> Evaluator:
    size = t.pointee_size(_result(op))
    if moves_by_distance(op):  # the memory that it leads to has another place here than on the host
        return lambda pointer, offset: memory.from_host(memory.to_host(pointer) + signed(offset).astype(np.int64) * size)
    return lambda pointer, offset: pointer + signed(offset).astype(np.int64) * size


def _load(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    stored = np.dtype(np.uint8) if dtype == np.bool_ else dtype
    nothing, is_address = poison(dtype), t.is_pointer(_result(op))

    def run(pointer: Array, mask: Array | None = None, other: Scalar = nothing) -> Array:
        value = memory.load(pointer, None if mask is None else np.asarray(mask), stored, other)
        if is_address:
            return memory.from_host(value)
        return value != 0 if dtype == np.bool_ else value

    return run


def _store(op: Operation, memory: Memory) -> Evaluator:
    is_address = t.is_pointer(op.operands[1].type)

    def run(pointer: Array, value: Array, mask: Array | None = None) -> None:
        value = memory.to_host(value) if is_address else np.asarray(value)
        if value.dtype == np.bool_:
            value = value.astype(np.uint8)
        memory.store(pointer, value, None if mask is None else np.asarray(mask))

    return run


_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "fadd": np.add, "max": np.maximum,
    "min": np.minimum, "exch": lambda old, value: value,
    "umax": lambda old, value: np.maximum(unsigned(old), unsigned(value)).view(old.dtype),
    "umin": lambda old, value: np.minimum(unsigned(old), unsigned(value)).view(old.dtype),
}  # fmt: skip


def _atomic(update: Callable[[Operation], Callable[..., Array]], values: int) -> Callable[[Operation, Memory], Evaluator]:
    """Makes evaluators that update lane by lane in row-major order; masked lanes give zero. After the values
    there may be a mask."""

    def evaluator(op: Operation, memory: Memory) -> Evaluator:
        combine = update(op)
        dtype = numpy_dtype(_result(op))

        def run(pointer: Array, *operands: Array) -> Array:
            addresses = np.asarray(pointer)
            lanes = [np.broadcast_to(np.asarray(operand), addresses.shape).reshape(-1) for operand in operands]
            mask = lanes[values] if len(lanes) > values else np.ones(addresses.size, np.bool_)
            old = np.zeros(addresses.size, dtype)
            for lane in np.flatnonzero(mask):
                at = addresses.reshape(-1)[lane : lane + 1]
                found = memory.load(at, None, dtype, 0, "written")
                old[lane] = found[0]
                written = combine(found, *[value[lane : lane + 1] for value in lanes[:values]])
                memory.store(at, written.astype(dtype), None)
            return old.reshape(addresses.shape) if addresses.shape else old[0]

        return run

    return evaluator


def _read_modify_write(op: Operation) -> Callable[..., Array]:
    return _COMBINE[case_name(RMW_OPERATIONS, op.properties["atomic_rmw_op"])]


def _compare_and_swap(op: Operation) -> Callable[..., Array]:
    def combine(old: Array, expected: Array, value: Array) -> Array:
        bits = f"u{old.dtype.itemsize}"
        return value if old.view(bits)[0] == expected.view(bits)[0] else old

    return combine


def _atomic_load(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(_result(op))
    return lambda pointer, mask=None: memory.load(pointer, None if mask is None else np.asarray(mask), dtype, 0)


def _histogram(op: Operation, memory: Memory) -> Evaluator:
    (bins,) = t.shape_of(_result(op))
    dtype = numpy_dtype(_result(op))

    def run(values: Array, mask: Array | bool = True) -> Array:
        counted = values[(values >= 0) & (values < bins) & mask]
        return np.bincount(counted.astype(np.int64), minlength=bins).astype(dtype)

    return run


def _sort(op: Operation, memory: Memory) -> Evaluator:
    axis = property_number(op, "axis")
    return lambda x: as_integer(np.sort(signed(x), axis), numpy_dtype(_result(op)))


_MAX_SORTED = 1 << 48
"""More elements than addresses: sums of an address and their bytes fit 64 bits."""


def _sort_lines(op: Operation, memory: Memory) -> Evaluator:
    dtype = numpy_dtype(t.value_type(op.operands[0].type))

    def run(pointer: Array, lines: Scalar, count: Scalar) -> None:
        total = int(lines) * int(count)
        if min(int(lines), int(count)) < 0 or total > _MAX_SORTED:
            raise UserError(f"tt.sort_lines: {lines} lines of {count} elements; fix: sizes of an array in memory, 0 or more")
        if total:
            memory.load(np.asarray(pointer) + (total - 1) * dtype.itemsize, None, dtype, 0)  # before as many addresses are made
            where = np.asarray(pointer) + np.arange(total) * dtype.itemsize
            found = np.sort(signed(memory.load(where, None, dtype, 0)).reshape(int(lines), int(count)), -1)
            memory.store(where, as_integer(found.reshape(-1), dtype), None)

    return run


def _fft(op: Operation, memory: Memory) -> Evaluator:
    """Transforms in float64 and rounds once."""
    assert isinstance(op, FftOp)
    axis, length, kind = op.axis.value.data, op.length.value.data, op.kind.data

    dtype = np.complex128 if op.is_of_parts else np.complex64

    def evaluate(x: Array) -> Array:
        lines = np.moveaxis(np.asarray(x), axis, -1).copy()
        wide = lines.view(dtype).astype(np.complex128)
        lines.view(np.uint8)[...] = _POISON_BYTE
        numbers = lines.view(dtype)
        if kind == "real":
            numbers[..., : length + 1] = np.fft.rfft(np.ascontiguousarray(wide[..., :length]).view(np.float64))
        elif kind == "real_inverse":
            real = np.fft.irfft(wide[..., : length + 1], 2 * length) * (2 * length)
            numbers[..., :length] = np.ascontiguousarray(real).view(np.complex128)
        elif kind == "forward":
            numbers[..., :length] = np.fft.fft(wide[..., :length])
        else:
            numbers[..., :length] = np.fft.ifft(wide[..., :length]) * length
        return np.ascontiguousarray(np.moveaxis(lines, -1, axis))

    return evaluate


_NOTHING = ("ttg.barrier", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents")

EVALUATORS: dict[str, Maker] = {
    **{name: _integer_function(name) for name in (*SIGNED, *UNSIGNED)},
    **{name: _float_function(name) for name in (*FLOAT, *ELEMENTARY)},
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": lambda op, memory: np.where,
    "arith.addui_extended": _wide_integers(operator.add, unsigned),
    "arith.mului_extended": _wide_integers(operator.mul, unsigned),
    "arith.mulsi_extended": _wide_integers(operator.mul, signed),
    "math.ipowi": _integer_power,
    "math.fpowi": _float_power,
    "arith.index_cast": lambda op, memory: lambda x: as_integer(signed(x), numpy_dtype(_result(op))),
    "arith.extsi": _extend(signed),
    "arith.extui": _extend(unsigned),
    "arith.trunci": _truncate,
    "arith.extf": _resize_float,
    "arith.truncf": _resize_float,
    "arith.sitofp": _from_integer(True),
    "arith.uitofp": _from_integer(False),
    "arith.fptosi": _to_integer(True),
    "arith.fptoui": _to_integer(False),
    "arith.bitcast": _bitcast,
    "arith.constant": _constant,
    "ub.poison": _poison,
    "tt.make_range": _make_range,
    "tt.splat": _splat,
    "tt.broadcast": _splat,
    "tt.unsplat": lambda op, memory: lambda x: x.reshape(-1)[0],
    "tt.expand_dims": _reshape,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
    "tt.join": lambda op, memory: lambda a, b: np.stack([a, b], axis=-1),
    "tt.split": lambda op, memory: lambda x: (x[..., 0], x[..., 1]),
    "tt.cat": lambda op, memory: lambda a, b: np.concatenate([a, b]),
    "tt.gather": _gather,
    "tt.addptr": _add_pointer,
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic(_read_modify_write, 1),
    "tt.atomic_cas": _atomic(_compare_and_swap, 2),
    "tt.atomic_load": _atomic_load,
    "tt.atomic_store": _store,
    "tt.atomic_poll": atomic_poll,
    "tt.histogram": _histogram,
    "tt.sort": _sort,
    "tt.sort_lines": _sort_lines,
    "tt.fft": _fft,
    "tt.extern_elementwise": lambda op, memory: extern_elementwise(op),
    "llvm.intr.assume": lambda op, memory: lambda condition: None,
    **dict.fromkeys(_NOTHING, lambda op, memory: lambda: None),
    "tt.bitcast": _bitcast,
    "tt.ptr_to_int": _pointer_to_integer,
    "tt.int_to_ptr": _integer_to_pointer,
    "tt.fp_to_fp": _convert_float,
    "tt.clampf": _clamp,
    "tt.dot": product,
    "tt.dot_scaled": scaled_product,
}
