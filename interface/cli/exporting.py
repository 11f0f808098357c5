"""Implements `joinery export` and `joinery compare`: models as files for several targets, and where two models differ."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...promotion import UserError
from ...promotion.errors import printable
from .arrays import assignment, device_name, read_array
from .text import WIDTH, wrapped

if TYPE_CHECKING:
    from ...graph.graph import Graph
    from ...promotion.arrays import Array
    from ..comparing import Run

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def add_exporting(add: Add) -> None:
    """Add both commands by `add(name, command, help)`."""
    export = add("export", _export, "compile a model for one or more targets, into one file")
    export.add_argument("model", metavar="MODEL", help="a model in ONNX (.onnx), or a file written by Model.save")
    export.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write (.joinery)")
    export.add_argument(
        "--target", action="append", default=[], metavar="TARGET", dest="targets",
        help="cpu, for CPUs like this one, x86-64-v3 or -v4, for all with AVX2 or AVX-512, or a GPU such as sm_80; once per "
        "target (default: cpu)",
    )  # fmt: skip
    export.add_argument("--numerics", default=None, metavar="NAME", help="strict, fast or reproducible (default: strict)")
    _add_fixed(export)

    compare = add("compare", _compare, "find the first operation in which two models, or devices, differ")
    compare.add_argument("first", metavar="A", help="a model in ONNX, or a file written by Model.save")
    compare.add_argument("second", metavar="B", nargs="?", help="another one (default: A)")
    compare.add_argument(
        "--input", action="append", default=[], type=assignment, metavar="NAME=FILE", dest="inputs",
        help="the .npy file of an input; once per input",
    )  # fmt: skip
    compare.add_argument("--device", default="cpu", type=device_name, metavar="DEVICE", help="where A runs (default: cpu)")
    compare.add_argument(
        "--other-device", default=None, type=device_name, metavar="DEVICE",
        help="where B runs (default: that of A; the evaluator, called reference, if there is no B)",
    )  # fmt: skip
    compare.add_argument("--rtol", type=float, default=1e-5, metavar="X", help="relative tolerance (default: 1e-5)")
    compare.add_argument("--atol", type=float, default=1e-6, metavar="X", help="absolute tolerance (default: 1e-6)")
    _add_fixed(compare)


def _add_fixed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--constant", action="append", default=[], type=assignment, metavar="NAME=FILE", dest="constants",
        help="the .npy file of an input that sizes depend on, which becomes a constant; once per input",
    )  # fmt: skip
    parser.add_argument(
        "--size", action="append", default=[], type=_size, metavar="NAME=NUMBER", dest="sizes",
        help="a number for a size that has a name; once per size",
    )  # fmt: skip


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (name and number.isdigit()):
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, got {text!r}")
    return name, int(number)


def graph_of(path: str, constants: Mapping[str, Array], sizes: Mapping[str, int]) -> Graph:
    """Return the graph of a model in ONNX or of a saved one."""
    if path.endswith(".onnx"):
        from ...graph.onnx.importer import from_onnx

        return from_onnx(path, constants=constants, sizes=sizes)
    if constants or sizes:
        raise UserError(f"--constant and --size are for models in ONNX; {path} is read as a saved model; fix: leave them out")
    from ..compiling import saved_graph

    return saved_graph(path)


def _export(options: argparse.Namespace) -> int:
    from ...runtime.storage import artifact_file
    from .. import compiling

    constants = {name: read_array(path) for name, path in options.constants}
    graph = graph_of(options.model, constants, dict(options.sizes))
    numerics = options.numerics
    if numerics is None:
        is_onnx = options.model.endswith(".onnx")
        numerics = "strict" if is_onnx else artifact_file.load(options.model).manifest.metadata.get("numerics", "strict")
    compiling.save(graph, options.output, options.targets or ("cpu",), numerics=numerics)
    compiled = [", ".join(target.split("|")[:2]) for target in artifact_file.load(options.output).manifest.targets]
    for_targets = f"for {'; '.join(compiled)}" if compiled else "without code: operations of the host stand between its parts"
    print(wrapped(f"{graph.name}, {for_targets} -> {options.output} ({os.path.getsize(options.output)} bytes)"))
    return 0


def _compare(options: argparse.Namespace) -> int:
    from ..comparing import compare

    constants = {name: read_array(path) for name, path in options.constants}
    sizes = dict(options.sizes)
    arguments = {name: read_array(path) for name, path in options.inputs}
    first = _graph_for(options.first, constants, sizes, arguments)
    second = first
    if options.second is not None:
        decided = {*constants}, {*sizes}
        second = _graph_for(options.second, constants, sizes, arguments)
        if decided != ({*constants}, {*sizes}):  # one of them needs values or sizes: both take them
            first = _graph_for(options.first, constants, sizes, arguments)
    other = options.other_device or ("reference" if options.second is None else options.device)
    known = [str(symbol.name) for symbol in first.inputs]
    given = [(name, path) for name, path in options.inputs if name not in constants]
    for name, _ in given:
        if name not in known:
            raise UserError(f"model {first.name!r} has no input {name!r}; inputs: {', '.join(known) or 'none'}")
    inputs: dict[str, Any] = {}
    for name, path in given:
        symbol = next(symbol for symbol in first.inputs if symbol.name == name)
        inputs[name] = read_array(path, symbol.dtype)
    found = compare(first, second, inputs, (_run_on(options.device), _run_on(other)), options.rtol, options.atol)
    for name, other_name in found.by_position.items():
        print(wrapped(f"output {name} of A is compared with {other_name} of B by its position: no output of B has its name"))
    for side, left in zip("AB", found.left, strict=True):
        if left:
            print(wrapped(f"not compared, because the other model has no such outputs: {', '.join(left)} of {side}"))
    sides = f"{options.first} on {options.device}", f"{options.second or options.first} on {other}"
    if found.difference is None:
        print(wrapped(f"{sides[0]} and {sides[1]} agree: {found.compared} outputs"))
        return 0
    for name, each in found.outputs.items():
        print(printable(f"output {name}: {each.problem}")[:WIDTH])
    one, two = found.difference.first, found.difference.second
    print(f"first difference, of {found.compared} compared:")
    print(f"  A: {printable(one.describe())}")
    if two is not one:
        print(f"  B: {printable(two.describe())}")
    print(f"  {printable(found.difference.problem)}")
    return 2


def _graph_for(path: str, constants: dict[str, Array], sizes: dict[str, int], arguments: Mapping[str, Array]) -> Graph:
    """Return the graph of a file; one in ONNX may be specialised to values and sizes of the inputs, which are added."""
    if not path.endswith(".onnx"):
        return graph_of(path, constants, sizes)
    from ..onnx.specialised import graph_for_arguments

    return graph_for_arguments(path, constants, sizes, arguments)


def _run_on(device: str) -> Run:
    def run(graph: Graph, inputs: Mapping[str, Any]) -> Any:
        if device == "reference":
            from ...graph.reference.evaluate import evaluate

            found: Any = evaluate(graph, **inputs)
        else:
            from ..compiling import compile as compile_graph

            found = compile_graph(graph, device)(**inputs)
        return found if len(graph.outputs) > 1 else (found,)

    return run
