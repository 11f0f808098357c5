"""Gives `joinery compile` and `joinery run` what texts in Triton-C need: macros, files to include, stages, diagnostics."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...promotion.errors import TritonCWarning, UserError
from .text import printable

if TYPE_CHECKING:
    from ..kernel import Kernel
    from ..texts import TritonCText

SUFFIXES = (".tc", ".c")
STAGES = ("tokens", "ast", "typed")
_OPTIONS = {
    "--define": "defines", "--include": "include", "--single-precision-constants": "single_precision_constants",
}  # fmt: skip


def is_triton_c(path: str) -> bool:
    """Return whether a file is a text in Triton-C, judged by its name."""
    return path.endswith(SUFFIXES)


def add_triton_c_options(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the options of texts in Triton-C."""
    parser.add_argument(
        "--define", action="append", default=[], metavar="NAME[=TOKENS]", dest="defines",
        help=f"{more}of Triton-C: a macro and what it stands for (default: 1); once per macro",
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


def defines_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the macros that are defined on the command line. Raises `UserError` for a macro that is defined twice."""
    found: dict[str, str] = {}
    for text in options.defines:
        name, equals, body = text.partition("=")
        if name in found:
            raise UserError(f"--define {name} is given twice; fix: one --define for each macro")
        found[name] = body if equals else "1"
    return found


def triton_c_kernel(options: argparse.Namespace, path: str, numerics: str, debug: bool) -> Kernel:
    """Return the kernel in a file. Its warnings go to standard error."""
    from ..kernel import from_triton_c

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TritonCWarning)
        kernel = from_triton_c(
            Path(path), defines_of(options), options.function, include=options.include, numerics=numerics, debug=debug,
            single_precision_constants=options.single_precision_constants,
        )  # fmt: skip
    for each in caught:
        print(printable(str(each.message)), file=sys.stderr)
    return kernel


def stage_text(options: argparse.Namespace, path: str, stage: str) -> str:
    """Return a stage of a text, as it is printed."""
    from ...lowering.frontends.triton_c.printing import print_stage

    return print_stage(_text(options, path).reading(), stage)


def diagnostics_json(options: argparse.Namespace, path: str) -> tuple[str, int]:
    """Return the errors and warnings of a text as JSON, and the exit status: 2 if there are errors."""
    from ...lowering.frontends.triton_c.reading.diagnostics import Diagnostic, TritonCError
    from ...lowering.frontends.triton_c.text import build

    found: Sequence[Diagnostic]
    try:
        reading = _text(options, path).reading()
        build(reading)
        found, status = reading.diagnostics.warnings, 0
    except TritonCError as error:
        found, status = error.diagnostics, 2
    return json.dumps([each.json for each in found], indent=2, ensure_ascii=False), status


def _text(options: argparse.Namespace, path: str) -> TritonCText:
    from ..texts import triton_c_text

    return triton_c_text(
        Path(path), defines_of(options), options.function, options.include, options.single_precision_constants
    )


__all__ = [
    "STAGES", "SUFFIXES", "add_triton_c_options", "diagnostics_json", "is_triton_c", "refuse_triton_c_options", "stage_text",
    "triton_c_kernel",
]  # fmt: skip
