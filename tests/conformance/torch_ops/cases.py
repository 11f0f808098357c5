"""Runs PyTorch's own samples of its core operators (OpInfo) through the back end of `torch.compile`."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import joinery.torch
import torch
from joinery.interface.torch.backend import backend
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree

DTYPES = ("float32", "int64", "bool", "bfloat16")
PASSED, DIFFERS, LEFT, RAISES = "passed", "differs", "left", "raises"
"""What becomes of a sample: "left" where PyTorch runs a part of it; "differs" in values, dtypes, shapes or strides."""
RANDOM = frozenset({
    "bernoulli", "multinomial", "native_dropout", "normal", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "uniform", "nn.functional.dropout", "native_dropout_backward",
})  # fmt: skip
"""Entries that draw numbers, from a generator that is PyTorch's own."""


TIED = frozenset({"sort", "topk"})
"""Operators that return the position of any of several equal elements."""


DATA_SIZED = frozenset({"nonzero"})
"""Operators whose results have sizes that data decides: without Dynamo, tracing stops at them."""


@dataclass(frozen=True)
class Case:
    """A sample: an entry of OpInfo, a dtype, and its place among the samples of both."""

    entry: str
    op: str
    dtype: str
    number: int
    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """A name that is the same in every run."""
        return f"{self.entry} {self.dtype} {self.number}"


@dataclass(frozen=True)
class Outcome:
    """What became of a sample, and why."""

    kind: str
    reason: str = ""


def core_operators() -> set[str]:
    """Return the names of the operators that PyTorch calls core ATen."""
    names = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            if torch.Tag.core in getattr(packet, overload).tags:
                names.add(name)
    return names


def entries() -> list[Any]:
    """Return the entries of OpInfo for core operators, without those whose results are random or have no value."""
    core = core_operators()
    return [
        entry
        for entry in sorted(op_db, key=lambda each: (each.name, each.variant_test_name))
        if (entry.aten_name in core or entry.aten_backward_name in core) and entry.name not in RANDOM
        and not entry.name.startswith(("empty", "new_empty"))
    ]  # fmt: skip


def _full_name(entry: Any) -> str:
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


def samples(entry: Any, dtype: str) -> Iterator[Case]:
    """Yield the samples of an entry for a dtype; they are the same in every run."""
    kind = getattr(torch, dtype)
    if kind not in entry.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    for number, sample in enumerate(entry.sample_inputs("cpu", kind)):
        yield Case(
            _full_name(entry), str(entry.aten_name), dtype, number, entry.op, (sample.input, *sample.args), dict(sample.kwargs)
        )


def cases(every: int = 1, patterns: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yield one sample in so many, chosen by digests of their names, of entries whose names contain one of the patterns."""
    for entry in entries():
        if patterns and not any(pattern == _full_name(entry) for pattern in patterns):
            continue
        for dtype in DTYPES:
            for case in list(samples(entry, dtype)):  # before one runs, which may draw numbers
                if int(hashlib.sha256(case.name.encode()).hexdigest(), 16) % every == 0:
                    yield case


def counted() -> dict[tuple[str, str], int]:
    """Return how many samples there are, by entry and dtype."""
    return dict(Counter((case.entry, case.dtype) for case in cases()))


def outcome(case: Case) -> Outcome:
    """Run a sample compiled and eagerly, and compare."""
    leaves, form = _pytree.tree_flatten((case.arguments, case.options))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[place].detach() for place in places]

    def call(*given: Any) -> list[Any]:
        mixed = list(leaves)
        for place, tensor in zip(places, given, strict=True):
            mixed[place] = tensor
        arguments, options = _pytree.tree_unflatten(mixed, form)
        results = _pytree.tree_leaves(case.function(*arguments, **options))
        return [each for each in results if isinstance(each, torch.Tensor)]

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = call(*map(_copied, tensors))
        joinery.torch.report(clear=True)
        try:
            given = list(map(_copied, tensors))
            if case.op in DATA_SIZED:
                got = _by_dynamo(case, given)
            else:
                got = backend(_graph(call, tensors, len(wanted)), tensors)(*given)
        except Exception as error:  # whatever it is, the sample has not passed
            return Outcome(RAISES, f"{type(error).__name__}: {error}".partition("\n")[0])
    if case.op in TIED and tensors[0].dim():
        got = _untied(case, tensors[0], list(got), wanted)
    found = _compared(list(got), wanted)
    if found.kind == DIFFERS and case.dtype == "bfloat16":
        with torch.no_grad():
            exact = call(*[tensor.float() if tensor.is_floating_point() else tensor for tensor in tensors])
        if all(map(_is_nearer, got, wanted, exact)):
            return _left()
    return found


def _by_dynamo(case: Case, tensors: list[Any]) -> list[Any]:
    """Run a sample whose sizes data decides, of tensors alone, as Dynamo compiles it."""

    def function(*given: Any, **options: Any) -> Any:
        return case.function(*given, **options)

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return _pytree.tree_leaves(torch.compile(function, backend="joinery", fullgraph=True)(*tensors, **case.options))


def _is_nearer(mine: Any, theirs: Any, exact: Any) -> bool:
    """Return whether a result of 16-bit floats is no farther from that of float32 than eager PyTorch's is."""
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape or not mine.is_floating_point():
        return bool(torch.equal(mine, theirs))
    errors = [torch.nan_to_num((each.float() - exact).abs(), math.inf).max().item() for each in (mine, theirs)]
    return errors[0] <= errors[1] < math.inf


def _untied(case: Case, x: Any, got: list[Any], wanted: list[Any]) -> list[Any]:
    """Return results with PyTorch's positions where those of this side have equal values, of which PyTorch takes any."""
    values, at = got
    arguments = dict(zip(("input", "dim") if case.op == "sort" else ("input", "k", "dim"), case.arguments, strict=False))
    options = {**arguments, **case.options}
    axis = options.get("dim", -1)
    if options.get("stable") or at.shape != wanted[1].shape or at.dtype != wanted[1].dtype:
        return got
    ordered = torch.sort(at, axis).values
    if at.numel() and (torch.diff(ordered, dim=axis) == 0).any():  # a position is taken twice
        return got
    same = torch.gather(x, axis, at) == torch.gather(x, axis, wanted[1])
    return [values, torch.where(same, wanted[1], at)]


def _copied(tensor: Any) -> Any:
    """Return a copy of a tensor with a copy of all of its storage: samples may be views of a part of it."""
    storage = tensor.untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def _graph(call: Any, tensors: list[Any], results: int) -> Any:
    """Return a graph that calls a function of tensors, as Dynamo would hand it over."""
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"x{number}") for number in range(len(tensors))]
    node = graph.call_function(call, tuple(inputs))
    graph.output(tuple([graph.call_function(lambda values, at: values[at], (node, at)) for at in range(results)]))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def _compared(got: list[Any], wanted: list[Any]) -> Outcome:
    for mine, theirs in zip(got, wanted, strict=True):
        try:
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        except AssertionError as error:
            return Outcome(DIFFERS, " ".join(str(error).split())[:300])
    return _left()


def _left() -> Outcome:
    """Return that a sample has passed, unless PyTorch ran a part of it."""
    found = joinery.torch.report()
    for graph in found:
        if graph.failure:
            return Outcome(LEFT, graph.failure)
        for entry in graph.eager.values():
            return Outcome(LEFT, f"{entry.name}: {entry.reason}")
    return Outcome(PASSED)
