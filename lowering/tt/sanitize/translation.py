"""Translates a block function into closures that keep a shadow beside every value; `sanitize` runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.scf import IndexSwitchOp
from xdsl.ir import Attribute, Block, Operation, Region

from ....promotion.errors import JoineryError, UserError
from ...tt.analysis.control_flow import counts_unsigned, iterations, terminator
from .. import types as t
from ..dialect.external import ElementwiseInlineAsmOp, program_of
from ..interpret.evaluators import EVALUATORS
from ..interpret.machine import Function, Step, Value
from ..interpret.memory import AccessError
from ..interpret.translation import STRUCTURED, Edge, Translation, chooses, refuse_writes
from ..transforms.expand.expand_assembly import expanded
from ..types import numpy_dtype
from .assembly import followed
from .composites import MADE, made, used, uses_operands
from .guard import Guard
from .machine import SanitizedMachine
from .memory import ACCESSES
from .partial import is_partial, partial
from .pending import SYNCHRONISING
from .promises import assumed, hints_of, kept
from .regions import Carried, Reduction, Shadowed, combined, mapped, reduced, scanned
from .shadow import Frame, Rule, Shadow, moves_far, rule_of, starts_marks

_ASSERTS = frozenset({"tt.assert", "cf.assert"})


class ProgramEnds(Exception):
    """Raised when a program cannot go on; what stopped it has been reported."""


class SanitizedTranslation(Translation[Frame]):
    """Translates into closures that keep the shadows up to date and ask the guard before they access
    memory."""

    machine: SanitizedMachine

    def __init__(self, machine: SanitizedMachine) -> None:
        super().__init__(machine)
        self.guard: Guard = machine.guard
        self._shadows: dict[int, Shadow] = {}  # of constants

    def environment(self) -> Frame:
        return Frame(self.template, self._shadows.copy())

    # Single operations

    def operation(self, op: Operation) -> Step[Frame] | None:
        step, guard = self._operation(op), self.guard
        hints = hints_of(op)
        if hints is not None and step is not None:
            step = kept(self, op, hints, step)
        if op.name not in SYNCHRONISING:
            return step

        def run(env: Frame) -> None:
            if step is not None:
                step(env)
            guard.barrier()

        return run

    def _operation(self, op: Operation) -> Step[Frame] | None:
        if op.name in ACCESSES and _is_address(op.operands[0].type):
            return ACCESSES[op.name](self, op)
        if isinstance(op, ElementwiseInlineAsmOp) and program_of(op).accesses_memory:
            return self._expanded(op)
        if op.name == "tt.map_elementwise":
            return self._map(op)
        if op.name == "llvm.intr.assume":
            return assumed(self, op)
        step = super().operation(op)
        if op.name == "tt.print" and not self.guard.prints:
            step = _nothing
        if step is None:
            if op.name == "ub.poison":
                shape = t.shape_of(op.results[0].type)
                poison = np.full(shape, self.guard.number(op), np.int32)
                self._shadows[self.slot(op.results[0])] = Shadow(poison)
            return None
        if op.name in STRUCTURED:
            return step
        if op.name == "tt.split":
            return self._split(op, step)
        if op.name == "tt.gather":
            step = self._gather(op)
        if op.name in MADE:
            return made(self, op, step)
        if uses_operands(op):
            return used(self, op, self._unknown(op, step))
        if isinstance(op, ElementwiseInlineAsmOp) and op.operands:
            return followed(self, op, step)
        number = self.guard.number(op)
        maker = EVALUATORS.get(op.name)
        if op.results and op.operands and maker is not None:
            rule = rule_of(op, number, maker(op, self.machine.memory))
            if rule is not None:
                always = starts_marks(op.name, op.results[0].type) and t.is_integer(op.operands[0].type)
                always = always or moves_far(op) or op.name == "tt.fft"
                if self.guard.undefined_arithmetic and is_partial(op):
                    rule, always = partial(op, number, rule), True
                return self._ruled(op, step, rule, always)
        return self._unknown(op, step)

    def _expanded(self, op: ElementwiseInlineAsmOp) -> Step[Frame]:
        """Translates inline assembly that accesses memory as the operations that it is made of, so that each access is
        checked and undefined values are followed through registers."""
        block, values = expanded(op)
        for part in block.ops:
            self.guard.stands_for(part, op)
        arguments, operands = [self.slot(each) for each in block.args], [self.slot(each) for each in op.operands]
        found, results = [self.slot(each) for each in values], [self.slot(each) for each in op.results]
        inside = self.block(block)

        def run(env: Frame) -> None:
            _put_all(env, arguments, [env[slot] for slot in operands], [env.shadow.get(slot) for slot in operands])
            inside(env)
            _put_all(env, results, [env[slot] for slot in found], [env.shadow.get(slot) for slot in found])

        return run

    def _ruled(self, op: Operation, step: Step[Frame], rule: Rule, always: bool) -> Step[Frame]:
        slots = [self.slot(value) for value in op.operands]
        results = [self.slot(value) for value in op.results]

        def run(env: Frame) -> None:
            step(env)
            table = env.shadow
            shadows = [table.get(slot) for slot in slots]
            if not always and not any(shadow is not None for shadow in shadows):
                for result in results:
                    table.pop(result, None)
                return
            values = [env[slot] for slot in slots]
            for result in results:
                _put(table, result, rule(values, shadows, env[result]))

        return run

    def _unknown(self, op: Operation, step: Step[Frame]) -> Step[Frame]:
        """Translates an operation without a rule: its results count as defined, its accesses are checked by
        their addresses."""
        results = [self.slot(value) for value in op.results]
        guard = self.guard
        condition = self.slot(op.operands[0]) if op.name in _ASSERTS else None

        def run(env: Frame) -> None:
            for slot in results:
                env.shadow.pop(slot, None)
            if condition is not None and guard.undefined(
                op, "the condition of the assertion", env.shadow.get(condition)
            ):
                return
            guard.watched = None if op.regions else op  # operations inside regions speak for themselves
            guard.blank = None
            try:
                step(env)
                if guard.blank is not None and len(results) == 1 and np.size(env[results[0]]) == guard.blank.size:
                    env.shadow[results[0]] = Shadow(guard.blank.reshape(np.shape(env[results[0]])))
            except AccessError as error:
                guard.report("out-of-bounds", op, 1, str(error))
                raise ProgramEnds from None
            finally:
                guard.watched = None

        return run

    def _map(self, op: Operation) -> Step[Frame]:
        operands, results = [self.slot(value) for value in op.operands], [self.slot(value) for value in op.results]
        body = self.carried_flow(op.regions[0])

        def run(env: Frame) -> None:
            values, shadows = [env[slot] for slot in operands], [env.shadow.get(slot) for slot in operands]
            _put_all(env, results, *mapped(op, env, body, values, shadows))

        return run

    def _split(self, op: Operation, step: Step[Frame]) -> Step[Frame]:
        source, (first, second) = self.slot(op.operands[0]), [self.slot(value) for value in op.results]

        def run(env: Frame) -> None:
            step(env)
            shadow = env.shadow.get(source)
            _put(env.shadow, first, None if shadow is None else shadow.mapped(lambda x: x[..., 0]))
            _put(env.shadow, second, None if shadow is None else shadow.mapped(lambda x: x[..., 1]))

        return run

    def _gather(self, op: Operation) -> Step[Frame]:
        """Translates tt.gather so that it reports indices outside the axis, and goes on with the nearest
        ones."""
        guard, evaluate = self.guard, EVALUATORS["tt.gather"](op, self.machine.memory)
        source, slot = [self.slot(value) for value in op.operands]
        result = self.slot(op.results[0])
        axis = op.properties["axis"].value.data  # type: ignore[attr-defined]

        def run(env: Frame) -> None:
            indices = np.asarray(env[slot])
            extent = env[source].shape[axis]
            outside = np.argwhere((indices < 0) | (indices >= extent))
            if len(outside):
                lane = tuple(int(i) for i in outside[0])
                message = f"index {int(indices[lane])} lies outside axis {axis}, which has {extent} elements"
                guard.report("out-of-bounds", op, len(outside), message, None, lane)
                indices = np.clip(indices, 0, extent - 1)
            env[result] = evaluate(env[source], indices)

        return run

    def failed(self, op: Operation, error: JoineryError) -> None:
        """Reports the program's mistake at the operation that met it; the program ends."""
        if isinstance(error, UserError):
            self.guard.report("error", op, 1, str(error), str(error))
            raise ProgramEnds from None
        super().failed(op, error)

    # Regions: their values travel with their shadows

    def region(self, region: Region) -> Callable[[Frame, Sequence[Value]], list[Value]]:
        run = self.carried(region)
        return lambda env, args: run(env, args, [None] * len(args))[0]

    def carried(self, region: Region) -> Carried:
        """Translates a region of one block: values and shadows of its arguments -> those of its terminator's
        operands."""
        block = region.block
        arguments = [self.slot(argument) for argument in block.args]
        inside, guard, length = self.block(block), self.guard, len(block.ops)
        results = [self.slot(value) for value in terminator(block).operands]

        def run(env: Frame, args: Sequence[Value], shadows: Sequence[Shadow | None]) -> Shadowed:
            if guard.gives_up(length):
                raise ProgramEnds
            _put_all(env, arguments, args, shadows)
            inside(env)
            return [env[slot] for slot in results], [env.shadow.get(slot) for slot in results]

        return run

    def body(self, region: Region) -> Function:
        run, machine = self.carried_flow(region), self.machine

        def call(args: Sequence[Value]) -> list[Value]:
            values, machine.passed = run(self.environment(), args, machine.passed)
            return values

        return call

    def carried_flow(self, region: Region) -> Carried:
        """Translates a region whose blocks may branch, as `carried` does one of one block."""
        blocks = {block: self.block(block) for block in region.blocks}
        ends = {block: self.end(block) for block in region.blocks}
        arguments = {block: [self.slot(argument) for argument in block.args] for block in region.blocks}
        entry, guard = region.blocks[0], self.guard
        lengths = {block: len(block.ops) for block in region.blocks}

        def run(env: Frame, args: Sequence[Value], known: Sequence[Shadow | None]) -> Shadowed:
            block: Block | None = entry
            values, shadows = list(args), list(known)
            while block is not None:
                if guard.gives_up(lengths[block]):
                    raise ProgramEnds
                _put_all(env, arguments[block], values, shadows)
                blocks[block](env)
                block, slots = ends[block](env)
                values, shadows = [env[slot] for slot in slots], [env.shadow.get(slot) for slot in slots]
            return values, shadows

        return run

    def end(self, block: Block) -> Callable[[Frame], Edge]:
        way, last = super().end(block), terminator(block)
        if last.name not in ("cf.cond_br", "cf.switch"):
            return way
        condition, guard = self.slot(last.operands[0]), self.guard

        def branch(env: Frame) -> Edge:
            if guard.undefined(last, "the branch condition", env.shadow.get(condition)):
                raise ProgramEnds  # the branch may lead back for ever
            return way(env)

        return branch

    def _tt_call(self, op: Operation) -> Step[Frame]:
        step, machine, calls = super()._tt_call(op), self.machine, self.guard.calls
        slots, results = (
            [self.slot(value) for value in op.operands],
            [self.slot(value) for value in op.results],
        )

        def run(env: Frame) -> None:
            machine.passed = [env.shadow.get(slot) for slot in slots]
            calls.append(op)
            step(env)
            calls.pop()
            for slot, shadow in zip(results, machine.passed, strict=True):
                _put(env.shadow, slot, shadow)

        return run

    def _scf_for(self, op: Operation) -> Step[Frame]:
        bounds = [self.slot(value) for value in op.operands[:3]]
        inits, results = (
            [self.slot(value) for value in op.operands[3:]],
            [self.slot(value) for value in op.results],
        )
        guard, body = self.guard, self.carried(op.regions[0])
        number, unsigned = numpy_dtype(op.operands[0].type).type, counts_unsigned(op)

        def step(env: Frame) -> None:
            table = env.shadow
            values, shadows = [env[slot] for slot in inits], [table.get(slot) for slot in inits]
            low, high, stride = (env[slot] for slot in bounds)
            if any([guard.undefined(op, "a bound of the loop", table.get(slot)) for slot in bounds]):
                low = high  # an undefined number of iterations: none
            elif stride == 0 or (stride < 0 and not unsigned):
                raise UserError(f"scf.for with step {stride}; steps are positive")
            for index in iterations(op, int(low), int(high), int(stride) or 1):
                values, shadows = body(env, [number(index), *values], [None, *shadows])
            _put_all(env, results, values, shadows)

        return step

    def _scf_if(self, op: Operation) -> Step[Frame]:
        condition, results = self.slot(op.operands[0]), [self.slot(value) for value in op.results]
        branches = [self.carried(region) if region.blocks else None for region in op.regions]
        guard = self.guard

        def step(env: Frame) -> None:
            guard.undefined(op, "the branch condition", env.shadow.get(condition))
            branch = branches[0] if env[condition] else branches[1]
            if branch is not None:
                _put_all(env, results, *branch(env, (), ()))

        return step

    def _scf_execute_region(self, op: Operation) -> Step[Frame]:
        results, run = [self.slot(value) for value in op.results], self.carried_flow(op.regions[0])
        return lambda env: _put_all(env, results, *run(env, (), ()))

    def _scf_index_switch(self, op: Operation) -> Step[Frame]:
        assert isinstance(op, IndexSwitchOp)
        number, results = self.slot(op.operands[0]), [self.slot(value) for value in op.results]
        numbers = [int(case) for case in op.cases.iter_values()]
        cases = dict(zip(numbers, map(self.carried, op.case_regions), strict=True))
        default, guard = self.carried(op.default_region), self.guard

        def step(env: Frame) -> None:
            guard.undefined(op, "the number of the case", env.shadow.get(number))
            _put_all(env, results, *cases.get(int(env[number]), default)(env, (), ()))

        return step

    def _scf_while(self, op: Operation) -> Step[Frame]:
        inits, results = (
            [self.slot(value) for value in op.operands],
            [self.slot(value) for value in op.results],
        )
        before, after = (self.carried(region) for region in op.regions)
        guard, only_waits = self.guard, _repeats_itself(op)

        def step(env: Frame) -> None:
            values, shadows = [env[slot] for slot in inits], [env.shadow.get(slot) for slot in inits]
            while True:
                started, changes = values, guard.changes
                (going_on, *values), (known, *shadows) = before(env, values, shadows)
                if guard.undefined(op, "the condition of the loop", known) or not going_on:
                    break
                values, shadows = after(env, values, shadows)
                if only_waits and guard.changes == changes and _are_equal(started, values):
                    guard.report("deadlock", op, 1, _NEVER_ENDS)
                    raise ProgramEnds
            _put_all(env, results, values, shadows)

        return step

    def _tt_reduce(self, op: Operation) -> Step[Frame]:
        return self._along_axis(op, reduced)

    def _tt_scan(self, op: Operation) -> Step[Frame]:
        return self._along_axis(op, scanned)

    def _along_axis(self, op: Operation, run: Reduction) -> Step[Frame]:
        slots, results = (
            [self.slot(value) for value in op.operands],
            [self.slot(value) for value in op.results],
        )
        refuse_writes(op)
        combine = combined(self.carried(op.regions[0]), chooses(op.regions[0]))

        def step(env: Frame) -> None:
            values, shadows = [env[slot] for slot in slots], [env.shadow.get(slot) for slot in slots]
            _put_all(env, results, *run(op, env, combine, values, shadows))

        return step


_NEVER_ENDS = (
    "the loop never ends: it waits for what no earlier program left in memory, as for a lock that nobody gave back; "
    "programs run one after the other here, and none can wait for a later one"
)


def _nothing(env: Frame) -> None:
    """Stands for what is left out."""


def _repeats_itself(loop: Operation) -> bool:
    """Returns whether an iteration does what the one before did if it starts from the same values and memory.

    Inline assembly may read a clock, and prints would be lost.
    """
    return not any(op.name in ("tt.elementwise_inline_asm", "tt.print", "tt.call") for op in loop.walk())


def _are_equal(first: Sequence[Value], second: Sequence[Value]) -> bool:
    """Returns whether two lists of values are the same, bit by bit."""
    pairs = zip(first, second, strict=True)
    return all(one is two or (_is_plain(one) and np.asarray(one).tobytes() == np.asarray(two).tobytes()) for one, two in pairs)


def _is_plain(value: Value) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _is_address(type_: Attribute) -> bool:
    """Returns whether the value is a pointer, or a block of them, to single elements: no pointer to a block,
    no descriptor."""
    element = t.elem(type_)
    return isinstance(element, t.PointerType) and not t.is_tensor(element.pointee)


def _put(table: dict[int, Shadow], slot: int, shadow: Shadow | None) -> None:
    if shadow is None:
        table.pop(slot, None)
    else:
        table[slot] = shadow


def _put_all(
    env: Frame, slots: Sequence[int], values: Sequence[Value], shadows: Sequence[Shadow | None]
) -> None:
    for slot, value, shadow in zip(slots, values, shadows, strict=True):
        env[slot] = value
        _put(env.shadow, slot, shadow)


__all__ = ["ProgramEnds", "SanitizedTranslation"]
