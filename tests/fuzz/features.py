"""Finds the features of cases, so that a run can report how often it tried each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .cases import Data, unpacked

WANTED: dict[str, tuple[str, ...]] = {
    "graph": ("16-bit", "NaN", "infinity", "-0", "denormal", "overflowing", "symbolic", "sizes change", "cast", "where",
              "step masked_product", "step mask", "step attention", "step matmul", "step gather", "step cumulative",
              "step ordered", "step scatter", "step image", "step transform"),
    "block": ("16-bit", "hash_loads", "hash_scalar_loads", "hash_stores", "masked_dot", "half_dot", "dot_loop", "fusable",
              "loop", "branch between blocks", "call", "atomic", "elementary function", "several programs", "large"),
}  # fmt: skip
"""The features that a run is expected to try, by kind; those in less than one case of a hundred are reported."""

_PATTERNS = {
    "loop": r"scf\.(for|while)", "branch between blocks": r"cf\.cond_br", "call": r"tt\.call", "atomic": r"tt\.atomic",
    "elementary function": r"%near_", "16-bit": r"bf16|f16", "large": r"tensor<(\d{4,}|\d{3}x\d{2,}|\d+x\d{3,})x",
}  # fmt: skip


def features(data: Data) -> set[str]:
    """Returns the names of the features of a case."""
    found = {f"step {name}" if data["kind"] == "graph" else str(name) for name in data.get("made", ())}
    finder: Callable[[Data], set[str]] = {"graph": _of_graph, "block": _of_block}.get(data["kind"], _of_file)
    return found | finder(data)


def _of_graph(data: Data) -> set[str]:
    text = data["text"]
    found = {f"op {name}" for name in re.findall(r"^\s*%\d+ = (\w+)\(", text, re.MULTILINE)}
    found |= {name for name in ("cast", "where") if f"op {name}" in found}
    if {"op cumsum"} & found:
        found.add("step cumulative")
    if re.search(r": b?float16 ", text):
        found.add("16-bit")
    calls = [[unpacked(array) for array in arrays] for arrays in data["calls"]]
    if re.search(r"input .*\[[^\]]*[a-z]", text):
        found.add("symbolic")
    if len({tuple(array.shape for array in arrays) for arrays in calls}) > 1:
        found.add("sizes change")
    for arrays in calls:
        for array in arrays:
            if array.dtype.kind not in "biu":
                found |= of_floats(array)
    return found


def of_floats(array: np.ndarray) -> set[str]:
    info: Any = ml_dtypes.finfo(array.dtype)
    wide = array.astype(np.float64)
    size = np.abs(wide)
    there = {
        "NaN": np.isnan(wide), "infinity": np.isinf(wide), "-0": (wide == 0) & np.signbit(wide),
        "denormal": (size > 0) & (size < float(info.smallest_normal)), "overflowing": size > float(info.max) / 8,
    }  # fmt: skip
    return {name for name, places in there.items() if places.any()}


def _of_block(data: Data) -> set[str]:
    found = {name for name, pattern in _PATTERNS.items() if re.search(pattern, data["text"])}
    return found | ({"several programs"} if max(data["grid"]) > 1 else set())


def _of_file(data: Data) -> set[str]:
    return {f"changed {json.dumps(data[key])}" for key in ("how", "form") if key in data}
