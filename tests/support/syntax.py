"""Syntax trees of the package's files, for all checks of the code as a whole: to parse and to walk them takes three seconds."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Returns all nodes of a file, the module first. They are kept until `forget()`."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))))


def tree_of(path: Path) -> ast.Module:
    """Returns the module of a file."""
    tree = nodes_of(path)[0]
    assert isinstance(tree, ast.Module)
    return tree


@cache
def nodes_of_kinds(path: Path, *kinds: type[ast.AST]) -> list[ast.AST]:
    """Returns the nodes of some kinds of a file; the kinds have none below them."""
    return [node for node in nodes_of(path) if type(node) in kinds]


def forget() -> None:
    nodes_of.cache_clear()
    nodes_of_kinds.cache_clear()
