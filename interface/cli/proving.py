"""Implements `joinery prove FILE`: proves properties of a block kernel for all sizes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from ...lowering.prove.proof import Proof
from ...promotion import UserError
from .kernel import read_kernel
from .triton_c import add_triton_c_options

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
        "kernel", metavar="FILE", help="tt dialect (.ttir, .mlir) or Triton-C (.tc, .c, or - for standard input)"
    )
    parser.add_argument("--name", dest="function", metavar="F", help="which function, when there are several public ones")
    parser.add_argument(
        "--grid", metavar="SIZE,SIZE", help='numbers of programs, as in "cdiv(n, 1024)" or "cdiv(M, 32), N"; any without it'
    )
    parser.add_argument("--extent", metavar="ARRAY: SIZE", action="append", default=[], help='elements of an array: "x: n"')
    parser.add_argument(
        "--assume", metavar="TEXT", action="append", default=[], help='what holds of sizes: "n >= 1", "0 <= idx[:] < n"'
    )
    properties = "bounds, races, overflow (default: these three), initialised, termination of loops"
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", help=properties)
    formats = ("text", "json", "html")
    parser.add_argument("--format", choices=formats, default="text", help="how the proof is shown (default: text)")
    parser.add_argument("--verify", metavar="PROOF", help="prove again what a file of --format json says, and nothing else")
    parser.add_argument("--limit", type=int, metavar="STEPS", help="most steps of the solver for one question")
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
    kernel = read_kernel(options.kernel, options, debug=False)
    more = {} if options.limit is None else {"limit": options.limit}
    if options.properties is not None:
        more["properties"] = tuple(options.properties)
    if options.verify is not None:
        given = (options.extent, options.assume, options.grid, options.properties, options.limit)
        if any(each not in (None, []) for each in given):
            raise UserError("--verify takes the specification from the proof; fix: leave out what else says it")
        proof = kernel.prove.verify(_read(options.verify))
        return _written(proof, options.format)
    grid = None if options.grid is None else split_sizes(options.grid)
    proof = kernel.prove(options.assume, extents, grid, **more)
    return _written(proof, options.format)


def _written(proof: Proof, format_: str) -> int:
    shown = {"text": proof.__str__, "json": proof.as_json, "html": proof.as_html}[format_]()
    sys.stdout.write(f"{shown.rstrip()}\n")
    return _PROVEN if proof.ok else _REFUTED if proof.refuted else _OPEN


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--verify {path}: {error}") from None


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
