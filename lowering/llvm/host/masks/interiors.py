"""Cuts the rows of a nest where masks of positions change, so that vectors between the cuts need no masks.

    row of a padded image:   0 0 0 x x x x x x x x x x x x x 0 0 0        column >= 3, column < 16
                            │ 0's │ copied in whole vectors │ 0's │       what holds is known in each piece

Registers of AVX2 hold no masks: each costs comparisons, and a load under one of bytes is a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...values import V, integer
from ..evaluate import Evaluator
from ..loops.coordinates import ORIGIN, Bound, Coordinate, Coordinates
from ..nodes import Load, Map, Node, View
from ..scalars import ZERO, is_constant

MAX_PIECES = 4
"""The most pieces of a row: each has code of its own."""
MAX_COMPARISONS = 16


class Comparison(NamedTuple):
    """A comparison of positions along the vectors with `limit`: below it, or from it on. dims: the nest's, of the mask's."""

    node: Node
    dims: tuple[int | None, ...]
    limit: V
    is_below: bool


class Piece(NamedTuple):
    """A part of a row, and which comparisons hold in all of it, and which nowhere."""

    begin: V
    end: V
    hold: tuple[Comparison, ...]
    fail: tuple[Comparison, ...]


Visit = Callable[[Coordinate, V | None, Piece], None]
"""Takes a position, the lanes to visit (None: all), and the piece that it is in."""


def pieces_of_rows(ev: Evaluator, nodes: Sequence[Node], inner: int, size: int, n: int, bounds: Sequence[Bound]) -> list[Piece]:
    """Returns the pieces of the rows of a nest along its dimension `inner`; none where nothing is gained.

    n: lanes of a vector.  bounds: of the nest.
    """
    implied = {bound.limit.operand() for bound in bounds if bound.dim == inner}
    comparisons = [each for each in _comparisons(ev, nodes, inner) if not each.is_below or each.limit.operand() not in implied]
    if not comparisons or len(comparisons) > MAX_COMPARISONS or not all(is_constant(each.limit) for each in comparisons):
        return []
    count, _ = ev.extent(size, bounds, inner)
    cuts = sorted({cut for each in comparisons if 0 < (cut := integer(each.limit)) < size})
    if not 0 < len(cuts) < MAX_PIECES or max(b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)) < 2 * n:
        return []
    pieces = []
    for begin, end in zip([0, *cuts], [*cuts, size], strict=True):
        hold = tuple([each for each in comparisons if (begin < integer(each.limit)) == each.is_below])
        fail = tuple([each for each in comparisons if each not in hold])
        pieces.append(Piece(ev.s.min(ev.s.constant(begin), count), ev.s.min(ev.s.constant(end), count), hold, fail))
    return pieces


def _comparisons(ev: Evaluator, nodes: Sequence[Node], inner: int) -> list[Comparison]:
    """Returns the comparisons with positions along a dimension that values are made of."""
    stack: list[tuple[Node, tuple[int | None, ...]]] = [(node, tuple(range(len(node.shape)))) for node in nodes]
    found: list[Comparison] = []
    seen: set[tuple[int, tuple[int | None, ...]]] = set()
    while stack:
        node, dims = stack.pop()
        if (id(node), dims) in seen or id(node) in ev.replacement or len(found) > MAX_COMPARISONS:
            continue
        seen.add((id(node), dims))
        match node:
            case Map(op="arith.cmpi") if "bound" in node.attrs or "begin" in node.attrs:
                bound = node.attrs.get("bound") or node.attrs["begin"]
                if dims[bound.dim] == inner:
                    found.append(Comparison(node, dims, bound.limit, "bound" in node.attrs))
            case Map():
                stack += [(operand, dims) for operand in node.operands]
            case View():
                stack.append((node.source, tuple([None if d is None else dims[d] for d in node.dims])))
            case Load():
                stack += [(part, dims) for part in (node.mask, node.other) if part is not None]
    return found


def visit_pieces(
    ev: Evaluator, pieces: Sequence[Piece], implied: set[str], n: int, unroll: int, rest: int, visit: Visit
) -> None:
    """Visits a row piece by piece, in vectors of n lanes, `unroll` at a time, and the end of each in such of `rest` lanes,
    under a mask where they do not fill the last one. implied: the limits of the whole row."""
    f, s = ev.f, ev.s
    step = n * unroll
    for piece in pieces:
        loop = ev.open_loop(implied)
        length = s.max(s.sub(piece.end, piece.begin), ZERO)
        starts = [piece.begin, s.add(piece.begin, s.round_down(length, step)), s.add(piece.begin, s.round_down(length, n))]
        ends = [*starts[1:], s.add(piece.begin, length)]
        for number, (begin, end, each, vectors) in enumerate(zip(starts, ends, (step, n, rest), (unroll, 1, 1), strict=True)):
            if begin == end:
                continue
            is_end = number == len(starts) - 1
            lanes = rest if is_end else n
            masked = is_end and not _is_multiple(s.sub(end, begin), rest)
            with f.loop(begin, end, each) as state, ev.scope():
                mask = ev.lane_mask(state.index, end, rest) if masked else None
                for vector in range(vectors):
                    visit(Coordinate(state.index, vector * n, lanes, loop), mask, piece)


def _is_multiple(length: V, n: int) -> bool:
    return is_constant(length) and integer(length) % n == 0


@contextmanager
def known_in(ev: Evaluator, piece: Piece, here: Coordinates, loop: int) -> Iterator[None]:
    """Opens a scope at coordinates in a piece of which the comparisons are known. loop: along the row."""

    def keys(comparisons: Sequence[Comparison]) -> set[tuple[object, ...]]:
        positions = [(each.node, tuple([ORIGIN if d is None else here[d] for d in each.dims])) for each in comparisons]
        return {ev.key_of(node, position) for node, position in positions}

    limits = {each.limit.operand() for each in piece.hold if each.is_below}
    with ev.assuming(keys(piece.hold), loop, limits, keys(piece.fail)):
        yield
