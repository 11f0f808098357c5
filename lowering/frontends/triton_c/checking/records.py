"""Checks structs and unions. They end here: the typed tree has a variable for each number that a struct consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .....promotion.dataclass import dataclass
from .....promotion.errors import close_names
from ..reading.diagnostics import Diagnostics
from ..reading.source import Token
from ..syntax import tree
from ..types import (
    BOOL,
    INT,
    UNSIGNED_LONG,
    VOID,
    Pointer,
    Scalar,
    Struct,
    Type,
    joined_shape,
    leaves_of,
    struct_of,
    type_of,
)
from . import typed
from .context import Context

MAX_PARTS = 256
"""Numbers and pointers that a struct consists of, with those of the structs in it."""
LVALUES = "what is assigned to is a name, a member, *p or *?(m)p"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lvalue:
    """A variable, or a part of one. A member of a union has another type than its symbol."""

    name: str
    type: Type
    symbols: tuple[typed.Symbol, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A struct or a part of one: what messages call it, and which of the leaves of the whole are its own."""

    path: str
    type: Type
    positions: tuple[int, ...]


class RecordChecker(Context):
    """The part of the checker that knows of structs and unions."""

    def __init__(self, diagnostics: Diagnostics, single: bool, tokens: Sequence[Token]) -> None:
        super().__init__(diagnostics, single, tokens)
        self._defined: dict[int, Struct | None] = {}

    # Definitions

    def define_once(self, node: tree.Structure | tree.Enumeration) -> Struct | None:
        """Take in a definition that several variables share; return the type that it gives, None for an enum."""
        if id(node) not in self._defined:
            self._defined[id(node)] = None
            if isinstance(node, tree.Structure):
                self._defined[id(node)] = self._defined_structure(node)
            else:
                self._define_constants(node)
        return self._defined[id(node)]

    def _define_constants(self, node: tree.Enumeration) -> None:
        number = 0
        for token, expression in node.members:
            if expression is not None:
                number = self.constant(expression, f"the value of {token.text}")
            is_int = -(1 << 31) <= number < 1 << 31
            if not is_int:
                message = f"the constant {token.text} of an enum is {number}, which is no int"
                self.diagnostics.error(token, message, "a smaller number")
            self.declare(token, typed.Constant(type_of(INT), token, number) if is_int else None)
            number += 1

    def _defined_structure(self, node: tree.Structure) -> Struct | None:
        is_named = " " in node.name
        members: dict[str, Type] = {}
        is_sound = True
        for each in node.members:
            with self.reported() as reported:
                type_ = self.resolve(each.type)
                names = [each.name]
                if not each.name and isinstance(type_.element, Struct):
                    names = type_.element.names
                taken = set(names) & {name for known in members.items() for name in _names_of(*known)}
                if taken:
                    self.fail(each.token, f"{min(taken)} is twice a member of {node.name}", "another name")
                members[each.name or f" {len(members)}"] = type_
                if each.type.constant[-1]:
                    self.fail(each.token, f"{each.name} is a const member of {node.name}", "const before the variable")
            is_sound = is_sound and not reported
        if not is_sound:
            if is_named:
                self.declare(node.token, None, node.name)
            return None
        is_union = node.token.text == "union"
        if is_union:
            self._check_union(node, members)
        found = struct_of(node.name, tuple(members.items()), is_union)
        if len(leaves_of(type_of(found))) > MAX_PARTS:
            self.fail(node.token, f"{node.name} consists of more than {MAX_PARTS} numbers", "blocks for members")
        if is_named:
            self.declare(node.token, type_of(found), node.name)
        return found

    def _check_union(self, node: tree.Structure, members: dict[str, Type]) -> None:
        """Refuse members that are no other views of one another's bits."""
        first = next(iter(members))
        for each in node.members:
            type_ = self.resolve(each.type)
            if isinstance(type_.element, Struct) or type_.element == BOOL:
                fix = "numbers and pointers of one width"
                self.fail(each.token, f"{each.name or 'one'} of type {type_} is a member of {node.name}", fix)
            if _bits(type_) != _bits(members[first]) or type_.shape != members[first].shape:
                message = f"the members of {node.name} differ in width: {first} is {_shown(members[first])}, {each.name} is "
                self.fail(each.token, message + _shown(type_), "members of one width and shape, or a struct")

    # Members

    def selected(self, type_: Type, parts: Sequence[T], name: Token) -> tuple[Type, tuple[T, ...]]:
        """Return the type of a member, and those of a struct's parts that belong to it."""
        element = type_.element
        if not isinstance(element, Struct):
            self.fail(name, f"member {name.text} of a value of type {type_}, which has no members")
        at = 0
        for member, own in element.members:
            found = type_of(own.element, type_.shape or own.shape)
            count = len(leaves_of(found))
            if member == name.text:
                return found, tuple(parts[at : at + count])
            if member.startswith(" ") and name.text in _names_of(member, own):
                return self.selected(found, parts[at : at + count], name)
            at += 0 if element.is_union else count
        close = close_names(name.text, element.names)
        known = f"did you mean {' or '.join(close)}?" if close else ", ".join(element.names)
        self.fail(name, f"{element} has no member {name.text}", known)

    def check_member(self, node: tree.Member) -> typed.Expression:
        """Check `v.name`. Of a variable, nothing but the member is read."""
        root: tree.Expression = node
        while isinstance(root, tree.Member):
            root = root.operand
        if isinstance(root, tree.Name) and isinstance(self.look_up(root.token), typed.Aggregate):
            lvalue = self.lvalue(node)
            self.spend(node.token, len(lvalue.symbols) - 1)
            reads = tuple(self.read(symbol, node.token) for symbol in lvalue.symbols)
            return self._value(lvalue.type, node.token, (), reads)
        value = self.check(node.operand)
        record = value if isinstance(value, typed.Record) else None
        type_, leaves = self.selected(value.type, () if record is None else record.leaves, node.name)
        return self._value(type_, node.token, () if record is None else record.before, leaves)

    def _value(
        self, type_: Type, token: Token, before: tuple[typed.Expression, ...], leaves: tuple[typed.Expression, ...]
    ) -> typed.Expression:
        """Return a value that consists of some leaves, behind what is evaluated first."""
        if isinstance(type_.element, Struct):
            return typed.Record(type_, token, before, leaves)
        leaf = _bits_as(leaves[0], type_)
        return typed.Sequence(leaf.type, token, (*before, leaf), len(before)) if before else leaf

    # Variables

    def lvalue(self, target: tree.Expression) -> Lvalue:
        """Return the variable that a name means, or its part that `v.name` means."""
        names: list[Token] = []
        while isinstance(target, tree.Member):
            names.append(target.name)
            target = target.operand
        if not isinstance(target, tree.Name):
            self.fail(target.token, f"this is not assigned to; {LVALUES}")
        found = self.look_up(target.token)
        if found is None:
            self.abort()
        if not isinstance(found, typed.Symbol | typed.Aggregate):
            self.fail(target.token, f"{target.token.text} is a constant or a type; {LVALUES}")
        type_, symbols = found.type, found.symbols if isinstance(found, typed.Aggregate) else (found,)
        for name in reversed(names):
            type_, symbols = self.selected(type_, symbols, name)
        return Lvalue(".".join([found.name, *(name.text for name in reversed(names))]), type_, symbols)

    def target(self, target: tree.Expression) -> Lvalue:
        """Return the variable, or the part of one, that is assigned to."""
        lvalue = self.lvalue(target)
        token = target.name if isinstance(target, tree.Member) else target.token
        if any(symbol.is_constant for symbol in lvalue.symbols):
            self.fail(token, f"{lvalue.name} is const, and is assigned to", "a declaration without const")
        if self.arms:
            fix = f"{lvalue.name} = c ? … : {lvalue.name}"
            self.fail(token, f"an arm of ?: on a block of conditions assigns {lvalue.name}", fix)
        return lvalue

    def read_lvalue(self, lvalue: Lvalue, token: Token) -> typed.Expression:
        """Return the value of a variable or of a part of one."""
        self.spend(token, len(lvalue.symbols) - 1)
        return self._value(lvalue.type, token, (), tuple(self.read(symbol, token) for symbol in lvalue.symbols))

    def write(self, token: Token, lvalue: Lvalue, value: typed.Expression) -> typed.Expression:
        """Return the assignment of a value to a variable or a part of one."""
        value = self.assigned(token, value, lvalue.type, lvalue.name)
        if not isinstance(value, typed.Record):
            (symbol,) = lvalue.symbols
            if symbol.type.element is lvalue.type.element:
                self.written(symbol)
                return typed.Assign(symbol.type, token, symbol, value)
            kept: list[typed.Expression] = []
            value = self.reusable(value, kept)
            self.written(symbol)
            kept.append(typed.Assign(symbol.type, token, symbol, _bits_as(value, symbol.type)))
            return typed.Sequence(value.type, token, (*kept, value), len(kept))
        self.spend(token, 2 * len(lvalue.symbols))
        parts = list(value.before)
        leaves = [
            self.temporary(leaf, parts) if isinstance(leaf, typed.Variable) and leaf.symbol in lvalue.symbols else leaf
            for leaf in value.leaves
        ]
        for symbol, leaf in zip(lvalue.symbols, leaves, strict=True):
            self.written(symbol)
            parts.append(typed.Assign(symbol.type, token, symbol, leaf))
        return typed.Record(lvalue.type, token, tuple(parts), tuple(self.read(symbol, token) for symbol in lvalue.symbols))

    def symbols_for(self, name: str, type_: Type, token: Token, is_constant: bool) -> tuple[typed.Symbol, ...]:
        """Return the variables that a struct of this name consists of."""
        return tuple(typed.Symbol(path, leaf, token, is_constant) for path, leaf in leaves_of(type_, name))

    def reusable(self, value: typed.Expression, parts: list[typed.Expression]) -> typed.Expression:
        """Return a value that can be used several times, and is evaluated in `parts`."""
        return value if isinstance(value, typed.Constant | typed.Variable) else self.temporary(value, parts)

    def captured(self, value: typed.Expression, parts: list[typed.Expression]) -> typed.Expression:
        """Return a value as it is in `parts`, whatever is assigned to variables behind them."""
        return value if isinstance(value, typed.Constant) else self.temporary(value, parts)

    # Values

    def assigned(self, token: Token, value: typed.Expression, type_: Type, what: str) -> typed.Expression:
        """Return a value converted and broadcast as an assignment does to its target."""
        if not isinstance(type_.element, Struct):
            return super().assigned(token, value, type_, what)
        if not isinstance(value, typed.Record) or value.type.element is not type_.element:
            message = f"a value of type {value.type} where {type_.element} is expected"
            self.fail(token, message, f"({type_.element}){{…}}")
        if value.type.shape == type_.shape:
            return value
        leaves = zip(value.leaves, leaves_of(type_), strict=True)
        shaped = tuple(self.to_shape(token, leaf, own.shape, what) for leaf, (_, own) in leaves)
        return typed.Record(type_, token, value.before, shaped)

    def initialized(self, token: Token, type_: Type, value: tree.Expression, what: str) -> typed.Expression:
        """Return what a variable or member is initialized with: an expression, or values in braces for a struct."""
        if isinstance(value, tree.Braces):
            if isinstance(type_.element, Struct) or type_.shape or len(value.entries) != 1 or value.entries[0][0]:
                return self.check_braces(type_, value, what)
            ((_, value),) = value.entries  # C allows braces around one number
            return self.initialized(token, type_, value, what)
        return self.assigned(token, self.check(value), type_, what)

    def check_compound_literal(self, node: tree.CompoundLiteral) -> typed.Expression:
        """Check `(struct s){…}`."""
        type_ = self.resolve(node.type)
        return self.check_braces(type_, node.braces, str(type_))

    def check_braces(self, type_: Type, node: tree.Braces, what: str) -> typed.Expression:
        """Check values in braces, of members in order or by name. Members that have none are 0."""
        element = type_.element
        if not isinstance(element, Struct):
            self.fail(node.token, "brace lists are not supported", "a scalar, which fills a block, or a range 0 ... N")
        before: list[typed.Expression] = []
        leaves = [self._zero(own, node.token) for _, own in leaves_of(type_)]
        self.spend(node.token, 2 * len(leaves))
        whole = _Part(what, type_, tuple(range(len(leaves))))
        following = 0
        for designators, expression in node.entries:
            if not designators and following >= len(leaves):
                count = "one value" if element.is_union else f"{len(element.members)} members"
                self.fail(expression.token, f"too many values for {element}, which has {count}")
            chosen = whole
            for each in designators:
                if each.indices is not None:
                    self.fail(each.token, f"[…] = in values of {chosen.type.element}, which has members", ".name =")
                own, positions = self.selected(chosen.type, chosen.positions, each.token)
                chosen = _Part(f"{chosen.path}.{each.token.text}", own, positions)
            parts = _parts_at(chosen, chosen.positions[0] if designators else following)
            parts = parts if designators else parts[1:]
            if isinstance(expression, tree.Braces):
                part = parts[0]
                value = self.initialized(expression.token, part.type, expression, part.path)
            else:
                value = self.check(expression)
                part = _fitting(parts, value)
                value = self.assigned(expression.token, value, part.type, part.path)
            following = part.positions[-1] + 1
            if isinstance(value, typed.Record):
                before += value.before
                new = tuple(self.captured(leaf, before) for leaf in value.leaves)
            else:
                new = (_bits_as(self.captured(value, before), leaves[part.positions[0]].type),)
            for position, leaf in zip(part.positions, new, strict=True):
                leaves[position] = leaf
        return typed.Record(type_, node.token, tuple(before), tuple(leaves))

    def _zero(self, type_: Type, token: Token) -> typed.Expression:
        zero = self.convert(typed.Constant(type_of(INT), token, 0), type_.element)
        return self.broadcast(zero, type_.shape)

    def chosen_record(
        self,
        token: Token,
        condition: typed.Expression,
        a: typed.Expression,
        b: typed.Expression,
        writes: frozenset[typed.Symbol],
        is_eager: bool,
    ) -> typed.Expression:
        """Return `condition ? a : b` of two structs."""
        if not (isinstance(a, typed.Record) and isinstance(b, typed.Record)) or a.type.element is not b.type.element:
            self.fail(token, f"the arms of a conditional expression are {a.type} and {b.type}", "two values of one type")
        type_ = self._chosen_type(token, condition, a, b)
        self.spend(token, 4 * len(a.leaves))
        parts: list[typed.Expression] = []
        condition = self.reusable(condition, parts)
        if condition.type.shape or is_eager or not (a.before or b.before):
            found = self._selected_leaves(token, condition, a, b, type_, is_eager, parts)
            return typed.Record(type_, token, tuple(parts), found)
        results = [self.temporary_symbol(own, token) for _, own in leaves_of(type_)]
        parts += [typed.Assign(each.type, token, each, self._zero(each.type, token)) for each in results]
        arms = []
        for record in (a, b):
            shaped = self.assigned(token, record, type_, "the result")
            assert isinstance(shaped, typed.Record)
            each = [typed.Assign(s.type, token, s, leaf) for s, leaf in zip(results, shaped.leaves, strict=True)]
            arms.append(typed.Sequence(type_of(VOID), token, (*shaped.before, *each), 0))
        written = frozenset(writes | set(results))
        parts.append(typed.Conditional(type_of(VOID), token, condition, arms[0], arms[1], written, is_eager=False))
        return typed.Record(type_, token, tuple(parts), tuple(self.read(each, token) for each in results))

    def _selected_leaves(
        self,
        token: Token,
        condition: typed.Expression,
        a: typed.Record,
        b: typed.Record,
        type_: Type,
        is_eager: bool,
        parts: list[typed.Expression],
    ) -> tuple[typed.Expression, ...]:
        """Return the leaves of the chosen struct. Those of both arms are evaluated, what comes before them with the first."""
        found = []
        befores = [a.before, b.before]
        for x, y, (_, own) in zip(a.leaves, b.leaves, leaves_of(type_), strict=True):
            arms = []
            for number, leaf in enumerate((x, y)):
                before, befores[number] = befores[number], ()
                leaf = typed.Sequence(leaf.type, token, (*before, leaf), len(before)) if before else leaf
                arms.append(self.broadcast(leaf, own.shape))
            lanes = self.broadcast(condition, own.shape) if condition.type.shape else condition
            value = typed.Conditional(own, token, lanes, arms[0], arms[1], frozenset(), is_eager)
            found.append(self.temporary(value, parts))
        return tuple(found)

    def _chosen_type(self, token: Token, condition: typed.Expression, a: typed.Record, b: typed.Record) -> Type:
        """Return the type of a chosen struct: by a block of conditions, a block of structs."""
        element = a.type.element
        shapes = [condition.type.shape, a.type.shape, b.type.shape]
        leaves = leaves_of(type_of(element))
        if any(leaf.shape for _, leaf in leaves):
            for path, leaf in leaves:
                if joined_shape(shapes[0], leaf.shape) != leaf.shape:
                    message = f"a condition of shape {list(shapes[0])} chooses between values of {element}, whose member "
                    message += f"{path[1:]} is {leaf}"
                    self.fail(token, message, "a choice for each member")
            return type_of(element)
        together = joined_shape(shapes[1], shapes[2])
        together = None if together is None else joined_shape(shapes[0], together)
        if together is None:
            shown = ", ".join(str(list(shape)) for shape in shapes)
            self.fail(token, f"shapes {shown} of a condition and its arms do not broadcast")
        return type_of(element, self.check_shape(token, together, *shapes))


def _names_of(name: str, type_: Type) -> list[str]:
    """Return what a member is called, or those of one without a name."""
    return type_.element.names if name.startswith(" ") and isinstance(type_.element, Struct) else [name]


def _parts_at(whole: _Part, position: int) -> list[_Part]:
    """Return the struct and the members that hold a leaf: all that begin there, below those that begin before it."""
    found = [whole]
    while isinstance(element := found[-1].type.element, Struct):
        outer = found[-1]
        at = outer.positions[0]
        for name, own in element.members:
            type_ = type_of(own.element, outer.type.shape or own.shape)
            count = len(leaves_of(type_))
            if element.is_union or position < at + count:
                path = outer.path if name.startswith(" ") else f"{outer.path}.{name}"
                found.append(_Part(path, type_, tuple(range(at, at + count))))
                break
            at += count
    begin = [each for each in found[1:] if each.positions[0] == position]
    return [whole, *begin]


def _fitting(parts: Sequence[_Part], value: typed.Expression) -> _Part:
    """Return what a value initializes: of parts that begin with one another, the one of its type, else the innermost."""
    if isinstance(value, typed.Record):
        return next((each for each in parts if each.type.element is value.type.element), parts[0])
    return parts[-1]


def _bits_as(value: typed.Expression, type_: Type) -> typed.Expression:
    """Return the bits of a value as another type of the same width: a union holds those of its first member."""
    own, element = value.type.element, type_.element
    if own is element:
        return value
    shape = value.type.shape
    bits = type_of(UNSIGNED_LONG, shape)
    target = type_of(element, shape)
    if isinstance(own, Pointer):
        value = typed.Convert(target if isinstance(element, Pointer) else bits, value.token, value)
        return _bits_as(value, type_)
    if isinstance(element, Pointer):
        return typed.Convert(target, value.token, typed.Bitcast(bits, value.token, value) if own.is_float else value)
    if own.is_float or element.is_float:
        return typed.Bitcast(target, value.token, value)
    return typed.Convert(target, value.token, value)


def _bits(type_: Type) -> int:
    return type_.element.bits if isinstance(type_.element, Scalar) else UNSIGNED_LONG.bits


def _shown(type_: Type) -> str:
    return f"{type_} with {_bits(type_)} bits"


__all__ = ["LVALUES", "Lvalue", "RecordChecker"]
