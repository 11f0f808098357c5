"""docs/ops.md and docs/promotion.md say what the code says, and what they claim about NumPy and ONNX holds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.exports import EXPORTS
from joinery.graph.opdef import OpDef
from joinery.graph.ops import OPS

ROOT = Path(__file__).resolve().parents[1]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load()
OPS_PAGE = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
PROMOTION_PAGE = (ROOT / "docs" / "promotion.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", generate.PAGES)
def test_pages_are_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == generate.PAGES[name](), "fix: make docs"


def test_a_page_that_differs_is_noticed(tmp_path: Path) -> None:
    for name, text in (("ops.md", OPS_PAGE), ("promotion.md", PROMOTION_PAGE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert generate.stale(tmp_path) == []
    (tmp_path / "ops.md").write_text(OPS_PAGE.replace("ReduceSum (13)", "ReduceSum (14)"), encoding="utf-8")
    assert generate.stale(tmp_path) == ["ops.md"]
    (tmp_path / "promotion.md").unlink()
    assert generate.stale(tmp_path) == ["ops.md", "promotion.md"]


def test_the_command_checks() -> None:
    script = str(ROOT / "docs" / "generate.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    done = subprocess.run([sys.executable, script, "--chekc"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--check" in done.stderr


def test_every_op_and_every_function_is_described() -> None:
    defined = set(re.findall(r"^\*\*`([\w.]+)[(`]", OPS_PAGE, re.MULTILINE))
    internal = {row.name for row in OPS.values() if "internal" in row.traits}
    sources = {"Graph.input", "Graph.constant", "Graph.weight", "Graph.dim_value"}
    assert defined == {*EXPORTS, *internal, *sources}
    rows = re.findall(r"^\| `(\w+)` \|", OPS_PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(OPS)


def test_rows_show_known_facts() -> None:
    """A few rows typed in by hand."""
    lines = OPS_PAGE.splitlines()
    for line in (
        "| `add` | `+` | bool int uint float | JOIN | broadcast | `add` | Add (7) | 0.5 |",
        "| `bitwise_or` | `\\|` | bool int uint | INTEGER_JOIN | broadcast | `bitwise_or` | BitwiseOr (18) | – |",
        "| `exp` |  | float | JOIN_FLOAT | as x | `exp` | Exp (13) | 2 |",
        "| `reshape` |  | all | SAME | as given, same size | `reshape` | Reshape (14) | – |",
    ):
        assert line in lines
    assert "**`sum(x, axis=None, keepdims=False, dtype=None)`** builds `reduce_sum`:" in lines
    for line in ("| bool | int8 | exact | – |", "| int64 | float16 | overflow | 65520 becomes inf |"):
        assert line in PROMOTION_PAGE.splitlines()


def test_the_printed_table_holds_known_cells() -> None:
    """The printed table, read back: some cells of the published page, and the pairs it contradicts itself in."""
    rows = [line.strip("| ").split(" | ") for line in PROMOTION_PAGE.splitlines() if line.startswith("|")]
    names = rows[0][1:]
    assert len(names) == 16
    cells = {(row[0], column): cell for row in rows[2:18] for column, cell in zip(names, row[1:], strict=True)}
    for name in names:
        assert cells[name, name] == name
    expected = {
        ("bool", "index"): "uint64", ("int8", "address"): "float16", ("int8", "uint8"): "int16",
        ("int64", "uint64"): "float16", ("float16", "bfloat16"): "bfloat16", ("uint32", "int8"): "int64",
        ("float32", "tensor_float32"): "tensor_float32", ("index", "address"): "uint64", ("bool", "uint8"): "uint8",
    }  # fmt: skip
    for (a, b), result in expected.items():
        assert cells[a, b] == cells[b, a] == result


# --- what the pages claim about others


def numpy_rows() -> list[tuple[OpDef, str]]:
    rows = [(row, generate.numpy_name(row.name)) for row in OPS.values() if row.kind == "map" and not row.attrs]
    return [(row, name) for row, name in rows if name]


@pytest.mark.parametrize(("row", "name"), numpy_rows(), ids=lambda value: getattr(value, "name", value))
def test_the_numpy_function_means_the_same(row: OpDef, name: str) -> None:
    generator = np.random.default_rng(3)
    operands: list[np.ndarray[Any, Any]]
    if "float" in row.emit:
        operands = [generator.uniform(0.05, 0.95, (2, 3)) for _ in range(row.arity)]
    elif "int" in row.emit:
        operands = [generator.integers(0, 60, (2, 3)) for _ in range(row.arity)]
    else:
        operands = [generator.integers(0, 2, (2, 3)) > 0 for _ in range(row.arity)]
    if row.name == "where":
        operands[0] = np.array([[True, False, True], [False, False, True]])
    signed = row.name in ("floor_div", "mod", "rem", "negate", "abs", "sign", "floor", "ceil", "round", "trunc")
    if signed:
        operands = [5 * operand * [[1, -1, 1], [-1, 1, -1]] for operand in operands]
        operands[-1] = operands[-1] * [[1, 1, -1]]
    types = [jn.TensorType(jn.DType.from_numpy(operand.dtype), operand.shape) for operand in operands]
    g = jn.Graph("g", types)
    g.output(getattr(jn, row.name)(*g.inputs))
    np.testing.assert_allclose(jn.evaluate(g, *operands), getattr(np, name)(*operands), rtol=1e-12)


def test_other_numpy_names_exist() -> None:
    named = {name: generate.numpy_name(name) for name in (*OPS, *EXPORTS)}
    assert sum(bool(found) for found in named.values()) > 90
    for name, found in named.items():
        assert not found or callable(getattr(np, found)), name
    assert {name for name in generate.NUMPY_OTHERWISE if name not in named} == set()
    assert named["split"] == ""


def test_the_onnx_operators_exist() -> None:
    defs = pytest.importorskip("onnx.defs")
    wrong = []
    for row in OPS.values():
        if row.onnx is not None:
            operator, version = row.onnx
            versions = {s.since_version for s in defs.get_all_schemas_with_history() if (s.name, s.domain) == (operator, "")}
            if version not in versions:
                wrong.append(f"{row.name}: {operator} has versions {sorted(versions)}, not {version}")
    assert wrong == []
