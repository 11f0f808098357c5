"""Writes `__init__.pyi`: the types of the public names for editors and type checkers, which cannot see what loads on first use.

python docs/stubs.py            writes the file
python docs/stubs.py --check    exits with 1 when it is not what the code says
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import joinery as jn
from joinery.graph.functions.names.exports import EXPORTS, public
from joinery.promotion.dtype import DTYPES

PATH = Path(__file__).resolve().parents[1] / "__init__.pyi"

HEAD = '''"""Types of joinery's public names. Written by docs/stubs.py: do not edit."""

# ruff: noqa: A001, A002, A004 (names of builtins are ours)
import builtins
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

'''

ALIASES = '''
_Operand: TypeAlias = Symbol | Dim | npt.NDArray[Any] | np.generic | complex
_Number: TypeAlias = float | np.generic
_DTypeLike: TypeAlias = DType | str | np.dtype[Any] | type[Any]
_Size: TypeAlias = SupportsIndex | str | Dim
_Shape: TypeAlias = _Size | Sequence[_Size]
_Axis: TypeAlias = int | tuple[int, ...] | list[int] | None

__version__: str
'''

OPERANDS = {
    "a", "b", "c", "condition", "x", "y", "gate", "high", "low", "lhs", "rhs", "like", "mask", "operands", "scale", "slope",
    "value", "weight", "bias", "indices",
}  # fmt: skip
"""Parameters that take tensors. Where a function has only one, it is a symbol: nothing else has a graph."""

TYPES = {
    "dtype": "_DTypeLike", "shape": "_Shape", "depth": "_Size", "n": "_Size", "m": "_Size", "k": "int | Dim",
    "repeats": "_Shape", "sizes": "_Shape", "shift": "int | Dim | Sequence[int | Dim]", "start": "_Number | str | Dim",
    "stop": "_Number | str | Dim", "step": "_Number", "widths": "_Size | Sequence[_Size | Sequence[_Size]]",
    "axes": "Sequence[int]", "axis": "_Axis", "values": "Sequence[_Operand]",
}  # fmt: skip
"""Parameters by name, where the source leaves the type open."""

SPECIAL = {
    ("rebind", "shape"): "_Size | Sequence[_Size | None] | None",
    ("slice_tensor", "indices"): "Any",
    ("tensordot", "axes"): "int | Sequence[int | Sequence[int]]",
    ("pad", "value"): "complex | np.generic",
}


def annotation(function: str, parameter: inspect.Parameter, lone: bool) -> str:
    """The type of a parameter, as the stub writes it."""
    name, text = parameter.name, str(parameter.annotation)
    optional = " | None" if parameter.default is None else ""
    if (function, name) in SPECIAL:
        return SPECIAL[function, name]
    if name in OPERANDS and text in ("Any", "Symbol"):
        return "Symbol" if lone else "_Operand" + optional
    if text in ("Any", "Sequence[Any]"):
        if name not in TYPES:
            raise SystemExit(f"docs/stubs.py: {function}({name}) has no type; fix: name it in TYPES")
        return TYPES[name] + (optional if "None" not in TYPES[name] and name != "axis" else "")
    return re.sub(r"\bAxis\b", "_Axis", re.sub(r"\bbool\b", "builtins.bool", text))


def declaration(name: str) -> str:
    return written(name, inspect.signature(public(name)))


def written(name: str, signature: inspect.Signature) -> str:
    parameters = list(signature.parameters.values())
    tensors = [p for p in parameters if p.name in OPERANDS and str(p.annotation) in ("Any", "Symbol")]
    lone = len(tensors) == 1 and tensors[0].kind is not inspect.Parameter.VAR_POSITIONAL
    lone = lone and not any(p.name == "graph" for p in parameters)
    parts, starred = [], False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        starred = starred or bool(star)
        default = "" if parameter.default is inspect.Parameter.empty else " = ..."
        parts.append(f"{star}{parameter.name}: {annotation(name, parameter, lone)}{default}")
    returned = signature.return_annotation
    line = f"def {name}({', '.join(parts)}) -> {returned}: ..."
    if len(line) <= 110:
        return line
    return "def {}(\n{}) -> {}: ...".format(name, "".join(f"    {part},\n" for part in parts), returned)


def stub() -> str:
    """The text of `__init__.pyi`."""
    cached = {name: getattr(jn, name) for name in jn._LOCATIONS if hasattr(getattr(jn, name), "cache_info")}
    modules = [(module.rpartition(".")[0], name) for name, module in jn._MODULES.items()]
    others = [(module, name) for name, module in jn._LOCATIONS.items() if name not in cached]
    imports = [f"from .{module} import {name} as {name}" for module, name in sorted([*modules, *others])]
    dtypes = [f"{name}: DType" for name in DTYPES]
    functions = [declaration(name) for name in EXPORTS]
    functions += [written(name, inspect.signature(value)) for name, value in cached.items()]  # their types forget parameters
    return "\n".join([HEAD + "\n".join(imports), ALIASES, *dtypes, "", *functions]) + "\n"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: stubs.py [--check]", file=sys.stderr)
        return 2
    text = stub()
    same = PATH.exists() and PATH.read_text(encoding="utf-8") == text
    if arguments:
        if not same:
            print("__init__.pyi is not what the code says; fix: make docs")
        return 0 if same else 1
    if not same:
        PATH.write_text(text, encoding="utf-8")
        print("wrote __init__.pyi")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
