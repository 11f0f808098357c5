"""What is known of the code that computed each block, and what `same_target` refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed import blocks, streaming
from joinery.interface.distributed.batch import jobs, running
from joinery.lowering.llvm.compile import host_target

from .conftest import SIZE, Run, rows
from .test_batch import stopped_after


def test_one_kind_of_cpu(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.run_job_block

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        return replace(real(replace(job, target=None), number), target=f"cpu{number % 2}")

    monkeypatch.setattr(running, "run_job_block", run)
    refused = batch("--output", "y.npy", "--block", "10", "--same-target", status=2)["error"]
    assert "with code for cpu1, others with code for cpu0; fix" in refused
    summary = batch("--output", "y.npy", "--block", "10", "--resume")
    assert summary["targets"] == {"cpu0": 6, "cpu1": 5}


def test_results_of_a_stream_that_mix_kinds(reference: jn.distributed.ModelReference, monkeypatch: pytest.MonkeyPatch) -> None:
    real = blocks.run_block

    def run(*arguments: object) -> blocks.BlockResult:
        found = real(*arguments)  # type: ignore[arg-type]
        return replace(found, target=f"cpu{int(found.outputs['y'].shape[0] == 3)}")

    monkeypatch.setattr(streaming, "run_block", run)
    given = [rows(2), rows(2), rows(3), rows(2)]
    assert [number for number, _ in jn.distributed.stream(reference, given)] == [0, 1, 2, 3]
    found = jn.distributed.stream(reference, given, same_target=True)
    assert [next(found)[0], next(found)[0]] == [0, 1]
    with pytest.raises(jn.distributed.RunError, match="block 2 was computed with code for cpu1, others with code for cpu0"):
        next(found)


@pytest.mark.skipif(not host_target().has("avx512f"), reason="code for x86-64-v3 is nearly the code for this processor")
def test_code_of_a_level_has_other_bits_and_is_noted_as_such(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file gives code for x86-64-v3 where it is trusted, and is compiled for this processor where it is not."""
    graph = jn.Graph("level", [jn.TensorType(jn.float32, ("batch", SIZE), "x")])
    graph.output(jn.exp(jn.cast(graph.inputs[0], jn.float64) / 3), name="y")
    jn.save(graph, "m.joinery", targets=("x86-64-v3",))
    np.save("x.npy", rows(200))
    whole = {}
    for way in (True, False):
        name = f"trusted {way}.npy"
        whole[way] = batch("--output", name, "--block", "20", trusted=way)
        assert list(whole[way]["targets"].values()) == [10]
    (level,), (here,) = whole[True]["targets"], whole[False]["targets"]
    assert level.split("|")[1] == "x86-64-v3"
    assert here == host_target().key
    one, other = np.load("trusted True.npy"), np.load("trusted False.npy")
    assert 0 < np.abs(one.view(np.int64) - other.view(np.int64)).max() <= 2, "last bits differ"
    assert whole[True]["digest"] != whole[False]["digest"]
    with monkeypatch.context() as patch:
        stopped_after(patch, 4, KeyboardInterrupt())
        batch("--output", "y.npy", "--block", "20", status=1)
    refused = batch("--output", "y.npy", "--block", "20", "--resume", "--same-target", status=2, trusted=False)["error"]
    assert "this worker's code is for" in refused
    assert "x86-64-v3" in refused
    with monkeypatch.context() as patch:
        stopped_after(patch, 3, KeyboardInterrupt())
        batch("--output", "y.npy", "--block", "20", "--resume", status=1, trusted=False)
    refused = batch("--output", "y.npy", "--block", "20", "--resume", "--same-target", status=2)["error"]
    assert "the run has blocks of" in refused
    mixed = batch("--output", "y.npy", "--block", "20", "--resume")
    assert mixed["targets"] == {level: 7, here: 3}
    assert mixed["digest"] not in (whole[True]["digest"], whole[False]["digest"])
    assert np.array_equal(np.load("y.npy"), np.concatenate([one[:80], other[80:140], one[140:]]))
    assert jn.distributed.reference("m.joinery", trusted=True).opened().target == level
    blocks_of_dask = pytest.importorskip("dask.array", reason="the extra dask is not installed")
    x = blocks_of_dask.from_array(rows(200), chunks=(20, SIZE))
    for way, expected in ((True, one), (False, other)):
        made = jn.distributed.reference("m.joinery", trusted=way)
        found = jn.distributed.map_blocks(made, x, same_target=True).compute(scheduler="sync")
        assert np.array_equal(found, expected)
