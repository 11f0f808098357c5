"""Calling a model: the native entry, the explaining path, and what each accepts and refuses."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import timeit
import weakref
from dataclasses import replace

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.artifact import CompiledGraph, TensorSpec
from joinery.promotion.errors import InternalError, UserError
from joinery.runtime.host import memory
from joinery.runtime.model import call
from joinery.runtime.model.model import Model
from joinery.runtime.native.codegen import emit_object
from joinery.runtime.native.library import native_library


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype(np.float32)


def refuse_slow_path(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, a call that leaves the native entry fails: it checks inputs through
    `Executable.check`."""

    def fail(*_: object) -> None:
        raise AssertionError("the slow path was taken")

    monkeypatch.setattr(model._executable, "check", fail)


@pytest.fixture
def sixteen():
    return np.arange(16, dtype=np.float32), np.linspace(-3, 5, 16, dtype=np.float32)


def test_the_native_entry_runs_here():
    assert native_library().entry is not None, "the other tests would only see the slow path"


def test_plain_call_stays_in_the_native_entry(add16, sixteen, monkeypatch):
    model = Model(add16, [], "")
    refuse_slow_path(model, monkeypatch)
    x, y = sixteen
    result = model(x, y)
    np.testing.assert_array_equal(result, x + y)
    fresh = np.empty(16, np.float32)
    assert (result.flags.num, result.strides, result.dtype) == (fresh.flags.num, fresh.strides, fresh.dtype)
    assert result.base is None
    assert memory.is_aligned(result)
    with pytest.raises(AssertionError, match="slow path"):
        model(x.tolist(), y)


def test_one_call_costs_less_than_half_a_microsecond(add16, sixteen):
    model = Model(add16, [], "")
    x, y = sixteen
    best = (
        min(timeit.repeat("model(x, y)", globals={"model": model, "x": x, "y": y}, number=5000, repeat=40))
        / 5000
    )
    assert best < 0.5e-6


def test_results_are_new_arrays_and_memory_is_recycled(add16, sixteen):
    model = Model(add16, [], "")
    x, y = sixteen
    first, second = model(x, y), model(x, y)
    assert not np.may_share_memory(first, second)
    address = memory.address(second)
    del second
    assert memory.address(model(x, y)) == address
    np.testing.assert_array_equal(first, x + y)


@pytest.mark.parametrize("n", [0, 2, 62, 64, 66, 1000, 20_000])
def test_symbolic_sizes_run_without_recompiling(symbolic, n, monkeypatch):
    model = Model(symbolic, [], "", threads=2)
    refuse_slow_path(model, monkeypatch)
    x, y = rows(n), rows(n, 1)
    np.testing.assert_array_equal(model(x, y), x + x + y)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_tuples_scalars_and_empty_outputs(many, weight, n, monkeypatch):
    model = Model(many, [weight], "")
    refuse_slow_path(model, monkeypatch)
    x = np.arange(1, n + 1, dtype=np.float32)
    total, bits, none = model(x)
    assert isinstance(total, np.ndarray)
    assert (total.shape, total.dtype) == ((), np.float32)
    assert total == x.sum() + np.float32(3.5)
    np.testing.assert_array_equal(bits, x.view(np.uint32).astype(np.int64))
    assert (none.shape, none.dtype) == ((0, n), np.float32)


def test_both_paths_agree(many, weight):
    model = Model(many, [weight], "")
    x = np.array([1.5, -2.0, np.inf], np.float32)
    for fast, slow in zip(model(x), model._executable.call(x), strict=True):
        np.testing.assert_array_equal(fast, slow)
        assert (fast.dtype, fast.shape, fast.flags.num) == (slow.dtype, slow.shape, slow.flags.num)


def test_any_layout_is_accepted_and_never_written(symbolic):
    model = Model(symbolic, [], "")
    base = rows(8)
    y = rows(8, 1)
    misaligned = np.frombuffer(bytes(2) + base.tobytes(), np.uint8)[2:].view(np.float32).reshape(8, 4)
    read_only = base.copy()
    read_only.flags.writeable = False
    wide = np.repeat(base, 2, axis=1)
    variants = {
        "transposed": np.asfortranarray(base),
        "negative strides": base[::-1, ::-1].copy()[::-1, ::-1],
        "column slice": wide[:, ::2],
        "misaligned": misaligned,
        "byte-swapped": base.astype(base.dtype.newbyteorder()),
        "read-only": read_only,
        "subclass": base.view(np.matrix),
        "broadcast": np.broadcast_to(base[0], (8, 4)),
    }
    for name, x in variants.items():
        want = np.asarray(x).astype(np.float32)
        before = x.tobytes()
        np.testing.assert_array_equal(model(x, y), want + want + y, err_msg=name)
        assert x.tobytes() == before, name


def test_names_and_run(symbolic):
    model = Model(symbolic, [], "")
    x, y = rows(4), rows(4, 1)
    want = x + x + y
    np.testing.assert_array_equal(model(y=y, x=x), want)
    np.testing.assert_array_equal(model(x, y=y), want)
    result = model.run({"y": y, "x": x})
    assert list(result) == ["z"]
    np.testing.assert_array_equal(result["z"], want)


def test_names_and_layouts_stay_in_the_native_entry(symbolic, monkeypatch):
    model = Model(symbolic, [], "")
    x, y = rows(6), rows(6, 1)
    want = x + x + y
    swapped = model(x.astype(">f4"), y)
    refuse_slow_path(model, monkeypatch)
    for call_ in (lambda: model(x=x, y=y), lambda: model(y=y, x=x), lambda: model(x, y=y), lambda: model(*(x, y), **{})):
        np.testing.assert_array_equal(call_(), want)
    wide = np.repeat(y, 2, axis=0)[::2]
    bent = [np.asfortranarray(x), np.concatenate([x, x], axis=1)[:, 4:], x[::-1].copy()[::-1]]
    bent.append(np.frombuffer(bytes(2) + x.tobytes(), np.uint8)[2:].view(np.float32).reshape(6, 4))
    before = [sys.getrefcount(array) for array in (*bent, x, y, wide)]
    for array in bent:
        for _ in range(3):
            np.testing.assert_array_equal(model(array, y), want)
            np.testing.assert_array_equal(model(array, wide), want)
            np.testing.assert_array_equal(model(y=wide, x=array), want)
    del array
    assert [sys.getrefcount(array) for array in (*bent, x, y, wide)] == before
    with pytest.raises(AssertionError, match="slow path"):
        model(x.astype(">f4"), y)
    np.testing.assert_array_equal(swapped, want)


def test_many_names_in_any_order():
    """Twelve inputs, of which any number comes first by position and the others by name."""
    g = jn.Graph("many", inputs=[jn.TensorType("float32", (2,), name=f"x{i}") for i in range(12)])
    g.output(jn.stack(g.inputs))
    model = jn.compile(g, "cpu", cache=False)
    arrays = [np.full(2, i, np.float32) for i in range(12)]
    rng = np.random.default_rng(0)
    for _ in range(50):
        first = int(rng.integers(0, 13))
        order = rng.permutation(np.arange(first, 12))
        found = model(*arrays[:first], **{f"x{i}": arrays[i] for i in order})
        np.testing.assert_array_equal(found, np.stack(arrays))


def test_run_names_every_output(many, weight):
    result = Model(many, [weight], "").run({"x": np.ones(2, np.float32)})
    assert list(result) == ["total", "bits", "none"]
    assert result["total"] == 5.5


def expect(message: str):
    return pytest.raises(UserError, match=message)


def test_wrong_counts_and_names(symbolic):
    model = Model(symbolic, [], "")
    x = rows(2)
    with expect(r"model 'symbolic' takes 2 inputs \(x: float32\[rows, 4\], y: float32\[rows, 4\]\), got 1"):
        model(x)
    with expect("takes 2 inputs .* got 3"):
        model(x, x, x)
    with expect("takes 2 inputs .* got 0"):
        model()
    with expect("no input 'q'; inputs: x, y"):
        model(x, q=x)
    with expect("missing input 'y'"):
        model(x=x)
    with expect("input 'x' is given by position and by name"):
        model(x, x=x)
    with expect("input 'y' is given by position and by name"):
        model(x, x, x, y=x)
    with expect("missing input 'y'; expects x: float32"):
        model.run({"x": x})
    with expect("run takes a mapping of input names to arrays, not a list; fix: call the model"):
        model.run([x, x])


def test_a_close_name_is_suggested(add16):
    inputs = (TensorSpec("tokens", "float32", (16,)), TensorSpec("mask", "float32", (16,)))
    named = replace(add16, inputs=inputs)
    with expect("no input 'token'; did you mean 'tokens'"):
        Model(named, [], "").run({"token": np.ones(16), "mask": np.ones(16)})


def test_wrong_dtypes(symbolic):
    model = Model(symbolic, [], "")
    x = rows(2)
    with expect(
        r"input 'y' expects float32, got float64 with shape \(2, 4\); fix: y.astype\(numpy.float32\)"
    ):
        model(x, x.astype(np.float64))
    with expect(r"expects float32, got an object array with shape \(2, 4\); fix: numpy.array\(x.tolist\(\)"):
        model(x.astype(object), x)
    with expect("expects float32, got an array of <U3 with shape"):
        model(np.full((2, 4), "abc"), x)
    if hasattr(np.dtypes, "StringDType"):  # which has no byte order, and raises for the question
        with expect(r"expects float32, got an array of StringDType\(\) with shape"):
            model(np.full((2, 4), "abc", np.dtypes.StringDType()), x)
    with expect("got complex64"):
        model(x.astype(np.complex64), x)
    with expect("got bool"):
        model(x > 0, x)


def test_no_arrays(symbolic):
    model = Model(symbolic, [], "")
    x = rows(2)
    with expect(r"input 'x' expects an array .* got a list; fix: numpy.asarray\(x, dtype=numpy.float32\)"):
        model(x.tolist(), x)
    with expect("got None; pass an array"):
        model(None, x)
    with expect(r"expects an array of shape \(rows, 4\), got the number 3.0; fix: numpy.full"):
        model(3.0, x)
    with expect(r"masked array; joinery has no masks; fix: x.filled\(0\)"):
        model(np.ma.masked_less(x, 0), x)


def test_wrong_shapes(symbolic, add16):
    model = Model(symbolic, [], "")
    x = rows(4)
    with expect(r"input 'x' expects shape \(rows, 4\), got \(4, 3\): axis 1 is 3, not 4"):
        model(np.ascontiguousarray(x[:, :3]), x)
    with expect(r"expects shape \(rows, 4\) of rank 2, got \(4,\) of rank 1; fix: x\[None\]"):
        model(x[0], x)
    with expect(r"of rank 3; fix: y\[0\] drops"):
        model(x, x[None])
    with expect("rows is 4 from input 'x' axis 0 but 2 from input 'y' axis 0"):
        model(x, rows(2))
    with expect(r"rows must be even \(rows = 3\)"):
        model(rows(3), rows(3))
    with expect(r"input 'y' expects shape \(16,\), got \(0,\)"):
        Model(add16, [], "")(np.ones(16, np.float32), np.ones(0, np.float32))


IDENTITY = """
define i64 @jn_prepare(ptr %dims, ptr %sizes) nounwind {{
  store i64 0, ptr %sizes, align 8
  ret i64 -1
}}
define void @jn_run(ptr %pool, ptr %buffers, ptr %dims) nounwind {{
  %x = load ptr, ptr %buffers, align 8
  %o.b = getelementptr ptr, ptr %buffers, i64 1
  %o = load ptr, ptr %o.b, align 8
  %v = load {0}, ptr %x, align {1}
  store {0} %v, ptr %o, align 64
  ret void
}}
"""


def identity(dtype: str, bits: int) -> Model:
    """A model of one rank-0 input and output."""
    specs = (TensorSpec("x", dtype, ()),), (TensorSpec("y", dtype, ()),)
    code = IDENTITY.format(f"i{bits}", bits // 8)
    return Model(CompiledGraph("id", "host", "", emit_object(code), (), *specs, (), (), (), {}, ""), [], "")


@pytest.mark.parametrize(
    ("dtype", "bits", "value"),
    [("float32", 32, 2.5), ("float32", 32, 3), ("float64", 64, True), ("int8", 8, -128),
    ("uint64", 64, 2**64 - 1),
     ("bool", 8, True), ("bfloat16", 16, 1.5), ("int32", 32, False)],
)  # fmt: skip
def test_python_numbers_for_rank_zero(dtype, bits, value):
    result = identity(dtype, bits)(value)
    assert result.shape == ()
    assert result[()] == value


@pytest.mark.parametrize(
    ("dtype", "bits", "value", "message"),
    [
        (
            "int32",
            32,
            1.5,
            r"expects int32, got the float 1.5; fix: numpy.asarray\(1.5\).astype\(numpy.int32\)",
        ),
        ("bool", 8, 1, "expects bool, got the int 1"),
        ("float32", 32, 1j, "got the complex 1j"),
        ("int8", 8, 128, r"128 does not fit int8 \(-128 … 127\)"),
        ("uint64", 64, -1, "-1 does not fit uint64"),
        ("float32", 32, 10**400, "does not fit float32"),
    ],
)
def test_python_numbers_that_do_not_fit(dtype, bits, value, message):
    with expect(message):
        identity(dtype, bits)(value)


@pytest.mark.parametrize(("dtype", "raw"), [("bfloat16", np.uint16), ("float8_e4m3fn", np.uint8)])
def test_raw_bits_need_a_view(dtype, raw, monkeypatch):
    model = identity(dtype, np.dtype(raw).itemsize * 8)
    with expect(
        rf"expects {dtype}, got {np.dtype(raw)} with shape \(\); fix: x.view\(ml_dtypes.{dtype}\) if"
    ):
        model(np.array(1, raw))
    refuse_slow_path(model, monkeypatch)
    value = np.array(1.5, getattr(ml_dtypes, dtype))
    assert model(value) == value


def test_numpy_scalars_are_rank_zero_arrays():
    assert identity("float32", 32)(np.float32(1.25)) == 1.25
    with expect("got float64"):
        identity("float32", 32)(np.float64(1.25))


EXPRESSIONS = """
define i64 @jn_prepare(ptr %dims, ptr %sizes) nounwind {
  store i64 0, ptr %sizes, align 8
  %n = load i64, ptr %dims, align 8
  %m = sub i64 %n, 3
  %s1 = getelementptr i64, ptr %sizes, i64 1
  store i64 %m, ptr %s1, align 8
  ret i64 -1
}
define void @jn_run(ptr %pool, ptr %buffers, ptr %dims) nounwind {
  ret void
}
"""


def with_expressions(*shapes: tuple[int | str, ...]) -> Model:
    inputs = tuple(TensorSpec(f"x{i}", "int8", shape) for i, shape in enumerate(shapes))
    outputs = (TensorSpec("y", "int8", ("n - 3",)),)
    return Model(
        CompiledGraph(
            "sizes", "host", "", emit_object(EXPRESSIONS), ("n",), inputs, outputs, (), (), (), {}, ""
        ),
        [],
        "",
    )


def test_dims_inside_expressions_are_solved_and_checked():
    assert with_expressions(("2*n + 1",))(np.zeros(11, np.int8)).shape == (2,)
    assert with_expressions(("2*m",), ("m + n",))(np.zeros(6, np.int8), np.zeros(10, np.int8)).shape == (4,)
    model = with_expressions(("n",), ("2*n + 1",))
    assert model(np.zeros(4, np.int8), np.zeros(9, np.int8)).shape == (1,)
    with expect(r"input 'x1' axis 0 must be 2\*n \+ 1 = 9 \(n = 4 from input 'x0' axis 0\), got 10"):
        model(np.zeros(4, np.int8), np.zeros(10, np.int8))
    with expect(r"axis 0 is 10, but 2\*n \+ 1 does not determine 'n'"):
        with_expressions(("2*n + 1",))(np.zeros(10, np.int8))


def test_negative_output_extents_are_refused_on_both_paths():
    with expect(r"output y: int8\[n - 3\] would have shape \(-1,\) for n = 2"):
        with_expressions(("n",))(np.zeros(2, np.int8))


def test_a_dim_no_input_has_is_our_bug(many, weight):
    broken = replace(many, dims=("n", "ghost"))
    with pytest.raises(InternalError, match="no input determines dim 'ghost'"):
        Model(broken, [weight], "")


def test_constants_are_checked_and_read_in_place(many, weight):
    with expect("has 1 constants, got 0"):
        Model(many, [], "")
    with expect(r"constant 'w' expects float32\[4\] \(layout plain\), got float64\[4\]"):
        Model(many, [weight.astype(np.float64)], "")
    with expect(r"constant 'w' expects float32\[4\]"):
        Model(many, [weight[:3]], "")
    aligned = memory.empty((4,), np.dtype(np.float32))
    aligned[:] = 1
    model = Model(many, [aligned], "")
    assert np.may_share_memory(model._executable.constants[0], aligned)
    unaligned = np.empty(20, np.float32)[1:5]
    unaligned[:] = 2
    assert Model(many, [unaligned], "")(np.zeros(0, np.float32))[0] == 2


def test_missing_memory_is_a_memory_error():
    model = with_expressions(("n",))
    huge = np.broadcast_to(np.zeros(1, np.int8), (1 << 46,))
    with pytest.raises(MemoryError):  # the copy of the input, by NumPy
        model(huge)
    with pytest.raises(MemoryError, match=r"no memory for an array of int8 with shape \(\d+,\)"):
        memory.empty((1 << 50,), np.dtype(np.int8))


def test_models_die_when_dropped(many, weight):
    aligned = memory.aligned_copy(weight.copy())
    model = Model(many, [aligned], "")
    executable = weakref.ref(model._executable)
    result = model(np.ones(3, np.float32))
    gc.disable()
    try:
        del model
        assert executable() is None, "weights must not wait for the cycle collector"
    finally:
        gc.enable()
    assert result[0] == 6.5


def test_the_entry_outlives_its_model(add16, sixteen):
    x, y = sixteen
    entry = type(model := Model(add16, [], "")).__call__
    del model
    gc.collect()
    np.testing.assert_array_equal(entry(x, y), x + y)
    with expect("takes 2 inputs"):
        entry(x)


def test_errors_do_not_leak_memory_or_references(symbolic):
    model = Model(symbolic, [], "")
    x = rows(64)
    for _ in range(3):
        model(x, x)
    before = memory.cached_bytes()
    for _ in range(50):
        with pytest.raises(UserError):
            model(x, rows(62))
        with pytest.raises(UserError):
            model(rows(63), rows(63))
        model(x, x)
    assert memory.cached_bytes() == before


def test_eight_threads_share_one_model(symbolic):
    model = Model(symbolic, [], "", threads=2)
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(150):
            n = 2 * int(rng.integers(0, 2000))
            x, y = rows(n, seed), rows(n, seed + 100)
            if not np.array_equal(model(x, y), x + x + y):
                failures.append(f"thread {seed}, {n} rows")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_resizing_and_pickling_an_output_works(add16, sixteen):
    x, y = sixteen
    result = Model(add16, [], "")(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)), x + y)
    result.resize((1000,), refcheck=False)
    np.testing.assert_array_equal(result[:16], x + y)
    assert not result[16:].any()


def test_a_bound_call_is_not_copied(add16, sixteen):
    bound = Model(add16, [], "").bind(*sixteen)
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UserError, match=r"a bound call cannot be copied or pickled.*fix: model\.bind"):
            how(bound)


def test_without_the_native_entry_everything_still_works(symbolic, many, weight, monkeypatch):
    """What a free-threaded or another interpreter uses: the Python path over NumPy's memory."""
    full = native_library()
    bare = replace(full, entry=None)
    for module in (call, memory):
        monkeypatch.setattr(module, "native_library", lambda *_: bare)
    model = Model(symbolic, [], "")
    x, y = rows(100), rows(100, 1)
    result = model(x, y)
    np.testing.assert_array_equal(result, x + x + y)
    assert memory.is_aligned(result)
    assert result.base is not None
    total, _, none = Model(many, [weight], "")(np.ones(3, np.float32))
    assert (total, none.shape) == (6.5, (0, 3))
    bound = model.bind(x, y)
    np.testing.assert_array_equal(bound(), x + x + y)
