"""Checks what stands outside of functions and holds values: constants, and tables in constant memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NoReturn

from ..reading.source import Token
from ..syntax import tree
from ..types import (
    INT,
    LONG,
    VOID,
    Pointer,
    Scalar,
    Type,
    joined_shape,
    pointer_to,
    promoted,
    size_of,
    type_of,
)
from . import typed
from .context import Entry, Tentative
from .conversions import CheckAbort, folded_binary, rounded
from .records import RecordChecker

MAX_TABLE = 1 << 24
"""Bytes of a table."""
_ARITHMETIC = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y}
_HELP = "elements of a table are taken at integers, or blocks of them: t[i], t[i, j]"


class TableChecker(RecordChecker):
    """The part of the checker that knows of constant memory."""

    def declare_outside(self, node: tree.Declaration) -> None:
        """Take in variables outside of functions: constants, and tables. Those without values may be defined behind."""
        for each in node.declarators:
            found: typed.Constant | typed.Record | typed.Table | None = None
            before = self.scopes[-1].get(each.name)
            try:
                if each.value is None and each.type.constant[0] and not each.attributes:
                    self._declare_tentatively(each, before)
                    continue
                found = self._outside(each)
                if isinstance(before, Tentative):
                    self._compare_tentative(each, before)
            except CheckAbort:
                self.take_events()
            if isinstance(before, Tentative):
                self.scopes[-1][each.name] = found
            else:
                self.declare(each.token, found)

    def _declare_tentatively(self, node: tree.Declarator, before: Entry | None) -> None:
        """Take in a declaration without a value; what defines it may stand before or behind it."""
        if before is None and node.name in self.scopes[-1]:
            self.abort()
        if isinstance(before, Tentative):
            self._compare_tentative(node, before)
        elif isinstance(before, typed.Constant | typed.Record | typed.Table):
            self._compare_tentative(node, Tentative(node, *_outline_of(before)))
        else:
            self.declare(node.token, Tentative(node, *self._outline(node)))

    def _outline(self, node: tree.Declarator) -> tuple[Type, tuple[int, ...] | None]:
        """Return what declarations of one constant have in common: the type, and of a table its element and shape."""
        if node.type.shape is None:
            return self.resolve(node.type), None
        plain = tree.TypeName(node.type.token, node.type.base, node.type.constant, None, node.type.definition)
        return self.resolve(plain), tuple(self.constant(each, "the extent of a table") for each in node.type.shape)

    def _compare_tentative(self, node: tree.Declarator, before: Tentative) -> None:
        """Compare a declaration with an earlier one. An empty shape `[]` says nothing of extents."""
        type_, shape = self._outline(node)
        is_same = (type_.element, type_.shape, shape is None) == (before.type.element, before.type.shape, before.shape is None)
        if not is_same or (shape and before.shape and shape != before.shape):
            self.fail(node.token, f"{node.name} is declared before as something else", "the same type and extents in both")

    def finish_outside(self) -> None:
        """Tell of constants that are declared and have no definition."""
        for name, entry in self.scopes[0].items():
            if isinstance(entry, Tentative):
                with self.reported():
                    self._fail_without_value(entry.node, entry.type)
                self.scopes[0][name] = None

    def _fail_without_value(self, node: tree.Declarator, type_: Type) -> NoReturn:
        if node.type.shape is not None:
            self.fail(node.token, f"table {node.name} has no values", f"{node.name}[…] = {{…}}, or T *p = calloc(bytes)")
        fix = f"T *{node.name} = calloc(bytes)" if type_.is_pointer or type_.shape else f"{node.name} = …"
        self.fail(node.token, f"{node.name} of type {type_} in constant memory has no values", fix)

    def _outside(self, node: tree.Declarator) -> typed.Constant | typed.Record | typed.Table:
        is_allocated = isinstance(node.value, tree.Call) and node.value.token.text == "calloc"
        if not node.type.constant[0]:
            self.fail(node.token, f"{node.name} is a variable outside of functions", "__constant__ before it, #define or enum")
        if node.attributes:
            self.fail(node.attributes[0].token, f"{node.attributes[0].token.text} on {node.name}; it is for parameters")
        if is_allocated and isinstance(node.value, tree.Call):
            return self._allocated(node, node.value)
        if node.type.shape is not None:
            return self._listed(node)
        type_ = self.resolve(node.type)
        if node.value is None:
            self._fail_without_value(node, type_)
        if type_.shape or type_.is_pointer:
            fix = f"{node.name}[N] = {{…}}, or T *{node.name} = calloc(bytes)"
            self.fail(node.token, f"{node.name} of type {type_} in constant memory has no values", fix)
        value = self.initialized(node.token, type_, node.value, node.name)
        if isinstance(value, typed.Record):
            return self._constant_record(value, node.value)
        return typed.Constant(type_, node.token, self._number(value, node.value))

    def _constant_record(self, value: typed.Record, expression: tree.Expression) -> typed.Record:
        """Return a struct whose leaves are numbers."""
        computed = {each.symbol: each.value for each in value.before if isinstance(each, typed.Assign)}
        numbers = []
        for leaf in value.leaves:
            while isinstance(leaf, typed.Variable) and leaf.symbol in computed:
                leaf = computed[leaf.symbol]
            if leaf.type.shape or leaf.type.is_pointer:
                self.fail(expression.token, f"a {leaf.type} of a struct in constant memory", "members that are numbers")
            numbers.append(typed.Constant(leaf.type, leaf.token, self._number(leaf, expression)))
        return typed.Record(value.type, value.token, (), tuple(numbers))

    def _allocated(self, node: tree.Declarator, call: tree.Call) -> typed.Table:
        """Check `__constant__ T *name = calloc(bytes)`, a table that the host fills in."""
        type_ = self.resolve(node.type)
        element = type_.element
        if not isinstance(element, Pointer) or type_.shape or not isinstance(element.pointee, Scalar):
            self.fail(node.token, f"calloc for {node.name} of type {type_}", f"__constant__ char *{node.name} = calloc(bytes)")
        if len(call.arguments) != 1:
            self.fail(call.token, f"calloc takes 1 argument, got {len(call.arguments)}", "calloc(bytes)")
        size = self.constant(call.arguments[0], "the size of a table")
        scalar = element.pointee
        of_one = size_of(type_of(scalar))
        if scalar == VOID or size < 1 or size % of_one:
            self.fail(call.token, f"calloc({size}) for {type_}", f"a positive multiple of {of_one} bytes")
        return self._table(node, scalar, (size // of_one,), None)

    def _listed(self, node: tree.Declarator) -> typed.Table:
        """Check `__constant__ T name[4, 2] = {…}`."""
        plain = tree.TypeName(node.type.token, node.type.base, node.type.constant, None, node.type.definition)
        element = self.resolve(plain).element
        if not isinstance(element, Scalar) or element.kind == "struct":
            is_struct = isinstance(element, Scalar) and element.kind == "struct"
            self.fail(node.token, f"a table of {element}", "one table for each member" if is_struct else "numbers")
        if not isinstance(node.value, tree.Braces):
            self.fail(node.token, f"table {node.name} has no values", f"{node.name}[…] = {{…}}, or T *p = calloc(bytes)")
        shape = tuple(self.constant(each, "the extent of a table") for each in node.type.shape or ())
        if any(extent < 1 for extent in shape):
            self.fail(node.token, f"table {node.name} has extents {list(shape)}", "positive ones")
        if not shape:
            shape = (max(1, self._length(node.value)),)
        if prod(shape) * size_of(type_of(element)) > MAX_TABLE:
            self.fail(node.token, f"table {node.name} of {prod(shape)} elements is larger than {MAX_TABLE} bytes")
        values: list[int | float] = [0] * prod(shape)
        self._fill(values, node.value, shape, 0, element)
        return self._table(node, element, shape, tuple(values))

    def _table(
        self, node: tree.Declarator, element: Scalar, shape: tuple[int, ...], values: tuple[int | float, ...] | None
    ) -> typed.Table:
        if prod(shape) * size_of(type_of(element)) > MAX_TABLE:
            self.fail(node.token, f"table {node.name} of {prod(shape)} elements is larger than {MAX_TABLE} bytes")
        symbol = typed.Symbol(node.name, type_of(pointer_to(element, True)), node.token, is_constant=True)
        return typed.Table(symbol, shape, values)

    def _length(self, node: tree.Braces) -> int:
        """Return how many elements initial values in braces tell of."""
        following = most = 0
        for designators, _ in node.entries:
            if designators:
                following = self._index(designators[0])[0]
            following += 1
            most = max(most, following)
        return most

    def _index(self, node: tree.Designator) -> tuple[int, ...]:
        """Return the indices of `[1, 2] =`."""
        if node.indices is None:
            self.fail(node.token, f".{node.token.text} in a table, which has no members", "[index] =")
        for each in node.indices:
            if each.token.text == "...":
                self.fail(each.token, "a range of indices before an initial value", "one value for each index")
        return tuple(self.constant(each, "the index that an initial value is for") for each in node.indices)

    def _fill(
        self, values: list[int | float], node: tree.Braces, shape: Sequence[int], start: int, element: Scalar
    ) -> None:
        """Put values in braces into a table, or into a part of it. What has no value is 0.

        Without braces of their own, values fill one row after the other.
        """
        count = prod(shape)
        is_flat = all(not designators and not isinstance(each, tree.Braces) for designators, each in node.entries)
        if is_flat and len(node.entries) > count:
            what = "an axis" if len(shape) == 1 else "axes"
            extents = shape[0] if len(shape) == 1 else list(shape)
            self.fail(node.entries[count][1].token, f"{len(node.entries)} values for {what} of {extents}")
        at = 0
        for designators, expression in node.entries:
            inner = tuple(shape)
            if designators:
                at, inner = self._designated(designators, inner)
            elif at >= count:
                self.fail(expression.token, f"too many values for a table of shape {list(shape)}")
            else:
                inner = inner[1:]
                while at % prod(inner):  # the largest part that begins here
                    inner = inner[1:]
            if isinstance(expression, tree.Braces):
                if not inner:
                    (expression,) = self._only(expression)
                else:
                    self._fill(values, expression, inner, start + at, element)
                    at += prod(inner)
                    continue
            value = self.assigned(expression.token, self.check(expression), type_of(element), "an element")
            values[start + at] = self._number(value, expression)
            at += 1

    def _only(self, node: tree.Braces) -> tuple[tree.Expression]:
        """Return the number in braces around an element."""
        if len(node.entries) != 1 or node.entries[0][0] or isinstance(node.entries[0][1], tree.Braces):
            self.fail(node.token, "braces around an element of a table, not with one number in them", "the number alone")
        return (node.entries[0][1],)

    def _designated(self, designators: Sequence[tree.Designator], shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Return which element `[1, 2] =` begins with, and the shape of what it is for."""
        at = 0
        for each in designators:
            for index in self._index(each):
                if not shape:
                    self.fail(each.token, "more indices than the table has axes", "one for each")
                if not 0 <= index < shape[0]:
                    message = f"the index {index} of an initial value lies outside the table"
                    self.fail(each.token, f"{message}, which has {shape[0]} elements there", f"0 to {shape[0] - 1}")
                shape = shape[1:]
                at += index * prod(shape)
        return at, shape

    def _number(self, value: typed.Expression, expression: tree.Expression) -> int | float:
        """Return the value of a constant expression. Those of floats are computed as the device would."""
        self.take_events()
        if isinstance(value, typed.Constant):
            return value.value
        element = value.type.element
        if isinstance(element, Scalar):
            if isinstance(value, typed.Convert) and isinstance(value.operand.type.element, Scalar):
                number = self._number(value.operand, expression)
                operand = typed.Constant(value.operand.type, value.token, number)
                folded = self.convert(operand, element)
                if isinstance(folded, typed.Constant):
                    return folded.value
            if isinstance(value, typed.Unary) and value.operator == "-" and element.is_float:
                return -self._number(value.operand, expression)
            if isinstance(value, typed.Binary) and value.operator in _ARITHMETIC:
                x, y = (self._number(each, expression) for each in (value.left, value.right))
                if element.is_float and (y or value.operator != "/"):
                    return rounded(_ARITHMETIC[value.operator](x, y), element)
                found = folded_binary(
                    value.operator, typed.Constant(value.type, value.token, x), typed.Constant(value.type, value.token, y),
                    value.token,
                )  # fmt: skip
                if found is not None:
                    return found.value
        self.fail(expression.token, "a value in constant memory is no constant", "numbers, and arithmetic of them")

    def table_of(self, node: tree.Expression) -> typed.Table | None:
        """Return the table that a name means; None for everything else."""
        if not isinstance(node, tree.Name):
            return None
        found = self.look_up(node.token)
        return found if isinstance(found, typed.Table) else None

    @staticmethod
    def table_size(table: typed.Table) -> int:
        """Return the bytes of a table."""
        pointer = table.symbol.type.element
        assert isinstance(pointer, Pointer)
        return prod(table.shape) * size_of(type_of(pointer.pointee))

    def read_table(self, table: typed.Table, token: Token) -> typed.Expression:
        """Return the address of a table."""
        self.tables[table] = None
        return self.read(table.symbol, token)

    def check_table_element(self, node: tree.Subscript, table: typed.Table) -> typed.Expression:
        """Check `t[i, j]`: a load from constant memory."""
        if len(node.entries) != len(table.shape):
            message = f"{len(node.entries)} indices of table {table.name}, which has {len(table.shape)} axes"
            self.fail(node.token, message, _HELP)
        offset: typed.Expression | None = None
        for entry, extent in zip(node.entries, table.shape, strict=True):
            if entry.kind != "index" or entry.value is None:
                self.fail(entry.token, f"{entry.kind} in a subscript of table {table.name}", _HELP)
            index = self.check(entry.value)
            element = index.type.element
            if not isinstance(element, Scalar) or not element.is_integer:
                self.fail(entry.token, f"an index of type {index.type} of table {table.name}", "an integer, or a cast")
            if isinstance(index, typed.Constant) and not 0 <= index.value < extent:
                message = f"the index {index.value} lies outside table {table.name}, which has {extent} elements there"
                self.fail(entry.token, message, f"0 to {extent - 1}")
            index = self.convert(index, promoted(element))
            offset = index if offset is None else self._row_major(entry.token, offset, extent, index)
        assert offset is not None
        pointer = self.read_table(table, node.token)
        shape = offset.type.shape
        moved = typed.MovePointer(type_of(pointer.type.element, shape), node.token, self.broadcast(pointer, shape), offset)
        return typed.Load(type_of(self.pointee(pointer, node.token), shape), node.token, moved, None)

    def _row_major(self, token: Token, outer: typed.Expression, extent: int, inner: typed.Expression) -> typed.Expression:
        """Return `outer * extent + inner`, whatever integers they are."""
        element = LONG if LONG.bits in (_width(outer.type), _width(inner.type)) else INT
        shape = joined_shape(outer.type.shape, inner.type.shape)
        if shape is None:
            self.joined(token, outer, inner)  # which fails, and says why
        outer, inner = self.convert(outer, element), self.convert(inner, element)
        size = self.broadcast(typed.Constant(type_of(element), token, extent), outer.type.shape)
        product: typed.Expression
        product = folded_binary("*", outer, size, token) or typed.Binary(outer.type, token, "*", outer, size)
        product, inner = self.joined(token, product, inner)
        return folded_binary("+", product, inner, token) or typed.Binary(product.type, token, "+", product, inner)


def _outline_of(defined: typed.Constant | typed.Record | typed.Table) -> tuple[Type, tuple[int, ...] | None]:
    """Return what the declarations of a constant that is defined have said, as `_outline` does."""
    if not isinstance(defined, typed.Table):
        return defined.type, None
    pointer = defined.symbol.type.element
    if defined.values is None or not isinstance(pointer, Pointer):
        return defined.symbol.type, None
    return type_of(pointer.pointee), defined.shape


def _width(type_: Type) -> int:
    return type_.element.bits if isinstance(type_.element, Scalar) else LONG.bits


__all__ = ["TableChecker"]
