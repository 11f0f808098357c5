"""Defines `Graph`: typed SSA under construction, and the only place of promotion, as visible `cast` nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ..promotion.casts import LossClass, loss_class
from ..promotion.dtype import DType, int64, string
from ..promotion.errors import UserError
from ..promotion.literals import Scalar, check_literal, is_numpy_scalar, is_scalar, number_of
from ..promotion.presets import rules
from ..promotion.result_rules import Promotion
from ..promotion.rules import RuleSet
from . import constants
from .checks import Check, Checks, ShapeError
from .construction.ending import closed, foreign, output_names
from .construction.misuse import NeverCurrent, input_types
from .construction.nesting import Nesting, innermost, region_for
from .construction.recording import OWNERS, Journal, recorded
from .dims.dim import Dim, Extent
from .errors import completed, compose, describe
from .location import Location, user_location
from .names import checked_name
from .ops.attributes import Attributes, fixed
from .ops.control import regions_of
from .ops.host import text_shape
from .ops.opdef import OpDef
from .ops.table import OPS, op_named
from .promote.casts import CastEntry, LossAction, Policy, check_actions, check_policy, enforce
from .promote.chains import tell
from .promote.complex_operands import by_parts, with_parts
from .promote.operands import kept_dtypes, promote
from .protocols import Growing, SymbolLike, TensorLike, WrittenOperand
from .reference.budget import Budget
from .symbol import Symbol
from .text import networkx, printing
from .types import DimLike, DTypeLike, Shape, ShapeLike, TensorType, as_dtype, as_extent
from .verify import limits, verify

_NO_ATTRS = fixed({})
_CAST, _CONSTANT = OPS["cast"], OPS["constant"]

_Written: TypeAlias = Symbol | np.generic | Scalar
"""An operand as the user wrote it, where arrays and sizes have become symbols of this graph."""


class Graph(Nesting, NeverCurrent):
    """A computation under construction.

    There is no current graph: an op belongs to the graph of its operands. `output` ends construction.

    Args:
        name: for messages, kernels and files.
        inputs: a `TensorType` per argument.
        semantics: the promotion rule set, by name or as a `RuleSet`. "triton" also makes `//` and `%` truncate.
        policy: which implicit casts are allowed: "lattice" (all; lossy ones are listed by `casts()`), "exact" (those that keep
            every value) or "strict" (none).
        on_loss: what to do about implicit casts by loss class, e.g. {"overflow": "error", "rounding": "warn"}; the default,
            "ignore", leaves them to the ledger. Warnings are `PromotionWarning`s at the user's line. Not part of the text form.

    Attributes:
        inputs, outputs: tuples of symbols; `output_names` names the latter.
        symbols: all symbols; `symbols[i].id == i`, operands come first.
        checks: the conditions of a launch: (lhs, rhs, message), where lhs must equal rhs. Once the graph is finished, those
            that its outputs need: see `verify`.
        budget, limits: what a run may need, if limited, and the checks that it needs no more. Not part of the text form.
        dim_names: the named dims of the input shapes, in order of appearance. outer_dims: those known without inputs.
        finished: whether `output` was called.
    """

    def __init__(
        self,
        name: str,
        inputs: Iterable[TensorType] = (),
        semantics: str | RuleSet = "max",
        policy: str = "lattice",
        on_loss: Mapping[str, str] | None = None,
    ) -> None:
        self.name = checked_name(name, "Graph", "Graph('model', inputs=[…])")
        self.rules: RuleSet = rules(semantics)
        self.policy: Policy = check_policy(policy)
        self.truncates = self.rules.division == "truncate"
        self.on_loss: Mapping[LossClass, LossAction] = check_actions(on_loss or {})
        self.journal = Journal()
        self.budget: Budget | None = None
        self.chains = self.rules.has_choices
        self.parts: dict[int, tuple[DType, ...]] = {}
        self.standing: tuple[Check, ...] = ()
        self.needed: tuple[Check, ...] = ()
        self.limits: tuple[Check, ...] = ()
        self._weak: dict[int, DType] = {}
        self.symbols: list[Symbol] = []
        self.shape_checks = Checks()
        self.finished = False
        self.output_names: tuple[str, ...] = ()
        self._inputs: list[Symbol] = []
        self._outputs: tuple[Symbol, ...] = ()
        self._weights: dict[str, Symbol] = {}
        self._ledger: dict[int, CastEntry] = {}
        self._promotions: dict[tuple[Hashable, ...], Promotion] = {}
        self._literals: dict[tuple[DType, type, Scalar], Symbol] = {}
        self._constants: dict[tuple[DType, tuple[int, ...], bytes], Symbol] = {}
        self._extents: dict[Extent, Symbol] = {}
        self._location: Location | None = None
        self._key: str | None = None
        for tensor in input_types(inputs):
            self.input(tensor)

    # -- sources -------------------------------------------------------------------------------------------------------

    @recorded
    def input(self, dtype: TensorType | DTypeLike, shape: ShapeLike = (), name: str | None = None) -> Symbol:
        """Add an argument to the graph, from a `TensorType`, or from dtype, shape and name."""
        tensor = dtype if isinstance(dtype, TensorType) else TensorType(dtype, shape, name)
        own = tensor.name if tensor.name is not None else f"input{len(self._inputs)}"
        if any(own == other.name for other in self._inputs):
            raise UserError(f"Graph {self.name!r}: two inputs are called {own!r}; fix: give each input its own name")
        attrs = fixed({"index": len(self._inputs), "name": own})
        symbol = self._new(OPS["input"], (), attrs, tensor.dtype, tensor.shape, name=own)
        self._inputs.append(symbol)
        return symbol

    @property
    def inputs(self) -> tuple[Symbol, ...]:
        """The symbols of the inputs, in call order."""
        return tuple(self._inputs)

    @recorded
    def constant(self, value: TensorLike | str, dtype: DTypeLike | None = None) -> Symbol:
        """Return a symbol that holds a NumPy array or scalar, or strings; equal bits, shape and dtype give the same symbol.

        The array is copied unless it is read-only. `dtype` is needed only for dtypes NumPy stores under another name (index,
        address, tensor_float32). Python scalars have no dtype: use `scalar`.
        """
        if is_scalar(value):
            return self.scalar(value, dtype)
        if (texts := constants.text_options(value)) is not None:
            attrs = fixed({"options": texts})
            return self._new(OPS["text_constant"], (), attrs, string, text_shape(attrs))
        array, own = constants.as_array(value, "constant")
        target = constants.typed(array, own, None if dtype is None else as_dtype(dtype), "constant")
        key = constants.identity_key(array, target)
        found = self._constants.get(key)
        if found is None:
            frozen = constants.frozen(array)
            found = self._new(_CONSTANT, (), fixed({"value": frozen}), target, frozen.shape)
            self._constants[key] = found
        self.journal.saw(value, found)
        return found

    @recorded
    def scalar(self, value: TensorLike, dtype: DTypeLike | None = None) -> Symbol:
        """Return a rank-0 constant of a number; `dtype` defaults to the rule set's literal dtype, or NumPy's.

        Raises `UserError` when the value does not fit; a float that needs rounding is rounded.
        """
        target = None if dtype is None else as_dtype(dtype, "scalar: dtype")
        if isinstance(value, np.generic):
            if target is None or target.numpy == value.dtype:
                return self.constant(value, target)
            value = number_of(value)
        if not is_scalar(value):
            raise UserError(
                f"scalar: expected a number, not {describe(value)}; "
                "fix: pass arrays to graph.constant, sizes to graph.dim_value"
            )
        if target is None and self.rules.weak:
            element = self.rules.join_operands([value])
            if element.is_weak:
                return self._weak_scalar(value, element)
        plain = target is None
        target = target or self.rules.literals.default(value)
        check_literal(value, target, "scalar")
        symbol = self._literal(value, target)
        return symbol.alias() if plain else symbol  # other rules may choose another dtype, or a weak value for every call

    def _weak_scalar(self, value: Scalar, element: DType) -> Symbol:
        """Return a constant of its own; constants of an explicit dtype are shared, and strong."""
        dtype = self.rules.concrete(element)
        check_literal(value, dtype, "scalar")
        attrs = fixed({"value": constants.scalar_array(value, dtype)})
        symbol = self._new(OPS["constant"], (), attrs, dtype, ())
        self._weak[symbol.id] = element
        return symbol

    def _literal(self, value: Scalar, dtype: DType) -> Symbol:
        """Return a constant of a checked scalar, keyed by type, too: for Python 1, 1.0 and True are equal."""
        if value != value or value == 0:
            return self.constant(constants.scalar_array(value, dtype), dtype)
        key = (dtype, type(value), value)
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self.constant(constants.scalar_array(value, dtype), dtype)
        return found

    @recorded
    def weight(self, name: str, array: TensorLike, dtype: DTypeLike | None = None) -> Symbol:
        """Return a named constant, kept beside the graph when it is saved. Do not change the array, which is not copied.

        The same name with the same array gives the same symbol; with another array it is an error.
        """
        checked_name(name, "weight", "weight('layer0.scale', array)")
        value, own = constants.as_array(array, f"weight {name!r}")
        target = constants.typed(value, own, None if dtype is None else as_dtype(dtype), f"weight {name!r}")
        value = np.ascontiguousarray(value).reshape(value.shape).view()
        value.flags.writeable = False
        known = self._weights.get(name)
        if known is not None:
            old = known.attrs["value"]
            if known.dtype is target and old.shape == value.shape and old.tobytes() == value.tobytes():
                self.journal.saw(array, known)
                return known
            raise UserError(
                compose(f"weight {name!r} is already defined with another value", (known, array),
                        fix="give the second weight its own name")
            )  # fmt: skip
        attrs = fixed({"name": name, "value": value})
        symbol = self._new(OPS["weight"], (), attrs, target, value.shape, name=name)
        self._weights[name] = symbol
        self.journal.saw(array, symbol)
        return symbol

    @recorded
    def dim_value(self, extent: DimLike) -> Symbol:
        """Return a size as an int64 scalar, to compute with."""
        size = extent if isinstance(extent, Dim) else as_extent(extent, "dim_value")
        found = self._extents.get(size)
        if found is None:
            attrs = fixed({"extent": size})
            found = self._extents[size] = self._new(OPS["dim_value"], (), attrs, int64, ())
        return found

    @recorded
    def as_symbol(self, value: TensorLike, op: str = "operand") -> Symbol:
        """Return a symbol of this graph for a symbol, array, Python scalar or dim."""
        if type(value) is Symbol:
            if value.graph is self:
                return value
            if self.twin is None:
                raise foreign(self, op, value)
            return self.as_symbol(self.twin(value), op)
        if isinstance(value, Dim):
            return self.dim_value(value)
        value = self.rules.weakened(value)
        if is_scalar(value):
            return self.scalar(value)
        return self.constant(*constants.as_array(value, op))

    # -- ops -----------------------------------------------------------------------------------------------------------

    @recorded
    def apply(
        self, op: str | OpDef, operands: Sequence[TensorLike], attrs: Attributes | None = None, dtype: DType | None = None
    ) -> Symbol:
        """Make a computed symbol, in the only way there is: promote, cast, infer the shape, append.

        Args:
            op: a row of the op table or its name.
            operands: symbols of this graph, arrays, Python scalars (weak) or dims.
            attrs: exactly the attributes of the row, normalised (axes non-negative, extents `int | Dim`).
            dtype: the result dtype, for rows whose rule is EXPLICIT, ACCUMULATE or MEAN.

        Raises `UserError` at the user's line for whatever does not fit, `UnsupportedError` for dtypes the op cannot compute.
        """
        for operand in operands:
            if type(operand) is Symbol and operand.graph is not self and operand.graph.is_inside(self):
                return operand.graph.apply(op, operands, attrs, dtype)
        row = op if isinstance(op, OpDef) else op_named(op)
        if self.open is not None and (region := region_for(self, row.kind, operands, attrs)) is not None:
            return region.apply(op, operands, attrs, dtype)  # type: ignore[no-any-return]
        of_parts: Symbol | None = by_parts(self, row, operands, attrs, dtype)
        if of_parts is not None:
            return of_parts
        written, inputs, promotion = self._operands(row, operands, dtype, row.name)
        arguments = tuple(inputs)
        shape = self._shape_of(row, arguments, attrs or _NO_ATTRS)
        symbol = self._new(
            row, arguments, fixed(attrs.copy()) if attrs else _NO_ATTRS, promotion.result, shape,
            written=None if written is None else tuple(written),
        )  # fmt: skip
        if promotion.weak is not None:
            self._weak[symbol.id] = promotion.weak
        if self.chains:
            given = zip(operands, inputs if written is None else written, strict=True)
            tell(symbol, [old if isinstance(old, Symbol) else new for old, new in given if isinstance(new, Symbol)])
        return symbol

    @recorded
    def promoted(self, op: str, operands: Sequence[TensorLike], like: str) -> tuple[Symbol, ...]:
        """Return operands as the row `like` would get them, with implicit casts in the ledger.

        This is for functions of several ops, which messages and the ledger call `op`.
        """
        graph = innermost(self, operands)
        graph = region_for(graph, op_named(like).kind, operands) or graph
        return tuple(graph._operands(op_named(like), operands, None, op)[1])

    def _operands(
        self, row: OpDef, operands: Sequence[TensorLike], dtype: DType | None, label: str
    ) -> tuple[Sequence[_Written] | None, list[Symbol], Promotion]:
        """Return the operands as written, with symbols for arrays and sizes (None where that is what follows), the symbols
        after casts, and the promotion."""
        values: list[Symbol | Scalar] = []
        written: list[_Written] | None = None
        key: list[Hashable] = [row, dtype]
        for operand in kept_dtypes(self.constant, row, operands):
            if type(operand) is Symbol and operand.graph is self:
                values.append(self.symbols[operand.id])  # not an alias
                key.append(operand.dtype)
                if operand.id in self._weak:
                    key.append(self._weak[operand.id])
                if self.rules.zero_dim:
                    key.append(not operand.shape)
            elif is_scalar(number := self.rules.weakened(operand)):
                values.append(number)
                key.append((type(number), number))
            else:
                symbol = self.as_symbol(operand, label)
                values.append(symbol)
                key.append(symbol.dtype)
                if self.rules.zero_dim:
                    key.append(not symbol.shape)
            if is_numpy_scalar(operand):  # `why` and `what_if` are about what the user wrote
                written = [*(values[:-1] if written is None else written), operand]
            elif written is not None:
                written.append(values[-1])
        if self.finished:
            raise closed(self, label, values)
        memo = tuple(key)
        promotion = self._promotions.get(memo)
        if promotion is None:
            promotion = promote(self.rules, row, values, dtype, label)
            self._promotions[memo] = promotion
        inputs: list[Symbol] = []
        as_written = written is None
        for value, target in zip(values, promotion.casts, strict=True):
            if not isinstance(value, Symbol):
                value, as_written = self._literal(value, target), False
            elif value.dtype is not target:
                value, as_written = self.implicit_cast(label, values, len(inputs), value, target), False
            inputs.append(value)
        return None if as_written else written or values, inputs, promotion

    def promotion(self, op: str | OpDef, operands: Sequence[WrittenOperand], dtype: DType | None = None) -> Promotion:
        """Return the dtypes that `apply` would cast operands to, and the result dtype."""
        row = op if isinstance(op, OpDef) else op_named(op)
        return promote(self.rules, row, operands, dtype, row.name)

    def implicit_cast(self, op: str, values: Sequence[Any], position: int, source: Symbol, target: DType) -> Symbol:
        """Return an operand of `op`, or a part of one, in the dtype that promotion gives it."""
        if self.policy != "lattice" or self.on_loss:
            location = self._location or user_location()
            enforce(self.policy, self.on_loss, op, position, tuple(values), source.dtype, target, location)
        if target.is_complex:
            return with_parts(self, op, values, position, source, target)  # type: ignore[no-any-return]
        attrs = fixed({"dtype": target, "rounding": "nearest", "saturate": True})
        symbol = self._new(_CAST, (source,), attrs, target, source.shape)
        self._record_cast(symbol, op)
        return symbol

    def _record_cast(self, symbol: Symbol, op: str) -> None:
        source = symbol.inputs[0].dtype
        loss = loss_class(source, symbol.dtype)
        self._ledger[symbol.id] = CastEntry(symbol.location, op, source, symbol.dtype, loss, symbol.nbytes, symbol)

    def _shape_of(self, row: OpDef, inputs: tuple[Symbol, ...], attrs: Attributes) -> Shape:
        first = inputs[0].shape
        if row.kind == "map" and not (row.attrs or attrs):
            for operand in inputs:
                if operand.shape is not first and operand.shape != first and operand.shape:
                    break
            else:
                if first or len(inputs) == 1:
                    return first
        known = len(self.shape_checks)
        try:
            dtypes, shapes = [operand.dtype for operand in inputs], [operand.shape for operand in inputs]
            return row.infer(dtypes, shapes, attrs, self.shape_checks)
        except ShapeError as error:
            self.shape_checks.truncate(known)
            raise completed(row.name, inputs, error) from None

    def _new(
        self,
        row: OpDef,
        inputs: tuple[Symbol, ...],
        attrs: Attributes,
        dtype: DType,
        shape: Shape,
        name: str | None = None,
        written: tuple[WrittenOperand, ...] | None = None,
    ) -> Symbol:
        if self.finished:
            raise closed(self, row.name, inputs)
        symbol = object.__new__(Symbol)
        put = object.__setattr__
        put(symbol, "graph", self)
        put(symbol, "id", len(self.symbols))
        put(symbol, "op", row)
        put(symbol, "inputs", inputs)
        put(symbol, "attrs", attrs)
        put(symbol, "dtype", dtype)
        put(symbol, "shape", shape)
        put(symbol, "location", self._location or user_location())
        put(symbol, "name", name)
        put(symbol, "_operands", written)
        self.symbols.append(symbol)
        return symbol

    def adopt(
        self, symbol: Symbol, inputs: Sequence[Symbol], shape: Shape | None = None, attrs: Attributes | None = None
    ) -> Symbol:
        """Copy `symbol`, of any graph, with operands of this graph that have the same dtypes and shapes; or with its shape and
        attributes changed as its operands are, by a rewrite."""
        entry = symbol.graph._ledger.get(symbol.id)
        implicit = entry.op if entry else None
        changed = attrs or symbol.attrs, symbol.dtype, shape or symbol.shape
        return self.restore(symbol.op, inputs, *changed, symbol.location, implicit)

    def restore(
        self,
        row: OpDef,
        inputs: Sequence[Symbol],
        attrs: Attributes,
        dtype: DType,
        shape: Shape,
        location: Location,
        implicit: str | None = None,
        weak: DType | None = None,
    ) -> Symbol:
        """Add a symbol as it was written down: nothing is inferred here, the verifier has to approve of it.

        implicit: the op for which promotion inserted this cast. weak: the weak element the value stands for.
        """
        with self.located(location):
            name = attrs.get("name")
            symbol = self._new(row, tuple(inputs), attrs, dtype, shape, name=name)
        if row.name == "input":
            self._inputs.append(symbol)
        elif row.name == "weight":
            if name in self._weights:
                raise UserError(f"weight {name!r} is defined twice; fix: give each weight its own name")
            self._weights[str(name)] = symbol
        if weak is not None:
            if self.rules.weak.get(weak) is not dtype:
                raise UserError(f"{row.name} of {dtype} cannot be {weak} in rule set {self.rules.name}")
            self._weak[symbol.id] = weak
        if implicit is not None:
            if row.name != "cast":
                raise UserError(f"{row.name} cannot be an implicit cast")
            self._record_cast(symbol, implicit)
        return symbol

    def rewriting(self) -> Graph:
        """Return an empty graph of the same name, rules and checks, for rewrites of this one. No check is added to these,
        because what this graph needs holds for whatever computes the same; no user builds it, so it records no calls."""
        copy = Graph(self.name, semantics=self.rules, policy=self.policy)
        copy.standing, copy.limits, copy.outer_dims = self.checks, self.limits, self.outer_dims
        copy.shape_checks = Checks(self.checks, is_final=True)
        copy.journal.busy, copy.chains = True, False
        return copy

    def _growing(self) -> Growing:
        """Return the containers that only grow, for going back when a call fails."""
        return Growing(
            (self.symbols, self._inputs, self.journal.calls),
            (self._weights, self._literals, self._constants, self._extents, self._ledger, self._weak, self.parts),
        )

    @property
    def current_location(self) -> Location | None:
        """The location that symbols get now, if not the caller's."""
        return self._location

    @contextmanager
    def located(self, location: Location) -> Iterator[None]:
        """Give symbols made inside this location, for rewrites, which keep the user's lines."""
        before, self._location = self._location, location
        try:
            yield
        finally:
            self._location = before

    # -- the end of construction ---------------------------------------------------------------------------------------

    @recorded
    def output(self, *symbols: Any, names: Sequence[str] | None = None, name: str | None = None) -> None:
        """End construction with these symbols as the results, in this order, and verify the graph.

        Args:
            symbols: one or more symbols of this graph (a constant, scalar or dim may be an output too).
            names: one distinct name per output; by default the name of the symbol, or "output0", "output1", ….
            name: the name, when there is one output.
        """
        given = symbols[0] if len(symbols) == 1 and isinstance(symbols[0], (tuple, list)) else symbols
        if not given:
            raise UserError(f"Graph {self.name!r}: output() without a symbol; fix: pass the symbols to return")
        if self.finished:
            raise UserError(f"Graph {self.name!r} already has its outputs; fix: call output once, with all of them")
        symbols_of = [
            self.constant(symbol) if is_numpy_scalar(symbol) else self.as_symbol(symbol, "output") for symbol in given
        ]  # fmt: skip
        outputs = tuple([self.symbols[symbol.id] for symbol in symbols_of])
        if name is not None:
            if names is not None:
                raise UserError("output: both name= and names= are given; fix: pass names= only")
            names = (name,)
        self.output_names = output_names(outputs, names)
        self._outputs = outputs
        try:
            self.needed, self.limits = verify(self), limits(self)
        except BaseException:
            self._outputs, self.output_names = (), ()
            raise
        self.finished = True

    @property
    def outputs(self) -> tuple[Symbol, ...]:
        """The symbols that `output` was given, in order; empty before that."""
        return self._outputs

    # -- queries -------------------------------------------------------------------------------------------------------

    @property
    def checks(self) -> tuple[Check, ...]:
        """The conditions on sizes that a launch checks, in the order in which the graph needed them."""
        return self.needed if self.finished else tuple(self.shape_checks.entries)

    @property
    def dim_names(self) -> tuple[str, ...]:
        """The names of the symbolic dims, in the order in which inputs mention them."""
        sizes = [extent for symbol in self._inputs for extent in symbol.shape if isinstance(extent, Dim)]
        return tuple(dict.fromkeys(name for size in sizes for name in sorted(size.symbols())))

    @property
    def weights(self) -> Mapping[str, Symbol]:
        """The weights by name."""
        return MappingProxyType(self._weights)

    def casts(self) -> tuple[CastEntry, ...]:
        """Return the ledger of implicit casts, in order of creation, those of regions behind the others. Casts that the user
        wrote, and those that belong to the definition of an op (the accumulator of a sum), are not in it."""
        inner = [entry for symbol in self.symbols for region in regions_of(symbol) for entry in region.casts()]
        return (*self._ledger.values(), *inner)

    def is_implicit(self, symbol: SymbolLike) -> bool:
        """Return whether `symbol` is a cast that promotion inserted."""
        return symbol.id in self._ledger

    def canonical_key(self) -> str:
        """Return the SHA-256 of the graph's ops, attributes, dtypes, shapes, checks and bits of constants and weights.

        Names (of graph, inputs, outputs, weights, dims), locations and unused symbols do not enter. Needs a finished graph.
        """
        if not self.finished:
            raise UserError(f"Graph {self.name!r} has no outputs yet; fix: call graph.output(…) first")
        self._key = self._key or printing.canonical_key(self)
        return self._key

    def to_networkx(self) -> Any:
        """Return a `networkx.DiGraph` of ids: nodes carry `symbol`, `op`, `dtype`, `shape`, edges operand `positions`."""
        return networkx.to_networkx(self)

    def __repr__(self) -> str:
        state = f"{len(self._outputs)} outputs" if self.finished else "under construction"
        return (
            f"<Graph {self.name!r}: {len(self._inputs)} inputs, {len(self.symbols)} symbols, {state}, "
            f"semantics {self.rules.name!r}, policy {self.policy!r}>"
        )

    def __str__(self) -> str:
        return printing.to_text(self)[0]


OWNERS[Graph] = lambda graph: graph


def graph_of(op: str, *operands: object) -> Graph:
    """Return the graph of the first symbol among operands, also in sequences; of a region inside it where there is one.

    Raises `UserError` where there is no symbol.
    """
    found: Graph | None = None
    for operand in operands:
        for entry in operand if isinstance(operand, (tuple, list)) else (operand,):
            if type(entry) is Symbol and entry.graph is not found and (found is None or entry.graph.is_inside(found)):
                found = entry.graph
    if found is not None:
        return found
    raise UserError(
        compose(f"{op}: no operand is a Symbol, so there is no graph to add the op to", operands,
                fix="make one with graph.constant(array) or graph.scalar(value, dtype), or use NumPy")
    )  # fmt: skip
