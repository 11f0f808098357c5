"""Implements `joinery prove FILE`: proves properties of a block kernel for all sizes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...lowering.prove.proof import Proof
from ...lowering.prove.stored import MAX_LETTERS, StoredProof, read_stored, stored_text
from ...promotion import UserError
from ...promotion.errors import printable
from .kernel import TTIR_SUFFIXES, is_kernel, read_kernel
from .triton_c import STDIN, add_triton_c_options, refuse_triton_c_options

if TYPE_CHECKING:
    from ..kernel import Kernel

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
_PROVEN, _REFUTED, _OPEN = 0, 3, 4


def add_prove(add: Add) -> None:
    """Add the command `prove`."""
    parser = add("prove", _prove, "prove for all sizes that a block kernel stays inside its arrays and has no races")
    parser.epilog = (
        f"The exit status is {_PROVEN} if everything is proven for all sizes, {_REFUTED} if a launch breaks a property, "
        f"{_OPEN} if something is proven under a condition or unknown, and 2 for a mistake in what was asked."
    )
    parser.add_argument(
        "kernel", metavar="FILE", nargs="?",
        help="tt dialect (.ttir, .mlir), Triton-C (.tc, .c, or - for standard input), or a saved model with kernels",
    )  # fmt: skip
    parser.add_argument(
        "--name", dest="function", metavar="F", help="which function, when there are several public ones, or kernel of a model"
    )
    parser.add_argument(
        "--grid", metavar="SIZE,SIZE", help='numbers of programs, as in "cdiv(n, 1024)" or "cdiv(M, 32), N"; any without it'
    )
    parser.add_argument("--extent", metavar="ARRAY: SIZE", action="append", default=[], help='elements of an array: "x: n"')
    parser.add_argument(
        "--assume", metavar="TEXT", action="append", default=[],
        help='what holds of sizes: "n >= 1", "0 <= idx[:] < n", "at_launch(counter[:]) == 0"',
    )
    properties = "bounds, races, overflow (default: these three), initialised, order, termination of loops"
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", help=properties)
    formats = ("text", "json", "html")
    parser.add_argument("--format", choices=formats, default="text", help="how the proof is shown (default: text)")
    parser.add_argument("--output", metavar="PROOF", help="keep the proof as JSON in this file, for --verify")
    parser.add_argument(
        "--verify", metavar="PROOF",
        help="prove again what a file of --output says, and nothing else, of FILE or of the kernel that it names beside itself",
    )  # fmt: skip
    parser.add_argument("--kernel", dest="other", metavar="FILE", help="with --verify: the same as FILE")
    parser.add_argument(
        "--limit", type=int, metavar="STEPS",
        help="most steps of the solver for one question, of which a proof has 20 times as many, and some for each access; with "
        "--verify the most that the proof may ask for",
    )  # fmt: skip
    parser.add_argument(
        "--cache", action="store_true", help="take what was proven before from the user's cache, and keep what is proven there"
    )
    add_triton_c_options(parser)


def _prove(options: argparse.Namespace) -> int:
    extents = {}
    for text in options.extent:
        name, colon, size = text.partition(":")
        if not colon or not name.strip() or not size.strip():
            raise UserError(f"--extent {text!r}: expected an array and its elements, as in 'x: n'")
        if name.strip() in extents:
            raise UserError(f"--extent {text!r}: {name.strip()} has an extent already; fix: one --extent for each array")
        extents[name.strip()] = size.strip()
    options.numerics = None
    more = {} if options.limit is None else {"limit": options.limit}
    if options.verify is not None:
        given = (options.extent, options.assume, options.grid, options.properties)
        if any(each not in (None, []) for each in given):
            raise UserError("--verify takes the specification from the proof; fix: leave out what else says it")
        if options.output is not None or options.cache:
            raise UserError("--verify proves anew and keeps nothing; fix: leave out --output and --cache")
        text = _read(options.verify)
        stored = read_stored(text)
        kernel = _kernel_of(options, stored)
        status = _written(kernel.prove.verify(text, **more), options.format)
        if options.format == "text":
            sys.stdout.write(f"verified: {printable(options.verify)} says what is found now\n")
        return status
    if options.other is not None or options.kernel is None:
        raise UserError("prove: fix: name the kernel, as in joinery prove FILE; --kernel goes with --verify")
    if options.output is not None and options.kernel != STDIN and _are_one(options.output, options.kernel):
        raise UserError(f"--output {options.output}: it would replace the kernel; fix: another file")
    kernel = _kernel(options.kernel, options)
    if options.properties is not None:
        more["properties"] = tuple(options.properties)
    grid = None if options.grid is None else split_sizes(options.grid)
    proof = kernel.prove(options.assume, extents, grid, cache=options.cache, **more)
    if options.output is not None:
        file = "" if options.kernel == STDIN else os.path.basename(options.kernel)
        _keep(options.output, stored_text(proof, file))
    return _written(proof, options.format)


def _kernel_of(options: argparse.Namespace, stored: StoredProof) -> Kernel:
    """Return the kernel that a stored proof is verified of: the one that is given, or the one that it names beside itself."""
    if options.kernel is not None and options.other is not None:
        raise UserError("--kernel is the same as FILE; fix: give one of them")
    path = options.kernel or options.other
    if path is None:
        if not stored.file:
            raise UserError(f"--verify {options.verify}: the proof names no file of its kernel; fix: --kernel FILE")
        path = os.path.join(os.path.dirname(options.verify), stored.file)
    if options.function is None and (path.endswith(TTIR_SUFFIXES) or not is_kernel(path)):
        options.function = stored.kernel
    return _kernel(path, options)


def _kernel(path: str, options: argparse.Namespace) -> Kernel:
    """Return the kernel of a text, or one that a saved model says its code is made of."""
    if is_kernel(path):
        return read_kernel(path, options, debug=False)
    from ...runtime.storage import artifact_file
    from ...runtime.storage.cache import cache_of
    from ..kernel import Kernel
    from ..texts import TtirText

    refuse_triton_c_options(options, path)
    opened = artifact_file.load(path, trusted=True)  # its code is read and never linked
    if opened.compiled is None or not opened.compiled.ttir:
        raise UserError(f"{path}: the file holds no kernels that this version reads; fix: save the model with this version")
    texts = opened.compiled.ttir
    names = ", ".join(list(texts)[:20]) + (", …" if len(texts) > 20 else "")
    if options.function is None and len(texts) > 1:
        raise UserError(f"{path} holds {len(texts)} kernels: {names}; fix: --name of one")
    name = next(iter(texts)) if options.function is None else options.function
    if name not in texts:
        raise UserError(f"{path} holds no kernel {name!r}; kernels: {names}")
    # What the code does is not compared with the text that stands beside it.
    print(printable(f"the text of {name} in {path}, of which the code there is said to be made"), file=sys.stderr)
    return Kernel(TtirText(texts[name], path), None, cache_of(True))


def _written(proof: Proof, format_: str) -> int:
    shown = {"text": proof.__str__, "json": proof.as_json, "html": proof.as_html}[format_]()
    sys.stdout.write(f"{shown.rstrip()}\n")
    return _PROVEN if proof.ok else _REFUTED if proof.refuted else _OPEN


def _read(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(MAX_LETTERS + 1)  # one too many is refused
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--verify {path}: {error}") from None


def _are_one(one: str, two: str) -> bool:
    """Return whether two paths are those of one file."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, two)
    return False


def _keep(path: str, text: str) -> None:
    """Write a proof beside its file and move it there, so that the file is replaced whole or not at all."""
    beside = f"{path}.part"
    try:
        Path(beside).write_text(f"{text}\n", encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise UserError(f"--output {path}: {error.strerror or error}") from None


def split_sizes(text: str) -> list[str]:
    """Return the sizes that commas outside of parentheses separate."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


__all__ = ["add_prove", "split_sizes"]
