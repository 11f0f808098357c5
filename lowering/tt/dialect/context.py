"""Assembles the block IR: the tt dialect, and the xDSL context with every dialect that a block program may
use.

Block programs of graphs use few operations, which are loaded from the start. The others, and all that reading
a text needs, are loaded on first use: xDSL takes a fifth of a millisecond per definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.ir import Dialect, Operation

from . import compute, functions, regions, shapes
from .arith import ARITH
from .memory import pointers as memory

_CORE: dict[str, type[Operation]] = {
    operation.name: operation
    for operations in (
        functions.OPERATIONS, shapes.OPERATIONS, memory.OPERATIONS, compute.OPERATIONS, regions.OPERATIONS, ARITH.operations,
        scf.Scf.operations,
    )
    for operation in operations
}  # fmt: skip


@cache
def dialects() -> Sequence[Dialect]:
    """Returns every dialect of the block IR: tt first, then the others that texts may hold."""
    from xdsl.dialects import builtin, cf, math, ub

    from ..types import PointerType
    from . import debug, external, hints, loops, scaled
    from .attributes import CachePolicyAttr
    from .memory import atomics, block_pointers, descriptors, sort_lines, tensormaps
    from .memory.descriptor_types import TensorDescType

    tt = Dialect(
        "tt",
        [
            *functions.OPERATIONS,
            *shapes.OPERATIONS,
            *memory.OPERATIONS,
            *descriptors.OPERATIONS,
            *block_pointers.OPERATIONS,
            *atomics.OPERATIONS,
            *sort_lines.OPERATIONS,
            *compute.OPERATIONS,
            *scaled.OPERATIONS,
            *external.OPERATIONS,
            *regions.OPERATIONS,
            *debug.OPERATIONS,
            *hints.GRID_DEPENDENCIES,
        ],
        [PointerType, TensorDescType, CachePolicyAttr],
    )
    ttg = Dialect("ttg", [*hints.BARRIERS], [])
    gpu = Dialect("gpu", [*hints.OLD_BARRIERS], [])
    ttng = Dialect("ttng", [*tensormaps.OPERATIONS], [])
    llvm = Dialect("llvm", [*hints.ASSUMPTIONS], [*loops.ATTRIBUTES])
    return (tt, ttg, gpu, ttng, llvm, ARITH, math.Math, scf.Scf, builtin.Builtin, cf.Cf, ub.UB)


@cache
def context() -> Context:
    """Returns the xDSL context of the block IR. It is shared: load nothing else into it."""
    made = Context(allow_unregistered=False)
    for dialect in dialects():
        made.load_dialect(dialect)
    return made


@cache
def operation_class(name: str) -> type[Operation] | None:
    """Returns the class of an operation of tt, arith, math or scf, which a builder may make; None for other
    names."""
    found = _CORE.get(name)
    if found is None and name.startswith("math."):
        from xdsl.dialects.math import Math

        return next((operation for operation in Math.operations if operation.name == name), None)
    if found is None and name.startswith("tt."):
        return next((operation for operation in dialects()[0].operations if operation.name == name), None)
    return found
