"""Masks of the lanes of a vector in which comparisons of positions hold."""

from __future__ import annotations

from ....target import HostTarget
from ...values import ConstantLanes, V, int_vector
from ..loops.coordinates import Coordinates
from ..nodes import Map
from ..scalars import ZERO, Scalars, is_constant


def lane_mask(s: Scalars, target: HostTarget, position: V, limit: V, n: int) -> V:
    """Returns the mask of lanes whose position is below the limit.

    The difference is clamped so that 32-bit compares suffice, or those of bytes.
    """
    key = ("lanes", position.operand(), limit.operand(), str(n))
    found = s.known(key)
    if found is None:
        left = s.max(s.min(s.sub(limit, position), s.constant(n)), ZERO)
        if is_constant(left):
            found = int_vector([int(i < left.number) for i in range(n)], "i1")
        else:
            narrow = _compared_element(target, n)
            small = s.f.splat(s.f.cast("trunc", left, narrow), n)
            found = s.f.icmp("sgt", small, s.f.iota(n, narrow))
        s.remember(key, found)
    return found


def _compared_element(target: HostTarget, n: int) -> str:
    """Returns the element in which n lanes are compared: as wide as what they mask, where masks are vectors themselves."""
    if target.has("avx512bw", "avx512vl"):
        return "i8" if 16 < n <= 64 else "i32"
    return {32: "i8", 16: "i16"}.get(n, "i32") if target.vector_bytes == 32 else "i32"


def compared_lanes(s: Scalars, target: HostTarget, node: Map, coordinates: Coordinates) -> V | None:
    """Returns the lanes in which a comparison of positions holds, without integers as wide as addresses.

    None where it is another comparison, or is not one along a vector for which such integers fill many registers.
    """
    bound = node.attrs.get("bound") or node.attrs.get("begin")
    coordinate = None if bound is None else coordinates[bound.dim]
    if bound is None or coordinate is None or 8 * coordinate.lanes <= 2 * target.vector_bytes:
        return None
    position = s.add(coordinate.at, s.constant(coordinate.offset))
    below = lane_mask(s, target, position, bound.limit, coordinate.lanes)
    if "bound" in node.attrs:
        return below
    return s.f.binary("xor", below, int_vector([1] * coordinate.lanes, "i1"))


def only_first_lane(mask: V | None) -> bool:
    """Whether a mask is the constant with only its first lane set."""
    return isinstance(mask, ConstantLanes) and mask.numbers[0] == 1 and sum(mask.numbers) == 1
