"""Implements the commands for block kernels.

They are `joinery compile FILE` and `joinery run FILE --grid X,Y,Z ARGUMENT …`, on texts in the tt dialect and in Triton-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...lowering.numerics import NUMERICS
from ...promotion import DType, UserError
from ...promotion.errors import printable
from .text import WIDTH, wrapped
from .triton_c import (
    STAGES,
    STDIN,
    add_triton_c_options,
    chosen_kernel,
    diagnostics_json,
    is_triton_c,
    is_tuned,
    refuse_triton_c_options,
    stage_text,
    triton_c_kernel,
    tuned_kernel,
)
from .triton_c import SUFFIXES as TRITON_C_SUFFIXES

if TYPE_CHECKING:
    from ...promotion.arrays import Array
    from ..kernel import Kernel

TTIR_SUFFIXES = (".ttir", ".mlir")
SUFFIXES = (*TTIR_SUFFIXES, *TRITON_C_SUFFIXES)
_FILLS = ("zeros", "ones", "arange")
_MAX_BYTES = 1 << 34
_ARGUMENT = (
    "of a kernel, one per parameter and in their order: a number, a .npy file, none (a null pointer), "
    f"or {'/'.join(_FILLS)}:DTYPE:SHAPE, as in zeros:float32:64x32"
)

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def is_kernel(path: str) -> bool:
    """Return whether the file is a kernel's text, judged by its name."""
    return path == STDIN or path.endswith(SUFFIXES)


def is_number(text: str) -> bool:
    """Return whether an argument is a number; argparse takes -1e-3 and -inf for options."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def gpu_name(text: str) -> str:
    """Return the name of a GPU target, as argparse converts an option."""
    from ...lowering.llvm.nvptx.targets import gpu_target

    try:
        return gpu_target(text).name
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def target_name(text: str) -> str:
    """Return the name of a target of kernels, as argparse converts an option."""
    return text if text == "host" else gpu_name(text)


def add_compile(add: Add) -> None:
    """Add the command `compile`."""
    parser = add("compile", _compile, "show what becomes of a block kernel")
    parser.add_argument(
        "kernel", metavar="FILE", nargs="?", help="tt dialect (.ttir, .mlir) or Triton-C (.tc, .c, or - for standard input)"
    )
    parser.add_argument(
        "--emit",
        choices=(*STAGES, "ttir", "llvm", "asm", "ptx"),
        help="what to show (default: asm; with --passes and --after: ttir); the first three of Triton-C alone",
    )
    parser.add_argument(
        "--name", dest="function", metavar="F", help="which function, when there are several public ones"
    )
    parser.add_argument("--target", type=target_name, help="host, or a GPU such as sm_90a (default: host; for ptx sm_80)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--after", metavar="PASS", help="the text after this pass of the target's pipeline")
    how.add_argument(
        "--passes", metavar="PIPELINE", help="run these passes in place of the target's own, as in inline,canonicalize,cse"
    )
    how.add_argument("--print-pipeline", action="store_true", help="show the target's passes with their options")
    how.add_argument("--list-passes", action="store_true", help="show all passes and what they do; takes no FILE")
    parser.add_argument(
        "--debug", action="store_true", help="put the source lines that the text names into the code"
    )
    add_numerics(parser)
    add_triton_c_options(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text",
        help="of Triton-C: json shows the errors and warnings alone, for editors; the exit status is 2 if there are errors",
    )  # fmt: skip
    parser.add_argument("--output", metavar="FILE", help="write there instead of to the terminal")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` that are for kernels only."""
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help=_ARGUMENT)
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="of a kernel: how many programs along each axis")
    parser.add_argument(
        "--name", dest="function", metavar="F", help="of a kernel: which of several public functions"
    )
    parser.add_argument(
        "--in-place", action="store_true", help="of a kernel: write changed arrays back to their files"
    )
    add_numerics(parser, "of a kernel: ")
    add_triton_c_options(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--sanitize", action="store_true", help="check every access, undefined values, races on the CPU"
    )
    how.add_argument("--interpret", action="store_true", help="of a kernel: run by the NumPy interpreter")
    how.add_argument(
        "--no-check-bounds", action="store_true",
        help="of a kernel on the CPU: do not compare accesses with the arrays; what lies outside may end the process",
    )  # fmt: skip


def add_numerics(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument(
        "--numerics", choices=NUMERICS, default=None,
        help=f"{more}strict; fast: approximations and fused multiply-adds are allowed; or reproducible: the same bits on every "
        "device (default: strict)",
    )  # fmt: skip


def read_kernel(path: str, options: argparse.Namespace, debug: bool) -> Kernel:
    """Read the kernel of a file, in the language that its name says."""
    from ..kernel import from_ttir

    if not is_kernel(path):
        raise UserError(f"{path}: expected the text of a kernel, a file that ends in {' or '.join(SUFFIXES)}")
    numerics = options.numerics or NUMERICS[0]
    if is_triton_c(path):
        return triton_c_kernel(options, path, numerics, debug)
    refuse_triton_c_options(options, path)
    return from_ttir(Path(path), options.function, numerics=numerics, debug=debug)


def _compile(options: argparse.Namespace) -> int:
    if options.list_passes:
        _write(_passes(), options.output)
        return 0
    if options.kernel is None:
        raise UserError("compile: expected a FILE, the text of a kernel; or --list-passes")
    if options.after is not None and options.emit not in (None, "ttir"):
        raise UserError(f"--after goes with --emit ttir, not with --emit {options.emit}")
    if options.passes is not None and options.numerics is not None:
        raise UserError("--numerics chooses among the pipelines of a target, and --passes replaces it; fix: one of the two")
    emit = options.emit or ("ttir" if options.passes is not None or options.after is not None else "asm")
    target = options.target or ("sm_80" if emit == "ptx" else "host")
    if emit == "ptx" and target == "host":
        raise UserError("PTX is code for GPUs, and not for the host; fix: --target sm_80 or another GPU, or --emit asm")
    if emit == "asm" and target != "host" and not options.print_pipeline:
        raise UserError(f"the assembly of a GPU is made by its own assembler; fix: --emit ptx --target {target}")
    if options.emit in STAGES or options.format == "json":
        return _show_triton_c(options)
    kernel = read_kernel(options.kernel, options, options.debug)
    if options.print_pipeline:
        text = kernel.pipeline(target)
    elif emit == "ttir":
        text = _text_after(kernel, options.after, options.passes, target)
    elif emit == "ptx":
        text = kernel.ptx(target, passes=options.passes)
    else:
        text = (kernel.llvm_ir if emit == "llvm" else kernel.asm)(target, passes=options.passes)
    _write(text, options.output)
    return 0


def _show_triton_c(options: argparse.Namespace) -> int:
    """Show a stage of a text in Triton-C, or what is wrong with it."""
    if not is_triton_c(options.kernel):
        what = "--format json" if options.format == "json" else f"--emit {options.emit}"
        raise UserError(f"{what} is for texts in Triton-C; {options.kernel} is none")
    if options.format == "json":
        text, status = diagnostics_json(options, options.kernel)
    else:
        text, status = stage_text(options, options.kernel, options.emit), 0
    _write(text, options.output)
    return status


def _text_after(kernel: Kernel, after: str | None, passes: str | None, target: str) -> str:
    if passes is not None:
        return kernel.ttir_through(passes)
    return kernel.ttir if after is None else kernel.ttir_after(after, target)


def _passes() -> str:
    from ...lowering.tt.transforms.registry import find_pass, pass_names

    lines = []
    for name in pass_names():
        found = find_pass(name)
        lines.append(wrapped(f"{name}: {found.summary()}"))
        for option, (values, meaning) in found.options().items():
            lines.append(wrapped(f"{option} ({values}): {meaning}", indent="  "))
    return "\n".join(lines)


def _write(text: str, output: str | None) -> None:
    text = text if text.endswith("\n") else f"{text}\n"
    if output is None:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror or error}") from error


def run_kernel(options: argparse.Namespace, read: Callable[[str], Array]) -> int:
    """Run a kernel as `joinery run` does, and return the exit status. `read` loads a .npy file."""
    import numpy as np

    if options.inputs or options.trusted:
        raise UserError(
            "--input and --trusted are for saved models; a kernel's arguments follow its file, in their order"
        )
    tuned = None
    if is_triton_c(options.model) and is_tuned(options):
        tuned = tuned_kernel(options, options.model, options.numerics or NUMERICS[0])
    else:
        kernel = read_kernel(options.model, options, debug=False)
    if options.grid is None:
        raise UserError(f"{options.model}: fix: say how many programs to run with --grid X,Y,Z")
    grid = _grid(options.grid)
    values = [_argument(text, read) for text in options.arguments]
    warps: int | None = None
    if tuned is not None:
        kernel, warps = chosen_kernel(tuned, grid, values, _device(options), options.threads, _checks_bounds(options))
    parameters = kernel.parameters
    if len(options.arguments) != len(parameters):  # tables in constant memory are supplied by the launch
        parameters = parameters[: len(parameters) - len(kernel.constants)]
    if len(options.arguments) != len(parameters):
        if is_triton_c(options.model):
            kernel.interpret(grid, *values)  # refuses them, and names what is missing in the types of the text
        names = ", ".join(f"{each.name}: {each.type}" for each in parameters) or "none"
        raise UserError(
            f"@{kernel.name} takes {len(parameters)} arguments ({names}), got {len(options.arguments)}"
        )
    arrays = {
        p.name: value for p, value in zip(parameters, values, strict=True) if isinstance(value, np.ndarray)
    }
    outputs = dict(options.outputs)
    if len(outputs) != len(options.outputs):
        raise UserError("an output is given twice; fix: one --output NAME=FILE for each")
    for name in outputs:
        if name not in arrays:
            raise UserError(
                f"@{kernel.name} has no array parameter {name!r}; arrays: {', '.join(arrays) or 'none'}"
            )
    before = {name: array.tobytes() for name, array in arrays.items()}
    status = _execute(kernel, options, grid, values, warps)
    changed = [name for name, array in arrays.items() if array.tobytes() != before[name]]
    files = {
        p.name: text for p, text in zip(parameters, options.arguments, strict=True) if text.endswith(".npy")
    }
    if options.in_place:
        outputs |= {name: files[name] for name in changed if name in files and name not in outputs}
    for name, path in outputs.items():
        _save(path, arrays[name])
        print(printable(f"{name}: {arrays[name].dtype}{list(arrays[name].shape)} -> {path}"))
    if not outputs:
        for name in changed:
            print(printable(f"{name}: {arrays[name].dtype}{list(arrays[name].shape)}"))
            print(np.array2string(arrays[name], max_line_width=WIDTH, threshold=64))
    return status


def _execute(
    kernel: Kernel, options: argparse.Namespace, grid: tuple[int, ...], values: Sequence[Any], warps: int | None
) -> int:
    """Run the kernel as the options say; return 2 if the sanitizer found something, else 0. warps: None for the default."""
    device = _device(options)
    if not _checks_bounds(options) and (device != "cpu" or options.target is not None):
        from ...lowering.llvm.nvptx.targets import DEFAULT_WARPS

        if options.interpret:
            raise UserError("--interpret takes neither --device nor --target: it runs on nothing but NumPy")
        warps = warps or DEFAULT_WARPS
        kernel.launch(grid, *values, device=device, target=options.target, sanitize=options.sanitize, warps=warps)
        return 0
    if options.interpret:
        kernel.interpret(grid, *values)
        return 0
    if not options.sanitize:
        kernel.launch(grid, *values, threads=options.threads, check_bounds=_checks_bounds(options))
        return 0
    report = kernel.sanitize(grid, *values)
    print(wrapped(f"sanitizer: {report}"), file=sys.stderr if report.findings else sys.stdout)
    return 2 if report.findings else 0


def _checks_bounds(options: argparse.Namespace) -> bool:
    """Return whether accesses are compared with the arrays: on the CPU, unless that is switched off. GPUs do it anyway."""
    is_cpu = _device(options) == "cpu" and options.target is None
    if options.no_check_bounds and not is_cpu:
        raise UserError("--no-check-bounds is for the CPU: simulated GPUs check all memory; fix: leave it out")
    return is_cpu and not options.no_check_bounds


def _device(options: argparse.Namespace) -> str:
    return options.device if options.device not in (None, "auto") else "cpu"


def _grid(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--grid {text!r}: expected one to three numbers of programs, as in 4,2,1") from None


def _argument(text: str, read: Callable[[str], Array]) -> Any:
    """Return a number, the array of a .npy file, or a new array."""
    import numpy as np

    if text.endswith(".npy"):
        return np.ascontiguousarray(read(text))
    if text.partition(":")[0] in _FILLS:
        return _new_array(text)
    if text in ("true", "false"):
        return text == "true"
    if text == "none":
        return None
    for convert in (lambda digits: int(digits, 0), float):
        try:
            return convert(text)
        except ValueError:
            continue
    raise UserError(f"argument {text!r}: expected a number, a .npy file, none, or {'/'.join(_FILLS)}:DTYPE:SHAPE")


def _new_array(text: str) -> Array:
    import numpy as np

    fill, _, rest = text.partition(":")
    name, _, extents = rest.partition(":")
    try:
        shape = tuple(int(extent) for extent in extents.split("x"))
    except ValueError:
        raise UserError(
            f"argument {text!r}: expected {fill}:DTYPE:SHAPE, as in {fill}:float32:64x32"
        ) from None
    dtype = DType(name).numpy
    count = 1
    for extent in shape:
        count *= extent
        if extent < 0 or count * dtype.itemsize > _MAX_BYTES:
            raise UserError(
                f"argument {text!r}: an array has at most {_MAX_BYTES} bytes, and no negative extent"
            )
    if fill == "arange":
        return np.arange(count).astype(dtype).reshape(shape)
    return np.zeros(shape, dtype) if fill == "zeros" else np.ones(shape, dtype)


def _save(path: str, array: Array) -> None:
    """Write an array beside its file and move it there, so that the file is replaced whole or not at all."""
    import numpy as np

    beside = f"{path}.part"
    try:
        with open(beside, "wb") as file:  # a file object: numpy.save would add .npy to a path
            np.save(file, array, allow_pickle=False)
        os.replace(beside, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error


__all__ = ["SUFFIXES", "add_compile", "add_run_options", "is_kernel", "is_number", "read_kernel", "run_kernel"]
