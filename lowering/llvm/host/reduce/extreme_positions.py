"""Finds extremes and their positions (argmax, argmin): every lane keeps its best value and where the vector began that had it.

A pass over pairs of values and 64-bit positions takes half a vector at a time, and every step waits for the one before it.
Lines with a NaN, and those in which nothing beats the neutral value, are looked through once more. Where vectors are short and
lines are long, lanes keep no positions, but of pieces of the line: the extreme is found first, and then where it is in a piece,
up to the vectors that have it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....promotion.dataclass import dataclass
from ...elementwise import constant
from ...values import TRUE, V, const, i64, is_float, lanes, vector
from ..loops.coordinates import Bound, Coordinate, Coordinates, decompose_mask
from ..loops.invariants import spread
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import Pieces, vector_loop
from ..masks.carried_masks import all_hold, carried
from ..nodes import Affine, Map, Node, Splat, Stored, cost
from ..scalars import ZERO, is_constant
from .combine import Combine
from .extremes import halves

SEARCHED = 4
"""Vectors that are looked at before a branch."""
PIECE = 2048
"""Elements of a piece of a long line: which one has the extreme is known when it is looked for."""
PAST_END = 2**63 - 1
"""The position of what a mask leaves out: after all others."""
_FLOATS = (
    ("uno", 0, 0), ("uno", 2, 2), ("ord", 2, 2), ("o?", 0, 2), ("andi", 4, 6), ("ori", 7, 8), ("oeq", 0, 2), ("andi", 4, 5),
    ("ori", 10, 11), ("slt", 1, 3), ("andi", 12, 13), ("ori", 9, 14), ("select", 15, 0, 2), ("select", 15, 1, 3),
)  # fmt: skip
"""The region that keeps the larger of two floats (x, i), (y, j), of equal ones the first; a NaN beats numbers: operations and
what they work on, x, i, y, j and the results before."""
_INTEGERS = (
    ("?", 0, 2), ("eq", 0, 2), ("slt", 1, 3), ("andi", 5, 6), ("ori", 4, 7), ("select", 8, 0, 2), ("select", 8, 1, 3),
)  # fmt: skip
_FLOAT_ELEMENTS = ("f64", "f32", "f16", "bf16")
_INTEGER_ELEMENTS = ("i64", "i32", "i16", "i8")


@dataclass(frozen=True, slots=True)
class Extreme:
    """Which extreme a region keeps, of signed numbers or others, and what no number is beyond."""

    greater: bool
    signed: bool
    neutral: float | int


def extreme_of_region(combine: Combine, elem: str) -> Extreme | None:
    """Returns which extreme a region keeps; None for another region."""
    floats = elem in _FLOAT_ELEMENTS
    if not floats and elem not in _INTEGER_ELEMENTS:
        return None
    numbers = {id(argument): number for number, argument in enumerate(combine.arguments)}
    found: list[tuple[object, ...]] = []
    for op, _, result, operands, _, attrs in combine.operations:
        if any(id(operand) not in numbers for operand in operands) or attrs.get("fastmath"):
            return None
        found.append((attrs.get("predicate", op.removeprefix("arith.")), *[numbers[id(operand)] for operand in operands]))
        numbers[id(result)] = len(numbers)
    expected = _FLOATS if floats else _INTEGERS
    last = [len(numbers) - 2, len(numbers) - 1]
    if len(found) != len(expected) or [numbers.get(id(result)) for result in combine.results] != last:
        return None
    relation = str(found[3 if floats else 0][0])
    if relation not in (("ogt", "olt") if floats else ("sgt", "slt", "ugt", "ult")):
        return None
    for one, other in zip(found, expected, strict=True):
        if one[1:] != other[1:] or ("?" not in str(other[0]) and one != other):
            return None
    greater = relation[1:] == "gt"
    if floats:
        return Extreme(greater, True, -math.inf if greater else math.inf)
    bits, signed = int(elem[1:]), relation[0] == "s"
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return Extreme(greater, signed, least if greater else most)


def reduce_positions(
    nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, wanted: Sequence[Bound]
) -> list[Node] | None:
    """Finds the extreme of each line along the vector dimension and its first position; None where this does not apply."""
    if len(operands) != 2 or operands[1].elem != "i64" or axis != nests.inner_dim(operands[0].shape):
        return None
    extreme = extreme_of_region(combine, operands[0].elem)
    if extreme is None:
        return None
    values = inside(operands[0], constant(extreme.neutral, operands[0].elem))
    positions = inside(operands[1], const(PAST_END, "i64"))
    if values is None or positions is None or not rises(positions[0], axis):
        return None
    (source, bounds), (numbers, same) = values, positions
    if {(b.dim, b.limit.operand()) for b in bounds} != {(b.dim, b.limit.operand()) for b in same}:
        return None
    return _Search(nests, operands, axis, extreme).run(source, numbers, bounds, wanted)


def inside(node: Node, outside: V) -> tuple[Node, list[Bound]] | None:
    """Splits `select(mask, x, outside)` into x and bounds, of which what has no mask has none; None for other masks."""
    if not isinstance(node, Map) or node.op != "arith.select":
        return node, []
    mask, inside, padding = node.operands
    bounds, rest = decompose_mask(mask)
    return None if rest or not isinstance(padding, Splat) or padding.value != outside else (inside, bounds)


def rises(node: Node, axis: int) -> bool:
    """Returns whether integers grow along an axis, by the same at each step."""
    if not isinstance(node, Affine):
        return False
    step = node.coefficients[axis]
    return step is not None and is_constant(step) and step.number > 0


class _Search:
    def __init__(self, nests: LoopNests, operands: Sequence[Node], axis: int, extreme: Extreme) -> None:
        self.nests, self.ev, self.f = nests, nests.ev, nests.ev.f
        self.axis, self.extreme = axis, extreme
        self.shape, self.elem = operands[0].shape, operands[0].elem
        self.index = "i64" if self.elem in ("f64", "i64") else "i32"
        self.kept = tuple([d for d in range(len(self.shape)) if d != axis])

    def run(self, source: Node, numbers: Node, bounds: Sequence[Bound], wanted: Sequence[Bound]) -> list[Node]:
        nests, ev, f, shape, axis = self.nests, self.ev, self.f, self.shape, self.axis
        nests.materialize_operands([source])
        if cost(source) > 1:
            source = nests.materialize(source, None, [*bounds, *wanted])
        kept = tuple([shape[d] for d in self.kept])
        memories: list[Stored] = [ev.scratch(kept, elem) for elem in (self.elem, "i64")] if kept else []
        named = {(bound.dim, bound.limit.operand()) for bound in wanted}
        if any(bound.dim != axis and (bound.dim, bound.limit.operand()) not in named for bound in bounds):
            nothing = constant(self.extreme.neutral, self.elem), const(PAST_END, "i64")
            for memory, outside in zip(memories, nothing, strict=False):
                nests.materialize(Splat(kept, memory.elem, outside), memory)  # lines that are not visited are read, too
        n = min(ev.lanes_for(self.elem, self.index), shape[axis])
        if self.elem in _INTEGER_ELEMENTS and self._is_searched_apart(full := ev.lanes_for(self.elem)):
            n = full
        with ExitStack() as stack:
            coordinates = nests.outer(stack, shape, axis, [*bounds, *wanted], [source])

            def at(coordinate: Coordinate) -> Coordinates:
                return tuple([coordinate if d == axis else c for d, c in enumerate(coordinates)])

            spread(ev, [source], tuple(coordinates), n)
            best, found, begin = self._best(source, at, bounds, n)
            cell = f.alloca(self.index)
            f.store(found, cell, 1)
            with f.when(f.icmp("eq", found, self._beyond())):
                f.store(self._first(source, at, bounds, n, best, begin), cell, 1)
            found = f.load(self.index, cell, 1)
            there = f.icmp("ne", found, self._beyond())
            where = found if self.index == "i64" else f.cast("sext", found, "i64")
            where = f.select(there, where, ZERO)
            position = f.select(there, ev.at(numbers, at(Coordinate(where))), const(PAST_END, "i64"))
            value = f.alloca(best.type)  # the element itself: of zeros of both signs the first, and which NaN it is
            f.store(constant(self.extreme.neutral, self.elem), value, 1)
            with f.when(there):
                f.store(ev.at(source, at(Coordinate(where))), value, 1)
            results = [f.load(best.type, value, 1), position]
            for memory, result in zip(memories, results, strict=False):
                ev.write_scratch(memory, tuple([coordinates[d] for d in self.kept]), result)
        return list(memories) or [Splat((), elem, value) for elem, value in zip((self.elem, "i64"), results, strict=True)]

    def _beyond(self) -> V:
        return const(self._beyond_number(), self.index)

    def _beyond_number(self) -> int:
        return (1 << (63 if self.index == "i64" else 31)) - 1

    def _beats(self, a: V, b: V) -> V:
        """Emits whether a is beyond b; NaN is not."""
        relation = "gt" if self.extreme.greater else "lt"
        if is_float(a.type):
            return self.f.fcmp("o" + relation, a, b)
        return self.f.icmp(("s" if self.extreme.signed else "u") + relation, a, b)

    def _start(self, coordinate: Coordinate) -> V:
        """Returns the position of a vector's first lane."""
        start = self.ev.s.add(coordinate.at, self.ev.s.constant(coordinate.offset))
        return start if self.index == "i64" else self.f.cast("trunc", start, "i32")

    def _best(
        self, source: Node, at: Callable[[Coordinate], Coordinates], bounds: Sequence[Bound], n: int
    ) -> tuple[V, V, V]:
        """Returns the extreme of a line, NaN where it has one, where it is first if that is known, and where to look for it."""
        nests, ev, f = self.nests, self.ev, self.f
        floats = self.elem in _FLOAT_ELEMENTS

        apart = self._is_searched_apart(n)
        wide = 2 * n if apart and floats else n  # a comparison looks for NaN in two vectors

        def body(coordinate: Coordinate, mask: V | None, state: list[V]) -> list[V]:
            value = f.splat(ev.at(source, at(coordinate), mask), wide)
            if mask is not None:
                value = f.select(mask, value, neutral)
            beats = self._beats(value, state[0])
            new = [f.select(beats, value, state[0])]
            new.append(state[1] if apart else f.select(beats, f.splat(self._start(coordinate), n), state[1]))
            if floats:
                low, high = (value, value) if wide == n else halves(f, value, n)
                new.append(f.binary("and", state[-1], carried(ev, f.fcmp("ord", low, high))))
            return new

        neutral, beyond = constant(self.extreme.neutral, self.elem, wide), f.splat(self._beyond(), n)

        def join(one: list[V], other: list[V], begin: V) -> list[V]:
            beats = self._beats(other[0], one[0])
            start = begin if self.index == "i64" else f.cast("trunc", begin, "i32")
            both = [f.select(beats, other[0], one[0]), f.select(beats, f.splat(start, wide), one[1])]
            return [*both, f.binary("and", one[2], other[2])] if floats else both

        start = f.splat(const(0, self.index), wide) if apart else beyond
        first = [neutral, start, *([carried(ev, const(True, vector("i1", n)))] if floats else [])]
        unroll = max(1, nests.unroll([source], self.shape[self.axis] // n) // (wide // n))
        count, _ = ev.extent(self.shape[self.axis], bounds, self.axis)
        pieces = Pieces(PIECE, join) if apart and is_constant(count) and count.number > PIECE else None
        copies = vector_loop(ev, self.shape[self.axis], bounds, self.axis, wide, unroll, body, first, pieces=pieces)
        best = copies[0][0]
        for other in copies[1:]:
            best = f.select(self._beats(other[0], best), other[0], best)
        while (width := lanes(best.type)) > 1:
            half = width // 2
            low, high = (f.shuffle(best, best, part) if half > 1 else f.extract(best, part[0])
                         for part in (range(half), range(half, width)))  # fmt: skip
            best = f.select(self._beats(low, high), low, high)
        target, ramp = f.splat(best, n), f.iota(n, self.index)
        found = beyond
        begin = self._begin(copies, best, wide) if pieces is not None else ZERO
        for value, start, *_ in [] if apart else copies:  # what nothing was beyond began nowhere
            same = f.fcmp("oeq", value, target) if floats else f.icmp("eq", value, target)
            some = f.binary("and", same, f.icmp("ne", start, beyond))
            found = f.select(some, f.smin(found, f.add(start, ramp)), found)
        position = self._beyond() if apart else f.intrinsic("vector.reduce.smin", [found], self.index) if n > 1 else found
        if not floats:
            return best, position, begin
        flags = copies[0][-1]
        for other in copies[1:]:
            flags = f.binary("and", flags, other[-1])
        only = all_hold(ev, flags)
        best, position = f.select(only, best, constant(math.nan, best.type)), f.select(only, position, self._beyond())
        return best, position, f.select(only, begin, ZERO)

    def _begin(self, copies: Sequence[Sequence[V]], best: V, n: int) -> V:
        """Returns where the first piece of a line begins that has its extreme."""
        f, target, found = self.f, self.f.splat(best, n), self.f.splat(self._beyond(), n)
        for value, start, *_ in copies:
            same = f.fcmp("oeq", value, target) if is_float(value.type) else f.icmp("eq", value, target)
            found = f.select(same, f.smin(found, start), found)
        first = f.intrinsic("vector.reduce.smin", [found], self.index)
        return first if self.index == "i64" else f.cast("sext", first, "i64")

    def _is_searched_apart(self, n: int) -> bool:
        """Whether lanes keep no positions: where vectors are short and lines are not, looking for the extreme afterwards takes
        less time."""
        return self.ev.target.has_short_vectors and n > 1 and self.shape[self.axis] > 2 * SEARCHED * n

    def _search(
        self, source: Node, at: Callable[[Coordinate], Coordinates], begin: V, count: V, loop: int, n: int,
        same: Callable[[V], V],
    ) -> tuple[V, V]:  # fmt: skip
        """Emits a search of a line from a position on, some vectors at a time, for an element that is its extreme (`same`).

        Returns where the rest of the line begins that has not so many vectors, or its end where there was one before, and the
        first one's position, beyond all positions where there was none.
        """
        ev, f, s = self.ev, self.f, self.ev.s
        step = SEARCHED * n
        head, look, following, found, done = (f.label(name) for name in ("search", "look", "following", "found", "searched"))
        before = f.block
        f.branch(head)
        f.start(head)
        here, further = V(f.fresh("c"), "i64"), V(f.fresh("c"), "i64")
        f.emit(f"{here.operand()} = phi i64 [ {begin.operand()}, %{before} ], [ {further.operand()}, %{following} ]")
        f.cond_branch(f.icmp("sle", f.add(here, i64(step)), count), look, done)
        f.start(look)
        with ev.scope():
            several = [f.splat(ev.at(source, at(Coordinate(here, i * n, n, loop))), n) for i in range(SEARCHED)]
            masks = [same(each) for each in several]
        some = functools.reduce(lambda a, b: f.binary("or", a, b), masks)
        f.cond_branch(f.intrinsic("vector.reduce.or", [some], "i1"), found, following)
        f.start(following)
        f.emit(f"{further.operand()} = add i64 {here.operand()}, {step}")
        f.branch(head)
        f.start(found)
        number = f.bitcast(f.concatenated(masks), f"i{step}")
        within = f.intrinsic("cttz", [number, TRUE], number.type)
        within = within if step == 64 else f.cast("zext" if step < 64 else "trunc", within, "i64")
        first = f.add(here, within)
        f.branch(done)
        f.start(done)
        rest = f.phi("i64", [(here, head), (count, found)])
        position = f.phi("i64", [(i64(self._beyond_number()), head), (first, found)])
        return s.min(rest, count), position

    def _searched(
        self, source: Node, at: Callable[[Coordinate], Coordinates], bounds: Sequence[Bound], n: int, best: V, begin: V
    ) -> tuple[V, V]:
        """Emits a search for the extreme of a line, or for a NaN where it has one, which no comparison but its own finds."""
        ev, f = self.ev, self.f
        count, implied = ev.extent(self.shape[self.axis], bounds, self.axis)
        target = f.splat(best, n)
        if not is_float(best.type):
            return self._search(source, at, begin, count, ev.open_loop(implied), n, lambda value: f.icmp("eq", value, target))
        numbers, others, done = (f.label(name) for name in ("numbers", "nans", "first"))
        f.cond_branch(f.fcmp("ord", best, best), numbers, others)
        ways: list[tuple[tuple[V, V], str]] = []
        for label, same in (
            (numbers, lambda value: f.fcmp("oeq", value, target)), (others, lambda value: f.fcmp("uno", value, value))
        ):  # fmt: skip
            f.start(label)
            with ev.scope():
                ways.append((self._search(source, at, begin, count, ev.open_loop(implied), n, same), f.block))
            f.branch(done)
        f.start(done)
        rest, position = (f.phi("i64", [(way[part], block) for way, block in ways]) for part in range(2))
        return rest, position

    def _is_extreme(self, value: V, target: V) -> V:
        """Returns the lanes that are the extreme of a line, or NaN."""
        if not is_float(value.type):
            return self.f.icmp("eq", value, target)
        return self.f.binary("or", self.f.fcmp("oeq", value, target), self.f.fcmp("uno", value, value))

    def _first(
        self, source: Node, at: Callable[[Coordinate], Coordinates], bounds: Sequence[Bound], n: int, best: V, begin: V
    ) -> V:
        """Returns where along a line its extreme is first, which is no earlier than `begin`; beyond all positions where no
        element is."""
        nests, ev, f = self.nests, self.ev, self.f
        target, ramp = f.splat(best, n), f.iota(n, self.index)

        def body(coordinate: Coordinate, mask: V | None, state: list[V]) -> list[V]:
            value = f.splat(ev.at(source, at(coordinate), mask), n)
            same = self._is_extreme(value, target)
            if mask is not None:
                same = f.binary("and", same, mask)
            number = f.add(f.splat(self._start(coordinate), n), ramp)
            return [f.select(same, f.smin(state[0], number), state[0])]

        beyond = [f.splat(self._beyond(), n)]
        if self._is_searched_apart(n):
            count, implied = ev.extent(self.shape[self.axis], bounds, self.axis)
            rest, position = self._searched(source, at, bounds, n, best, begin)
            first = position if self.index == "i64" else f.cast("trunc", position, "i32")
            loop = ev.open_loop(implied)
            with f.loop(rest, count, n, [f.splat(first, n)]) as state, ev.scope():
                mask = ev.lane_mask(state.index, count, n)
                state.next = body(Coordinate(state.index, 0, n, loop), mask, list(state.values))
            copies = [list(state.results)]
        else:
            unroll = nests.unroll([source], self.shape[self.axis] // n)
            copies = vector_loop(ev, self.shape[self.axis], bounds, self.axis, n, unroll, body, beyond)
        found = copies[0][0]
        for other in copies[1:]:
            found = f.smin(found, other[0])
        return f.intrinsic("vector.reduce.smin", [found], self.index) if n > 1 else found
