"""Emits reductions and scans, one loop nest each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ...elementwise import constant, identity
from ...values import TRUE, V, integer, is_integer
from ..evaluate import Evaluator
from ..loops.coordinates import ORIGIN, Bound, Coordinate, Coordinates, decompose_mask, reads_memory
from ..loops.interleaved import MAX_COLUMNS, read_along
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..masks.padding_values import limits_along, padding_value
from ..nodes import Load, Map, Node, Splat, Stored, cost, view
from ..scalars import ZERO, is_constant
from ..scratch.unwritten_lanes import clear_last, clear_unwritten
from .byte_sums import bytes_of, sum_bytes
from .combine import Combine
from .extreme_positions import reduce_positions
from .extreme_rows import Columns, extreme_rows, extremes_within
from .extremes import all_joined, joined
from .flat import reduce_pairs
from .groups_of_rows import ROWS, are_groups_better, clear_beyond_columns, reduce_in_groups
from .inner import Rest, absorb, is_faster_together, keep_values, reduce_inner
from .line_scans import exact_neutral, scan_in_vectors
from .row_scans import RowScan

UNROLLED = 16
"""The longest axis of a reduction across rows that is unrolled."""
FAR, FAR_BYTES = 20, 16
"""The most elements of a row, of bytes in the second case, of which an extreme and its position is wanted, where vectors are
short: lanes have a row each, and load their elements one by one."""
BESIDE = 4
"""Vectors that are reduced side by side where each row is picked by a position, or where they are short."""


def reduce(
    nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, wanted: Sequence[Bound] = ()
) -> list[Node]:
    """Combines along one dimension, which the result nodes do not have.

    They are never read beyond the `wanted` bounds, which name dimensions of the operands.
    """
    pairs = reduce_pairs(nests, operands, axis, combine)
    if pairs is not None:
        return pairs
    columns = extremes_within(operands, axis, combine)
    far = 0
    if columns is not None and nests.ev.target.is_x86:
        far = FAR_BYTES if columns.sources[0].elem == "i8" else FAR
    if columns is not None and not _is_read_along_rows(nests, operands, axis, [*columns.bounds, *wanted], far):
        found = reduce_positions(nests, operands, axis, combine, wanted)
        if found is not None:
            return found
    neutrals, zero = _neutrals(operands, combine), _zeros(operands, combine)
    sources, bounds, zeros = _stripped(operands, neutrals, zero)
    if columns is not None:
        (sources, bounds, neutrals, _), zeros = columns, [False, False]
    shape = operands[0].shape
    rest = None
    if neutrals is not None and len(operands) == 1 and not any(b.dim == axis for b in bounds):
        rest = _beyond_masks(nests, sources[0], axis, neutrals[0], zero[0])
        bounds += [] if rest is None else [Bound(axis, rest.limit)]
    kept = tuple(d for d in range(len(shape)) if d != axis)
    result_shape = tuple(shape[d] for d in kept)
    memories = [nests.ev.scratch(result_shape, o.elem) for o in operands] if result_shape else []
    for memory in memories:
        clear_last(nests.ev, memory, [Bound(kept.index(b.dim), b.limit) for b in wanted if b.dim != axis])
    named = {(b.dim, b.limit.operand()) for b in wanted}
    cut = any(b.dim != axis and (b.dim, b.limit.operand()) not in named for b in bounds)
    starts = fills = None
    if neutrals is not None:
        ends = [b for b in bounds if b.dim == axis]
        begun = [is_zero or (rest is not None and rest.is_zero) for is_zero in zeros]
        parts = list(zip(neutrals, zero, zeros, begun, strict=True))
        fills = [none if nil is None or not is_zero else nil for none, nil, is_zero, _ in parts]
        starts = [none if nil is None or not is_begun else _start(nests, ends, shape[axis], none, nil)
                  for none, nil, _, is_begun in parts]  # fmt: skip
    if cut and memories and fills is not None:
        for operand, memory, fill in zip(operands, memories, fills, strict=True):
            nests.materialize(Splat(result_shape, operand.elem, fill), memory)
    together = neutrals is not None and rest is None and is_faster_together(nests, sources, axis, combine, bounds, kept)
    along = not together and (rest is None or rest.is_neutral)
    if along and _is_read_along_rows(nests, sources, axis, [*bounds, *wanted], far):
        turned = [view(source, shape[::-1], (1, 0)) for source in sources]
        limits = [Bound(1 - bound.dim, bound.limit) for bound in (*bounds, *wanted)]
        scalars = _reduce_outer(nests, turned, 0, combine, limits, [], starts, fills, memories, (1,), None, columns, True)
    elif axis == nests.inner_dim(shape) and rest is None and (narrow := bytes_of(nests, sources, combine)) is not None:
        scalars = sum_bytes(nests, narrow, sources[0].elem, axis, bounds, wanted, memories, kept)
    elif axis == nests.inner_dim(shape) or all(shape[d] == 1 for d in kept):
        scalars = reduce_inner(nests, sources, axis, combine, bounds, wanted, starts, memories, kept, rest)
    else:
        scalars = _reduce_outer(nests, sources, axis, combine, bounds, wanted, starts, fills, memories, kept, rest, columns)
    if memories:
        return list(memories)
    pointer = nests.ev.s.pointer
    return [Splat((), o.elem, pointer(v) if o.elem == "ptr" else v) for o, v in zip(operands, scalars, strict=True)]


def _neutrals(operands: Sequence[Node], combine: Combine) -> list[V] | None:
    """Returns what counts for nothing beside each operand; None where that is not known of all."""
    kinds = combine.kinds
    found = [identity(kind, operand.elem) for kind, operand in zip(kinds, operands, strict=True)] if kinds else [None]
    known = [value for value in found if value is not None]
    if len(known) != len(operands):
        return None
    return [constant(value, operand.elem) for value, operand in zip(known, operands, strict=True)]


def _zeros(operands: Sequence[Node], combine: Combine) -> list[V | None]:
    """Returns for sums of floats the +0.0 that masks leave: it counts only beside zeros, as a sum of -0.0 is -0.0."""
    kinds = combine.kinds or ("",) * len(operands)
    pairs = zip(operands, kinds, strict=True)
    return [constant(0.0, operand.elem) if kind == "arith.addf" else None for operand, kind in pairs]


def _stripped(
    operands: Sequence[Node], neutrals: Sequence[V] | None, zero: Sequence[V | None]
) -> tuple[list[Node], list[Bound], list[bool]]:
    """Returns operands without masks that leave what counts for nothing, the bounds that these are, and which leave +0.0.

    Of several operands all have the same bounds, or none is changed.
    """
    if neutrals is None:
        return list(operands), [], [False] * len(operands)
    found = [_strip_neutral(*each) for each in zip(operands, neutrals, zero, strict=True)]
    named = [{(bound.dim, bound.limit.operand()) for bound in bounds} for _, bounds, _ in found]
    if any(other != named[0] for other in named):
        return list(operands), [], [False] * len(operands)
    return [node for node, _, _ in found], list(found[0][1]), [is_zero for _, _, is_zero in found]


def _is_read_along_rows(nests: LoopNests, sources: Sequence[Node], axis: int, bounds: Sequence[Bound], far: int) -> bool:
    """Whether rows of a few elements are reduced that lie one after the other, so that each lane may have a row of its own.

    far: the most elements of a row that are read one by one.
    """
    ev, shape = nests.ev, sources[0].shape
    if len(shape) != 2 or axis != 1 or any(source.shape != shape for source in sources):
        return False
    count, _ = ev.extent(shape[1], bounds, 1)
    if not is_constant(count) or not 2 <= integer(count) <= max(MAX_COLUMNS, far):
        return False
    if shape[0] < ev.lanes_for(*nests.elements(sources)):
        return False
    return all(read_along(ev, source, 0, 1, far) is not None for source in sources)


def _start(nests: LoopNests, bounds: Sequence[Bound], size: int, neutral: V, zero: V) -> V:
    """Returns the start of a sum whose terms beyond the bounds are +0.0."""
    f, start = nests.ev.f, neutral
    for bound in bounds:
        start = f.select(f.icmp("slt", bound.limit, nests.ev.s.constant(size)), zero, start)
    return start


def _beyond_masks(nests: LoopNests, source: Node, axis: int, neutral: V, zero: V | None) -> Rest | None:
    """Finds where the masks inside a block leave one value for the rest of the axis, so that it need not be visited."""
    if source.shape[axis] <= UNROLLED and axis != nests.inner_dim(source.shape):
        return None
    for limit in limits_along([source], axis):
        value = padding_value(source, Bound(axis, limit), nests.ev.depends)
        if value is not None:
            return Rest(value, limit, neutral, zero)
    return None


def _strip_neutral(node: Node, neutral: V, zero: V | None) -> tuple[Node, list[Bound], bool]:
    """Splits `select(mask, x, neutral)` into x and the mask's bounds, if the mask consists of bounds.

    In sums of floats also with +0.0 for neutral; the last result tells whether it was.
    """
    if isinstance(node, Map) and node.op == "arith.select":
        mask, inside, padding = node.operands
        zeros = isinstance(padding, Splat) and zero is not None and padding.value == zero
        if zeros or (isinstance(padding, Splat) and padding.value == neutral):
            bounds, rest = decompose_mask(mask)
            if not rest:
                return inside, bounds, zeros
    return node, [], False


def _reduce_outer(
    nests: LoopNests, sources: Sequence[Node], axis: int, combine: Combine, within: Sequence[Bound], wanted: Sequence[Bound],
    starts: list[V] | None, fills: list[V] | None, memories: Sequence[Stored], kept: tuple[int, ...], rest: Rest | None,
    pairs: Columns | None, in_place: bool = False,
) -> list[V]:  # fmt: skip
    """Reduces along another dimension: every lane reduces its own column, the reduced dimension is the innermost loop.

    pairs: of what extremes and their positions are wanted.
    in_place: all is read where it lies, and a known number of few rows one after the other.
    """
    ev, f = nests.ev, nests.ev.f
    shape, bounds = sources[0].shape, [*within, *wanted]
    if not in_place:
        nests.materialize_operands(sources)
    inner = max(d for d in kept if shape[d] > 1)
    ev.prefetching = set()  # neighbouring columns belong to other programs
    count, implied = ev.extent(shape[axis], bounds, axis)
    static = (in_place and is_constant(count)) or (is_integer(count, shape[axis]) and shape[axis] <= UNROLLED)
    extremes = extreme_rows(nests, pairs, shape[axis], count)
    lanes_ = ev.lanes_for(*nests.elements(sources[:1] if extremes else sources, inner))
    beside, (columns, _) = _beside(ev, sources, axis, inner, static), ev.extent(shape[inner], bounds, inner)
    while beside > 1 and ev.target.has_short_vectors and is_constant(columns) and integer(columns) % (lanes_ * beside) > lanes_:
        beside //= 2  # the rest would fill few of them
    n = min(lanes_ * beside, shape[inner])
    steps = integer(count) if static else shape[axis]
    again = [] if in_place or extremes else nests.reused_values(sources, shape)
    saved = [(node, ev.scratch(node.shape, node.elem)) for node in again]
    is_cut_short = rest is not None and not rest.is_neutral and not rest.is_zero  # what is beyond counts, too
    are_few = is_constant(count) and integer(count) <= ROWS
    is_alone = not in_place and not extremes and not is_cut_short and not are_few
    if is_alone and starts is not None and fills is not None and are_groups_better(sources, shape[inner], n):
        as_tree = steps if static else None
        reduce_in_groups(nests, sources, axis, inner, combine, bounds, starts, fills, memories, saved, n, as_tree)
        keep_values(nests, saved, within, wanted)
        return []
    with ExitStack() as stack:
        outer = nests.outer(stack, shape, (axis, inner), bounds, ())
        if static:
            for r in range(steps):
                row = tuple(Coordinate(ev.s.constant(r)) if d == axis else c for d, c in enumerate(outer))
                ev.hoist(sources, row)

        def column(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
            def items(position: Coordinate) -> list[V]:
                here = tuple(coordinate if d == inner else position if d == axis else c for d, c in enumerate(outer))
                for node, memory in saved:
                    ev.write_scratch(memory, here, ev.at(node, here, mask))
                return [f.splat(ev.at(source, here, mask), n) for source in (sources[:1] if extremes else sources)]

            if extremes:
                (value,) = items(Coordinate(ZERO))
                acc = extremes.begin(value)
                if static:
                    for r in range(1, steps):
                        acc = extremes.step(acc, items(Coordinate(ev.s.constant(r)))[0], r)
                else:
                    loop = ev.open_loop(implied)
                    with f.loop(1, count, 1, acc) as state, ev.scope():
                        (value,) = items(Coordinate(state.index, 0, 1, loop))
                        state.next = extremes.step(list(state.values), value, state.index)
                    acc = list(state.results)
                here = tuple(coordinate if d == inner else ORIGIN if d == axis else c for d, c in enumerate(outer))
                acc = extremes.end(nests, acc, sources[1], here, axis)
            elif static:
                acc = items(Coordinate(ev.s.constant(0)))
                if starts is not None and steps == 0:
                    acc = [f.splat(v, n) for v in starts]
                rows = [acc] + [items(Coordinate(ev.s.constant(r))) for r in range(1, steps)]
                acc = all_joined(nests, combine, rows)
            else:
                ev._loops += 1
                ev.implied[ev._loops] = implied
                loop = ev._loops
                if starts is not None:
                    first, low = [f.splat(v, n) for v in starts], 0
                else:
                    first, low = items(Coordinate(ZERO, 0, 1, loop)), 1
                with f.loop(low, count, 1, first) as state, ev.scope():
                    position = Coordinate(state.index, 0, 1, loop)
                    state.next = joined(nests, combine, list(state.values), items(position))
                acc = list(state.results)
            if rest is not None:
                here = tuple(coordinate if d == inner else ORIGIN if d == axis else c for d, c in enumerate(outer))
                acc = [absorb(nests, acc[0], rest, shape[axis], here, combine)]
            if mask is not None and fills is not None:  # a later reduction may read the lanes outside
                acc = [f.select(mask, value, f.splat(v, n)) for value, v in zip(acc, fills, strict=True)]
            here = tuple(coordinate if d == inner else outer[d] for d in kept)
            for memory, value in zip(memories, acc, strict=True):
                ev.write_scratch(memory, here, value)
            return []

        is_short = static and steps * sum(cost(source) for source in sources) <= UNROLLED // 2
        vector_loop(ev, shape[inner], bounds, inner, n, 2 if is_short else 1, column)
        clear_beyond_columns(ev, saved, outer, axis, inner, bounds, n)
    keep_values(nests, saved, within, wanted)
    return []


def _beside(ev: Evaluator, sources: Sequence[Node], axis: int, inner: int, static: bool) -> int:
    """Returns how many vectors side by side are reduced together: several, where an address that is read for each row is that
    of all of them, or where vectors are short and a loop over rows would do little else than count."""
    stack, seen = list(sources), set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in ev.replacement:
            continue
        seen.add(id(node))
        if isinstance(node, Map):
            stack.extend(node.operands)
        elif isinstance(node, Load) and (rest := node.pointers.rest) is not None:
            varies = ev.depends(rest)
            if inner not in varies and axis in varies and reads_memory(rest):
                return BESIDE if ev.target.registers >= 32 else 1
    work = sum(cost(source) for source in sources)
    if static or not ev.target.has_short_vectors or len(sources) > 1:
        return 1
    return BESIDE if work <= 4 else BESIDE // 2 if work <= 8 else 1


_LONG_SCAN, _TOGETHER = 32, 8
"""Elements, powers of two, from which on a scan without lanes evaluates its operands first; elements of an iteration."""


def scan(
    nests: LoopNests, operands: Sequence[Node], axis: int, combine: Combine, reverse: bool, wanted: Sequence[Bound] = (),
    started: tuple[Node, Node] | None = None,
) -> list[Node]:  # fmt: skip
    """Emits an inclusive scan along `axis`, into scratch; lanes run along another dimension when there is one.

    A single result is never read beyond the `wanted` bounds. started: of a block of one dimension, what its first element has
    been combined with, and the block without that.
    """
    rows = RowScan.of(nests, operands, axis, combine, reverse)
    if rows is not None:
        return [rows.into_scratch(wanted)]
    ev, f = nests.ev, nests.ev.f
    shape = operands[0].shape
    memories = [ev.scratch(shape, o.elem) for o in operands]
    others = [d for d in range(len(shape)) if d != axis and shape[d] > 1]
    inner = others[-1] if others and axis != len(shape) - 1 else None
    size, together, start = shape[axis], 1, None
    neutral = exact_neutral(combine, operands) if inner is None and not reverse else None
    n = min(ev.lanes_for(*nests.elements(operands)), size)
    if n <= 2:
        neutral = None  # too few lanes to gain
    if inner is None and neutral is None and size >= _LONG_SCAN:
        together = _TOGETHER  # vectors evaluate the operands, and each element then waits for one operation alone
        if started is not None:
            start, operands = [ev.at(started[0], (Coordinate(ev.s.constant(0)),))], [started[1]]
        operands = [_evaluated(nests, o, memory, combine) for o, memory in zip(operands, memories, strict=True)]
    with ExitStack() as stack:
        outer: list[Coordinate | None] = [None] * len(shape)
        for d in range(len(shape)):
            if d not in (axis, inner):
                outer[d] = stack.enter_context(ev.dimension(shape[d], ev.s.constant(shape[d]), set()))

        def run(lane: Coordinate | None, mask: V | None) -> None:
            def at(position: V) -> Coordinates:
                return tuple(
                    Coordinate(position) if d == axis else lane if d == inner else c
                    for d, c in enumerate(outer)
                )

            def step(position: V, acc: list[V] | None) -> list[V]:
                here = at(position)
                n = 1 if lane is None else lane.lanes
                items = [f.splat(ev.at(o, here, mask), n) for o in operands]
                new = items if acc is None else combine.emit(ev, acc, items)
                for memory, value in zip(memories, new, strict=True):
                    ev.write_scratch(memory, here, value)
                return new

            def position(index: V) -> V:
                return ev.s.sub(ev.s.constant(size - 1), index) if reverse else index

            acc = step(position(ev.s.constant(0)), start)
            for number in range(1, together):
                acc = step(position(ev.s.constant(number)), acc)
            if size > together:
                with f.loop(together, size, together, acc, at_least_once=True) as state, ev.scope():
                    acc = list(state.values)
                    for number in range(together):
                        acc = step(position(ev.s.add(state.index, ev.s.constant(number))), acc)
                    state.next = acc

        if neutral is not None:
            least = first = constant(neutral, operands[0].elem, n)
            if started is not None:
                first, operands = f.splat(ev.at(started[0], (Coordinate(ev.s.constant(0)),)), n), [started[1]]
            for operand, within in _whole_or_masked(nests, operands[0], combine):
                scan_in_vectors(nests, operand, axis, outer, combine, least, first, within, memories[0])
        elif inner is None:
            run(None, None)
        else:
            n = min(ev.lanes_for(*(o.elem for o in operands)), shape[inner])

            def body(lane: Coordinate, mask: V | None, _: list[V]) -> list[V]:
                run(lane, mask)
                return []

            bounds = [bound for bound in wanted if bound.dim == inner] if len(operands) == 1 else []
            vector_loop(ev, shape[inner], bounds, inner, n, 1, body)
            if bounds:
                with ev.dimension(size, ev.s.constant(size), set()) as row:
                    here = [row if d == axis else coordinate for d, coordinate in enumerate(outer)]
                    clear_unwritten(ev, memories, here, inner, bounds, n)
    return list(memories)


def _evaluated(nests: LoopNests, operand: Node, memory: Stored, combine: Combine) -> Stored:
    """Evaluates the operand of a scan into scratch: whole chunks without the mask that leaves the neutral element elsewhere.

    Returns another block than `memory`, which will have other values.
    """
    written = replace(memory)
    for node, within in _whole_or_masked(nests, operand, combine):
        nests.materialize(node, written, within)
    return written


def _whole_or_masked(nests: LoopNests, operand: Node, combine: Combine) -> Iterator[tuple[Node, Sequence[Bound]]]:
    """Yields what a scan of one dimension reads where its chunk is whole, with the bounds that hold then, and what it reads
    elsewhere, which has the neutral element beyond them. What is emitted meanwhile is run in one of the two cases."""
    ev, f = nests.ev, nests.ev.f
    neutral = None if combine.kind is None else identity(combine.kind, operand.elem)
    source, bounds = operand, list[Bound]()
    if neutral is not None and len(operand.shape) == 1:
        source, bounds, _ = _strip_neutral(operand, constant(neutral, operand.elem), None)
    if not bounds:
        yield operand, ()
        return
    limit = bounds[0].limit
    for bound in bounds[1:]:
        limit = ev.s.min(limit, bound.limit)
    is_whole = f.icmp("sge", limit, ev.s.constant(operand.shape[0]))
    for holds, node, within in ((is_whole, source, bounds), (f.binary("xor", is_whole, TRUE), operand, ())):
        kept = dict(ev.replacement)
        with f.when(holds), ev.scope():
            yield node, within
        ev.replacement = kept
