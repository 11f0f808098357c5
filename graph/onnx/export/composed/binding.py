"""Finds a function of several operations by its form: what it builds of anything, and of any numbers, is laid over a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....promotion.dataclass import dataclass
from .....promotion.dtype import DType
from ....graph import Graph
from ....location import UNKNOWN
from ....symbol import Symbol
from ....types import Shape
from ..equality import UNFIT, found_among, leaf_of, same_attributes

_MARKS = (0.1015625, 0.2109375, 0.3203125)
"""Numbers that stand for those of a graph: nothing that a function builds of them by itself is one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What a function builds of leaves and of numbers that are not known yet.

    Attributes:
        make: the function, of a graph, leaves and numbers.
        root: the symbol that it returns.
        leaves: the inputs that stand for anything.
    """

    make: Callable[..., Symbol]
    root: Symbol
    leaves: tuple[Symbol, ...]
    numbers: int


def form_of(graph: Graph, make: Callable[..., Symbol], leaves: Sequence[tuple[DType, Shape]], numbers: int) -> Form | None:
    """Return what a function builds of tensors of these types, and of so many numbers; None if it refuses them."""
    scratch = graph.rewriting()
    inputs = [leaf_of(scratch, number, dtype, shape, UNKNOWN) for number, (dtype, shape) in enumerate(leaves)]
    try:
        root = make(scratch, *inputs, *_MARKS[:numbers])
    except UNFIT:
        return None
    return Form(make, root, tuple(inputs), numbers)


def bound(graph: Graph, form: Form | None, symbol: Symbol) -> tuple[list[Symbol], list[float]] | None:
    """Return the leaves and numbers of which a function makes a symbol; None if it does not."""
    if form is None:
        return None
    found: dict[int, Symbol] = {}
    numbers: dict[int, float] = {}
    leaves = {leaf.id for leaf in form.leaves}
    pending = [(form.root, symbol)]
    while pending:
        one, other = pending.pop()
        if one.id in leaves:
            if other.dtype is not one.dtype or other.shape != one.shape or found.setdefault(one.id, other) is not other:
                return None
            continue
        if one.op is not other.op or one.dtype is not other.dtype or one.shape != other.shape:
            return None
        if one.op.name == "constant" and not one.shape:
            mark, value = float(one.attrs["value"]), float(other.attrs["value"])
            for number, given in enumerate(_MARKS[: form.numbers]):
                if mark == given:
                    numbers.setdefault(number, value)
                elif mark == -given:
                    numbers.setdefault(number, -value)
            continue
        if not same_attributes(one.attrs, other.attrs) or len(one.inputs) != len(other.inputs):
            return None
        pending.extend(zip(one.inputs, other.inputs, strict=True))
    if len(found) != len(leaves) or len(numbers) != form.numbers:
        return None
    given_leaves = [found[leaf.id] for leaf in form.leaves]
    given_numbers = [numbers[number] for number in range(form.numbers)]

    def make(scratch: Graph, *operands: Symbol) -> Symbol:
        return form.make(scratch, *operands, *given_numbers)

    if found_among(graph, make, given_leaves, (symbol,)) is None:
        return None
    return given_leaves, given_numbers
