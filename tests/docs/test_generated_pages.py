"""The generated pages and pictures say what the code says, and what they claim about tables, NumPy and ONNX holds."""

from __future__ import annotations

import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.names.exports import EXPORTS
from joinery.graph.ops.opdef import OpDef
from joinery.graph.ops.table import OPS

ROOT = Path(__file__).resolve().parents[2]


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
DESIGN_NOTE = (ROOT / "docs" / "design" / "003-promotion.md").read_text(encoding="utf-8")
RULE_SET_PAGES = {
    name: (ROOT / "docs" / "promotion" / f"{name}.md").read_text(encoding="utf-8") for name in jn.promotion.PRESETS
}


@pytest.mark.parametrize("name", generate.PAGES)
def test_pages_are_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == generate.PAGES[name](), "fix: make docs"


def test_a_page_that_differs_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path, dirs_exist_ok=True)
    assert generate.stale(tmp_path) == []
    (tmp_path / "ops.md").write_text(OPS_PAGE.replace("ReduceSum (13)", "ReduceSum (14)"), encoding="utf-8")
    assert generate.stale(tmp_path) == ["ops.md"]
    (tmp_path / "promotion" / "torch.md").unlink()
    picture = tmp_path / "promotion" / "jax.svg"
    picture.write_text(picture.read_text(encoding="utf-8").replace("weak_float", "weak_flaot"), encoding="utf-8")
    assert generate.stale(tmp_path) == ["ops.md", "promotion/torch.md", "promotion/jax.svg"]


def test_every_preset_has_a_page_and_no_page_is_left_over() -> None:
    folder = ROOT / "docs" / "promotion"
    assert sorted(f"promotion/{path.name}" for path in folder.iterdir()) == sorted(
        page for page in generate.PAGES if page.startswith("promotion/")
    )
    linked = re.findall(r"^\| \[([\w.-]+)\]\(promotion/([\w.-]+)\.md\)", PROMOTION_PAGE, re.MULTILINE)
    assert linked == [(name, name) for name in jn.promotion.PRESETS]


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
    rows = re.findall(r"^\| `(\w+)` \|", OPS_PAGE.partition("## Errors")[0], re.MULTILINE)
    assert sorted(rows) == sorted(OPS)


def test_rows_show_known_facts() -> None:
    """A few rows typed in by hand."""
    lines = OPS_PAGE.splitlines()
    for line in (
        "| `add` | `+` | bool int uint float | JOIN | broadcast | `add` | Add (7) | 0.5 ulp |",
        "| `bitwise_or` | `\\|` | bool int uint | INTEGER_JOIN | broadcast | `bitwise_or` | BitwiseOr (18) | – |",
        "| `exp` |  | float | JOIN_FLOAT | as x | `exp` | Exp (13) | 0.9 ulp |",
        "| `softmax` |  | float | JOIN_FLOAT | as x | – | Softmax (13) | (n + 12) ε/2 \\|y\\| |",
        "| `reshape` |  | all | SAME | as given, same size | `reshape` | Reshape (14) | – |",
    ):
        assert line in lines
    assert "**`sum(x, axis=None, keepdims=False, dtype=None)`** builds `reduce_sum`:" in lines


# --- the pages of the rule sets, read back


def tables(page: str) -> list[list[list[str]]]:
    """The Markdown tables of a page, as rows of cells, without the rules below the headers."""
    found: list[list[list[str]]] = [[]]
    for line in page.splitlines():
        if line.startswith("|"):
            cells = re.split(r"(?<!\\) ?\| ?", line.replace("\\|", "¦"))[1:-1]
            if set("".join(cells)) != {"-"}:
                found[-1].append(cells)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found.group(1)


def printed(name: str) -> dict[tuple[str, str], str]:
    """The join table as the page of a rule set prints it; "–" where there is no join."""
    (header, *rows), *_ = tables(section(RULE_SET_PAGES[name], "The join table"))
    assert [row[0] for row in rows] == header[1:]
    return {(row[0], column): cell for row in rows for column, cell in zip(header[1:], row[1:], strict=True)}


# A few cells of each table, from its library's publication or its known behaviour.
KNOWN_CELLS: dict[str, dict[tuple[str, str], str]] = {
    "max": {
        ("bool", "index"): "uint64", ("int8", "address"): "float16", ("int8", "uint8"): "int16",
        ("int64", "uint64"): "float16", ("float16", "bfloat16"): "bfloat16", ("uint32", "int8"): "int64",
        ("float32", "tensor_float32"): "tensor_float32", ("index", "address"): "uint64", ("bool", "uint8"): "uint8",
    },
    "max-published": {
        ("bool", "index"): "int64", ("index", "bool"): "uint64", ("int8", "index"): "index", ("index", "int8"): "float16",
    },
    "jax": {
        ("uint64", "int8"): "weak_float", ("float16", "bfloat16"): "float32", ("weak_int", "uint4"): "uint4",
        ("int32", "bfloat16"): "bfloat16", ("float8_e4m3fn", "float16"): "–", ("weak_complex", "float64"): "complex128",
    },
    "torch": {
        ("uint8", "int8"): "int16", ("int32", "uint32"): "–", ("float16", "bfloat16"): "float32",
    },
    "triton": {
        ("int32", "bfloat16"): "bfloat16", ("float32", "float16"): "float32", ("float16", "bfloat16"): "float32",
        ("int32", "uint32"): "uint32", ("float8_e4m3fn", "float8_e5m2"): "float16", ("uint32", "int64"): "int64",
    },
    "triton-3.9": {("float16", "bfloat16"): "float16", ("int32", "bfloat16"): "float32"},
    "triton-3.9-division": {("int32", "uint32"): "–", ("int8", "float16"): "float32"},
    "triton-3.9-scalar": {("int8", "int64"): "int8", ("uint8", "float32"): "float32"},
    "exact": {
        ("int64", "uint64"): "–", ("int32", "float32"): "float64", ("int16", "float16"): "float32",
        ("float16", "bfloat16"): "float32", ("float32", "tensor_float32"): "float32", ("int64", "float64"): "–",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN_CELLS)
def test_the_printed_table_holds_known_cells(name: str) -> None:
    cells = printed(name)
    assert {pair: cells[pair] for pair in KNOWN_CELLS[name]} == KNOWN_CELLS[name]


def test_the_printed_numpy_table_is_that_of_numpy() -> None:
    for (a, b), result in printed("numpy").items():
        assert np.promote_types(a, b).name == result


@pytest.mark.parametrize("name", jn.promotion.PRESETS)
def test_the_printed_laws_hold_for_the_printed_table(name: str) -> None:
    """Counted anew on the printed cells; abstract elements of a completed order are not printed."""
    report = dict(re.findall(r"^([\w ]+): (holds|FAILS for \d+)", section(RULE_SET_PAGES[name], "Laws"), re.MULTILINE))
    cells = printed(name)
    elements = sorted({a for a, _ in cells})
    cells |= {("–", element): "–" for element in [*elements, "–"]} | {(element, "–"): "–" for element in elements}
    counts = {
        "idempotent": sum(cells[a, a] != a for a in elements),
        "commutative": sum(cells[a, b] != cells[b, a] for a, b in itertools.combinations(elements, 2)),
    }
    if name != "exact":
        triples = itertools.product(elements, repeat=3)
        counts["associative"] = sum(cells[cells[a, b], c] != cells[a, cells[b, c]] for a, b, c in triples)
    assert {law: report[law] for law in counts} == {
        law: f"FAILS for {failures}" if failures else "holds" for law, failures in counts.items()
    }
    (row,) = [row for table in tables(section(PROMOTION_PAGE, "How they compare")) for row in table if row[0] == name][:1]
    assert [int(cell) for cell in row[4 : 4 + len(counts)]] == list(counts.values())


def test_the_page_of_a_rule_set_shows_its_losses() -> None:
    lines = RULE_SET_PAGES["max"].splitlines()
    for line in ("| bool | int8 | exact | – |", "| int64 | float16 | overflow | 65520 becomes inf |"):
        assert line in lines
    signs = "| int32 | uint32 | sign | -1 becomes 4294967295 | uint32 |"
    assert signs in section(RULE_SET_PAGES["triton"], "Joins that can lose values").splitlines()
    assert "None." in section(RULE_SET_PAGES["exact"], "Joins that can lose values")
    assert tables(section(RULE_SET_PAGES["max-published"], "Errata"))[0][1] == ["bool ∨ index", "int64", "uint64", "uint64"]
    assert ["int8 ∨ uint8", "int16, float16, bfloat16", "int16"] in tables(RULE_SET_PAGES["exact"])[2]


def test_results_that_are_not_joins_are_those_of_numpy() -> None:
    (header, row), *_ = tables(section(RULE_SET_PAGES["numpy"], "Results that are not the join"))
    checked = 0
    for question, answer in zip(header[1:], row[1:], strict=True):
        op, dtype = question.replace("`", "").split(" of ")
        x = np.ones(2, dtype)
        assert {"div": np.true_divide}.get(op, getattr(np, op, None))(*[x] * (2 if op == "div" else 1)).dtype.name == answer
        checked += 1
    assert checked == 13


def test_the_pictures_show_every_element() -> None:
    for name in ("max", "jax", "exact"):
        root = ElementTree.parse(ROOT / "docs" / "promotion" / f"{name}.svg").getroot()
        texts = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {a for a, _ in printed(name)} <= texts
        assert f"({name}.svg)" in RULE_SET_PAGES[name]


def test_the_design_note_shows_what_is_counted() -> None:
    """The two tables of the note: one is generated, the other is counted here on the printed tables.

    They are about the peers; other presets may be added.
    """
    small, large = tables(section(DESIGN_NOTE, "The peers' tables compared"))
    peers = [row[0] for row in small[1:]]
    assert len(peers) == 10
    assert large == [row for row in tables(generate.compared())[0] if row[0] in ("rule set", *peers)]
    cells = {name: printed(name) for name in peers}
    shared = sorted(set.intersection(*({a for a, _ in table} for table in cells.values())))
    assert len(shared) == 12
    concrete = {"weak_float": "float64"}

    def properties(name: str, a: str, b: str) -> set[str]:
        join = cells[name][a, b]
        found = {"differs"} if join != cells["max"][a, b] else set()
        if join == "–":
            return found | {"no join"}
        target = jn.DType(concrete.get(join, join))
        losses = {jn.promotion.loss_class(jn.DType(operand), target) for operand in (a, b)} - {"exact"}
        return found | ({"loses"} if losses else set()) | ({"worse"} if losses & {"overflow", "sign"} else set())

    for name, *counts in small[1:]:
        pairs = [
            properties(name, a, b) | properties(name, b, a) for a, b in itertools.combinations_with_replacement(shared, 2)
        ]
        assert len(pairs) == 78
        expected = [sum(kind in pair for pair in pairs) for kind in ("differs", "no join", "loses", "worse")]
        assert list(map(int, counts)) == expected, name


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
