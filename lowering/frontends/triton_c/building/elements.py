"""Makes the operations on elements: arithmetic, comparisons, conversions, reductions."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from ....tt import types as t
from ....tt.builder.block_builder import BlockBuilder
from ..checking import typed
from ..reading.source import Token
from ..types import DOUBLE, Element, Pointer, Scalar, memory_type

_INTEGER = {
    "+": "arith.addi", "-": "arith.subi", "*": "arith.muli", "&": "arith.andi", "|": "arith.ori", "^": "arith.xori",
    "<<": "arith.shli",
}  # fmt: skip
_SIGNED = {"/": "arith.divsi", "%": "arith.remsi", ">>": "arith.shrsi", "min": "arith.minsi", "max": "arith.maxsi"}
_UNSIGNED = {"/": "arith.divui", "%": "arith.remui", ">>": "arith.shrui", "min": "arith.minui", "max": "arith.maxui"}
_FLOAT = {
    "+": "arith.addf", "-": "arith.subf", "*": "arith.mulf", "/": "arith.divf", "min": "arith.minnumf", "max": "arith.maxnumf",
}  # fmt: skip
_OF_BOOLS = {"max": "arith.ori", "min": "arith.andi"}
_FLOAT_PREDICATES = {"<": "olt", ">": "ogt", "<=": "ole", ">=": "oge", "==": "oeq", "!=": "une"}
_PREDICATES = {"<": "lt", ">": "gt", "<=": "le", ">=": "ge"}


class _Files(dict[str, StringAttr]):
    def __missing__(self, name: str) -> StringAttr:
        found = self[name] = StringAttr(name)
        return found


class _Numbers(dict[int, IntAttr]):
    def __missing__(self, number: int) -> IntAttr:
        found = self[number] = IntAttr(number)
        return found


class Locations:
    """The locations of tokens: file, line and column, and of a macro's tokens where it was used."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Token, LocationAttr]] = {}
        self._files = _Files()
        self._numbers = _Numbers()

    def of(self, token: Token) -> LocationAttr:
        known = self._found.get(id(token))
        if known is None:
            known = self._found[id(token)] = token, self._made(token)
        return known[1]

    def _made(self, token: Token) -> LocationAttr:
        if token.macro is None:
            return self._position(token)
        use = token.uses[0]
        if token.source.name.startswith("<define"):  # the caller's macros are no text that anybody could look at
            return self._position(use)
        return CallSiteLoc(self._position(token), self._position(use))

    def _position(self, token: Token) -> FileLineColLoc:
        file, line, column = token.source.position(token.start)
        made = FileLineColLoc.__new__(FileLineColLoc)  # without xDSL's checks, which take longer than making an operation
        made.__dict__.update(filename=self._files[file], line=self._numbers[line], column=self._numbers[column])
        return made


class Elements:
    """Makes operations on elements with a builder."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def arithmetic(self, operator: str, element: Element, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return `a operator b` of two values of one element type."""
        return self.builder.binary(operation_of(operator, element), a, b)

    def negated(self, operator: str, element: Scalar, x: SSAValue) -> SSAValue:
        """Return `-x`, `~x`, or `!x` of a bool."""
        b = self.builder
        shape = t.shape_of(x.type)
        if operator != "-":
            return b.binary("arith.xori", x, b.const(-1 if operator == "~" else 1, element.mlir, shape))
        if element.is_float:
            return b.unary("arith.negf", x)
        return b.binary("arith.subi", b.const(0, element.mlir, shape), x)

    def compared(self, operator: str, element: Element, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return whether `a operator b`."""
        if isinstance(element, Scalar) and element.is_float:
            return self.builder.cmpf(_FLOAT_PREDICATES[operator], a, b)
        if operator in ("==", "!="):
            return self.builder.cmpi("eq" if operator == "==" else "ne", a, b)
        sign = "s" if isinstance(element, Scalar) and element.is_signed else "u"
        return self.builder.cmpi(sign + _PREDICATES[operator], a, b)

    def converted(self, x: SSAValue, own: Element, element: Element) -> SSAValue:
        """Return a value in another element type."""
        b = self.builder
        if isinstance(own, Pointer) or isinstance(element, Pointer):
            return self._address(x, own, element)
        shape = t.shape_of(x.type)
        if element.kind == "bool":
            zero = b.const(0, own.mlir, shape)
            return b.cmpf("une", x, zero) if own.is_float else b.cmpi("ne", x, zero)
        if own.is_float and element.is_float:
            if own.bits == element.bits:  # half and bfloat16
                x, own = b.cast("arith.extf", x, t.F32), DOUBLE
            return b.cast("arith.extf" if element.bits > own.bits else "arith.truncf", x, element.mlir)
        if own.is_float:
            return b.cast("arith.fptosi" if element.is_signed else "arith.fptoui", x, element.mlir)
        if element.is_float:
            return b.cast("arith.sitofp" if own.is_signed else "arith.uitofp", x, element.mlir)
        if element.bits > own.bits:
            return b.cast("arith.extsi" if own.is_signed else "arith.extui", x, element.mlir)
        return b.cast("arith.trunci", x, element.mlir)

    def _address(self, x: SSAValue, own: Element, element: Element) -> SSAValue:
        b = self.builder
        if isinstance(own, Pointer) and isinstance(element, Pointer):
            return b.cast("tt.bitcast", x, element.mlir)
        if isinstance(own, Pointer):
            number = b.cast("tt.ptr_to_int", x, t.I64)
            is_truth = isinstance(element, Scalar) and element.kind == "bool"
            return b.cmpi("ne", number, b.const(0, t.I64, t.shape_of(x.type))) if is_truth else number
        if isinstance(own, Scalar) and own.bits < 64:
            x = b.cast("arith.extsi" if own.is_signed else "arith.extui", x, t.I64)
        return b.cast("tt.int_to_ptr", x, element.mlir)

    def reduced(self, operator: str, element: Scalar, x: SSAValue, axis: int) -> SSAValue:
        """Return a block reduced along an axis. Sums and products of 16-bit floats are made in float and rounded once."""
        b = self.builder
        name = operation_of(operator, element)
        wide = element.is_float and element.bits == 16 and operator in ("+", "*")
        if wide:
            x = b.cast("arith.extf", x, t.F32)
        found = b.reduce([x], axis, lambda inner, left, right: [inner.binary(name, left[0], right[0])])[0]
        return b.cast("arith.truncf", found, element.mlir) if wide else found

    def index_of_extremum(self, operator: str, element: Scalar, x: SSAValue, axis: int) -> SSAValue:
        """Return the index of the largest or smallest element along an axis, the first of equal ones.

        NaN loses against everything else, and is equal to NaN: any order of the combinations gives the same index.
        """
        b = self.builder
        shape = t.shape_of(x.type)
        index = b.arange(shape[axis])
        for new in range(len(shape)):
            if new != axis:
                index = b.expand_dims(index, new)
        index = b.broadcast(index, shape)
        better = ">" if operator == "max" else "<"

        def combine(inner: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> list[SSAValue]:
            elements = Elements(inner)
            is_better = elements.compared(better, element, left[0], right[0])
            is_equal = elements.compared("==", element, left[0], right[0])
            if element.is_float:
                left_is_nan, right_is_nan = (inner.cmpf("uno", each[0], each[0]) for each in (left, right))
                is_better = inner.binary("arith.ori", is_better, inner.cmpi("ult", left_is_nan, right_is_nan))
                is_equal = inner.binary("arith.ori", is_equal, inner.binary("arith.andi", left_is_nan, right_is_nan))
            is_first = inner.cmpi("slt", left[1], right[1])
            is_left = inner.binary("arith.ori", is_better, inner.binary("arith.andi", is_equal, is_first))
            return [inner.select(is_left, left[0], right[0]), inner.select(is_left, left[1], right[1])]

        return b.reduce([x, index], axis, combine)[1]

    def constant(self, value: typed.Constant, shape: tuple[int, ...]) -> SSAValue:
        """Return a constant, or a block filled with it."""
        return self.builder.const(value.value, value.type.element.mlir, shape)

    def stretched(self, x: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """Return a value in a larger shape."""
        b = self.builder
        own = t.shape_of(x.type)
        if not own:
            return b.splat(x, shape)
        for _ in range(len(shape) - len(own)):
            x = b.expand_dims(x, 0)
        return b.broadcast(x, shape)

    def only_element(self, x: SSAValue) -> SSAValue:
        """Return the element of a block that has one."""
        b = self.builder
        while shape := t.shape_of(x.type):
            assert prod(shape) == 1
            x = b.reduce([x], 0, lambda inner, left, right: [left[0]])[0]
        return x

    def from_memory(self, x: SSAValue, element: Element) -> SSAValue:
        """Return what a load gave as a value: a bool is a byte in memory."""
        if isinstance(element, Scalar) and element.kind == "bool":
            return self.builder.cmpi("ne", x, self.builder.const(0, t.I8, t.shape_of(x.type)))
        return x

    def to_memory(self, x: SSAValue, element: Element) -> SSAValue:
        """Return a value as it is stored."""
        is_bool = isinstance(element, Scalar) and element.kind == "bool"
        return self.builder.cast("arith.extui", x, t.I8) if is_bool else x

    def zero(self, element: Element, shape: tuple[int, ...], in_memory: bool = False) -> SSAValue:
        """Return a zero, a block of them, or the null pointer."""
        b = self.builder
        if isinstance(element, Pointer):
            return b.cast("tt.int_to_ptr", b.const(0, t.I64, shape), element.mlir)
        return b.const(0, memory_type(element) if in_memory else element.mlir, shape)


def operation_of(operator: str, element: Element) -> str:
    """Return the operation that an operator is on elements of a type."""
    assert isinstance(element, Scalar)
    if element.is_float:
        return _FLOAT[operator]
    if element.kind == "bool" and operator in _OF_BOOLS:
        return _OF_BOOLS[operator]
    return _INTEGER.get(operator) or (_SIGNED if element.is_signed else _UNSIGNED)[operator]


def mlir_types(symbols: list[typed.Symbol]) -> list[Attribute]:
    """Return the types of variables in the block IR."""
    return [symbol.type.mlir for symbol in symbols]


__all__ = ["Elements", "Locations", "mlir_types"]
