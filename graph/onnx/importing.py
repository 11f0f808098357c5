"""Imports a checked model: runs its nodes in order on values, of which some are computed now and the others become symbols.

Functions are inlined by running their bodies in a scope of their own, subgraphs in a scope inside the one they stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Ordered
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ...promotion.dtype import DType
from ...promotion.errors import InternalError, JoineryError, UnsupportedError, UserError, printable
from ..constants import MAX_TEXT_BYTES, TEXT_ENTRY, text_bytes
from ..construction.history import mark, rewind
from ..dims.messages import LongSizeError
from ..graph import Graph
from ..location import Location, NodeLocation
from ..reference.evaluate import evaluate
from ..reference.host.strings import concatenated_bytes
from ..region import Region, is_compiled_region
from ..symbol import Symbol
from ..types import shape_text
from .export.functions import recognised
from .export.registry import Call
from .limits import MAX_OPSET, OnnxLimits
from .loops.diverging import continued, required, taking
from .messages import DivergingError, located
from .model import Attribute, Body, CheckedModel, FunctionDef, NodeDef, Reference
from .node import Handler, LeftToDefinition, Node, Result, as_symbol
from .opsets import Operator, as_standard, definition_of, operator
from .reading import load_onnx
from .sizes.origins import sizes_instead
from .sizes.shape_arithmetic import on_sizes
from .table import STRUCTURAL, handler_for
from .tensors import known_elements
from .values import COMPOSITE, Known, Sizes, Value

_TRIES = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a fault of a handler raises: it is reported with its node, as ours."""


class Scope:
    """The names that the nodes of a graph see.

    Attributes:
        opsets: versions of domains.
        attributes: of the call whose body this is; references to them are replaced.
        trail: the nodes that this is inside of, for messages.
        line: the position of the outermost of them in the model's graph.
        path: which nodes these are, so that each node of a model has one of its own, however often its function is called.
        iterations: the numbers of the iterations of all loops around, from the outermost: known, or scalars of a run.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        attributes: Mapping[str, Attribute],
        parent: Scope | None = None,
        trail: str = "",
        line: int | None = None,
        path: tuple[int | str, ...] = (),
        iterations: tuple[int | Symbol, ...] = (),
    ) -> None:
        self.opsets, self.attributes, self.parent, self.trail, self.line = opsets, attributes, parent, trail, line
        self.path, self.iterations = path, iterations
        self.names: dict[str, Value | None] = {}

    def has(self, name: str) -> bool:
        """Return whether a name stands for something, here or outside."""
        return name in self.names or (self.parent is not None and self.parent.has(name))

    def find(self, name: str) -> Value | None:
        """Return the value of a name, of the innermost scope that has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        raise UserError(f"{name!r:.80} has no value here; fix: export the model again")


class Importer:
    """Adds the nodes of a model to a graph. check_positions: whether positions out of range are errors of a run."""

    def __init__(self, model: CheckedModel, graph: Graph, limits: OnnxLimits, check_positions: bool = False) -> None:
        self.model, self.graph, self.limits, self.check_positions = model, graph, limits, check_positions
        self.nodes = self.folded_bytes = self.depth = self.branches = 0
        self.symbols: dict[int, tuple[Known, Symbol]] = {}
        self.calls: dict[int, Call | None] = {}
        self.too_large: dict[int, Body] = {}

    def run_body(self, body: Body, scope: Scope) -> list[Value]:
        """Run the nodes of a graph whose inputs have values, and return those of its outputs."""
        for name, constant in body.constants.items():
            scope.names.setdefault(name, constant)
        self.run_nodes(body.nodes, scope, {output.name for output in body.outputs})
        return [self.output_of(body, output.name, scope) for output in body.outputs]

    def run_nodes(self, nodes: Ordered[NodeDef], scope: Scope, wanted: set[str]) -> None:
        """Run nodes in order. wanted: names that are read when all have run."""
        read = {name for node in nodes for name in (*node.inputs, *node.captured)}
        for position, node in enumerate(nodes):
            used = {*wanted, *(name for name in node.outputs if name in read)}
            if node.op != "If":
                self.run_node(node, scope, used)
                continue
            undo = self.undoing()
            try:
                self.run_node(node, scope, used)
            except DivergingError as error:
                if error.attributes is not node.attributes:
                    raise
                undo()
                self.run_diverging(node, nodes[position + 1 :], scope, wanted, error)
                return

    def undoing(self) -> Callable[[], None]:
        """Return a function that removes what is added to the graph from now on."""
        before, symbols = mark(self.graph), dict(self.symbols)

        def undo() -> None:
            rewind(self.graph, before)
            self.symbols.clear()
            self.symbols.update(symbols)

        return undo

    def run_diverging(
        self, node: NodeDef, rest: Ordered[NodeDef], scope: Scope, wanted: set[str], error: DivergingError
    ) -> None:
        """Run an If whose branches return different types, and the nodes behind it.

        They become part of both branches, of which the host takes one. If they are a mistake behind one of the branches, the
        other one is imported, and a run for which the condition is not that of this one ends with an error.
        """
        made = [name for each in (node, *rest) for name in each.outputs if name in wanted]
        both = continued(node, rest, made)
        refused: dict[bool, JoineryError] = {}
        for choice in (True, False):
            undo = self.undoing()
            try:
                self.run_subgraph(both.attributes["then_branch" if choice else "else_branch"].value, (), scope, node)
            except (UserError, UnsupportedError) as refusal:
                refused[choice] = refusal
            undo()
        if not refused and rest:
            try:
                return self.run_node(both, scope, set(made))
            except DivergingError:  # what the nodes behind it return differs, too
                raise error.instead or error from None
        if len(refused) != 1 or not all(isinstance(problem, UserError) for problem in refused.values()):
            instead = located(error.instead or error, str(getattr(error, "onnx_node", self.model.file)))
            for choice, problem in refused.items():
                instead.add_note(f"If the condition is {choice}, the nodes behind the If are refused: {problem}")
            raise instead from None
        ((failing, problem),) = refused.items()
        chosen, name, constant = taking(node, not failing)
        scope.names[name] = constant
        condition = scope.find(node.inputs[0])
        if condition is None:
            raise error.instead or error
        flag = self.symbol_of(condition, "a condition").reshape(())
        self.run_nodes((chosen, *rest), scope, wanted)
        where = getattr(error, "onnx_node", f"{self.model.file}: {scope.trail}{node.label}")
        text = (
            f"{where}: the condition is {failing} in this run, and nodes behind the If are refused for what that branch "
            f"returns: {str(problem).splitlines()[0]}; fix: inputs for which it is {not failing}, or export the model again"
        )
        for each in made:
            value = scope.names[each]
            if isinstance(value, (Known, Sizes, Symbol)):
                scope.names[each] = required(self.symbol_of(value, "an output"), flag, not failing, text)

    def output_of(self, body: Body, name: str, scope: Scope) -> Value:
        """Return the value of an output of a graph. Raises `UserError` where nothing computes it."""
        value = scope.find(name) if scope.has(name) else None
        if value is None:
            problem = f"output {name!r:.80} has no value, nothing in graph {body.name!r:.80} computes it"
            raise UserError(f"{self.model.file}: {problem}; fix: export the model again")
        return value

    def run_node(self, node: NodeDef, scope: Scope, used: set[str]) -> None:
        """Run one node and give its outputs their names."""
        line = node.index if scope.line is None else scope.line
        where = f"{self.model.file}: node {line} ({scope.trail}{node.label})"
        self.count(1)
        values = [scope.find(name) if name else None for name in node.inputs]
        while values and values[-1] is None:
            values.pop()
        try:
            with self.graph.located(NodeLocation(self.model.file, line, f"{scope.trail}{node.label}")):
                results = self.results_of(node, values, scope, used)
                for position, name in enumerate(node.outputs):
                    if not name:
                        continue
                    if position >= len(results) or (results[position] is None and name in used):
                        if name in used:
                            raise UnsupportedError(
                                f"output {position} ({name!r}) is not supported; fix: export the model without it"
                            )
                        continue
                    scope.names[name] = self.checked(results[position])
        except LongSizeError as error:
            raise located(sizes_instead(self.graph, error), f"{where}{_operands(values)}") from None
        except JoineryError as error:
            raise located(error, f"{where}{_operands(values)}") from None
        except MemoryError:
            raise located(UserError("too little memory; fix: smaller sizes"), f"{where}{_operands(values)}") from None
        except _TRIES as error:
            raise located(InternalError(f"{type(error).__name__}: {error}"), f"{where}{_operands(values)}") from error

    def results_of(self, node: NodeDef, values: list[Value | None], scope: Scope, used: set[str]) -> tuple[Value | None, ...]:
        """Return the outputs of a node: of the function it calls, of a handler, or of the operator's definition."""
        attributes = _substituted(node, scope)
        function = self.model.functions.get((node.domain, node.op, node.overload))
        if function is not None:
            own = self.own_op(function, values, bool(node.row))
            return (own,) if own is not None else self.call(function, node, values, attributes, scope)
        if node.domain not in scope.opsets:
            raise UserError(f"the model imports no opset of domain {node.domain or 'ai.onnx'!r}; fix: export the model again")
        opset = scope.opsets[node.domain]
        if node.domain == "" and not 1 <= opset <= MAX_OPSET:
            raise UnsupportedError(f"opset {opset} of ai.onnx; 1 to {MAX_OPSET} are known; fix: export the model for those")
        domain, op, opset = as_standard(node.domain, node.op, opset)
        node = node if domain == node.domain else replace(node, domain=domain, op=op)
        found = operator(domain, op, opset)
        if found is not None:
            _require_signature(found, node, attributes)
        elif node.domain == "" and (newer := operator("", op, load_onnx().defs.onnx_opset_version())) is not None:
            _require_types(newer, attributes)  # an operator that is younger than the model's opset
        version = found.since if found is not None else opset
        handler = handler_for(node.domain, node.op, version)
        if handler is None:
            return self.by_definition(found, node, values, attributes, scope)
        plain = {name: attribute.value for name, attribute in attributes.items()}
        defaults = dict(found.defaults) if found is not None else {}
        outputs = tuple([name if name in used else "" for name in node.outputs])
        definition_ = replace(node, outputs=outputs)

        def made(graph: Graph, symbols: dict[int, tuple[Known, Symbol]]) -> Node:
            def run(body: Body, inputs: Ordered[Value | None], iteration: int | Symbol | None = None) -> list[Value]:
                return self.run_subgraph(body, inputs, scope, node, iteration)

            node_ = Node(definition_, version, values, plain, defaults, graph, symbols, run, self.limits, self.inside)
            node_.path, node_.iterations = (*scope.path, node.index), scope.iterations
            node_.too_large, node_.producer = self.too_large, self.model.producer
            # what a branch reads that is not taken must raise nothing
            node_.checks_positions = self.check_positions and not self.branches and not is_compiled_region(graph)
            return node_

        if node.domain == "":
            on = on_sizes(made(self.graph, self.symbols))
            if on is not None:
                return (self.symbol_of(on, "a size"),) if node.row == "dim_value" else (on,)
        try:
            return self.handled(handler, node, values, plain, made)
        except LeftToDefinition:
            return self.by_definition(found, node, values, attributes, scope)

    def by_definition(
        self, found: Operator | None, node: NodeDef, values: list[Value | None], attributes: Mapping[str, Attribute],
        scope: Scope,
    ) -> tuple[Value | None, ...]:
        """Return the outputs of a node by the function that defines its operator."""
        definition = None
        if found is not None:
            definition = definition_of(found, node, values, attributes, scope.opsets, self.model.file, self.limits)
        if definition is None:
            named = f"operator {printable(node.op)} of domain {printable(node.domain or 'ai.onnx')}"
            raise UnsupportedError(
                f"{named}, opset {scope.opsets.get(node.domain)}, is not "
                "supported; fix: export the model with other operators, or compute this part outside"
            )
        return self.call(definition, node, values, attributes, scope)

    def handled(
        self, handler: Handler, node: NodeDef, values: list[Value | None], attributes: Mapping[str, Any],
        made: Callable[..., Node],
    ) -> tuple[Value | None, ...]:
        """Return the outputs of a node by its handler; constants alone are folded."""
        are_known = all(value is None or isinstance(value, Known) for value in values)
        texts = _text_bytes(node.op, values, attributes)
        if are_known and not node.row and (node.domain, node.op) not in STRUCTURAL and texts <= self.limits.folded_bytes:
            folded = self.folded(handler, made, texts)
            if folded is not None:
                return self.as_codes(folded, handler, made) if node.op == "DequantizeLinear" else folded
        return _handled(handler, made(self.graph, self.symbols))

    def checked(self, value: Value | None) -> Value | None:
        """Return a value whose size is known to be within the limit, or depends on the launch, which checks it."""
        if isinstance(value, (Known, Symbol)) and known_elements(value.shape) > self.limits.elements:
            raise UserError(f"a tensor of shape {shape_text(value.shape)}; fix: limits=OnnxLimits(elements=…) if you trust it")
        return value

    def folded(self, handler: Handler, made: Any, texts: int) -> tuple[Value | None, ...] | None:
        """Return the outputs of a node all of whose inputs are constants, as constants; None if they are too large for that.

        texts: what their strings take, in bytes.
        """
        scratch = Graph("constants", policy="strict")
        scratch.journal.busy = True
        with scratch.located(self.graph.current_location or Location(self.model.file, 0, "")):
            results = _handled(handler, made(scratch, {}))
            symbols = [value for value in results if isinstance(value, Symbol)]
            if not symbols:
                return results
            nbytes = texts + sum(size for symbol in scratch.symbols if isinstance(size := symbol.nbytes, int))
            if nbytes > self.limits.folded_bytes or self.folded_bytes + nbytes > self.limits.all_folded_bytes:
                return None
            self.folded_bytes += texts + sum(size for symbol in symbols if isinstance(size := symbol.nbytes, int))
            scratch.output(*symbols, names=[f"output{position}" for position in range(len(symbols))])
        arrays = evaluate(scratch)
        computed = iter(arrays if isinstance(arrays, tuple) else (arrays,))
        found: list[Value | None] = []
        for value in results:
            if isinstance(value, Symbol):
                array = next(computed)
                array.flags.writeable = False
                value = Known(array)
            found.append(value)
        return tuple(found)

    def as_codes(self, results: tuple[Value | None, ...], handler: Handler, made: Any) -> tuple[Value | None, ...]:
        """Return what DequantizeLinear makes of constants as a constant that becomes the same operation in a graph."""
        location = self.graph.current_location or Location(self.model.file, 0, "")

        def symbol(graph: Graph, symbols: dict[int, tuple[Known, Symbol]]) -> Symbol:
            with graph.located(location):
                (result,) = _handled(handler, made(graph, symbols))
            assert isinstance(result, Symbol)
            return result

        return tuple([Known(value.array, None, symbol) if isinstance(value, Known) else value for value in results])

    def own_op(self, function: FunctionDef, values: Ordered[Value | None], is_kept: bool) -> Symbol | None:
        """Return the op that a function was exported for, None for other functions.

        None, too, where there is nothing but constants, which are folded unless the op is to be kept.
        """
        key = id(function)
        if key not in self.calls:
            self.calls[key] = recognised(load_onnx(), function.message)
        call = self.calls[key]
        if call is None or len(values) != len(call.operands):
            return None
        if not is_kept and all(isinstance(value, Known) for value in values):
            return None
        tensors = [value for value in values if isinstance(value, (Known, Sizes, Symbol))]
        if tuple([value.dtype for value in tensors]) != call.operands:
            return None
        operands = [self.symbol_of(value, f"operand {position}") for position, value in enumerate(tensors)]
        symbol = self.graph.apply(call.row, operands, call.attrs, call.attrs.get("dtype"))
        return symbol if symbol.dtype is call.result else None

    def call(
        self,
        function: FunctionDef,
        node: NodeDef,
        values: Ordered[Value | None],
        attributes: Mapping[str, Attribute],
        scope: Scope,
    ) -> tuple[Value | None, ...]:
        """Inline a function."""
        if self.depth >= self.limits.depth:
            raise UserError(f"functions are nested more than {self.limits.depth} deep; fix: limits=OnnxLimits(depth=…)")
        body = function.body
        if len(values) > len(body.inputs):
            raise UserError(f"{len(values)} inputs, the function takes {len(body.inputs)}; fix: export the model again")
        own = {name: default for name, default in function.attributes.items() if default is not None}
        own.update(attributes)
        inner = Scope(
            function.opsets, own, None, f"{scope.trail}{node.label} > ", node.index if scope.line is None else scope.line,
            (*scope.path, node.index, ""), scope.iterations,
        )  # fmt: skip
        padded = [*values, *[None] * (len(body.inputs) - len(values))]
        inner.names.update({parameter.name: value for parameter, value in zip(body.inputs, padded, strict=True)})
        self.depth += 1
        try:
            return tuple(self.outputs_of_function(body, inner, node))
        finally:
            self.depth -= 1

    def outputs_of_function(self, body: Body, scope: Scope, node: NodeDef) -> list[Value | None]:
        """Run the body of a function; outputs that the call leaves out may have no value."""
        produced = {name for each in body.nodes for name in each.outputs}
        wanted = [parameter.name for parameter, name in zip(body.outputs, node.outputs, strict=False) if name]
        self.run_nodes(body.nodes, scope, set(wanted))
        found: list[Value | None] = []
        for parameter in body.outputs:
            known = parameter.name in wanted and (parameter.name in scope.names or parameter.name in produced)
            found.append(scope.find(parameter.name) if known else None)
        return found

    def run_subgraph(
        self, body: Body, inputs: Ordered[Value | None], scope: Scope, node: NodeDef, iteration: int | Symbol | None = None
    ) -> list[Value]:
        """Import a subgraph of a node with values for its inputs. iteration: its number, where the node is a loop."""
        if len(inputs) != len(body.inputs):
            raise UserError(f"the subgraph takes {len(body.inputs)} inputs, it gets {len(inputs)}; fix: export the model again")
        line = node.index if scope.line is None else scope.line
        iterations = scope.iterations if iteration is None else (*scope.iterations, iteration)
        path = (*scope.path, node.index, body.attribute)
        inner = Scope(scope.opsets, scope.attributes, scope, f"{scope.trail}{node.label} > ", line, path, iterations)
        inner.names.update({parameter.name: value for parameter, value in zip(body.inputs, inputs, strict=True)})
        self.branches += node.op == "If"
        try:
            return self.run_body(body, inner)
        finally:
            self.branches -= node.op == "If"

    @contextmanager
    def inside(self, region: Region) -> Iterator[dict[int, tuple[Known, Symbol]]]:
        """Add nodes to a region of the graph instead, with constants of its own, which are given."""
        before = self.graph, self.symbols
        self.graph, self.symbols = region, {}
        try:
            with region.building():
                yield self.symbols
        finally:
            self.graph, self.symbols = before

    def count(self, nodes: int) -> None:
        """Count nodes that are run. Raises `UserError` beyond the limit."""
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            raise UserError(
                f"more than {self.limits.nodes} nodes once functions and loops are unrolled; fix: limits=OnnxLimits(nodes=…)"
            )

    def symbol_of(self, value: Value, what: str) -> Symbol:
        """Return a tensor as a symbol of the imported graph."""
        return as_symbol(self.graph, value, self.symbols, what)


def _text_bytes(op: str, values: Ordered[Value | None], attributes: Mapping[str, Any]) -> int:
    """Return a bound of the memory that a node makes of strings that are constants, in bytes."""
    arrays = [value.array for value in values if isinstance(value, Known) and value.array.dtype.hasobject]
    if op == "StringConcat" and len(arrays) == 2:
        try:
            return concatenated_bytes(*arrays)
        except ValueError:  # shapes that do not fit, which its handler refuses
            return 0
    given = sum(map(text_bytes, arrays))
    if op == "StringSplit" and arrays and given <= MAX_TEXT_BYTES:
        longest = max(map(len, arrays[0].reshape(-1).tolist()), default=0)
        parts, limit = longest // (len(attributes.get("delimiter") or "") or 2) + 1, attributes.get("maxsplit")
        return given + arrays[0].size * (min(parts, limit + 1) if type(limit) is int and limit > 0 else parts) * TEXT_ENTRY
    return given


def _handled(handler: Handler, node: Node) -> tuple[Value | None, ...]:
    result: Result = handler(node)
    unread = node.unread()
    if unread:
        raise UnsupportedError(f"{unread} of {node.op} is not supported; fix: export the model without it")
    return result if isinstance(result, tuple) else (result,)


def _substituted(node: NodeDef, scope: Scope) -> dict[str, Attribute]:
    """Return a node's attributes, references replaced by the attributes of the call; what the call leaves out is absent."""
    found: dict[str, Attribute] = {}
    for name, attribute in node.attributes.items():
        if isinstance(attribute.value, Reference):
            given = scope.attributes.get(attribute.value.name)
            if given is None:
                continue
            message = type(given.message)()
            message.CopyFrom(given.message)
            message.name = name
            attribute = Attribute(given.value, message)
        found[name] = attribute
    return found


def _require_signature(found: Operator, node: NodeDef, attributes: Mapping[str, Attribute]) -> None:
    count, results = len(node.inputs), len(node.outputs)
    if not found.min_inputs <= count <= found.max_inputs:
        some = f"{found.min_inputs} to {found.max_inputs}" if found.min_inputs < found.max_inputs else found.max_inputs
        raise UserError(f"{count} inputs, the operator takes {some}; fix: export the model again")
    if results > found.max_outputs:
        raise UserError(f"{results} outputs, the operator gives {found.max_outputs}; fix: export the model again")
    unknown = sorted(set(attributes) - (found.attributes or frozenset()))
    if unknown:
        raise UserError(f"attribute {unknown[0]!r} is unknown since version {found.since}; fix: export the model again")
    _require_types(found, attributes)


def _require_types(found: Operator, attributes: Mapping[str, Attribute]) -> None:
    for name, attribute in attributes.items():
        if name in found.types and attribute.message.type != found.types[name]:
            raise UserError(f"attribute {name!r} is of another type than the operator's; fix: export the model again")


def _operands(values: Ordered[Value | None]) -> str:
    """Describe the inputs of a node for messages."""
    texts: list[str] = []
    for value in values[:8]:
        if value is None:
            texts.append("absent")
        elif isinstance(value, COMPOSITE):
            texts.append(type(value).__name__.lower())
        else:
            dtype: DType | str = value.dtype
            texts.append(f"{dtype} {shape_text(value.shape)}" + (" of sizes" if isinstance(value, Sizes) else ""))
    return f" on {', '.join(texts)}" if texts else ""
