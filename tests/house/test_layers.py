"""The import rule of the house (promotion ← graph ← lowering ← runtime ← interface), checked on every module's source."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from joinery.graph.functions.names.exports import EXPORTS
from joinery.lowering.tt.transforms.registry import ROOMS

from ..support.syntax import nodes_of_kinds, tree_of

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
ALLOWED = {
    "promotion": ("promotion",),
    "graph": ("promotion", "graph"),
    "lowering": ("promotion", "graph", "lowering"),
    "runtime": ("promotion", "graph.dims", "lowering.artifact", "lowering.machine", "lowering.ptx", "runtime"),
    "interface": (*LAYERS, "__version__"),
    "__init__": (),
    "__main__": ("interface",),
}
LATE = frozenset({
    "lowering.tt.dialect.context", "lowering.tt.transforms.tiled", "promotion.rules", "runtime.model.kernels",
})  # fmt: skip
"""Modules that import when a text is read, a pass runs, a lattice is drawn or an assembler is asked, so that a process which
does nothing of that starts sooner."""
TYPES_ONLY = {
    ("graph.symbol", "graph.graph"): "the two know each other",
    ("interface.compiling", "lowering.stages"): "it loads xDSL: compiling from the cache does without",
    ("interface.compiling", "interface.tuning.models"): "tuning loads late",
    ("interface.model", "lowering.choices.model_schedule"): "schedules load late",
    ("interface.tuning.models", "interface.model"): "models are made by the caller",
    ("interface.tuning.models", "lowering.choices.search"): "it loads xDSL",
    ("interface.tuning.models", "lowering.nest"): "it loads with xDSL",
    ("interface.tuning.models", "lowering.stages"): "it loads xDSL",
    ("interface.tuning.models", "lowering.tile.schedule"): "it loads xDSL",
    ("interface.opening.loading", "lowering.stages"): "it loads xDSL",
    ("interface.opening.loading", "graph.reference.budget"): "files are opened without graphs where they have code",
    ("interface.model", "lowering.stages"): "it loads xDSL",
    ("interface.model", "lowering.sanitize"): "it loads xDSL and the interpreter",
    ("interface.kernel", "interface.gpu_code"): "GPUs load late",
    ("interface.kernel", "interface.cuda_launching"): "GPUs load late",
    ("interface.tuning.precompiling", "interface.gpu_code"): "GPUs load late",
    ("interface.tuning.tuned", "interface.cuda_launching"): "GPUs load late",
    ("interface.tuning.worker", "interface.gpu_code"): "GPUs load late",
    ("interface.kernel", "interface.native.sanitizer"): "sanitized launches load it",
    ("interface.proving.provable", "interface.proving.proving"): "proofs load it",
    ("runtime.model.kernels", "runtime.toolchain.ptxas"): "GPUs load late",
    ("interface.native.host_program", "lowering.llvm.module"): "launches do without the code generator",
    ("interface.texts", "lowering.frontends.triton_c.text"): "the front end of Triton-C loads when it is used",
    ("interface.texts", "interface.triton_c_launches"): "what checks launches of Triton-C loads when it is used",
    ("interface.triton.binary", "interface.kernel"): "it loads xDSL: kernels from Triton's cache do without",
    ("interface.cli.kernel", "interface.kernel"): "each command loads what it needs",
    ("interface.cli.kernel", "promotion.arrays"): "each command loads what it needs: NumPy, here",
    ("interface.cli.proving", "interface.kernel"): "each command loads what it needs",
    ("interface.cli.triton_c", "interface.kernel"): "each command loads what it needs",
    ("interface.cli.triton_c", "interface.tuning.tuned"): "each command loads what it needs",
    ("interface.cli.triton_c", "interface.texts"): "each command loads what it needs: NumPy, here",
    **{(f"interface.cli.{name}", "promotion.arrays"): "each command loads what it needs: NumPy, here"
       for name in ("arrays", "exporting", "profiling")},
    ("interface.cli.exporting", "graph.graph"): "each command loads what it needs",
    ("interface.cli.exporting", "interface.comparing"): "each command loads what it needs",
    ("interface.cli.profiling", "interface.model"): "each command loads what it needs",
    ("interface.cli.profiling", "runtime.model.profiling"): "each command loads what it needs",
    ("interface.cli.models", "lowering.artifact"): "each command loads what it needs",
    ("interface.cli.models", "runtime.model.kernels"): "each command loads what it needs",
    ("interface.cli.models", "interface.model"): "each command loads what it needs",
    ("interface.torch", "interface.kernel"): "reports and conversions need no kernels",
}
"""(file, what it imports for type checkers only): why it is no ordinary import."""
TOGETHER = frozenset({"graph.graph", "graph.symbol"})
"""The only files that may import each other: a graph makes symbols, and a symbol's operators add to its graph."""


class ByName(NamedTuple):
    """What a file imports by names that it computes: everything below `targets`, for a reason."""

    targets: tuple[str, ...]
    reason: str
    closes: bool = False
    """Whether circles of imports are closed here."""


BY_NAME = {
    "__init__": ByName(LAYERS, "public names load on first use"),
    "graph.functions.names.exports": ByName(
        ("graph.functions",), "functions load on first use, and take symbols, whose methods are these functions", closes=True
    ),
    "lowering.tt.transforms.registry": ByName(
        (
            "lowering.tt.transforms.cleanup", "lowering.tt.transforms.facts", "lowering.tt.transforms.expand",
            "lowering.tt.transforms.numerics", "lowering.tt.transforms.loops", "lowering.llvm.nvptx.passes",
        ),
        "a pass loads when a pipeline has it",
    ),
    "interface.distributed.extras": ByName((), "libraries of extras load when a function needs them"),
    "interface.triton.versions": ByName((), "entry points of Triton say which modules its other back ends are"),
}  # fmt: skip
"""The only files that import own modules by name. All others have import statements, in functions where `LATE` lists them."""
IMPORTERS = frozenset({
    "import_module", "__import__", "spec_from_file_location", "resolve_name", "run_module", "run_path", "find_loader",
})  # fmt: skip
"""Functions that import what their first argument names."""
MAX_FILES = 16
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


def own_imports(name: str, path: Path) -> Iterator[tuple[str, ast.stmt]]:
    """(target module, statement) for each import of our own package; relative names are made absolute."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    if name == "__init__":
        package = []
    for node in walked(path):
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


def imports_by_name(path: Path) -> Iterator[tuple[str | None, ast.Call]]:
    """(name, call) for every call of a function that imports by name; None for a name that is computed."""
    importers = set(IMPORTERS)
    for node in walked(path):
        if isinstance(node, ast.ImportFrom):
            importers.update(alias.asname for alias in node.names if alias.asname and alias.name in IMPORTERS)
    for node in walked(path):
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function not in importers:
            continue
        given = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "name"), None)
        known = isinstance(given, ast.Constant) and isinstance(given.value, str)
        yield (given.value if known else None), node


def is_own(name: str) -> bool:
    """Whether this is the name of a module of ours, relative or absolute."""
    return name.startswith(".") or name.split(".")[0] in (*LAYERS, "joinery")


def below(target: str, prefixes: Iterable[str]) -> bool:
    return any(target == prefix or target.startswith(prefix + ".") for prefix in prefixes)


def type_checking_only(path: Path) -> set[ast.stmt]:
    """Statements under `if TYPE_CHECKING:`. They never run, so they may stand anywhere at module level."""
    guarded: set[ast.stmt] = set()
    for node in walked(path):
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name | ast.Attribute):
            continue
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            guarded.update(child for child in ast.walk(node) if isinstance(child, ast.stmt))
    return guarded


def walked(path: Path) -> list[ast.AST]:
    """What the checks look at in a module, for all of them."""
    return nodes_of_kinds(path, ast.Import, ast.ImportFrom, ast.If, ast.Call)


def violations(root: Path) -> list[str]:
    """Every breach of the import rule and of the size caps below `root`, as readable lines.

    Imports for type checkers count as all others do: those that `TYPES_ONLY` does not list, and circles through them.
    """
    modules = package_modules(root)
    found = crowded(root, modules)
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in sorted(modules.items()):
        text = path.read_text(encoding="utf-8")
        layer = name.split(".")[0]
        where = path.relative_to(root)
        lines = len(text.splitlines())
        if lines > MAX_LINES:
            found.append(f"{where}: {lines} lines, the cap is {MAX_LINES}")
        top_level = set(tree_of(path).body)
        guarded = type_checking_only(path)
        is_package = path.name == "__init__.py"
        for target, node in own_imports(name, path):
            line = f"{where}:{node.lineno}: imports {target}"
            if target.startswith("absolute:") or target == "outside the package":
                found.append(f"{line}; use a relative import inside the package")
                continue
            late = layer in ("interface", "__init__", "__main__") or name in LATE or is_package
            if not late and node not in top_level and node not in guarded:
                found.append(f"{line} inside a function or block; imports stand at the top of the module")
            if not below(target, ALLOWED[layer]):
                found.append(f"{line}; {layer} may import only {', '.join(ALLOWED[layer])}")
            loaded = resolve(target, node, modules)
            edges[name].update(loaded)
            if node in guarded:
                unlisted = sorted(each for each in loaded if (name, each) not in TYPES_ONLY)
                found += [f"{line} for type checkers only, and TYPES_ONLY does not list {each}" for each in unlisted]
        listed = BY_NAME.get(name)
        for target, call in imports_by_name(path):
            if listed is None and (target is None or is_own(target)):
                shown = "what it computes" if target is None else target
                found.append(f"{where}:{call.lineno}: imports {shown} by name; use an import statement, or see BY_NAME")
        if listed is not None:
            allowed = LAYERS if name == "__init__" else ALLOWED[layer]
            beyond = [target for target in listed.targets if not below(target, allowed)]
            found += [f"{where}: imports {target} by name; {layer} may not" for target in beyond]
            if not listed.closes:
                edges[name].update(each for each in modules if below(each, listed.targets))
    found.extend(f"import cycle: {' → '.join(cycle)}" for cycle in import_cycles(edges))
    return found


def crowded(root: Path, modules: dict[str, Path]) -> list[str]:
    """Folders with more files than a newcomer takes in."""
    files = Counter(path.parent.relative_to(root) for path in modules.values() if path.name != "__init__.py")
    return [f"{folder}: {count} files, the cap is {MAX_FILES}" for folder, count in sorted(files.items()) if count > MAX_FILES]


def resolve(target: str, node: ast.stmt, modules: dict[str, Path]) -> set[str]:
    """The modules an import loads: `from ..graph import dims` and `from .dims import Dim` load graph.dims."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
    loaded = {full for name in names if (full := f"{target}.{name}") in modules}
    if target in modules and len(loaded) < max(len(names), 1):
        loaded.add(target)
    return loaded


def import_cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """For every file on a circle the shortest one through it, each circle once; that of `TOGETHER` is none."""
    found: dict[frozenset[str], list[str]] = {}
    left = edges
    while left != (inner := {name: targets & left.keys() for name, targets in left.items() if targets & left.keys()}):
        left = inner
    for start in sorted(left):
        before: dict[str, str] = {}
        waiting = deque([start])
        while waiting and start not in before:
            here = waiting.popleft()
            for target in sorted(edges.get(here, ())):
                if target not in before:
                    before[target] = here
                    waiting.append(target)
        if start not in before:
            continue
        cycle = [start, before[start]]
        while cycle[-1] != start:
            cycle.append(before[cycle[-1]])
        found.setdefault(frozenset(cycle), cycle[::-1])
    return [cycle for members, cycle in found.items() if members != TOGETHER]


def test_the_package_keeps_the_rule() -> None:
    found = violations(ROOT)
    assert not found, "\n".join(found)


def test_the_list_of_imports_for_types_has_none_that_is_gone() -> None:
    modules = package_modules(ROOT)
    found = set()
    for name, path in modules.items():
        guarded = type_checking_only(path)
        for target, node in own_imports(name, path):
            found |= {(name, each) for each in resolve(target, node, modules) if node in guarded}
    assert found == set(TYPES_ONLY)


def test_the_list_of_imports_by_name_has_none_that_is_gone() -> None:
    modules = package_modules(ROOT)
    own = {
        name
        for name, path in modules.items()
        if any(target is None or is_own(target) for target, _ in imports_by_name(path))
    }
    assert own == set(BY_NAME)
    for name, (targets, _, closes) in BY_NAME.items():
        reached = {each for each in modules if below(each, targets)} - {name}
        assert all(any(below(each, [target]) for each in reached) for target in targets), f"{name}: a target is gone"
        if closes:
            assert import_cycles({**edges_of(modules), name: reached}), f"{name} closes no circle"


def test_what_is_imported_by_name_stands_in_the_list() -> None:
    assert {f"lowering.{room}" for room in ROOMS} == set(BY_NAME["lowering.tt.transforms.registry"].targets)
    targets = BY_NAME["graph.functions.names.exports"].targets
    assert [place for place in EXPORTS.values() if not below(place.partition(":")[0], targets)] == []


def edges_of(modules: dict[str, Path]) -> dict[str, set[str]]:
    """The import statements between modules."""
    edges: dict[str, set[str]] = {}
    for name, path in modules.items():
        imports = own_imports(name, path)
        edges[name] = {each for target, node in imports for each in resolve(target, node, modules)}
    return edges


def test_every_file_of_the_package_is_checked() -> None:
    done = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a checkout")
    aside = (".ci", "benchmarks", "docs", "examples", "tests")
    own = {ROOT / name for name in done.stdout.rstrip("\0").split("\0") if name.split("/")[0] not in aside}
    assert own <= set(package_modules(ROOT).values())


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
        ("__main__.py", "from .lowering import pipeline\n", "__main__ may import only interface"),
        ("__init__.py", "from .graph.graph import Graph\n", "__init__ may import only"),
        ("promotion/__init__.py", "def f():\n    from ..graph.a import b\n", "promotion may import only"),
        ("graph/a.py", "importlib.import_module('...runtime.device', __name__)\n", "imports ...runtime.device by name"),
        ("graph/a.py", "def f():\n    __import__('joinery.interface.kernel')\n", "imports joinery.interface.kernel by name"),
        ("graph/a.py", "from importlib import import_module as load\nload(name='.b')\n", "imports .b by name"),
        ("promotion/a.py", "importlib.import_module(__name__.rpartition('.')[0])\n", "imports what it computes by name"),
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


CHECKED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"


@pytest.mark.parametrize(
    ("files", "cycles"),
    [
        ({"graph/a.py": "from .b import x\n", "graph/b.py": "from . import a\n"}, ["graph.a → graph.b → graph.a"]),
        ({"graph/a.py": "from . import a\n"}, ["graph.a → graph.a"]),
        (
            {"graph/a.py": "from .b import x\n", "graph/b.py": "from .c import x\n", "graph/c.py": "from .a import x\n"},
            ["graph.a → graph.b → graph.c → graph.a"],
        ),
        (
            {"graph/a.py": "from .b import x\n", "graph/b.py": f"{CHECKED}    from .a import A\n"},
            ["graph.a → graph.b → graph.a"],
        ),
        (
            {"lowering/a.py": "from .b import c\n", "lowering/b/__init__.py": "", "lowering/b/c.py": "from ..a import x\n"},
            ["lowering.a → lowering.b.c → lowering.a"],
        ),
        (
            {
                "graph/graph.py": "from .symbol import Symbol\n", "graph/symbol.py": f"{CHECKED}    from .graph import Graph\n",
                "graph/a.py": "from .graph import x\n",
            },
            [],
        ),
        (
            {
                "graph/graph.py": "from .symbol import Symbol\nfrom .a import x\n",
                "graph/symbol.py": f"{CHECKED}    from .graph import Graph\n", "graph/a.py": "from .symbol import Symbol\n",
            },
            ["graph.a → graph.symbol → graph.graph → graph.a"],
        ),
    ],
)  # fmt: skip
def test_a_cycle_is_reported(tmp_path: Path, files: dict[str, str], cycles: list[str]) -> None:
    found = violations(make_tree(tmp_path, files))
    assert [line for line in found if "cycle" in line] == [f"import cycle: {cycle}" for cycle in cycles]


def test_an_import_for_type_checkers_that_is_not_listed_is_reported(tmp_path: Path) -> None:
    (found,) = violations(make_tree(tmp_path, {"graph/b.py": f"{CHECKED}    from .dims import Dim\n", "graph/dims.py": ""}))
    assert found.startswith("graph/b.py:3: imports graph.dims for type checkers only, and TYPES_ONLY does not list graph.dims")


def test_a_room_with_too_many_files_is_reported(tmp_path: Path) -> None:
    files = {f"graph/a{number}.py": "" for number in range(MAX_FILES + 1)}
    assert violations(make_tree(tmp_path, files)) == [f"graph: {MAX_FILES + 1} files, the cap is {MAX_FILES}"]


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path,
        {
            "promotion/dtype.py": "import numpy\n",
            "promotion/__init__.py": "def __getattr__(name):\n    from . import dtype\n",
            "graph/dims.py": "from ..promotion.dtype import DType\n",
            "lowering/artifact.py": "from ..graph.dims import Dim\n",
            "runtime/model.py": "from ..lowering.artifact import Compiled\nfrom ..promotion import dtype\n",
            "graph/graph.py": "from .symbol import Symbol\n",
            "graph/symbol.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .graph import Graph\n",
            "interface/compiling.py": "def load():\n    from ..runtime import x\n    from ..lowering import y\n",
        },
    )
    assert violations(tree) == []
