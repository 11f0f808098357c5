"""Schedules a graph with loops and branches: one plan of all its kernels, and steps that say when each of them runs.

Straight parts are scheduled by themselves. Their buffers become those of the whole plan: what a region captures is read where
it lies, what a loop carries is written to two temporaries in turn, and rows of stacked results where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...graph.ops.control import captures_of
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, bool_, int64
from ..nest import Buffer, BufferKind, Extent, Nest
from ..schedule.extents import product
from ..schedule.memory import Lifetime, MemoryPlan, plan_memory
from ..schedule.plan import Plan, schedule
from .blocks import Block, Control, Straight, sequences_of
from .steps import Branch, Carried, Launches, Loop, Slice, Step, Together, inner_steps
from .together import together

Values = Mapping[int, Buffer]
"""Where symbols of a block lie in memory, by id."""


def schedule_block(block: Block, stores_repeated: bool = False) -> Plan:
    """Return the plan of a graph that was divided. stores_repeated: as for `schedule`."""
    return _Scheduler(block, stores_repeated).run()


class _Scheduler:
    def __init__(self, block: Block, stores_repeated: bool) -> None:
        self.block, self.stores_repeated = block, stores_repeated
        self.numbers, _ = block.constants()
        self.nests: list[Nest] = []
        self.temporaries: list[Buffer] = []
        self.constants: dict[int, Buffer] = {}
        self.variables = 0

    def run(self) -> Plan:
        graph = self.block.graph
        inputs = tuple([Buffer("input", i, s.dtype, s.shape, s.id) for i, s in enumerate(graph.inputs)])
        outputs = tuple([Buffer("output", i, s.dtype, s.shape, s.id) for i, s in enumerate(graph.outputs)])
        values = {symbol.id: buffer for symbol, buffer in zip(graph.inputs, inputs, strict=True)}
        steps = together(self.steps_of(self.block, values, outputs), self.nests)
        memory = _memory(steps, self.nests, self.temporaries)
        return Plan(
            graph.name, tuple(self.nests), inputs, tuple(self.constants.values()), outputs, tuple(self.temporaries), memory,
            graph.checks, graph.dim_names, steps, self.variables,
        )  # fmt: skip

    # -- buffers -------------------------------------------------------------------------------------------------------

    def temporary(self, dtype: DType, shape: tuple[Extent, ...]) -> Buffer:
        self.temporaries.append(Buffer("temporary", len(self.temporaries), dtype, shape, -1))
        return self.temporaries[-1]

    def variable(self, dtype: DType, shape: tuple[Extent, ...]) -> Buffer:
        self.variables += 1
        return Buffer("variable", self.variables - 1, dtype, shape, -1)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def steps_of(self, block: Block, given: Values, outputs: Sequence[Buffer | None]) -> tuple[Step, ...]:
        """Return the steps of a block. given: where its inputs lie. outputs: where its results go, None for unchanged ones."""
        values = dict(given)
        steps: list[Step] = []
        for part in block.parts:
            if isinstance(part, Straight):
                steps += self._straight(part, values, outputs)
            elif part.symbol.op.name == "loop":
                steps.append(self._loop(part, block, values, outputs))
            else:
                steps.append(self._branch(part, block, values, outputs))
        return tuple(steps)

    def _straight(self, part: Straight, values: dict[int, Buffer], outputs: Sequence[Buffer | None]) -> list[Step]:
        plan = schedule(part.graph, stores_repeated=self.stores_repeated)
        found: dict[tuple[BufferKind, int], Buffer] = {}
        for own, symbol in zip(plan.inputs, part.inputs, strict=True):
            found[own.kind, own.index] = values[symbol.id]
        for own, result in zip(plan.outputs, part.results, strict=True):
            if isinstance(result, Symbol):
                values[result.id] = target = self.temporary(own.dtype, own.shape)
            else:
                given = outputs[result]
                target = self.temporary(own.dtype, own.shape) if given is None else given
            found[own.kind, own.index] = target
        for own in plan.temporaries:
            found[own.kind, own.index] = self.temporary(own.dtype, own.shape)
        for own in plan.constants:
            symbol = part.graph.symbols[own.symbol]
            number = self.numbers[id(part.wide.get(symbol.id, symbol.attrs["value"]))]
            if number not in self.constants:
                self.constants[number] = replace(own, index=len(self.constants), symbol=number)
            found[own.kind, own.index] = self.constants[number]

        def moved(own: Buffer) -> Buffer:
            target = found[own.kind, own.index]
            return replace(own, kind=target.kind, index=target.index, symbol=target.symbol)

        first = len(self.nests)
        self.nests += [with_buffers(nest, moved) for nest in plan.nests]
        return [Launches(first, len(self.nests))] if plan.nests else []

    def _loop(self, part: Control, block: Block, values: dict[int, Buffer], outputs: Sequence[Buffer | None]) -> Step:
        loop = part.symbol
        attrs, operands = loop.attrs, loop.inputs
        body, region = part.blocks[0], attrs["regions"][0]
        limited, count = int(attrs["limited"]), attrs["carried"]
        carried = []
        for position, begin in enumerate(operands[limited : limited + count]):
            carried.append(self._carried(begin, values[begin.id], position in body.unchanged))
        rows = [self._row(part, operands[position], values) for position in sequences_of(loop)]
        index = self.temporary(int64, ())
        results = {each.attrs["index"]: each for each in part.results}
        stacked: list[Slice] = []
        for position, output in enumerate(region.outputs[count:], count):
            whole = self._target(results.get(position), block, outputs, output.dtype, (attrs["length"], *output.shape))
            stacked.append(self._slice(whole, output.dtype, output.shape))
        own = [index, *[each.now for each in carried], *[each.row for each in rows]]
        steps = self.steps_of(
            body, self._inside(part, 0, own, values), [*[each.following for each in carried], *[each.row for each in stacked]]
        )
        asking: tuple[Step, ...] = ()
        asked: Buffer | None = None
        if len(part.blocks) == 2:
            asked = self.temporary(bool_, ())
            asking = self.steps_of(part.blocks[1], self._inside(part, 1, own[: 1 + count], values), [asked])
        for position, result in results.items():
            values[result.id] = carried[position].now if position < count else stacked[position - count].whole
        values[loop.id] = total = self.temporary(int64, ())
        return Loop(
            steps, tuple(carried), (*rows, *stacked), attrs["length"], values[operands[0].id] if limited else None, asking,
            asked, index, total, attrs["reverse"], str(loop.location),
        )  # fmt: skip

    def _carried(self, symbol: Symbol, begin: Buffer, is_unchanged: bool) -> Carried:
        dtype, shape = symbol.dtype, symbol.shape
        now = self.variable(dtype, shape)
        if is_unchanged:
            return Carried(begin, now)
        memory = self.temporary(dtype, shape), self.temporary(dtype, shape)
        return Carried(begin, now, self.variable(dtype, shape), self.variable(dtype, shape), memory)

    def _row(self, part: Control, sequence: Symbol, values: Values) -> Slice:
        """Return what each iteration reads of a sequence; one that is in no memory is rows of a tensor that is."""
        whole, positions = sequence, None
        if sequence.id not in values and sequence.id not in part.constants:
            whole, positions = sequence.inputs
        constant = part.constants.get(whole.id)
        source = values[whole.id] if constant is None else self._constant(constant)
        found = self._slice(source, sequence.dtype, sequence.shape[1:])
        return found if positions is None else replace(found, positions=values[positions.id], count=whole.shape[0])

    def _constant(self, symbol: Symbol) -> Buffer:
        number = self.numbers[id(symbol.attrs["value"])]
        if number not in self.constants:
            self.constants[number] = Buffer("constant", len(self.constants), symbol.dtype, symbol.shape, number)
        return self.constants[number]

    def _slice(self, whole: Buffer, dtype: DType, shape: tuple[Extent, ...]) -> Slice:
        return Slice(whole, self.variable(dtype, shape), product(shape) * dtype.itemsize)

    def _branch(self, part: Control, block: Block, values: dict[int, Buffer], outputs: Sequence[Buffer | None]) -> Step:
        branch = part.symbol
        results = {each.attrs["index"]: each for each in part.results}
        targets = [
            self._target(results.get(position), block, outputs, output.dtype, output.shape)
            for position, output in enumerate(branch.attrs["regions"][0].outputs)
        ]
        arms = [
            self.steps_of(arm, self._inside(part, number, (), values), targets) for number, arm in enumerate(part.blocks)
        ]
        for position, result in results.items():
            values[result.id] = targets[position]
        values[branch.id] = number = self.temporary(int64, ())
        return Branch(values[branch.inputs[0].id], arms[0], arms[1], number, str(branch.location))

    def _target(
        self, result: Symbol | None, block: Block, outputs: Sequence[Buffer | None], dtype: DType, shape: tuple[Extent, ...]
    ) -> Buffer:
        """Return the buffer of a result: that of an output of the block, or a temporary."""
        position = None if result is None else block.direct.get(result.id)
        given = None if position is None else outputs[position]
        return self.temporary(dtype, shape) if given is None else given

    def _inside(self, part: Control, number: int, own: Sequence[Buffer], values: Values) -> dict[int, Buffer]:
        """Return where the inputs of a region lie: its own ones, then what it captures, unless these are constants."""
        region = part.symbol.attrs["regions"][number]
        captured = captures_of(part.symbol, number)
        found = {symbol.id: buffer for symbol, buffer in zip(region.inputs, own, strict=False)}
        for inner, outer in zip(region.inputs[len(own) :], captured, strict=True):
            if outer.id in values:
                found[inner.id] = values[outer.id]
        return found


def with_buffers(nest: Nest, moved: Callable[[Buffer], Buffer]) -> Nest:
    """Return a nest that reads and writes other buffers."""
    body = [
        replace(value, attrs={**value.attrs, "buffer": moved(value.attrs["buffer"])}) if value.op == "load" else value
        for value in nest.body
    ]
    stores = [replace(store, buffer=moved(store.buffer)) for store in nest.stores]
    return replace(nest, body=tuple(body), stores=tuple(stores))


# -- memory ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Use:
    first: int
    last: int


class _Lifetimes:
    """Finds from when to when each temporary is used, as positions in the order of steps.

    A use inside a loop of what was there before the loop lasts until the loop ends, because the next iteration needs it, too.
    """

    def __init__(self, nests: Sequence[Nest]) -> None:
        self.nests = nests
        self.time = 0
        self.uses: dict[int, _Use] = {}
        self.behind: dict[int, tuple[Buffer, ...]] = {}  # what each variable may point to

    def use(self, buffer: Buffer) -> None:
        if buffer.kind == "variable":
            for each in self.behind[buffer.index]:
                self.use(each)
        elif buffer.kind == "temporary":
            known = self.uses.setdefault(buffer.index, _Use(self.time, self.time))
            known.last = max(known.last, self.time)

    def walk(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Launches():
                    for nest in self.nests[step.first : step.last]:
                        self.time += 1
                        for buffer in (*[load.attrs["buffer"] for load in nest.loads], *[s.buffer for s in nest.stores]):
                            self.use(buffer)
                case Loop():
                    self._loop(step)
                case Branch():
                    self.time += 1
                    self.use(step.condition)
                    for arm in inner_steps(step):
                        self.walk(arm)
                    self.time += 1
                    if step.number is not None:
                        self.use(step.number)
                case Together():
                    self._together(step)

    def _together(self, step: Together) -> None:
        """Finds the uses of parts that may run at once: what one of them uses is in use as long as any of them runs."""
        self.time += 1
        start = self.time
        used: dict[int, _Use] = {}
        for part in step.parts:
            before, self.uses = self.uses, {}
            self.walk(part)
            for index, use in self.uses.items():
                known = before.setdefault(index, use)
                used[index] = known
            self.uses = before
        self.time += 1
        for use in used.values():
            use.first, use.last = min(use.first, start), self.time

    def _loop(self, loop: Loop) -> None:
        self.time += 1
        start = self.time
        for carried in loop.carried:
            self.behind[carried.now.index] = (carried.begin, *carried.memory)
            for written in (carried.following, carried.spare):
                if written is not None:
                    self.behind[written.index] = carried.memory
        for each in loop.slices:
            self.behind[each.row.index] = (each.whole,)
        read = (loop.limit, loop.asked, *[each.positions for each in loop.slices])
        single = [buffer for buffer in read if buffer is not None]
        own = [loop.index, *single, *[each.now for each in loop.carried], *[each.whole for each in loop.slices]]
        for buffer in own:
            self.use(buffer)
        before = {index for index, use in self.uses.items() if use.first <= start}
        for inner in inner_steps(loop):
            self.walk(inner)
        self.time += 1
        for buffer in own:
            self.use(buffer)
        if loop.count is not None:
            self.use(loop.count)
        for index in before:
            if self.uses[index].last > start:
                self.uses[index].last = self.time


def _memory(steps: Sequence[Step], nests: Sequence[Nest], temporaries: Sequence[Buffer]) -> MemoryPlan:
    found = _Lifetimes(nests)
    found.walk(steps)
    never = _Use(0, 0)
    return plan_memory([
        Lifetime(buffer, (use := found.uses.get(buffer.index, never)).first, use.last) for buffer in temporaries
    ])
