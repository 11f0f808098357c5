"""What the package defines is used by the package, or told of in the documentation: what tests alone use belongs to them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..support.syntax import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
WORD = re.compile(r"[A-Za-z_]\w*")
PLAIN = frozenset({"property", "classmethod", "staticmethod", "contextmanager", "functools.cache", "functools.cached_property"})
"""Decorators that nobody finds what they decorate by; others may register it."""
PLAIN_BASES = frozenset({"Protocol", "Generic", "NamedTuple"})
FOUND_BY_NAME = re.compile(r"_(scf|tt)_\w+")
"""Handlers of the interpreter and the sanitizer, whose names are made of the operation's."""
KEPT = {
    "_DoorFinder.create_module": "the import system calls it",
    "RuleSet.from_table": "rules of one's own, from a table",
    "PromotionTable.to_numpy": "a table to compute with",
    "MATH_NAMES": "what `emit_math` takes",
    "SHORT_NAMES": "what `emit_math` takes",
    "MODULES": "keeps imports that fill a table",
    "FILLED_BY": "keeps imports that fill a table",
    "DeviceProperties.clock_hz": "for benchmarks",
}
"""Names that nothing uses: why they are there."""


class Definition(NamedTuple):
    name: str
    shown: str
    place: str


def package_files(root: Path) -> list[Path]:
    return sorted([path for layer in LAYERS for path in (root / layer).rglob("*.py")] + list(root.glob("*.py")))


def used_in(nodes: list[ast.AST]) -> Iterator[str]:
    """Names that are read, and words in texts of the code: exports, annotations, parts of names.

    Docstrings, texts below constants, and names in `__all__` use nothing.
    """
    silent: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            silent.update(ast.walk(node.value))
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
            yield from WORD.findall(node.value)


def definitions(tree: ast.Module, place: str, own_classes: set[str]) -> Iterator[Definition]:
    """Functions, methods, classes and constants that only their name leads to."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield Definition(node.targets[0].id, node.targets[0].id, f"{place}:{node.lineno}")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield Definition(node.target.id, node.target.id, f"{place}:{node.lineno}")
        elif isinstance(node, ast.FunctionDef) and not registered(node):
            yield Definition(node.name, node.name, f"{place}:{node.lineno}")
        elif isinstance(node, ast.ClassDef) and node.name in own_classes:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not registered(method):
                    yield Definition(method.name, f"{node.name}.{method.name}", f"{place}:{method.lineno}")


def registered(node: ast.FunctionDef) -> bool:
    """Whether a decorator, or its name, hands it to somebody."""
    decorated = any(ast.unparse(each) not in PLAIN for each in node.decorator_list)
    return decorated or FOUND_BY_NAME.fullmatch(node.name) is not None


def without_foreign_bases(files: Iterable[list[ast.AST]]) -> set[str]:
    """Names of the classes whose methods override none of other packages'."""
    bases: dict[str, set[str]] = {}
    for nodes in files:
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
        foreign = {alias.asname or alias.name for node in imports for alias in node.names} - PLAIN_BASES
        for each in classes:
            named = {ast.unparse(base).partition("[")[0] for base in each.bases}
            bases.setdefault(each.name, set()).update(f"foreign {name}" if name in foreign else name for name in named)
    own = set(bases)
    while outside := {name for name in own if not bases[name] <= own | PLAIN_BASES}:
        own -= outside
    return own


def unused(root: Path, documentation: str = "") -> list[Definition]:
    files = package_files(root)
    nodes = [nodes_of(path) for path in files]
    own_classes = without_foreign_bases(nodes)
    used = Counter(name for each in nodes for name in used_in(each))
    used.update(WORD.findall(documentation))
    found = []
    for path in files:
        if "triton" in path.parts:  # Triton calls what is there
            continue
        for each in definitions(tree_of(path), str(path.relative_to(root)), own_classes):
            dunder = each.name.startswith("__") and each.name.endswith("__")
            if not dunder and not used[each.name] and not used[each.name.removesuffix("_")]:
                found.append(each)
    return found


def test_nothing_is_for_tests_alone() -> None:
    pages = [page for pattern in ("*.md", "docs/**/*.md", "docs/*.py", "examples/*.py") for page in ROOT.glob(pattern)]
    found = unused(ROOT, "\n".join(page.read_text(encoding="utf-8") for page in pages))
    extra = [f"{each.place}: {each.shown}" for each in found if each.shown not in KEPT]
    assert not extra, "used by tests at most; use it, tell of it in docs/, or move it to tests/support:\n" + "\n".join(extra)
    assert {each.shown for each in found} == set(KEPT)


def test_what_nothing_uses_is_reported(tmp_path: Path) -> None:
    for layer in LAYERS:
        (tmp_path / layer).mkdir()
    (tmp_path / "graph" / "a.py").write_text(
        '"""Says unused."""\n__all__ = ["unused"]\nUNREAD = 1\nREAD = 2\n\n'
        "def unused(): return READ\n\ndef used(): ...\n\n@table('x')\ndef row(): ...\n\n"
        "class A:\n    @property\n    def lonely(self): return used()\n\n    def __len__(self): ...\n\n"
        "class B(Foreign):\n    def overrides(self): ...\n\nclass C(B):\n    def overrides_too(self): ...\n"
    )
    assert [each.shown for each in unused(tmp_path)] == ["UNREAD", "unused", "A.lonely"]
    assert [each.shown for each in unused(tmp_path, "call `unused`")] == ["UNREAD", "A.lonely"]
