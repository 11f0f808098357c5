"""Writes the symbols of a graph, or of a region inside it, as nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32
from ....promotion.errors import UnsupportedError
from ...data_sizes import needed
from ...dims.dim import Dim
from ...errors import compose
from ...graph import Graph
from ...ops.attributes import parsed_options
from ...ops.control import regions_of
from ...symbol import Symbol
from ..values import objects
from .body import Body, Constant, OnnxNode, OpsetNeeded, Refused
from .complex_parts import ComplexParts
from .composed.composed import Composed, Expanded, Operand, Size, Unsqueezed
from .composed.find import find_composed
from .functions import DOMAIN, Written, call_text, written
from .handlers.bits import OPSET as BITCAST
from .handlers.bits import hidden
from .regions import write_branch, write_host_loop, write_loop
from .registry import UNWRITTEN, Call
from .sizes import Sizes
from .spatial.resized import Resized, find_resized
from .spatial.resized_at_run import find_resized_at_run
from .spatial.windowed import Windowed, consumers_of, weights_of, zero_of_weights
from .spatial.windowed_functions import find_functions
from .table import REASONS, SIZED, WRITERS

MIN_OPSET = 18
"""The oldest opset that graphs are written in."""
_DTYPE_OPSETS: Mapping[str, int] = {
    "float8_e8m0fnu": 24, "float4_e2m1fn": 23, "int2": 25, "uint2": 25,
    **dict.fromkeys(("int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 21),
}  # fmt: skip


_ARRAYS = ("constant", "weight", "text_constant")
"""Rows whose symbols are arrays of the model."""


_OF_CODES = ("ConvInteger", "QLinearConv")


class TooOld(Exception):
    """A symbol needs a newer opset."""

    def __init__(self, opset: int, message: str) -> None:
        super().__init__(message)
        self.opset, self.message = opset, message


@dataclass(slots=True)
class Model:
    """What a graph and its regions share.

    Attributes:
        graph: the outermost graph, whose ledger has the casts of all.
        sizes: values of sizes, which nodes of the outermost body compute.
        arrays: constants of the model.
        functions: the name and body of each call that is written as a function or a node, by its text.
        called: names of the functions that nodes call.
        fixed: the names of constants, and of what is computed from these alone.
    """

    graph: Graph
    opset: int
    sizes: Sizes
    arrays: dict[str, Constant] = field(default_factory=dict)
    functions: dict[str, tuple[str, Written]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)

    def function_name(self, call: Call) -> str:
        """Return a name that tells op and dtype; calls that differ in attributes are numbered."""
        dtype = call.operands[0] if call.operands else call.result
        base = f"{call.row}_{dtype}" + (f"_{call.result}" if call.row in ("cast", "bitcast") else "")
        taken = {name for name, _ in self.functions.values()}
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        return name


class GraphWriter:
    """Adds the symbols of a graph to a body, in order.

    Attributes:
        names: of the values of symbols, by their id; what has one before is an input of a region, or an output's name.
        live: the symbols that are written.
    """

    def __init__(self, graph: Graph, body: Body, model: Model, names: Mapping[int, str]) -> None:
        self.graph, self.body, self.model = graph, body, model
        self.names = dict(names)
        live = live_symbols(graph)
        self.resized, self.windowed = find_resized(graph, live), find_functions(graph, live, model.opset)
        self.consumers = consumers = consumers_of(live)
        self.composed = {**find_composed(graph, live, consumers, model.opset), **find_resized_at_run(graph, live, consumers)}
        self.nodes: dict[int, Windowed | Resized | Composed] = {**self.composed, **self.resized, **self.windowed}
        self.live = live_symbols(graph, self.nodes)
        self._leave_cubic()
        self.casts = {entry.symbol.id: entry for entry in model.graph.casts() if entry.symbol.graph is graph}
        self.kernels: dict[int, str] = {}
        self.written: set[int] = set()
        self.parts = ComplexParts(self)

    def _leave_cubic(self) -> None:
        """Drop cubic Resize beside a Transpose: onnxruntime moves these behind it, where it may have no such Resize."""
        written = [self.nodes[symbol.id] for symbol in self.live if symbol.id in self.nodes]
        turned = any([symbol.op.name == "permute" and symbol.id not in self.nodes for symbol in self.live])
        turned = turned or any([
            bool(made.turned or made.result_turned) if isinstance(made, Composed)
            else made.image_last or (isinstance(made, Windowed) and made.result_last) for made in written
        ])  # fmt: skip
        cubic = {
            key for key, made in self.nodes.items()
            if (isinstance(made, Resized) and made.options.mode == "cubic")
            or (isinstance(made, Composed) and made.op == "Resize" and made.attributes["mode"] == "cubic")
        }  # fmt: skip
        if turned and cubic:
            self.nodes = {key: made for key, made in self.nodes.items() if key not in cubic}
            self.composed = {key: made for key, made in self.composed.items() if key not in cubic}
            self.resized = {key: made for key, made in self.resized.items() if key not in cubic}
            self.live = live_symbols(self.graph, self.nodes)

    def write(self) -> None:
        """Write all symbols that outputs need."""
        for symbol in self.live:
            self._add(symbol)
        for symbol in self.graph.outputs:
            self._checked(symbol, partial(self.parts.require_whole, symbol))

    def beside(self, graph: Graph, names: Mapping[int, str]) -> list[str]:
        """Write a graph whose inputs have these names, by their id, and return the names of its outputs."""
        writer = GraphWriter(graph, self.body, self.model, names)
        writer.write()
        return [writer.names[symbol.id] for symbol in graph.outputs]

    def inside(self, region: Graph, body: Body, inputs: Sequence[str]) -> list[str]:
        """Write a region whose inputs have these names, and return the names of its outputs."""
        given = {symbol.id: name for symbol, name in zip(region.inputs, inputs, strict=True)}
        writer = GraphWriter(region, body, self.model, given)
        writer.write()
        return [writer.names[symbol.id] for symbol in region.outputs]

    def _checked(self, symbol: Symbol, action: Callable[[], None]) -> None:
        """Do something for a symbol, and say of which it was refused."""
        try:
            action()
        except Refused as error:
            raise UnsupportedError(self._message(symbol, error.reason, error.fix)) from None
        except OpsetNeeded as error:
            message = self._message(symbol, f"{error.what} is in opset {error.opset} and later, not in {self.model.opset}", "")
            raise TooOld(error.opset, message) from None

    def _add(self, symbol: Symbol) -> None:
        first = len(self.body.nodes)
        self._checked(symbol, partial(self._write, symbol, first))
        if self.parts.has(symbol):
            return
        metadata = self._metadata(symbol)
        for made in self.body.nodes[first:]:
            made.metadata.update(metadata)
        fixed = self.model.fixed
        if symbol.op.name in _ARRAYS or (
            symbol.op.kind not in ("source", "control") and symbol.id not in self.nodes and not regions_of(symbol)
            and all([self.names.get(operand.id) in fixed for operand in symbol.inputs])
        ):
            fixed.add(self.names[symbol.id])
        if len(self.body.nodes) > first and self._is_kept(symbol):
            self.body.nodes[-1].metadata["joinery.row"] = symbol.op.name

    def _write(self, symbol: Symbol, first: int) -> None:
        self._check_dtype(symbol)
        if regions_of(symbol):
            for operand in symbol.inputs:
                self.parts.require_whole(operand)
        if symbol.id in self.resized:
            self._rename_last(symbol, self._resize(symbol, self.resized[symbol.id]), first)
        elif symbol.id in self.windowed:
            self._rename_last(symbol, self._of_windows(symbol, self.windowed[symbol.id]), first)
        elif symbol.id in self.composed:
            self._composed(symbol, self.composed[symbol.id], first)
        elif symbol.op.name == "input":
            self.names.setdefault(symbol.id, str(symbol.name))
        elif symbol.op.name == "loop":
            write_loop(self, symbol)
        elif symbol.op.name == "host_loop":
            write_host_loop(self, symbol)
        elif symbol.op.name in ("branch", "host_branch"):
            write_branch(self, symbol)
        elif symbol.op.name in ("region_result", "host_result"):  # the loop or branch gave it its name
            if symbol.attrs.get("extents"):
                self.model.sizes.learn(self.names[symbol.id], symbol.shape)
            return
        elif symbol.op.name == "constant" and self.graph is not self.model.graph:  # a number, inside a region
            self.names[symbol.id] = self.body.constant(array_of(symbol), symbol.dtype)
        elif symbol.op.name in _ARRAYS:
            name = self.body.name(str(symbol.name) if symbol.name else f"constant_{symbol.id}")
            self.model.arrays[name] = Constant(array_of(symbol), symbol.dtype)
            self.names[symbol.id] = name
        elif self.parts.is_of_parts(symbol):
            real = self.parts.write(symbol)
            if real is not None:
                self._rename_last(symbol, real, first)
        elif (values := self._values_of_top(symbol)) is not None:
            self._rename_last(symbol, values, first)
        else:
            self._rename_last(symbol, self._written(symbol), first)
            if "extents" in symbol.attrs:
                self.model.sizes.learn(self.names[symbol.id], symbol.shape)

    def _is_kept(self, symbol: Symbol) -> bool:
        """Return whether import would compute a symbol, or clamp its bounds, if its node did not say that it is one."""
        if symbol.id in self.nodes:
            return False
        if (symbol.op.kind in ("source", "control") and symbol.op.name != "dim_value") or regions_of(symbol):
            return False
        if symbol.op.name == "slice":
            bounds = (*symbol.attrs["starts"], *symbol.attrs["stops"])
            if symbol.shape == symbol.inputs[0].shape or any([isinstance(bound, Dim) for bound in bounds]):
                return True
        return symbol.op.name in ("dim_value", "empty_rows") or self.names[symbol.id] in self.model.fixed

    def _check_dtype(self, symbol: Symbol) -> None:
        dtype = symbol.dtype
        if dtype.name == "tensor_float32":
            raise Refused("ONNX has no tensor_float32: float32 rounds otherwise", "cast to float32")
        if not dtype.names.onnx:  # 0 is "undefined"
            raise Refused(f"{dtype} is no tensor data type of ONNX", "cast to float32 or another dtype of ONNX")
        first = _DTYPE_OPSETS.get(dtype.name, MIN_OPSET)
        if self.model.opset < first:
            raise OpsetNeeded(first, str(dtype))

    def _written(self, symbol: Symbol) -> str:
        row = symbol.op.name
        operands = [self.names[operand.id] for operand in symbol.inputs]
        if row == "bitcast" and self.model.opset < BITCAST and not self._hides_nan(symbol):
            raise OpsetNeeded(BITCAST, "BitCast")
        if row in REASONS:
            raise Refused(*REASONS[row])
        if row in SIZED:
            name = SIZED[row](self.body, self.model.sizes, symbol, *operands)
            if name is not None:
                return name
        if row not in WRITERS:
            raise Refused(*UNWRITTEN)
        call = Call(row, tuple([operand.dtype for operand in symbol.inputs]), symbol.dtype, symbol.attrs, self.model.opset)
        key = call_text(call)
        functions = self.model.functions
        if key not in functions:
            functions[key] = (self.model.function_name(call), written(call))
        name, found = functions[key]
        if found.is_single:
            return WRITERS[row](self.body, call, *operands)
        self.model.called.add(name)
        return self.body.node(name, *operands, domain=DOMAIN)

    def _hides_nan(self, symbol: Symbol) -> bool:
        """Return whether arithmetic may tell bits, which does not see those of NaN."""
        outputs = [each.id for each in self.graph.outputs]
        return not symbol.inputs[0].dtype.is_float or hidden(symbol, self.consumers, outputs)

    def _values_of_top(self, symbol: Symbol) -> str | None:
        """Return the name of elements that are the first output of a TopK, whose second one are their positions."""
        if symbol.op.name != "take_along_axis":
            return None
        x, positions = symbol.inputs
        is_top = positions.op.name == "top_positions" and positions.inputs[0] is x
        if not is_top or positions.attrs["axis"] != symbol.attrs["axis"]:
            return None
        for node in self.body.nodes:
            if node.op == "TopK" and node.inputs[0] == self.names[x.id]:
                names = [node.outputs[1], *[each.outputs[0] for each in self.body.nodes if each.inputs == (node.outputs[1],)]]
                if self.names[positions.id] in names:
                    return node.outputs[0]
        return None

    def _of_windows(self, symbol: Symbol, made: Windowed) -> str:
        """Write a convolution or pooling, with channels first."""
        rank = len(symbol.shape)
        x = self.names[made.image.id]
        if made.image_last:
            x = self.body.op("Transpose", symbol.dtype, x, perm=(0, rank - 1, *range(1, rank - 1)))
        weights: tuple[str, ...] = () if made.kernel is None or made.op in _OF_CODES else (self._kernel(made.kernel),)
        if made.op == "ConvInteger":
            weights = self._codes(made)
        if made.weights is not None:
            weights = (self._backwards(symbol, made.weights),)
        bias = () if made.bias is None else (self.names[made.bias.id],)
        if made.op == "QLinearConv":
            (w, zero, w_zero), found = self._codes(made, True), [self.names[each.id] for each in made.parameters]
            weights = (found[0], zero, w, found[1], w_zero, *found[2:])
        result = self.body.node(made.op, x, *weights, *bias, **made.attributes)
        if made.result_last:
            result = self.body.op("Transpose", symbol.dtype, result, perm=(0, *range(2, rank), 1))
        return result

    def _backwards(self, symbol: Symbol, weights: Symbol | Array) -> str:
        """Return the name of weights (C, M / groups, …)."""
        if isinstance(weights, Symbol):
            return self.names[weights.id]
        name = self.body.name(f"constant_{symbol.id}")
        self.model.arrays[name] = Constant(weights, symbol.dtype)
        return name

    def _resize(self, symbol: Symbol, made: Resized) -> str:
        """Write a Resize, with channels first."""
        rank, options, x = len(symbol.shape), made.options, self.names[made.image.id]
        if made.image_last:
            x = self.body.op("Transpose", symbol.dtype, x, perm=(0, rank - 1, *range(1, rank - 1)))
        attributes: dict[str, Any] = {"mode": options.mode, "coordinate_transformation_mode": options.coordinates}
        if options.mode == "nearest":
            attributes["nearest_mode"] = options.nearest
        if options.mode == "cubic":
            attributes.update(cubic_coeff_a=options.coefficient, exclude_outside=int(options.excludes))
        if made.lengths is not None:
            result = self.body.node("Resize", x, "", "", self.body.ints(*made.lengths), **attributes)
        else:
            scales = self.body.constant(np.array(made.scales, np.float32), float32)
            result = self.body.node("Resize", x, "", scales, **attributes)
        if made.image_last:
            result = self.body.op("Transpose", symbol.dtype, result, perm=(0, *range(2, rank), 1))
        return result

    def _composed(self, symbol: Symbol, made: Composed, first: int) -> None:
        """Write a node with one output or several, before the first symbol that is one of them."""
        if symbol.id in self.written:
            return
        operands = [self._operand(each) for each in made.operands]
        for position, axes in made.turned.items():
            operands[position] = self.body.op("Transpose", symbol.dtype, operands[position], perm=axes)
        while operands and not operands[-1]:
            operands.pop()
        facts = dict(made.facts)
        is_fixed = all([self.names[each.id] in self.model.fixed for each in made.inputs])
        if is_fixed:
            facts.setdefault("joinery.row", made.op)
        if made.result_turned is not None:
            result = self.body.node(made.op, *operands, **made.attributes)
            self.body.nodes[-1].metadata.update(facts)
            result = self.body.op("Transpose", symbol.dtype, result, perm=made.result_turned)
            self._rename_last(symbol, result, first)
            return
        wanted = {each.id for each in self.live}
        names, copies = list[str](), list[tuple[str, str]]()
        for symbols in made.results:
            name = ""
            for each in symbols:
                if each.id not in wanted:
                    continue
                own = self.names.get(each.id)
                name = name or own or self.body.name(f"{each.op.name}_{each.id}")
                if own is not None and own != name:
                    copies.append((name, own))
                self.names.setdefault(each.id, name)
                self.written.add(each.id)
            names.append(name or (self.body.name("unused") if made.all_outputs else ""))
        while not names[-1]:
            names.pop()
        self.body.nodes.append(OnnxNode(made.op, "", tuple(operands), tuple(names), made.attributes, facts))
        for name, own in copies:
            self.body.node("Identity", name, output=own)
        if is_fixed:
            self.model.fixed.update([name for name in (*names, *[own for _, own in copies]) if name])

    def _operand(self, given: Operand) -> str:
        """Return the name of what a node reads, "" for an input that is left out."""
        if given is None:
            return ""
        if isinstance(given, Constant):
            return self.body.constant(given.value, given.dtype)
        if isinstance(given, Size):
            sizes = self.model.sizes
            return sizes.scalar(given.extents[0]) if given.is_scalar else sizes.vector(given.extents)
        if isinstance(given, Unsqueezed):
            symbol = given.symbol
            return self.body.op("Unsqueeze", symbol.dtype, self.names[symbol.id], others=(self.body.ints(-1),))
        if isinstance(given, Expanded):
            shape = self.model.sizes.vector(given.shape)
            return self.body.op("Expand", given.symbol.dtype, self.names[given.symbol.id], others=(shape,))
        return self.names[given.id]

    def _codes(self, made: Windowed, has_zero: bool = False) -> tuple[str, ...]:
        """Return the names of 8-bit weights, of the zero point of the image, and of that of the weights if they need one.

        has_zero: whether they have one in any case.
        """
        kernel = made.kernel
        assert kernel is not None
        rank, array = len(kernel.shape), array_of(kernel)
        found = zero_of_weights(array)
        assert found is not None
        dtype, zero = found
        codes = np.ascontiguousarray((array + zero).astype(dtype.numpy).transpose((rank - 1, rank - 2, *range(rank - 2))))
        name = self.body.name(str(kernel.name).removesuffix(".channels_last") if kernel.name else f"constant_{kernel.id}")
        self.model.arrays[name] = Constant(codes, dtype)
        own = "" if made.zero is None else self.names[made.zero.id]
        if zero or has_zero:
            return name, own, self.body.constant(np.array(zero, dtype.numpy), dtype)
        return (name, own) if own else (name,)

    def _kernel(self, kernel: Symbol) -> str:
        """Return the name of a kernel (…, C / groups, M) as weights (M, C / groups, …); constants are turned now."""
        rank = len(kernel.shape)
        order = (rank - 1, rank - 2, *range(rank - 2))
        if kernel.op.name in ("constant", "weight"):
            if kernel.id not in self.kernels:
                array = np.ascontiguousarray(array_of(kernel).transpose(order))
                given = str(kernel.name).removesuffix(".channels_last") if kernel.name else f"constant_{kernel.id}"
                self.kernels[kernel.id] = self.body.name(given)
                self.model.arrays[self.kernels[kernel.id]] = Constant(array, kernel.dtype)
            return self.kernels[kernel.id]
        source = weights_of(kernel)
        if source is not kernel:
            return self.names[source.id]
        return self.body.op("Transpose", kernel.dtype, self.names[kernel.id], perm=order)

    def _rename_last(self, symbol: Symbol, name: str, first: int) -> None:
        """Give the value of a symbol its name, if the last node made it: that of the output, or of op and number."""
        last = self.body.nodes[-1] if len(self.body.nodes) > first else None
        if last is None or last.outputs != (name,):
            if symbol.id in self.names:  # an output: its name has to be that of a node
                self.body.node("Identity", name, output=self.names[symbol.id])
            else:
                self.names[symbol.id] = name
            return
        wanted = self.names.get(symbol.id) or self.body.name(f"{symbol.op.name}_{symbol.id}")
        self.body.nodes[-1] = OnnxNode(last.op, last.domain, last.inputs, (wanted,), last.attributes, last.metadata)
        self.names[symbol.id] = wanted

    def _metadata(self, symbol: Symbol) -> dict[str, str]:
        found = {"joinery.symbol": f"%{symbol.id} {symbol.op.name}", "joinery.location": str(symbol.location)}
        entry = self.casts.get(symbol.id)
        if entry is not None:
            found["joinery.cast"], found["joinery.loss"] = f"implicit {entry.op}", str(entry.loss)
        return found

    def _message(self, symbol: Symbol, reason: str, fix: str) -> str:
        return compose(f"to_onnx: {symbol.op.name} at {symbol.location}: {reason}", symbol.inputs, fix=fix)


def live_symbols(graph: Graph, windowed: Mapping[int, Windowed | Resized | Composed] | None = None) -> list[Symbol]:
    """Return the inputs and whatever the outputs need, sizes that values decide among it, in order.

    windowed: nodes that stand for several symbols, and need less.
    """
    operands = {key: made.inputs for key, made in (windowed or {}).items()}
    wanted = needed(graph.symbols, (*graph.inputs, *graph.outputs), operands)
    return [symbol for symbol in graph.symbols if symbol.id in wanted]


def array_of(symbol: Symbol) -> Array:
    """Return the array of a constant; strings are objects."""
    if symbol.op.name != "text_constant":
        array: Array = symbol.attrs["value"]
        return array
    options = parsed_options(symbol.attrs["options"])
    return objects(options["texts"], tuple(options["shape"]))
