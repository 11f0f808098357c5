"""Lowers operations that move elements or make blocks: ranges, splats, views, joins."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation

from ..syntax import attributes, element_name, is_tensor, shape_of
from ..values import i64
from .context import KernelContext
from .loops.coordinates import ORIGIN
from .nodes import Affine, Splat, Stored, dense, view


def lower_make_range(k: KernelContext, op: Operation) -> None:
    facts = attributes(op)
    start = k.ev.s.constant(int(facts["start"]))
    k.define(op.results[0], Affine(shape_of(op.results[0].type), "i32", start, (i64(1),)))


def lower_splat(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    source = op.operands[0]
    elem, shape = element_name(result.type), shape_of(result.type)
    value = k.integer(source) if elem in ("i64", "index") else k.scalar(source)
    k.define(result, Splat(shape, elem, value))


def lower_expand_dims(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    axis = int(attributes(op)["axis"])
    shape = shape_of(result.type)
    dims = [d for d in range(len(shape)) if d != axis]
    k.define(result, view(k.node(op.operands[0]), shape, dims))


def lower_broadcast(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    source = k.node(op.operands[0])
    shape = shape_of(result.type)
    dims = [d if source.shape[d] == shape[d] else None for d in range(len(shape))]
    k.define(result, view(source, shape, dims))


def lower_trans(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    order = [int(x) for x in attributes(op)["order"]]
    dims = [order.index(s) for s in range(len(order))]
    k.define(result, view(k.node(op.operands[0]), shape_of(result.type), dims))


def lower_reshape(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    source = k.node(op.operands[0])
    shape = shape_of(result.type)
    if isinstance(source, Splat):
        k.define(result, Splat(shape, source.elem, source.value))
        return
    kept = _same_extents(source.shape, shape)
    if isinstance(source, Affine) and kept is not None:  # it reads no memory: it may be evaluated at any time
        k.define(result, view(source, shape, kept))
        return
    memory = k.ev.scratch(source.shape, source.elem, pad=source.shape[-1] if source.shape else 1)
    k.nests.materialize(source, memory)
    k.define(result, Stored(shape, source.elem, memory.pointer, dense(shape), memory.memory))


def _same_extents(before: Sequence[int], after: Sequence[int]) -> list[int | None] | None:
    """Returns the dimension that each old one becomes, if the reshape only adds and removes extents of 1, else None."""
    dims = [d for d, n in enumerate(after) if n > 1]
    if [n for n in before if n > 1] != [after[d] for d in dims]:
        return None
    following = iter(dims)
    return [next(following) if n > 1 else None for n in before]


def lower_join(k: KernelContext, op: Operation) -> None:
    """Lowers `tt.join`: both blocks are written side by side, every other element."""
    result = op.results[0]
    shape, elem = shape_of(result.type), element_name(result.type)
    k.define(result, _woven(k, op, shape, elem, (0, 1), 2))


def lower_cat(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    shape, elem = shape_of(result.type), element_name(result.type)
    k.define(result, _woven(k, op, shape, elem, (0, math.prod(shape) // 2), 1))


def _woven(k: KernelContext, op: Operation, shape: tuple[int, ...], elem: str, offsets: Sequence[int], step: int) -> Stored:
    """Writes the operation's operands into one dense block: operand k starts at offsets[k], its elements `step` apart."""
    memory = k.ev.scratch((math.prod(shape),), elem)
    for operand, start in zip(op.operands, offsets, strict=True):
        node = k.node(operand)
        strides = [step * stride for stride in dense(node.shape)]
        pointer = k.f.gep(memory.pointer, start, memory.memory)
        k.nests.materialize(node, Stored(node.shape, elem, pointer, tuple(strides), memory.memory))
    return Stored(shape, elem, memory.pointer, dense(shape), memory.memory)


def lower_split(k: KernelContext, op: Operation) -> None:
    """Lowers `tt.split` to two views of the block in scratch, every other element each."""
    source = k.node(op.operands[0])
    memory = k.nests.materialize(source, k.ev.scratch(source.shape, source.elem, pad=source.shape[-1]))
    for half, result in enumerate(op.results):
        pointer = k.f.gep(memory.pointer, half, memory.memory)
        if is_tensor(result.type):
            view_ = Stored(source.shape[:-1], source.elem, pointer, memory.strides[:-1], memory.memory)
            k.define(result, view_)
        else:
            scalar = Stored((), source.elem, pointer, (), memory.memory)
            k.scalars[result] = k.ev.at(scalar, ())


def lower_unsplat(k: KernelContext, op: Operation) -> None:
    node = k.node(op.operands[0])
    value = k.ev.at(node, (ORIGIN,) * len(node.shape))
    k.scalars[op.results[0]] = k.ev.s.pointer(value) if node.elem == "ptr" else value
