"""Limits what a graph from an untrusted text may ask for, and finds out whether what a run of the evaluator needs is there.

A few characters of text can ask for 2^64 elements. What is known when the graph is read is refused then; what
depends on symbolic sizes becomes runtime checks of the graph, which are made before a run allocates anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..checks import MAX_SIZE, Check
from ..data_sizes import mentioned
from ..dims.dim import Dim, Extent, at_most, evaluate_dim, minimum, total
from ..dims.long import excess
from ..ops.control import regions_of
from ..protocols import SymbolLike

_COMPOSITE = 8
_FEW = 1 << 28
"""Bytes that the evaluator does not ask for before: they are there, or the run itself says so soon."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that one run of a graph may need.

    Attributes:
        bytes: of all results together, as if none were dropped or fused.
        work: scalar operations: an element of a result counts one, a product of matrices two per
            multiplication, a composite such as softmax eight per element.
        open_loops: whether there may be loops that only values end. Their work counts as that of one iteration, so nothing
            bounds a run but an interrupt (Ctrl-C), and they are refused unless you ask for them.
    """

    bytes: int = 1 << 36
    work: int = 1 << 48
    open_loops: bool = False

    def __post_init__(self) -> None:
        if type(self.open_loops) is not bool:
            raise UserError(f"Budget: open_loops is {self.open_loops!r}; expected True or False; fix: Budget(open_loops=True)")
        for field in fields(self):
            if field.name == "open_loops":
                continue
            value = getattr(self, field.name)
            if type(value) is not int or not 0 < value < MAX_SIZE:
                raise UserError(
                    f"Budget: {field.name} is {value!r}; expected an int from 1 to 2**62 - 1; fix: Budget({field.name}=2**40)"
                )

    def checks(self, symbols: Iterable[SymbolLike]) -> tuple[Check, ...]:
        """Return the checks of a launch that keep these symbols, which the outputs need, within the budget.

        Raises `UserError` where they never are.
        """
        computed = [symbol for symbol in symbols if symbol.op.kind != "source"]
        nbytes = total([_bytes(symbol) for symbol in computed])
        work = total([_work(symbol, self.open_loops) for symbol in computed])
        found: list[Check] = []
        for name, unit, needed in (("bytes", "bytes", nbytes), ("work", "operations", work)):
            limit = int(getattr(self, name))
            fix = f"fix: budget=joinery.Budget({name}=…), if you trust it with more"
            if isinstance(needed, int) and needed > limit:
                raise UserError(f"a run needs {needed} {unit}, the budget of graphs from text is {limit}; {fix}")
            if not at_most(needed, limit):
                message = f"a run needs more {unit} than the budget of graphs from text, which is {limit}; {fix}"
                found.append(Check(excess(needed, limit), 0, message))
        return tuple(found)


def _inside(symbol: SymbolLike) -> Iterator[SymbolLike]:
    """Yield what the regions of a loop or branch compute in one iteration."""
    for region in regions_of(symbol):
        yield from [inner for inner in region.symbols if inner.op.kind != "source"]


def _bytes(symbol: SymbolLike) -> Extent:
    return total([symbol.nbytes, *[_once(_bytes(inner), inner) for inner in _inside(symbol)]])


def _once(amount: Extent, symbol: SymbolLike) -> Extent:
    """Return what a symbol of a region needs: with 1 for sizes of the region's own, which no launch knows."""
    own = symbol.graph.own_dims
    if not isinstance(amount, Dim) or not own:
        return amount
    return amount.substitute({name: 1 for name in amount.symbols() & own})


def _work(symbol: SymbolLike, open_loops: bool) -> Extent:
    match symbol.op.kind:
        case "control" | "host" if regions_of(symbol):
            work = total([symbol.size, *[_once(_work(inner, open_loops), inner) for inner in _inside(symbol)]])
            length = symbol.attrs.get("length", -1 if symbol.op.name == "host_loop" else 1)
            if isinstance(length, int) and length < 0:
                if open_loops:
                    return work
                grows = ", and how large its values are" if symbol.op.kind == "host" else ""
                raise UserError(
                    f"values decide how often a loop runs{grows}, which no budget limits\n  {symbol.describe()}\n"
                    "  fix: budget=joinery.Budget(open_loops=True), or --open-loops, if you trust it to end"
                )
            return work * length
        case "view":
            return 0
        case "contract":
            return symbol.size * symbol.inputs[0].shape[-1] * 2
        case "reduce":
            return symbol.inputs[0].size
        case "host" if symbol.op.name == "tf_idf":
            options = json.loads(symbol.attrs["options"])
            lengths = sum({len(term) for term in options["pool"]})
            return symbol.inputs[0].size * minimum(options["skips"] + 1, symbol.inputs[0].shape[-1]) * lengths + symbol.size
        case "composite":
            return symbol.inputs[0].size * _COMPOSITE
    return symbol.size


def require_addressable(symbol: SymbolLike) -> None:
    """Raise `UserError` when the bytes of a tensor of known size do not fit 64 bits, or nothing could say what a run needs.

    There is no array, either, of no elements whose other sizes are too large.
    """
    if symbol.op.kind in ("contract", "control", "host"):
        _work(symbol, True)
    sides = math.prod([size for size in symbol.shape if isinstance(size, int) and size])
    if isinstance(symbol.size, int) and sides * symbol.dtype.itemsize >= MAX_SIZE:
        has = f"{symbol.size} elements" if symbol.size else f"no elements, and other sizes of {sides}"
        raise UserError(
            f"{symbol.op.name}: the result has {has}, more than 64 bits address\n  {symbol.describe()}\n"
            f"  expected: fewer than 2**62 bytes\n  fix: choose smaller sizes"
        )


def require_memory(symbols: Sequence[SymbolLike], outputs: Sequence[SymbolLike], dims: Mapping[str, int]) -> None:
    """Raise `UserError` for results that 64 bits do not address, and `MemoryError` for more memory at once than there is, as
    compiled models do, which allocate all of theirs before they run.

    Results whose sizes a run decides later, and those of regions, are not counted; views need none.
    """
    last = {operand.id: position for position, symbol in enumerate(symbols) for operand in symbol.inputs}
    kept = {symbol.id for symbol in outputs}
    ends: dict[int, int] = {}
    now = most = 0
    for position, symbol in enumerate(symbols):
        needed = _nbytes(symbol, dims)
        if symbol.op.kind not in ("view", "source"):
            now += needed
            most = max(most, now)
            if symbol.id not in kept and symbol.id in last:
                ends[last[symbol.id]] = ends.get(last[symbol.id], 0) + needed
        now -= ends.pop(position, 0)
    most = max(most, now + sum(_nbytes(symbol, dims) for symbol in outputs))  # these are copied
    if most > _FEW:
        try:
            np.empty(most, np.uint8)
        except (MemoryError, ValueError):
            raise MemoryError(f"no memory for {most / 2**20:.4g} MiB, which evaluating the graph needs at once") from None


def _nbytes(symbol: SymbolLike, dims: Mapping[str, int]) -> int:
    if not mentioned(symbol.shape) <= dims.keys():
        return 0
    shape = tuple([evaluate_dim(extent, dims) for extent in symbol.shape])
    require_addressed(symbol, shape)
    return max(math.prod(shape), 0) * symbol.dtype.numpy.itemsize


def require_addressed(symbol: SymbolLike, shape: tuple[int, ...], attribute: int = 0) -> None:
    """Raise `UserError` unless 64 bits address a result of a shape, and hold a size among the attributes.

    Axes of size 0 count as 1: NumPy has no array of 0 elements whose other sizes are too large.
    """
    if max(math.prod([abs(size) or 1 for size in shape]) * symbol.dtype.itemsize, attribute) >= MAX_SIZE:
        raise UserError(
            f"evaluate: a size of {symbol.op.name}, which gives {shape}, is more than 64 bits address "
            f"(from {symbol.location}); fix: pass smaller arrays"
        )
