"""Reads models that `torch.export` has traced into programs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from torch.export import ExportedProgram, load
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree

from ...graph.aten.guards import checks_of
from ...graph.aten.program import Program, Ref, Source
from ...graph.checks import Check
from ...graph.dims.dim import Extent
from ...promotion.errors import UnsupportedError, UserError
from .decompositions import exported_decompositions
from .reading import Reader, ranges_of, rebase_views_by_strides
from .tensors import extent_of, to_array

_MUTATIONS = tuple([kind for kind in OutputKind if kind.name.endswith("_MUTATION")])
"""Outputs that are written to buffers, inputs and, in versions that have such a kind, parameters."""


def loaded(given: Any) -> Any:
    """Return an `ExportedProgram`, which may be given as the path of its file."""
    if isinstance(given, (str, os.PathLike)):
        if not os.path.isfile(given):
            raise UserError(f"from_exported: there is no file {os.fspath(given)!r}; fix: the path that torch.export.save wrote")
        return load(given)
    if not isinstance(given, ExportedProgram):
        raise UserError(
            f"from_exported: expected an ExportedProgram, got {type(given).__name__}; "
            "fix: joinery.from_exported(torch.export.export(model.eval(), example_inputs))"
        )
    return given


def read_exported(exported: Any, state: str, name: str, seed: int | None = None) -> Program:
    """Return the program of an exported model, with the operators that joinery keeps whole.

    state, seed: as for `joinery.from_exported`.
    """
    lowered = exported.run_decompositions(exported_decompositions())
    return _Exported(lowered, state, name, seed, getattr(exported, "_guards_code", ())).program()


class _Exported:
    """An exported model while its parts become sources, calls and outputs."""

    def __init__(self, exported: Any, state: str, name: str, seed: int | None, conditions: Sequence[str]) -> None:
        self.exported, self.state, self.name, self.seed, self.conditions = exported, state, name, seed, conditions
        self.nodes = list(exported.graph_module.graph.nodes)
        self.placeholders = {node.name: node for node in self.nodes if node.op == "placeholder"}
        self.mutated = self._mutated()
        self.reader = Reader(exported.graph_module, self._dim_names())

    def _mutated(self) -> dict[str, str]:
        """Return the buffers, parameters and inputs that the model writes to: key → name of what is written."""
        kinds = _MUTATIONS
        found = {
            str(spec.target): spec.arg.name for spec in self.exported.graph_signature.output_specs if spec.kind in kinds
        }
        if found and self.state == "refuse":
            shown = ", ".join(sorted(found))
            raise UnsupportedError(
                f"from_exported: the model writes to {shown}, which a graph does not; fix: state='explicit', which gives what "
                "is written as outputs; model.eval() stops running statistics"
            )
        return found

    def _dim_names(self) -> dict[str, str]:
        """Return names for symbolic sizes: of the first input and axis that has each, such as "tokens_1"."""
        names: dict[str, str] = {}
        for spec in self.exported.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                continue
            value: Any = self.placeholders[spec.arg.name].meta.get("val")
            for axis, size in enumerate(getattr(value, "shape", ())):
                symbol = None if isinstance(size, int) else size.node.expr
                if symbol is not None and symbol.is_Symbol:
                    names.setdefault(str(symbol), f"{spec.arg.name}_{axis}")
        return names

    def program(self) -> Program:
        """Return the whole program."""
        weights, inputs, state = [], [], []
        known: dict[tuple[Any, ...], str] = {}
        for spec in self.exported.graph_signature.input_specs:
            node = self.placeholders[spec.arg.name]
            if spec.kind is InputKind.USER_INPUT:
                source = self.reader.source(node, spec.arg.name)
                inputs += [] if source is None else [source]
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                if str(spec.target) in self.mutated:
                    source = self.reader.source(node, str(spec.target))
                    state += [] if source is None else [source]
                    continue
                weight = self._weight(node, str(spec.target), known)
                weights += [] if weight is None else [weight]
            else:
                raise UnsupportedError(f"from_exported: input {spec.arg.name!r} is a {spec.kind.name}; fix: tensors as inputs")
        rebase_views_by_strides(self.exported.graph_module)
        calls = self.reader.calls(self.nodes)
        return Program(
            self.name, (*inputs, *state, *weights, *self.reader.sources), tuple(calls), tuple(self._results()),
            self._ranges(), True, self.seed, self._checks(),
        )  # fmt: skip

    def _checks(self) -> tuple[Check, ...]:
        """Return what PyTorch states of sizes beyond their ranges, which its own modules check as well."""
        names = self._input_texts()
        values: dict[str, Extent] = {}
        for spec in self.exported.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT or spec.arg.name not in self.placeholders:
                continue
            value = self.placeholders[spec.arg.name].meta.get("val")
            for text in names.get(spec.arg.name, ()):
                if hasattr(value, "shape"):
                    sizes = [extent_of(size, self.reader.names) for size in value.shape]
                    values |= {f"{text}.size()[{axis}]": size for axis, size in enumerate(sizes)}
                elif type(value).__name__ == "SymInt":
                    values[text] = extent_of(value, self.reader.names)
        checks, unread = checks_of(self.conditions, values)
        unread += self.reader.unread
        if unread:
            shown = "; ".join(unread)
            warnings.warn(f"from_exported: runs do not check what the model was exported for: {shown:.500}", stacklevel=5)
        return tuple(checks)

    def _input_texts(self) -> dict[str, list[str]]:
        """Return how conditions call each input: L['x'], L['cache'][0]; of `*args` L['args'][0], which has the name args_0."""
        exported = self.exported
        signature = exported.module_call_graph[0].signature
        names = (signature and signature.forward_arg_names) or ()
        spec = exported.call_spec.in_spec
        paths = _pytree.tree_flatten_with_path(_pytree.tree_unflatten(list(range(spec.num_leaves)), spec))[0]
        specs = [each for each in exported.graph_signature.input_specs if each.kind is InputKind.USER_INPUT]
        found: dict[str, list[str]] = {}
        for path, leaf in paths:
            first, second, *rest = path
            name = names[second.idx] if first.idx == 0 and second.idx < len(names) else getattr(second, "key", "")
            roots = [f"L[{name!r}]"]
            if (split := re.fullmatch(r"(.+)_(\d+)", name)) and split[1] not in names:
                roots.append(f"L[{split[1]!r}][{split[2]}]")
            if leaf < len(specs):
                found[specs[leaf].arg.name] = [root + "".join(map(str, rest)) for root in roots]
        return found

    def _ranges(self) -> dict[str, tuple[int, int | None]]:
        """Return the ranges of the sizes of inputs; PyTorch keeps those of symbols that it has replaced by numbers, too."""
        values = [node.meta.get("val") for node in self.placeholders.values()]
        sizes = [size for value in values for size in getattr(value, "shape", (value,)) if type(size).__name__ == "SymInt"]
        given = {symbol for size in sizes for symbol in size.node.expr.free_symbols}
        ranges = {symbol: bounds for symbol, bounds in self.exported.range_constraints.items() if symbol in given}
        return ranges_of(ranges, self.reader.names)

    def _weight(self, node: Any, key: str, known: dict[tuple[Any, ...], str]) -> Source | None:
        """Return a weight; None for one that lies where another does, which it shares."""
        exported = self.exported
        tensor = exported.state_dict[key] if key in exported.state_dict else exported.constants[key]
        bits = tensor.is_conj(), tensor.is_neg()
        where = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, *bits)
        if tensor.numel() and where in known:
            self.reader.refs[node.name] = Ref(known[where])
            return None
        known[where] = key
        declared = self.reader.source(node, key)
        return None if declared is None else Source(key, declared.type, to_array(tensor))

    def _results(self) -> list[tuple[str, Ref | Extent]]:
        """Return the outputs of the model by the keys of what it returns, and after them what it writes."""
        signature = self.exported.graph_signature
        names = _output_names(self.exported.call_spec.out_spec)
        found: list[tuple[str, Ref | Extent]] = []
        written: list[tuple[str, Ref | Extent]] = []
        position = 0
        for spec in signature.output_specs:
            if spec.kind is OutputKind.USER_OUTPUT:
                name = names[position] if position < len(names) else f"output{position}"
                position += 1
                value = self._result(spec)
                found += [] if value is None else [(name, value)]
            elif spec.kind in _MUTATIONS:
                value = self._result(spec)
                written += [] if value is None else [(f"new.{spec.target}", value)]
            else:
                raise UnsupportedError(f"from_exported: an output is a {spec.kind.name}; fix: tensors as outputs")
        return [*found, *written]

    def _result(self, spec: Any) -> Ref | Extent | None:
        if hasattr(spec.arg, "value"):  # a constant
            value = spec.arg.value
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        found = self.reader.refs.get(spec.arg.name)
        if found is None and spec.arg.name in self.reader.refused:
            raise self.reader.refused[spec.arg.name]
        if found is None:
            raise UnsupportedError(f"from_exported: output {spec.arg.name!r} is no tensor; fix: return tensors")
        return found


def _output_names(spec: Any) -> list[str]:
    """Return a name for each leaf of what the model returns: its keys and positions, joined by dots."""
    leaves = _pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    names = [".".join(path) for path in _paths(leaves, ())]
    names = ["output" if not name else f"output{name}" if name[0].isdigit() else name for name in names]
    return [name if names.count(name) == 1 else f"{name}.{position}" for position, name in enumerate(names)]


def _paths(node: Any, before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the keys and positions that lead to each leaf. Types that were registered without a function for their keys, as
    the outputs of transformers 4 are, have them in their context, or positions."""
    handler = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(node))
    if handler is None:
        yield before
        return
    keys: Sequence[Any]
    if handler.flatten_with_keys_fn:
        pairs = list(handler.flatten_with_keys_fn(node)[0])
        keys = [getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key, _ in pairs]
        children = [child for _, child in pairs]
    else:
        found, context = handler.flatten_fn(node)
        children = list(found)
        is_named = isinstance(context, list | tuple) and all(isinstance(key, str) for key in context)
        keys = context if is_named and len(context) == len(children) else range(len(children))
    for key, child in zip(keys, children, strict=True):
        yield from _paths(child, (*before, str(key)))
