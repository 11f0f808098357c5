"""Emits one value of a nest's body from its operands, as the op table realises the op for a kind of dtype.

On 16-bit floats, single operations are emitted on the type itself (the back ends round each), and emitters of
several operations compute in float32 and round once. tensor_float32 is float32 that is rounded to 10 mantissa
bits after every operation that can need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import OpResult, SSAValue

from ....graph.ops.table import OPS
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ....promotion.errors import InternalError, UnsupportedError
from ...tt.builder.block_builder import BlockBuilder
from ...tt.dialect.context import operation_class
from ...tt.facts import LARGEST
from ...tt.types import F32
from ..blocks import register_type
from . import activations, powers
from . import arithmetic as a
from .conversions import bitcast, cast, from_memory, round_tensor_float32, to_memory

__all__ = ["Call", "constant", "emit", "from_memory", "to_memory"]


@dataclass(frozen=True, slots=True)
class Call:
    """One op to emit. `literals` holds the Python value of operands that are constants, else None."""

    builder: BlockBuilder
    op: str
    sources: tuple[DType, ...]
    dtype: DType
    attrs: Mapping[str, object]
    literals: tuple[int | float | bool | None, ...]


_INTEGERS = ("int", "uint")
EMITTERS: dict[str, dict[str, a.Emitter]] = {
    "@identity": dict.fromkeys(("bool", *_INTEGERS, "float"), a.identity),
    "@false": dict.fromkeys(("bool", *_INTEGERS), a.false),
    "@not": dict.fromkeys(("bool", *_INTEGERS), a.bitwise_not),
    "@negate": dict.fromkeys(_INTEGERS, a.negate_integer),
    "@sign": {"int": a.sign_signed, "uint": a.sign_unsigned, "float": a.sign_float},
    "@relu": {"int": a.relu_signed, "float": a.relu_float},
    "@sigmoid": {"float": a.sigmoid},
    "@is_nan": {"float": a.is_nan_float},
    "@floor_div": {**dict.fromkeys(_INTEGERS, a.floor_div_integer), "float": a.floor_div_float},
    "@mod": {**dict.fromkeys(_INTEGERS, a.mod_integer), "float": a.mod_float},
    "@trunc_div": {**dict.fromkeys(_INTEGERS, a.trunc_div_integer), "float": a.trunc_div_float},
    "@rem": dict.fromkeys(_INTEGERS, a.rem_integer),
    "@pow": {**dict.fromkeys(_INTEGERS, a.pow_integer), "float": a.pow_float},
    "@exp_shifted": {"float": activations.exp_shifted},
    "@exp_shifted_unchecked": {"float": activations.exp_shifted_unchecked},
    "@where_below": {"float": activations.where_below},
    "@one_unless_below": {"float": activations.one_unless_below},
    "@x_phi": {"float": activations.x_phi},
    "@x_sigmoid": {"float": activations.x_sigmoid},
    "@x_sigmoid_quick": {"float": activations.x_sigmoid_quick},
    "@x_sigmoid_tanh": {"float": activations.x_sigmoid_tanh},
    "@div_approximate": {"float": a.div_approximate},
    "@atan_ratio": {"float": activations.atan_ratio},
    "@cbrt": {"float": activations.cbrt},
    "@shift_left": dict.fromkeys(_INTEGERS, a.shift_left),
    "@sum_of_four": {"int": a.sum_of_four},
    "@shift_right": dict.fromkeys(_INTEGERS, a.shift_right),
}
"""Emitters by the name that the op table gives them and the kind of the operands."""
_CONVERSIONS = ("@cast", "@bitcast")
"""Emitters of `conversions.py`, which see the result's dtype as well."""

_WIDENED = frozenset((
    "@sigmoid", "@floor_div", "@mod", "@trunc_div",
    "@exp_shifted", "@exp_shifted_unchecked", "@x_phi", "@x_sigmoid", "@x_sigmoid_quick", "@x_sigmoid_tanh",
    "@atan_ratio", "@cbrt",
))  # fmt: skip
"""Emitters that round more than once: on 16-bit operands they compute in float32."""

_EXACT = frozenset(
    ("where", "maximum", "minimum", "relu", "negate", "abs", "sign", "floor", "ceil", "round", "trunc", "rem")
)
"""Ops whose results of tensor_float32 operands are tensor_float32 already."""


def emit(call: Call, operands: Sequence[SSAValue]) -> SSAValue:
    """Emits the op on operands of one shape; its value has that shape and the register type of the call's
    dtype.

    Raises `UnsupportedError` when the op table has no realisation for the operands' kind.
    """
    b, sources = call.builder, call.sources
    if call.op == "cast":
        rounding, saturate = str(call.attrs.get("rounding", "nearest")), bool(call.attrs.get("saturate", True))
        return cast(b, operands[0], sources[0], call.dtype, rounding, saturate)
    if call.op == "bitcast":
        return bitcast(b, operands[0], sources[0], call.dtype)
    if call.op == "where":  # moves values: any dtype will do
        return b.select(*operands)
    text = _realisation(call)
    if call.op == "sum_of_four":
        return a.sum_of_four(b, operands, sources[0], int(str(call.attrs["k"])))
    known = _with_known_number(call, operands) if call.op == "pow" else None
    result = known if known is not None else _emit_text(call, text, operands)
    if call.dtype.name == "tensor_float32" and call.op not in _EXACT:
        result = round_tensor_float32(b, result)
    if call.op == "mul_bounded":
        assert isinstance(result, OpResult)
        result.op.attributes[LARGEST] = IntegerAttr(int(str(call.attrs["exponent"])), i32)
    return result


def _realisation(call: Call) -> str:
    row = OPS.get(call.op)
    if row is None or row.kind != "map":
        raise InternalError(f"tile: {call.op!r} is no elementwise op")
    dtype = call.sources[0]
    text = row.emit.get(dtype.kind, "") if dtype.has_arithmetic else ""
    if not text:
        raise UnsupportedError(f"tile: {call.op} of {dtype}")
    return text


@cache
def require_realisation(op: str, text: str) -> None:
    """Refuse a text of the op table that names neither an operation of the block IR nor an emitter."""
    where, name = f"the row {op} of graph/ops/elementwise.py", text.partition(" ")[0]
    if text.startswith("@"):
        if text not in EMITTERS and text not in _CONVERSIONS:
            raise InternalError(
                f"tile: {where} names {text}, which is no emitter; fix: name it in EMITTERS of lowering/tile/elements/scalar.py"
            )
    elif operation_class(name) is None:
        raise InternalError(
            f"tile: {where} names {name}, which the block IR does not have; fix: name an emitter, such as "
            f'"@{op}", and write it in lowering/tile/elements/ (docs/extending.md)'
        )


def _emit_text(call: Call, text: str, operands: Sequence[SSAValue]) -> SSAValue:
    b, dtype = call.builder, call.sources[0]
    require_realisation(call.op, text)
    if text.startswith("@"):
        emitter = EMITTERS.get(text, {}).get(dtype.kind)
        if emitter is None:
            raise UnsupportedError(f"tile: {call.op} of {dtype}: no emitter {text} for kind {dtype.kind!r}")
        if text in _WIDENED and dtype.name in ("float16", "bfloat16"):
            wide = emitter(b, [b.cast("arith.extf", operand, F32) for operand in operands], dtype)
            return b.cast("arith.truncf", wide, register_type(call.dtype))
        return emitter(b, operands, dtype)
    name, _, predicate = text.partition(" ")
    if predicate:
        compare = b.cmpi if name == "arith.cmpi" else b.cmpf
        return compare(predicate, operands[0], operands[1])
    if len(operands) == 1:
        return b.unary(name, operands[0])
    if len(operands) == 2:
        return b.binary(name, operands[0], operands[1])
    if len(operands) == 3:
        return b.ternary(name, *operands)
    raise InternalError(f"tile: {call.op} with {len(operands)} operands is realised as {text!r}")


def _with_known_number(call: Call, operands: Sequence[SSAValue]) -> SSAValue | None:
    """Emits x ** n for a small constant n as products and square roots, b ** x for a constant b as a power of two; returns
    None for others."""
    (base, exponent), dtype = call.literals, call.sources[0]
    if dtype.is_float and exponent is None and base is not None and powers.has_logarithm(base):
        return powers.power_of_known(call.builder, float(base), operands[1], dtype)
    if exponent is None or dtype.is_bool:
        return None
    if dtype.is_float:
        if not powers.is_multiplied_out(exponent):
            return None
        return powers.known_power(call.builder, operands[0], float(exponent), dtype)
    if not 0 <= exponent <= a.MAX_UNROLLED_POWER:
        return None
    return a.known_power(call.builder, operands[0], int(exponent))


def constant(value: object, dtype: DType) -> tuple[int | float | bool, bool]:
    """Returns the Python value of a constant, and whether it stands for the bits of an 8-bit float, a type
    that has no constants of its own. The value of a complex64 is its bits too."""
    scalar = np.asarray(value, dtype.numpy).reshape(())
    if dtype.is_bool:
        return bool(scalar), False
    if dtype.is_integer:
        return int(scalar), False
    if dtype.is_float and dtype.bits >= 16:
        return float(scalar), False
    bits = (
        int(np.frombuffer(scalar.tobytes(), np.dtype(f"i{dtype.itemsize}"))[0]) if dtype.itemsize <= 8 else 0
    )
    return bits, dtype.is_float and dtype.bits == 8
