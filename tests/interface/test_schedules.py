"""Schedules of models: what they print is what a compilation takes, edits are kept by files, and what is illegal says so."""

from __future__ import annotations

import functools
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(0)
FILTERS = RNG.standard_normal((3, 3, 32, 32), np.float32)
WEIGHTS = RNG.standard_normal((32, 96), np.float32)
INPUT = RNG.standard_normal((2, 16, 14, 32), np.float32)


def model(symbolic: bool = False) -> jn.Graph:
    graph = jn.Graph("model")
    x = graph.input(jn.float32, ("n", 16, 14, 32) if symbolic else INPUT.shape, "x")
    y = jn.relu(jn.conv2d(x, graph.constant(FILTERS), padding=1)).reshape((-1, 32)) @ graph.constant(WEIGHTS)
    graph.output(jn.softmax(y), jn.cumsum(y, 0), y.T + 1.0)
    return graph


def compiled(schedule: object = None, device: str = "cpu", **options: object) -> jn.Model:
    return jn.compile(model(), device, cache=False, schedule=schedule, **options)


@functools.cache
def unchanged(device: str = "cpu") -> jn.Model:
    return compiled(device=device)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_what_is_printed_compiles_to_the_same_code(device: str) -> None:
    first = unchanged(device)
    text = str(first.schedule)
    assert [kernel.name for kernel in first.kernels] == list(first.schedule)
    assert all(f"[{name}]" in text for name in first.schedule)
    again = compiled(jn.ModelSchedule.from_text(text), device)
    assert str(again.schedule) == text
    assert again.compiled.object_code == first.compiled.object_code
    if device == "ptxsim":
        assert [k.ptx for k in again.compiled.gpu.kernels] == [k.ptx for k in first.compiled.gpu.kernels]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_legal_schedules_change_no_meaning(seed: int) -> None:
    generator = np.random.default_rng(seed)
    wanted = unchanged()(INPUT)
    schedule = unchanged().schedule
    for name in schedule:
        kernel = schedule[name]
        is_packed = name.startswith("contract")
        blocks = {a: n if is_packed and a == "n" else int(2 ** generator.integers(0, 8)) for a, n in kernel.blocks.items()}
        changes = {"blocks": blocks}
        if kernel.streaming is not None:
            changes["streaming"] = bool(generator.integers(2))
        if kernel.group is not None:
            changes["group"] = int(generator.integers(0, 5))
        schedule = schedule.replaced(name, **changes)
    other = compiled(schedule)
    assert other.compiled.object_code != unchanged().compiled.object_code
    for value, first in zip(other(INPUT), wanted, strict=True):
        np.testing.assert_allclose(value, first, rtol=2e-5, atol=2e-3)


@pytest.mark.slow
def test_the_algorithm_of_a_convolution_is_chosen_and_kept_by_files(tmp_path: Path) -> None:
    first = unchanged()
    (name,) = [name for name in first.schedule if first.schedule[name].algorithm is not None]
    assert first.schedule[name].algorithm == "winograd"
    plain = compiled(jn.ModelSchedule({name: jn.KernelSchedule(algorithm="plain")}))
    assert plain.schedule[name].algorithm == "plain"
    np.testing.assert_allclose(plain(INPUT)[0], first(INPUT)[0], rtol=1e-4, atol=1e-4)
    plain.save(tmp_path / "plain.joinery")
    for trusted in (False, True):
        opened = jn.load(tmp_path / "plain.joinery", trusted=trusted)
        assert opened.schedule == plain.schedule
        for value, wanted in zip(opened(INPUT), plain(INPUT), strict=True):
            np.testing.assert_array_equal(value, wanted)
        opened.save(tmp_path / "again.joinery")
        assert opened.digest == plain.digest
    gpu = jn.load(tmp_path / "plain.joinery", device="ptxsim")
    assert gpu.schedule == unchanged("ptxsim").schedule, "a schedule of CPUs is none of GPUs"


@pytest.mark.slow
def test_a_file_with_the_text_is_a_schedule(tmp_path: Path) -> None:
    schedule = unchanged().schedule
    name = next(name for name in schedule if name.startswith("row"))
    schedule.replaced(name, blocks={"i0": 1, "i1": 128}).save(tmp_path / "schedule.toml")
    found = compiled(tmp_path / "schedule.toml").schedule
    assert dict(found[name].blocks) == {"i0": 1, "i1": 128}
    assert found == compiled(str(tmp_path / "schedule.toml")).schedule
    assert repr(found[name]).startswith("KernelSchedule(")


def test_the_schedule_of_an_ordered_scatter_is_read_again(tmp_path: Path) -> None:
    """Its blocks are whole lines, of any length."""
    types = [
        jn.TensorType(jn.float32, ("n", 8), "x"), jn.TensorType(jn.int64, ("p", 8), "i"),
        jn.TensorType(jn.float32, ("p", 8), "u"),
    ]  # fmt: skip
    graph = jn.Graph("sums", types)
    x, indices, updates = graph.inputs
    graph.output(jn.scatter(x, updates, indices, axis=0, reduction="add"))
    schedule = jn.compile(graph, "cpu", cache=False).schedule
    schedule.save(tmp_path / "schedule.toml")
    for given in (schedule, str(tmp_path / "schedule.toml"), jn.ModelSchedule.from_text(str(schedule))):
        model = jn.compile(graph, "cpu", schedule=given, cache=False)
        assert model.schedule == schedule
    want = np.zeros((3, 8), np.float32)
    want[1] = 5
    np.testing.assert_array_equal(model(want * 0, np.ones((5, 8), np.int64), np.ones((5, 8), np.float32)), want)
    (name,) = schedule
    with pytest.raises(jn.UserError, match="names of axes and powers of two"):
        jn.ModelSchedule.from_text(f"[{name}]\nblocks = {{i0 = {1 << 49}}}")


def test_the_cache_tells_schedules_apart(tmp_path: Path) -> None:
    cache = str(tmp_path)
    first = jn.compile(model(), "cpu", cache=cache)
    name = next(name for name in first.schedule if name.startswith("row"))
    changed = first.schedule.replaced(name, blocks={"i0": 1, "i1": 128})
    with pytest.raises(jn.UserError, match="must-hit"):
        jn.compile(model(), "cpu", cache="must-hit", schedule=changed)
    other = jn.compile(model(), "cpu", cache=cache, schedule=changed)
    assert other.compiled.object_code != first.compiled.object_code
    assert jn.compile(model(), "cpu", cache=cache).compiled.object_code == first.compiled.object_code


def test_reproducible_numerics_keep_the_blocks_of_sums() -> None:
    first = compiled(numerics="reproducible")
    changed = first.schedule
    for name in changed:
        if name.startswith("row"):
            changed = changed.replaced(name, blocks={"i0": 4, "i1": 16})
    other = compiled(changed, numerics="reproducible")
    for value, wanted in zip(other(INPUT), first(INPUT), strict=True):
        np.testing.assert_array_equal(value, wanted)


CONVOLUTION = "contract_matmul_relu_1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[contract_matmul_relu]", f"no kernel is called 'contract_matmul_relu'; fix: '{CONVOLUTION}'"),
        (f"[{CONVOLUTION}]\nblocks = {{q = 4}}", "has no axis 'q'; fix: "),
        (f"[{CONVOLUTION}]\nblocks = {{m = 48}}", f"kernel '{CONVOLUTION}': .*use a power of two, such as 64"),
        (f"[{CONVOLUTION}]\nblocks = {{m = 1048576, n = 32}}", "exceed 2\\*\\*20 elements"),
        (f"[{CONVOLUTION}]\nblocks = {{m = 32, n = 64}}", "panels of 32; fix: n = 32 in blocks"),
        (f"[{CONVOLUTION}]\nblocks = {{m = 0}}", "powers of two"),
        (f"[{CONVOLUTION}]\nblocks = {{m = true}}", "powers of two"),
        (f"[{CONVOLUTION}]\nblocks = 4", "powers of two"),
        (f"[{CONVOLUTION}]\nwidth = 4", "'width'; fix: blocks, algorithm"),
        (f"[{CONVOLUTION}]\ngroup = -1", "an integer of 0 or more"),
        (f"[{CONVOLUTION}]\nwarps = 3", "3 warps; fix"),
        (f"[{CONVOLUTION}]\nalgorithm = \"fft\"", '"plain", "winograd" or "winograd4"'),
        ("[map_pad_0]\nalgorithm = \"winograd\"", "cannot be computed as 'winograd'; fix: leave it out"),
        ("[contract_matmul_add_2]\nblocks = {m = 64, n = 64, k = 32}", "columns"),
        ("contract_matmul_2 = 3", "is no table"),
        ("[contract", "no TOML"),
        ("a" + ".a" * 200000 + " = 1", "a line of 400005 characters; fix: at most 4096"),
        ("a = " + "[" * 4000, "no TOML"),
    ],
)
def test_what_is_no_schedule_says_so(text: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        compiled(jn.ModelSchedule.from_text(text))


def test_a_file_whose_schedule_fits_no_more_is_opened_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(name for name in unchanged().schedule if name.startswith("row"))
    changed = compiled(jn.ModelSchedule({name: jn.KernelSchedule(blocks={"i0": 1, "i1": 128})}))
    changed.save(tmp_path / "changed.joinery")
    monkeypatch.setattr("joinery.lowering.choices.kernel_schedules._name", lambda nest, number: f"kernel_{number}")
    with pytest.warns(UserWarning, match=f"the schedule in .* is left out: .*{name}"):
        opened = jn.load(tmp_path / "changed.joinery")
    for value, wanted in zip(opened(INPUT), unchanged()(INPUT), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-3)


def test_other_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(jn.UserError, match=r"schedule is int; fix: a joinery.ModelSchedule"):
        compiled(3)
    with pytest.raises(jn.UserError, match="cannot be read"):
        compiled(str(tmp_path / "missing.toml"))
    with pytest.raises(jn.UserError, match=r"expected a joinery.KernelSchedule, got dict"):
        compiled(jn.ModelSchedule({"map_pad_0": {}}))
    with pytest.raises(jn.UserError, match="no kernel is called 'missing'"):
        unchanged().schedule.replaced("missing", group=1)
    with pytest.raises(jn.UserError, match="cannot be computed as 'winograd'"):
        compiled(jn.ModelSchedule({CONVOLUTION: jn.KernelSchedule(algorithm="winograd")}), numerics="reproducible")
    graph = jn.Graph("host")
    graph.output(jn.nonzero(graph.input(jn.float32, (4,), "x")))
    with pytest.raises(jn.UnsupportedError, match="leave schedule= out"):
        jn.compile(graph, "cpu", schedule=jn.ModelSchedule({"map_0": jn.KernelSchedule()}))


def test_a_text_in_the_place_of_a_path_is_told() -> None:
    with pytest.raises(jn.UserError, match=r"the text of one, not a path; fix: schedule=joinery\.ModelSchedule\.from_text"):
        compiled(str(unchanged().schedule))


def test_rows_that_are_combined_position_by_position_are_said_and_can_be_turned_off() -> None:
    x = np.random.default_rng(0).integers(0, 9, (1000, 60)).astype(np.float32)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", x.shape, "x")])
    graph.output(jn.argmax(graph.inputs[0], axis=0))
    said = jn.compile(graph, device="cpu").schedule
    assert "lanes = true" in str(said)
    again = jn.compile(graph, device="cpu", schedule=jn.ModelSchedule.from_text(str(said)))
    assert str(again.schedule) == str(said)
    changed = jn.ModelSchedule.from_text(str(said).replace("lanes = true", "lanes = false"))
    other = jn.compile(graph, device="cpu", schedule=changed)
    assert other.schedule == changed
    kept = jn.compile(graph, device="cpu", schedule=jn.ModelSchedule.from_text(str(other.schedule)))
    assert str(kept.schedule) == str(other.schedule)
    for model in (again, other):
        assert np.array_equal(model(x), x.argmax(0))
