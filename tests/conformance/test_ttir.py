"""The TTIR corpus: kernels as Triton printed them, run from their text and compared with recorded memory.

Cases that this version does not run are listed, and must be refused by name, never answered wrongly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1] / "data" / "ttir"
STORED = {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "i1": np.uint8}
SENTINELS = 16

# What the reader does not know yet: atomic polls, descriptors and block pointers, assert and print, scaled products,
# map_elementwise.
NOT_READ = {
    "atomic_load_store", "checked_index_ok",
    "checked_sqrt", "desc_copy_scale", "desc_gather_scatter", "desc_host_add", "desc_pad_nan",
    "desc_reduce_kinds", "dot_scaled_bf16_e4m3", "dot_scaled_e2m1_e2m1", "dot_scaled_e2m1_e4m3",
    "dot_scaled_e5m2_e5m2", "legacy_block_copy_pad",
    "legacy_block_matmul", "legacy_block_tiles_3d", "legacy_exp_desc_sub", "legacy_raw_desc_copy",
    "legacy_tensormap_2d", "map_branchy",
    "overflow_checked", "print_in_loop", "print_values",
}  # fmt: skip
TABLES = {"pointer_table_sum"}
# What the host back end refuses: branches between blocks, pointers chosen by a select.
NOT_ON_HOST = {"bool_logic", "early_exit", "ragged_softmax", "raw_early_exit"}

CASES = sorted(path.parent.name for path in ROOT.glob("*/case.json"))


def dtype_of(name: str) -> np.dtype[Any]:
    if name in STORED:
        return np.dtype(STORED[name])
    return np.dtype({"f": "float", "i": "int", "u": "uint"}[name[0]] + name[1:])


class Case:
    def __init__(self, name: str) -> None:
        self.facts = json.loads((ROOT / name / "case.json").read_text())
        self.text = (ROOT / name / "kernel.ttir").read_text()
        data = ROOT / name / "data.npz"
        self.data: Any = np.load(data) if data.exists() else {}

    def arguments(self) -> tuple[list[Any], list[tuple[dict[str, Any], np.ndarray, np.ndarray]]]:
        """What a launch takes, and (argument, array, what it must hold afterwards)."""
        arguments: list[Any] = []
        checks = []
        for argument in self.facts["args"]:
            if argument["kind"] == "scalar":
                arguments.append(argument["value"])
                continue
            dtype, start = dtype_of(argument["dtype"]), argument["init"]
            if "fill" in start:
                array = np.full(argument["numel"], start["fill"], np.float64).astype(dtype)
            else:
                raw = np.ascontiguousarray(self.data[start["array"]]).reshape(-1)
                array = (raw.view(dtype) if raw.dtype.itemsize == dtype.itemsize else raw.astype(dtype)).copy()
            if argument.get("output"):
                expected = np.ascontiguousarray(self.data[argument["expected"]]).reshape(-1).view(dtype)
            else:
                expected = array.copy()
            arguments.append(array)
            checks.append((argument, array, expected))
        return arguments, checks


def compare(argument: dict[str, Any], found: np.ndarray, expected: np.ndarray) -> None:
    tolerance = argument.get("tolerance", {"mode": "exact"}) if argument.get("output") else {"mode": "exact"}
    if tolerance["mode"] == "exact_sorted":
        found, expected = np.sort(found), np.sort(expected)
    wide, wanted = found.astype(np.float64), expected.astype(np.float64)
    if tolerance["mode"].startswith("exact"):
        bits = f"u{found.dtype.itemsize}"
        good = (found.view(bits) == expected.view(bits)) | (np.isnan(wide) & np.isnan(wanted))
        if found.dtype.kind in "iu":
            good = found == expected
    else:
        with np.errstate(all="ignore"):
            good = np.abs(wide - wanted) <= tolerance.get("atol", 0) + tolerance.get("rtol", 0) * np.abs(wanted)
        good |= (np.isnan(wide) & np.isnan(wanted)) | (np.isinf(wanted) & (wide == wanted))
    bad = int((~good).sum())
    assert bad <= tolerance.get("max_bad_frac", 0) * good.size, f"{argument['name']}: {bad} of {good.size} differ"


def run(name: str, launch: Any) -> None:
    case = Case(name)
    kernel = jn.kernel.from_ttir(case.text, name=case.facts["entry"])
    if case.facts.get("parse_only"):
        again = jn.kernel.from_ttir(kernel.ttir, name=case.facts["entry"])
        assert again.ttir == kernel.ttir
        return
    arguments, checks = case.arguments()
    launch(kernel, tuple(case.facts["grid"]), arguments)
    for argument, found, expected in checks:
        compare(argument, found, expected)


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 149
    assert set(CASES) >= NOT_READ | NOT_ON_HOST | TABLES


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_READ | TABLES])
def test_interpreted(name: str) -> None:
    run(name, lambda kernel, grid, arguments: kernel.interpret(grid, *arguments))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_READ | TABLES | NOT_ON_HOST])
def test_on_the_host(name: str, threads: int) -> None:
    run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, threads=threads))


@pytest.mark.parametrize("name", sorted(NOT_READ))
def test_what_is_not_read_is_refused_by_line(name: str) -> None:
    with pytest.raises(jn.UserError, match=r"<text>:\d+:\d+"):
        jn.kernel.from_ttir(Case(name).text)


@pytest.mark.parametrize("name", sorted(NOT_ON_HOST))
def test_what_the_host_lacks_is_refused_by_name(name: str) -> None:
    with pytest.raises(jn.UnsupportedError, match="host lowering: "):
        run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments))


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_READ])
def test_text_survives_printing_and_reading(name: str) -> None:
    case = Case(name)
    kernel = jn.kernel.from_ttir(case.text, name=case.facts["entry"])
    assert jn.kernel.from_ttir(kernel.ttir, name=case.facts["entry"]).ttir == kernel.ttir
