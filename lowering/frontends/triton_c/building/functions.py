"""Builds functions of the block IR: statements, and what leaves their regions.

Branches and loops are operations of `scf`. Loops that count are `scf.for`, as in texts of Triton, so that what recognizes
those recognizes these; all others are `scf.while`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from ....tt import types as t
from ....tt.builder.block_builder import BlockBuilder
from ....tt.dialect.functions import FuncOp, ReturnOp
from ..checking import typed
from ..checking.typed import Symbol
from ..reading.diagnostics import Diagnostics
from .axes import Axes, Lanes
from .conditionals import ACCESSES
from .counting import Counter
from .elements import Locations, mlir_types
from .expressions import ExpressionBuilder
from .structure import Branch, Node, Repeat, Structured
from .uses import Uses

_NOINLINE: dict[str, Attribute] = {"noinline": BoolAttr.from_bool(False)}
_FLAGS = {"noalias": "llvm.noalias", "readonly": "llvm.readonly", "writeonly": "llvm.writeonly"}


def build_function(
    function: Structured,
    is_kernel: bool,
    callees: Mapping[str, Structured],
    diagnostics: Diagnostics,
    locations: Locations,
) -> FuncOp:
    """Return a function of the block IR. Kernels are public; `callees` are the functions that it may call."""
    source = function.function
    types = mlir_types(list(source.parameters))
    results = mlir_types(list(function.results))
    block = Block(arg_types=types)
    location = locations.of(source.token)
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(source.name),
        "function_type": FunctionType.from_lists(types, results),
        "sym_visibility": StringAttr("public" if is_kernel else "private"),
    }
    attributes = [_attributes(promises) for promises in source.promises]
    if is_kernel and any(each.data for each in attributes):
        properties["arg_attrs"] = ArrayAttr(attributes)
    func = FuncOp.create(properties=properties, attributes=_NOINLINE, regions=[Region(block)], location=location)
    builder = FunctionBuilder(source.name, BlockBuilder(func), callees, diagnostics, locations)
    for symbol, argument in zip(source.parameters, block.args, strict=True):
        argument.name_hint = symbol.name
        builder.values[symbol] = argument
    builder.body(function.nodes)
    returned = [builder.values[each] for each in function.results]
    builder.at(source.token).op(ReturnOp, returned, ())
    return func


def _attributes(promises: Sequence[typed.Promise]) -> DictionaryAttr:
    """Return the attributes of a parameter: those promises that the launch checks."""
    found: dict[str, Attribute] = {}
    for each in promises:
        if each.name in ("multipleof", "aligned"):
            found["tt.divisibility"] = IntegerAttr(each.number & -each.number, i32)
        elif each.name in _FLAGS:
            found[_FLAGS[each.name]] = UnitAttr()
    return DictionaryAttr(found)


class FunctionBuilder(ExpressionBuilder):
    """Builds the statements of one function."""

    def __init__(
        self,
        name: str,
        builder: BlockBuilder,
        callees: Mapping[str, Structured],
        diagnostics: Diagnostics,
        locations: Locations,
    ) -> None:
        super().__init__(builder, diagnostics, locations)
        self._name = name
        self._unused: frozenset[Symbol] | None = None
        self._callees = callees
        self._axes: dict[str, Axes] = {}
        self._uses = Uses({each: callees[each].function for each in callees})

    def body(self, nodes: Sequence[Node]) -> None:
        """Build statements one after the other."""
        for node in nodes:
            if isinstance(node, typed.Evaluate):
                if self.is_idle(node.expression):
                    self.skip(node.expression)
                else:
                    self.build(node.expression)
            elif isinstance(node, typed.Declare):
                self.at(node.token)
                type_ = node.symbol.type
                self.values[node.symbol] = self.elements.zero(type_.element, type_.shape)
            elif isinstance(node, Branch):
                self._branch(node)
            elif node.counter is not None:
                self._count(node, node.counter)
            else:
                self._repeat(node)

    def _branch(self, node: Branch) -> None:
        condition = self.build(node.condition)
        if isinstance(node.condition, typed.Constant):
            self.body(node.first if node.condition.value else node.second)
            return
        fresh = [symbol for symbol in node.writes & node.live if symbol not in self.values]
        for symbol in sorted(fresh, key=lambda each: (each.token.start, each.name)):  # declared behind one of many exits
            self.values[symbol] = self.elements.zero(symbol.type.element, symbol.type.shape)
        changed = [symbol for symbol in self.values if symbol in node.writes and symbol in node.live]
        branch = self.at(node.token).if_(condition, mlir_types(changed))
        before = dict(self.values)
        with branch.then(), self.region(node.token):
            self.body(node.first)
            self.at(node.token)
            branch.yield_([self.values[symbol] for symbol in changed])
        self.values = dict(before)
        if node.second or changed:
            with branch.otherwise(), self.region(node.token):
                self.body(node.second)
                self.at(node.token)
                branch.yield_([self.values[symbol] for symbol in changed])
        self.values = before
        self._leave(changed, branch.results)

    def _leave(self, symbols: Sequence[Symbol], values: Sequence[SSAValue]) -> None:
        """Take the results of a region for the values of variables."""
        for symbol, value in zip(symbols, values, strict=True):
            self.values[symbol] = value
            if symbol.name.isidentifier():
                value.name_hint = symbol.name

    # Loops

    def _repeat(self, node: Repeat) -> None:
        """Build `scf.while`: the condition in its first region, with the body before it for `do`.

        What the condition assigns and the body reads goes from the first region to the second, but into no iteration.
        """
        carried = [symbol for symbol in self.values if symbol in node.carried]
        onward = carried + [symbol for symbol in self.values if symbol in node.passed and symbol not in node.carried]
        types, onward_types = mlir_types(carried), mlir_types(onward)
        inits = [self.values[symbol] for symbol in carried]
        before, after = Block(arg_types=types), Block(arg_types=onward_types)
        outer = dict(self.values)
        token = node.token
        with self.builder.inside(before), self.region(token):
            self._leave(carried, before.args)
            if node.is_post:
                self.body(node.body)
            condition = self._goes_on(node)
            passed = [self.values[symbol] for symbol in onward]
            self.at(token).op(scf.ConditionOp, [condition, *passed], ())
        self.values = dict(outer)
        with self.builder.inside(after), self.region(token):
            self._leave(onward, after.args)
            if not node.is_post:
                self.body(node.body)
            self.at(token).op(scf.YieldOp, [self.values[symbol] for symbol in carried], ())
        self.values = outer
        results = self.at(token).op(scf.WhileOp, inits, onward_types, regions=(Region(before), Region(after)))
        self._leave(carried, results[: len(carried)])

    def _goes_on(self, node: Repeat) -> SSAValue:
        """Return whether there is another iteration: no flag is set, and the condition holds."""
        condition: typed.Expression | None = node.condition
        for flag in reversed(node.flags):
            clear = typed.Unary(flag.type, node.token, "!", typed.Variable(flag.type, node.token, flag))
            if condition is None:
                condition = clear
            else:
                writes = frozenset(symbol for symbol, what in node.events if what != "read")
                condition = typed.Logical(flag.type, node.token, "&&", clear, condition, writes)
        if condition is None:
            return self.at(node.token).const(1, t.I1)
        return self.build(condition)

    def _count(self, node: Repeat, counter: Counter) -> None:
        """Build `scf.for`. Upwards the counter itself is the index, else it is carried beside the number of the iteration."""
        token = node.token
        symbol = counter.symbol
        element = counter.element
        start = self.values[symbol]
        bound = self.build(counter.bound)
        variable_step = None if isinstance(counter.step, int) else self.build(counter.step)
        b = self.at(token)
        size = b.const(counter.step, element.mlir) if isinstance(counter.step, int) else variable_step
        assert size is not None
        is_plain = counter.operator == "<" and element.is_signed
        carried = [each for each in self.values if each in node.carried and each is not symbol]
        carried += [] if is_plain else [symbol]
        inits = [self.values[each] for each in carried]
        if is_plain:
            low, high, step = start, bound, size
        else:
            low, step = b.const(0, t.I64), b.const(1, t.I64)
            high = self._iterations(counter, start, bound, size)
            if high.type == t.I32:
                low, step = b.const(0, t.I32), b.const(1, t.I32)
        outer = dict(self.values)
        with b.for_(low, high, step, inits) as loop, self.region(token):
            self._leave(carried, loop.args)
            if is_plain:
                self.values[symbol] = loop.index
            self.body(node.body)
            self.at(token)
            if not is_plain:
                operation = "arith.addi" if counter.is_up else "arith.subi"
                self.values[symbol] = b.binary(operation, self.values[symbol], size)
            loop.yield_([self.values[each] for each in carried])
        self.values = outer
        self._leave(carried, loop.results)
        if is_plain and symbol in node.live:
            self.at(token)
            iterations = self._iterations(counter, start, bound, size)
            if t.bit_width(start.type) < t.bit_width(iterations.type):
                iterations = b.cast("arith.trunci", iterations, start.type)
            self.values[symbol] = b.binary("arith.addi", start, b.binary("arith.muli", iterations, size))

    def _iterations(self, counter: Counter, start: SSAValue, bound: SSAValue, size: SSAValue) -> SSAValue:
        """Return how many iterations a loop has: an int where the counter is a signed one of 32 bits, else a long.

        The distance is divided as an unsigned number, since it may be larger than the largest signed one. Where the counter
        of a launch does step over the end of its numbers, its steps are counted one by one.
        """
        b = self.builder
        element, is_up = counter.element, counter.is_up
        goes_on = self.elements.compared(counter.operator, element, start, bound)
        distance = b.binary("arith.subi", bound, start) if is_up else b.binary("arith.subi", start, bound)
        one = b.const(1, element.mlir)
        if counter.operator in ("<", ">"):
            distance = b.binary("arith.subi", distance, one)
        is_int = element.bits == 32 and element.is_signed and isinstance(counter.step, int) and counter.step > 1
        own_size = size
        if not is_int:
            distance, one = b.cast("arith.extui", distance, t.I64), b.const(1, t.I64)
            size = b.const(counter.step, t.I64) if isinstance(counter.step, int) else b.cast("arith.extui", size, t.I64)
        count = b.binary("arith.addi", b.binary("arith.divui", distance, size), one)
        count = b.select(goes_on, count, b.const(0, distance.type))
        return self._stepped(counter, start, bound, own_size, goes_on, count) if counter.may_wrap else count

    def _stepped(
        self, counter: Counter, start: SSAValue, bound: SSAValue, size: SSAValue, goes_on: SSAValue, count: SSAValue
    ) -> SSAValue:
        """Return how many iterations an unsigned counter has: `count`, unless it steps over the end of its numbers."""
        b, element = self.builder, counter.element
        one = b.const(1, element.mlir)
        last = bound  # the value next to the bound from which there is another step
        if counter.operator in ("<", ">"):
            last = b.binary("arith.subi" if counter.is_up else "arith.addi", bound, one)
        if counter.is_up:
            wraps = b.cmpi("ugt", size, b.binary("arith.subi", b.const(-1, element.mlir), last))
        else:
            wraps = b.cmpi("ult", last, size)
        branch = b.if_(b.binary("arith.andi", goes_on, wraps), [count.type])
        with branch.then():
            types = [start.type, count.type]
            before, after = Block(arg_types=types), Block(arg_types=types)
            with b.inside(before):
                condition = self.elements.compared(counter.operator, element, before.args[0], bound)
                b.op(scf.ConditionOp, [condition, *before.args], ())
            with b.inside(after):
                moved = b.binary("arith.addi" if counter.is_up else "arith.subi", after.args[0], size)
                b.op(scf.YieldOp, [moved, b.binary("arith.addi", after.args[1], b.const(1, count.type))], ())
            inits = [start, b.const(0, count.type)]
            counted = b.op(scf.WhileOp, inits, types, regions=(Region(before), Region(after)))
            branch.yield_([counted[1]])
        with branch.otherwise():
            branch.yield_([count])
        return branch.results[0]

    # Calls

    def inlined(self, node: typed.Call, arguments: list[SSAValue]) -> list[SSAValue]:
        """Build the body of a function in place of a call, if any lane is active.

        Accesses are masked by the active lanes where their axes are those of the result, or of an argument.
        """
        callee = self._callees[node.function]
        mask, lanes = self.mask, self.own_lanes()
        like = self.arm[1] if self.arm is not None and mask is self.arm[0] else node
        inner = lanes.called(node, self._axes_of(node.function), None if mask is None else lanes.mask_of(mask, like))
        outer = self.values, self.mask, self.arm, self.lanes, self._unused
        unused = self._uses.unused(self._name) if self._unused is None else self._unused
        dropped = frozenset(number for number, result in enumerate(node.results) if result in unused)
        self._unused = self._uses.unused(node.function, dropped) | {callee.results[number] for number in dropped}
        self.mask, self.arm, self.lanes = None, None, inner
        self.values = dict(zip(callee.function.parameters, arguments, strict=True))
        results: list[SSAValue] = []
        if mask is None or not _depends_on_lanes(callee.nodes):
            self.body(callee.nodes)
            results = [self.values[each] for each in callee.results]
        else:  # a loop may wait for what never comes while no lane is active
            self.at(node.token)
            branch = self.builder.if_(self.masks.any_at_all(mask), mlir_types(list(callee.results)))
            with branch.then(), self.region(node.token):
                self.body(callee.nodes)
                self.at(node.token)
                branch.yield_([self.values[each] for each in callee.results])
            if callee.results:
                with branch.otherwise(), self.region(node.token):
                    branch.yield_([self.elements.zero(each.type.element, each.type.shape) for each in callee.results])
            results = list(branch.results)
        self.values, self.mask, self.arm, self.lanes, self._unused = outer
        return results

    def is_idle(self, node: typed.Expression) -> bool:
        if self.mask is None and self.lanes is None:
            return False
        if self._unused is None:
            self._unused = self._uses.unused(self._name)
        return self._uses.is_idle(node, self._unused)

    def taken(self, node: typed.Call) -> list[tuple[typed.Expression, bool]]:
        parameters = self._callees[node.function].function.parameters
        unused = self._uses.unused(node.function)
        return [(value, each not in unused) for value, each in zip(node.arguments, parameters, strict=True)]

    def own_lanes(self) -> Lanes:
        return self.lanes or Lanes(self._axes_of(self._name), ())

    def _axes_of(self, function: str) -> Axes:
        found = self._axes.get(function)
        if found is None:
            found = self._axes[function] = Axes(self._callees[function].function, self._axes_of)
        return found


def _depends_on_lanes(nodes: Sequence[Node]) -> bool:
    """Return whether statements touch memory, or may loop for ever."""
    waiting = list(nodes)
    while waiting:
        each = waiting.pop()
        if isinstance(each, Repeat) and each.counter is None:
            return True
        expression = each.expression if isinstance(each, typed.Evaluate) else getattr(each, "condition", None)
        if expression is not None and typed.contains(expression, ACCESSES):
            return True
        if isinstance(each, Branch):
            waiting += [*each.first, *each.second]
        elif isinstance(each, Repeat):
            waiting += each.body
    return False


__all__ = ["build_function"]
