"""benchmarks/gpu.py on the fake driver: that what it measures is right and known to be, and that one failure ends one case.

No time is looked at: those of the fake driver are counts.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[1] / "benchmarks"
CASES = ["matmul-4096", "attention", "attention-causal", "softmax-f32", "softmax-bf16", "layer-norm-f32", "layer-norm-bf16",
         "vec-add"]  # fmt: skip


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_children")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, children: ModuleType) -> ModuleType:
    """gpu_cases, as if neither torch nor Triton were there."""
    monkeypatch.setattr(importlib.import_module("gpu_peers"), "has_torch", lambda: False)
    return importlib.import_module("gpu_cases")


def measured(children: ModuleType, name: str, without: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[str]]:
    lines: list[dict[str, Any]] = []
    children.measure(name, 0.0, True, without, lines.append)
    return lines[-1]["measurement"], [line["at"] for line in lines[:-1]]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    ("capability", "name"), [*((90, name) for name in CASES), (80, "matmul-4096"), (80, "attention-causal")]
)
def test_cases_are_right_and_measured(
    children: ModuleType, alone: ModuleType, install: Any, capability: int, name: str
) -> None:
    fake = install(capability=divmod(capability, 10))
    found, said = measured(children, name)
    assert found["ours"] == ("joinery",)
    assert set(found["samples"]) == {"joinery", "machine's limit"}
    assert all(len(each) == 2 and min(each) > 0 for each in found["samples"].values())
    assert not any(what.startswith("WRONG") for what in found["notes"])
    assert said[0] == "inputs"
    assert said[-1] == "round 1"
    assert fake.violations == []
    loaded = b"".join(args[0] for _, args in fake.named("cuModuleLoadDataEx"))
    assert (b"bulk.tensor" in loaded) == (capability == 90 and name.startswith(("matmul", "attention")))


@pytest.mark.slow
def test_configurations_that_compute_something_else_are_named(
    children: ModuleType, alone: ModuleType, monkeypatch: pytest.MonkeyPatch, install: Any
) -> None:
    install(capability=(9, 0))
    right = alone.texts.matmul_described

    def text(m: int, *rest: Any) -> str:
        return right(m, *rest) if m == 64 else right(m, *rest).replace("to %K step", "to %step step")

    monkeypatch.setattr(alone.texts, "matmul_described", text)
    found, _ = measured(children, "matmul-4096")
    assert "elements are off" in found["notes"]["WRONG: joinery 32x64x16, 4 warps"]
    assert "elements are off" in found["notes"]["WRONG: joinery 32x64x16, 4 warps, persistent"]
    assert found["notes"]["joinery"] == "configuration 64x32x32, 4 warps, the fastest of 2"
    found, said = measured(children, "matmul-4096", ("32x64x16, 4 warps",))
    assert "32x64x16, 4 warps" not in said
    with pytest.raises(RuntimeError, match="no configuration works"):
        measured(children, "matmul-4096", ("64x32x32, 4 warps", "64x32x32, 4 warps, persistent"))


def test_what_has_no_room_is_left_out(
    children: ModuleType, alone: ModuleType, monkeypatch: pytest.MonkeyPatch, install: Any
) -> None:
    install(capability=(9, 0))
    sizes = alone.Sizes(True)
    made = alone.buffers(alone.cuda_device(), [np.zeros((256, 256), ml_dtypes.bfloat16)] * 3, 1)
    candidates = {
        f"{m}x{n}x{k}": (
            alone.texts.matmul_described(m, n, k), 4, [((1,), (*map(jn.TensorDescriptor, made[0]), 0, 1, 1))]
        )
        for m, n, k in ((256, 256, 256), (64, 64, 64))
    }  # fmt: skip
    notes: dict[str, str] = {}
    alone.our_fastest(alone.cuda_device(), candidates, made[0][2], lambda result: None, sizes, notes)
    assert "bytes of shared memory" in notes["joinery 256x256x256"]
    assert notes["joinery"] == "configuration 64x64x64, the fastest of 1"


def test_a_check_can_fail(alone: ModuleType) -> None:
    expected = np.array([[1.0, -4.0], [2.0, 3.0]])
    check = alone.compare(expected, lambda result: result[:2], 1e-2)
    check(np.array([[1.03, -4.0], [2.0, 3.0], [9.0, 9.0]]))
    for wrong in (np.array([[1.05, -4.0], [2.0, 3.0]]), np.full((2, 2), np.nan), expected[:1]):
        with pytest.raises(alone.WrongResult):
            check(wrong)


def test_inputs_are_forgotten_between_their_turns(alone: ModuleType) -> None:
    for l2, size in ((50 << 20, 1 << 20), (50 << 20, 96 << 20), (0, 7), (50 << 20, 0)):
        sets = alone.sets_beyond(l2, size)
        assert sets >= 2
        assert (sets - 1) * max(size, 1) >= 2 * l2 or l2 < size


def test_references(alone: ModuleType) -> None:
    """Against sums that are written out."""
    q, k, v = (alone.random((2, 6, 4), "f32", seed) for seed in range(3))
    rows = np.array([1, 4])
    for causal in (False, True):
        found = alone.attention_rows((q, k, v), rows, 0.5, causal)
        for head in range(2):
            for place, row in enumerate(rows):
                seen = row + 1 if causal else 6
                weights = [np.exp(0.5 * float(q[head, row] @ k[head, key])) for key in range(seen)]
                expected = sum(w * v[head, key] for key, w in enumerate(weights)) / sum(weights)
                np.testing.assert_allclose(found[head, place], expected, rtol=1e-5)


def test_the_corpus_is_checked(children: ModuleType, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = children.corpus().WITH_DATA
    assert len(names) > 100
    lines: list[dict[str, Any]] = []
    children.check_corpus(names[:2], lines.append)
    assert [line.get("problem", "") for line in lines] == [""] * 4
    fake.fail("cuMemcpyDtoHAsync", 1)
    lines.clear()
    children.check_corpus(names[:1], lines.append)
    assert lines[0] == {"at": names[0]}
    assert lines[1]["problem"].startswith("DeviceError: cuda, copying ")


def test_minilm_is_compared_with_the_cpu(
    children: ModuleType, install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(capability=(8, 0))

    def build(folder: Path) -> jn.Graph:
        inputs = [jn.TensorType(jn.int64, ("batch", "seq"), name=name) for name in ("input_ids", "attention_mask")]
        graph = jn.Graph("small", inputs=inputs)
        ids, mask = graph.inputs
        graph.output(jn.cast(ids * mask, jn.float32), name="embeddings")
        return graph

    example = SimpleNamespace(model_dir=lambda: Path(), build=build, relative_error=lambda x, y: float(np.abs(x - y).max()))
    monkeypatch.setattr(children, "load", lambda path: example)
    lines: list[dict[str, Any]] = []
    children.minilm(0.0, True, lines.append)
    assert lines[-1]["minilm"]["relative_error"] == 0
    assert lines[-1]["minilm"]["problem"] == ""

    def missing() -> Path:
        raise FileNotFoundError("the weights are not installed")

    example.model_dir = missing
    children.minilm(0.0, True, lines.append)
    assert lines[-1] == {"absent": "the weights are not installed"}


# -- the processes ----------------------------------------------------------------------------


def bench(tmp_path: Path, broken: str, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, what was printed, the result file."""
    output = tmp_path / "result.json"
    options = ["--small", "--seconds", "0", "--jobs", "2", "--output", str(output)]
    command = [sys.executable, HERE / "gpu_benchmark.py", "90", broken, *options, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr, json.loads(output.read_text()) if output.exists() else {}


@pytest.mark.slow
def test_a_configuration_that_takes_the_device_along(tmp_path: Path) -> None:
    status, text, result = bench(tmp_path, "kills:matmul", "matmul-4096")
    assert status == 1
    assert result["device"]["name"] == "Fake GPU 0"
    (case,) = result["cases"]
    assert case["timings"]["joinery"]["samples"] == 2
    assert list(result["failures"].values()) == ["it did not end, or took the device along"]
    assert "FAILED matmul-4096, WRONG: joinery 64x32x32, 4 warps: it did not end" in text
    assert "matmul bf16 96" in text


@pytest.mark.slow
def test_a_case_of_the_corpus_that_takes_the_device_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    gpu = importlib.import_module("gpu")
    corpus = importlib.import_module("gpu_children").corpus()
    names = corpus.WITH_DATA[:3]
    entry = corpus.Case(names[1]).facts["entry"]
    killed = [name for name in names if entry in corpus.Case(name).facts["entry"]]
    command = [sys.executable, str(HERE / "gpu_benchmark.py"), "80", f"loses:{entry}"]
    found = gpu.Bench(command, tmp_path, gpu.time.monotonic() + 300, 0.0, True, 1).corpus(names)
    assert list(found) == names
    assert [name for name, problem in found.items() if problem] == killed
    assert all("CUDA_ERROR_ILLEGAL_ADDRESS" in found[name] for name in killed)


@pytest.mark.slow
def test_a_configuration_that_does_not_end(tmp_path: Path) -> None:
    status, _, result = bench(tmp_path, "stalls:softmax", "softmax-f32", "vec-add")
    assert status == 1
    assert [case["case"] for case in result["cases"]] == ["vec-add"]
    assert "softmax-f32" in result["failures"]


@pytest.mark.slow
def test_without_a_device_there_is_nothing_to_measure(tmp_path: Path) -> None:
    status, text, result = bench(tmp_path, "", "--minutes", "0", "vec-add")
    assert (status, result) == (1, {})
    assert "there is nothing to measure: out of time" in text


def test_cases_that_are_not_known(tmp_path: Path) -> None:
    status, text, _ = bench(tmp_path, "", "nothing")
    assert status == 1
    assert "no such case: nothing; there are: matmul-4096, " in text
