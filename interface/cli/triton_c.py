"""Gives `joinery compile` and `joinery run` what texts in Triton-C need: macros, files to include, stages, diagnostics."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...promotion.errors import TritonCWarning, UserError, printable_lines
from .text import wrapped

if TYPE_CHECKING:
    from ..kernel import Kernel
    from ..texts import TritonCText
    from ..tuning.tuned import TunedKernel

SUFFIXES = (".tc", ".c")
STDIN = "-"
"""The name of standard input, which has a text in Triton-C."""
_LIST = re.compile(r"\[([^\[\]()]*)\]")
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-zA-Z.+-]*")
_TYPES = frozenset([
    "bool", "char", "short", "int", "unsigned", "long", "half", "bfloat16", "float", "double",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
])  # fmt: skip
STAGES = ("tokens", "ast", "typed")
_OPTIONS = {
    "--define": "defines", "--include": "include", "--single-precision-constants": "single_precision_constants",
}  # fmt: skip


def is_triton_c(path: str) -> bool:
    """Return whether a file is a text in Triton-C, judged by its name."""
    return path == STDIN or path.endswith(SUFFIXES)


def add_triton_c_options(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the options of texts in Triton-C."""
    parser.add_argument(
        "--define", action="append", default=[], metavar="NAME[=TOKENS]", dest="defines",
        help=f"{more}of Triton-C: a macro and what it stands for (default: 1); once per macro. "
        "run takes lists too, as in TM=[32,64], and keeps the fastest value",
    )  # fmt: skip
    parser.add_argument(
        "--include", action="append", default=[], metavar="FILE",
        help=f"{more}of Triton-C: a file that #include finds by its name; once per file",
    )  # fmt: skip
    parser.add_argument(
        "--single-precision-constants", action="store_true",
        help=f"{more}of Triton-C: floating constants without a suffix are float, not double",
    )  # fmt: skip


def refuse_triton_c_options(options: argparse.Namespace, path: str) -> None:
    """Raise `UserError` if an option of Triton-C is given with another file."""
    for option, name in _OPTIONS.items():
        if getattr(options, name):
            raise UserError(f"{option} is for texts in Triton-C ({', '.join(SUFFIXES)}); {path} is none")


_FIXES = (
    (re.compile(r"\bdefines=\{'(\w+)': …\}"), r"--define \1=…"),
    (re.compile(r"\bname='(\w+)'"), r"--name \1"),
    (re.compile(r"\binclude=\{'([^']*)': text\}"), r"--include \1"),
    (re.compile(r"\bsingle_precision_constants=True"), "--single-precision-constants"),
)
"""What fixes say of the library's arguments, and what the command line calls them."""


def as_options(text: str) -> str:
    """Return a message whose fixes name options of the command line in place of arguments of the library."""
    lines = []
    for line in text.split("\n"):
        before, fix, behind = line.rpartition("; fix: ")
        if fix and not line.startswith("  "):  # else it is a line of the text
            for pattern, option in _FIXES:
                behind = pattern.sub(option, behind)
        lines.append(before + fix + behind)
    return "\n".join(lines)


@contextlib.contextmanager
def _told_as_options() -> Iterator[None]:
    """Let what is wrong with a text speak of the options of the command line."""
    try:
        yield
    except UserError as error:
        error.args = (as_options(str(error)).replace("from_triton_c: ", ""),)
        raise


def defines_of(options: argparse.Namespace) -> dict[str, str | list[str]]:
    """Return the macros that are defined on the command line, lists for those with several values.

    A list is one of numbers, or of types; `[:, +]` and `[i]` are tokens. Raises `UserError` for a macro that is defined twice.
    """
    found: dict[str, str | list[str]] = {}
    for text in options.defines:
        name, equals, body = text.partition("=")
        if name in found:
            raise UserError(f"--define {name} is given twice; fix: one --define for each macro")
        found[name] = _listed(body) or body if equals else "1"
    return found


def _listed(body: str) -> list[str]:
    """Return the values of a list; none for other tokens."""
    match = _LIST.fullmatch(body.strip())
    values = [each.strip() for each in match.group(1).split(",")] if match else []
    return values if all(each in _TYPES or _NUMBER.fullmatch(each) for each in values) else []


def is_tuned(options: argparse.Namespace) -> bool:
    """Return whether a macro has several values."""
    return any(isinstance(each, list) for each in defines_of(options).values())


def tuned_kernel(options: argparse.Namespace, path: str, numerics: str) -> TunedKernel[Kernel]:
    """Return the kernel in a file with all values of its macros."""
    from ..kernel import tune

    with _told_as_options():
        return tune(
            _path_or_text(path), defines_of(options), options.function, include=options.include, numerics=numerics,
            single_precision_constants=options.single_precision_constants,
        )  # fmt: skip


def chosen_kernel(
    tuned: TunedKernel[Kernel], grid: Sequence[int], values: Sequence[object], device: str, threads: int | None, checked: bool
) -> tuple[Kernel, int]:
    """Return the fastest kernel and its warps; tell of it on standard error, and why others were dropped."""
    with _told_as_options():
        best = tuned.best(grid, *values, device=device, threads=threads, check_bounds=checked)
    reasons = {each.bodies: reason for each, reason in tuned.dropped.items()}  # those of other numbers of warps are alike
    for bodies, reason in reasons.items():
        macros = ", ".join(f"{name}={body}" for name, body in bodies)
        print(printable_lines(f"dropped: {macros}\n{as_options(reason)}"), file=sys.stderr)
    print(wrapped(f"fastest: {', '.join(f'{name}={value}' for name, value in best.defines.items())}"), file=sys.stderr)
    return best.kernel, best.warps


def _single(options: argparse.Namespace) -> dict[str, str]:
    """Return the macros, with one value each. Raises `UserError` for a list."""
    found: dict[str, str] = {}
    for name, value in defines_of(options).items():
        if isinstance(value, list):
            listed = f"--define {name}=[{', '.join(value)}]"
            raise UserError(f"{listed}: one kernel is shown, and this is a list; fix: one of its values")
        found[name] = value
    return found


def _path_or_text(path: str) -> Path | str:
    """Return the path, or what stands in standard input."""
    if path != STDIN:
        return Path(path)
    try:
        return sys.stdin.buffer.read().decode("utf-8") + "\n"  # a line of its own is no path
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is no UTF-8 text: {error}") from None


def triton_c_kernel(options: argparse.Namespace, path: str, numerics: str, debug: bool) -> Kernel:
    """Return the kernel in a file. Its warnings go to standard error."""
    from ..kernel import from_triton_c

    with warnings.catch_warnings(record=True) as caught, _told_as_options():
        warnings.simplefilter("always", TritonCWarning)
        kernel = from_triton_c(
            _path_or_text(path), _single(options), options.function, include=options.include, numerics=numerics, debug=debug,
            single_precision_constants=options.single_precision_constants,
        )  # fmt: skip
    for each in caught:
        print(printable_lines(as_options(str(each.message))), file=sys.stderr)
    return kernel


def stage_text(options: argparse.Namespace, path: str, stage: str) -> str:
    """Return a stage of a text, as it is printed."""
    from ...lowering.frontends.triton_c.printing import print_stage

    with _told_as_options():
        return print_stage(_text(options, path).reading(), stage)


def diagnostics_json(options: argparse.Namespace, path: str) -> tuple[str, int]:
    """Return the errors and warnings of a text as JSON, and the exit status: 2 if there are errors."""
    from ...lowering.frontends.triton_c.reading.diagnostics import Diagnostic, Location, TritonCError
    from ...lowering.frontends.triton_c.text import build

    found: Sequence[Diagnostic]
    try:
        reading = _text(options, path).reading()
        build(reading)
        found, status = reading.diagnostics.warnings, 0
    except TritonCError as error:
        found, status = error.diagnostics, 2
    except UserError as error:  # the text is not there, or an option is wrong
        message, _, fix = str(error).replace("from_triton_c: ", "").partition("; fix: ")
        found, status = [Diagnostic("error", message, fix, (Location("", path, 1, 1, "", 0, 1, 1),))], 2
    shown = [dataclasses.replace(each, fix=as_options(f"; fix: {each.fix}").removeprefix("; fix: ")) for each in found]
    return json.dumps([each.json for each in shown], indent=2, ensure_ascii=False), status


def _text(options: argparse.Namespace, path: str) -> TritonCText:
    from ..texts import triton_c_text

    return triton_c_text(
        _path_or_text(path), _single(options), options.function, options.include, options.single_precision_constants
    )


__all__ = [
    "STAGES", "STDIN", "SUFFIXES", "add_triton_c_options", "as_options", "chosen_kernel", "diagnostics_json", "is_triton_c",
    "is_tuned", "refuse_triton_c_options", "stage_text", "triton_c_kernel", "tuned_kernel",
]  # fmt: skip
