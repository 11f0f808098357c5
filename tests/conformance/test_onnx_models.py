"""Models of real kinds, as two exporters of torch and the quantisers of onnxruntime write them: onnxruntime's results.

`onnx_models/make_models.py` makes the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "data" / "onnx_models"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))
CLOSE = {"half": (2e-2, 2e-2), "quantised_qdq": (1e-4, 1e-4), "decoder_double": (1e-10, 1e-10)}


def arrays_of(name: str) -> tuple[dict[str, Any], list[Any]]:
    """What a model was given, and what it returned."""
    with np.load(FOLDER / f"{name}.npz") as found:
        given = {key[3:]: found[key] for key in found.files if key.startswith("in_")}
        return given, [found[f"out_{number}"] for number in range(len(found.files) - len(given))]


def test_there_are_models() -> None:
    assert len(NAMES) >= 15
    assert max(path.stat().st_size for path in FOLDER.iterdir()) <= 200_000


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", NAMES)
def test_a_model_computes_what_onnxruntime_does(name: str) -> None:
    given, wanted = arrays_of(name)
    model: Any = jn.compile_onnx(FOLDER / f"{name}.onnx", device="cpu", cache=False)
    found = model(**given)
    found = found if isinstance(found, tuple) else (found,)
    rtol, atol = CLOSE.get(name, (1e-4, 1e-5))
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)
    assert not hasattr(model, "sizes")  # one compiled model serves all sizes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sizes", [(8, 8), (5, 7), (1, 13)])
def test_one_compiled_net_serves_other_frames(sizes: tuple[int, int]) -> None:
    """The sizes that a resize aims at are expressions of the frame's."""
    frame = np.random.default_rng(3).normal(size=(1, 3, *(size + 1 for size in sizes))).astype(np.float32)
    onnx = pytest.importorskip("onnx.reference")
    (want,) = onnx.ReferenceEvaluator(str(FOLDER / "unet_script.onnx")).run(None, {"x0": frame})
    got = jn.evaluate(jn.from_onnx(FOLDER / "unet_script.onnx"), frame)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
