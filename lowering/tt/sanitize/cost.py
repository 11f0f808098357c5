"""Estimates how long the interpreter takes for a sanitized launch, which decides whether compiling code for it pays."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from .. import types as t
from ..analysis.integer_ranges import IntegerRanges, LaunchRanges

_OPERATION, _ACCESS, _ELEMENT = 15e-6, 150e-6, 15e-9
"""Seconds of an operation, of an access, and of each element beyond that, as measured."""
_UNKNOWN_ITERATIONS = 16
_ACCESSES = ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store")


def interpretation_seconds(function: Operation, launch: LaunchRanges) -> float:
    """Returns the seconds that one program of a function takes in the sanitizer, roughly.

    Loops count as often as they may run.
    """
    ranges = IntegerRanges(launch)
    return sum([_seconds(block, ranges) for block in function.regions[0].blocks])


def _seconds(block: Block, ranges: IntegerRanges) -> float:
    total = 0.0
    for op in block.ops:
        if op.name == "arith.constant":
            continue
        elements = max([t.element_count(value.type) for value in (*op.results, *op.operands)], default=1)
        inside = [_seconds(inner, ranges) for region in op.regions for inner in region.blocks]
        total += _ACCESS if op.name in _ACCESSES else _OPERATION
        total += _ELEMENT * elements
        match op.name:
            case "scf.for":
                iterations = ranges.iterations(op)
                total += sum(inside) * (iterations if iterations < 1 << 40 else _UNKNOWN_ITERATIONS)
            case "scf.while":
                total += sum(inside) * _UNKNOWN_ITERATIONS
            case "tt.reduce" | "tt.scan":
                total += sum(inside) * max(1, elements.bit_length())
            case _:
                total += max(inside, default=0.0)
    return total


__all__ = ["interpretation_seconds"]
