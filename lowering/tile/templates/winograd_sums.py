"""Emits the sums of Winograd's convolutions along one axis of space: before and after the products (`graph_passes/winograd.py`
has the formulas). Several axes are one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import F32, shape_of

NEAR, FAR = 5 / 8, 3 / 2
"""The points ±a and ±b of F(4, 3): their squares and cubes are numbers of float32."""
SUM, PRODUCT = NEAR**2 + FAR**2, NEAR**2 * FAR**2


def sums_of_elements(b: BlockBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    """Emits what four or six products take of as many neighbours."""
    if len(x) == 4:
        return [_difference(b, x[0], x[2]), _sum(b, x[1], x[2]), _difference(b, x[2], x[1]), _difference(b, x[1], x[3])]
    even_near, even_far = _scaled(b, x[2], -(FAR**2), x[4]), _scaled(b, x[2], -(NEAR**2), x[4])
    odd_near, odd_far = _scaled(b, x[1], -(FAR**2), x[3]), _scaled(b, x[1], -(NEAR**2), x[3])
    return [
        _scaled(b, x[0], PRODUCT, _scaled(b, x[2], -SUM, x[4])),
        _scaled(b, odd_near, NEAR, even_near),
        _scaled(b, odd_near, -NEAR, even_near),
        _scaled(b, odd_far, FAR, even_far),
        _scaled(b, odd_far, -FAR, even_far),
        _scaled(b, x[1], PRODUCT, _scaled(b, x[3], -SUM, x[5])),
    ]


def sums_of_products(b: BlockBuilder, m: Sequence[SSAValue]) -> list[SSAValue]:
    """Emits the two or four results of four or six products."""
    if len(m) == 4:
        return [_sum(b, _sum(b, m[0], m[1]), m[2]), _difference(b, _difference(b, m[1], m[2]), m[3])]
    even_near, odd_near = _sum(b, m[1], m[2]), _difference(b, m[1], m[2])
    even_far, odd_far = _sum(b, m[3], m[4]), _difference(b, m[3], m[4])
    return [
        _sum(b, m[0], _sum(b, even_near, even_far)),
        _scaled(b, odd_near, NEAR, _times(b, odd_far, FAR)),
        _scaled(b, even_near, NEAR**2, _times(b, even_far, FAR**2)),
        _scaled(b, odd_near, NEAR**3, _scaled(b, odd_far, FAR**3, m[5])),
    ]


def _sum(b: BlockBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.binary("arith.addf", x, y)


def _difference(b: BlockBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.binary("arith.subf", x, y)


def _times(b: BlockBuilder, x: SSAValue, factor: float) -> SSAValue:
    return b.binary("arith.mulf", x, b.const(factor, F32, shape_of(x.type)))


def _scaled(b: BlockBuilder, x: SSAValue, factor: float, y: SSAValue) -> SSAValue:
    return b.ternary("math.fma", x, b.const(factor, F32, shape_of(x.type)), y)
