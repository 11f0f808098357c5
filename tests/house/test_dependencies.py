"""The package imports what pyproject.toml requires, and nothing else: what tests, demo or benchmarks need is an extra."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import joinery

from ..support.syntax import nodes_of

ROOT = Path(joinery.__file__).resolve().parent  # as other checks name the files, so that they are parsed once
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
IMPORTED_AS = {"cuda-python": "cuda"}
EXTRAS = {"interface/triton": {"triton", "torch", "pytest"}, "interface/torch": {"torch"},
          "interface/distributed": {"distributed", "ray"}, "graph/onnx": {"onnx"}, "lowering/prove/terms": {"z3"},
          "graph/weights": {"safetensors", "gguf"}, "graph/reference/host/images.py": {"PIL"}}  # fmt: skip
"""Libraries that the way into one of them, or into a format, imports when it is used."""


def required() -> set[str]:
    """Import names of the core requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.match(r"[\w-]+", requirement) for requirement in project["dependencies"]]
    return {IMPORTED_AS.get(name.group(), name.group()) for name in names if name is not None}


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Top-level names of the absolute imports of a module, those by `importlib.import_module("…")` too."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and called(node) in ("importlib.import_module", "import_module"):
            first = node.args[0]
            if isinstance(first, ast.Constant) and not str(first.value).startswith("."):
                yield str(first.value).partition(".")[0]


def called(node: ast.Call) -> str:
    """What is called, if it may be the function that imports by name."""
    last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return ast.unparse(node.func) if last == "import_module" else ""


def foreign(files: list[Path]) -> set[str]:
    """Names that the files import and that come neither with Python nor with the package."""
    found = {name for file in files for name in imported(nodes_of(file))}
    return found - set(sys.stdlib_module_names) - {"joinery"}


def test_the_package_imports_its_requirements_and_nothing_else() -> None:
    files = [*ROOT.glob("*.py"), *(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py"))]
    doors = {folder: [file for file in files if file.is_relative_to(ROOT / folder)] for folder in EXTRAS}
    assert foreign([file for file in files if not any(file in inside for inside in doors.values())]) == required()
    for folder, inside in doors.items():
        assert foreign(inside) - required() == EXTRAS[folder]


def test_imports_of_every_form_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import os, first.part\nfrom second.part import x\nfrom .third import y\nfrom joinery import z\n"
        "def f():\n    import fourth\n    importlib.import_module('fifth.part')\n    importlib.import_module('.sixth', 'a')\n"
    )
    assert foreign([file]) == {"first", "second", "fourth", "fifth"}
