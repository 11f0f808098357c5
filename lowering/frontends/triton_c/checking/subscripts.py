"""Checks what reshapes blocks: views, reductions and permutations in subscripts, the prefix `^`, ranges and `@`."""

from __future__ import annotations

from ..reading.source import Token
from ..syntax import tree
from ..types import (
    BFLOAT16,
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    MAX_RANK,
    Scalar,
    Type,
    promoted,
    type_of,
    wrapped,
)
from . import typed
from .context import first_token
from .tables import TableChecker

_REDUCTIONS = frozenset(["+", "max", "min", "*", "&", "|"])
_HELP = "subscripts reshape (`:`, newaxis), reduce (`+`, max, min), transpose (`^axis`) or take elements at integers"


class SubscriptChecker(TableChecker):
    """The part of the checker that knows of shapes."""

    def check_subscript(self, node: tree.Subscript) -> typed.Expression:
        """Check `x[…]`."""
        table = self.table_of(node.operand)
        if table is not None:
            return self.check_table_element(node, table)
        operand = self.check(node.operand)
        self.refuse_record(node.token, operand, "a subscript")
        rank = len(operand.type.shape)
        if not rank:
            is_indexed = operand.type.is_pointer and len(node.entries) == 1 and node.entries[0].kind == "index"
            fix = self._as_load(node) if is_indexed else _HELP
            self.fail(node.token, f"a subscript of a value of type {operand.type}, which is no block", fix)
        for entry in node.entries:
            if entry.kind == "slice":
                self.fail(entry.token, f"an interval in a subscript of {operand.type}; {_HELP}", "a mask")
            if entry.kind == "-":
                self.fail(entry.token, "there is no reduction by -", "[+] of the negated block")
        if len(node.entries) > MAX_RANK:
            self.fail(node.token, f"a subscript with {len(node.entries)} entries; at most {MAX_RANK} are possible")
        if any(entry.kind == "^" for entry in node.entries):
            return self._permuted(node, operand)
        named = sum(entry.kind != "newaxis" for entry in node.entries)
        if named != rank:
            self.fail(node.token, f"the subscript names {named} axes of {operand.type}, which has {rank}", _HELP)
        return self._viewed(node, operand)

    @staticmethod
    def _as_load(node: tree.Subscript) -> str:
        """Return how an element behind a pointer is written."""
        index = node.entries[0].value
        names = [each.token.text if isinstance(each, tree.Name | tree.Literal) else "" for each in (node.operand, index)]
        return f"*({names[0] or 'p'} + {names[1] or 'i'})"

    def _viewed(self, node: tree.Subscript, operand: typed.Expression) -> typed.Expression:
        """Reduce axes and take elements from left to right, then insert new axes."""
        value, axis = operand, 0
        indices: list[Token] = []
        positions: list[int] = []
        kept = 0
        for entry in node.entries:
            if entry.kind == "newaxis":
                positions.append(kept)
                kept += 1
            elif entry.kind == ":":
                axis += 1
                kept += 1
            elif entry.kind == "index" and entry.value is not None:
                rank = len(value.type.shape)
                value = self._gathered(entry.token, value, self.check(entry.value), axis)
                if len(value.type.shape) == rank:
                    indices.append(entry.token)
                    axis += 1
                    kept += 1
                if len(indices) > 1:
                    message = "two blocks of indices in one subscript, which may mean their pairs or all combinations"
                    self.fail(entry.token, message, "one subscript behind the other, for all combinations")
            else:
                value = self._reduced(entry.token, value, entry.kind, axis)
        if not positions:
            return value
        if not value.type.shape:  # every axis is reduced: a block of one element for each new axis
            return self.broadcast(value, self.check_shape(node.token, (1,) * len(positions)))
        shape = list(value.type.shape)
        for position in positions:
            shape.insert(position, 1)
        self.check_shape(node.token, tuple(shape), operand.type.shape)
        return typed.View(type_of(value.type.element, tuple(shape)), node.token, value, tuple(positions))

    def _reduced(self, token: Token, value: typed.Expression, operator: str, axis: int) -> typed.Expression:
        element = value.type.element
        if operator not in _REDUCTIONS or not isinstance(element, Scalar):
            self.fail(token, f"a reduction of {value.type} by {operator}", "numbers, and one of + max min * & |")
        if operator in ("&", "|") and element.is_float:
            self.fail(token, f"a reduction of {value.type} by {operator}, which needs integers")
        if element == BOOL and operator in ("+", "*"):
            value, element = self.convert(value, INT), INT
        shape = value.type.shape
        return typed.Reduce(type_of(element, (*shape[:axis], *shape[axis + 1 :])), token, operator, value, axis)

    def _gathered(self, token: Token, value: typed.Expression, index: typed.Expression, axis: int) -> typed.Expression:
        """Take the elements at an index along an axis."""
        element, shape, extent = index.type.element, value.type.shape, value.type.shape[axis]
        if not isinstance(element, Scalar) or not element.is_integer:
            self.fail(token, f"an index of type {index.type} in a subscript of {value.type}", "an integer, or a cast")
        if len(index.type.shape) > 1:
            fix = "a block of one axis: its rows one after the other"
            self.fail(token, f"an index of type {index.type} in a subscript of {value.type}, which has several axes", fix)
        if isinstance(index, typed.Constant) and isinstance(index.value, int) and not 0 <= index.value < extent:
            message = f"the index {index.value} lies outside axis {axis} of {value.type}, which has {extent} elements"
            self.fail(token, message, f"0 to {extent - 1}")
        index = self.convert(index, promoted(element))
        shape = (*shape[:axis], *index.type.shape, *shape[axis + 1 :])
        self.check_shape(token, shape, value.type.shape, index.type.shape)
        return typed.Gather(type_of(value.type.element, shape), token, value, index, axis)

    def _permuted(self, node: tree.Subscript, operand: typed.Expression) -> typed.Expression:
        rank = len(operand.type.shape)
        order = []
        for entry in node.entries:
            if entry.kind != "^" or entry.value is None:
                self.fail(entry.token, f"{entry.kind} beside ^ in one subscript", "x[^1, ^0] first, then another subscript")
            order.append(self.constant(entry.value, "the axis of a permutation"))
        if sorted(order) != list(range(rank)):
            shown = ", ".join(f"^{axis}" for axis in order)
            self.fail(node.token, f"[{shown}] is no permutation of the {rank} axes of {operand.type}", "each axis once")
        return self.transposed(node.token, operand, tuple(order))

    def transposed(self, token: Token, operand: typed.Expression, order: tuple[int, ...]) -> typed.Expression:
        """Return the operand with its axes permuted."""
        if order == tuple(range(len(order))):
            return operand
        shape = tuple(operand.type.shape[axis] for axis in order)
        return typed.Transpose(type_of(operand.type.element, shape), token, operand, order)

    def check_transpose(self, token: Token, operand: typed.Expression) -> typed.Expression:
        """Check the prefix `^`, which rotates the axes left by one."""
        self.refuse_record(token, operand, "^")
        rank = len(operand.type.shape)
        if not rank:
            self.fail(token, f"^ of a value of type {operand.type}, which is no block")
        return self.transposed(token, operand, (*range(1, rank), 0))

    def check_range(self, node: tree.Binary) -> typed.Expression:
        """Check `a ... b`, the integers from a to b - 1."""
        bounds = []
        for side, expression in (("start", node.left), ("end", node.right)):
            value = self.check(expression)
            if not (isinstance(value, typed.Constant) and isinstance(value.value, int)):
                fix = "start + 0 ... N" if side == "start" else "a constant end, and a mask"
                self.fail(first_token(expression), f"the {side} of a range is no constant integer", fix)
            bounds.append(value.value)
        start, end = bounds
        values = self.macro_values(node.left, node.right)
        length = end - start
        if length <= 0:
            self.fail(node.token, f"the range {start} ... {end} is empty{values}")
        if length & (length - 1):
            fix = f"{start} ... {start + (1 << length.bit_length())}, and a mask"
            self.fail(node.token, f"the range {start} ... {end} has {length} elements{values}, which is no power of two", fix)
        if wrapped(start, INT) != start or wrapped(end - 1, INT) != end - 1:
            self.fail(node.token, f"the range {start} ... {end} does not fit into int{values}", "start + 0 ... N")
        if length > 1 << 20:
            self.fail(node.token, f"the range {start} ... {end} has {length} elements{values}; at most {1 << 20} are possible")
        return typed.Range(type_of(INT, (length,)), node.token, start)

    def check_product(
        self, token: Token, a: typed.Expression, b: typed.Expression, accumulator: typed.Expression | None = None
    ) -> typed.Expression:
        """Check `a @ b`: products of matrices, whose batch axis comes last."""
        left, right = a.type, b.type
        for each in (a, b):
            self.refuse_record(token, each, "@")
        rank = len(left.shape)
        if rank < 2 or len(right.shape) != rank or rank > 3:
            self.fail(token, f"{left} @ {right}: both are blocks of two axes, or of three with a batch axis that is the last")
        if left.element != right.element or not isinstance(left.element, Scalar):
            self.fail(token, f"{left} @ {right}: the elements differ, or are no numbers", "a cast of one of them")
        if left.shape[1] != right.shape[0]:
            message = f"{left} @ {right}: axis 1 of the first and axis 0 of the second must agree"
            fix = "^ before one of them" if self._would_agree(left, right) else ""
            self.fail(token, f"{message}, and are {left.shape[1]} and {right.shape[0]}", fix)
        if left.shape[2:] != right.shape[2:]:
            self.fail(token, f"{left} @ {right}: the batches, axis 2, are {left.shape[2]} and {right.shape[2]}")
        element = left.element
        if element == BOOL:
            self.fail(token, f"{left} @ {right}: a product of bools", "a cast to int8, or & and [|]")
        result = FLOAT if element in (HALF, BFLOAT16) else INT if element.rank == CHAR.rank else element
        if element.kind == "int" and element.bits < INT.bits and element != CHAR:
            # the block IR multiplies bytes as signed ones, and has no sums of 16 bits: ints have all bits that are wanted
            a, b, element = self.convert(a, INT), self.convert(b, INT), INT
        elif element in (HALF, BFLOAT16, CHAR):
            element = result
        shape = (left.shape[0], right.shape[1], *left.shape[2:])
        type_ = type_of(element, self.check_shape(token, shape, left.shape, right.shape))
        if result != element:
            product = self.convert(typed.Dot(type_, token, a, b, None), result)
            return product if accumulator is None else self._summed(token, product, accumulator)
        if accumulator is not None:
            accumulator = self.assigned(token, accumulator, type_, "the product")
        return typed.Dot(type_, token, a, b, accumulator)

    def _summed(self, token: Token, product: typed.Expression, accumulator: typed.Expression) -> typed.Expression:
        """Return a product plus what it is added to, in the product's type."""
        accumulator = self.assigned(token, accumulator, product.type, "the product")
        return typed.Binary(product.type, token, "+", product, accumulator)

    def refuse_record(self, token: Token, value: typed.Expression, what: str) -> None:
        """Fail for a struct, of which there is no such thing."""
        if isinstance(value, typed.Record):
            self.fail(token, f"{what} of a value of type {value.type}", "a member, v.name")

    @staticmethod
    def _would_agree(left: Type, right: Type) -> bool:
        return left.shape[1] == right.shape[1] or left.shape[0] == right.shape[0]


__all__ = ["SubscriptChecker"]
