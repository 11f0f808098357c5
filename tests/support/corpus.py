"""Loads the TTIR corpus: its cases, their memory, and the memory that a launch must leave."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "data" / "ttir"
STORED = {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "i1": np.uint8}


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
        """Returns the arguments of a launch, and (argument, array, expected contents afterwards) for each array."""
        arguments: list[Any] = []
        checks = []
        for argument in self.facts["args"]:
            if argument["kind"] == "scalar":
                arguments.append(argument["value"])
                continue
            buffers = [self._buffer(buffer) for buffer in argument.get("buffers", [argument])]
            checks += buffers
            arrays = [array for _, array, _ in buffers]
            if argument["kind"] == "tensordesc":
                layout = {name: tuple(argument[name]) for name in ("shape", "strides", "block_shape")}
                arguments.append(jn.TensorDescriptor(arrays[0], **layout, padding=argument["padding"]))
            else:
                arguments.append(jn.PointerTable(arrays) if argument["kind"] == "ptr_table" else arrays[0])
        return arguments, checks

    def _buffer(self, argument: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
        """Returns an array of the case's memory, with its expected contents afterwards."""
        dtype, start = dtype_of(argument["dtype"]), argument["init"]
        if "fill" in start:
            array = np.full(argument["numel"], start["fill"], np.float64).astype(dtype)
        else:
            raw = np.ascontiguousarray(self.data[start["array"]]).reshape(-1)
            array = (raw.view(dtype) if raw.dtype.itemsize == dtype.itemsize else raw.astype(dtype)).copy()
        if not argument.get("output"):
            return argument, array, array.copy()
        return argument, array, np.ascontiguousarray(self.data[argument["expected"]]).reshape(-1).view(dtype)


def compare(argument: dict[str, Any], found: np.ndarray, expected: np.ndarray, gpu: bool = False) -> None:
    tolerance = argument.get("tolerance", {"mode": "exact"}) if argument.get("output") else {"mode": "exact"}
    if gpu and argument.get("output"):
        tolerance = argument.get("tolerance_gpu", tolerance)
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


@functools.cache
def read(name: str) -> jn.kernel.Kernel:
    """Reads the kernel of a case, once for all tests, which must not change it."""
    case = Case(name)
    return jn.kernel.from_ttir(case.text, name=case.facts["entry"])


def run(name: str, launch: Any, gpu: bool = False, kernel: jn.kernel.Kernel | None = None) -> None:
    """Launches the kernel of a case, or another one, and compares all memory with its expected contents."""
    case = Case(name)
    kernel = kernel or read(name)
    if case.facts.get("parse_only"):
        again = jn.kernel.from_ttir(kernel.ttir, name=case.facts["entry"])
        assert again.ttir == kernel.ttir
        return
    arguments, checks = case.arguments()
    launch(kernel, tuple(case.facts["grid"]), arguments)
    for argument, found, expected in checks:
        compare(argument, found, expected, gpu)


WITH_DATA = [name for name in CASES if not Case(name).facts.get("parse_only")]
