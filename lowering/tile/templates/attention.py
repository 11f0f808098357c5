"""Builds the attention template: softmax(scale · q kᵀ + mask) v for a block of query rows, without storing
the scores.

Where the keys fit in a block, the nest is evaluated as it stands, softmax included. Otherwise keys are walked
in blocks with an online softmax (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018; Dao
et al., "FlashAttention", 2022): a running maximum m, a running sum l and an unnormalised result are carried
and rescaled. Rows whose scores are all -inf give NaN, as the plain formula does: the running maximum is
replaced by 0 in exponents while it is -inf, so that rows which are -inf only so far are not spoiled, and 0 /
0 appears at the end.
"""

from __future__ import annotations

import math

from xdsl.ir import Attribute, SSAValue

from ....promotion.dtype import float32, float64
from ....promotion.errors import UnsupportedError
from ...nest import Nest
from ...schedule.attention import Softmax, find_softmax
from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import F32, F64, I1, I64, elem
from ..blocks import Block, Coordinate, Dimension, power_of_two, register_type, shape
from ..elements.arithmetic import exp_weight
from ..elements.conversions import cast
from ..emit import Frame, Kernel
from ..reductions import reduce_whole
from ..schedule import Schedule, is_whole
from ..structure import Product, attention_products, reach
from .contract import ROW_RANK, row_dimension
from .masked_keys import MaskedKeys, Walked, key_mask
from .products import accumulator_type, contraction, finish, matched, operand

HEAD_RANK, KEY_RANK, VALUE_RANK = ROW_RANK + 1, ROW_RANK + 2, ROW_RANK + 3


def build_attention(kernel: Kernel, schedule: Schedule) -> list[tuple[int, int]]:
    """Emits the program; returns the grid as (axis, block) pairs."""
    nest = kernel.nest
    blocks = dict(schedule.blocks)
    scores, values, m = attention_products(nest)
    fixed = {m, scores.k, values.k, values.n}
    grid = [(axis, 1) for axis in range(len(nest.axes)) if axis not in fixed] + [
        (m, blocks.get(m, 1))
    ]
    starts = kernel.grid(grid)
    rows = row_dimension(kernel, m, blocks, starts)
    width = 1 if values.n is None else _static(nest, values.n, "value width")
    columns = kernel.dimension(values.n, power_of_two(width), 0, VALUE_RANK)
    head = kernel.dimension(scores.k, power_of_two(_static(nest, scores.k, "head width")), 0, HEAD_RANK)
    coordinates: dict[int, Coordinate] = {**starts, m: rows, scores.k: head}
    if values.n is not None:
        coordinates[values.n] = columns
    frame = Frame(kernel, coordinates)
    step = blocks.get(values.k, 1)
    if is_whole(nest.axes[values.k].extent, step):
        _whole(frame, scores, values, rows, columns, step)
    else:
        softmax = find_softmax(nest.body, nest.body[values.number].operands[0], values.k)
        if softmax is None:
            raise UnsupportedError(
                "tile: what lies between the two products of an attention is not one softmax over the keys"
            )
        with kernel.at(nest.body[values.number]):
            _online(frame, scores, values, softmax, rows, columns, step)
    needed = reach(nest, [store.value for store in nest.stores], [values.number])
    if any(nest.body[n].op in ("reduce", "contract") and n != values.number for n in needed):
        raise UnsupportedError("tile: an attention nest that stores more than what follows from its result")
    for store in nest.stores:
        frame.store(store)
    return grid


def _static(nest: Nest, axis: int, what: str) -> int:
    extent = nest.axes[axis].extent
    if type(extent) is not int:
        raise UnsupportedError(f"tile: attention whose {what} is known only at launch")
    return extent


def _whole(
    frame: Frame, scores: Product, values: Product, rows: Dimension, columns: Dimension, step: int
) -> None:
    """Evaluates the nest as it stands, with all keys in one block."""
    kernel = frame.kernel
    keys = kernel.dimension(values.k, step, 0, KEY_RANK)
    inner = frame.child({values.k: keys})
    for number, value in enumerate(kernel.nest.body):
        if value.op == "reduce":
            reduce_whole(inner, number)
        elif number == scores.number:
            inner.define(number, contraction(inner, scores, rows, keys, 1))
        elif number == values.number:
            frame.define(number, contraction(inner, values, rows, columns, step))


def _online(
    frame: Frame,
    scores: Product,
    values: Product,
    softmax: Softmax,
    rows: Dimension,
    columns: Dimension,
    step: int,
) -> None:
    kernel, b, indices = frame.kernel, frame.builder, frame.indices
    nest = kernel.nest
    result = nest.body[values.number]
    working = F64 if nest.body[softmax.logits].dtype.name == "float64" else F32
    accumulator = accumulator_type(result.dtype)
    weights, right = result.operands
    frame.hoist([softmax.logits, right], [values.k])
    column = (rows.size,)
    inits = [
        b.const(-math.inf, working, column),
        b.const(0.0, working, column),
        b.const(0.0, accumulator, (rows.size, columns.size)),
    ]
    keys_extent = kernel.axis_extent(values.k)
    walked = Walked(indices.ceil_div(keys_extent, step), 0)
    mask = key_mask(nest, scores, softmax, values.k) if kernel.skips_masked_keys else None
    if mask is not None:
        walked = MaskedKeys(frame, mask, (scores, values), columns, rows).walked(walked.count, step, KEY_RANK)
    with kernel.loop(walked.count, inits) as loop:
        running, total, sums = loop.args
        keys = kernel.dimension(values.k, step, indices.mul(indices.add(walked.first, loop.index), step), KEY_RANK)
        inner = frame.child({values.k: keys})
        inner.define(scores.number, contraction(inner, scores, rows, keys, 1))
        dims = (rows, keys)
        with kernel.at(nest.body[softmax.total]):
            logits = _as(b, inner.expand(inner.block(softmax.logits), dims), working)
            inside = inner.mask((keys,), dims)
            if inside is not None:
                logits = b.select(inside, logits, b.const(-math.inf, working, shape(dims)))
            largest = b.reduce([logits], 1, lambda b, x, y: [b.binary("arith.maximumf", x[0], y[0])])[0]
            largest = b.binary("arith.maximumf", running, largest)
            empty = b.cmpf("oeq", largest, b.const(-math.inf, working, column))
            shift = b.select(empty, b.const(0.0, working, column), largest)
            decay = exp_weight(b, b.binary("arith.subf", running, shift))
            spread = inner.expand(Block(shift, (rows,), working), dims)
            powers = exp_weight(b, b.binary("arith.subf", logits, spread))
            row_sums = b.reduce([powers], 1, lambda b, x, y: [b.binary("arith.addf", x[0], y[0])])[0]
            following = b.binary("arith.addf", b.binary("arith.mulf", total, decay), row_sums)
        scale = inner.expand(Block(_as(b, decay, accumulator), (rows,), accumulator), (rows, columns))
        weight_dtype, right_dtype = nest.body[weights].dtype, nest.body[right].dtype
        left = cast(b, powers, float64 if working == F64 else float32, weight_dtype)
        left, other = matched(
            inner, left, operand(inner, right, keys, columns, keys), weight_dtype, right_dtype, accumulator
        )
        precision = "tf32" if result.attrs.get("precision") == "tf32" and elem(left.type) == F32 else "ieee"
        sums = b.dot(left, other, b.binary("arith.mulf", sums, scale), precision)
        loop.yield_([largest, following, sums])
    _, total, sums = loop.results
    if not isinstance(keys_extent, int):  # no keys at all: a sum over nothing is 0, not 0 / 0
        some = indices.is_less(0, keys_extent)
        total = b.select(some, total, b.const(1.0, working, column))
    divisor = frame.expand(Block(_as(b, total, accumulator), (rows,), accumulator), (rows, columns))
    quotient = b.binary("arith.divf", sums, divisor)
    if softmax.replaces_nan:
        quotient = _without_weights(frame, values, (rows, columns), step, total, quotient)
    quotient = finish(frame, quotient, result.dtype)
    frame.define(values.number, Block(quotient, (rows, columns), register_type(result.dtype)))


def _without_weights(
    frame: Frame, values: Product, dims: tuple[Dimension, Dimension], step: int, total: SSAValue, quotient: SSAValue
) -> SSAValue:
    """Replaces the rows whose weights are NaN, which are 0 then: by 0, or NaN for values that are not finite.

    There seldom are such rows: only then are values looked at.
    """
    kernel, b, indices = frame.kernel, frame.builder, frame.indices
    (rows, columns), accumulator = dims, elem(quotient.type)
    right = frame.kernel.nest.body[values.number].operands[1]
    is_nan = b.cmpf("ule", total, b.const(0.0, elem(total.type), (rows.size,)))  # NaN, or of scores that all are -inf
    count = indices.value(indices.ceil_div(kernel.axis_extent(values.k), step))
    counts = b.select(is_nan, b.splat(count, (rows.size,)), b.const(0, I64, (rows.size,)))
    needed = b.reduce([counts], 0, lambda b, x, y: [b.binary("arith.maxsi", x[0], y[0])])[0]
    needed = b.binary("arith.minsi", needed, count)  # which proofs need not find out
    with kernel.loop(needed, [b.const(0.0, accumulator, (columns.size,))]) as loop:
        keys = kernel.dimension(values.k, step, indices.mul(loop.index, step), KEY_RANK)
        block = operand(frame.child({values.k: keys}), right, keys, columns, keys)
        if elem(block.type) != accumulator:
            block = b.cast("arith.extf", block, accumulator)
        nothing = b.binary("arith.mulf", block, b.const(0.0, accumulator, shape((keys, columns))))
        sums = b.reduce([nothing], 0, lambda b, x, y: [b.binary("arith.addf", x[0], y[0])])[0]
        loop.yield_([b.binary("arith.addf", loop.args[0], sums)])
    chosen = frame.expand(Block(is_nan, (rows,), I1), dims)
    return b.select(chosen, frame.expand(Block(loop.results[0], (columns,), accumulator), dims), quotient)


def _as(b: BlockBuilder, x: SSAValue, float_type: Attribute) -> SSAValue:
    """Converts a float block to another float type."""
    have = elem(x.type)
    if have == float_type:
        return x
    return b.cast("arith.truncf" if have == F64 else "arith.extf", x, float_type)
