"""Graphs whose files `tests/data/artifacts` keeps, with what they compute.

    python tests/support/saved_models.py

writes the files of this version's format. Those of earlier versions stay as they are: they are what users have.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "data" / "artifacts"
VERSION = 1


def network() -> Any:
    """A product with packed weights, symbolic sizes, a check, several dtypes."""
    graph = jn.Graph("network", [jn.TensorType(jn.float32, ("rows", 20), "x"), jn.TensorType(jn.int8, ("rows",), "mask")])
    x, mask = graph.inputs
    weight = graph.weight("weight", (np.arange(20 * 24, dtype=np.float32).reshape(20, 24) % 7 - 3) / 4)
    bias = graph.weight("bias", np.arange(24, dtype=np.float32).astype(jn.bfloat16.numpy))
    hidden = jn.maximum(x @ weight + bias, 0.0)
    graph.output(hidden, jn.sum(hidden * mask.reshape((-1, 1)), axis=1), names=["hidden", "total"])
    return graph


def words() -> Any:
    """Strings, and sizes that the values decide: a file without code."""
    graph = jn.Graph("words", [jn.TensorType("string", ("n",), "text"), jn.TensorType(jn.float32, ("n",), "weight")])
    text, weight = graph.inputs
    found = jn.nonzero(jn.regex_full_match(text, "[a-z]+"))[0]
    graph.output(jn.gather(text, found), jn.gather(weight, found) * 2, names=["words", "weights"])
    return graph


INPUTS: dict[str, tuple[Any, ...]] = {
    "network": ((np.arange(60, dtype=np.float32).reshape(3, 20) % 5 - 2), np.array([1, 0, -2], np.int8)),
    "words": (np.array(["one", "2", "three", "Four"], dtype=object), np.array([1, 2, 3, 4], np.float32)),
}
GRAPHS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "network": (network, ("cpu", "sm_80")), "words": (words, ("cpu",)),
}  # fmt: skip


def main() -> None:
    """Write the files of this version."""
    FOLDER.mkdir(exist_ok=True)
    for name, (build, targets) in GRAPHS.items():
        jn.save(build(), FOLDER / f"v{VERSION}_{name}.joinery", targets, cache=False)


if __name__ == "__main__":
    main()
