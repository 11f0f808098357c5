"""Adds to a function what the sanitizer would look at, so that native code stops where a finding is possible.

The code is stricter than the sanitizer: where it runs to its end, the sanitizer finds nothing in the launch; where it stops,
the sanitizer has to look. `docs/design/016-native-sanitizer.md` says what is checked, and why that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.arith import IntegerOverflowAttr
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from .. import types as t
from ..analysis.aliasing import AliasAnalysis
from ..analysis.control_flow import parent_block, terminator
from ..builder.block_builder import BlockBuilder
from ..dialect.compute import FftOp
from ..dialect.debug import AssertOp
from ..dialect.functions import FuncOp
from ..dialect.memory.check_access import CheckAccessOp
from ..sanitize.partial import is_partial, repeated
from ..sanitize.pending import SYNCHRONISING
from ..sanitize.promises import hints_of
from ..sanitize.shadow import MOVES
from ..source_locations import naming_line
from ..transforms.folding import constant_of
from ..transforms.rewriting import Rewriter
from . import promises
from .bounds import ACCESSES
from .obstacles import SCALAR_REGIONS
from .plan import EPOCH_BITS, LANE_BITS, NOT_WRITTEN, NUMBER_SHIFT, Instrumented, Plan
from .undefined import (
    any_of,
    divisor_lanes,
    follows,
    lanes_before,
    negated,
    possibly_undefined,
    undefined_lanes,
    without_result,
)
from .watches import Kind, Watch, has_distinct_lanes, watches
from .wraps import emit_checks

MAX_ITERATIONS = 1 << 20
"""Iterations of a loop whose end is not known, after which the sanitizer looks whether it ever ends."""
_ASSERTS = frozenset({"tt.assert", "cf.assert"})
_STAMPS = t.ptr(t.I64)
_EPOCH_SHIFT = NUMBER_SHIFT - EPOCH_BITS
_BELOW_EPOCH = (1 << _EPOCH_SHIFT) - 1
_EPOCH_MASK = ((1 << EPOCH_BITS) - 1) << _EPOCH_SHIFT


def instrument(function: FuncOp, plan: Plan) -> Instrumented:
    """Adds checks to a function in place. It has no calls, descriptors, block pointers or other `obstacle`."""
    return _Instrumentation(function, plan).run()


class _Instrumentation:
    """The state of one function.

    stamps: pointer → pointer to the stamps of the same elements.  undefined: value → its undefined lanes.
    """

    def __init__(self, function: FuncOp, plan: Plan) -> None:
        self._function = function
        self._aliases = AliasAnalysis(function, dict(plan.groups))
        self._watches = watches(function, self._aliases, plan)
        self._possibly_undefined = possibly_undefined(function, plan.undefined_arithmetic)
        self._undefined_arithmetic = plan.undefined_arithmetic
        positions = set(plan.wraps)
        self._wraps = {op for position, op in enumerate(function.walk()) if position in positions}
        self._follows_lanes = any(watch.lanes for watch in self._watches.values())
        self._shapes: dict[tuple[int, ...], int] = {}
        self._stamps: dict[SSAValue, SSAValue] = {}
        self._undefined: dict[SSAValue, SSAValue] = {}
        self._distances: dict[int, SSAValue] = {}
        self._originals: dict[SSAValue, SSAValue] = {}  # result of a loop or branch → that which it replaces

    def run(self) -> Instrumented:
        entry = self._function.body.blocks[0]
        own = list(entry.args)
        floor = self._parameter(entry, t.I64, "floor")
        epochs = self._parameter(entry, t.ptr(t.I32), "epochs") if self._follows_lanes else None
        stamped, readers = [], []
        for number, argument in enumerate(own):
            watch = self._watch(argument)
            if watch is None:
                continue
            stamped.append(number)
            self._stamps[argument] = self._parameter(entry, _STAMPS, "stamps")
            if watch.readers:
                readers.append(number)
                self._distances.setdefault(self._group(argument), self._parameter(entry, t.I64, "distance"))
        self._state_type(entry)
        operations = [list(block.ops) for block in self._function.body.blocks]
        b = Rewriter(operations[0][0])
        self._floor = floor
        program = _program(b)
        one = b.const(1, t.I64)
        shift = b.const(NUMBER_SHIFT, t.I64)
        self._own = b.binary("arith.addi", floor, b.binary("arith.shli", b.binary("arith.addi", program, one), shift))
        self._epoch = None if epochs is None else b.addptr(epochs, program)
        for inner in operations:
            self._operations(inner)
        return Instrumented(self._function, epochs is not None, tuple(stamped), frozenset(readers))

    @staticmethod
    def _parameter(entry: Block, type_: Attribute, hint: str) -> SSAValue:
        argument = entry.insert_arg(type_, len(entry.args))
        argument.name_hint = hint
        return argument

    def _state_type(self, entry: Block) -> None:
        types = [argument.type for argument in entry.args]
        properties = self._function.properties
        properties["function_type"] = FunctionType.from_lists(types, self._function.function_type.outputs.data)
        given = properties.get("arg_attrs")
        if isinstance(given, ArrayAttr):
            more = [DictionaryAttr({})] * (len(types) - len(given.data))
            properties["arg_attrs"] = ArrayAttr([*given.data, *more])

    def _group(self, pointer: SSAValue) -> int:
        (group,) = self._aliases.of(self._originals.get(pointer, pointer))
        return group

    def _watch(self, value: SSAValue) -> Watch | None:
        """Returns how the memory behind a pointer is watched; None for other values, and memory that is not."""
        if not t.is_pointer(value.type):
            return None
        bases = self._aliases.of(self._originals.get(value, value))
        return self._watches.get(next(iter(bases))) if len(bases) == 1 else None  # others are not accessed

    # Blocks of operations

    def _block(self, block: Block) -> None:
        self._operations(list(block.ops))

    def _operations(self, operations: Sequence[Operation]) -> None:
        for op in operations:
            with naming_line(op):
                self._operation(op)

    def _operation(self, op: Operation) -> None:
        if "overflowFlags" in op.properties:
            op.properties["overflowFlags"] = IntegerOverflowAttr("none")  # a claim that nothing checks
        structured = _STRUCTURED.get(op.name)
        if structured is not None:
            structured(self, op)
            return
        if op.name in ACCESSES:
            self._access(op)
        elif op.name in _ASSERTS or op.name == "cf.cond_br":
            self._need_defined(Rewriter(op), op.operands[0])
        elif op.name == "llvm.intr.assume":
            self._need_defined(Rewriter(op), op.operands[0])
            self._need(Rewriter(op), op.operands[0], "an assumption does not hold")
        elif op.results:
            self._computation(op)
        hints = hints_of(op)
        if hints is not None:
            b = Rewriter(_next(op))
            for condition in promises.kept(b, op, hints):
                self._need(b, condition, "a hint does not hold")
        if op.name in SYNCHRONISING and self._epoch is not None:
            b = Rewriter(_next(op))
            b.store(self._epoch, b.binary("arith.addi", b.load(self._epoch), b.const(1, t.I32)))

    def _computation(self, op: Operation) -> None:
        after = Rewriter(_next(op))
        if op.name in ("tt.histogram", "tt.sort"):
            for operand in op.operands:
                self._need_defined(Rewriter(op), operand)
        if op.name in SCALAR_REGIONS:
            for value in {operand for inner in op.walk() if inner is not op for operand in inner.operands}:
                self._need_defined(Rewriter(op), value)  # what the region takes from outside
        if op.name == "tt.gather":
            self._indices(Rewriter(op), op)
        if op in self._wraps:
            self._need(after, emit_checks(after, op), "an offset wraps around")
        if op.name == "ub.poison":
            shape = t.shape_of(op.results[0].type)
            self._undefined[op.results[0]] = after.const(1, t.I1, shape)
        elif isinstance(op, FftOp):
            before, (read, written) = Rewriter(op), op.counts
            self._need_defined(before, op.src, lanes_before(before, op, read))
            self._undefined[op.results[0]] = negated(after, lanes_before(after, op, written))
        elif follows(op) and any(operand in self._undefined for operand in op.operands):
            found = undefined_lanes(after, op, self._undefined)
            self._undefined.update(zip(op.results, found, strict=True))
        if self._undefined_arithmetic and is_partial(op):
            self._partial(op, after)
        for result in op.results:
            if t.is_pointer(result.type) and self._watch(result) is not None:
                self._stamps[result] = self._moved(after, op)

    def _partial(self, op: Operation, after: BlockBuilder) -> None:
        """Marks the lanes in which an operation has no result; where all lanes share a divisor, it is checked at once."""
        lanes = divisor_lanes(op)
        if lanes is None:
            number = repeated(op.operands[1])
            self._need(after, negated(after, without_result(after, op, number)), "a division by zero, or a shift by too much")
            return
        known = self._undefined.get(op.results[0])
        found = without_result(after, op, lanes)
        self._undefined[op.results[0]] = found if known is None else any_of(after, [known, found])

    def _moved(self, b: BlockBuilder, op: Operation) -> SSAValue:
        """Emits the pointer to stamps that goes with a computed pointer."""
        if op.name == "tt.bitcast":
            return self._stamps[op.operands[0]]
        operands = [self._stamps.get(operand, operand) for operand in op.operands]
        type_ = t.with_elem(op.results[0].type, _STAMPS)
        assert op.name in MOVES or op.name in ("tt.addptr", "arith.select")
        return b.op(type(op), operands, [type_], dict(op.properties))[0]

    def _indices(self, b: BlockBuilder, op: Operation) -> None:
        """Checks that the indices of a gather lie in the source."""
        source, indices = op.operands
        axis = int(op.properties["axis"].value.data)  # type: ignore[attr-defined]
        type_, shape = t.elem(indices.type), t.shape_of(indices.type)
        extent = t.shape_of(source.type)[axis]
        if extent >= 1 << (t.bit_width(type_) - 1):  # all that is not negative lies inside
            inside = b.cmpi("sge", indices, b.const(0, type_, shape))
        else:
            inside = b.cmpi("ult", indices, b.const(extent, type_, shape))
        self._need(b, inside, "an index lies outside of the axis")

    # Loops and branches

    def _for(self, op: Operation) -> None:
        body, b = op.regions[0].block, Rewriter(op)
        for bound in op.operands[:3]:
            self._need_defined(b, bound)
        step = op.operands[2]
        constant = constant_of(step)
        if constant is None or constant < 1:
            self._need(b, b.cmpi("sgt", step, b.const(0, step.type)), "a loop's step is not positive")
        carried = list(zip(op.operands[3:], body.args[1:], strict=True))
        inits: list[SSAValue] = []
        for init, argument in carried:
            for table, found in self._beside(b, init, argument):
                inits.append(found)
                table[argument] = body.insert_arg(found.type, len(body.args))
        self._block(body)
        last = terminator(body)
        with_more = self._with_more(last, last.operands, [argument for _, argument in carried])
        if not inits:
            return
        last.operands = with_more
        new = scf.ForOp.create(
            operands=[*op.operands, *inits],
            result_types=[*[result.type for result in op.results], *[init.type for init in inits]],
            regions=[op.detach_region(op.regions[0])],
            attributes=op.attributes,
            properties=op.properties,
            location=op.location,
        )
        self._replace(op, new)

    def _while(self, op: Operation) -> None:
        """Instruments a loop that may never end: it is left for the sanitizer after `MAX_ITERATIONS`."""
        before, after = (region.block for region in op.regions)
        condition, yielded = terminator(before), terminator(after)
        roles, inits = list(before.args), [*op.operands]
        b = Rewriter(op)
        for init, argument in zip(op.operands, roles, strict=True):
            for table, found in self._beside(b, init, argument):
                inits.append(found)
                table[argument] = before.insert_arg(found.type, len(before.args))
        inits.append(b.const(0, t.I32))
        count = before.insert_arg(t.I32, len(before.args))
        passed = list(after.args)
        for argument in passed:
            for table, type_ in self._types_beside(argument):
                table[argument] = after.insert_arg(type_, len(after.args))
        last_count = after.insert_arg(t.I32, len(after.args))
        first = Rewriter(before.ops.first or condition)
        inner = list(before.ops)
        self._need(first, first.cmpi("slt", count, first.const(MAX_ITERATIONS, t.I32)), "a loop may never end")
        self._operations(inner)
        self._need_defined(Rewriter(condition), condition.operands[0])
        self._block(after)
        going_on, *values = condition.operands
        condition.operands = [going_on, *self._with_more(condition, values, op.results), count]
        end = Rewriter(yielded)
        count_after = end.binary("arith.addi", last_count, end.const(1, t.I32))
        yielded.operands = [*self._with_more(yielded, yielded.operands, roles), count_after]
        new = scf.WhileOp.create(
            operands=inits,
            result_types=[value.type for value in condition.operands[1:]],
            regions=[op.detach_region(region) for region in list(op.regions)],
            attributes=op.attributes,
            location=op.location,
        )
        self._replace(op, new)

    def _if(self, op: Operation) -> None:
        b = Rewriter(op)
        self._need_defined(b, op.operands[0])
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        more: list[list[SSAValue]] = []
        for region in op.regions:
            if region.blocks:
                last = terminator(region.block)
                more.append(self._with_more(last, last.operands, op.results))
        if not op.results or len(more[0]) == len(op.results):
            return
        for region, operands in zip(op.regions, more, strict=True):
            terminator(region.block).operands = operands
        new = scf.IfOp.create(
            operands=op.operands,
            result_types=[value.type for value in more[0]],
            regions=[op.detach_region(region) for region in list(op.regions)],
            attributes=op.attributes,
            location=op.location,
        )
        self._replace(op, new)

    def _types_beside(self, role: SSAValue) -> list[tuple[dict[SSAValue, SSAValue], Attribute]]:
        """Returns the types of what goes beside a value of a loop or branch, and the tables that it belongs to."""
        found: list[tuple[dict[SSAValue, SSAValue], Attribute]] = []
        if self._watch(role) is not None:
            found.append((self._stamps, t.with_elem(role.type, _STAMPS)))
        if role in self._possibly_undefined:
            found.append((self._undefined, t.mask_type(role.type)))
        return found

    def _beside(
        self, b: BlockBuilder, value: SSAValue, role: SSAValue
    ) -> list[tuple[dict[SSAValue, SSAValue], SSAValue]]:
        """Returns what goes beside a value that becomes a result or argument, `role`, and the table that it belongs to."""
        found = []
        for table, type_ in self._types_beside(role):
            beside = table.get(value)
            found.append((table, b.const(0, t.I1, t.shape_of(type_)) if beside is None else beside))
        return found

    def _with_more(self, last: Operation, values: Sequence[SSAValue], roles: Sequence[SSAValue]) -> list[SSAValue]:
        """Returns operands of a terminator, and behind them what goes beside each."""
        b = Rewriter(last)
        more = [found for value, role in zip(values, roles, strict=True) for _, found in self._beside(b, value, role)]
        return [*values, *more]

    def _replace(self, op: Operation, new: Operation) -> None:
        parent_block(op).insert_op_before(new, op)
        results = iter(new.results)
        own = [next(results) for _ in op.results]
        for old, result in zip(op.results, own, strict=True):
            result.name_hint = old.name_hint
            self._originals[result] = old
            for table, _ in self._types_beside(old):
                table[result] = next(results)
            if old in self._possibly_undefined:
                self._possibly_undefined.add(result)
            old.replace_all_uses_with(result)
        parent_block(op).erase_op(op)

    # Accesses

    def _access(self, op: Operation) -> None:
        b, pointer = Rewriter(op), op.operands[0]
        mask: SSAValue | None = getattr(op, "mask", None)
        other: SSAValue | None = getattr(op, "other", None)
        if mask is not None:
            self._need_defined(b, mask)
        for value in op.operands:
            if value is not mask and value is not other:
                self._need_defined(b, value, mask)
        parent_block(op).insert_op_before(CheckAccessOp.of(op), op)
        after = Rewriter(_next(op))
        if mask is not None and op.results and op.results[0] in self._possibly_undefined:
            self._undefined[op.results[0]] = self._masked(after, mask, other)
        watch = self._watch(pointer)
        if watch is None:
            return
        kind = Kind.of(op)
        if watch.races:
            self._stamp(after, pointer, mask, kind, watch)
        else:
            self._follow_writes(after, pointer, mask, kind)

    def _masked(self, b: BlockBuilder, mask: SSAValue, other: SSAValue | None) -> SSAValue:
        off = negated(b, mask)
        if other is None:
            return off
        return b.binary("arith.andi", off, self._undefined[other])

    def _stamp(
        self, b: BlockBuilder, pointer: SSAValue, mask: SSAValue | None, kind: Kind, watch: Watch
    ) -> None:
        """Emits the check of the stamps behind an access, and leaves its own."""
        stamps = self._stamps[pointer]
        shape = t.shape_of(pointer.type)
        is_lane_watched = watch.lanes and not kind.is_atomic
        is_lane_stamped = kind.writes and not kind.is_atomic and (watch.lanes or not has_distinct_lanes(pointer))
        own = self._lane_stamp(b, shape) if is_lane_watched or is_lane_stamped else _spread(b, self._own, shape)
        floor = _spread(b, self._floor, shape)
        writer = self._seen(b, stamps, mask, shape)
        # An element that nothing has written counts as the largest unsigned number, and as less than all signed ones.
        untouched = b.cmpi("ult" if kind.reads and watch.unwritten else "slt", writer, floor)
        if kind.reads and is_lane_watched:
            fine = b.binary("arith.ori", untouched, self._is_no_other_lane(b, writer, own))
        else:
            fine = b.binary("arith.ori", untouched, _is_own(b, writer, own))
        self._need(b, fine, "another program, or lane, wrote an element")
        if watch.readers:
            at = b.addptr(stamps, _spread(b, self._distances[self._group(pointer)], shape))
            reader = self._seen(b, at, mask, shape)
            alone = b.binary("arith.ori", b.cmpi("slt", reader, floor), _is_own(b, reader, own))
            if kind.writes:
                self._need(b, alone, "another program read an element")
            elif kind.reads:
                b.store(at, b.select(alone, _spread(b, self._own, shape), floor), mask)  # floor: of several programs
        if kind.writes:
            b.store(stamps, own, mask)
            if is_lane_stamped and not has_distinct_lanes(pointer):
                left = b.load(stamps, mask, own if mask is not None else None)
                self._need(b, b.cmpi("eq", left, own), "two lanes write one element")

    def _follow_writes(self, b: BlockBuilder, pointer: SSAValue, mask: SSAValue | None, kind: Kind) -> None:
        """Emits the check that what is read has been written, for memory in which no accesses race."""
        stamps, shape = self._stamps[pointer], t.shape_of(pointer.type)
        if kind.reads:
            writer = self._seen(b, stamps, mask, shape)
            self._need(b, b.cmpi("ne", writer, b.const(NOT_WRITTEN, t.I64, shape)), "nothing has written an element")
        if kind.writes:
            b.store(stamps, b.const(0, t.I64, shape), mask)

    @staticmethod
    def _seen(b: BlockBuilder, stamps: SSAValue, mask: SSAValue | None, shape: tuple[int, ...]) -> SSAValue:
        return b.load(stamps, mask, None if mask is None else b.const(0, t.I64, shape))

    def _lane_stamp(self, b: BlockBuilder, shape: tuple[int, ...]) -> SSAValue:
        """Emits the stamps of the lanes of a block: axes of extent 1 change no lane's number."""
        number = self._shapes.setdefault(tuple([extent for extent in shape if extent != 1]), len(self._shapes))
        stamp = b.binary("arith.ori", self._own, b.const(number << LANE_BITS, t.I64))
        if self._epoch is not None:
            epoch = b.cast("arith.extui", b.load(self._epoch), t.I64)
            epoch = b.binary("arith.shli", epoch, b.const(_EPOCH_SHIFT, t.I64))
            stamp = b.binary("arith.ori", stamp, b.binary("arith.andi", epoch, b.const(_EPOCH_MASK, t.I64)))
        if not shape:
            return stamp
        lanes: SSAValue | None = None
        stride = 1
        for axis in reversed(range(len(shape))):
            at = b.cast("arith.extsi", b.arange(shape[axis]), t.I64) if shape[axis] > 1 else None
            if at is not None:
                scaled = b.binary("arith.muli", at, b.const(stride, t.I64, (shape[axis],)))
                for other in range(len(shape)):
                    if other != axis:
                        scaled = b.expand_dims(scaled, other)
                part = b.broadcast(scaled, shape)
                lanes = part if lanes is None else b.binary("arith.addi", lanes, part)
            stride *= shape[axis]
        whole = b.splat(stamp, shape)
        return whole if lanes is None else b.binary("arith.ori", whole, lanes)

    @staticmethod
    def _is_no_other_lane(b: BlockBuilder, writer: SSAValue, own: SSAValue) -> SSAValue:
        """Emits whether the program wrote an element itself: in the same lane, or before a barrier."""
        shape = t.shape_of(own.type)
        zero = b.const(0, t.I64, shape)
        differs = b.binary("arith.xori", writer, own)

        def agrees(bits: int) -> SSAValue:
            return b.cmpi("eq", b.binary("arith.andi", differs, b.const(bits, t.I64, shape)), zero)

        is_other_epoch = negated(b, agrees(_EPOCH_MASK))
        fine = b.binary("arith.ori", agrees(_BELOW_EPOCH), is_other_epoch)
        return b.binary("arith.andi", _is_own(b, writer, own), fine)

    # Checks

    def _need(self, b: BlockBuilder, holds: SSAValue, message: str) -> None:
        """Emits a check that stops the launch."""
        b.op(AssertOp, [holds], [], {"message": StringAttr(message)})

    def _need_defined(self, b: BlockBuilder, value: SSAValue, mask: SSAValue | None = None) -> None:
        """Emits a check that a value has no undefined lanes, where the mask is true."""
        lanes = self._undefined.get(value)
        if lanes is None:
            return
        fine = negated(b, lanes)
        if mask is not None:
            fine = b.binary("arith.ori", fine, negated(b, mask))
        self._need(b, fine, "an undefined value is used")


def _next(op: Operation) -> Operation:
    found = op.next_op
    assert found is not None, op.name  # blocks end with terminators
    return found


def _program(b: BlockBuilder) -> SSAValue:
    """Emits the number of the program in its grid, which is numbered along x first."""
    number: SSAValue | None = None
    for axis in (2, 1, 0):
        here = b.cast("arith.extsi", b.program_id(axis), t.I64)
        if number is None:
            number = here
            continue
        extent = b.cast("arith.extsi", b.num_programs(axis), t.I64)
        number = b.binary("arith.addi", b.binary("arith.muli", number, extent), here)
    assert number is not None
    return number


def _spread(b: BlockBuilder, scalar: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    return b.splat(scalar, shape) if shape else scalar


def _is_own(b: BlockBuilder, stamp: SSAValue, own: SSAValue) -> SSAValue:
    """Emits whether a stamp is of the same program as another."""
    shape = t.shape_of(own.type)
    number = b.binary("arith.shrui", b.binary("arith.xori", stamp, own), b.const(NUMBER_SHIFT, t.I64, shape))
    return b.cmpi("eq", number, b.const(0, t.I64, shape))


_STRUCTURED: dict[str, Callable[[_Instrumentation, Operation], None]] = {
    "scf.for": _Instrumentation._for,
    "scf.if": _Instrumentation._if,
    "scf.while": _Instrumentation._while,
}

__all__ = ["instrument"]
