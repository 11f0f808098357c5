"""Builds the operations of expressions. Values of variables are SSA values from the start: assignments emit nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, StringAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, SSAValue

from ....tt import types as t
from ....tt.builder.block_builder import BlockBuilder
from ....tt.dialect.attributes import enum_attr
from ....tt.dialect.functions import CallOp
from ....tt.dialect.hints import BarrierOp
from ....tt.dialect.memory.atomics import MEMORY_ORDERS, MEMORY_SCOPES, RMW_OPERATIONS
from ..checking import typed
from ..types import VOID, Scalar
from .axes import MAX_PLACEMENTS, CallersMask
from .conditionals import ACCESSES, COSTLY, ConditionalBuilder
from .elements import mlir_types

_ORDERED: dict[str, Attribute] = {
    "sem": enum_attr(MEMORY_ORDERS["acq_rel"]), "scope": enum_attr(MEMORY_SCOPES["gpu"]),
}  # fmt: skip


class ExpressionBuilder(ConditionalBuilder):
    """Builds expressions of one function."""

    def build(self, node: typed.Expression) -> SSAValue:
        """Return the value of an expression."""
        return _BUILD[type(node)](self, node)

    @abstractmethod
    def taken(self, node: typed.Call) -> list[tuple[typed.Expression, bool]]:
        """Return the arguments of a call, and whether the function does anything with each."""

    def _operand(self, node: typed.Expression, change: Callable[[SSAValue], SSAValue]) -> SSAValue:
        """Return the value of an operand in another shape, whose lanes the mask is brought to if it touches memory."""
        if self.mask is None or not t.shape_of(self.mask.type) or not typed.contains(node, ACCESSES):
            return self.build(node)
        with self.under(change(self.mask)):
            return self.build(node)

    # Values

    def _constant(self, node: typed.Constant) -> SSAValue:
        return self.at(node.token).const(node.value, node.type.element.mlir)

    def _text(self, node: typed.Text) -> SSAValue:
        self.diagnostics.fatal(node.token, "a string, which is for print and assert alone")

    def _variable(self, node: typed.Variable) -> SSAValue:
        return self.values[node.symbol]

    def _convert(self, node: typed.Convert) -> SSAValue:
        value = self.build(node.operand)
        self.at(node.token)
        return self.elements.converted(value, node.operand.type.element, node.type.element)

    def _broadcast(self, node: typed.Broadcast) -> SSAValue:
        operand = node.operand
        if isinstance(operand, typed.Constant):
            self.at(node.token)
            return self.elements.constant(operand, node.type.shape)
        value = self._operand(operand, lambda mask: self.masks.before_broadcast(mask, operand.type.shape))
        shape = node.type.shape
        return self._once(node.token, ("stretch", value, shape), lambda b: self.elements.stretched(value, shape))

    def _to_scalar(self, node: typed.ToScalar) -> SSAValue:
        value = self._operand(node.operand, self.masks.any_at_all)
        self.at(node.token)
        return self.elements.only_element(value)

    def _bitcast(self, node: typed.Bitcast) -> SSAValue:
        value = self.build(node.operand)
        return self.at(node.token).cast("tt.bitcast", value, node.type.element.mlir)

    def _unary(self, node: typed.Unary) -> SSAValue:
        value = self.build(node.operand)
        self.at(node.token)
        assert isinstance(node.type.element, Scalar)
        return self.elements.negated(node.operator, node.type.element, value)

    def _binary(self, node: typed.Binary) -> SSAValue:
        """Build long sums from the left, without recursion."""
        chain = [node]
        while isinstance(left := chain[-1].left, typed.Binary):
            chain.append(left)
        value = self.build(chain[-1].left)
        for each in reversed(chain):
            right = self.build(each.right)
            self.at(each.token)
            value = self.elements.arithmetic(each.operator, each.type.element, value, right)
        return value

    def _compare(self, node: typed.Compare) -> SSAValue:
        left, right = self.build(node.left), self.build(node.right)
        self.at(node.token)
        return self.elements.compared(node.operator, node.left.type.element, left, right)

    def _logical(self, node: typed.Logical) -> SSAValue:
        chain = [node]
        while isinstance(left := chain[-1].left, typed.Logical):
            chain.append(left)
        value = self.build(chain[-1].left)
        for each in reversed(chain):
            value = self._joined_logically(each, value)
        return value

    def _joined_logically(self, node: typed.Logical, left: SSAValue) -> SSAValue:
        """Return `left && right` or `left || right`; of scalars, the right one is evaluated if it matters."""
        if node.type.shape or not typed.contains(node.right, COSTLY):
            right = self.build(node.right)
            return self.at(node.token).binary("arith.andi" if node.operator == "&&" else "arith.ori", left, right)
        known = typed.Constant(node.type, node.token, int(node.operator == "||"))
        arms = (node.right, known) if node.operator == "&&" else (known, node.right)
        return self.chosen(node.token, left, arms[0], arms[1], node.writes)

    # Shapes

    def _range(self, node: typed.Range) -> SSAValue:
        shape, start = node.type.shape, node.start
        found = self._once(node.token, ("range", shape), lambda b: b.arange(shape[0]))
        return found if not start else self.at(node.token).binary("arith.addi", found, self.builder.const(start, t.I32, shape))

    def _view(self, node: typed.View) -> SSAValue:
        def without_axes(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(mask, (1,) * (len(node.type.shape) - len(t.shape_of(mask.type))) + t.shape_of(mask.type))
            for axis in reversed(node.axes):
                mask = self.masks.any_along(mask, axis)
            return mask

        def viewed(b: BlockBuilder) -> SSAValue:
            found = value
            for axis in node.axes:
                found = b.expand_dims(found, axis)
            return found

        value = self._operand(node.operand, without_axes)
        return self._once(node.token, ("view", value, node.axes), viewed)

    def _reduce(self, node: typed.Reduce) -> SSAValue:
        value = self._operand(node.operand, self._with_axis(node))
        self.at(node.token)
        element = node.type.element
        assert isinstance(element, Scalar)
        return self.elements.reduced(node.operator, element, value, node.axis)

    def _arg_reduce(self, node: typed.ArgReduce) -> SSAValue:
        value = self._operand(node.operand, self._with_axis(node))
        self.at(node.token)
        element = node.operand.type.element
        assert isinstance(element, Scalar)
        return self.elements.index_of_extremum(node.operator, element, value, node.axis)

    def _with_axis(self, node: typed.Reduce | typed.ArgReduce) -> Callable[[SSAValue], SSAValue]:
        """Return what brings a mask of the result to the operand: the axis is added again."""

        def changed(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(mask, (1,) * (len(node.type.shape) - len(t.shape_of(mask.type))) + t.shape_of(mask.type))
            return self.builder.expand_dims(mask, node.axis)

        return changed

    def _transpose(self, node: typed.Transpose) -> SSAValue:
        order = node.order

        def back(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(mask, (1,) * (len(order) - len(t.shape_of(mask.type))) + t.shape_of(mask.type))
            return self.builder.trans(mask, [order.index(axis) for axis in range(len(order))])

        value = self._operand(node.operand, back)
        return self.at(node.token).trans(value, order)

    def _gather(self, node: typed.Gather) -> SSAValue:
        """Take elements. In inactive lanes the index may be anything, and the element at 0 is taken."""
        operand, axis, extent = node.operand.type.shape, node.axis, node.index.type.shape
        others = [each for each in range(len(node.type.shape)) if not extent or each != axis]

        def of_index(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(self.masks.fitting(mask, node.type.shape), node.type.shape)
            for other in reversed(others):
                mask = self.masks.any_along(mask, other)
            return mask

        def of_operand(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(self.masks.fitting(mask, node.type.shape), node.type.shape)
            mask = self.masks.any_along(mask, axis) if extent else mask
            return self.builder.expand_dims(mask, axis) if t.shape_of(mask.type) else mask

        value = self._operand(node.operand, of_operand)
        index = self._operand(node.index, of_index)
        b = self.at(node.token)
        mask = self.masks.both(None if self.mask is None else of_index(self.mask), self._callers_mask(node.index))
        if mask is not None:
            index = b.select(mask, index, b.const(0, node.index.type.element.mlir, extent))
        one = (1,) * axis + (extent or (1,)) + (1,) * (len(operand) - axis - 1)
        index = b.splat(index, one) if not extent else index
        for new in range(len(operand)):
            index = b.expand_dims(index, new) if extent and new != axis else index
        index = b.broadcast(index, (*operand[:axis], *(extent or (1,)), *operand[axis + 1 :]))
        found = b.gather(value, index, axis)
        return found if extent else b.reduce([found], axis, lambda inner, left, right: [left[0]])[0]

    def _dot(self, node: typed.Dot) -> SSAValue:
        """Build a product. The language has the axis of batches last, the block IR has it first."""

        def rows(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(mask, node.type.shape)
            return self.builder.expand_dims(self.masks.any_along(mask, 1), 1)

        def columns(mask: SSAValue) -> SSAValue:
            mask = self.masks.shaped(mask, node.type.shape)
            return self.builder.expand_dims(self.masks.any_along(mask, 0), 0)

        accumulator = None if node.accumulator is None else self.build(node.accumulator)
        left, right = self._operand(node.left, rows), self._operand(node.right, columns)
        b = self.at(node.token)
        if accumulator is None:
            accumulator = self.elements.zero(node.type.element, node.type.shape)
        if len(node.type.shape) == 2:
            return b.dot(left, right, accumulator)
        left, right, accumulator = (b.trans(each, (2, 0, 1)) for each in (left, right, accumulator))
        return b.trans(b.dot(left, right, accumulator), (1, 2, 0))

    # Memory

    def _move(self, node: typed.MovePointer) -> SSAValue:
        pointer, offset = self.build(node.pointer), self.build(node.offset)
        b = self.at(node.token)
        element = node.offset.type.element
        if isinstance(element, Scalar) and not element.is_signed and element.bits == 32:
            offset = b.cast("arith.extui", offset, t.I64)  # the block IR's offsets are signed
        return b.addptr(pointer, offset)

    def _difference(self, node: typed.PointerDifference) -> SSAValue:
        left, right = self.build(node.left), self.build(node.right)
        b = self.at(node.token)
        bytes_ = b.binary("arith.subi", b.cast("tt.ptr_to_int", left, t.I64), b.cast("tt.ptr_to_int", right, t.I64))
        size = max(8, t.bit_width(t.value_type(left.type))) // 8
        return b.binary("arith.shrsi", bytes_, b.const(size.bit_length() - 1, t.I64, node.type.shape))

    def _callers_mask(self, node: typed.Expression) -> SSAValue | None:
        """Return which elements of a value are active by the masks of callers; None: all."""
        found: SSAValue | None = None
        for mask in self.lanes.masks if self.lanes is not None else ():
            found = self.masks.both(found, self.mask_by_axes(mask, node))  # None: it is built where any lane is active
        return found

    def mask_by_axes(self, mask: CallersMask, node: typed.Expression) -> SSAValue | None:
        """Return which elements of a value are active by a mask, whose axes tell; None if none is an axis of the value."""
        found: SSAValue | None = None
        try:
            placements = self.own_lanes().placements(mask, node)
        except OverflowError:
            message = f"the axes of {node.type} may be the lanes of the condition in more than {MAX_PLACEMENTS} ways"
            self.diagnostics.fatal(node.token, message, "other variables for its axes, or if and else")
        for placement in placements:
            key = ("lanes", mask.value, placement, node.type.shape)
            make = partial(self._moved, mask.value, placement, node.type.shape)
            made = self._once(node.token, key, make)
            found = made if found is None else self.at(node.token).binary("arith.ori", found, made)
        return found

    def _moved(self, mask: SSAValue, placement: tuple[int | None, ...], shape: tuple[int, ...], _: BlockBuilder) -> SSAValue:
        return self.masks.rearranged(mask, placement, shape)

    def _beside(self, mask: SSAValue, like: typed.Expression, node: typed.Expression) -> SSAValue:
        """Return the mask of a value that another one, whose mask and axes are known, needs for what is no lane of it.

        Arguments of calls and what is evaluated beside a value are masked where their axes are those of the mask: extents
        that happen to be equal mean nothing.
        """
        if not t.shape_of(mask.type):
            return mask
        own = self.own_lanes().mask_of(mask, like)
        found = None if own is None else self.mask_by_axes(own, node)
        return self.masks.any_at_all(mask) if found is None else found

    def _access_mask(self, mask: typed.Expression | None, pointer: typed.Expression) -> SSAValue | None:
        """Return the mask of an access: its own, and the lanes that are active; in the shape of its pointers."""
        shape = pointer.type.shape
        own = None if mask is None else self.build(mask)
        found = self.masks.both(own, None if self.mask is None else self.masks.fitting(self.mask, shape))
        found = self.masks.both(found, self._callers_mask(pointer))
        return None if found is None else self.masks.shaped(found, shape)

    def _load(self, node: typed.Load) -> SSAValue:
        return self._loaded(node, None, None)

    def _loaded(self, node: typed.Load, lanes: SSAValue | None, other: SSAValue | None) -> SSAValue:
        """Load where `lanes` holds, and `other` elsewhere: 0 unless it is given."""
        shape = node.type.shape
        with self.in_arm(lanes, node):  # loads of the address and of the mask are in the arm too
            pointer = self.build(node.pointer)
            self.at(node.token)
            mask = self._access_mask(node.mask, node.pointer)
        element = node.type.element
        b = self.at(node.token)
        if mask is None:
            return self.elements.from_memory(b.load(pointer), element)
        if other is None:
            if t.is_pointer(t.value_type(pointer.type)):
                other = self.elements.zero(element, shape)
            else:
                other = self.elements.zero(element, shape, in_memory=True)
        else:
            other = self.elements.to_memory(other, element)
        return self.elements.from_memory(b.load(pointer, mask, other), element)

    def _store(self, node: typed.Store) -> SSAValue:
        value = self.build(node.value)
        pointer = self.build(node.pointer)
        self.at(node.token)
        mask = self._access_mask(node.mask, node.pointer)
        self.at(node.token).store(pointer, self.elements.to_memory(value, node.type.element), mask)
        return value

    def _atomic(self, node: typed.Atomic) -> SSAValue:
        pointer = self.build(node.pointer)
        comparand = None if node.comparand is None else self.build(node.comparand)
        value = self.build(node.value)
        self.at(node.token)
        mask = self._access_mask(node.mask, node.pointer)
        b = self.at(node.token)
        if comparand is not None:
            if mask is not None:
                self.diagnostics.fatal(node.token, "atomic_cas in an arm of ?: on a block of conditions", "if, or a loop")
            return b.op("tt.atomic_cas", [pointer, comparand, value], [value.type], _ORDERED)[0]
        operands = [pointer, value, *([mask] if mask is not None else [])]
        properties = {"atomic_rmw_op": enum_attr(RMW_OPERATIONS[node.operator]), **_ORDERED}
        return b.op("tt.atomic_rmw", operands, [value.type], properties)[0]

    # Variables, calls

    def _assign(self, node: typed.Assign) -> SSAValue:
        if self.is_idle(node):
            self.skip(node)
            return self.values[node.symbol]
        value = self.build(node.value)
        self.values[node.symbol] = value
        if value.name_hint is None and node.symbol.name.isidentifier():
            value.name_hint = node.symbol.name
        return value

    def skip(self, node: typed.Expression) -> None:
        """Leave out an idle expression. The variables that it assigns are 0, which nobody takes."""
        self.at(node.token)
        waiting = [node]
        while waiting:
            each = waiting.pop()
            symbols = (each.symbol,) if isinstance(each, typed.Assign) else each.results if isinstance(each, typed.Call) else ()
            for symbol in symbols:
                self.values[symbol] = self.elements.zero(symbol.type.element, symbol.type.shape)
            waiting.extend(typed.parts_of(each))

    def _sequence(self, node: typed.Sequence) -> SSAValue:
        value: SSAValue | None = None
        for number, each in enumerate(node.parts):
            mask = self.mask
            if self.arm is not None and number != node.result and typed.contains(each, ACCESSES):
                mask, like = self.arm  # what is done beside the value is done for all lanes of the arm
                self.at(node.token)
                mask = mask if each.type.element == VOID else self._beside(mask, like, each)
            if number != node.result and self.is_idle(each):
                self.skip(each)
                continue
            with self.under(mask):
                found = self.build(each)
            value = found if number == node.result else value
        assert value is not None
        return value

    def _call(self, node: typed.Call) -> SSAValue:
        like = self.arm[1] if self.arm is not None and self.mask is self.arm[0] else node
        arguments = [self._argument(each, like, is_taken) for each, is_taken in self.taken(node)]
        if self.mask is not None or self.lanes is not None:
            values = self.inlined(node, arguments)
        else:
            results = [] if node.type.element == VOID else [node.type.mlir]
            results += mlir_types(list(node.results))
            operation = self.at(node.token).op
            values = list(operation(CallOp, arguments, results, {"callee": SymbolRefAttr(node.function)}))
        self.values.update(zip(node.results, values, strict=False))
        return values[0] if values else self.builder.const(0, t.I1)

    def _argument(self, node: typed.Expression, like: typed.Expression, is_taken: bool) -> SSAValue:
        """Return the value of an argument; 0 for one that the function does not use, if it is nothing but a value."""
        if not is_taken and self.is_idle(node):
            self.skip(node)
            return self.elements.zero(node.type.element, node.type.shape)
        return self._operand(node, partial(self._beside, like=like, node=node))

    def _math(self, node: typed.Math) -> SSAValue:
        operands = [self.build(each) for each in node.operands]
        b = self.at(node.token)
        if len(operands) == 1:
            return b.unary(node.operation, operands[0])
        if len(operands) == 2:
            return b.binary(node.operation, operands[0], operands[1])
        return b.ternary(node.operation, *operands)

    def _program(self, node: typed.Program) -> SSAValue:
        operation, axis = node.operation, node.axis
        return self._once(
            node.token, (operation, axis), lambda b: b.op(operation, (), [t.I32], {"axis": enum_attr(axis)})[0]
        )

    def _effect(self, node: typed.Effect) -> SSAValue:
        operands = [self.build(each) for each in node.operands]
        b = self.at(node.token)
        if node.operation == "barrier":
            b.op(BarrierOp, (), (), {"addrSpace": StringAttr("all")})
        elif node.operation == "assert":
            condition = operands[0]
            mask = None if self.mask is None else self.masks.fitting(self.mask, t.shape_of(condition.type))
            mask = self.masks.both(mask, self._callers_mask(node.operands[0]))
            if mask is not None:
                inactive = self._inverted(node.token, mask)
                condition = b.binary("arith.ori", condition, self.masks.shaped(inactive, t.shape_of(condition.type)))
            b.op("tt.assert", [condition], (), {"message": StringAttr(node.message)})
        else:
            signs = [int(isinstance(e := each.type.element, Scalar) and e.is_signed) for each in node.operands]
            properties: dict[str, Attribute] = {
                "prefix": StringAttr(node.message), "hex": BoolAttr.from_bool(False),
                "isSigned": DenseArrayBase.from_list(i32, signs),
            }  # fmt: skip
            b.op("tt.print", operands, (), properties)
        return b.const(0, t.I1)


_BUILD: dict[type[typed.Expression], Callable[[ExpressionBuilder, Any], SSAValue]] = {
    typed.Constant: ExpressionBuilder._constant, typed.Text: ExpressionBuilder._text,
    typed.Variable: ExpressionBuilder._variable, typed.Convert: ExpressionBuilder._convert,
    typed.Broadcast: ExpressionBuilder._broadcast, typed.ToScalar: ExpressionBuilder._to_scalar,
    typed.Bitcast: ExpressionBuilder._bitcast, typed.Unary: ExpressionBuilder._unary, typed.Binary: ExpressionBuilder._binary,
    typed.Compare: ExpressionBuilder._compare, typed.Logical: ExpressionBuilder._logical,
    typed.Conditional: ExpressionBuilder._conditional, typed.Range: ExpressionBuilder._range,
    typed.View: ExpressionBuilder._view, typed.Reduce: ExpressionBuilder._reduce,
    typed.ArgReduce: ExpressionBuilder._arg_reduce, typed.Transpose: ExpressionBuilder._transpose,
    typed.Dot: ExpressionBuilder._dot, typed.Gather: ExpressionBuilder._gather, typed.MovePointer: ExpressionBuilder._move,
    typed.PointerDifference: ExpressionBuilder._difference, typed.Load: ExpressionBuilder._load,
    typed.Store: ExpressionBuilder._store, typed.Atomic: ExpressionBuilder._atomic, typed.Assign: ExpressionBuilder._assign,
    typed.Sequence: ExpressionBuilder._sequence, typed.Call: ExpressionBuilder._call, typed.Math: ExpressionBuilder._math,
    typed.Program: ExpressionBuilder._program, typed.Effect: ExpressionBuilder._effect,
}  # fmt: skip


__all__ = ["ExpressionBuilder"]
