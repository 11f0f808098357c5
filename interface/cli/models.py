"""Implements `joinery inspect` and `joinery run`.

They show what a saved model holds, and call models, those in ONNX too, and block kernels on .npy files.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ...promotion import DType, UserError
from .doctor import bytes_text, section
from .kernel import SUFFIXES, add_run_options, gpu_name, is_kernel, run_kernel
from .text import WIDTH

# Each command loads the layers it needs and no others: a promotion query stays a matter of milliseconds.
if TYPE_CHECKING:
    from ...lowering.artifact import TensorSpec
    from ...promotion.arrays import Array
    from ...runtime.model.kernels import Kernel
    from ..model import Model

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def add_models(add: Add) -> None:
    """Add both commands by `add(name, command, help)`."""
    inspect = add("inspect", _inspect, "show what is in a saved model, without running its code")
    inspect.add_argument("model", metavar="MODEL", help="a file written by Model.save")

    run = add("run", _run, "run a saved model, a model in ONNX or a block kernel on .npy files")
    run.add_argument(
        "model", metavar="FILE",
        help="a file written by Model.save, a model in ONNX (.onnx), or a kernel's text (.ttir, .mlir, .tc, .c)",
    )  # fmt: skip
    run.add_argument(
        "--input", action="append", default=[], type=_assignment, metavar="NAME=FILE", dest="inputs",
        help="the .npy file of an input; once per input",
    )  # fmt: skip
    run.add_argument(
        "--output", action="append", default=[], type=_assignment, metavar="NAME=FILE", dest="outputs",
        help="where to write an output, or an array of a kernel, as .npy; without any, outputs are printed",
    )  # fmt: skip
    run.add_argument(
        "--trusted", action="store_true", help="run the code in the file instead of compiling its graph anew"
    )
    run.add_argument(
        "--threads", type=int, default=None, metavar="N", help="threads to use (default: all cores)"
    )
    run.add_argument(
        "--device", default=None, type=_device,
        help="auto, cpu, or ptxsim: the PTX of a GPU, interpreted and checked (default: auto)",
    )  # fmt: skip
    run.add_argument("--target", default=None, type=gpu_name, help="with ptxsim: the GPU the code is made for, such as sm_90a")
    add_run_options(run)


def _device(text: str) -> str:
    kind, colon, number = text.partition(":")
    if text not in ("auto", "cpu", "ptxsim") and not (kind == "cuda" and number.isdigit() == bool(colon)):
        raise argparse.ArgumentTypeError(f"expected auto, cpu, cuda, cuda:1 and so on, or ptxsim, got {text!r}")
    return text


def _assignment(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got {text!r}")
    return name, path


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

    # "trusted" hands the compiled section out; it is read here, never linked
    opened = artifact_file.load(options.model, trusted=True)
    manifest, compiled = opened.manifest, opened.compiled
    print(f"model {manifest.name!r}, {bytes_text(os.path.getsize(options.model))}")
    section("compiled for", (", ".join(target.split("|")[:2]) for target in manifest.targets))
    if compiled is None:
        raise UserError(f"{options.model} holds no compiled code; fix: save the model anew with Model.save")
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


def _known(what: str, given: Iterable[str], valid: Sequence[str], model: str) -> None:
    for name in given:
        if name not in valid:
            raise UserError(f"model {model!r} has no {what} {name!r}; {what}s: {', '.join(valid) or 'none'}")


def _run(options: argparse.Namespace) -> int:
    import numpy as np

    if is_kernel(options.model):
        return run_kernel(options, _read)
    of_kernels = {"--grid": options.grid, "--name": options.function}
    of_kernels |= {"--numerics": options.numerics}
    of_kernels |= {"--interpret": options.interpret, "--in-place": options.in_place, "ARGUMENT": options.arguments}
    for what, given in of_kernels.items():
        if given:
            raise UserError(f"{what} is for kernels ({', '.join(SUFFIXES)}); {options.model} is read as a saved model")
    inputs, outputs = dict(options.inputs), dict(options.outputs)
    for what, pairs, chosen in (("input", options.inputs, inputs), ("output", options.outputs, outputs)):
        if len(pairs) != len(chosen):
            raise UserError(f"an {what} is given twice; fix: one --{what} NAME=FILE for each")
    model = _opened(options)
    specs = {spec.name: spec for spec in model.inputs}
    _known("input", inputs, list(specs), model.name)
    if model.outputs:  # a model that is specialised to its inputs has none before it ran
        _known("output", outputs, [spec.name for spec in model.outputs], model.name)
    arrays = {name: _read(path, DType(specs[name].dtype)) for name, path in inputs.items()}
    if options.sanitize:
        report = model.sanitize(**arrays)
        print(f"sanitizer: {report}", file=sys.stderr if report.findings else sys.stdout)
        results = dict(zip([spec.name for spec in model.outputs], report.outputs, strict=True))
        found = len(report.findings)
    else:
        results, found = model.run(arrays), 0
    _known("output", outputs, list(results), model.name)
    for name, path in outputs.items():
        try:
            with open(path, "wb") as file:  # a file object: numpy.save would add .npy to a path
                np.save(file, results[name], allow_pickle=False)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
        print(f"{name}: {results[name].dtype}{list(results[name].shape)} -> {path}")
    if not outputs:
        for name, array in results.items():
            print(f"{name}: {array.dtype}{list(array.shape)}")
            print(np.array2string(array, max_line_width=WIDTH, threshold=64))
    return 2 if found else 0


def _opened(options: argparse.Namespace) -> Model:
    """Return the model of a file."""
    from .. import compiling

    device = options.device or "auto"
    if not options.model.endswith(".onnx"):
        return compiling.load(options.model, device, target=options.target, trusted=options.trusted, threads=options.threads)
    if options.trusted:
        raise UserError("--trusted is for files written by Model.save; fix: leave it out")
    from ..specialised import compile_onnx

    return compile_onnx(options.model, device, target=options.target, threads=options.threads)


def _read(path: str, dtype: DType | None = None) -> Array:
    """Read the array in an .npy file. ml_dtypes arrays are raw bytes there, and get their dtype back."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise UserError(f"{path} is not an .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} holds several arrays; fix: one .npy file per input")
    if dtype is not None and array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype.numpy)
    return array
