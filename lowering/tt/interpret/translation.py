"""Translates a block function into Python closures over one list of values; `interpret` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.cf import SwitchOp
from xdsl.dialects.scf import IndexSwitchOp
from xdsl.ir import Block, Operation, Region
from xdsl.traits import SymbolTable

from ....promotion.arrays import Array
from ....promotion.errors import JoineryError, UnsupportedError, UserError
from ..analysis.combining import prefix_moves
from ..analysis.control_flow import counts_unsigned, iterations, switch_edges, terminator
from ..dialect.attributes import property_number
from ..source_locations import name_line, naming_line
from ..types import numpy_dtype
from .descriptors import DESCRIPTOR_EVALUATORS
from .effects import STEPS
from .evaluators import EVALUATORS, Evaluator
from .machine import Environment, EnvironmentT, Function, Step, Translator, Value

Edge = tuple[Block | None, Sequence[int]]

_CONSTANT = frozenset({"arith.constant", "tt.make_range", "ub.poison"})
STRUCTURED = frozenset(
    {
        "scf.for",
        "scf.if",
        "scf.while",
        "scf.execute_region",
        "scf.index_switch",
        "tt.reduce",
        "tt.scan",
        "tt.call",
        "tt.get_program_id",
        "tt.get_num_programs",
    }
)


_WRITING = (
    "tt.store", "tt.sort_lines", "tt.atomic_", "tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter", "ttng.",
)  # fmt: skip
"""How the names of operations begin that write memory."""


def chooses(region: Region) -> bool:
    """Returns whether a region, or a function that it calls, has control flow."""
    return any(len(here.blocks) > 1 or any(op.regions for op in here.walk()) for here in _with_called(region))


def _with_called(region: Region) -> Iterator[Region]:
    """Yields a region, and the bodies of the functions that it calls."""
    stack, seen = [region], set[Operation]()
    while stack:
        here = stack.pop()
        yield here
        for op in here.walk():
            symbol = op.properties["callee"] if op.name == "tt.call" else None
            callee = SymbolTable.lookup_symbol(op, symbol) if isinstance(symbol, SymbolRefAttr) else None
            if callee is not None and callee not in seen:
                seen.add(callee)
                stack += callee.regions


def refuse_writes(op: Operation) -> None:
    """Raises `UnsupportedError` for a reduction or scan whose region writes memory: how often it runs, and in which order, is
    free."""
    for here in _with_called(op.regions[0]):
        for inner in here.walk():
            if inner.name.startswith(_WRITING):
                raise UnsupportedError(
                    f"{op.name}: {inner.name} in its region, which runs in a free order, is not interpreted; fix: write the "
                    "results, behind it"
                )


class Translation(Translator[EnvironmentT]):
    """Translates the operations of one function into closures."""

    def body(self, region: Region) -> Function:
        run = self.flow(region)
        return lambda args: run(self.environment(), args)

    def flow(self, region: Region) -> Callable[[EnvironmentT, Sequence[Value]], list[Value]]:
        blocks = {block: self.block(block) for block in region.blocks}
        ends = {block: self.end(block) for block in region.blocks}
        arguments = {block: [self.slot(argument) for argument in block.args] for block in region.blocks}
        entry = region.blocks[0]

        def run(env: EnvironmentT, args: Sequence[Value]) -> list[Value]:
            block: Block | None = entry
            values = list(args)
            while block is not None:
                for slot, value in zip(arguments[block], values, strict=True):
                    env[slot] = value
                blocks[block](env)
                block, slots = ends[block](env)
                values = [env[slot] for slot in slots]
            return values

        return run

    def end(self, block: Block) -> Callable[[EnvironmentT], Edge]:
        """Translates the end of a block of a branching region: the closure returns the block that follows
        (None: it leaves the region), and the slots of the values that are passed on."""
        last = block.last_op
        if last is None:
            raise UserError("a block of the function is empty")
        slots = [self.slot(value) for value in last.operands]
        if last.name in ("tt.return", "tt.map_elementwise.return", "scf.yield"):
            return lambda env: (None, slots)
        if last.name == "cf.br":
            (target,) = last.successors
            return lambda env: (target, slots)
        if last.name == "cf.cond_br":
            condition, yes, no = slots[0], *last.successors
            count = len(yes.args)
            taken, other = (yes, slots[1 : 1 + count]), (no, slots[1 + count :])
            return lambda env: taken if env[condition] else other
        if isinstance(last, SwitchOp):
            flag = slots[0]
            numbers, edges = switch_edges(last)
            ways = [(target, [self.slot(value) for value in values]) for target, values in edges]

            def switch(env: EnvironmentT) -> Edge:
                chosen = int(env[flag])
                return ways[numbers.index(chosen) if chosen in numbers else -1]

            return switch
        with naming_line(last):
            raise UnsupportedError(f"the interpreter has no {last.name}")

    def region(self, region: Region) -> Callable[[EnvironmentT, Sequence[Value]], list[Value]]:
        """Translates a region of one block: values of its arguments -> values of its terminator's
        operands."""
        block = region.block
        arguments = [self.slot(argument) for argument in block.args]
        inside = self.block(block)
        results = [self.slot(value) for value in terminator(block).operands]

        def run(env: EnvironmentT, args: Sequence[Value]) -> list[Value]:
            for slot, value in zip(arguments, args, strict=True):
                env[slot] = value
            inside(env)
            return [env[slot] for slot in results]

        return run

    def block(self, block: Block) -> Step[EnvironmentT]:
        """Translates a block into one step, its terminator left out. What it raises names the line of the
        operation."""
        steps = []
        for op in block.ops:
            if op is block.last_op:
                break
            with naming_line(op):
                step = self.operation(op)
            if step is not None:
                steps.append((step, op))

        def run(env: EnvironmentT) -> None:
            try:
                for step, op in steps:  # noqa: B007 - named when it fails
                    step(env)
            except JoineryError as error:
                self.failed(op, error)
                raise

        return run

    def failed(self, op: Operation, error: JoineryError) -> None:
        """What happens when an operation raises, before the error goes on."""
        name_line(error, op)

    def operation(self, op: Operation) -> Step[EnvironmentT] | None:
        """Translates one operation into a step; returns None for a constant, which is in the environment from
        the start."""
        if op.name in STRUCTURED:
            structured: Step[EnvironmentT] = getattr(self, f"_{op.name.replace('.', '_')}")(op)
            return structured
        if op.name in STEPS:
            return STEPS[op.name](self, op)
        make = DESCRIPTOR_EVALUATORS.get(op.name) or EVALUATORS.get(op.name)
        if make is None:
            raise UnsupportedError(f"the interpreter has no {op.name}")
        function = make(op, self.machine.memory)
        if op.name in _CONSTANT:
            self.template[self.slot(op.results[0])] = function()
            return None
        return self._step(op, function)

    def _step(self, op: Operation, function: Evaluator) -> Step[EnvironmentT]:
        slots = [self.slot(value) for value in op.operands]
        if len(op.results) == 1:
            result = self.slot(op.results[0])
            if len(slots) == 1:
                (one,) = slots

                def unary(env: EnvironmentT) -> None:
                    env[result] = function(env[one])

                return unary
            if len(slots) == 2:
                left, right = slots

                def binary(env: EnvironmentT) -> None:
                    env[result] = function(env[left], env[right])

                return binary

            def several(env: EnvironmentT) -> None:
                env[result] = function(*[env[slot] for slot in slots])

            return several
        results = [self.slot(value) for value in op.results]

        def general(env: EnvironmentT) -> None:
            values = function(*[env[slot] for slot in slots])
            for slot, value in zip(results, values or (), strict=True):
                env[slot] = value

        return general

    # Operations that need the machine or run regions

    def _tt_get_program_id(self, op: Operation) -> Step[EnvironmentT]:
        result, axis, machine = self.slot(op.results[0]), property_number(op, "axis"), self.machine

        def step(env: EnvironmentT) -> None:
            env[result] = machine.program[axis]

        return step

    def _tt_get_num_programs(self, op: Operation) -> Step[EnvironmentT]:
        result = self.slot(op.results[0])
        machine, axis = self.machine, property_number(op, "axis")

        def step(env: EnvironmentT) -> None:
            env[result] = machine.grid[axis]

        return step

    def _tt_call(self, op: Operation) -> Step[EnvironmentT]:
        module = op.parent_op()
        while module is not None and not isinstance(module, ModuleOp):
            module = module.parent_op()
        symbol = op.properties["callee"]
        assert isinstance(symbol, SymbolRefAttr)
        callee = symbol.root_reference.data
        if module is None:
            raise UserError(f"tt.call @{callee}: the function stands in no module")
        run = self.machine.callee(module, callee)
        slots = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]

        def step(env: EnvironmentT) -> None:
            for slot, value in zip(results, run([env[slot] for slot in slots]), strict=True):
                env[slot] = value

        return step

    def _scf_for(self, op: Operation) -> Step[EnvironmentT]:
        low, high, stride, *inits = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        number, unsigned = numpy_dtype(op.operands[0].type).type, counts_unsigned(op)
        body = self.region(op.regions[0])

        def step(env: EnvironmentT) -> None:
            values = [env[slot] for slot in inits]
            if env[stride] == 0 or (env[stride] < 0 and not unsigned):
                raise UserError(f"scf.for with step {env[stride]}; steps are positive")
            for index in iterations(op, int(env[low]), int(env[high]), int(env[stride])):
                values = body(env, [number(index), *values])
            for slot, value in zip(results, values, strict=True):
                env[slot] = value

        return step

    def _scf_if(self, op: Operation) -> Step[EnvironmentT]:
        (condition,) = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        branches = [self.region(region) if region.blocks else None for region in op.regions]

        def step(env: EnvironmentT) -> None:
            branch = branches[0] if env[condition] else branches[1]
            if branch is not None:
                for slot, value in zip(results, branch(env, ()), strict=True):
                    env[slot] = value

        return step

    def _scf_execute_region(self, op: Operation) -> Step[EnvironmentT]:
        results = [self.slot(value) for value in op.results]
        run = self.flow(op.regions[0])

        def step(env: EnvironmentT) -> None:
            for slot, value in zip(results, run(env, ()), strict=True):
                env[slot] = value

        return step

    def _scf_index_switch(self, op: Operation) -> Step[EnvironmentT]:
        assert isinstance(op, IndexSwitchOp)
        (number,) = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        default = self.region(op.default_region)
        cases = {
            int(case): self.region(region) for case, region in zip(op.cases.iter_values(), op.case_regions, strict=True)
        }

        def step(env: EnvironmentT) -> None:
            chosen = cases.get(int(env[number]), default)
            for slot, value in zip(results, chosen(env, ()), strict=True):
                env[slot] = value

        return step

    def _scf_while(self, op: Operation) -> Step[EnvironmentT]:
        inits = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        before, after = (self.region(region) for region in op.regions)

        def step(env: EnvironmentT) -> None:
            values = [env[slot] for slot in inits]
            while True:
                going_on, *values = before(env, values)
                if not going_on:
                    break
                values = after(env, values)
            for slot, value in zip(results, values, strict=True):
                env[slot] = value

        return step

    def _combine(self, op: Operation) -> Callable[[EnvironmentT, list[Array], list[Array]], list[Array]]:
        """Translates the region into a function of whole arrays of left and right values, which runs element
        by element if the region has control flow."""
        refuse_writes(op)
        body = self.region(op.regions[0])

        def whole(env: EnvironmentT, left: list[Array], right: list[Array]) -> list[Array]:
            return [
                np.broadcast_to(value, operand.shape)
                for value, operand in zip(body(env, [*left, *right]), left, strict=True)
            ]

        def single(env: EnvironmentT, left: list[Array], right: list[Array]) -> list[Array]:
            out = [np.empty_like(operand) for operand in left]
            for index in np.ndindex(left[0].shape):
                values = body(env, [operand[index] for operand in (*left, *right)])
                for target, value in zip(out, values, strict=True):
                    target[index] = value
            return out

        return single if chooses(op.regions[0]) else whole

    def _tt_reduce(self, op: Operation) -> Step[EnvironmentT]:
        slots = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        axis = property_number(op, "axis")
        combine = self._combine(op)

        def step(env: EnvironmentT) -> None:
            values = [np.moveaxis(env[slot], axis, 0) for slot in slots]
            while len(values[0]) > 1:
                values = combine(env, [value[0::2] for value in values], [value[1::2] for value in values])
            for slot, value in zip(results, values, strict=True):
                env[slot] = value[0]

        return step

    def _tt_scan(self, op: Operation) -> Step[EnvironmentT]:
        slots = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]
        axis = property_number(op, "axis")
        reverse = bool(property_number(op, "reverse"))
        combine = self._combine(op)

        def step(env: EnvironmentT) -> None:
            values = [np.moveaxis(env[slot], axis, 0) for slot in slots]
            if reverse:
                values = [value[::-1] for value in values]
            length = 1
            while length < len(values[0]):
                before, behind = prefix_moves(len(values[0]), length)
                sums = combine(env, [value[before] for value in values], [value[behind] for value in values])
                values = [value.copy() for value in values]
                for value, total in zip(values, sums, strict=True):
                    value[behind] = total
                length *= 2
            if reverse:
                values = [value[::-1] for value in values]
            for slot, value in zip(results, values, strict=True):
                env[slot] = np.moveaxis(value, 0, axis)

        return step


class PlainTranslation(Translation[Environment]):
    """Translates into closures over values alone."""

    def environment(self) -> Environment:
        return self.template.copy()
