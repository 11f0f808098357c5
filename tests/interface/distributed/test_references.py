"""References travel instead of models, are opened once per process, and believe no file that they were not made for."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed import blocks, references

from .conftest import SIZE, WEIGHT, rows, scorer, scores


def test_a_reference_is_small_and_opens_the_model(reference: jn.distributed.ModelReference, model_path: Path) -> None:
    copy = pickle.loads(pickle.dumps(reference))
    assert copy == reference
    assert len(pickle.dumps(reference)) < 400 + len(str(model_path))
    x = rows(9)
    np.testing.assert_allclose(copy()(x), scores(x), rtol=1e-5)


def test_a_process_opens_a_model_once(reference: jn.distributed.ModelReference, forgotten: None) -> None:
    found: list[jn.Model] = []
    threads = [threading.Thread(target=lambda: found.append(pickle.loads(pickle.dumps(reference))())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len({id(model) for model in found}) == 1


def test_a_process_keeps_a_bounded_number_of_models(
    tmp_path: Path, forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "_KEPT_MODELS", 2)
    made = [jn.distributed.reference(jn.compile(scorer(name), device="cpu"), directory=tmp_path) for name in "abc"]
    first = [each() for each in made]
    assert len(references._models) == 2
    assert made[2]() is first[2]
    assert made[0]() is not first[0]


def test_the_code_of_a_trusted_file_runs(model_path: Path, forgotten: None) -> None:
    assert not jn.distributed.reference(model_path, trusted=True).opened().compiled_here
    assert jn.distributed.reference(model_path).opened().compiled_here


def test_code_for_another_machine_is_compiled_and_said_so(
    model_path: Path, forgotten: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reference = jn.distributed.reference(model_path, trusted=True)
    data = model_path.read_bytes()
    target = reference.opened().target
    other = target.replace("|", "~", 1).encode()
    assert len(other) == len(target)
    references._models.clear()
    _, opened = reference, reference.opened()
    assert data.count(target.encode()) >= 1
    monkeypatch.setattr(references.artifact_file, "load", _without_targets(references.artifact_file.load))
    references._models.clear()
    with caplog.at_level("WARNING", "joinery.distributed"):
        again = reference.opened()
    assert again.compiled_here
    assert "has no code for" in caplog.text
    x = rows(5)
    assert np.array_equal(again.model(x), opened.model(x))


def _without_targets(load: object) -> object:
    from dataclasses import replace

    def loaded(*arguments: object, **options: object) -> object:
        artifact = load(*arguments, **options)
        sections = tuple(section for section in artifact.manifest.sections if section.kind != "compiled")
        return artifact._replace(manifest=replace(artifact.manifest, sections=sections))

    return loaded


def test_a_file_that_was_replaced_is_refused(tmp_path: Path, forgotten: None) -> None:
    path = tmp_path / "m.joinery"
    jn.compile(scorer("first"), device="cpu").save(path)
    reference = jn.distributed.reference(path, trusted=True)
    jn.compile(scorer("second"), device="cpu").save(path)
    with pytest.raises(jn.distributed.RunError, match=rf"has the digest [0-9a-f]{{64}}, not {reference.digest}"):
        reference()


def test_a_truncated_file_is_refused_where_it_is_opened(tmp_path: Path, model_path: Path, forgotten: None) -> None:
    path = tmp_path / "m.joinery"
    path.write_bytes(model_path.read_bytes())
    reference = jn.distributed.reference(path)
    path.write_bytes(model_path.read_bytes()[:-100])
    with pytest.raises(jn.distributed.RunError, match="truncated"):
        reference()
    with pytest.raises(jn.UserError, match="truncated"):
        jn.distributed.reference(path)


def test_a_file_that_the_worker_does_not_see_names_ways_out(tmp_path: Path, model_path: Path, forgotten: None) -> None:
    path = tmp_path / "m.joinery"
    path.write_bytes(model_path.read_bytes())
    reference = jn.distributed.reference(path)
    path.unlink()
    with pytest.raises(jn.distributed.RunError, match=r"No such file.*fix: a path .*, or joinery\.distributed\.bring"):
        reference()


def test_another_version_on_the_worker_is_refused(reference: jn.distributed.ModelReference) -> None:
    """When the reference is used: a worker that cannot read a message ends, and its client waits."""
    sent = pickle.dumps(reference)
    assert jn.__version__.encode() in sent
    arrived = pickle.loads(sent.replace(jn.__version__.encode(), b"9.9.9"))
    assert "9.9.9" in repr(arrived)
    for use in (
        arrived, arrived.opened, lambda: arrived.name, lambda: arrived.threads,
        lambda: blocks.run_block(arrived, {"x": rows(3)}), lambda: jn.distributed.ray_actor(arrived),
    ):  # fmt: skip
        with pytest.raises(jn.distributed.RunError, match=r"the client has joinery 9\.9\.9, this worker has"):
            use()
    # A scheduler of another version hands it on as it came.
    again = pickle.dumps(arrived)
    assert pickle.loads(again) == arrived
    assert pickle.loads(again.replace(b"9.9.9", jn.__version__.encode())) == reference


@pytest.mark.skipif(find_spec("dask") is None, reason="the extra dask is not installed")
def test_arrays_are_not_mapped_by_another_version(reference: jn.distributed.ModelReference) -> None:
    arrived = pickle.loads(pickle.dumps(reference).replace(jn.__version__.encode(), b"9.9.9"))
    with pytest.raises(jn.distributed.RunError, match=r"the client has joinery 9\.9\.9, this worker has"):
        jn.distributed.map_blocks(arrived, rows(3))


def test_a_reference_of_another_version_may_have_other_fields() -> None:
    arrived = references._restored("9.9.9", "name", {"something": "else"})
    with pytest.raises(jn.distributed.RunError, match=r"joinery 9\.9\.9"):
        arrived()
    assert pickle.loads(pickle.dumps(arrived)) == arrived != references._restored("9.9.8", "name", {"something": "else"})


def test_a_model_is_written_under_its_digest(tmp_path: Path) -> None:
    model = jn.compile(scorer(), device="cpu")
    reference = jn.distributed.reference(model, directory=tmp_path)
    assert Path(reference.location) == tmp_path / f"{model.digest}.joinery"
    assert reference.trusted
    before = Path(reference.location).stat().st_mtime_ns
    assert jn.distributed.reference(model, directory=tmp_path) == reference
    assert Path(reference.location).stat().st_mtime_ns == before


def test_pickles_of_models_name_the_reference() -> None:
    model = jn.compile(scorer(), device="cpu")
    with pytest.raises(TypeError, match=r"joinery\.distributed\.reference"):
        pickle.dumps(model)
    cloudpickle = pytest.importorskip("cloudpickle", reason="closures are pickled by cloudpickle, which Dask brings")
    with pytest.raises(TypeError, match=r"joinery\.distributed\.reference"):
        cloudpickle.dumps(lambda x: model(x))


def computed_size() -> jn.Graph:
    """An input of a computed size, so that calls go through Python."""
    graph = jn.Graph("computed", [jn.TensorType(jn.float32, (jn.dim("n") * 2, "n"), "x")])
    graph.output(graph.inputs[0] * 2, name="y")
    return graph


@pytest.mark.one_in(6)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("graph", [scorer, computed_size])
@pytest.mark.parametrize("method", ["__call__", "run", "bind", "save", "plan"])
def test_pickles_of_methods_of_models_name_the_reference(method: str, graph: Callable[[], jn.Graph], protocol: int) -> None:
    """What `pool.map(model.__call__, blocks)` sends: addresses of this process would be in it."""
    model = jn.compile(graph(), device="cpu")
    with pytest.raises(TypeError, match=r"cannot be pickled; fix: m\.save.*joinery\.distributed\.reference"):
        pickle.dumps(getattr(model, method), protocol)


def test_pickles_of_graphs_and_symbols_name_the_reference() -> None:
    graph = scorer()
    names = r"cannot be pickled; fix: keep .*joinery\.to_text.*joinery\.distributed\.reference of the compiled model"
    for value in (graph, graph.inputs[0], graph.outputs, jn.what_if(graph, "jax")):
        with pytest.raises(jn.UserError, match=names):
            pickle.dumps(value)
    cloudpickle = pytest.importorskip("cloudpickle", reason="closures are pickled by cloudpickle, which Dask brings")
    with pytest.raises(jn.UserError, match=names):
        cloudpickle.dumps(lambda: graph.outputs)


def test_models_in_parts_are_referenced(tmp_path: Path, forgotten: None, caplog: pytest.LogCaptureFixture) -> None:
    """Between whose kernels the host computes: there is a compiled form for each part, or none."""
    x = np.array([[3, 0, 2], [0, 0, 1]], np.float32)
    positions = np.array(np.nonzero(x))
    for name, build, expected in (
        ("host", jn.nonzero, positions), ("parts", lambda x: jn.nonzero(jn.exp(x) - 1) * 2, 2 * positions),
    ):  # fmt: skip
        graph = jn.Graph(name, [jn.TensorType(jn.float32, ("batch", 3), "x")])
        graph.output(build(graph.inputs[0]), name="y")
        model = jn.compile(graph, device="cpu")
        reference = jn.distributed.reference(model, directory=tmp_path)
        found = blocks.run_block(reference, {"x": x})
        assert np.array_equal(found.outputs["y"], expected)
        assert found.target == ("" if name == "host" else model.parts[0].compiled.target)
    assert [record.args[0] for record in caplog.records] == ["parts"]  # files of such models have no code


def test_a_model_of_the_store_that_is_damaged_is_written_again(tmp_path: Path, forgotten: None) -> None:
    model = jn.compile(scorer(), device="cpu")
    path = Path(jn.distributed.reference(model, directory=tmp_path).location)
    path.write_bytes(path.read_bytes()[:100])
    np.testing.assert_allclose(jn.distributed.reference(model, directory=tmp_path)()(rows(3)), scores(rows(3)), rtol=1e-5)


# --- files that change under a model


def spoil(path: Path) -> None:
    """Write other weights into the file that a process has mapped."""
    data = path.read_bytes()
    at = data.index(WEIGHT[:1].tobytes())
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(WEIGHT.nbytes))
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10_000_000))  # clocks of file systems tick slowly


def plain_model(path: Path) -> jn.distributed.ModelReference:
    """A model whose weight lies in the file as it is, in memory that kernels read in place."""
    graph = jn.Graph("scorer", [jn.TensorType(jn.float32, ("batch", SIZE, 1), "x")])
    graph.output(graph.inputs[0] + graph.weight("w", WEIGHT), name="y")
    jn.compile(graph, device="cpu").save(path)
    return jn.distributed.reference(path, trusted=True, threads=1)


def test_results_of_weights_that_were_changed_in_place_are_refused(tmp_path: Path, forgotten: None) -> None:
    path = tmp_path / "m.joinery"
    reference = plain_model(path)
    x, data = np.zeros((2, SIZE, 1), np.float32), path.read_bytes()
    first = next(jn.distributed.stream(reference, [x]))[1]
    np.testing.assert_array_equal(first, np.stack([WEIGHT, WEIGHT]))
    spoil(path)
    with pytest.raises(jn.distributed.RunError, match=r"model 'scorer': its file .*m\.joinery was changed while it was in use"):
        list(jn.distributed.stream(reference, [x]))
    with pytest.raises(jn.distributed.RunError, match=r"SHA-256|changed"):
        list(jn.distributed.stream(reference, [x]))
    path.write_bytes(data)
    assert np.array_equal(next(jn.distributed.stream(reference, [x]))[1], first)


def test_a_file_that_is_replaced_as_a_whole_does_no_harm(tmp_path: Path, forgotten: None) -> None:
    path = tmp_path / "m.joinery"
    reference = plain_model(path)
    x = np.zeros((2, SIZE, 1), np.float32)
    first = next(jn.distributed.stream(reference, [x]))[1]
    jn.compile(scorer("another"), device="cpu").save(path)
    assert np.array_equal(blocks.run_block(reference, {"x": x}).outputs["y"], first)


def test_a_file_that_others_may_write_to_is_copied(
    tmp_path: Path, forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "default_directory", lambda: tmp_path / "cache")
    path = tmp_path / "m.joinery"
    reference = plain_model(path)
    path.chmod(0o666)
    x = np.zeros((2, SIZE, 1), np.float32)
    first = next(jn.distributed.stream(reference, [x]))[1]
    (copy,) = (tmp_path / "cache" / "models").glob("*.joinery")
    assert copy.stat().st_mode & 0o077 == 0
    spoil(path)
    assert np.array_equal(blocks.run_block(reference, {"x": x}).outputs["y"], first)
    references._models.clear()
    copy.write_bytes(b"half")
    with pytest.raises(jn.distributed.RunError, match=r"artifact that can be used"):
        reference()


def test_clients_plan_with_the_model_of_the_reference(tmp_path: Path, forgotten: None) -> None:
    path = tmp_path / "m.joinery"
    jn.compile(scorer("first"), device="cpu").save(path)
    reference = jn.distributed.reference(path, trusted=True)
    reference()
    jn.compile(scorer("second"), device="cpu").save(path)
    with pytest.raises(jn.distributed.RunError, match=rf"stream: model 'first' in .*, not {reference.digest}"):
        jn.distributed.stream(reference, [rows(3)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_a_block_runs(reference: jn.distributed.ModelReference, forgotten: None) -> None:
    expected = blocks.run_block(reference, {"x": rows(4)}).outputs["y"]
    with reference.opened().running, references._lock:
        child = os.fork()
        if not child:
            signal.alarm(30)
            found = blocks.run_block(reference, {"x": rows(4)}).outputs["y"]
            os._exit(0 if np.array_equal(found, expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_model_or_a_path_is_no_reference(model_path: Path) -> None:
    given = [str(model_path), model_path, jn.load(model_path)]
    for each in given:
        for what, call in [
            ("map_blocks", lambda each: jn.distributed.map_blocks(each, rows(3))),
            ("stream", lambda each: jn.distributed.stream(each, [rows(3)])),
            ("ray_actor", jn.distributed.ray_actor),
            ("apply", lambda each: jn.distributed.apply(each, rows(3))),
        ]:
            if what in ("map_blocks", "apply"):
                pytest.importorskip("xarray", reason="the extra dask is not installed")
            message = rf"{what}: expected a reference to a model, got {type(each).__name__}; fix: joinery\.distributed\.ref"
            with pytest.raises(jn.UserError, match=message):
                call(each)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(jn.UserError, match="expected a model or the path of its file, got int"):
        jn.distributed.reference(3)
    with pytest.raises(jn.UserError, match="threads must be an int"):
        jn.distributed.reference("m.joinery", threads=0)


def test_the_variable_is_above_what_an_engine_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert references.engine_threads() is None
    monkeypatch.setenv("JOINERY_THREADS", "1")
    assert references.engine_threads() is None


def test_a_missing_extra_is_named(reference: jn.distributed.ModelReference, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(jn.UnsupportedError, match=r"pip install 'joinery-graph\[dask\]'"):
        jn.distributed.map_blocks(reference, rows(3))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(jn.UnsupportedError, match=r"pip install 'joinery-graph\[ray\]'"):
        next(jn.distributed.stream(reference, [rows(3)], "ray"))


@pytest.mark.parametrize("trusted", ["no", "", 1, 0, [False]])
def test_only_a_bool_says_what_is_trusted(model_path: Path, trusted: object) -> None:
    with pytest.raises(jn.UserError, match=r"reference: trusted=.* is no bool; fix: True for files you wrote yourself"):
        jn.distributed.reference(model_path, trusted=trusted)  # type: ignore[arg-type]
    with pytest.raises(jn.UserError, match=r"load: trusted=.* is no bool"):
        jn.load(model_path, "cpu", trusted=trusted)  # type: ignore[arg-type]


@pytest.mark.parametrize("verify", [None, "", "no", 1, 0, np.True_])
def test_only_a_bool_says_whether_to_verify(model_path: Path, verify: object) -> None:
    """None or 0 would believe a damaged file."""
    good = model_path.read_bytes()
    digest, damaged = jn.load(good).digest, good[:-50] + bytes([good[-50] ^ 1]) + good[-49:]
    with pytest.raises(jn.UserError, match=r"load: verify=.* is no bool; fix: True, or False with the digest of a file"):
        jn.load(damaged, trusted=True, digest=digest, verify=verify)  # type: ignore[arg-type]
    with pytest.raises(jn.UserError, match="damaged"):
        jn.load(damaged, trusted=True, digest=digest, verify=True)


@pytest.mark.parametrize("device", ["tpu", "", "cuda:", "cuda:x", "CPU", None, 3])
def test_devices_that_are_none_anywhere(model_path: Path, device: object) -> None:
    with pytest.raises(jn.UserError, match=r"reference: unknown device .*; fix: use device='cpu'"):
        jn.distributed.reference(model_path, device=device)  # type: ignore[arg-type]
    for known in ("auto", "cpu", "cuda", "cuda:12", "ptxsim"):  # the client need not have it
        assert jn.distributed.reference(model_path, device=known).device == known


def test_a_path_in_a_working_directory_that_is_gone(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert jn.distributed.reference(model_path).location == str(model_path)
    with pytest.raises(jn.UserError, match="there: the working directory is gone that it starts from"):
        references.absolute_path("there", "there")


def test_no_place_for_a_copy_is_said_once(
    model_path: Path, tmp_path: Path, forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.joinery"
    path.write_bytes(model_path.read_bytes())
    path.chmod(0o666)
    store = tmp_path / "own" / "models"
    store.mkdir(parents=True)
    store.chmod(0o777)
    monkeypatch.setattr(references, "default_directory", lambda: tmp_path / "own")
    with pytest.raises(jn.distributed.RunError) as caught:
        jn.distributed.reference(path, trusted=True)()
    assert "others may write to" in str(caught.value)
    assert "cannot be opened by the worker" not in str(caught.value)
    assert str(caught.value).count("fix:") == 1


@pytest.mark.parametrize("batch", [None, [rows(2)], rows(2)])
def test_an_actor_refuses_what_has_no_columns(reference: jn.distributed.ModelReference, batch: object) -> None:
    with pytest.raises(jn.UserError, match=r'a batch is a .*, not columns by name; fix: map_batches with batch_format="numpy"'):
        jn.distributed.ray_actor(reference)()(batch)


def test_an_actor_takes_lists_of_one_length(reference: jn.distributed.ModelReference) -> None:
    """Which Ray Data gives as an array of objects where they come from Parquet."""
    actor, x = jn.distributed.ray_actor(reference)(), rows(6)
    lists = np.empty(6, object)
    lists[:] = list(x)
    found = actor({"x": lists, "key": np.arange(6)})
    assert np.array_equal(found["y"], reference()(x))
    assert np.array_equal(found["key"], np.arange(6))
    assert actor({"x": lists[:0]})["y"].shape == (0, 5)
    lists[0] = None
    with pytest.raises(jn.UserError, match=r"row 0 of a batch's column 'x' has the shape \(\) and elements of object"):
        actor({"x": lists})
    lists[0] = np.ma.masked_greater(x[0], 0)
    with pytest.raises(jn.UserError, match="is a masked array"):
        actor({"x": lists})
    lists[0] = x[0]
    lists[4] = x[4, :3]
    with pytest.raises(jn.UserError, match=r"row 4 of a batch's column 'x' has the shape \(3,\) and .*, row 0 has \(16,\)"):
        actor({"x": lists})
    lists[:] = [list(map(float, row)) for row in x]
    with pytest.raises(jn.UserError, match="float64"):
        actor({"x": lists})
