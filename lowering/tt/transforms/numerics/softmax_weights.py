"""Marks exponentials that are the weights of a softmax whose sums are kept relative to the greatest score of
each row.

    m' = max(m, rowmax(s))    p = exp(s - m')    c = exp(m - m')    l' = c l + rowsum(p)    acc' = c acc + p V

is an iteration of the online softmax (Milakov and Gimelshein, arXiv:1805.02867), as attention has it; without
a loop there are only m' = rowmax(s) and p. What is computed from p and c is divided by l in the end, or may
be. Two facts hold for every row:

* In each iteration either p has an element exp(0), or m' is m and c is exp(0).
* l is at least about 1, from the first finite score on, if it starts as a constant that is not negative and m as
  one that no score is below (-inf, or so large that every float below it is further away than any exponent, also
  when scaled, by constants), or if l starts at 1 or more.

So the error of a weight matters relative to 1, not to the weight: weights below 2^-126 may be 0 (l has the
same bits but for ties, acc is off by less than 2^-126 Σ|V|), and 2^(x log2 e) serves for e^x (its error is
largest, 2^-24.4, at x = -1). `mark_weights` finds such exponentials and gives them `joinery.weight`. Any
other use of p or c prevents the mark: weights that are stored, or multiplied by anything but V, have full
relative accuracy. So have those of exp that feed a product of float32 operands, where many weights of one
size that add up show the error of the cheaper exp, and those of exp whose argument is scaled by a number of
unknown sign, since they may be far above 1.

Exponentials of differences that are not scaled, or by a positive number, get `joinery.not_positive`. Without
a loop their quotients p / rowsum(p) are of numbers up to 1 by a number of at least 1, and get
`joinery.in_range`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from ....tt.analysis.control_flow import terminator
from ... import types as t
from ...constants import splat_value
from ...dialect.attributes import property_number
from ...dialect.functions import FuncOp
from ...facts import IN_RANGE, NOT_POSITIVE, WEIGHT
from ..function_pass import FunctionPass

_EXPONENTIALS = frozenset({"math.exp", "math.exp2"})
_ADDITION = frozenset({"arith.addf"})
_MAXIMA = frozenset({"arith.maxnumf", "arith.maximumf"})
_CASTS = frozenset({"arith.truncf", "arith.extf", "tt.fp_to_fp"})
_MOVES = frozenset({"tt.trans", "tt.reshape", "tt.expand_dims", "tt.broadcast"})
_REPEATS = frozenset({"tt.splat", "tt.broadcast", "tt.expand_dims"})
_LOW = -(2.0**32)
"""Floats below this are at least 256 apart, so that exp2 of minus their distance is 0. The same holds for the
scaled distance of numbers whose scaled values are below it."""
_HIGH = 2.0**24


@dataclass(frozen=True, slots=True)
class _Top:
    """The greatest scores of rows: of this iteration alone, or with those of the iterations before, which
    `before` carries.

    is_above: whether no score is greater, because scores are not scaled, or by a number that is known to be
    positive.
    scale: what distances from it are multiplied by; None if that is not a constant.
    """

    value: SSAValue
    axis: int
    before: BlockArgument | None
    is_above: bool
    scale: float | None = 1.0


@dataclass(frozen=True, slots=True)
class _Iteration:
    """What a loop carries for an online softmax: the numbers of m and l among its results."""

    loop: Operation
    top: int
    total: int


def mark_weights(func: Operation) -> None:
    """Gives `joinery.weight` to the exponentials (float32) that are weights as described above; `func` is
    changed in place."""
    exponentials = [op for op in func.walk() if op.name in _EXPONENTIALS and t.elem(op.results[0].type) == t.F32]
    iterations: set[_Iteration] = set()
    marked: set[tuple[Operation, int]] = set()
    for op in exponentials:
        top = _weighs(op)
        if top is not None and top.is_above:
            op.attributes[NOT_POSITIVE] = UnitAttr()
            if top.before is None:
                _mark_quotients(op.results[0], top.axis)
        uses = _uses(op.results[0], top.axis) if top is not None else None
        if top is None or uses is None:
            continue
        iteration = _iteration(uses.sums, top, iterations) if top.before is not None else None
        if iteration is not None:
            iterations.add(iteration)
        if (iteration is not None or top.before is None) and (op.name == "math.exp2" or (uses.narrow and top.is_above)):
            op.attributes[WEIGHT] = UnitAttr()
            if iteration is not None:
                marked.add((iteration.loop, iteration.top))
    for op in exponentials:
        carried = _decays(op)
        if carried in marked and _only_rescales(op, carried[0]):
            op.attributes[WEIGHT] = UnitAttr()


def _mark_quotients(weights: SSAValue, axis: int) -> None:
    """Gives `joinery.in_range` to divisions of weights by the sum of their row: weights are at most 1, and one of
    them is 1."""
    length = t.shape_of(weights.type)[axis]
    for use in weights.uses:
        if use.operation.name != "arith.divf" or use.index != 0 or length > _HIGH:
            continue
        total, axes = _spread(use.operation.operands[1])
        op = _made_by(total, "tt.reduce")
        if op is not None and op.operands[0] is weights and _combines(op, _ADDITION) and _lies_along(op, total, axes, axis):
            use.operation.attributes[IN_RANGE] = UnitAttr()


# Scores and the greatest of them


def _weighs(op: Operation) -> _Top | None:
    """Returns what the exponential is relative to, if that is the greatest of the scores that it takes; else
    None."""
    for scores, low, axes, scale in _differences(op.operands[0]):
        found = _greatest(_guarded(low), scores, axes, scale is not None and _is_positive(scale))
        if found is not None:
            return replace(found, scale=scale)
    return None


def _differences(x: SSAValue) -> Iterator[tuple[SSAValue, SSAValue, tuple[int, ...], float | None]]:
    """Yields (a, b, axes, scale) such that x is a - b, scaled or not, with b spread along these axes; the
    scale is None if it is no constant."""
    outer: float | None = 1.0
    for difference, factor in _products(x):
        x, outer = difference, factor if isinstance(factor, float) else None
        break
    op = _made_by(x, "arith.subf")
    if op is None:
        return
    low, axes = _spread(op.operands[1])
    yield op.operands[0], low, axes, outer
    for scores, factor in _products(op.operands[0]):
        for top, other in _products(low):
            if factor == other:
                inner, more = _spread(top)
                yield scores, inner, axes + more, outer * factor if outer is not None and isinstance(factor, float) else None


def _greatest(value: SSAValue, scores: SSAValue, axes: tuple[int, ...], keeps_order: bool) -> _Top | None:
    """Returns the value, spread along `axes`, as the greatest of each row of scores, alone or with what a
    loop carries; None if it is not that."""
    found = _row_maximum(value, scores, axes)
    if found is not None:
        return _Top(value, found[0], None, keeps_order and found[1])
    if not isinstance(value.owner, Operation) or value.owner.name not in _MAXIMA:
        return None
    left, right = value.owner.operands
    for before, own in ((left, right), (right, left)):
        if isinstance(before, BlockArgument) and _next(before) is value:
            inner, more = _spread(own)
            found = _row_maximum(inner, scores, axes + more)
            if found is not None:
                return _Top(value, found[0], before, keeps_order and found[1])
    return None


def _row_maximum(value: SSAValue, scores: SSAValue, axes: tuple[int, ...]) -> tuple[int, bool] | None:
    """Returns the axis of the rows if the value is their maximum, and whether a common factor, which may be
    multiplied before or after, is absent or known to be positive; None if it is no maximum."""
    ways = [(value, scores, True)]
    ways += [
        (inner, x, _is_positive(factor))
        for inner, factor in _products(value)
        for x, other in _products(scores)
        if factor == other
    ]
    for top, x, is_positive in ways:
        core, more = _spread(top)
        op = _made_by(core, "tt.reduce")
        if op is not None and _combines(op, _MAXIMA) and op.operands[0] is x:
            axis = property_number(op, "axis")
            if _lies_along(op, core, axes + more, axis):
                return axis, is_positive
    return None


def _lies_along(reduction: Operation, result: SSAValue, axes: tuple[int, ...], axis: int) -> bool:
    """Returns whether a reduction along an axis has its result spread along that axis again."""
    return property_number(reduction, "axis") == axis and (axes == (axis,) or (not axes and t.shape_of(result.type) == ()))


def _guarded(value: SSAValue) -> SSAValue:
    """Returns m of select(m == -inf, constant, m), which keeps rows without any score from being NaN; else
    the value itself."""
    op = _made_by(value, "arith.select")
    if op is None or _constant(op.operands[1]) is None:
        return value
    test = _made_by(op.operands[0], "arith.cmpf")
    if test is None or test.operands[0] is not op.operands[2] or _constant(test.operands[1]) != float("-inf"):
        return value
    return op.operands[2] if property_number(test, "predicate") in _EQUAL else value


_EQUAL = frozenset({1, 8})
"""Predicates oeq and ueq of arith.cmpf."""


# What weights are used for


@dataclass(frozen=True, slots=True)
class _Uses:
    """Sums of weights along rows; `narrow`: matrix products take the weights in 16 bits or less."""

    sums: tuple[Operation, ...]
    narrow: bool


def _uses(weights: SSAValue, axis: int) -> _Uses | None:
    """Returns the uses of weights if these are sums of rows and products of matrices, and there are both;
    else None."""
    sums: list[Operation] = []
    widths: list[int] = []
    waiting = [(weights, True)]
    while waiting:
        value, whole = waiting.pop()
        for use in value.uses:
            user = use.operation
            if user.name in _CASTS or user.name in _MOVES or (user.name == "arith.select" and use.index > 0):
                waiting.append((user.results[0], whole and user.name in _CASTS))
            elif user.name == "tt.dot" and use.index < 2:
                widths.append(t.bit_width(t.elem(value.type)))
            elif whole and user.name == "tt.reduce" and _combines(user, _ADDITION) and property_number(user, "axis") == axis:
                sums.append(user)
            else:
                return None
    return _Uses(tuple(sums), max(widths) <= 16) if sums and widths else None


def _iteration(sums: Sequence[Operation], top: _Top, known: Collection[_Iteration]) -> _Iteration | None:
    """Returns the iteration of the online softmax that sums of weights belong to, if l is updated as it
    should be; else None."""
    loop = top.before.owner.parent_op() if top.before is not None else None
    if top.before is None or loop is None:
        return None
    positions = {
        _kept(_through_moves(use.operation), loop, top.before) for total in sums for use in total.results[0].uses
    }
    number = positions.pop() if len(positions) == 1 else None
    iteration = _Iteration(loop, top.before.index - 1, number) if number is not None else None
    return iteration if iteration is not None and _starts_well(iteration, known, top.scale) else None


def _through_moves(op: Operation) -> Operation:
    """Follows operations that only spread their operand to the one user of their result."""
    while op.name in ("tt.expand_dims", "tt.broadcast") and op.results[0].has_one_use():
        op = next(iter(op.results[0].uses)).operation
    return op


def _kept(op: Operation, loop: Operation, before: BlockArgument) -> int | None:
    """Returns the number of l among what the loop carries, if `op` is its sum l exp(m - m') + rowsum(p); else
    None."""
    if op.name != "arith.addf":
        return None
    for operand in op.operands:
        for old, decay in _factors(operand):
            core, _ = _spread(decay)
            if not isinstance(core.owner, Operation) or _decays(core.owner) != (loop, before.index - 1):
                continue
            if isinstance(old, BlockArgument) and old.owner is before.owner and _next(old) is op.results[0]:
                return old.index - 1
    return None


def _decays(op: Operation) -> tuple[Operation, int] | None:
    """Returns (loop, number of m) if the operation is an exponential of m - max(m, …), and the loop carries
    that maximum on; else None."""
    if op.name not in _EXPONENTIALS:
        return None
    for before, value, axes, _ in _differences(op.operands[0]):
        value = _guarded(value)
        if axes or not isinstance(before, BlockArgument) or _next(before) is not value:
            continue
        loop = before.owner.parent_op()
        maximum = value.owner
        if loop is not None and isinstance(maximum, Operation) and maximum.name in _MAXIMA and before in maximum.operands:
            return loop, before.index - 1
    return None


def _only_rescales(op: Operation, loop: Operation) -> bool:
    """Returns whether the exponential only scales what the loop carries, before something is added to
    that."""
    waiting = list(op.results)
    while waiting:
        for use in waiting.pop().uses:
            user = use.operation
            if user.name in _REPEATS:
                waiting.append(user.results[0])
            elif user.name != "arith.mulf" or not _goes_on(user.operands[1 - use.index], user, loop):
                return False
    return True


def _goes_on(old: SSAValue, scaled: Operation, loop: Operation) -> bool:
    if not isinstance(old, BlockArgument) or old.owner is not loop.regions[0].block:
        return False
    for use in scaled.results[0].uses:
        user = use.operation
        if not (user.name == "arith.addf" or (user.name == "tt.dot" and use.index == 2)):
            return False
        if _next(old) is not user.results[0]:
            return False
    return True


def _starts_well(iteration: _Iteration, known: Collection[_Iteration], scale: float | None) -> bool:
    """Returns whether l is at least about 1 once the first finite score was seen, as distances are scaled."""
    tops, totals = (iteration.loop.operands[3 + number] for number in (iteration.top, iteration.total))
    top, total = _constant(tops), _constant(totals)
    if top is not None and total is not None:
        is_low = top == float("-inf") or (scale is not None and top < 0 and top * abs(scale) <= _LOW)
        return (is_low and 0 <= total <= _HIGH) or (abs(top) < float("inf") and 1 <= total <= _HIGH)
    if isinstance(tops, OpResult) and isinstance(totals, OpResult) and tops.op is totals.op:
        before = _Iteration(tops.op, tops.index, totals.index)
        return before in known and _starts_well(before, known, scale)  # that loop may have no iteration
    return False


# Values


def _made_by(value: SSAValue, name: str) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) and value.owner.name == name else None


def _next(carried: BlockArgument) -> SSAValue | None:
    """Returns what an scf.for yields for this argument; None for arguments of anything else."""
    block = carried.owner
    loop = block.parent_op()
    if loop is None or loop.name != "scf.for" or carried.index == 0 or block.last_op is None:
        return None
    return terminator(block).operands[carried.index - 1]


def _spread(value: SSAValue) -> tuple[SSAValue, tuple[int, ...]]:
    """Returns what a block repeats, and along which new axes. A scalar in a block of one axis counts as
    spread along none."""
    axes: tuple[int, ...] = ()
    while isinstance(value.owner, Operation):
        if value.owner.name == "tt.expand_dims":
            axes += (property_number(value.owner, "axis"),)
        elif value.owner.name != "tt.broadcast" and not (value.owner.name == "tt.splat" and len(t.shape_of(value.type)) == 1):
            break
        value = value.owner.operands[0]
    return value, axes


def _uniform(value: SSAValue) -> SSAValue | float | None:
    """Returns the one number that a block holds everywhere, as a constant, or the scalar it comes from; None
    if there is none."""
    constant, origin = _constant(value), _origin(value)
    if constant is not None:
        return constant
    return origin if t.shape_of(origin.type) == () else None


def _factors(value: SSAValue) -> Iterator[tuple[SSAValue, SSAValue]]:
    op = _made_by(value, "arith.mulf")
    if op is not None:
        yield op.operands[0], op.operands[1]
        yield op.operands[1], op.operands[0]


def _products(value: SSAValue) -> Iterator[tuple[SSAValue, SSAValue | float]]:
    """Yields (x, factor) of a product with one number."""
    for x, factor in _factors(value):
        number = _uniform(factor)
        if number is not None:
            yield x, number


def _is_positive(factor: SSAValue | float) -> bool:
    return isinstance(factor, float) and 0 < factor < float("inf")


def _origin(value: SSAValue) -> SSAValue:
    """Returns what a block repeats, along whatever axes."""
    while isinstance(value.owner, Operation) and value.owner.name in _REPEATS:
        value = value.owner.operands[0]
    return value


def _constant(value: SSAValue) -> float | None:
    op = _made_by(_origin(value), "arith.constant")
    number = splat_value(op.properties["value"]) if op is not None else None
    return float(number) if number is not None else None


def _combines(op: Operation, names: frozenset[str]) -> bool:
    """Returns whether a reduction of one block combines two values by one of these operations, and nothing
    else."""
    block: Block = op.regions[0].block
    first, last = block.first_op, block.last_op
    return (
        len(op.operands) == 1
        and first is not None
        and first.next_op is last
        and first.name in names
        and set(first.operands) == set(block.args)
        and last is not None
        and last.operands[0] is first.results[0]
    )


@dataclass(frozen=True)
class SoftmaxWeights(FunctionPass):
    """Marks exponentials that are weights of a softmax, and quotients that are in range."""

    name = "softmax-weights"

    def run(self, function: FuncOp) -> None:
        mark_weights(function)


__all__ = ["SoftmaxWeights", "mark_weights"]
