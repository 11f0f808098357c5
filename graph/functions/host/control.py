"""Makes loops and branches that the host drives: sizes of what a loop carries may change from one iteration to the next."""

from __future__ import annotations

from collections.abc import Sequence

from ....promotion.dtype import DType
from ...dims.dim import Dim, Extent
from ...graph import Graph
from ...ops.attributes import Attributes
from ...region import Region
from ...symbol import Symbol
from ...types import Shape
from .data_sized import fresh_dim


def build_host_loop(
    graph: Graph, carried: Sequence[Symbol], body: Region, limit: Symbol | None = None, length: Extent | None = None
) -> list[Symbol]:
    """Add a loop that the host drives, and return what it returns: what it carries, and stacked values of all iterations.

    Args:
        graph: the graph around the body.
        carried: initial values, of which the first, a bool scalar, says whether there is another iteration.
        body: takes the index (int64) and the carried values; names in its inputs' shapes that the graph does not have are sizes
            that may change.
        limit: the most iterations, an int64 scalar.
        length: how many iterations there are, if that is known, so that it is the number of rows; a run requires it.
    """
    limits = () if limit is None else (limit,)
    attrs: Attributes = {
        "captured": (len(body.captured),), "carried": len(carried), "limited": limit is not None, "regions": (body,),
    }  # fmt: skip
    loop = graph.apply("host_loop", (*limits, *carried, *body.captured), attrs)
    own, trips = body.own_dims, fresh_dim(graph, "trips") if length is None else length
    decided = (trips,) if length is None and isinstance(trips, Dim) else ()
    found = []
    for index, output in enumerate(body.outputs):
        if index < len(carried):
            pairs = zip(carried[index].shape, body.inputs[1 + index].shape, strict=True)
            shape: Shape = tuple([outer if outer == inner else None for outer, inner in pairs])  # type: ignore[misc]
            found.append(_result(loop, index, output.dtype, shape))
        else:
            sizes = [None if isinstance(size, Dim) and size.symbols() & own else size for size in output.shape]
            found.append(_result(loop, index, output.dtype, (trips, *sizes), decided))
    return found


def build_host_branch(condition: Symbol, then: Region, otherwise: Region) -> list[Symbol]:
    """Add a branch that the host takes, and return its results: values of equal dtypes and ranks, whose sizes may differ."""
    regions = (then, otherwise)
    captured = [symbol for region in regions for symbol in region.captured]
    attrs: Attributes = {"captured": tuple([len(region.captured) for region in regions]), "regions": regions}
    branch = condition.graph.apply("host_branch", (condition, *captured), attrs)
    found = []
    for index, (one, other) in enumerate(zip(then.outputs, otherwise.outputs, strict=True)):
        own = then.own_dims | otherwise.own_dims
        shape = [
            size if size == second and not (isinstance(size, Dim) and size.symbols() & own) else None
            for size, second in zip(one.shape, other.shape, strict=True)
        ]
        found.append(_result(branch, index, one.dtype, shape))
    return found


def _result(
    source: Symbol, index: int, dtype: DType, shape: Sequence[Extent | None], decided: tuple[Dim, ...] = ()
) -> Symbol:
    """Return one result. shape: None for sizes that get names here. decided: other names that the result decides."""
    graph = source.graph
    sizes = [fresh_dim(graph, f"size{axis}") if extent is None else extent for axis, extent in enumerate(shape)]
    fresh = [size for size, extent in zip(sizes, shape, strict=True) if extent is None and isinstance(size, Dim)]
    attrs: Attributes = {"dtype": dtype, "extents": (*decided, *fresh), "index": index, "shape": tuple(sizes)}
    return graph.apply("host_result", (source,), attrs, dtype)
