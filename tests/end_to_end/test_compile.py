"""Compiled models through the public API: what they accept, refuse, return and show, from one thread or many."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.printing import print_module

Array = np.ndarray[Any, Any]


def compiled(graph: jn.Graph, **options: Any) -> jn.Model:
    return jn.compile(graph, device="cpu", cache=False, **options)


def tensor(name: str, *shape: Any, dtype: jn.DType = jn.float32) -> jn.TensorType:
    return jn.TensorType(dtype, shape, name=name)


def integers(seed: int, *shape: int) -> Array:
    """Small integers as float32: their sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> jn.Model:
    """z = x @ y + s and its row sums: two kernels, three symbolic dims, a scalar input, two outputs."""
    g = jn.Graph("two", [tensor("x", "n", "k"), tensor("y", "k", "m"), tensor("s", dtype=jn.int32)])
    x, y, s = g.inputs
    z = x @ y
    g.output(z + s, jn.sum(z, axis=1), names=["z", "totals"])
    return compiled(g)


@pytest.fixture(scope="module")
def affine() -> jn.Model:
    g = jn.Graph("affine", [tensor("x", "n", "k", dtype=jn.float64)])
    g.output(g.inputs[0] * 2 - 1, name="y")
    return compiled(g)


# --- sizes


@pytest.mark.parametrize(
    "extents", [(3, 4, 5), (0, 4, 5), (3, 0, 5), (3, 4, 0), (0, 0, 0), (1, 1, 1), (65, 129, 33)]
)
def test_one_model_serves_every_size(model: jn.Model, extents: tuple[int, int, int]) -> None:
    n, k, m = extents
    x, y = integers(0, n, k), integers(1, k, m)
    z, totals = model(x, y, 7)
    np.testing.assert_array_equal(z, x @ y + 7, strict=True)
    np.testing.assert_array_equal(totals, (x @ y).sum(axis=1), strict=True)


def test_no_size_compiles_anything(model: jn.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("compiled during a call")

    monkeypatch.setattr("joinery.lowering.pipeline.compile_graph", refuse)
    monkeypatch.setattr("joinery.lowering.llvm.compile.compile_object", refuse)
    for n in range(40):
        x, y = integers(n, n, 3), integers(n, 3, 2)
        np.testing.assert_array_equal(model(x, y, 1)[0], x @ y + 1)


def test_expressions_of_dims_are_sizes() -> None:
    g = jn.Graph("halves", [tensor("x", "2*n"), tensor("y", "n")])
    x, y = g.inputs
    g.output(jn.concat([x[::2] + y, y], axis=0))
    m = compiled(g)
    for n in (0, 1, 7, 64):
        a, b = integers(0, 2 * n), integers(1, n)
        np.testing.assert_array_equal(m(a, b), np.concatenate([a[::2] + b, b]), strict=True)
    with pytest.raises(
        jn.UserError, match=r"'x' axis 0 must be 2\*n = 6 \(n = 3 from input 'y' axis 0\), got 5"
    ):
        m(np.zeros(5, np.float32), np.zeros(3, np.float32))


# --- mistakes

X, Y, S = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.array(7, np.int32)

MISTAKES: list[tuple[Callable[[jn.Model], Any], str]] = [
    (lambda m: m(X.astype(np.float64), Y, S), r"input 'x' expects float32, got float64 .*fix: x\.astype\(numpy\.float32\)"),
    (lambda m: m(X[0], Y, S), r"input 'x' expects shape \(n, k\) of rank 2, got \(4,\) of rank 1; fix: x\[None\]"),
    (lambda m: m(X[None], Y, S), r"rank 2, got \(1, 3, 4\) of rank 3; fix: x\[0\] drops"),
    (lambda m: m(X, Y.T.copy(), S), r"k is 4 from input 'x' axis 1 but 5 from input 'y' axis 0; fix: "),
    (lambda m: m(X, Y), r"model 'two' takes 3 inputs \(x: float32\[n, k\], y: float32\[k, m\], s: int32\[\]\), got 2"),
    (lambda m: m(X, Y, S, S), r"takes 3 inputs .* got 4"),
    (lambda m: m(x=X, y=Y), r"missing input 's'; expects x: float32\[n, k\]"),
    (lambda m: m(X, Y, S, x=X), r"input 'x' is given by position and by name"),
    (lambda m: m(X, yy=Y, s=S), r"has no input 'yy'; did you mean 'y'\?"),
    (lambda m: m(X, Y, 7.5), r"input 's' expects int32, got the float 7\.5; fix: "),
    (lambda m: m(X, Y, 2**40), r"input 's': 1099511627776 does not fit int32 \(-2147483648 … 2147483647\)"),
    (lambda m: m(X, Y, np.int64(7)), r"input 's' expects int32, got int64"),
    (lambda m: m(1.0, Y, S), r"input 'x' expects an array of shape \(n, k\), got the number 1\.0; fix: numpy\.full"),
    (lambda m: m(X.tolist(), Y, S), r"input 'x' expects an array .*got a list; fix: numpy\.asarray"),
    (lambda m: m(None, Y, S), r"input 'x' expects an array .*got None"),
    (lambda m: m(X.astype(object), Y, S), r"got an object array .*fix: numpy\.array\(x\.tolist\(\), dtype=numpy\.float32\)"),
    (lambda m: m(np.full((3, 4), "a"), Y, S), r"input 'x' expects float32, got an array of <U1"),
    (lambda m: m(np.ma.masked_array(X), Y, S), r"masked array; joinery has no masks; fix: x\.filled\(0\)"),
    (lambda m: m.run([X, Y, S]), r"run takes a mapping of input names to arrays, not a list"),
    (lambda m: m.run({"x": X, "y": Y}), r"missing input 's'"),
    (lambda m: m.run({"x": X, "y": Y, "s": S, "t": S}), r"has no input 't'; inputs: x, y, s"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes_in_a_call_are_explained(
    model: jn.Model, call: Callable[[jn.Model], Any], message: str
) -> None:
    with pytest.raises(jn.UserError, match=message) as caught:
        call(model)
    assert "model 'two'" in str(caught.value)
    np.testing.assert_array_equal(model(X, Y, S)[0], X @ Y + 7)  # the model still works


def test_static_extents_are_checked() -> None:
    g = jn.Graph("static", [tensor("x", 2, 3)])
    g.output(g.inputs[0] + 1)
    with pytest.raises(
        jn.UserError, match=r"input 'x' expects shape \(2, 3\), got \(2, 4\): axis 1 is 4, not 3"
    ):
        compiled(g)(np.zeros((2, 4), np.float32))


def test_checks_of_the_graph_are_made_at_launch() -> None:
    g = jn.Graph("rebound", [tensor("x", "n"), tensor("y", "m")])
    x, y = g.inputs
    g.output(jn.rebind(x, ("m",)) + y, jn.max(y))
    m = compiled(g)
    np.testing.assert_array_equal(
        m(np.ones(3, np.float32), np.ones(3, np.float32))[0], np.full(3, 2, np.float32)
    )
    with pytest.raises(jn.UserError, match=r"rebind:? axis 0: n must equal m \(n = 3, m = 4\)"):
        m(np.ones(3, np.float32), np.ones(4, np.float32))
    with pytest.raises(jn.UserError, match=r"max: axis 0 must not be empty"):
        m(np.ones(0, np.float32), np.ones(0, np.float32))


def test_raw_bits_are_not_numbers() -> None:
    g = jn.Graph("bf16", [tensor("x", 2, dtype=jn.bfloat16)])
    g.output(g.inputs[0] + 1)
    m = compiled(g)
    with pytest.raises(jn.UserError, match=r"fix: x\.view\(ml_dtypes\.bfloat16\) if these are the raw bits"):
        m(np.zeros(2, np.uint16))
    result = m(np.array([1, 2], ml_dtypes.bfloat16))
    assert result.dtype == ml_dtypes.bfloat16
    assert result.tolist() == [2, 3]


COMPILE_MISTAKES: list[tuple[Callable[[jn.Graph], Any], type[Exception], str]] = [
    (lambda g: jn.compile(g, device="gpu"), jn.UserError, r"unknown device 'gpu'; expected one of auto, cpu"),
    (lambda g: jn.compile(g, device="cuda:99"), jn.DeviceError, r"no CUDA driver|no device cuda:99"),
    (lambda g: jn.compile(g, device="ptxsim", target="sm_70"), jn.UserError, r"no GPU target 'sm_70'.* Targets: sm_80, sm_86"),
    (lambda g: jn.compile(g, "cpu", target="sm_80"), jn.UserError, r"target 'sm_80' is for GPUs; fix: device='ptxsim'"),
    (lambda g: jn.compile(g, cache=None), jn.UserError, r"cache is None; expected True, False, 'must-hit', a directory"),
    (lambda g: jn.compile(g, cache=5), jn.UserError, r"cache is 5; expected True"),
    (lambda g: jn.compile(g, cache=False, threads=0), jn.UserError, r"threads must be an int from 1 to 1024, not 0"),
    (lambda g: jn.compile(g.inputs[0], cache=False), jn.UserError, r"compile: expected a Graph, got Symbol"),
    (lambda _: jn.compile(jn.Graph("open")), jn.UserError, r"graph 'open' has no outputs yet; fix: call graph\.output"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), COMPILE_MISTAKES)
def test_mistakes_in_compile_are_explained(
    call: Callable[[jn.Graph], Any], error: type[Exception], message: str
) -> None:
    g = jn.Graph("good", [tensor("x", 2)])
    g.output(g.inputs[0] + 1)
    with pytest.raises(error, match=message):
        call(g)


# --- memory layouts


BASE = np.random.default_rng(5).standard_normal((12, 20))
ODD = np.frombuffer(b"-" + BASE.tobytes(), np.uint8)[1:].view(np.float64).reshape(BASE.shape)


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(BASE[::-1, ::-2], id="negative strides"),
        pytest.param(BASE[1::3, 2::4], id="steps"),
        pytest.param(BASE.T, id="transposed"),
        pytest.param(np.asfortranarray(BASE), id="Fortran order"),
        pytest.param(np.broadcast_to(BASE[0], (4, 20)), id="broadcast"),
        pytest.param(BASE.astype(">f8"), id="big-endian"),
        pytest.param(BASE[:0], id="empty"),
        pytest.param(BASE[:, 5:5], id="empty columns"),
        pytest.param(ODD, id="not aligned, read-only"),
        pytest.param(BASE.view(np.matrix), id="subclass"),
    ],
)
def test_any_layout_is_accepted(affine: jn.Model, array: Array) -> None:
    before = array.copy()
    result = affine(array)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(array) * 2 - 1, strict=True)
    assert type(result) is np.ndarray
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert not np.shares_memory(result, array)
    np.testing.assert_array_equal(array, before)


def test_an_input_that_is_an_output_is_copied() -> None:
    g = jn.Graph("identity", [tensor("x", "n")])
    g.output(g.inputs[0])
    x = integers(0, 5)
    result = compiled(g)(x)
    np.testing.assert_array_equal(result, x, strict=True)
    assert not np.shares_memory(result, x)


def test_results_of_calls_do_not_overlap(affine: jn.Model) -> None:
    first = affine(BASE)
    kept = first.copy()
    second = affine(BASE + 1)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, kept)


# --- run and bind


def test_run_takes_and_returns_names(model: jn.Model) -> None:
    result = model.run({"s": S, "y": Y, "x": X})
    assert list(result) == ["z", "totals"]
    np.testing.assert_array_equal(result["z"], X @ Y + 7)
    np.testing.assert_array_equal(result["totals"], (X @ Y).sum(axis=1))


def test_a_bound_call_reads_and_writes_in_place(model: jn.Model) -> None:
    x, y = integers(0, 3, 4), integers(1, 4, 5)
    z, totals = np.empty((3, 5), np.float32), np.empty(3, np.float32)
    bound = model.bind(x, y, s=S, outputs={"totals": totals, "z": z})
    for step in range(3):
        x += step
        first, second = bound()
        assert first is z
        assert second is totals
        np.testing.assert_array_equal(z, x @ y + 7)
        np.testing.assert_array_equal(totals, (x @ y).sum(axis=1))


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ((X, Y, 7), None, r"bind makes no copies, but input 's' would need one"),
        ((X[:, ::-1], Y, S), None, r"input 'x' would need one .*fix: bind numpy\.ascontiguousarray\(x\)"),
        ((X, Y, S), [np.empty((3, 5), np.float32)], r"has 2 outputs, got 1 buffers"),
        ((X, Y, S), {"z": np.empty((3, 5), np.float32)}, r"outputs must name exactly z, totals, got z"),
        ((X, Y, S), [np.empty((3, 4), np.float32), np.empty(3, np.float32)],
         r"buffer of output 'z' must be float32\[3, 5\], got float32\[3, 4\]; fix: numpy\.empty\(\(3, 5\), 'float32'\)"),
        ((X, Y, S), [np.empty((3, 5)), np.empty(3, np.float32)], r"'z' must be float32\[3, 5\], got float64\[3, 5\]"),
        ((X, Y, S), [np.empty((5, 3), np.float32).T, np.empty(3, np.float32)], r"'z' is not C-contiguous"),
        ((X, Y, S), [np.empty((3, 5), np.float32), X[:, 0].copy().view()[:3]], None),
    ],
)  # fmt: skip
def test_what_bind_accepts(model: jn.Model, inputs: Any, outputs: Any, message: str | None) -> None:
    if message is None:
        np.testing.assert_array_equal(model.bind(*inputs, outputs=outputs)()[0], X @ Y + 7)
        return
    with pytest.raises(jn.UserError, match=message):
        model.bind(*inputs, outputs=outputs)


def test_outputs_must_be_arrays(affine: jn.Model) -> None:
    with pytest.raises(
        jn.UserError, match=r"outputs must be arrays, got int; fix: a list of arrays, or a mapping"
    ):
        affine.bind(BASE.copy(), outputs=3)
    with pytest.raises(jn.UserError, match=r"buffer of output 'y' must be an array, got a str"):
        affine.bind(BASE.copy(), outputs=["y"])


def test_buffers_must_be_writable_and_apart(affine: jn.Model) -> None:
    x = BASE.copy()
    with pytest.raises(jn.UserError, match="overlaps input 'x'"):
        affine.bind(x, outputs=x)
    fixed = np.empty_like(x)
    fixed.flags.writeable = False
    with pytest.raises(jn.UserError, match="buffer of output 'y' is read-only"):
        affine.bind(x, outputs=fixed)


# --- threads


@pytest.mark.parametrize("threads", [1, 2])
def test_eight_threads_share_a_model(threads: int) -> None:
    g = jn.Graph("shared", [tensor("x", "n", 48)])
    (x,) = g.inputs
    w = integers(9, 48, 32)
    g.output(jn.relu(x @ w) + jn.sum(x, axis=1, keepdims=True))
    m = compiled(g, threads=threads)
    failures: list[str] = []
    barrier = threading.Barrier(8)

    def work(worker: int) -> None:
        cases = [integers(100 * worker + n, n, 48) for n in (0, 1, worker, 40 + worker, 500 + worker)]
        expected = [np.maximum(a @ w, 0) + a.sum(axis=1, keepdims=True) for a in cases]
        barrier.wait()
        for repeat in range(20):
            for a, e in zip(cases, expected, strict=True):
                got = m(a)
                if got.shape != e.shape or not np.array_equal(got, e):
                    failures.append(f"thread {worker}, repeat {repeat}, {len(a)} rows")

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def test_threads_may_compile_at_the_same_time(tmp_path: Path) -> None:
    failures: list[str] = []

    def work(worker: int) -> None:
        for number in range(worker, worker + 4):
            g = jn.Graph(f"graph{number}", [tensor("x", "n", 16)])
            y = g.inputs[0]
            for step in range(number):
                y = jn.relu(y * 2 - step)
            g.output(y)
            a = integers(worker, 3, 16)
            m = jn.compile(g, cache=tmp_path / "cache" if number % 2 else False)
            if not np.array_equal(m(a), jn.evaluate(g, a)):
                failures.append(f"worker {worker}, graph {number}")

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert jn.CompileCache(tmp_path / "cache").problem is None


def test_a_call_releases_the_gil() -> None:
    g = jn.Graph("long", [tensor("x", 1536, 1536)])
    (x,) = g.inputs
    g.output(((x @ x) @ x) @ x)
    m = compiled(g, threads=1)
    a = np.zeros((1536, 1536), np.float32)
    interval: list[float] = []

    def work() -> None:
        interval.append(time.perf_counter())
        m(a)
        interval.append(time.perf_counter())

    worker = threading.Thread(target=work)
    ticks = []
    worker.start()
    while len(interval) < 2:
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    worker.join()
    start, end = interval
    margin = 0.1 * (end - start)
    inside = [tick for tick in ticks if start + margin < tick < end - margin]
    assert len(inside) >= 3, f"{len(inside)} steps of Python in {end - start:.3f} s"


# --- looking inside


def test_kernels_show_their_code_at_every_level(model: jn.Model) -> None:
    assert [kernel.template for kernel in model.kernels] == ["contract", "row"]
    for kernel in model.kernels:
        module = parse(kernel.ttir)
        assert print_module(module, locations=True) == kernel.ttir
        assert f"tt.func public @{kernel.name}(" in kernel.ttir
        assert re.match(rf"define void @{kernel.name}\(ptr noalias %args, i64 %lo, i64 %hi\)", kernel.llvm_ir)
        assert kernel.asm.startswith(f"{kernel.name}:")
        assert "ret" in kernel.asm
        assert kernel.name in model.plan()
    llvm.parse_assembly(model.compiled.llvm_ir).verify()
    assert model.kernels[0].fused == ("matmul", "cast", "add")


def test_kernels_count_bytes_and_flops() -> None:
    g = jn.Graph("counted", [tensor("x", "n", 10), tensor("y", "n", 10)])
    x, y = g.inputs
    g.output(x * y + 1)
    (kernel,) = compiled(g).kernels
    assert kernel.at(n=7) == {"grid": 1, "bytes_read": 560, "bytes_written": 280, "flops": 140}
    assert kernel.bytes == "80*n + 40*n"
    with pytest.raises(jn.UserError, match="the size of dim 'n' is not given"):
        kernel.at()


def test_equal_kernels_are_compiled_once() -> None:
    g = jn.Graph("layers", [tensor("x", "n", 32)])
    (x,) = g.inputs
    weights = [integers(layer, 32, 32) for layer in range(4)]
    y = x
    for number, w in enumerate(weights):
        y = jn.relu(y @ g.weight(f"layer{number}", w)) * 0.0625
    g.output(y)
    m = compiled(g)
    names = [kernel.name for kernel in m.kernels]
    # the first reads an input, about whose alignment nothing is known; the others read aligned temporaries
    assert len(names) == 4
    assert len(set(names)) == 2
    assert len(set(names[1:])) == 1
    assert m.compiled.llvm_ir.count("define void @contract") == 2
    a = integers(7, 3, 32)
    expected = a
    for w in weights:
        expected = np.maximum(expected @ w, 0) * np.float32(0.0625)
    np.testing.assert_allclose(m(a), expected, rtol=1e-5)


# --- determinism

DETERMINISM = """
import hashlib, json
import joinery as jn
import numpy as np

def build():
    g = jn.Graph("mlp", [jn.TensorType(jn.float32, ("batch", 24), name="x"), jn.TensorType(jn.int8, ("batch", 1), name="i")])
    x, i = g.inputs
    w = g.weight("w", np.ones((24, 16), np.float32))
    y = jn.softmax(jn.gelu(x @ w) + i, axis=-1)
    q = y.reshape("batch", 2, 8).permute(1, 0, 2)
    attention = jn.softmax(q @ q.transpose(-1, -2), axis=-1) @ q
    g.output(y, jn.cumsum(y, axis=0), jn.argmax(y, axis=1), jn.layer_norm(y), attention)
    return g

def digest():
    c = jn.compile(build(), cache=False).compiled
    parts = [c.llvm_ir, json.dumps(dict(c.ttir)), repr((c.kernels, c.inputs, c.outputs, c.constants, c.checks))]
    return [hashlib.sha256(p.encode()).hexdigest() for p in parts] + [hashlib.sha256(c.object_code).hexdigest()]
"""


@pytest.mark.slow
def test_lowering_is_deterministic() -> None:
    namespace: dict[str, Any] = {}
    exec(DETERMINISM, namespace)
    here = namespace["digest"]()
    assert namespace["digest"]() == here
    assert len(set(here)) == 4
    for seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", DETERMINISM + "print(*digest())"],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == here, f"with PYTHONHASHSEED={seed}"


def test_the_digest_of_the_determinism_test_sees_changes() -> None:
    namespace: dict[str, Any] = {}
    exec(DETERMINISM.replace("gelu", "silu"), namespace)
    other: dict[str, Any] = {}
    exec(DETERMINISM, other)
    texts = [n["jn"].compile(n["build"](), cache=False).compiled.llvm_ir for n in (namespace, other)]
    assert hashlib.sha256(texts[0].encode()).digest() != hashlib.sha256(texts[1].encode()).digest()


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_kernels_and_compiled_graphs_are_copied_and_pickled(device: str) -> None:
    """With their texts, which are made when they are read."""
    graph = jn.Graph("g", [jn.TensorType("float32", ("n", 4), "x")])
    graph.output(jn.softmax(graph.inputs[0]) + 1)
    model = jn.compile(graph, device, cache=False)
    for value in (*model.kernels, model.compiled):
        pickled = [pickle.loads(pickle.dumps(value, protocol)) for protocol in (0, pickle.HIGHEST_PROTOCOL)]
        for again in (copy.copy(value), copy.deepcopy(value), *pickled):
            assert again == value
            assert again.ttir == value.ttir != ""
            assert again.llvm_ir == value.llvm_ir
