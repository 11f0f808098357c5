"""Writes `__init__.pyi`: the types of the public names for editors and type checkers, since the package loads them lazily.

python docs/stubs.py            writes the file
python docs/stubs.py --check    exits with 1 when the file is out of date
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
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

'''

ALIASES = '''
_Bound: TypeAlias = float | np.generic | str | Dim

__version__: str
'''

NAMED = {
    "Axis": "graph.types", "DTypeLike": "graph.types", "DimLike": "graph.types", "ShapeLike": "graph.types",
    "TensorLike": "graph.protocols", "Widths": "graph.functions.joining",
    "PerAxis": "graph.functions.spatial.geometry", "Padding": "graph.functions.spatial.geometry",
}  # fmt: skip
"""Types of arguments and their modules; the stub imports them under a name with an underscore."""

SPECIAL = {
    ("rebind", "shape"): "_DimLike | Sequence[_DimLike | None] | None",
    ("slice_tensor", "indices"): "Any",
    ("pad", "value"): "builtins.complex | np.generic",
    ("while_loop", "cond_fun"): "Callable[[Any], Any]",
    ("while_loop", "body_fun"): "Callable[[Any], Any]",
    ("while_loop", "init_val"): "Any",
    ("fori_loop", "body_fun"): "Callable[[Symbol, Any], Any]",
    ("fori_loop", "init_val"): "Any",
    ("scan", "f"): "Callable[[Any, Any], tuple[Any, Any]]",
    ("scan", "init"): "Any",
    ("scan", "xs"): "Any",
    ("associative_scan", "fn"): "Callable[[Any, Any], Any]",
    ("associative_scan", "elems"): "Any",
    ("cond", "true_fun"): "Callable[..., Any]",
    ("cond", "false_fun"): "Callable[..., Any]",
    ("cond", "operands"): "Any",
}


def annotation(function: str, parameter: inspect.Parameter, lone: bool) -> str:
    """Returns the type of a parameter, as the stub writes it."""
    name, text = parameter.name, str(parameter.annotation)
    if (function, name) in SPECIAL:
        return SPECIAL[function, name]
    if lone and text in ("TensorLike", "TensorLike | None"):
        return "Symbol"  # no other argument has a graph
    if re.search(r"\bAny\b", text):
        raise SystemExit(f"docs/stubs.py: {function}({name}) has no type; fix: give it one, or name it in SPECIAL")
    text = re.sub(rf"\b({'|'.join(NAMED)})\b", r"_\1", text)
    return re.sub(r"\b(bool|complex)\b", r"builtins.\1", text)


def declaration(name: str) -> str:
    return written(name, inspect.signature(public(name)))


def written(name: str, signature: inspect.Signature) -> str:
    parameters = list(signature.parameters.values())
    tensors = [p for p in parameters if re.search(r"\bTensorLike\b", str(p.annotation))]
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
    """Returns the text of `__init__.pyi`."""
    cached = {name: getattr(jn, name) for name in jn._LOCATIONS if hasattr(getattr(jn, name), "cache_info")}
    modules = [(module.rpartition(".")[0], name) for name, module in jn._MODULES.items()]
    others = [(module, name) for name, module in jn._LOCATIONS.items() if name not in cached]
    public_names = [(module, name, name) for module, name in [*modules, *others]]
    types = [(module, name, f"_{name}") for name, module in NAMED.items()]
    ordered = sorted([*public_names, *types], key=lambda entry: (entry[0], entry[1].casefold()))
    imports = [f"from .{module} import {name} as {own}" for module, name, own in ordered]
    dtypes = [f"{name}: DType" for name in (*DTYPES, "string")]
    functions = [declaration(name) for name in EXPORTS]
    functions += [written(name, inspect.signature(value)) for name, value in cached.items()]  # their types have no parameters
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
