"""Finds the accesses whose width a promise may decide: along an axis that becomes consecutive addresses.

Code that believes that numbers rise by one along an axis makes use of it where they are added to a pointer as they are. A
multiple of them leads to addresses that lie apart, each accessed alone. Quotients and comparisons of consecutive numbers are
the same for a while, which matters where something else is consecutive along the axis. An access is no wider than what its
address is known to be a multiple of: rows of an odd length are accessed element by element, whatever is promised. What is not
known here counts as believed.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from .. import types as t
from ..dialect.functions import FuncOp
from ..facts import divisibility
from ..transforms.folding import constant_of

_WIDEST = 16
"""Bytes of the widest access."""

_RISING, _SAME = True, False
_State = tuple[SSAValue, int | None, bool]
"""A value, the axis along which the promised one lies (None if that is not known), and what it is there."""
_QUOTIENTS = ("arith.divsi", "arith.divui", "arith.shrsi", "arith.shrui", "arith.cmpi")
_RESIZED = ("arith.extsi", "arith.extui", "arith.trunci")
_ACCESSES = ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas")
_ELSEWHERE = ("tt.reduce", "tt.scan", "tt.dot", "tt.dot_scaled", "tt.histogram", "tt.sort", "tt.fft", "tt.print", "tt.assert")
"""What leads a number to no address as one of consecutive ones."""


def widths_along(op: Operation) -> tuple[int | None, ...]:
    """Returns, for each axis of the result, the elements of the widest access that it may decide.

    They are 1 where uses are not followed to their end, and None where no access is wider because of the axis.
    """
    value = op.results[0]
    rank = len(t.shape_of(value.type))
    if t.is_pointer(value.type):
        return (max(1, _WIDEST // _size(value)),) * rank
    return tuple([_widest(value, axis) for axis in range(rank)])


def _size(pointer: SSAValue) -> int:
    return max(1, t.bit_width(t.value_type(pointer.type)) // 8)


def _widest(value: SSAValue, axis: int) -> int | None:
    pending: list[_State] = [(value, axis, _RISING)]
    seen = set(pending)
    widths: list[int] = []
    has_uses = False
    while pending:
        state = pending.pop()
        for use in state[0].uses:
            has_uses = True
            for found in _through(state, use.operation, use.index, value):
                if isinstance(found, int):
                    widths.append(found)
                elif found not in seen:
                    seen.add(found)
                    pending.append(found)
    return max(widths) if widths else None if has_uses else 1


def _through(state: _State, op: Operation, index: int, origin: SSAValue) -> Iterator[_State | int]:
    """Yields what an operation makes of a value: other values, or the elements of a wide access.

    origin: the value whose promise is looked at.
    """
    value, axis, kind = state
    name = op.name
    is_address = t.is_pointer(value.type)
    if name in _ACCESSES:
        is_mask = op.operands[index] is getattr(op, "mask", None)
        if (index == 0 and kind) or ((index == 0 or is_mask) and _may_rise(op.operands[0], axis, set())):
            yield from _access(op.operands[0], axis, origin)
        return
    if name in _ELSEWHERE:
        return
    if len(op.results) != 1 or op.regions or not name.startswith(("arith.", "tt.")):  # loops, branches, calls
        if not is_address:
            yield 1
        elif kind or _may_rise(value, axis, set()):
            yield from _access(value, axis, origin)
        return
    if not is_address and t.is_pointer(op.results[0].type) and name != "tt.addptr":
        yield 1
        return
    if kind and ((name == "arith.subi" and index) or (name in ("arith.muli", "arith.shli") and not _is_one(op, index))):
        return
    if name in _QUOTIENTS:
        kind = _SAME
    yield op.results[0], _axis_behind(op, axis), kind


def _access(pointer: SSAValue, axis: int | None, origin: SSAValue) -> Iterator[int]:
    size = _size(pointer)
    width = _Multiples(origin).of(pointer, axis) // size
    if width > 1:
        yield width


class _Multiples:
    """What code may believe that the first of consecutive numbers are multiples of: powers of two up to `_WIDEST`.

    origin: a value that counts as multiples of all of them.
    """

    def __init__(self, origin: SSAValue) -> None:
        self._origin = origin
        self._found: dict[tuple[SSAValue, int | None], int] = {}

    def of(self, value: SSAValue, axis: int | None) -> int:
        if value is self._origin:
            return _WIDEST
        key = (value, axis)
        if key not in self._found:
            self._found[key] = _WIDEST  # of itself, in a loop
            self._found[key] = min(_WIDEST, max(self._computed(value, axis), _promised(value, axis)))
        return self._found[key]

    def _computed(self, value: SSAValue, axis: int | None) -> int:
        owner = value.owner
        if isinstance(owner, Block):
            return self._of_argument(owner, value, axis)
        name, operands = owner.name, owner.operands
        if name == "arith.constant":
            number = constant_of(value)
            return 1 if number is None else _power(number)
        if name == "tt.make_range":
            return _power(owner.properties["start"].value.data)  # type: ignore[attr-defined]
        if name in ("tt.get_program_id", "tt.get_num_programs", "tt.load"):
            return 1
        if name in _QUOTIENTS:
            return 1 if _number(operands[1]) is None else _WIDEST
        if name == "tt.splat":
            return self.of(operands[0], None)
        if name in ("tt.broadcast", *_RESIZED):
            return self.of(operands[0], axis)
        if name == "tt.expand_dims" and axis is not None:
            added = owner.properties["axis"].value.data  # type: ignore[attr-defined]
            if axis != added:
                return self.of(operands[0], axis - (axis > added))
            axes = range(len(t.shape_of(operands[0].type)))
            return min([self._of_all(operands[0], each) for each in axes], default=_WIDEST)
        if name in ("arith.addi", "arith.subi", "arith.remsi", "arith.remui"):
            return min(self.of(each, axis) for each in operands)
        if name == "tt.addptr":
            return min(self.of(operands[0], axis), self.of(operands[1], axis) * _size(value))
        if name == "arith.muli":
            kept = [each for index, each in enumerate(operands) if _is_one(owner, index)]
            return self.of(kept[0], axis) if kept else self._of_all(operands[0], axis) * self._of_all(operands[1], axis)
        if name == "arith.select":
            return min(self.of(each, axis) for each in operands[1:])
        return _WIDEST

    def _of_all(self, value: SSAValue, axis: int | None) -> int:
        """Returns what all elements are multiples of."""
        return 1 if axis is not None and _may_rise(value, axis, set()) else self.of(value, axis)

    def _of_argument(self, block: Block, argument: SSAValue, axis: int | None) -> int:
        parent = block.parent_op()
        if isinstance(parent, FuncOp) and isinstance(argument, BlockArgument):
            return _WIDEST if t.is_pointer(argument.type) else divisibility(parent, argument.index)
        sources = _sources(block, argument)
        return _WIDEST if sources is None else min(self.of(each, axis) for each in sources)


def _power(number: int) -> int:
    return min(_WIDEST, number & -number) if number else _WIDEST


def _promised(value: SSAValue, axis: int | None) -> int:
    """Returns what a hint says."""
    owner = value.owner
    found = owner.attributes.get("tt.divisibility") if isinstance(owner, Operation) else None
    if not isinstance(found, DenseIntOrFPElementsAttr):
        return 1
    numbers = [int(number) for number in found.get_values()]
    return _power(numbers[axis or 0]) if (axis or 0) < len(numbers) and min(numbers) > 0 else 1


def _is_one(op: Operation, index: int) -> bool:
    """Returns whether a product is the operand at `index` itself."""
    factor = _number(op.operands[1 - index])
    return factor == 1 if op.name == "arith.muli" else index == 0 and factor == 0


def _number(value: SSAValue) -> int | None:
    while isinstance(value.owner, Operation) and value.owner.name in ("tt.splat", "tt.broadcast", "tt.expand_dims"):
        value = value.owner.operands[0]
    return constant_of(value)


def _axis_behind(op: Operation, axis: int | None) -> int | None:
    """Returns where an axis of an operand lies in the result; None if that is not known."""
    if axis is None:
        return None
    if op.name == "tt.expand_dims":
        added: int = op.properties["axis"].value.data  # type: ignore[attr-defined]
        return axis + (added <= axis)
    if op.name == "tt.trans":
        order: list[int] = list(op.properties["order"].get_values())  # type: ignore[attr-defined]
        return order.index(axis)
    operand, result = t.shape_of(op.operands[0].type), t.shape_of(op.results[0].type)
    is_kept = op.name.startswith("arith.") or op.name in ("tt.broadcast", "tt.addptr", "tt.bitcast")
    return axis if is_kept and len(operand) == len(result) else None


def _may_rise(value: SSAValue, axis: int | None, seen: set[SSAValue]) -> bool:
    """Returns whether code may take the elements of a block for consecutive ones along an axis."""
    if axis is None:
        return True
    if not t.is_tensor(value.type) or value in seen:
        return False
    seen.add(value)
    owner = value.owner
    if isinstance(owner, Block):
        sources = _sources(owner, value)
        return sources is None or any(_may_rise(each, axis, seen) for each in sources)
    name = owner.name
    if name == "tt.splat" or constant_of(value) is not None:
        return False
    if name in ("arith.muli", "arith.shli"):
        kept = [each for index, each in enumerate(owner.operands) if _is_one(owner, index)]
        return any(_may_rise(each, axis, seen) for each in kept) or "tt.contiguity" in owner.attributes
    if name in ("arith.addi", "arith.subi", "tt.addptr"):
        return any(_may_rise(each, axis, seen) for each in owner.operands) or "tt.contiguity" in owner.attributes
    if name == "tt.expand_dims":
        added = owner.properties["axis"].value.data  # type: ignore[attr-defined]
        return axis != added and _may_rise(owner.operands[0], axis - (axis > added), seen)
    if name == "tt.broadcast":
        is_copied = t.shape_of(owner.operands[0].type)[axis] == 1
        return not is_copied and _may_rise(owner.operands[0], axis, seen)
    if name in _QUOTIENTS or name == "tt.load":
        return "tt.contiguity" in owner.attributes
    if name in _RESIZED:
        return _may_rise(owner.operands[0], axis, seen)
    return True


def _sources(block: Block, argument: SSAValue) -> list[SSAValue] | None:
    """Returns what an argument of the body of a loop may be; None if that is not known."""
    loop = block.parent_op()
    last = block.last_op
    if loop is None or loop.name != "scf.for" or last is None or not isinstance(argument, BlockArgument):
        return None
    if not argument.index:
        return [loop.operands[0], loop.operands[2]]
    return [loop.operands[argument.index + 2], last.operands[argument.index - 1]]


__all__ = ["widths_along"]
