"""Sorts, the largest of rows, and flips, as Triton writes them: stages over blocks of as many dimensions as rows have bits."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

TEXTS = Path(__file__).parents[4] / "data" / "ttir_sorts"
NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i32": np.int32, "i64": np.int64, "i8": np.int8,
}  # fmt: skip


def block(elem: str, extents: str) -> np.ndarray:
    shape = tuple(map(int, extents.split("x")))
    rng = np.random.default_rng(len(extents))
    if elem[0] == "i":
        info = np.iinfo(NUMPY[elem])
        found = rng.integers(info.min, info.max, shape, dtype=np.int64, endpoint=True).astype(NUMPY[elem])
        found.reshape(-1)[:3] = info.min, info.max, info.min
        return found
    found = rng.standard_normal(shape).astype(NUMPY[elem])
    found.reshape(-1)[:4] = np.inf, 1.5, -np.inf, 1.5
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", sorted(path.stem for path in TEXTS.glob("*x*.ttir")))
def test_rows(agree, text) -> None:
    kind, elem, extents, *rest = text.split("_")
    x = block(elem, extents)
    if kind == "flip":
        expected = x[:, ::-1]
    else:
        expected = np.sort(x, axis=-1)
        if rest == ["down"]:
            expected = expected[:, ::-1]
        elif kind == "top":
            expected = expected[:, ::-1][:, : int(rest[0])]
    o = agree((TEXTS / f"{text}.ttir").read_text(), 1, x, np.zeros(expected.shape, x.dtype))[1]
    assert (o == expected).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [1, 100, 127, 128])
def test_a_line_whose_rest_is_infinite(agree, n) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    o = agree((TEXTS / "sort_f32_128.ttir").read_text(), 1, x, np.zeros_like(x), n)[1]
    assert (o == np.sort(x)).all()


def test_the_code_of_a_sort_is_short() -> None:
    """28 stages: with a loop for every dimension it was four times as long."""
    ir = jn.kernel.from_ttir((TEXTS / "sort_f32_128.ttir").read_text()).llvm_ir()
    assert len(ir.splitlines()) < 3000
