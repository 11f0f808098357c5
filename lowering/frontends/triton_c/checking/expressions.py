"""Checks expressions: operators, conversions, pointers, conditionals, assignments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..reading.conditions import character_value, integer_literal
from ..reading.source import CHARACTER, STRING, Token
from ..syntax import tree
from ..types import (
    BOOL,
    CHAR,
    DOUBLE,
    FLOAT,
    HALF,
    INT,
    LONG,
    UNSIGNED,
    UNSIGNED_LONG,
    VOID,
    Pointer,
    Scalar,
    Struct,
    Type,
    promoted,
    size_of,
    type_of,
    wrapped,
)
from . import typed
from .calls import CallChecker
from .conversions import COMPARISONS, folded_binary, is_null, rounded
from .records import LVALUES

_FLOATING = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([fFlL]?)")
_HEXADECIMAL = re.compile(r"(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP]([+-]?)[0-9]+)([fFlL]?)")
_ESCAPED = {"n": "\n", "t": "\t"}
_NAMED = {
    "INFINITY": (FLOAT, math.inf), "F32_INFINITY": (FLOAT, math.inf), "F16_INFINITY": (HALF, math.inf),
    "NAN": (FLOAT, math.nan),
}  # fmt: skip


@lru_cache(4096)
def _number(text: str, is_single: bool) -> tuple[Type, int | float] | str:
    """Return the type and the value of a number, or what is wrong with it. is_single: no suffix means float, not double."""
    integer = integer_literal(text)
    if integer is not None:
        value, suffix = integer
        types = [UNSIGNED, UNSIGNED_LONG] if "u" in suffix else [INT, LONG]
        if "u" not in suffix and text[0] == "0":
            types = [INT, UNSIGNED, LONG, UNSIGNED_LONG]
        for element in types[-1:] if "l" in suffix and len(types) == 2 else types:
            if "l" in suffix and element.bits < LONG.bits:
                continue
            if wrapped(value, element) == value:
                return type_of(element), value
        return f"{text} does not fit into 64 bits"
    found = _floating(text)
    if found is None:
        return f"{text} is no number"
    number, suffix = found
    element = FLOAT if is_single or suffix in ("f", "F") else DOUBLE
    return type_of(element), rounded(number, element)


def _floating(text: str) -> tuple[float | Fraction, str] | None:
    """Return the value and the suffix of a floating constant, decimal or hexadecimal; None for anything else."""
    match = _HEXADECIMAL.fullmatch(text)
    if match is not None:
        digits, sign, suffix = match.groups()
        try:
            return float.fromhex(digits), suffix
        except OverflowError:
            return 0.0 if sign == "-" else math.inf, suffix
    match = _FLOATING.fullmatch(text)
    if match is None or text.isdigit():
        return None
    number = float(match.group(1))
    is_finite = 0 < number < math.inf  # else the exponent may be of any size
    return Fraction(match.group(1)) if is_finite else number, match.group(2)


class ExpressionChecker(CallChecker):
    """The part of the checker that knows of operators."""

    def check(self, expression: tree.Expression) -> typed.Expression:
        """Return the typed tree of an expression. Raises `CheckAbort` behind an error."""
        self.work += 1
        return _CHECKS[type(expression)](self, expression)

    def _literal(self, node: tree.Literal) -> typed.Expression:
        token = node.token
        text = token.text
        if text in ("true", "false"):
            return typed.Constant(type_of(BOOL), token, int(text == "true"))
        if token.kind is STRING:
            unescaped = re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), text[1:-1])
            return typed.Text(type_of(CHAR), token, unescaped)
        if token.kind is CHARACTER:
            code = character_value(text)
            if code is None:
                self.fail(token, f"{text} is no single character")
            return typed.Constant(type_of(INT), token, code)
        number = _number(text, self.single)
        if isinstance(number, str):
            self.fail(token, number)
        return typed.Constant(number[0], token, number[1])

    def _name(self, node: tree.Name) -> typed.Expression:
        token = node.token
        if token.text in _NAMED and not any(token.text in scope for scope in self.scopes):
            element, value = _NAMED[token.text]
            return typed.Constant(type_of(element), token, value)
        found = self.look_up(token)
        if found is None:
            self.abort()
        if isinstance(found, typed.Symbol):
            return self.read(found, token)
        if isinstance(found, typed.Table):
            return self.read_table(found, token)
        if isinstance(found, typed.Aggregate):
            return self.read_lvalue(self.lvalue(node), token)
        if isinstance(found, typed.Constant):
            return typed.Constant(found.type, token, found.value)
        if isinstance(found, typed.Record):
            return found
        self.fail(token, f"{token.text} is a type, expected a value")

    def _erroneous(self, node: tree.Erroneous) -> typed.Expression:
        self.abort()

    def _type_name(self, node: tree.TypeName) -> typed.Expression:
        self.fail(node.token, "a type, expected a value")

    # Operators

    def _unary(self, node: tree.Unary) -> typed.Expression:
        operator = node.token.text
        if operator in ("++", "--"):
            one = typed.Constant(type_of(INT), node.token, 1)
            return self._updated(node.token, node.operand, operator[0], one)
        value = self.check(node.operand)
        if operator == "*":
            return self._loaded(node.token, value, None)
        if operator == "^":
            return self.check_transpose(node.token, value)
        if operator == "!":
            value = self.truth(value)
            if isinstance(value, typed.Constant):
                return typed.Constant(value.type, node.token, 1 - int(value.value))
            return typed.Unary(value.type, node.token, "!", value)
        element = self.arithmetic(node.token, value)
        if operator == "~":
            if not element.is_integer:
                self.fail(node.token, f"~ of a value of type {value.type}, which needs integers")
            if element == BOOL:
                self.diagnostics.warning(node.token, "~ of a bool is an int that is never 0", "!")
        value = self.convert(value, promoted(element))
        if operator == "+":
            return value
        if isinstance(value, typed.Constant) and isinstance(value.type.element, Scalar):
            negated = -value.value if operator == "-" else ~int(value.value)
            if isinstance(negated, int):
                negated = wrapped(negated, value.type.element)
            return typed.Constant(value.type, node.token, negated)
        return typed.Unary(value.type, node.token, operator, value)

    def _binary(self, node: tree.Binary) -> typed.Expression:
        """Check operators from left to right: long sums are long on the left, and need no recursion."""
        if node.token.text in _SPECIAL:
            return _SPECIAL[node.token.text](self, node)
        chain = [node]
        while isinstance(left := chain[-1].left, tree.Binary) and left.token.text not in _SPECIAL:
            chain.append(left)
        value = self.check(chain[-1].left)
        for each in reversed(chain):
            value = self._operated(each.token, value, self.check(each.right))
        return value

    def _operated(self, token: Token, a: typed.Expression, b: typed.Expression) -> typed.Expression:
        """Return the result of a binary operator that evaluates both operands."""
        operator = token.text
        if operator == "@":
            return self.check_product(token, a, b)
        if operator in COMPARISONS:
            return self._compared(token, a, b)
        if operator in ("+", "-") and (a.type.is_pointer or b.type.is_pointer):
            return self._moved(token, a, b)
        x, y = self.arithmetic(token, a), self.arithmetic(token, b)
        if operator in ("%", "<<", ">>", "&", "|", "^") and not (x.is_integer and y.is_integer):
            self.fail(token, f"{a.type} {operator} {b.type}: {operator} needs integers")
        if operator in ("<<", ">>"):  # the operands are promoted each for itself, and the result has the left one's type
            element = promoted(x)
            a, b = self.convert(a, element), self.convert(self.convert(b, promoted(y)), element)
        else:
            a, b, element = self.usual(token, a, b)
        a, b = self.joined(token, a, b)
        folded = folded_binary(operator, a, b, token)
        if folded is not None:
            return folded
        if operator == "+":
            for product, other in ((b, a), (a, b)):
                if isinstance(product, typed.Dot) and product.accumulator is None and not isinstance(other, typed.Dot):
                    return typed.Dot(product.type, product.token, product.left, product.right, other)
        return typed.Binary(type_of(element, a.type.shape), token, operator, a, b)

    def _compared(self, token: Token, a: typed.Expression, b: typed.Expression) -> typed.Expression:
        if a.type.is_pointer or b.type.is_pointer:
            pointer = (a if a.type.is_pointer else b).type.element
            for each in (a, b):
                if not is_null(each) and not self._same_pointee(each, pointer):
                    self.fail(token, f"{a.type} {token.text} {b.type}: pointers are compared with pointers of their type, or 0")
            a, b = (self._as(each, LONG) for each in (a, b))
        else:
            a, b, _ = self.usual(token, a, b)
        a, b = self.joined(token, a, b)
        if isinstance(a, typed.Constant) and isinstance(b, typed.Constant):
            return typed.Constant(type_of(BOOL), token, int(COMPARISONS[token.text](a.value, b.value)))
        return typed.Compare(type_of(BOOL, a.type.shape), token, token.text, a, b)

    @staticmethod
    def _same_pointee(value: typed.Expression, pointer: object) -> bool:
        own = value.type.element
        if not isinstance(own, Pointer) or not isinstance(pointer, Pointer):
            return False
        return own.pointee == pointer.pointee or VOID in (own.pointee, pointer.pointee)

    def _as(self, value: typed.Expression, element: Scalar) -> typed.Expression:
        """Return an address as an integer, as a cast does."""
        if isinstance(value, typed.Constant):
            return self.convert(value, element)
        return typed.Convert(type_of(element, value.type.shape), value.token, value)

    def _moved(self, token: Token, a: typed.Expression, b: typed.Expression) -> typed.Expression:
        """Return a pointer plus or minus an integer, or the distance of two pointers."""
        if a.type.is_pointer and b.type.is_pointer:
            if token.text != "-" or not self._same_pointee(a, b.type.element):
                self.fail(token, f"{a.type} {token.text} {b.type}: pointers of one type can be subtracted, and no more")
            self.pointee(a, token)
            a, b = self.joined(token, a, b)
            return typed.PointerDifference(type_of(LONG, a.type.shape), token, a, b)
        if b.type.is_pointer:
            if token.text == "-":
                self.fail(token, f"{a.type} - {b.type}: a pointer is subtracted from a number")
            a, b = b, a
        self.pointee(a, token)
        element = self.arithmetic(token, b)
        if not element.is_integer:
            self.fail(token, f"{a.type} {token.text} {b.type}: pointers move by integers", "a cast, (int)…")
        offset = self.convert(b, promoted(element))
        if token.text == "-":
            offset = self.convert(offset, LONG)
            if isinstance(offset, typed.Constant):
                offset = typed.Constant(offset.type, offset.token, wrapped(-int(offset.value), LONG))
            else:
                offset = typed.Unary(offset.type, token, "-", offset)
        a, offset = self.joined(token, a, offset)
        return typed.MovePointer(a.type, token, a, offset)

    def _logical(self, node: tree.Binary) -> typed.Expression:
        chain = [node]
        while isinstance(before := chain[-1].left, tree.Binary) and before.token.text in ("&&", "||"):
            chain.append(before)
        value = self.check(chain[-1].left)
        for each in reversed(chain):
            value = self._joined_logically(each, value)
        return value

    def _joined_logically(self, node: tree.Binary, left: typed.Expression) -> typed.Expression:
        operator = node.token.text
        left = self.truth(left)
        with self.uncertain() as writes:
            right = self.truth(self.check(node.right))
        if left.type.shape or right.type.shape:
            if writes:
                fix = "assign before, or a scalar condition"
                self.fail(node.token, f"the right operand of {operator} on blocks assigns variables", fix)
            left, right = self.joined(node.token, left, right)
        elif isinstance(left, typed.Constant):
            if bool(left.value) == (operator == "||"):
                return typed.Constant(left.type, node.token, left.value)
            return right
        return typed.Logical(left.type, node.token, operator, left, right, frozenset(writes))

    def _comma(self, node: tree.Binary) -> typed.Expression:
        parts: list[tree.Expression] = [node]
        while isinstance(first := parts[0], tree.Binary) and first.token.text == ",":
            parts[:1] = [first.left, first.right]
        values = [self.check(each) for each in parts]
        last = values.pop()
        before = tuple(part for value in values for part in (value.before if isinstance(value, typed.Record) else (value,)))
        if isinstance(last, typed.Record):
            return typed.Record(last.type, node.token, (*before, *last.before), last.leaves)
        return typed.Sequence(last.type, node.token, (*before, last), len(before))

    def _conditional(self, node: tree.Conditional) -> typed.Expression:
        """Check `c ? a : b`, where `b` may be another one and so on: such chains are long, and need no recursion."""
        chain: list[tuple[Token, typed.Expression, typed.Expression, set[typed.Symbol], set[typed.Symbol]]] = []
        with ExitStack() as arms:
            levels: list[ExitStack] = []
            following: tree.Expression = node
            while isinstance(following, tree.Conditional):
                self.work += len(levels) > 0
                condition = self.truth(self.check(following.condition))
                is_block = bool(condition.type.shape)
                with self.uncertain(is_block) as writes:
                    first = self.check(following.first)
                level = arms.enter_context(ExitStack())
                others = level.enter_context(self.uncertain(is_block))
                levels.append(level)
                chain.append((following.token, condition, first, writes, others))
                following = following.second
            value = self.check(following)
            for token, condition, first, writes, others in reversed(chain):
                levels.pop().close()
                value = self._chosen_arm(token, condition, first, value, frozenset(writes | others))
        return value

    def _chosen_arm(
        self, token: Token, condition: typed.Expression, first: typed.Expression, second: typed.Expression,
        writes: frozenset[typed.Symbol],
    ) -> typed.Expression:  # fmt: skip
        """Return `condition ? first : second`; of a constant condition one arm is left out."""
        if not isinstance(condition, typed.Constant):
            return self.chosen(token, condition, first, second, writes, is_eager=False)
        if isinstance(first, typed.Record) and first.type == second.type:
            return first if condition.value else second
        chosen = self.chosen(token, condition, first, second, frozenset(), is_eager=False)
        if isinstance(chosen, typed.Conditional):
            return chosen.first if condition.value else chosen.second
        return chosen

    # Casts

    def _cast(self, node: tree.Cast) -> typed.Expression:
        value = self.check(node.operand)
        target = self.resolve(node.type, is_value=False)
        if target.element == VOID:
            parts = value.before if isinstance(value, typed.Record) else (value,)
            nothing = typed.Record(target, node.token, (), ())
            return typed.Sequence(target, node.token, parts, len(parts) - 1) if parts else nothing
        if isinstance(target.element, Struct):
            self.fail(node.token, f"a cast to {target}", f"({target.element}){{…}}")
        own, element = value.type.element, target.element
        if isinstance(own, Pointer) != isinstance(element, Pointer):
            number = own if isinstance(own, Scalar) else element
            is_address = isinstance(number, Scalar) and number.kind == "int" and number.bits == LONG.bits
            if is_address and not is_null(value):
                value = typed.Convert(type_of(element, value.type.shape), node.token, value)
            elif not is_null(value) and (number != BOOL or isinstance(element, Pointer)):
                message = f"a cast of a value of type {value.type} to {target}: addresses are integers of 64 bits"
                is_integer = isinstance(number, Scalar) and number.kind == "int"
                self.fail(node.token, message, f"({element})(long)…" if is_integer else "")
        elif isinstance(own, Pointer) and own != element:
            value = typed.Convert(type_of(element, value.type.shape), node.token, value)
        value = self.convert(value, element, node.token)
        if node.type.shape is None and not target.shape:
            return value
        return self.to_shape(node.token, value, target.shape, "the type of the cast")

    def _bitcast(self, node: tree.Bitcast) -> typed.Expression:
        value = self.check(node.operand)
        target = self.resolve(node.type)
        own = self.arithmetic(node.token, value)
        element = target.element
        if not isinstance(element, Scalar) or own.bits != element.bits or BOOL in (own, element):
            self.fail(node.token, f"bitcast of {value.type} to {target}: the widths of the elements differ")
        found: typed.Expression = typed.Bitcast(type_of(element, value.type.shape), node.token, value)
        return self.to_shape(node.token, found, target.shape, "the type of the bitcast") if target.shape else found

    def _size(self, node: tree.SizeOf) -> typed.Expression:
        table = self.table_of(node.operand)
        if table is not None:
            return typed.Constant(type_of(UNSIGNED_LONG), node.token, self.table_size(table))
        if isinstance(node.operand, tree.TypeName):
            type_ = self.resolve(node.operand)
        else:
            before = len(self._events)
            type_ = self.check(node.operand).type
            del self._events[before:]  # nothing is evaluated
        return typed.Constant(type_of(UNSIGNED_LONG), node.token, size_of(type_))

    # Memory and assignment

    def _masked(self, node: tree.MaskedDereference) -> typed.Expression:
        mask = self.truth(self.check(node.mask))
        return self._loaded(node.token, self.check(node.operand), mask)

    def _loaded(self, token: Token, pointer: typed.Expression, mask: typed.Expression | None) -> typed.Expression:
        element = self.pointee(pointer, token)
        if mask is not None:
            pointer, mask = self.joined(token, pointer, mask)
        return typed.Load(type_of(element, pointer.type.shape), token, pointer, mask)

    def _assignment(self, node: tree.Assignment) -> typed.Expression:
        value = self.check(node.value)
        operator = node.token.text[:-1]
        if operator:
            return self._updated(node.token, node.target, operator, value)
        target = node.target
        if isinstance(target, tree.Name | tree.Member):
            return self.write(node.token, self.target(target), value)
        pointer, mask = self._address(target)
        return self._stored(node.token, pointer, mask, value)

    def _address(self, target: tree.Expression) -> tuple[typed.Expression, typed.Expression | None]:
        """Return the pointer and the mask of `*p` or `*?(m)p` that is stored to."""
        mask = None
        if isinstance(target, tree.MaskedDereference):
            mask = self.truth(self.check(target.mask))
        elif not (isinstance(target, tree.Unary) and target.token.text == "*"):
            self.fail(target.token, f"this is not assigned to; {LVALUES}")
        pointer = self.check(target.operand)
        self.pointee(pointer, target.token)
        element = pointer.type.element
        if isinstance(element, Pointer) and element.is_constant:
            self.fail(target.token, f"a store through {pointer.type}, which is const", "a pointer without const")
        if mask is not None:
            pointer, mask = self.joined(target.token, pointer, mask)
        return pointer, mask

    def _stored(
        self, token: Token, pointer: typed.Expression, mask: typed.Expression | None, value: typed.Expression
    ) -> typed.Expression:
        type_ = type_of(self.pointee(pointer, token), pointer.type.shape)
        return typed.Store(type_, token, pointer, mask, self.assigned(token, value, type_, "the target"))

    def _updated(self, token: Token, target: tree.Expression, operator: str, value: typed.Expression) -> typed.Expression:
        """Return `target operator= value`, which evaluates the target's address and mask once."""
        operation = _operator(token, operator)
        if isinstance(target, tree.Name | tree.Member):
            lvalue = self.target(target)
            if not typed.contains(value, (typed.Assign,)):
                old = self.read_lvalue(lvalue, target.token)
                return self.write(token, lvalue, self._operated(operation, old, value))
            first: list[typed.Expression] = []  # the value is evaluated before the variable is read
            value = self.temporary(value, first)
            old = self.read_lvalue(lvalue, target.token)
            found = self.write(token, lvalue, self._operated(operation, old, value))
            return typed.Sequence(found.type, token, (*first, found), len(first))
        parts: list[typed.Expression] = []
        value = value if isinstance(value, typed.Constant) else self.temporary(value, parts)
        pointer, mask = self._address(target)
        pointer = self.temporary(pointer, parts)
        mask = None if mask is None else self.temporary(mask, parts)
        old = self._loaded(target.token, pointer, mask)
        store = self._stored(token, pointer, mask, self._operated(operation, old, value))
        return typed.Sequence(store.type, token, (*parts, store), len(parts))

    def _postfix(self, node: tree.Postfix) -> typed.Expression:
        parts: list[typed.Expression] = []
        one = typed.Constant(type_of(INT), node.token, 1)
        if isinstance(node.operand, tree.Name | tree.Member):
            old = self.temporary(self.check(node.operand), parts)
            new = self._updated(node.token, node.operand, node.token.text[0], one)
        else:
            pointer, mask = self._address(node.operand)
            pointer = self.temporary(pointer, parts)
            mask = None if mask is None else self.temporary(mask, parts)
            old = self.temporary(self._loaded(node.operand.token, pointer, mask), parts)
            new = self._stored(node.token, pointer, mask, self._operated(_operator(node.token, node.token.text[0]), old, one))
        return typed.Sequence(old.type, node.token, (*parts, new, old), len(parts) + 1)


def _operator(token: Token, text: str) -> Token:
    """Return the operator that stands in `+=` or `++`."""
    return Token(token.kind, text, token.source, token.start, token.is_spaced, False, token.macro)


_SPECIAL: dict[str, Callable[[ExpressionChecker, tree.Binary], typed.Expression]] = {
    "&&": ExpressionChecker._logical, "||": ExpressionChecker._logical, ",": ExpressionChecker._comma,
    "...": ExpressionChecker.check_range,
}  # fmt: skip
"""Binary operators that do not evaluate their operands one after the other."""
_CHECKS: dict[type[tree.Expression], Callable[[ExpressionChecker, Any], typed.Expression]] = {
    tree.Literal: ExpressionChecker._literal, tree.Name: ExpressionChecker._name, tree.TypeName: ExpressionChecker._type_name,
    tree.Unary: ExpressionChecker._unary, tree.Binary: ExpressionChecker._binary,
    tree.Conditional: ExpressionChecker._conditional, tree.Cast: ExpressionChecker._cast,
    tree.Bitcast: ExpressionChecker._bitcast, tree.SizeOf: ExpressionChecker._size,
    tree.MaskedDereference: ExpressionChecker._masked, tree.Assignment: ExpressionChecker._assignment,
    tree.Postfix: ExpressionChecker._postfix, tree.Subscript: ExpressionChecker.check_subscript,
    tree.Call: ExpressionChecker.check_call, tree.Member: ExpressionChecker.check_member,
    tree.CompoundLiteral: ExpressionChecker.check_compound_literal, tree.Erroneous: ExpressionChecker._erroneous,
}  # fmt: skip


__all__ = ["ExpressionChecker"]
