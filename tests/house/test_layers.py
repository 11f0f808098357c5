"""The import rule of the house (promotion ← graph ← lowering ← runtime ← interface), checked on every module's source."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
ALLOWED = {
    "promotion": ("promotion",),
    "graph": ("promotion", "graph"),
    "lowering": ("promotion", "graph", "lowering"),
    "runtime": ("promotion", "graph.dims", "lowering.artifact", "lowering.ptx", "runtime"),
    "interface": (*LAYERS, "__version__"),
}
LATE = frozenset({"lowering.tt.dialect.context", "lowering.tt.transforms.tiled"})
"""Modules that import when a text is read or a pass runs, so that a process which needs neither starts sooner."""
MAX_LINES = 600
FOLDERS = frozenset({*LAYERS, ".ci", "benchmarks", "docs", "examples", "tests"})
FILES = frozenset({".gitignore", "LICENSE", "Makefile", "py.typed", "pyproject.toml"})
MODULES = re.compile(r"__(init|main)__\.pyi?")


def package_modules(root: Path) -> dict[str, Path]:
    """Dotted module name inside the package → file: the layers, and what the root holds."""
    files = [path for layer in LAYERS for path in (root / layer).rglob("*.py")]
    files += root.glob("*.py")
    names = {path: ".".join(path.relative_to(root).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def own_imports(name: str, tree: ast.Module, is_package: bool) -> Iterator[tuple[str, ast.stmt]]:
    """(target module, statement) for each import of our own package; relative names are made absolute."""
    package = name.split(".") if is_package else name.split(".")[:-1]
    if name == "__init__":
        package = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level == 0:
                if node.module and node.module.split(".")[0] in (*LAYERS, "joinery"):
                    yield f"absolute:{node.module}", node
                continue
            base = package[: len(package) - node.level + 1]
            if node.level - 1 > len(package):
                yield "outside the package", node
            elif node.module:
                yield ".".join([*base, node.module]), node
            else:
                for alias in node.names:
                    yield ".".join([*base, alias.name]), node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in (*LAYERS, "joinery"):
                    yield f"absolute:{alias.name}", node


def type_checking_only(tree: ast.Module) -> set[ast.stmt]:
    """Statements under `if TYPE_CHECKING:`. They never run, so they may stand anywhere at module level."""
    guarded: set[ast.stmt] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            guarded.update(child for child in ast.walk(node) if isinstance(child, ast.stmt))
    return guarded


def violations(root: Path) -> list[str]:
    """Every breach of the import rule and of the size cap below `root`, as readable lines."""
    found = []
    modules = package_modules(root)
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in sorted(modules.items()):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        layer = name.split(".")[0]
        where = path.relative_to(root)
        lines = len(text.splitlines())
        if lines > MAX_LINES:
            found.append(f"{where}: {lines} lines, the cap is {MAX_LINES}")
        top_level = set(tree.body)
        guarded = type_checking_only(tree)
        is_package = path.name == "__init__.py"
        for target, node in own_imports(name, tree, is_package):
            line = f"{where}:{node.lineno}: imports {target}"
            if target.startswith("absolute:") or target == "outside the package":
                found.append(f"{line}; use a relative import inside the package")
                continue
            if layer not in LAYERS:
                continue
            if layer != "interface" and name not in LATE and node not in top_level and node not in guarded and not is_package:
                found.append(f"{line} inside a function or block; imports stand at the top of the module")
            if not any(target == prefix or target.startswith(prefix + ".") for prefix in ALLOWED[layer]):
                found.append(f"{line}; {layer} may import only {', '.join(ALLOWED[layer])}")
            if node not in guarded:
                edges[name].update(resolve(target, node, modules))
    found.extend(f"import cycle: {' → '.join(cycle)}" for cycle in import_cycles(edges))
    return found


def resolve(target: str, node: ast.stmt, modules: dict[str, Path]) -> set[str]:
    """The modules an import loads: `from ..graph import dims` and `from .dims import Dim` load graph.dims."""
    if target in modules:
        return {target}
    names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
    return {full for name in names if (full := f"{target}.{name}") in modules}


def import_cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Cycles found by a depth-first walk; one per back edge."""
    cycles: list[list[str]] = []
    state: dict[str, int] = {}

    def visit(name: str, path: list[str]) -> None:
        state[name] = 1
        for target in sorted(edges.get(name, ())):
            if state.get(target) == 1:
                cycles.append([*path[path.index(target) :], target] if target in path else [name, target])
            elif target not in state:
                visit(target, [*path, target])
        state[name] = 2

    for name in sorted(edges):
        if name not in state:
            visit(name, [name])
    return cycles


def test_the_package_keeps_the_rule() -> None:
    found = violations(ROOT)
    assert not found, "\n".join(found)


def test_every_package_is_listed_for_the_wheel() -> None:
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = {
        "joinery." + ".".join(path.parent.relative_to(ROOT).parts)
        for layer in LAYERS
        for path in (ROOT / layer).rglob("__init__.py")
    }
    missing = sorted(name for name in packages if f'"{name}"' not in listed)
    assert missing == [], "add these to [tool.setuptools] packages"
    without_init = sorted(
        str(path.parent.relative_to(ROOT))
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    )
    assert without_init == []


def make_tree(root: Path, files: dict[str, str]) -> Path:
    for layer in LAYERS:
        (root / layer).mkdir()
        (root / layer / "__init__.py").write_text("")
    (root / "__init__.py").write_text("")
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("promotion/a.py", "from ..graph.symbol import Symbol\n", "promotion may import only promotion"),
        ("graph/a.py", "from ..lowering import nest\n", "graph may import only promotion, graph"),
        ("lowering/a.py", "from ..runtime.model import Model\n", "lowering may import only"),
        ("runtime/a.py", "from ..lowering.tile import emit\n", "runtime may import only"),
        ("runtime/a.py", "from ..graph.symbol import Symbol\n", "runtime may import only"),
        ("graph/a.py", "import promotion.dtype\n", "use a relative import"),
        ("graph/a.py", "from joinery.promotion import dtype\n", "use a relative import"),
        ("graph/a.py", "from ...elsewhere import x\n", "use a relative import"),
        ("graph/a.py", "def f():\n    from .b import c\n", "inside a function or block"),
        ("graph/a.py", "x = 1\n" * 601, "601 lines, the cap is 600"),
        ("promotion/__init__.py", "def f():\n    from ..graph.a import b\n", "promotion may import only"),
    ],
)
def test_a_breach_is_reported(tmp_path: Path, file: str, text: str, expected: str) -> None:
    found = violations(make_tree(tmp_path, {file: text}))
    assert any(expected in line and line.startswith(file) for line in found), found


def strays(files: Iterable[str]) -> list[str]:
    """Paths of a checkout whose first part is none that its root has."""
    found = []
    for path in files:
        first, *rest = path.split("/")
        known = first in FOLDERS if rest else first in FILES or MODULES.fullmatch(first) or re.fullmatch(r"[A-Z]+\.md", first)
        if not known:
            found.append(path)
    return found


def test_the_root_holds_no_strays() -> None:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a checkout")
    files = done.stdout.rstrip("\0").split("\0")
    assert "pyproject.toml" in files
    assert not strays(files)


@pytest.mark.parametrize("path", ["0", "out.txt", "a.npy", "core", "Untitled.ipynb", "new/x.py", ".DS_Store", "x y.py", "T.py"])
def test_a_stray_is_reported(path: str) -> None:
    assert strays(["__init__.py", "graph/ops/table.py", path, "README.md"]) == [path]


def test_a_cycle_is_reported(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"graph/a.py": "from .b import x\n", "graph/b.py": "from . import a\n"})
    assert violations(tree) == ["import cycle: graph.a → graph.b → graph.a"]


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path,
        {
            "promotion/dtype.py": "import numpy\n",
            "promotion/__init__.py": "def __getattr__(name):\n    from . import dtype\n",
            "graph/dims.py": "from ..promotion.dtype import DType\n",
            "lowering/artifact.py": "from ..graph.dims import Dim\n",
            "runtime/model.py": "from ..lowering.artifact import Compiled\nfrom ..promotion import dtype\n",
            "graph/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .dims import Dim\n",
            "interface/compiling.py": "def load():\n    from ..runtime import x\n    from ..lowering import y\n",
        },
    )
    assert violations(tree) == []
