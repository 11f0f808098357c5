"""Provides `associative_scan`: running results of any associative function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....promotion.dtype import bool_
from ....promotion.errors import UserError
from ...construction import primitives
from ...construction.nesting import under_construction
from ...dims.dim import Extent
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.shape import normalize_axis
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply
from ..creation import full
from .loops import scan
from .structures import Structure, same_form, taken_apart

Combine = Callable[[Sequence[Symbol], Sequence[Symbol]], list[Symbol]]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return the results of combining all elements up to each one along `axis`: fn(fn(x[0], x[1]), x[2]), and so on.

    As `jax.lax.associative_scan`. `fn` is called on slices with many elements along the axis at once, so its results are
    grouped otherwise than from left to right: floats may differ in their last bits.

    Args:
        fn: an associative function of two elements, each of the structure of `elems`, that returns another one of the same
            structure, dtypes and shapes. It treats positions along the axis alike, as elementwise operations and products of
            matrices on other axes do.
        elems: a tensor, or tuples, lists and dicts of tensors with equal sizes of the axis.
        reverse: whether to begin at the end: fn(x[-1], x[-2]) is the last result but one.
        axis: along which elements lie.

    A known size gives some dozens of operations on halves, quarters and so on, as often as it can be halved; one that is
    symbolic gives a loop over the elements, as `scan` does.
    """
    op = "associative_scan"
    if not callable(fn):
        raise UserError(f"{op}: fn is a {type(fn).__name__}; fix: pass a function of two elements")
    structure, leaves = taken_apart(elems, "elems", op)
    graph = under_construction(graph_of(op, leaves))
    symbols = [graph.as_symbol(leaf, op) for leaf in leaves]
    numbers = []
    for symbol in symbols:
        with describing(op, symbol):
            numbers.append(normalize_axis(axis, len(symbol.shape)))
    count = symbols[0].shape[numbers[0]]
    for name, symbol, number in zip(structure.names, symbols, numbers, strict=True):
        if not graph.shape_checks.decide(count, symbol.shape[number]):
            raise mistake(
                op, f"{name} has {symbol.shape[number]} elements, the first tensor {count}", symbols, "equal sizes of the axis",
                "slice the longer one, or rebind sizes that are always equal",
            )  # fmt: skip
    moved = [
        _flipped(symbol, number) if reverse else symbol
        for symbol, number in zip(symbols, numbers, strict=True)
    ]

    def combine(left: Sequence[Symbol], right: Sequence[Symbol]) -> list[Symbol]:
        return _combined(fn, structure, left, right)

    results = _by_halves(combine, moved, numbers, count) if type(count) is int else _by_steps(combine, moved, numbers)
    back = [
        _flipped(symbol, number) if reverse else symbol
        for symbol, number in zip(results, numbers, strict=True)
    ]
    return structure.put_together(iter(back))


def _flipped(x: Symbol, axis: int) -> Symbol:
    return apply("flip", x, axes=(axis,))


def _combined(
    fn: Callable[[Any, Any], Any], structure: Structure, left: Sequence[Symbol], right: Sequence[Symbol]
) -> list[Symbol]:
    """Return the leaves of fn(left, right), which have the types of those of `right`."""
    op = "associative_scan"
    found, leaves = taken_apart(
        fn(structure.put_together(iter(left)), structure.put_together(iter(right))), "elems", op
    )
    if not same_form(found, structure):
        raise UserError(
            f"{op}: fn returns {', '.join(found.names) or 'nothing'}, and takes {', '.join(structure.names)}; "
            "fix: return the same structure of tuples, lists and dicts"
        )
    graph = right[0].graph
    results = [graph.as_symbol(leaf, op) for leaf in leaves]
    for name, result, wanted in zip(structure.names, results, right, strict=True):
        pairs = zip(result.shape, wanted.shape, strict=False)
        same = len(result.shape) == len(wanted.shape) and all(
            [graph.shape_checks.decide(*pair) for pair in pairs]
        )
        if result.dtype is not wanted.dtype or not same:
            raise mistake(
                op, f"fn returns {result.dtype} {shape_text(result.shape)} for {name}, and takes {wanted.dtype} "
                f"{shape_text(wanted.shape)}", (result,), f"{wanted.dtype} {shape_text(wanted.shape)}",
                f"cast it to {wanted.dtype}" if same else "an elementwise function, or one of other axes",
            )  # fmt: skip
    return results


def _sliced(x: Symbol, axis: int, start: Extent, stop: Extent, step: int = 1) -> Symbol:
    index = tuple([slice(None)] * axis + [slice(start, stop, step)])
    return x[index]


def _by_halves(combine: Combine, elems: Sequence[Symbol], axes: Sequence[int], count: int) -> list[Symbol]:
    """Combine pairs, scan them, and fill in the results between."""
    if count < 2:
        return list(elems)

    def part(values: Sequence[Symbol], start: int, stop: int, step: int = 1) -> list[Symbol]:
        return [_sliced(x, axis, start, stop, step) for x, axis in zip(values, axes, strict=True)]

    even = count - count % 2
    pairs = combine(part(elems, 0, even, 2), part(elems, 1, even, 2))
    odd = _by_halves(combine, pairs, axes, count // 2)
    firsts = part(elems, 0, 1)
    if count == 2:
        return [
            apply("concat", first, x, axis=axis) for first, x, axis in zip(firsts, odd, axes, strict=True)
        ]
    later = combine(part(odd, 0, (count - 1) // 2), part(elems, 2, count, 2))
    results = []
    for first, between, x, axis in zip(firsts, later, odd, axes, strict=True):
        if count % 2:
            results.append(apply("concat", first, _interleaved(x, between, axis), axis=axis))
        else:
            results.append(_interleaved(apply("concat", first, between, axis=axis), x, axis))
    return results


def _interleaved(one: Symbol, other: Symbol, axis: int) -> Symbol:
    """Return the elements of two tensors by turns."""
    shape = one.shape
    apart = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    both = apply("concat", primitives.reshape(one, apart), primitives.reshape(other, apart), axis=axis + 1)
    return primitives.reshape(both, (*shape[:axis], shape[axis] * 2, *shape[axis + 1 :]))


def _by_steps(combine: Combine, elems: Sequence[Symbol], axes: Sequence[int]) -> list[Symbol]:
    """Combine one element after the other in a loop; before the first one there is nothing to combine with."""
    fronts = [primitives.permute(x, _front(axis, len(x.shape))) for x, axis in zip(elems, axes, strict=True)]
    shapes = [(*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x, axis in zip(elems, axes, strict=True)]
    nothing = tuple(
        [
            full(x, shape, False if x.dtype.is_bool else 0, x.dtype)
            for x, shape in zip(elems, shapes, strict=True)
        ]
    )
    began = fronts[0].graph.constant(False, bool_)

    def step(state: Any, xs: Any) -> Any:
        so_far, is_later = state
        here = [_slice_at(x, axis) for x, axis in zip(xs, axes, strict=True)]
        both = [apply("where", is_later, one, x) for one, x in zip(combine(so_far, here), here, strict=True)]
        rows = tuple(
            [
                primitives.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]))
                for x, axis in zip(both, axes, strict=True)
            ]
        )
        return (tuple(both), apply("logical_or", is_later, True)), rows

    _, rows = scan(step, (nothing, began), tuple(fronts))
    return [primitives.permute(x, _back(axis, len(x.shape))) for x, axis in zip(rows, axes, strict=True)]


def _front(axis: int, rank: int) -> tuple[int, ...]:
    return (axis, *[a for a in range(rank) if a != axis])


def _back(axis: int, rank: int) -> tuple[int, ...]:
    return tuple([0 if a == axis else a + 1 if a < axis else a for a in range(rank)])


def _slice_at(x: Symbol, axis: int) -> Symbol:
    """Return a slice with an axis of one element where the others are scanned."""
    return primitives.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
