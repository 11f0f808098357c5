"""Reads graphs of torch.fx, of functional ATen operators, into programs that the importer takes."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ...graph.aten.program import DECIDING, Argument, Call, Program, Ref, Source
from ...graph.dims.dim import Dim, Extent, dim
from ...graph.location import UNKNOWN, Location
from ...graph.types import TensorType
from ...promotion.dtype import DType, bool_, float64, int64
from ...promotion.errors import JoineryError, UnsupportedError
from .layouts import layout_of
from .tensors import condition_of, decided_sizes, dtype_of, expression_of, extent_of, require_plain, to_array

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_PYTORCH = os.path.dirname(torch.__file__) + os.sep
_SILENT = frozenset({"sym_constrain_range_for_size", "sym_constrain_range", "_assert_scalar", "sym_size", "sym_numel",
                     "sym_stride", "sym_storage_offset"})
"""Statements about sizes that data decides, or sizes: nothing of them is left in a graph without such sizes."""
_ITEM = "aten._local_scalar_dense.default"
"""The operator behind `.item()`."""
_OF_NUMBERS = {
    "sym_float": "cast", "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "neg": "negate",
    "sqrt": "sqrt", "log": "log", "log2": "log2", "exp": "exp", "sin": "sin", "cos": "cos", "tanh": "tanh", "abs": "abs",
}  # fmt: skip
"""Functions of floats that data or sizes decide → rows."""
_OF_TRUTHS = {
    "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less", "eq": "equal", "ne": "not_equal",
    "and": "logical_and", "or": "logical_or", "not": "logical_not", "add": "add", "sub": "sub", "mul": "mul",
    "floordiv": "floor_div", "mod": "mod",
}  # fmt: skip
"""Functions that assertions are made of → rows."""
_FUNCTION = re.compile(r"^(_sym_|sym_(?!float)|math_)|_$")
"""What names of functions of symbolic numbers have around those of Python."""
_HIGHER_ORDER = frozenset({"cond", "while_loop", "scan", "map_impl"})


class Reader:
    """Reads the nodes of one graph.

    Attributes:
        names: new names of symbolic sizes.
        refused: nodes that cannot be read, and why; of strict readers, sizes that nothing may need.
        sources: constants that the graph holds itself.
        modules: graphs that it holds, for operators that run them.
        conditions: nodes that compare sizes, and what they give.
        opaque: nodes that make sizes of expressions without a form, which have their names.
        is_inside: whether it is a graph that an operator of another one runs.
        unread: the messages of assertions that have no form here.
    """

    def __init__(self, module: Any, names: Mapping[str, str] | None = None, *, strict: bool = True) -> None:
        self.module, self.names, self.strict = module, dict(names or {}), strict
        self.refs: dict[str, Ref | Extent | None] = {}
        self.refused: dict[str, JoineryError] = {}
        self.sources: list[Source] = []
        self.modules: dict[str, Any] = {}
        self.conditions: dict[str, Any] = {}
        self.opaque: set[str] = set()
        self.is_inside = False
        self.unread: list[str] = []

    def begin_again(self) -> None:
        """Forget what was read of nodes, since the graph has changed; inputs and names of sizes stay."""
        self.refused.clear()
        self.sources.clear()

    def source(self, node: Any, name: str) -> Source | None:
        """Return an input of the graph under a name, for which the node stands from now on; None if it is no tensor."""
        value = node.meta.get("val")
        if _is_tensor(value):
            self.refs[node.name] = Ref(name)
            return Source(name, self.type_of(value, f"input {name!r}"))
        self.refs[node.name] = None if value is None else self.size(value)
        return None

    def name_sizes(self, node: Any) -> None:
        """Give the sizes of an input names of their own where they are expressions without a form."""
        value = node.meta.get("val")
        shape = getattr(value, "shape", None)
        for axis, size in enumerate((value,) if shape is None else shape):
            if type(size).__name__ != "SymInt":
                continue
            if self._name_size(size, node.name if shape is None else f"{node.name}_{axis}") and shape is None:
                self.opaque.add(node.name)

    def _name_size(self, size: Any, name: str) -> bool:
        """Return whether a size needed a name, which it has got."""
        try:
            extent_of(size, self.names)
        except UnsupportedError:
            self.names[str(size.node.expr)] = name
            return True
        return False

    def type_of(self, value: Any, what: str) -> TensorType:
        """Return dtype and shape of a tensor."""
        require_plain(value, what)
        return TensorType(dtype_of(value.dtype), tuple([extent_of(size, self.names) for size in value.shape]))

    def size(self, value: Any) -> Extent | None:
        """Return a size or a number that is known now; None for anything else."""
        if isinstance(value, (bool, int)):
            return value
        kind = type(value).__name__
        if kind == "SymInt":
            return extent_of(value, self.names)
        return None

    def calls(self, nodes: list[Any]) -> list[Call]:
        """Return the calls of a graph's nodes."""
        found = []
        for node in nodes:
            if node.op not in ("call_function", "get_attr"):
                continue
            try:
                call = self._node(node)
            except JoineryError as error:
                if self.strict and type(node.meta.get("val")).__name__ == "SymInt":
                    self.refused[node.name] = error  # matters where an operator needs the size
                    continue
                if self.strict:
                    raise type(error)(f"node {node.name!r} ({node.target}), from {location_of(node)}: {error}") from None
                self.refused[node.name] = error
                call = self._stand_in(node)
            if call is not None:
                found.append(call)
        return found

    def _stand_in(self, node: Any) -> Call | None:
        """Return a call without arguments for a node that cannot be read, so that those that need its results can."""
        value = node.meta.get("val")
        values = tuple(value.values()) if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else (value,)
        try:
            results = tuple([self.type_of(each, "a result") if _is_tensor(each) else None for each in values])
        except JoineryError:
            return None
        self.refs[node.name] = Ref(node.name)
        return Call(node.name, f"torch.{_shown(node.target)}", (), {}, results, location_of(node))

    def _node(self, node: Any) -> Call | None:
        value = node.meta.get("val")
        if node.op == "get_attr":
            self._attribute(node)
            return None
        if node.target is operator.getitem:
            if isinstance(value, (tuple, list)) or not isinstance(node.args[0].meta.get("val"), (tuple, list, dict)):
                raise UnsupportedError("a result of an operator that runs others, and states lists of lists, or nothing")
            self.refs[node.name] = self._item(node.args[0], node.args[1])
            return None
        overload = _overload_name(node.target)
        if overload is None and higher_order_name(node.target) in _HIGHER_ORDER:
            return self._higher_order(node, value)
        if overload is None:
            size = self._size_node(node, value)
            if size is not None:
                self.refs[node.name] = size
                return None
            if type(value).__name__ == "SymFloat":
                return self._float(node)
            if type(value).__name__ == "SymBool":
                self.conditions[node.name] = value
                return None
            raise UnsupportedError(f"{_shown(node.target)} is not supported; fix: export the model without it")
        if overload.startswith("aten._assert_scalar.") and self.strict:
            return self._assertion(node)
        if overload.split(".")[1] in _SILENT:
            self.refs[node.name] = self.size(value) if value is not None else None
            return None
        if overload == _ITEM:
            return self._item_of_tensor(node, value)
        order = None
        if overload.startswith("aten.as_strided"):
            if not self.strict and node.args[0].op == "placeholder" and RELATIVE not in node.meta:
                raise UnsupportedError("a view by strides of the storage of an input, which may begin anywhere in it")
            order = _storage_order(overload, node.args[0].meta["val"])
        values = value if isinstance(value, (tuple, list)) else () if value is None else (value,)
        if overload in DECIDING:
            self.names.update({name: name for name in decided_sizes(values)})
        results = tuple([
            self.type_of(each, f"result {position}") if _is_tensor(each) else None for position, each in enumerate(values)
        ])  # fmt: skip
        self.refs[node.name] = Ref(node.name)
        arguments = tuple([self.argument(each) for each in node.args])
        options = {name: self.argument(each) for name, each in node.kwargs.items()}
        if order is not None:
            options["order"] = order
        device = node.kwargs.get("device")
        if device is not None and getattr(device, "type", "cpu") != "cpu":
            raise UnsupportedError(f"device {device}; fix: move the model to the CPU")
        return Call(node.name, overload, arguments, options, results, location_of(node))

    def _item_of_tensor(self, node: Any, value: Any) -> Call | None:
        """Return the call of `.item()`: what it gives is a size, if it cannot be negative, else a tensor without axes.

        In a graph whose nodes PyTorch may run, it runs `.item()`; a size that this decides is an input of what comes after.
        """
        name = str(value)
        if type(value).__name__ == "SymInt" and re.fullmatch(r"u\d+", name):
            bounds = value.node.shape_env.var_to_range.get(value.node.expr)
            if bounds is not None and bounds.lower >= 0:
                self.names[name] = name
                self.refs[node.name] = size = dim(name)
                if not self.strict:
                    self.refused[node.name] = UnsupportedError("it decides a size")
                    return None
                result = TensorType(bool_, (size, 0))
                return Call(node.name, _ITEM, (self.argument(node.args[0]),), {}, (result,), location_of(node))
        if not self.strict:
            raise UnsupportedError("it gives a number to Python")
        return self._number(node, _ITEM, {"SymInt": int64, "SymBool": bool_}.get(type(value).__name__, float64))

    def _assertion(self, node: Any) -> Call | None:
        """Return the call that requires a condition on numbers that data decides; None for one without a form."""
        condition, message = node.args[0], str(node.args[1] if len(node.args) > 1 else "a condition must hold")
        if condition is True:
            return None
        try:
            tree = self._tree(condition)
        except UnsupportedError:
            tree = None
        if isinstance(tree, tuple) and tree[0] == "greater_equal" and isinstance(tree[1], Dim) and tree[2] in (0, False):
            return None  # as sizes are
        if tree is None or self.is_inside:
            self.unread.append(message)
            return None
        return Call(node.name, "number.asserted.default", (tree, message), {}, (), location_of(node))

    def _tree(self, value: Any) -> Argument:
        """Return a function of numbers: a row and what it is applied to. Numbers that `.item()` gives are the tensors that hold
        them, since sizes are never negative."""
        if isinstance(value, (bool, int, float)):
            return value
        if not isinstance(value, torch.fx.Node):
            raise UnsupportedError(f"{value!r:.40} in an assertion")
        if _overload_name(value.target) == _ITEM:
            return self.argument(value.args[0])
        row = _OF_TRUTHS.get(_FUNCTION.sub("", getattr(value.target, "__name__", "")))
        if row is not None and value.op == "call_function" and not value.kwargs:
            return (row, *[self._tree(each) for each in value.args])
        known = self.refs.get(value.name)
        if isinstance(known, (int, Dim)):
            return known
        raise UnsupportedError(f"{_shown(value.target)} in an assertion")

    def _float(self, node: Any) -> Call | None:
        """Return the call that computes a float; None if it has no form, which matters where a tensor needs it."""
        row = _OF_NUMBERS.get(_FUNCTION.sub("", getattr(node.target, "__name__", "")))
        needed = [each.name for each in node.all_input_nodes]
        if row is None or node.kwargs or any(name not in self.refs for name in needed):
            return None
        return self._number(node, "number.of_numbers.default", float64, row)

    def _number(self, node: Any, overload: str, dtype: DType, *options: str) -> Call:
        """Return a call whose result is a number that data or sizes decide, as a tensor without axes."""
        self.refs[node.name] = Ref(node.name)
        arguments = (*options, *[self.argument(each) for each in node.args])
        return Call(node.name, overload, arguments, {}, (TensorType(dtype, ()),), location_of(node))

    def _higher_order(self, node: Any, value: Any) -> Call:
        """Return the call of an operator that runs other graphs."""
        values = value if isinstance(value, (tuple, list)) else (value,)
        arguments = tuple([self.argument(each) for each in node.args])
        options = {name: self.argument(each) for name, each in node.kwargs.items()}
        results = tuple([
            self.type_of(each, f"result {position}") if _is_tensor(each) else None for position, each in enumerate(values)
        ])  # fmt: skip
        self.refs[node.name] = Ref(node.name)
        name = f"higher_order.{higher_order_name(node.target)}.default"
        return Call(node.name, name, arguments, options, results, location_of(node))

    def _body(self, module: Any) -> Program:
        """Return a graph that an operator runs as a program; its sizes are those of this one."""
        inner = Reader(module, self.names)
        inner.is_inside, inner.unread = True, self.unread
        nodes = list(module.graph.nodes)
        sources = [inner.source(node, node.name) for node in nodes if node.op == "placeholder"]
        calls = inner.calls(nodes)
        (last,) = [node for node in nodes if node.op == "output"]
        found = inner.argument(tuple(last.args[0]) if isinstance(last.args[0], (tuple, list)) else (last.args[0],))
        outputs: list[tuple[str, Ref | Extent]] = []
        for position, result in enumerate(found if isinstance(found, tuple) else (found,)):
            if not isinstance(result, (Ref, int, Dim)) or isinstance(result, bool):
                raise UnsupportedError(f"result {position} of a graph inside is {result!r:.40}; fix: return tensors from it")
            outputs.append((f"value{position}", result))
        given = [source for source in sources if source is not None]
        return Program("body", (*given, *inner.sources), tuple(calls), tuple(outputs), {})

    def _size_node(self, node: Any, value: Any) -> Extent | None:
        if not self.strict and type(value).__name__ == "SymInt" and self._name_size(value, node.name):
            self.opaque.add(node.name)
        return None if value is None else self.size(value)

    def _attribute(self, node: Any) -> None:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if hasattr(value, "graph"):
            self.modules[node.name] = value
            return
        if not _is_tensor(value):
            self.refs[node.name] = None
            return
        name = _free_name(str(node.target), {source.name for source in self.sources})
        self.sources.append(Source(name, self.type_of(value, f"constant {name!r}"), to_array(value)))
        self.refs[node.name] = Ref(name)

    def _item(self, container: Any, position: int | str) -> Ref | Extent | None:
        ref = self.refs.get(container.name)
        if not isinstance(ref, Ref):
            raise UnsupportedError(f"an element of {container.name!r}, which is no result of an operator; fix: export it again")
        if isinstance(position, str):  # kernels of Triton return what they write by the names of their parameters
            position = list(container.meta["val"]).index(position)
        return Ref(ref.name, position)

    def argument(self, value: Any) -> Argument:
        """Return an argument of a node as a plain value."""
        if hasattr(value, "meta") and hasattr(value, "op"):  # a node
            if value.name in self.modules:
                return self._body(self.modules[value.name])
            if value.name in self.conditions:
                return condition_of(self.conditions[value.name].node.expr, self.names)
            if self.strict and value.name in self.refused:
                raise self.refused[value.name]
            if value.name not in self.refs:
                raise UnsupportedError(f"it needs {value.name!r}, which has no form in joinery; fix: see there")
            return self.refs[value.name]
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return value
        if isinstance(value, (tuple, list)):
            return tuple([self.argument(each) for each in value])
        kind = type(value).__name__
        if kind == "dtype":
            return dtype_of(value)
        if kind in ("device", "layout", "memory_format"):
            return str(value)
        if kind == "SymInt":
            return extent_of(value, self.names)
        raise UnsupportedError(f"an argument {value!r:.60} ({kind}); fix: export the model without it")


def higher_order_name(target: Any) -> str:
    """Return the name of a higher-order operator; "" for anything else."""
    is_one = any(base.__name__ == "HigherOrderOperator" for base in type(target).__mro__)
    return str(target.__name__) if is_one else ""


def states_sizes(node: Any) -> bool:
    """Return whether a node says something about sizes, or makes one, and computes nothing."""
    return getattr(node.target, "_opname", "") in _SILENT


def gives_size(node: Any) -> bool:
    """Return whether a node takes a number out of a tensor."""
    return node.target is torch.ops.aten._local_scalar_dense.default


def is_symbolic(node: Any) -> bool:
    """Return whether the value of a node is a symbolic number."""
    return type(node.meta.get("val")).__name__ in ("SymInt", "SymFloat", "SymBool")


def sizes_before(nodes: Iterable[Any]) -> set[Any]:
    """Return the nodes that compute the symbolic numbers that nodes need."""
    found: set[Any] = set()
    pending = list(nodes)
    while pending:
        for each in pending.pop().all_input_nodes:
            if each.op == "call_function" and is_symbolic(each) and not gives_size(each) and each not in found:
                found.add(each)
                pending.append(each)
    return found


def is_view(node: Any) -> bool:
    """Return whether a node is a view of its first operand, or one of several such."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.returns:
        return False
    return all(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)


def base_of(node: Any) -> Any:
    """Return the node that a node is a view of, itself if it is none."""
    while is_view(node):
        node = node.args[0]
    return node


RELATIVE = "offset from its base"
"""In the meta of a view by strides without an offset: by how much its first element is behind that of what it is taken of."""


def rebase_views_by_strides(module: Any) -> None:
    """Let views by strides, which count from the beginning of a storage, be of what the storage was made for.

    Without an offset they begin where what they are taken of does, which is somewhere else at each call if that is an input.
    """
    for node in module.graph.nodes:
        if node.op != "call_function" or getattr(node.target, "_opname", "") not in ("as_strided", "as_strided_copy"):
            continue
        given = at = node.args[0]
        dtype = given.meta["val"].dtype
        while is_view(at):
            before = at.args[0].args[0] if at.target is operator.getitem else at.args[0]
            if before.meta["val"].dtype != dtype:
                break
            at = before
        size, stride, *offset = node.args[1:]
        first = offset[0] if offset else None
        if first is None:
            first = given.meta["val"].storage_offset()
            behind = first - at.meta["val"].storage_offset()
            if not isinstance(behind, int):
                continue  # of what it is written for, which has its offset
            node.meta[RELATIVE] = behind
        if at is not given or RELATIVE in node.meta:
            node.args = (at, size, stride, first)


def _storage_order(op: str, value: Any) -> tuple[int, ...] | None:
    """Return the axes of a tensor that is all of its storage, from the outermost to the innermost; None if they are in order.

    Raises `UnsupportedError` for others.
    """
    if value.storage_offset() == 0 and value.is_contiguous():
        return None
    layout = layout_of(value)
    if layout.copies or layout.strides is None or value.storage_offset() != 0 or op.startswith("aten.as_strided_scatter"):
        raise UnsupportedError("as_strided of a view is not supported; fix: slices and transposes, or contiguous() before it")
    return layout.order


def location_of(node: Any) -> Location:
    """Return the line of the model that a node comes from: the innermost that is no part of PyTorch."""
    trace = node.meta.get("stack_trace") or ""
    found = list(_LINE.finditer(trace))
    if not found:
        return UNKNOWN
    own = [line for line in found if not line["file"].startswith((_PYTORCH, "<"))]
    last = (own or found)[-1]
    return Location(last["file"], int(last["line"]), last["function"])


def ranges_of(constraints: Mapping[Any, Any], names: Mapping[str, str]) -> dict[str, tuple[int, int | None]]:
    """Return the ranges of symbolic sizes; what PyTorch takes for infinity is no limit."""
    found: dict[str, tuple[int, int | None]] = {}
    for symbol, bounds in constraints.items():
        name = str(symbol)
        if not getattr(symbol, "is_Symbol", False) or name.startswith(("u", "zuf")):
            continue
        least = expression_of(bounds.lower, {}) if bounds.lower.is_Integer else 0
        most = int(bounds.upper) if bounds.upper.is_Integer and int(bounds.upper) < 2**62 else None
        found[names.get(name, name)] = (int(least) if isinstance(least, int) else 0, most)
    return found


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "stride")


def _overload_name(target: Any) -> str | None:
    """Return an operator's overload as "aten.add.Tensor"; None for what is no operator of PyTorch's dispatcher."""
    schema = getattr(target, "_schema", None)
    if schema is None or not hasattr(target, "overloadpacket"):
        return None
    namespace, name = str(schema.name).split("::")
    return f"{namespace}.{name}.{schema.overload_name or 'default'}"


def _shown(target: Any) -> str:
    higher = higher_order_name(target)
    return f"the higher-order operator {higher}" if higher else f"the function {getattr(target, '__name__', target)}"


def _free_name(name: str, taken: set[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


