"""Defines `Node`: a node with the values of its inputs, as handlers see it.

A node knows which of its attributes, inputs and outputs a handler has looked at. What a handler leaves unread is refused, so
that none can forget an attribute that changes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Ordered
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, int64, string
from ...promotion.errors import UnsupportedError, UserError
from ..checks import ShapeError
from ..dims.dim import Dim, Extent
from ..functions.building import apply
from ..functions.host.data_sized import size_of
from ..functions.shaping import rebind
from ..graph import Graph
from ..ops.shape import normalize_axis
from ..region import Region, is_compiled_region
from ..symbol import Symbol
from ..types import Shape, shape_text
from .limits import OnnxLimits
from .messages import SizeNeededError
from .model import Body, NodeDef
from .sizes.origins import size_needed, value_needed
from .values import COMPOSITE, Growing, IsZero, Known, Optional, Ratio, Sizes, Tabulated, Value

Result: TypeAlias = "Value | tuple[Value | None, ...]"
Handler: TypeAlias = "Callable[[Node], Result]"
Inside: TypeAlias = "Callable[[Region], AbstractContextManager[dict[int, tuple[Known, Symbol]]]]"


class Run(Protocol):
    """Imports a subgraph with values for its inputs, and returns those of its outputs."""

    def __call__(self, body: Body, inputs: Ordered[Value | None], iteration: int | Symbol | None = None) -> list[Value]:
        """Run it. iteration: its number from 0, if the node is a loop."""


_MAX_READ = 64 << 20
"""Most bytes of a constant that handlers look at: what is broadcast takes no memory before somebody does."""
_MAX_MADE = 1 << 24
"""Most elements of constants that handlers make of attributes and sizes."""
_MAX_COUNTS = 16
"""Most sizes of one tensor that data decides."""
_REQUIRED = object()


class LeftToDefinition(Exception):
    """A handler leaves a node to the function that defines its operator."""


class Node:
    """A node while it is imported.

    Attributes:
        definition: the node of the checked model.
        version: the version of its domain since which the operator means what it means here.
        graph: the graph that its symbols belong to: the imported one, or one for constants alone.
        run: imports a subgraph.
        inside: a context in which subgraphs are imported into a region.
        symbols: of constants that were made before, by their identity.
        checks_positions: whether positions that are out of range have to end a run.
        path: where it stands in the model: the position of each node around it, and which of its subgraphs.
        iterations: the numbers of the iterations of all loops around it.
        too_large: bodies of loops that cannot be unrolled, by their identity: loops around them are imported in several ways.
    """

    def __init__(
        self,
        definition: NodeDef,
        version: int,
        values: Ordered[Value | None],
        attributes: dict[str, Any],
        defaults: dict[str, Any],
        graph: Graph,
        symbols: dict[int, tuple[Known, Symbol]],
        run: Run,
        limits: OnnxLimits,
        inside: Inside,
    ) -> None:
        self.definition, self.version, self.graph, self.run, self.limits = definition, version, graph, run, limits
        self.inside, self.symbols = inside, symbols
        self.checks_positions = False
        self.producer = ""
        self.path: tuple[int | str, ...] = ()
        self.iterations: tuple[int | Symbol, ...] = ()
        self.too_large: dict[int, Body] = {}
        self._values, self._attributes, self._defaults = values, attributes, defaults
        self._read_attributes: set[str] = set()
        self._read_inputs: set[int] = set()

    def within(self, region: Region, symbols: dict[int, tuple[Known, Symbol]]) -> Node:
        """Return the node while a subgraph is imported into a region: what it makes stands there."""
        inner = copy(self)
        inner.graph, inner.symbols = region, symbols
        return inner

    # -- inputs --------------------------------------------------------------------------------------------------------

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.definition.op

    def __len__(self) -> int:
        """Return the number of inputs, with those left out in between."""
        return len(self._values)

    def has(self, position: int) -> bool:
        """Return whether an input is given."""
        return position < len(self._values) and self._values[position] is not None

    def value(self, position: int) -> Value:
        """Return an input, which must be given, as whatever it is."""
        self._read_inputs.add(position)
        if not self.has(position):
            raise UserError(f"input {position} is missing; fix: export the model again")
        return cast("Value", self._values[position])

    def __getitem__(self, position: int) -> Symbol:
        """Return an input as a symbol."""
        return self.symbol_of(self.value(position), f"input {position}")

    def get(self, position: int) -> Symbol | None:
        """Return an input as a symbol, or None if it is left out."""
        return self[position] if self.has(position) else None

    def all(self) -> list[Symbol]:
        """Return all inputs as symbols."""
        return [self[position] for position in range(len(self))]

    def symbol_of(self, value: Value, what: str = "a value") -> Symbol:
        """Return a tensor as a symbol of the graph. Raises `UserError` for sequences and absent values."""
        return as_symbol(self.graph, value, self.symbols, what)

    def dtype(self, position: int) -> DType:
        """Return the dtype of an input."""
        return self._tensor(position).dtype

    def shape(self, position: int) -> Shape:
        """Return the shape of an input."""
        return self._tensor(position).shape

    def _tensor(self, position: int) -> Known | Sizes | Symbol:
        value = self.value(position)
        if isinstance(value, COMPOSITE):
            raise UserError(f"input {position} is a {type(value).__name__.lower()}, not a tensor; fix: export the model again")
        return value

    def static_shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of an input, all of whose sizes must be known."""
        return self.static_sizes(self.shape(position), f"input {position}")

    def static_sizes(self, extents: Ordered[Extent], what: str) -> tuple[int, ...]:
        """Return sizes that must be numbers. Raises `SizeNeededError`, which names those that are not."""
        if not all(isinstance(extent, int) for extent in extents):
            raise self.size_needed(extents, f"{what} has shape {shape_text(tuple(extents))}")
        return cast("tuple[int, ...]", tuple(extents))

    def agreeing(self, x: Symbol, sizes: Ordered[Extent | None], what: str) -> Symbol:
        """Return a tensor with these sizes, None for any: where its own are not known to be equal, the launch checks that.

        Raises `UserError` where they never are.
        """
        fits = len(x.shape) == len(sizes)
        decide = self.graph.shape_checks.decide
        fits &= all(want is None or decide(own, want) is not False for own, want in zip(x.shape, sizes, strict=False))
        expected = ", ".join("any" if want is None else str(want) for want in sizes)
        self.require(fits, f"{what} has shape {shape_text(x.shape)}; ({expected}) is expected")
        return rebind(x, sizes)  # type: ignore[arg-type]

    def size_needed(self, extents: Iterable[object], problem: str) -> SizeNeededError:
        """Return the error for sizes that must be numbers: it names those of the inputs that they are made of."""
        return size_needed(self.graph, list(extents), problem)

    def known(self, position: int, what: str) -> Array:
        """Return an input that must be a constant. Raises `ValueNeededError` or `SizeNeededError`, which name the fix."""
        value = self.value(position)
        if isinstance(value, Known):
            if value.array.nbytes > _MAX_READ:
                self.unsupported(f"{what} has {value.array.size} elements", "make it smaller")
            return value.array
        if isinstance(value, Sizes):
            items = [_size(item) for item in value.items.reshape(-1).tolist()]
            raise self.size_needed(items, f"{what} depends on the sizes {', '.join(map(str, items))}")
        raise self.needed(value, what)

    def needed(self, value: Value, what: str) -> UnsupportedError:
        """Return the error for a value that is not known while importing: it names the inputs or sizes that decide it."""
        if isinstance(value, Sizes):
            return self.size_needed([_size(item) for item in value.items.reshape(-1).tolist()], f"{what} depends on sizes")
        return value_needed(value if isinstance(value, Symbol) else None, what)

    def sizes(self, position: int, what: str) -> tuple[Extent, ...]:
        """Return the elements of an input that holds sizes, axes or counts."""
        value = self.value(position)
        if isinstance(value, Sizes) and value.dtype.is_integer:
            return tuple(value.items.reshape(-1).tolist())
        return self.ints(position, what)

    def counts(self, position: int, what: str) -> tuple[Extent, ...]:
        """Return the elements of an input that holds sizes; those that data decides are known when a run has come as far.

        Raises `ValueNeededError` where inputs decide them, for which a model is specialised, and in loops and branches.
        """
        value = self.value(position)
        if not isinstance(value, Symbol) or is_compiled_region(self.graph) or not value.dtype.is_integer:
            return self.sizes(position, what)
        error = self.needed(value, what)
        specialises = getattr(error, "inputs", ()) or getattr(error, "sizes", ())
        if specialises or len(value.shape) > 1 or not isinstance(value.size, int) or value.size > _MAX_COUNTS:
            raise error
        elements = value.reshape((value.size,)).cast(int64)
        return tuple([size_of(elements[number]) for number in range(value.size)])

    def count(self, position: int, what: str) -> Extent:
        """Return an input that is one count, which a run may read from an input of the model: it is one size for all nodes.

        Raises `ValueNeededError` in loops and branches where it is not known.
        """
        value = self.value(position)
        if not isinstance(value, Symbol) or is_compiled_region(self.graph) or not value.dtype.is_integer or value.size != 1:
            found = self.sizes(position, what)
            self.require(len(found) == 1, f"{what}: {len(found)} numbers; one is expected")
            return found[0]
        for symbol in self.graph.symbols:
            if symbol.op.name == "empty_rows" and _behind_views(symbol.inputs[0]) is value:
                return symbol.attrs["extents"][0]
        return size_of(value.reshape(()).cast(int64))

    def ints(self, position: int, what: str) -> tuple[int, ...]:
        """Return the elements of an input that must be integers known now."""
        array = self.known(position, what)
        whole = array.dtype.kind in "iub" or (
            array.dtype.kind == "f" and bool((np.isfinite(array) & (array == np.rint(array))).all())
        )
        self.require(whole, f"{what}: {array.dtype} numbers; integers are expected")
        return tuple([int(number) for number in array.reshape(-1).tolist()])

    def integer(self, position: int, what: str) -> int:
        """Return an input that must be one integer known now."""
        found = self.ints(position, what)
        self.require(len(found) == 1, f"{what}: {len(found)} numbers; one is expected")
        return found[0]

    def number(self, position: int, what: str) -> float:
        """Return an input that must be one number known now."""
        array = self.known(position, what)
        self.require(array.size == 1, f"{what}: {array.size} numbers; one is expected")
        return float(array.reshape(-1)[0])

    # -- attributes and outputs ----------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return an attribute: of the node, else the operator's default, else `default`."""
        self._read_attributes.add(name)
        if name in self._attributes:
            return self._attributes[name]
        if name in self._defaults:
            return self._defaults[name]
        if default is _REQUIRED:
            raise UserError(f"attribute {name!r} is missing; fix: export the model again")
        return default

    def ignore(self, *names: str) -> None:
        """State that these attributes have no bearing on the result."""
        self._read_attributes.update(names)

    def wants(self, position: int) -> bool:
        """Return whether anybody may read an output."""
        return position < len(self.definition.outputs) and bool(self.definition.outputs[position])

    def unread(self) -> str:
        """Return what the handler has not looked at, for a message; "" if it has looked at everything."""
        attributes = [f"attribute {name!r}" for name in sorted(set(self._attributes) - self._read_attributes)]
        inputs = [
            f"input {position}" for position in range(len(self)) if self.has(position) and position not in self._read_inputs
        ]
        return ", ".join([*attributes, *inputs])

    # -- for handlers --------------------------------------------------------------------------------------------------

    def axis(self, number: int, rank: int, what: str = "axis") -> int:
        """Return an axis, counted from the end if negative, as a position."""
        try:
            return normalize_axis(number, rank)
        except ShapeError as error:
            raise UserError(f"{what}: {error.problem}; fix: an axis from {-rank} to {rank - 1}") from None

    def axes(self, numbers: Ordered[int], rank: int) -> tuple[int, ...]:
        """Return axes as positions in the given order, each at most once."""
        found = tuple([self.axis(number, rank) for number in numbers])
        self.require(len(set(found)) == len(found), f"axes {list(numbers)} name one twice", "distinct axes")
        return found

    def constant(self, value: object, dtype: DType) -> Symbol:
        """Return a constant from numbers."""
        return self.graph.constant(np.asarray(value).astype(dtype.numpy), dtype)

    def require(self, holds: bool, problem: str, fix: str = "export the model again") -> None:
        """Raise `UserError` unless a condition of the operator holds."""
        if not holds:
            raise UserError(f"{problem}; fix: {fix}")

    def require_few(self, count: float, what: str) -> None:
        """Raise `UserError` for more elements than a handler makes constants of."""
        self.require(
            count <= _MAX_MADE, f"{what}: {count} elements, of which {_MAX_MADE} at most become constants", "a smaller size"
        )

    def unsupported(self, problem: str, fix: str) -> None:
        """Raise `UnsupportedError`."""
        raise UnsupportedError(f"{problem}, which is not supported; fix: {fix}")

    __iter__ = None  # the inputs are `all()`


def _behind_views(symbol: Symbol) -> Symbol:
    """Return the number that a scalar is made of without computing."""
    while symbol.op.name in ("reshape", "cast"):
        (symbol,) = symbol.inputs
    return symbol


def as_symbol(graph: Graph, value: Value, symbols: dict[int, tuple[Known, Symbol]], what: str) -> Symbol:
    """Return a tensor as a symbol of a graph; `symbols` holds those of constants that were made before."""
    if isinstance(value, Symbol):
        return value
    if isinstance(value, Known):
        known = symbols.get(id(value))
        if known is None:
            is_code = value.made is not None and not isinstance(graph, Region)
            symbol = value.made(graph, symbols) if is_code and value.made is not None else _constant(graph, value)
            known = symbols[id(value)] = (value, symbol)
        return known[1]
    if isinstance(value, Sizes):
        return _computed(graph, value)
    kind = "an absent optional" if isinstance(value, Optional) and value.value is None else f"a {type(value).__name__.lower()}"
    if isinstance(value, Growing):
        kind = "the state of a loop that grows from one iteration to the next"
    raise UserError(f"{what} is {kind}, not a tensor; fix: export the model again")


def _constant(graph: Graph, value: Known) -> Symbol:
    array = value.array
    if value.dtype is string:
        return graph.constant(array if array.size else np.zeros(array.shape, "U1"))
    if array.size > 1 and not any(array.strides):
        scalar = graph.constant(np.array(array[(0,) * array.ndim], array.dtype), value.dtype)
        return apply("broadcast_to", scalar, shape=tuple(array.shape))
    if value.name and value.name.isprintable() and value.name not in graph.weights:
        return graph.weight(value.name, array)
    return graph.constant(array)


def _size(item: object) -> object:
    return item.dividend if isinstance(item, Ratio) else item.size if isinstance(item, (IsZero, Tabulated)) else item


def _number(graph: Graph, item: object, dtype: DType) -> Symbol:
    """Return a size, or what is computed from one, as a scalar of a run."""
    if isinstance(item, Tabulated):
        operands = [_number(graph, each, item.dtype) for each in item.operands]
        return operands[0].cast(item.dtype) if item.op == "cast" else apply(item.op, *operands)
    if isinstance(item, IsZero):
        return apply("equal", graph.dim_value(item.size), 0)
    if isinstance(item, Ratio):
        whole = _number(graph, item.dividend, dtype)
        return whole if item.divisor == 1 else apply("div", whole, float(item.divisor))
    number = graph.dim_value(item) if isinstance(item, Dim) else graph.constant(np.array(item, np.int64))
    return number if dtype is int64 else number.cast(dtype)


def _computed(graph: Graph, sizes: Sizes) -> Symbol:
    parts = [_number(graph, item, sizes.dtype) for item in sizes.items.reshape(-1).tolist()]
    if not sizes.items.ndim:
        return parts[0]
    wide = [apply("reshape", part, shape=(1,)) for part in parts]
    vector = apply("concat", *wide, axis=0) if len(wide) > 1 else wide[0]
    return vector if sizes.items.ndim == 1 else apply("reshape", vector, shape=tuple(sizes.items.shape))
