"""Docstrings are sentences: none begins with a preposition, and every public name has one."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import joinery as jn
from joinery.graph.functions.names.exports import EXPORTS

from ..support.syntax import nodes_of

ROOT = Path(jn.__file__).resolve().parent
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
PREPOSITIONS = frozenset(["Of", "By", "As", "In", "With", "To", "From", "On", "At", "Beside", "Behind", "Below", "Above"])


def docstrings() -> list[tuple[str, str]]:
    """(place, docstring) of everything in the package that has one."""
    found = []
    for file in (path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")):
        for node in nodes_of(file):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text:
                    found.append((f"{file.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", text))
    return found


def test_no_docstring_begins_with_a_preposition() -> None:
    found = docstrings()
    assert len(found) > 1000
    assert [(place, text.split("\n")[0]) for place, text in found if text.split()[0] in PREPOSITIONS] == []


def test_everything_public_has_a_docstring_that_is_a_sentence() -> None:
    missing = []
    for name in (*jn._LOCATIONS, *EXPORTS):
        value = getattr(jn, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        members = [(name, value)]
        if inspect.isclass(value) and value.__module__.partition(".")[0] == "joinery":
            members += [
                (f"{name}.{key}", member)
                for base in value.__mro__
                if base.__module__.partition(".")[0] == "joinery"
                for key, member in vars(base).items()
                if not key.startswith("_") and (inspect.isroutine(member) or isinstance(member, property))
            ]
        for place, member in members:
            text = inspect.getdoc(member) or ""
            if not text or text.split("\n\n")[0].rstrip()[-1] not in ".:)`":
                missing.append((place, text.split("\n\n")[0][-60:]))
    assert missing == []
