"""The block IR as a whole: the tt dialect and the xDSL context with every dialect a block program may use."""

from __future__ import annotations

from functools import cache

from xdsl.context import Context
from xdsl.dialects import builtin, math, scf
from xdsl.ir import Dialect, Operation

from ..types import PointerType
from . import (
    atomics as dialect_atomics,
)
from . import (
    block_pointers as dialect_block_pointers,
)
from . import (
    compute as dialect_compute,
)
from . import (
    debug as dialect_debug,
)
from . import (
    descriptors as dialect_descriptors,
)
from . import (
    external as dialect_external,
)
from . import (
    functions as dialect_functions,
)
from . import (
    hints as dialect_hints,
)
from . import (
    loops as dialect_loops,
)
from . import (
    memory as dialect_memory,
)
from . import (
    regions as dialect_regions,
)
from . import (
    scaled as dialect_scaled,
)
from . import (
    shapes as dialect_shapes,
)
from . import (
    tensormaps as dialect_tensormaps,
)
from .arith import ARITH
from .attributes import CachePolicyAttr
from .descriptor_types import TensorDescType

TT = Dialect(
    "tt",
    [
        *dialect_functions.OPERATIONS,
        *dialect_shapes.OPERATIONS,
        *dialect_memory.OPERATIONS,
        *dialect_descriptors.OPERATIONS,
        *dialect_block_pointers.OPERATIONS,
        *dialect_atomics.OPERATIONS,
        *dialect_compute.OPERATIONS,
        *dialect_scaled.OPERATIONS,
        *dialect_external.OPERATIONS,
        *dialect_regions.OPERATIONS,
        *dialect_debug.OPERATIONS,
        *dialect_hints.GRID_DEPENDENCIES,
    ],
    [PointerType, TensorDescType, CachePolicyAttr],
)


TTG = Dialect("ttg", [*dialect_hints.BARRIERS], [])
TTNG = Dialect("ttng", [*dialect_tensormaps.OPERATIONS], [])
LLVM = Dialect("llvm", [*dialect_hints.ASSUMPTIONS], [*dialect_loops.ATTRIBUTES])


@cache
def context() -> Context:
    """The xDSL context of the block IR. It is shared: load nothing else into it."""
    # Only text from outside has branches between blocks and poison values: their dialects load with the first
    # text.
    from xdsl.dialects import cf, ub

    made = Context(allow_unregistered=False)
    for dialect in (builtin.Builtin, TT, TTG, TTNG, LLVM, ARITH, math.Math, scf.Scf, cf.Cf, ub.UB):
        made.load_dialect(dialect)
    return made


@cache
def operation_classes() -> dict[str, type[Operation]]:
    """Operation name → class, for every operation a builder may make."""
    return {
        operation.name: operation
        for dialect in (TT, ARITH, math.Math, scf.Scf)
        for operation in dialect.operations
    }
