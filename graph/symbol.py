"""Defines `Symbol`: one value of a graph. Immutable; its operators are generated from the op table."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from ..promotion.dtype import DType
from ..promotion.errors import UserError
from .construction import primitives
from .construction.methods import Methods
from .construction.recording import OWNERS, recorded
from .dims.dim import Extent, product
from .errors import mistake
from .indexing import index
from .location import Location
from .ops.attributes import Attributes
from .ops.opdef import OpDef
from .ops.table import OPS
from .promote import explain as why
from .protocols import TensorLike, WrittenOperand
from .types import DTypeLike, Shape, ShapeLike, TensorType, shape_text

if TYPE_CHECKING:
    from .graph import Graph


class Symbol(Methods):
    """A tensor that the graph will compute. Made by graphs, operators and functions, never directly.

    Attributes:
        graph: the graph it belongs to.
        id: position in `graph.symbols`; operands have smaller ids.
        op: its row of the op table.
        inputs: its operands, after implicit casts.
        attrs: read-only attributes of the op.
        dtype, shape: of the value. A size is an int, or a `Dim` when it is known only at launch.
        location: file, line and function of the user's code that made it.
        name: of inputs and weights, else None.

    Symbols compare elementwise (`x == y` is a Symbol) and hash by identity.
    """

    __slots__ = ("_operands", "attrs", "dtype", "graph", "id", "inputs", "location", "name", "op", "shape")

    graph: Graph
    id: int
    op: OpDef
    inputs: tuple[Symbol, ...]
    attrs: Attributes
    dtype: DType
    shape: Shape
    location: Location
    name: str | None
    _operands: tuple[WrittenOperand, ...] | None
    """The operands as the user wrote them, where they differ from `inputs`: literals, and symbols before implicit casts."""


    def __init__(self, *_: object) -> None:
        raise UserError(
            "Symbols are made by graphs; fix: use the inputs of joinery.Graph(name, inputs=[joinery.TensorType(…)])"
        )

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"Symbol is immutable: cannot set {attribute!r}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"Symbol is immutable: cannot delete {attribute!r}")

    __hash__ = object.__hash__

    def __copy__(self) -> Symbol:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Symbol:
        return self

    def __reduce__(self) -> NoReturn:
        raise UserError(
            "a Symbol cannot be pickled; fix: keep the whole graph as text with joinery.to_text; to other processes send "
            "joinery.distributed.reference of the compiled model"
        )

    def alias(self) -> Symbol:
        """Return another object for the same symbol of the graph."""
        same = object.__new__(Symbol)
        for name in Symbol.__slots__:
            object.__setattr__(same, name, getattr(self, name))
        return same

    # -- description ---------------------------------------------------------------------------------------------------

    @property
    def weak(self) -> DType | None:
        """The weak element the value stands for in promotions (rule set "jax"), else None: then its dtype counts."""
        return self.graph._weak.get(self.id)

    @property
    def type(self) -> TensorType:
        """The dtype, shape and name."""
        return TensorType(self.dtype, self.shape, self.name)

    @property
    def _written(self) -> tuple[WrittenOperand, ...]:
        """The operands as the user wrote them: literals, and symbols before implicit casts."""
        return self._operands or self.inputs

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Extent:
        """Number of elements."""
        return product(self.shape)

    @property
    def nbytes(self) -> Extent:
        """Size in memory, in bytes."""
        return self.size * self.dtype.itemsize

    def describe(self) -> str:
        """Describe the symbol in one line: what it is, dtype, shape, and the user's line."""
        what = f"{self.op.name} {self.name!r}" if self.name else f"%{self.id} {self.op.name}"
        return f"{what}, {self.dtype} {shape_text(self.shape)}, from {self.location}"

    def why(self) -> str:
        """Explain this symbol's dtype: its operands, each one's path through the lattice, the user's line."""
        return why.explain(self)

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<%{self.id} {self.op.name}{name}: {self.dtype} {shape_text(self.shape)}>"

    # -- methods -------------------------------------------------------------------------------------------------------

    @recorded
    def cast(self, dtype: DTypeLike, rounding: str = "nearest", saturate: bool = True) -> Symbol:
        """Convert the value to `dtype` (see the op `cast`)."""
        return primitives.cast(self, dtype, rounding, saturate)

    @recorded
    def bitcast(self, dtype: DTypeLike) -> Symbol:
        """Reinterpret the bits as another dtype of the same width."""
        return primitives.bitcast(self, dtype)

    @recorded
    def reshape(self, *shape: Any) -> Symbol:
        """Return the same elements in row-major order under another shape; one size may be -1."""
        one = len(shape) == 1 and isinstance(shape[0], (tuple, list))
        return primitives.reshape(self, shape[0] if one else shape)

    @recorded
    def permute(self, *axes: Any) -> Symbol:
        """Reorder axes: axis i of the result is axis axes[i] of this symbol."""
        one = len(axes) == 1 and isinstance(axes[0], (tuple, list))
        return primitives.permute(self, axes[0] if one else axes)

    @recorded
    def transpose(self, axis_1: int = -1, axis_2: int = -2, *more: int) -> Symbol:
        """Swap two axes, by default the last two. For all axes at once: `permute`."""
        if more or isinstance(axis_1, (tuple, list)):
            axes = axis_1 if isinstance(axis_1, (tuple, list)) else (axis_1, axis_2, *more)
            raise mistake(
                "transpose", f"{len(axes)} axes", (self,), "two axes to swap", f"x.permute({tuple(axes)}) reorders all"
            )
        return primitives.transpose(self, axis_1, axis_2)

    @recorded
    def broadcast_to(self, shape: ShapeLike) -> Symbol:
        """Repeat the value along new leading axes and axes of size 1."""
        return primitives.broadcast_to(self, shape)

    @property
    @recorded
    def T(self) -> Symbol:
        """The value with all axes reversed."""
        return primitives.permute(self, tuple(range(len(self.shape)))[::-1])

    @recorded
    def __getitem__(self, key: object) -> Symbol:
        """Index as NumPy does, by ints, slices, None, Ellipsis and dims, and by arrays, lists and symbols of integers.

        Positions that are symbols are clamped to the axis, as by `joinery.gather`; arrays must be in range. Masks are arrays:
        how many elements a symbol selects is not known while the graph is built.
        """
        return index(self, key)

    @recorded
    def __matmul__(self, other: TensorLike) -> Symbol:
        return primitives.matmul(self.graph, self, other)

    @recorded
    def __rmatmul__(self, other: TensorLike) -> Symbol:
        return primitives.matmul(self.graph, other, self)

    # -- what a symbol is not ------------------------------------------------------------------------------------------

    def _no_value(self, wanted: str, fix: str) -> NoReturn:
        raise UserError(
            f"{wanted} of a Symbol is not known while the graph is built\n  {self.describe()}\n  fix: {fix}"
        )

    def __bool__(self) -> NoReturn:
        self._no_value(
            "the truth value", "select with joinery.where(condition, x, y); compare symbols with `is`"
        )

    def __iter__(self) -> NoReturn:
        self._no_value("the sequence of elements", "index it (x[0], x[1], …) or use joinery.split")

    def __contains__(self, value: object) -> NoReturn:
        self._no_value("membership", "joinery.any(joinery.equal(x, value))")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar Symbol has no length")
        if not isinstance(self.shape[0], int):
            self._no_value("the length", "use x.shape[0], which is a Dim")
        return self.shape[0]

    def __float__(self) -> NoReturn:
        self._no_value(
            "the number", "x.cast(dtype) converts inside the graph; compile and call the graph for values"
        )

    __int__ = __complex__ = __float__

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._no_value("the array", "use joinery functions on symbols instead of NumPy ones")

    if TYPE_CHECKING:

        def __add__(self, other: TensorLike) -> Symbol: ...
        def __radd__(self, other: TensorLike) -> Symbol: ...
        def __sub__(self, other: TensorLike) -> Symbol: ...
        def __rsub__(self, other: TensorLike) -> Symbol: ...
        def __mul__(self, other: TensorLike) -> Symbol: ...
        def __rmul__(self, other: TensorLike) -> Symbol: ...
        def __truediv__(self, other: TensorLike) -> Symbol: ...
        def __rtruediv__(self, other: TensorLike) -> Symbol: ...
        def __floordiv__(self, other: TensorLike) -> Symbol: ...
        def __rfloordiv__(self, other: TensorLike) -> Symbol: ...
        def __mod__(self, other: TensorLike) -> Symbol: ...
        def __rmod__(self, other: TensorLike) -> Symbol: ...
        def __pow__(self, other: TensorLike) -> Symbol: ...
        def __rpow__(self, other: TensorLike) -> Symbol: ...
        def __and__(self, other: TensorLike) -> Symbol: ...
        def __rand__(self, other: TensorLike) -> Symbol: ...
        def __or__(self, other: TensorLike) -> Symbol: ...
        def __ror__(self, other: TensorLike) -> Symbol: ...
        def __xor__(self, other: TensorLike) -> Symbol: ...
        def __rxor__(self, other: TensorLike) -> Symbol: ...
        def __lshift__(self, other: TensorLike) -> Symbol: ...
        def __rlshift__(self, other: TensorLike) -> Symbol: ...
        def __rshift__(self, other: TensorLike) -> Symbol: ...
        def __rrshift__(self, other: TensorLike) -> Symbol: ...
        def __eq__(self, other: TensorLike) -> Symbol: ...  # type: ignore[override]
        def __ne__(self, other: TensorLike) -> Symbol: ...  # type: ignore[override]
        def __lt__(self, other: TensorLike) -> Symbol: ...
        def __le__(self, other: TensorLike) -> Symbol: ...
        def __gt__(self, other: TensorLike) -> Symbol: ...
        def __ge__(self, other: TensorLike) -> Symbol: ...
        def __neg__(self) -> Symbol: ...
        def __abs__(self) -> Symbol: ...
        def __invert__(self) -> Symbol: ...


_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def _install_operators() -> None:
    """Make an operator of every row with a `dunder`, except matmul: it is written out to reshape vectors."""
    for row in OPS.values():
        if not row.dunder or row.kind != "map":
            continue
        if row.arity == 1:
            _install(row.dunder, _unary(row))
            continue
        forward, reflected = _binary(row)
        _install(row.dunder, forward)
        if row.dunder not in _COMPARISONS:
            _install(f"r{row.dunder}", reflected)


def _install(name: str, method: Callable[..., Symbol]) -> None:
    method.__name__ = f"__{name}__"
    method.__qualname__ = f"Symbol.__{name}__"
    setattr(Symbol, method.__name__, recorded(method))


def _unary(row: OpDef) -> Callable[[Symbol], Symbol]:
    def method(self: Symbol) -> Symbol:
        return self.graph.apply(row, (self,))

    method.__doc__ = row.doc
    return method


def _binary(row: OpDef) -> tuple[Callable[[Symbol, TensorLike], Symbol], Callable[[Symbol, TensorLike], Symbol]]:
    truncating = {"floor_div": OPS["trunc_div"], "mod": OPS["rem"]}.get(row.name)
    compares = row.name in ("equal", "not_equal")  # `symbol == None` is False, as for any object

    def forward(self: Symbol, other: TensorLike) -> Symbol:
        if other is None and compares:
            return NotImplemented
        graph = self.graph
        if truncating is not None:
            return graph.apply(truncating if graph.truncates else row, (self, other))
        return graph.apply(row, (self, other))

    def reflected(self: Symbol, other: TensorLike) -> Symbol:
        if other is None and compares:
            return NotImplemented
        graph = self.graph
        if truncating is not None:
            return graph.apply(truncating if graph.truncates else row, (other, self))
        return graph.apply(row, (other, self))

    forward.__doc__ = reflected.__doc__ = row.doc
    return forward, reflected


OWNERS[Symbol] = attrgetter("graph")
_install_operators()
