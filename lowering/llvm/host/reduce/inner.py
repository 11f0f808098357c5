"""Reduces rows along the vector dimension: vectors of sums, and then across their lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from .....promotion.dataclass import dataclass
from ...elementwise import constant, larger, memory_size, register_element
from ...values import TRUE, V, const, element, integer, is_float, lanes, vector
from ..loops.coordinates import ORIGIN, Bound, Coordinate, Coordinates, memory_size_of
from ..loops.invariants import spread
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import Pieces, vector_loop
from ..masks.carried_masks import all_hold, carried
from ..nodes import Map, Node, Splat, Stored, cost
from ..scalars import ZERO, is_constant
from ..scratch.unwritten_lanes import clear_unwritten
from .combine import Combine
from .extremes import EXTREMES, IDEMPOTENT, extreme_of, halves, propagates, tree

_SETS, _LONG_SUM = 4, 64
"""Sets of sums, and the vectors from which on they take turns."""
_PIECE = 1024
"""Elements of a long row whose sum is added to that of the others: n equal terms, taken one by one, err by n ulp."""
_ALTERNATING = 8
"""The fewest vectors of a row of which two are reduced at a time: the last two are not full."""
MAX_TERMS = 8
"""The most that each of several rows may compute: vectors, times what an element of them costs."""
_MAX_IN_LANES = {2: 7, 4: 3, 8: 10}
"""The most elements of rows that have a lane each, by the bytes of one; of 8 bytes, but for 4, 7 and 8, which fill a vector."""
_ELEMENTS = ("f32", "f64", "i32", "i64", "f16", "bf16")
"""What fills registers with lanes of 32 or 64 bits."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The value of a block from `limit` on along the reduced axis.

    `neutral`: the value that would not count. `zero`: the +0.0 of a sum of floats, which counts once at most.
    """

    value: Node
    limit: V
    neutral: V
    zero: V | None

    @property
    def is_neutral(self) -> bool:
        return isinstance(self.value, Splat) and self.value.value == self.neutral

    @property
    def is_zero(self) -> bool:
        """Whether the value is the +0.0 that a sum then starts with."""
        return isinstance(self.value, Splat) and self.zero is not None and self.value.value == self.zero


def absorb(nests: LoopNests, total: V, rest: Rest, size: int, at: Coordinates, combine: Combine) -> V:
    """Combines a total with all positions from the limit on."""
    ev, f = nests.ev, nests.ev.f
    if rest.is_neutral or rest.is_zero:
        return total
    n = lanes(total.type)
    value = f.splat(ev.at(rest.value, at), n)
    left = ev.s.sub(ev.s.constant(size), ev.s.max(ev.s.min(rest.limit, ev.s.constant(size)), ZERO))
    if combine.kind in IDEMPOTENT:
        some = f.icmp("sgt", left, ZERO)
        return f.select(some, combine.emit(ev, [total], [value])[0], total)
    neutral = f.splat(rest.neutral, n)
    counts = f.fcmp("une", value, neutral) if is_float(value.type) else f.icmp("ne", value, neutral)
    if n > 1:
        counts = f.intrinsic("vector.reduce.or", [counts], "i1")
    times = f.select(counts, left, ZERO if rest.zero is None else nests.ev.s.min(left, nests.ev.s.constant(1)))
    with f.loop(0, times, 1, [total]) as state, ev.scope():
        state.next = combine.emit(ev, list(state.values), [value])
    return state.results[0]


def reduce_inner(nests: LoopNests, sources: Sequence[Node], axis: int, combine: Combine, bounds: Sequence[Bound],
                 wanted: Sequence[Bound], starts: list[V] | None, memories: Sequence[Stored],
                 kept: tuple[int, ...], rest: Rest | None) -> list[V]:  # fmt: skip
    """Reduces along the vector dimension: vector accumulators, then a tree across lanes, of one row or of several together."""
    ev, f = nests.ev, nests.ev.f
    shape = sources[0].shape
    nests.materialize_operands(sources)
    count, _ = ev.extent(shape[axis], bounds, axis)
    size = integer(count) if is_constant(count) else shape[axis]
    alternate = combine.kind not in EXTREMES and size >= _ALTERNATING * nests.lanes(sources)
    n = min(nests.lanes(sources, size=size if alternate else 0), shape[axis])
    in_pairs = starts is not None and propagates(combine.kind) and ev.target.has_short_vectors and size >= _ALTERNATING * n > n
    flag_lanes = n
    if in_pairs:
        n = 2 * n  # a comparison looks for NaN in two vectors
    saved = [(node, ev.scratch(node.shape, node.elem)) for node in nests.reused_values(sources, shape)]
    nests.mark_prefetches(sources, [node for node, _ in saved])
    kind = combine.kind
    extreme = kind in EXTREMES

    def merge(left: list[V], right: list[V]) -> list[V]:
        if not extreme:
            return combine.emit(ev, left, right)
        # One instruction that ignores NaN, and a flag: that there were only numbers for maximumf, only NaN for maxnumf.
        return [larger(f, right[0], left[0], EXTREMES[str(kind)] < 0), f.binary("and", left[1], right[1])]

    def row(coordinates: Sequence[Coordinate | None], fills: bool = in_pairs) -> list[V]:
        """Returns the vector that a row is reduced to, and flags of extremes; fills: lanes without elements have the start."""

        def at(coordinate: Coordinate) -> Coordinates:
            return tuple(coordinate if d == axis else c for d, c in enumerate(coordinates))

        spread(ev, sources, tuple(coordinates), n)
        if rest is not None and not rest.is_neutral and not rest.is_zero:
            ev.at(rest.value, at(ORIGIN))  # a core computes it beside the loop, not after it

        def body(coordinate: Coordinate, mask: V | None, state: list[V]) -> list[V]:
            here = at(coordinate)
            acc = state[: len(state) // taken]  # each set of sums in turn
            for node, memory in saved:
                ev.write_scratch(memory, here, ev.at(node, here, mask))
            items = [f.splat(ev.at(source, here, mask), n) for source in sources]
            if fills and mask is not None:
                items = [f.select(mask, items[0], constant(EXTREMES[str(kind)], sources[0].elem, n))]
            if extreme:
                two = halves(f, items[0], flag_lanes) if in_pairs else (items[0], items[0])
                items.append(carried(ev, f.fcmp("ord" if propagates(kind) else "uno", *two)))
            new = merge(acc, items)
            if mask is not None and not fills:
                new = [f.select(mask, a, b) for a, b in zip(new, acc, strict=True)]
            return [*state[len(acc) :], *new]

        unroll, taken = _copies(nests, sources, shape[axis] // n, kind)
        unroll = max(1, unroll // (n // flag_lanes))
        if starts is not None:
            first = [f.splat(v, n) for v in starts]
            if extreme:
                first = [constant(EXTREMES[str(kind)], sources[0].elem, n)]
                first.append(carried(ev, const(True, vector("i1", flag_lanes))))
            width, pieces = len(first), None
            sets = range(0, width * taken, width)
            if shape[axis] >= 2 * _PIECE and set(combine.kinds or ()) == {"arith.addf"}:
                pieces = Pieces(_PIECE, lambda a, b, _: [v for i in sets for v in merge(a[i : i + width], b[i : i + width])])
            found = vector_loop(ev, shape[axis], bounds, axis, n, unroll, body, first * taken, pieces=pieces)
            copies = [each[i : i + width] for each in found for i in sets]
        else:  # no neutral element known: start from the first vector of the (unmasked) block
            here = at(Coordinate(ZERO, 0, n))
            for node, memory in saved:
                ev.write_scratch(memory, here, ev.at(node, here))
            first = [f.splat(ev.at(source, here), n) for source in sources]
            copies, taken = [first], 1
            if shape[axis] > n:
                with f.loop(n, shape[axis], n, first, at_least_once=True) as state, ev.scope():
                    state.next = body(Coordinate(state.index, 0, n), None, list(state.values))
                copies = [list(state.results)]
        clear_unwritten(ev, [memory for _, memory in saved], coordinates, axis, bounds, n)
        while len(copies) > 1:
            pairs = [merge(a, b) for a, b in zip(copies[::2], copies[1::2], strict=False)]
            copies = pairs + copies[len(pairs) * 2 :]
        return copies[0]

    def finish(coordinates: Sequence[Coordinate | None]) -> list[V]:
        found = row(coordinates)
        result = extreme_of(nests, found, str(kind)) if extreme else _across_lanes(nests, found, combine)
        if rest is not None:
            here = tuple(ORIGIN if d == axis else c for d, c in enumerate(coordinates))
            result = [absorb(nests, result[0], rest, shape[axis], here, combine)]
        for memory, value in zip(memories, result, strict=False):
            ev.write_scratch(memory, tuple(coordinates[d] for d in kept), value)
        return result

    together = starts is not None and rest is None and _is_reduced_together(nests, sources, combine, count, n, kept)
    limits = [*bounds, *wanted]
    with ExitStack() as stack:
        if not together:
            result = finish(nests.outer(stack, shape, axis, limits, sources))
        else:
            result = []
            _reduce_together(nests, stack, sources, axis, combine, limits, memories[0], kept, n, row, finish)
    keep_values(nests, saved, bounds, wanted)
    return result


def _is_reduced_together(
    nests: LoopNests, sources: Sequence[Node], combine: Combine, count: V, n: int, kept: tuple[int, ...]
) -> bool:
    """Whether rows are short, and as many as a vector has lanes, `n`, are reduced to one vector of results."""
    elem, shape = sources[0].elem, sources[0].shape
    if len(sources) != 1 or combine.kind is None or elem not in _ELEMENTS or not kept:
        return False
    if combine.kind in EXTREMES and not propagates(combine.kind):
        return False
    is_vector = n & (n - 1) == 0 and 16 <= n * memory_size_of(register_element(elem)) <= nests.ev.target.vector_bytes
    if not is_vector or shape[kept[-1]] < n or not is_constant(count):
        return False
    return -(-integer(count) // n) * max(1, cost(sources[0])) <= MAX_TERMS


def is_faster_together(
    nests: LoopNests, sources: Sequence[Node], axis: int, combine: Combine, bounds: Sequence[Bound], kept: tuple[int, ...]
) -> bool:
    """Whether short rows that lie one after the other are reduced in vectors of their own, not each in a lane."""
    shape = sources[0].shape
    count, _ = nests.ev.extent(shape[axis], bounds, axis)
    n = min(nests.lanes(sources), shape[axis])
    if axis != nests.inner_dim(shape) or not _is_reduced_together(nests, sources, combine, count, n, kept):
        return False
    size = memory_size(sources[0].elem)
    return integer(count) > _MAX_IN_LANES[size] or (size == 8 and integer(count) in (4, 7, 8))


def _reduce_together(
    nests: LoopNests, stack: ExitStack, sources: Sequence[Node], axis: int, combine: Combine, limits: Sequence[Bound],
    memory: Stored, kept: tuple[int, ...], n: int, row: Callable[[Sequence[Coordinate | None], bool], list[V]],
    finish: Callable[[Sequence[Coordinate | None]], list[V]],
) -> None:  # fmt: skip
    """Reduces n rows at a time to a vector with a lane for each, and those that are left one by one, with the same bits.

    row: what a row is reduced to in vectors. finish: reduces a row and writes its result.
    """
    ev, f, shape, last = nests.ev, nests.ev.f, sources[0].shape, kept[-1]
    outer = nests.outer(stack, shape, (axis, last), limits, sources)
    rows, implied = ev.extent(shape[last], limits, last)
    whole = ev.s.round_down(rows, n)

    def at(coordinate: Coordinate) -> list[Coordinate | None]:
        return [coordinate if d == last else c for d, c in enumerate(outer)]

    def one_by_one(low: V, high: V) -> None:
        loop = ev.open_loop(implied)
        with f.loop(low, high, 1) as state, ev.scope():
            here = at(Coordinate(state.index, 0, 1, loop))
            ev.hoist(sources, tuple(here))
            finish(here)

    loop = ev.open_loop(implied)
    with f.loop(0, whole, n) as state, ev.scope():
        found: list[list[V]] = []
        for number in range(n):
            here = at(Coordinate(state.index, number, 1, loop))
            ev.hoist(sources, tuple(here))
            found.append(row(here, combine.kind in EXTREMES))
        vectors = [each[0] for each in found]
        if combine.kind in EXTREMES:
            total = _lanes_of_rows(nests, vectors, lambda a, b: larger(f, a, b, EXTREMES[str(combine.kind)] < 0))
        else:
            total = _lanes_of_rows(nests, vectors, lambda a, b: combine.emit(ev, [a], [b])[0])
        results = at(Coordinate(state.index, 0, n, loop))
        ev.write_scratch(memory, tuple(results[d] for d in kept), total)
        if combine.kind in EXTREMES:
            only_numbers = all_hold(ev, tree([each[1] for each in found], lambda a, b: f.binary("and", a, b)))
            with f.when(f.binary("xor", only_numbers, TRUE)), ev.scope():
                one_by_one(state.index, ev.s.add(state.index, ev.s.constant(n)))
    one_by_one(whole, rows)


def _lanes_of_rows(nests: LoopNests, rows: Sequence[V], join: Callable[[V, V], V]) -> V:
    """Returns a vector whose lanes are the reductions of as many vectors, by the same tree as that of one: its halves first.

    Each step joins the halves of two vectors, so that all lanes stay in use: of whole quarters of 16 bytes, as far as there are
    several, and then within these.
    """
    f, n = nests.ev.f, len(rows)
    part = 16 // memory_size_of(element(rows[0].type))
    quarters = n // part

    def joined(a: V, b: V, low: list[int], high: list[int]) -> V:
        return join(f.shuffle(a, b, low), f.shuffle(a, b, high))

    found: list[V] = []
    for first in range(part):  # in lanes q · part … is row first + q · part
        vectors, width = [rows[first + q * part] for q in range(quarters)], n
        while width > part:
            half = width // 2
            low = [i for i in range(2 * n) if i % width < half]
            high = [i + half for i in low]
            vectors = [joined(a, b, low, high) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
            width = half
        found += vectors
    if part == 2:
        low = [lane for q in range(0, n, 2) for lane in (q, n + q)]
        return joined(found[0], found[1], low, [i + 1 for i in low])
    low = [lane for q in range(0, n, 4) for lane in (q, n + q, q + 1, n + q + 1)]
    even, odd = (joined(found[i], found[i + 1], low, [lane + 2 for lane in low]) for i in (0, 2))
    low = [lane for q in range(0, n, 4) for lane in (q, q + 1, n + q, n + q + 1)]
    return joined(even, odd, low, [lane + 2 for lane in low])


def keep_values(
    nests: LoopNests, saved: Sequence[tuple[Map, Stored]], bounds: Sequence[Bound], wanted: Sequence[Bound]
) -> None:
    """Makes later nests read nodes that a reduction has written within the bounds, and within those of what is wanted of it."""
    for node, memory in saved:
        nests.spill(node, memory, (*bounds, *[bound for bound in wanted if not nests.unread(node, bound)]))


def _copies(nests: LoopNests, sources: Sequence[Node], vectors: int, kind: str | None) -> tuple[int, int]:
    """Returns how many vectors an iteration takes, each with sums of its own, and how many sets of those take turns.

    Where vectors are short, so are a register's sums, and each of them long: sums of floats then have as many sets, which take
    no time, as keep the error of that of an AVX-512 processor.
    """
    short = nests.ev.target.has_short_vectors and len(sources) == 1 and kind in ("arith.addf", "arith.addi")
    unroll = nests.unroll(sources, vectors, _SETS * 2 if short and sum(cost(source) for source in sources) <= _SETS else _SETS)
    return unroll, _SETS if short and unroll == 1 and kind == "arith.addf" and vectors >= _LONG_SUM else 1


def _across_lanes(nests: LoopNests, values: list[V], combine: Combine) -> list[V]:
    f = nests.ev.f
    n = max(lanes(v.type) for v in values)
    values = [f.splat(v, n) for v in values]
    while n > 1:
        n //= 2
        pairs = [halves(f, v, n) for v in values]
        values = combine.emit(nests.ev, [low for low, _ in pairs], [high for _, high in pairs])
    return values
