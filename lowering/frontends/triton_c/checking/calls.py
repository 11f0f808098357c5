"""Checks calls: built-in functions with their historical spellings, and functions of the text."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import NoReturn

from ..reading.source import Token
from ..syntax import tree
from ..types import BOOL, DOUBLE, FLOAT, HALF, INT, LONG, SCALARS, VOID, Element, Pointer, Scalar, type_of
from . import typed
from .conversions import folded_binary
from .subscripts import SubscriptChecker

_ATOMIC_NAMES = re.compile(
    r"(?:(f16|f32|f64|i32|i64)_)?atomic_(add|max|min|and|or|xor|xchg|exch|cas)(?:_([a-z]+\d*))?(?:_\d+(?:x\d+)*)?"
)
_NAMED_TYPES = {
    "f16": HALF, "f32": FLOAT, "f64": DOUBLE, "i32": INT, "i64": LONG, "int": INT, "long": LONG,
    **{name: element for name, element in SCALARS.items() if element.kind in ("int", "float")},
}  # fmt: skip
"""Types in the names of atomic operations."""
_ATOMICS = {
    "add": ("add", "add", "fadd"), "max": ("max", "umax", ""), "min": ("min", "umin", ""), "and": ("and", "and", ""),
    "or": ("or", "or", ""), "xor": ("xor", "xor", ""), "xchg": ("exch", "exch", "exch"), "exch": ("exch", "exch", "exch"),
}  # fmt: skip
"""Operation → the one of the block IR for signed and unsigned integers and for floats; "" where there is none."""
_FUNCTIONS = {
    "exp": "math.exp", "exp2": "math.exp2", "log": "math.log", "log2": "math.log2", "sqrt": "math.sqrt",
    "sin": "math.sin", "cos": "math.cos", "tanh": "math.tanh", "erf": "math.erf", "rsqrt": "math.rsqrt",
    "floor": "math.floor", "ceil": "math.ceil", "fabs": "math.absf",
}  # fmt: skip
_FUNCTIONS |= {f"{name}f": operation for name, operation in _FUNCTIONS.items()}  # C names those of float so
"""Elementary functions of one float operand."""

_REDUCTIONS = {"sum": "+", "reduce_sum": "+", "any": "max", "all": "min", "prod": "*"}
"""Reductions of other languages, and what stands in a subscript here."""

Builtin = Callable[["CallChecker", tree.Call], typed.Expression]


class CallChecker(SubscriptChecker):
    """The part of the checker that knows of functions."""

    def check_call(self, node: tree.Call) -> typed.Expression:
        """Check `f(…)`."""
        callee = node.callee
        if isinstance(callee, tree.Call) and isinstance(callee.callee, tree.Name):  # atomic_add(TYPE, TM, TN)(p, v, mask)
            inner = callee.callee.token
            if _ATOMIC_NAMES.fullmatch(inner.text) is None:
                self.fail(inner, f"the result of {inner.text} is no function")
            first = callee.arguments[0] if callee.arguments else None
            return self._atomic(inner, node, self.resolve(first).element if isinstance(first, tree.TypeName) else None)
        if isinstance(callee, tree.Subscript):
            self.check(callee)
        if not isinstance(callee, tree.Name):
            self.fail(node.token, "only functions can be called", "the name of a function")
        token = callee.token
        found = _BUILTINS.get(token.text)
        if found is not None and token.text not in self.own_functions:
            return found(self, node)
        if token.text in _REDUCTIONS and token.text not in self.known_functions and len(node.arguments) == 1:
            self._fail_reduction(node, f"{token.text} is not declared", _REDUCTIONS[token.text])
        if _ATOMIC_NAMES.fullmatch(token.text) and token.text not in self.own_functions:
            return self._atomic(token, node)
        return self.check_own_call(node, token)

    @property
    @abstractmethod
    def own_functions(self) -> dict[str, tree.Function]:
        """Functions of the text, by name."""

    @abstractmethod
    def check_own_call(self, node: tree.Call, token: Token) -> typed.Expression:
        """Check the call of a function of the text."""

    def arguments(self, node: tree.Call, least: int, most: int | None = None) -> list[typed.Expression]:
        """Return the arguments of a call, which are from `least` to `most`."""
        most = least if most is None else most
        if not least <= len(node.arguments) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            self.fail(node.token, f"{node.token.text} takes {expected} arguments, got {len(node.arguments)}")
        return [self.check(each) for each in node.arguments]

    def _axis(self, node: tree.Call, expression: tree.Expression, limit: int) -> int:
        axis = self.constant(expression, f"the axis of {node.token.text}")
        if not 0 <= axis < limit:
            self.fail(expression.token, f"axis {axis} of {node.token.text}, expected 0 to {limit - 1}")
        return axis

    def _program(self, node: tree.Call) -> typed.Expression:
        if len(node.arguments) != 1:
            self.arguments(node, 1)
        axis = self._axis(node, node.arguments[0], 3)
        return typed.Program(type_of(INT), node.token, f"tt.{node.token.text}", axis)

    def _float(self, token: Token, value: typed.Expression) -> typed.Expression:
        """Return an operand of an elementary function: double stays, everything else is float."""
        element = self.arithmetic(token, value)
        return value if element in (FLOAT, DOUBLE) else self.convert(value, FLOAT)

    def _elementary(self, node: tree.Call) -> typed.Expression:
        (value,) = self.arguments(node, 1)
        value = self._float(node.token, value)
        return typed.Math(value.type, node.token, _FUNCTIONS[node.token.text], (value,))

    def _float_operands(self, node: tree.Call, operation: str, count: int) -> typed.Expression:
        values = [self._float(node.token, each) for each in self.arguments(node, count)]
        element = DOUBLE if any(each.type.element == DOUBLE for each in values) else FLOAT
        operands = self.joined(node.token, *(self.convert(each, element) for each in values))
        return typed.Math(operands[0].type, node.token, operation, operands)

    def _power(self, node: tree.Call) -> typed.Expression:
        return self._float_operands(node, "math.powf", 2)

    def _multiply_add(self, node: tree.Call) -> typed.Expression:
        return self._float_operands(node, "math.fma", 3)

    def _absolute(self, node: tree.Call) -> typed.Expression:
        (value,) = self.arguments(node, 1)
        element = self.arithmetic(node.token, value)
        if element.is_float:
            return typed.Math(value.type, node.token, "math.absf", (value,))
        value = self.convert(value, INT) if element.bits < INT.bits else value
        element = self.arithmetic(node.token, value)
        return typed.Math(value.type, node.token, "math.absi", (value,)) if element.is_signed else value

    def _extremum(self, node: tree.Call) -> typed.Expression:
        name = node.token.text
        if len(node.arguments) == 1:
            self._fail_reduction(node, f"{name} takes 2 arguments, got 1", "max" if "max" in name else "min")
        a, b = self.arguments(node, 2)
        operator = "max" if "max" in name else "min"
        if name != operator:  # fmax, fmaxf
            a, b = self._float(node.token, a), self._float(node.token, b)
        a, b, element = self.usual(node.token, a, b)
        a, b = self.joined(node.token, a, b)
        folded = folded_binary(operator, a, b, node.token)
        return folded or typed.Binary(type_of(element, a.type.shape), node.token, operator, a, b)

    def _fail_reduction(self, node: tree.Call, message: str, operator: str) -> NoReturn:
        """Refuse `max(v)` and `sum(v)`, which are reductions in other languages."""
        value = self.check(node.arguments[0])
        rank = len(value.type.shape)
        operand = node.arguments[0].token.text if isinstance(node.arguments[0], tree.Name) else "(…)"
        self.fail(node.token, message, f"{operand}[{', '.join([operator] * rank)}]" if rank else "")

    def _select(self, node: tree.Call) -> typed.Expression:
        condition, a, b = self.arguments(node, 3)
        return self.chosen(node.token, self.truth(condition), a, b, frozenset(), is_eager=True)

    def chosen(
        self,
        token: Token,
        condition: typed.Expression,
        a: typed.Expression,
        b: typed.Expression,
        writes: frozenset[typed.Symbol],
        is_eager: bool,
    ) -> typed.Expression:
        """Return `condition ? a : b` with its arms in one type and shape."""
        if isinstance(a, typed.Record) or isinstance(b, typed.Record):
            return self.chosen_record(token, condition, a, b, writes, is_eager)
        if VOID in (a.type.element, b.type.element):
            if a.type != b.type:
                self.fail(token, "one arm of ?: is void, and the other is not", "if")
            if condition.type.shape or is_eager:
                self.fail(token, "the arms of ?: on a block of conditions are void", "(f(…), 0) for each")
            return typed.Conditional(a.type, token, condition, a, b, writes, is_eager)
        element: Element
        if a.type.is_pointer or b.type.is_pointer:
            element = (a if a.type.is_pointer else b).type.element
            if isinstance(b.type.element, Pointer) and b.type.element.is_constant:
                element = b.type.element
            a, b = self.convert(a, element, token), self.convert(b, element, token)
        else:
            a, b, element = self.usual(token, a, b)
        if condition.type.shape:
            condition, a, b = self.joined(token, condition, a, b)
        else:
            a, b = self.joined(token, a, b)
        return typed.Conditional(type_of(element, a.type.shape), token, condition, a, b, writes, is_eager)

    def _dot(self, node: tree.Call) -> typed.Expression:
        a, b, *rest = self.arguments(node, 2, 3)
        return self.check_product(node.token, a, b, rest[0] if rest else None)

    def _trans(self, node: tree.Call) -> typed.Expression:
        (value,) = self.arguments(node, 1)
        return self.check_transpose(node.token, value)

    def _arg_reduce(self, node: tree.Call) -> typed.Expression:
        if len(node.arguments) != 2:
            self.arguments(node, 2)
        value = self.check(node.arguments[0])
        element = self.arithmetic(node.token, value)
        shape = value.type.shape
        if not shape:
            self.fail(node.token, f"{node.token.text} of a value of type {value.type}, which is no block")
        axis = self._axis(node, node.arguments[1], len(shape))
        if element == BOOL:
            value = self.convert(value, INT)
        type_ = type_of(INT, (*shape[:axis], *shape[axis + 1 :]))
        return typed.ArgReduce(type_, node.token, node.token.text.removeprefix("arg"), value, axis)

    def _barrier(self, node: tree.Call) -> typed.Expression:
        self.arguments(node, 0)
        return typed.Effect(type_of(VOID), node.token, "barrier", (), "")

    def _assert(self, node: tree.Call) -> typed.Expression:
        condition, *rest = self.arguments(node, 1, 2)
        message = rest[0].text if rest and isinstance(rest[0], typed.Text) else ""
        if rest and not isinstance(rest[0], typed.Text):
            self.fail(rest[0].token, "the message of assert is no string")
        return typed.Effect(type_of(VOID), node.token, "assert", (self.truth(condition),), message or "assertion failed")

    def _print(self, node: tree.Call) -> typed.Expression:
        values = self.arguments(node, 1, 16)
        texts = [each.text for each in values if isinstance(each, typed.Text)]
        numbers = tuple(each for each in values if not isinstance(each, typed.Text))
        for each in numbers:
            self.refuse_record(each.token, each, "print")
        separator = ": " if numbers else ""
        return typed.Effect(type_of(VOID), node.token, "print", numbers, f" {' '.join(texts) or 'value'}{separator}")

    def _atomic(self, token: Token, node: tree.Call, named: Element | None = None) -> typed.Expression:
        """Check an atomic operation: (p, v[, mask]), or (p, comparand, v) of cas. The result is what was there before.

        named: the type that the historical spelling has beside the name; integers of either sign are one type there.
        """
        match = _ATOMIC_NAMES.fullmatch(token.text)
        before, operator, behind = match.groups() if match else ("", "", "")
        counts = (3, 3) if operator == "cas" else (2, 3)
        if not counts[0] <= len(node.arguments) <= counts[1]:
            expected = "(p, comparand, value)" if operator == "cas" else "(p, value) or (p, value, mask)"
            self.fail(token, f"{token.text} takes {expected}, got {len(node.arguments)} arguments")
        pointer, *values = [self.check(each) for each in node.arguments]
        element = self.pointee(pointer, token)
        kind = pointer.type.element
        if isinstance(kind, Pointer) and kind.is_constant:
            self.fail(token, f"{token.text} through {pointer.type}, which is const")
        for each in (named, _NAMED_TYPES.get(before or ""), _NAMED_TYPES.get(behind or "")):
            if each is not None and not _is_alike(each, element):
                fix = f"atomic_{operator}(…), or a {each}*"
                self.fail(token, f"{token.text} of {each} through {pointer.type}, which points to {element}", fix)
        if not isinstance(element, Scalar) or element.bits < 16 or (element.bits < 32 and not element.is_float):
            self.fail(token, f"{token.text} through {pointer.type}; atomics are on half, float, double, int and long")
        comparand = self.convert(values.pop(0), element, token) if operator == "cas" else None
        value = self.convert(values.pop(0), element, token)
        mask = self.truth(values.pop(0)) if values else None
        if operator == "cas":
            if element.is_float:
                self.fail(token, f"{token.text} through {pointer.type}; it compares integers", "bitcast<int>(…), and an int*")
            name = "cas"
        else:
            signed, unsigned, floating = _ATOMICS[operator]
            name = floating if element.is_float else signed if element.is_signed else unsigned
            if not name:
                fix = "integers, or a loop of atomic_cas on their bits"
                self.fail(token, f"{token.text} through {pointer.type}; it is for integers", fix)
        parts = [pointer, value, *([mask] if mask is not None else []), *([comparand] if comparand is not None else [])]
        shaped = list(self.joined(token, *parts))
        pointer, value = shaped[0], shaped[1]
        mask = shaped[2] if mask is not None else None
        comparand = shaped[-1] if comparand is not None else None
        return typed.Atomic(value.type, token, name, pointer, value, mask, comparand)


def _is_alike(a: Element, b: Element) -> bool:
    """Return whether two types are one for atomic operations: integers of one width are, whatever their signs."""
    if isinstance(a, Scalar) and isinstance(b, Scalar) and a.kind == b.kind == "int":
        return a.bits == b.bits
    return a == b


_BUILTINS: dict[str, Builtin] = {
    "get_program_id": CallChecker._program, "get_num_programs": CallChecker._program, "min": CallChecker._extremum,
    "max": CallChecker._extremum, **dict.fromkeys(["fmax", "fmin", "fmaxf", "fminf"], CallChecker._extremum),
    "select": CallChecker._select, "dot": CallChecker._dot, "trans": CallChecker._trans,
    "abs": CallChecker._absolute, "fma": CallChecker._multiply_add, "pow": CallChecker._power,
    "fmaf": CallChecker._multiply_add, "powf": CallChecker._power,
    "argmax": CallChecker._arg_reduce, "argmin": CallChecker._arg_reduce, "__debug_barrier": CallChecker._barrier,
    "assert": CallChecker._assert, "print": CallChecker._print,
    **dict.fromkeys(_FUNCTIONS, CallChecker._elementary),
}  # fmt: skip
ATOMICS = ("atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor", "atomic_xchg", "atomic_cas")
BUILTIN_NAMES = (*_BUILTINS, *ATOMICS)


__all__ = ["BUILTIN_NAMES", "CallChecker"]
