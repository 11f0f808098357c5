"""Implements `joinery inspect` and `joinery run`.

They show what a saved model holds, and call models, those in ONNX too, and block kernels on .npy files.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...promotion import DType, UserError
from ...promotion.errors import printable, printable_lines
from .arrays import assignment, read_array
from .arrays import device as device_of
from .doctor import bytes_text, section
from .kernel import SUFFIXES, add_run_options, gpu_name, is_kernel, run_kernel
from .profiling import Clock, files_in, timed_runs
from .text import WIDTH

# Each command loads the layers it needs and no others: a promotion query stays a matter of milliseconds.
if TYPE_CHECKING:
    from ...lowering.artifact import TensorSpec
    from ...runtime.model.kernels import Kernel
    from ..model import Model

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def add_models(add: Add) -> None:
    """Add both commands by `add(name, command, help)`."""
    inspect = add("inspect", _inspect, "show what is in a saved model, without running its code")
    inspect.add_argument("model", metavar="MODEL", help="a file written by Model.save, or a model in ONNX (.onnx)")
    inspect.add_argument(
        "--target", default=None, metavar="TARGET", help="whose code is shown: cpu, or a GPU such as sm_80 (default: the first)"
    )

    run = add("run", _run, "run a saved model, a model in ONNX or a block kernel on .npy files")
    run.add_argument(
        "model", metavar="FILE",
        help="a file written by Model.save, a model in ONNX (.onnx), or a kernel's text (.ttir, .mlir, .tc, .c)",
    )  # fmt: skip
    run.add_argument(
        "--input", action="append", default=[], type=assignment, metavar="NAME=FILE", dest="inputs",
        help="the .npy file of an input; once per input",
    )  # fmt: skip
    run.add_argument(
        "--output", action="append", default=[], type=_destination, metavar="NAME=FILE", dest="outputs",
        help="where to write an output, or an array of a kernel, as .npy, or a folder for all outputs of a model; "
             "without any, outputs are printed",
    )  # fmt: skip
    run.add_argument("--repeat", type=int, default=None, metavar="N", help="run a model N times, and show how long that takes")
    run.add_argument(
        "--profile", action="store_true",
        help="show how long opening, calls and each kernel take, and what kernels read, write and compute",
    )  # fmt: skip
    run.add_argument(
        "--format", choices=("text", "json"), default="text",
        help="of --profile: a table, or JSON alone, without the outputs (default: text)",
    )  # fmt: skip
    run.add_argument(
        "--trusted", action="store_true", help="run the code in the file instead of compiling its graph anew"
    )
    run.add_argument(
        "--open-loops", action="store_true",
        help="run loops of a saved model that only values end, which no budget bounds (Ctrl-C ends them)",
    )  # fmt: skip
    run.add_argument(
        "--threads", type=int, default=None, metavar="N", help="threads to use (default: all cores)"
    )
    run.add_argument(
        "--device", default=None, type=device_of,
        help="auto, cpu, or ptxsim: the PTX of a GPU, interpreted and checked (default: auto)",
    )  # fmt: skip
    run.add_argument("--target", default=None, type=gpu_name, help="with ptxsim: the GPU the code is made for, such as sm_90a")
    add_run_options(run)


def _destination(text: str) -> tuple[str, str]:
    """Return the parts of NAME=FILE, or "" and a folder."""
    return assignment(text) if "=" in text or not text else ("", text)


def _tensor(spec: TensorSpec) -> str:
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]"


def _kernel_lines(number: int, kernel: Kernel) -> list[str]:
    tiles = " ".join(f"{axis}={extent}" for axis, extent in kernel.tiles) or "none"
    return [
        f"{number}  {kernel.name}",
        f"   {kernel.template}; grid {kernel.grid}; tiles {tiles}",
        f"   reads {kernel.bytes_read} bytes, writes {kernel.bytes_written} bytes, {kernel.flops} flops",
        f"   fuses {', '.join(kernel.fused) or 'nothing'}",
    ]


def _inspect(options: argparse.Namespace) -> int:
    from ...runtime.model.kernels import kernels_of
    from ...runtime.storage import artifact_file

    wanted = options.target
    if options.model.endswith(".onnx"):
        return _inspect_onnx(options.model)
    # "trusted" hands the compiled section out; it is read here, never linked
    fits = None if wanted is None else lambda key: wanted in key.split("|") or (wanted == "cpu" and "nvptx" not in key)
    opened = artifact_file.load(options.model, trusted=True, target=fits)
    manifest, compiled = opened.manifest, opened.compiled
    print(f"model {manifest.name!r}, {bytes_text(os.path.getsize(options.model))}")
    section("compiled for", (", ".join(target.split("|")[:2]) for target in manifest.targets))
    if compiled is None and wanted is not None and manifest.targets:
        raise UserError(f"{options.model} holds no code for {wanted}; fix: --target of one that it is compiled for")
    if compiled is None:
        return _inspect_graph(options.model)
    section("numerics", [compiled.numerics])
    section("inputs", map(_tensor, compiled.inputs))
    section("outputs", map(_tensor, compiled.outputs))
    section("dims", compiled.dims)
    # without dims only the check of sizes is there, and it was made when the model was compiled
    section("checks (what a call says that fails one)", compiled.checks if compiled.dims else ())
    weights = {spec.name: spec for spec in compiled.constants}.values()
    total = sum(DType(spec.dtype).itemsize * math.prod(spec.shape) for spec in weights)
    section(
        f"weights and constants ({len(weights)}, {bytes_text(total)})" if weights else "weights and constants",
        (f"{spec.name}: {spec.dtype}{list(spec.shape)}, stored {spec.layout}" for spec in weights),
    )
    listed = kernels_of(compiled)
    section("kernels", (line for at, kernel in enumerate(listed, 1) for line in _kernel_lines(at, kernel)))
    return 0


def _inspect_graph(path: str) -> int:
    """Show a file without code: what it takes and returns, and what runs on the host."""
    from ..compiling import saved_graph

    graph = saved_graph(path)
    for what, named in (
        ("inputs", [(symbol.name, symbol) for symbol in graph.inputs]),
        ("outputs", zip(graph.output_names, graph.outputs, strict=True)),
    ):
        section(what, (f"{name}: {each.dtype.name}[{', '.join(map(str, each.shape))}]" for name, each in named))
    section("dims", graph.dim_names)
    section("on the host", (symbol.describe() for symbol in graph.symbols if symbol.op.kind == "host"))
    return 0


def _inspect_onnx(path: str) -> int:
    """Show what a model in ONNX holds, as its file says it; nothing is imported."""
    from ...graph.onnx.importer import read_model
    from ...graph.onnx.tensors import dtype_of_code

    checked, _ = read_model(path)
    body = checked.graph
    print(f"model {body.name!r}, {bytes_text(os.path.getsize(path))}")
    section("opsets", (f"{domain or 'ai.onnx'} {version}" for domain, version in checked.opsets.items()))
    for what, parameters in (("inputs", body.inputs), ("outputs", body.outputs)):
        lines = []
        for each in parameters:
            if what == "inputs" and each.name in body.constants:
                continue
            dtype = dtype_of_code(each.element, each.name).name if each.kind == "tensor" and each.element else each.kind
            sizes = "" if each.sizes is None else f"[{', '.join('?' if size is None else str(size) for size in each.sizes)}]"
            lines.append(f"{each.name}: {dtype or 'not declared'}{sizes}")
        section(what, lines)
    total = sum(constant.array.nbytes for constant in body.constants.values())
    section("weights and constants", [f"{len(body.constants)}, {bytes_text(total)}"] if body.constants else [])
    section("functions", (":".join(part for part in key if part) for key in checked.functions))
    counts: dict[str, int] = {}
    for node in body.nodes:
        name = f"{node.domain}.{node.op}" if node.domain else node.op
        counts[name] = counts.get(name, 0) + 1
    section("nodes", (f"{count:5} {name}" for name, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))))
    return 0


def _known(what: str, given: Iterable[str], valid: Sequence[str], model: str) -> None:
    for name in given:
        if name not in valid:
            raise UserError(f"model {model!r} has no {what} {name!r}; {what}s: {', '.join(valid) or 'none'}")


def _run(options: argparse.Namespace) -> int:
    import numpy as np

    if is_kernel(options.model):
        if options.profile or options.repeat is not None or any(not name for name, _ in options.outputs):
            raise UserError("--repeat, --profile and folders for outputs are for models; fix: leave them out")
        return run_kernel(options, read_array)
    if options.format == "json" and (not options.profile or options.sanitize):
        raise UserError("--format json is for --profile; fix: add it, without --sanitize")
    if options.repeat is not None and options.repeat < 1:
        raise UserError(f"--repeat {options.repeat}; fix: 1 or more")
    of_kernels = {"--grid": options.grid, "--name": options.function}
    of_kernels |= {"--numerics": options.numerics}
    of_kernels |= {"--no-check-bounds": options.no_check_bounds}
    of_kernels |= {"--interpret": options.interpret, "--in-place": options.in_place, "ARGUMENT": options.arguments}
    for what, given in of_kernels.items():
        if given:
            raise UserError(f"{what} is for kernels ({', '.join(SUFFIXES)}); {options.model} is read as a saved model")
    folders = [path for name, path in options.outputs if not name]
    named = [pair for pair in options.outputs if pair[0]]
    inputs, outputs = dict(options.inputs), dict(named)
    for what, pairs, chosen in (("input", options.inputs, inputs), ("output", named, outputs)):
        if len(pairs) != len(chosen):
            raise UserError(f"an {what} is given twice; fix: one --{what} NAME=FILE for each")
    clock = Clock()
    model = _opened(options)
    clock.lap("opening and compiling")
    specs = {spec.name: spec for spec in model.inputs}
    _known("input", inputs, list(specs), model.name)
    # a model that is specialised to its inputs has none before it ran, and sequences have as many as they have elements
    if model.outputs and not any(spec.dtype.startswith("seq(") for spec in model.outputs):
        _known("output", outputs, [spec.name for spec in model.outputs], model.name)
    arrays = {name: read_array(path, DType(specs[name].dtype)) for name, path in inputs.items()}
    if options.sanitize:
        report = model.sanitize(**arrays)
        print(printable_lines(f"sanitizer: {report}"), file=sys.stderr if report.findings else sys.stdout)
        results = dict(zip([spec.name for spec in model.outputs], report.outputs, strict=True))
        found = len(report.findings)
    else:
        results, found = _arrays(timed_runs(model, arrays, options, clock)), 0
    _known("output", outputs, list(results), model.name)
    for folder in folders:
        outputs |= {name: path for name, path in files_in(folder, list(results)).items() if name not in outputs}
    for name, path in outputs.items():
        array = results[name].astype(np.str_) if results[name].dtype.hasobject else results[name]
        try:
            with open(path, "wb") as file:  # a file object: numpy.save would add .npy to a path
                np.save(file, array, allow_pickle=False)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
        if options.format != "json":
            print(printable(f"{name}: {array.dtype}{list(array.shape)} -> {path}"))
    if not outputs and options.format != "json":
        for name, array in results.items():
            print(printable(f"{name}: {array.dtype}{list(array.shape)}"))
            print(printable_lines(np.array2string(array, max_line_width=WIDTH, threshold=64)))
    return 2 if found else 0


def _arrays(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs as arrays: those of a sequence one by one, dictionaries of numbers as a matrix of these."""
    import numpy as np

    found: dict[str, Any] = {}
    for name, value in results.items():
        if not isinstance(value, list):
            found |= {} if value is None else {name: value}
        elif value and isinstance(value[0], dict):
            found[name] = np.array([list(each.values()) for each in value], np.float32)  # ZipMap has no other dtype
        else:
            found |= _arrays({f"{name}.{position}": each for position, each in enumerate(value)})
    return found


def _opened(options: argparse.Namespace) -> Model:
    """Return the model of a file."""
    from ...graph.reference.budget import Budget
    from ..opening.loading import load

    device = options.device or "auto"
    if not options.model.endswith(".onnx"):
        budget = Budget(open_loops=True) if options.open_loops else None
        return load(
            options.model, device, target=options.target, trusted=options.trusted, threads=options.threads, budget=budget
        )
    if options.trusted or options.open_loops:
        which = "--trusted" if options.trusted else "--open-loops"
        raise UserError(f"{which} is for files written by Model.save; fix: leave it out")
    from ..onnx.specialised import compile_onnx

    return compile_onnx(options.model, device, target=options.target, threads=options.threads)
