"""Evaluates loops and branches: the obvious loops in Python, iteration after iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UnsupportedError, UserError
from ..dims.dim import Dim, evaluate_dim
from ..ops.control import result_types
from ..region import Region
from ..symbol import Symbol

Run = Callable[[Region, Sequence[Array], Mapping[str, int]], Sequence[Array]]
"""Computes the outputs of a region from its inputs, given the sizes that the graph around it knows."""


def run_control(
    symbol: Symbol, operands: Sequence[Array], dims: Mapping[str, int], run: Run
) -> tuple[Array, tuple[Array, ...]]:
    """Return the value of a loop or branch, and what it returns."""
    return _branch(symbol, operands, dims, run) if symbol.op.name == "branch" else _loop(symbol, operands, dims, run)


def _branch(symbol: Symbol, operands: Sequence[Array], dims: Mapping[str, int], run: Run) -> tuple[Array, tuple[Array, ...]]:
    number = 0 if operands[0] else 1
    first, count = 1 + sum(symbol.attrs["captured"][:number]), symbol.attrs["captured"][number]
    return np.array(number, np.int64), tuple(run(symbol.attrs["regions"][number], operands[first : first + count], dims))


def _loop(symbol: Symbol, operands: Sequence[Array], dims: Mapping[str, int], run: Run) -> tuple[Array, tuple[Array, ...]]:
    attrs = symbol.attrs
    regions, carried, scanned, counts = attrs["regions"], attrs["carried"], attrs["sequences"], attrs["captured"]
    at = int(attrs["limited"])
    state = list(operands[at : at + carried])
    sequences = operands[at + carried : at + carried + scanned]
    rest = operands[at + carried + scanned :]
    captured, asked = rest[: counts[0]], rest[counts[0] :]
    length = evaluate_dim(attrs["length"], dims)
    limits = [] if attrs["length"] == -1 else [length]
    if attrs["limited"]:
        limits.append(int(operands[0]))
    stacked = [
        np.zeros(tuple([evaluate_dim(extent, dims) for extent in shape]), dtype.numpy)
        for dtype, shape in result_types(symbol)[carried:]
    ]
    count = 0
    while not limits or count < min(limits):
        index = np.array(count, np.int64)
        if len(regions) == 2 and not run(regions[1], [index, *state, *asked], dims)[0]:
            break
        at = length - 1 - count if attrs["reverse"] else count
        results = run(regions[0], [index, *state, *[sequence[at] for sequence in sequences], *captured], dims)
        state = list(results[:carried])
        for whole, row in zip(stacked, results[carried:], strict=True):
            whole[at] = row
        count += 1
    if stacked and count < length:
        raise UnsupportedError(
            f"loop: it ended after {count} of {length} iterations, and returns a value of each (from {symbol.location})"
        )
    return np.array(count, np.int64), (*state, *stacked)


def run_on_host(
    symbol: Symbol, operands: Sequence[Array], dims: Mapping[str, int], run: Run
) -> tuple[Array, tuple[Array, ...]]:
    """Return the value of a loop or branch of the host, and what it returns. run: the evaluator, or a compiled model.

    Raises `UserError` where rows that a loop stacks differ in shape.
    """
    if symbol.op.name == "host_branch":
        return _branch(symbol, operands, dims, run)
    attrs, limited = symbol.attrs, int(symbol.attrs["limited"])
    (body,), carried = attrs["regions"], attrs["carried"]
    state, captured = list(operands[limited : limited + carried]), operands[limited + carried :]
    rows: list[list[Array]] = [[] for _ in body.outputs[carried:]]
    count, most = 0, int(operands[0]) if limited else -1
    while bool(state[0]) and (count < most or not limited):
        results = run(body, [np.array(count, np.int64), *state, *captured], dims)
        state = list(results[:carried])
        for position, (made, row) in enumerate(zip(rows, results[carried:], strict=True)):
            if made and made[0].shape != row.shape:
                raise UserError(
                    f"loop: output {position} of iteration {count} has shape {row.shape}, and {made[0].shape} in the first "
                    f"one, so they cannot be stacked (from {symbol.location}); fix: rows of one shape in all iterations"
                )
            made.append(row)
        count += 1
    stacked = [
        np.stack(made) if made else np.zeros((0, *_sizes(output, dims)), output.dtype.numpy)
        for made, output in zip(rows, body.outputs[carried:], strict=True)
    ]
    return np.array(count, np.int64), (*state, *stacked)


def _sizes(output: Symbol, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of a row that no iteration made: 0 where only iterations would have told a size."""
    found = []
    for extent in output.shape:
        if isinstance(extent, Dim):
            known = extent.symbols() <= dims.keys() - output.graph.own_dims
            found.append(extent.evaluate(dims) if known else 0)
        else:
            found.append(extent)
    return tuple(found)
