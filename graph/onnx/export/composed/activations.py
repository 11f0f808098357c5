"""Finds activation functions that are several operations, which ONNX has as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from .....promotion.dataclass import dataclass
from .....promotion.dtype import DType, float32
from ....functions import activations, elementwise
from ....functions.building import apply
from ....graph import Graph
from ....symbol import Symbol
from ....types import Shape
from .binding import Form, bound, form_of
from .composed import Composed, plain

_Signature: TypeAlias = tuple[str, ...]
"""The op of a symbol, and those of its operands, "" for any."""


@dataclass(frozen=True, slots=True, eq=False)
class _Activation:
    """An activation: the operator, the names of its attributes, the opsets that have it, and how it is built."""

    op: str
    signature: _Signature
    make: Callable[..., Symbol]
    numbers: tuple[str, ...] = ()
    opsets: range = range(1, 1 << 16)


def _swish(x: Symbol, alpha: float) -> Symbol:
    return apply("mul", x, apply("sigmoid", apply("mul", x, alpha)))


_ALL = (
    _Activation("LeakyRelu", ("where", "greater_equal", "", "mul"), activations.leaky_relu, ("alpha",)),
    _Activation("Elu", ("where", "greater", "", "mul"), activations.elu, ("alpha",)),
    _Activation("Celu", ("where", "greater", "", "mul"), activations.celu, ("alpha",)),
    _Activation("Selu", ("mul", "where", "constant"), activations.selu, ("alpha", "gamma")),
    _Activation("Softplus", ("add", "maximum", "log1p"), activations.softplus),
    _Activation("Softsign", ("div", "", "add"), activations.softsign),
    _Activation("Mish", ("where", "less", "silu", "mul"), activations.mish),
    _Activation("HardSigmoid", ("minimum", "maximum", "constant"), activations.hard_sigmoid, ("alpha", "beta")),
    _Activation("HardSwish", ("mul", "", "minimum"), activations.hard_swish),
    _Activation("Shrink", ("where", "less", "add", "where"), activations.shrink, ("lambd", "bias")),
    _Activation("ThresholdedRelu", ("where", "greater", "", "constant"), activations.thresholded_relu, ("alpha",)),
    _Activation("Swish", ("mul", "", "sigmoid"), _swish, ("alpha",), range(24, 25)),  # later onnxruntime 1.32 has none
    _Activation("Tan", ("div", "sin", "cos"), elementwise.tan),
    _Activation("Sinh", ("where", "less", "negate", "where"), elementwise.sinh),
    _Activation("Cosh", ("where", "less", "mul", "mul"), elementwise.cosh),
    _Activation("Asinh", ("where", "less", "negate", "where"), elementwise.asinh),
    _Activation("Acosh", ("where", "less", "constant", "where"), elementwise.acosh),
    _Activation("Atanh", ("where", "less", "negate", "where"), elementwise.atanh),
)
_CLIPPED = ("float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64")
_BY_ROW: Mapping[str, tuple[_Activation, ...]] = {
    row: tuple([each for each in _ALL if each.signature[0] == row]) for row in {each.signature[0] for each in _ALL}
}
_Key: TypeAlias = tuple[str, DType, Shape]


class Activations:
    """Finds the activations of one graph; forms are built once for each shape."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self._graph, self._opset = graph, opset
        self._forms: dict[_Key, Form | None] = {}

    def found(self, symbol: Symbol) -> Composed | None:
        """Return the node that a symbol is the result of."""
        if symbol.dtype is not float32:
            return None
        for each in _BY_ROW.get(symbol.op.name, ()):
            if self._opset not in each.opsets or not _has(symbol, each.signature):
                continue
            key = (each.op, symbol.dtype, symbol.shape)
            if key not in self._forms:
                make = each.make
                self._forms[key] = form_of(
                    self._graph, lambda _, *given, make=make: make(*given), ((symbol.dtype, symbol.shape),), len(each.numbers)
                )
            match = bound(self._graph, self._forms[key], symbol)
            if match is not None:
                (x,), numbers = match
                return plain(each.op, (x,), symbol, **dict(zip(each.numbers, numbers, strict=True)))
        return self._prelu(symbol)

    def clip(self, symbol: Symbol, consumers: Mapping[int, Sequence[Symbol]]) -> Composed | None:
        """Return the node of values between two constants; of a NaN among these runtimes make what they like."""
        if symbol.op.name != "minimum" or symbol.dtype.name not in _CLIPPED or symbol.inputs[0].op.name != "maximum":
            return None
        inner, high = symbol.inputs
        x, low = inner.inputs
        bounds = [each.attrs["value"] for each in (low, high) if each.op.name in ("constant", "weight") and not each.shape]
        is_read = len(consumers.get(inner.id, ())) > 1 or any([inner is each for each in self._graph.outputs])
        if len(bounds) < 2 or any([bound != bound for bound in bounds]) or x.shape != symbol.shape or is_read:
            return None
        return plain("Clip", (x, low, high), symbol)

    def _prelu(self, symbol: Symbol) -> Composed | None:
        """Return the node of negative values that are scaled by slopes, which broadcast."""
        if not _has(symbol, ("where", "greater_equal", "", "mul")):
            return None
        x, product = symbol.inputs[1:]
        slope = product.inputs[1]
        if x.shape != symbol.shape or slope.dtype is not x.dtype or not slope.shape:
            return None
        types = ((x.dtype, x.shape), (slope.dtype, slope.shape))
        form = form_of(self._graph, lambda _, value, factor: activations.prelu(value, factor), types, 0)
        match = bound(self._graph, form, symbol)
        return None if match is None else plain("PRelu", tuple(match[0]), symbol)


def _has(symbol: Symbol, signature: _Signature) -> bool:
    row, *operands = signature
    if symbol.op.name != row or len(symbol.inputs) != len(operands):
        return False
    return all(wanted in ("", each.op.name) for wanted, each in zip(operands, symbol.inputs, strict=True))
