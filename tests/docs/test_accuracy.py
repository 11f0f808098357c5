"""The published errors of functions of one float hold and are reached: docs/accuracy.json."""

from __future__ import annotations

import functools
import runpy
import threading
from pathlib import Path
from typing import Any

import joinery as jn
import mpmath
import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.math import avx2, avx512

ROOT = Path(__file__).resolve().parents[2]
accuracy = runpy.run_path(str(ROOT / "docs" / "accuracy.py"))
measured = runpy.run_path(str(ROOT / "docs" / "measured_errors.py"))
RECORDS: dict[str, Any] = accuracy["read"]()
NAMES = list(accuracy["FUNCTIONS"])
DTYPES, TARGETS = accuracy["DTYPES"], accuracy["TARGETS"]
SLACK = 1e-3
"""For records, which are rounded, and float64 witnesses."""


def recorded_operands(dtype: str, target: str) -> dict[str, np.ndarray]:
    kind = jn.DType(dtype).numpy
    return {name: np.array([float.fromhex(x) for x in RECORDS[name][dtype][target]["at"]]).astype(kind) for name in NAMES}


def test_every_function_is_recorded_and_within_what_its_row_says() -> None:
    assert list(RECORDS) == NAMES
    for name, dtypes in RECORDS.items():
        row = OPS.get(name.split()[0])
        for dtype in DTYPES:
            for target in TARGETS:
                record = dtypes[dtype][target]
                assert record["at"], (name, dtype, target)
                assert record["ulp"] < 12, (name, dtype, target)  # no function of one operand has more
                if row is not None and dtype == "float32":
                    assert record["ulp"] <= row.ulp + (row.ulp == 0.5) * SLACK or row.ulp == 2 > record["ulp"], name
                if dtype in ("float16", "bfloat16"):
                    assert record["tried"] == 1 << 16
                    assert record["ulp"] <= 0.501, "16-bit results are rounded once"


QUICK = (("float32", "cpu"), ("float32", "ptxsim"), ("float64", "cpu"), ("float32", "evaluate"), ("float16", "cpu"))


def cases(*quick: tuple[str, str]) -> list[Any]:
    """All pairs of dtype and target, marked slow unless listed."""
    pairs = [(dtype, target) for dtype in DTYPES for target in TARGETS]
    return [pytest.param(*pair, marks=[] if pair in quick else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("dtype", "target"), cases(*QUICK))
def test_the_worst_operands_have_the_recorded_errors(dtype: str, target: str) -> None:
    """By mpmath. A record that is too small or too large fails."""
    has_forms = host_target().features >= avx512.FEATURES
    if (dtype, target) == ("float64", "cpu") and not has_forms:
        pytest.skip("recorded on a processor with AVX-512, which has forms of its own")
    operands = recorded_operands(dtype, target)
    results = accuracy["runner"](NAMES, dtype, target)(np.concatenate(list(operands.values())))
    place = 0
    for name, found in zip(NAMES, results, strict=True):
        own = operands[name]
        pairs = zip(own, found[place : place + len(own)], strict=True)
        worst = max(accuracy["exact_error"](name, float(x), float(y), jn.DType(dtype)) for x, y in pairs)
        place += len(own)
        if (target == "evaluate" or (dtype, target) == ("float32", "cpu")) and not has_forms:
            # Functions of NumPy, and of compiled code in float32, are others there, and these operands not the worst.
            assert worst <= RECORDS[name][dtype][target]["ulp"] + SLACK, name
            continue
        assert worst == pytest.approx(RECORDS[name][dtype][target]["ulp"], abs=SLACK), name


@pytest.mark.skipif(
    not host_target().features >= avx2.FEATURES or host_target().features >= avx512.FEATURES, reason="not AVX2 alone"
)
@pytest.mark.parametrize("name", list(measured["WITH_AVX2"]))
def test_the_worst_operands_of_tables_of_avx2(name: str) -> None:
    ulp, at = measured["WITH_AVX2"][name]
    x = np.array([float.fromhex(at)], np.float32)
    (found,) = accuracy["runner"]([name], "float32", "cpu")(x)
    assert accuracy["exact_error"](name, float(x[0]), float(found[0]), jn.DType("float32")) == pytest.approx(ulp, abs=SLACK)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("target", ["cpu", "evaluate"])
def test_no_operand_has_a_larger_error(dtype: str, target: str) -> None:
    """All values of 16 bits, and other float32 values than were measured; by float64 functions of NumPy and SciPy."""
    count, seed = (1 << 16, 0) if dtype != "float32" else (1 << 15, 77)
    x = accuracy["values"](dtype, count, seed)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        for name, found in zip(NAMES, accuracy["runner"](NAMES, dtype, target)(x), strict=True):
            function = accuracy["FUNCTIONS"][name]
            worst = accuracy["errors"](found, function.wide(wide), jn.DType(dtype), function.has_denormals).max()
            allowed = RECORDS[name][dtype][target]
            # a sample does not have the worst of all values, but nearly
            bound = allowed["ulp"] * (1.25 if allowed["tried"] < 1 << 16 or dtype == "float32" else 1) + SLACK
            row = OPS.get(name.split()[0])
            if target == "cpu" and row is not None and not host_target().features >= avx512.FEATURES:
                bound = max(bound, row.ulp)  # hosts with AVX-512 are what is recorded; others compute some functions otherwise
            assert worst <= bound, name


def test_the_measure_sees_an_error() -> None:
    kind = jn.DType("float32")
    x = np.array([0.5, 3.0, 1e-40, np.inf, np.nan, 100.0], np.float32)
    exact = np.exp(x.astype(np.float64))
    with np.errstate(over="ignore"):
        good = exact.astype(np.float32)
    assert accuracy["errors"](good, exact, kind).max() <= 0.5
    one_off = np.nextafter(good, np.float32(0))
    assert (accuracy["errors"](one_off, exact, kind)[:3] >= 0.5).all()
    assert accuracy["errors"](np.array([np.nan], np.float32), np.array([1.0]), kind)[0] == np.inf
    assert accuracy["exact_error"]("exp", 1.0, float("nan"), kind) == np.inf
    assert accuracy["exact_error"]("exp", 1.0, 2.71828, kind) == pytest.approx(7.66, abs=0.1)
    assert accuracy["exact_error"]("exp", 100.0, float("inf"), kind) == 0


# -- softmax, logsoftmax, logsumexp ---------------------------------------------------------------------------------------


def rows(seed: int, count: int, spread: float, offset: float, dtype: str) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((8, count)) * spread + offset).astype(jn.DType(dtype).numpy)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [4096, 20011, 60000])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_softmax_family_of_many_equal_numbers_is_within_a_few_ulp(size: int, axis: int) -> None:
    """Sums of n equal terms err by n ulp when they are taken one by one; these by 6 ulp of softmax, 2 of logsoftmax at most."""
    shape = (size, 20) if axis == 0 else (20, size)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", shape, name="x")])
    x = graph.inputs[0]
    graph.output(jn.softmax(x, axis=axis), jn.logsoftmax(x, axis=axis))
    for value in (5.0, 0.1, -3e6):
        softmax, log = jn.compile(graph, "cpu")(np.full(shape, value, np.float32))
        np.testing.assert_allclose(softmax, 1 / size, rtol=12 * 2.0**-24)
        np.testing.assert_allclose(log, -np.log(size), rtol=4 * 2.0**-24)


@pytest.mark.parametrize("size", [4096, 16384, 32000, 65000])
def test_sums_of_long_rows_that_are_kept_are_taken_piece_by_piece(size: int) -> None:
    """The sum of a row that lies whole in a block, of one value and of two: without pieces 65,000 terms are off by 700 ulp."""
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (20, size), name="x")])
    e = jn.exp(graph.inputs[0])
    graph.output(e / jn.sum(e, axis=1, keepdims=True), jn.sum(e, axis=1), jn.sum(e * 3.0, axis=1))
    model = jn.compile(graph, "cpu", threads=1)
    for value in (0.1, 0.3, 0.7):
        share, total, more = model(np.full((20, size), value, np.float32))
        exact = size * np.float64(np.exp(np.float32(value)))
        np.testing.assert_allclose(share, 1 / size, rtol=40 * 2.0**-24)
        np.testing.assert_allclose(total, exact, rtol=40 * 2.0**-24)
        np.testing.assert_allclose(more, exact * 3, rtol=40 * 2.0**-24)


def on_little_stack(model: jn.Model, x: np.ndarray) -> list[Any]:
    """Calls a model on a thread that has 128 KiB of stack."""
    before, results = threading.stack_size(128 << 10), []
    try:
        thread = threading.Thread(target=lambda: results.append(model(x)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    return results


@pytest.mark.parametrize(("dtype", "size"), [("float32", 50257), ("float32", 65536), ("float64", 32768)])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_what_is_kept_of_long_rows_fits_a_thread_with_little_stack(dtype: str, size: int, count: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, size)).astype(dtype)
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, x.shape, name="x")])
    parts = [jn.exp(graph.inputs[0] * (0.1 * (number + 1))) for number in range(count)]
    total = jn.sum(functools.reduce(lambda a, b: a + b, parts), axis=1, keepdims=True)
    graph.output(*[part / total for part in parts])
    (found,) = on_little_stack(jn.compile(graph, "cpu", threads=1), x)
    wide = [np.exp(x.astype(np.float64) * 0.1 * (number + 1)) for number in range(count)]
    share = wide[0] / sum(each.sum(1, keepdims=True) for each in wide)
    np.testing.assert_allclose(found if count == 1 else found[0], share, rtol=1e-4, atol=1e-7)


CASES = [
    (1, 1.0, 0.0), (2, 60.0, 0.0), (8, 1.0, 0.0), (33, 3.0, -50.0), (100, 20.0, 1000.0), (50, 10.0, 3e6), (64, 40.0, -7e4),
    (300, 30.0, 0.0), (2048, 10.0, 0.0), (33, 0.0, 5.0),
]  # fmt: skip
"""Elements of a row, their spread and middle: far and near, ties, maxima beyond and below 2^20, results that are denormal."""


@pytest.mark.parametrize(("dtype", "target"), cases(("float32", "cpu"), ("float32", "ptxsim"), ("float32", "evaluate")))
def test_the_softmax_family_is_within_its_bounds(dtype: str, target: str) -> None:
    kind = jn.DType(dtype)
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    once_more = 2.0**-kind.mantissa_bits if kind.bits == 16 else 0.0
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, (8, "n"), name="x")])
    x = graph.inputs[0]
    graph.output(jn.softmax(x), jn.logsoftmax(x), jn.logsumexp(x, axis=-1))
    call = (lambda a: jn.evaluate(graph, a)) if target == "evaluate" else jn.compile(graph, target, cache=False)
    for seed, (n, spread, offset) in enumerate(CASES):
        if n > 1000 and (target == "ptxsim" or dtype == "float64"):
            continue
        if kind.name == "float16" and abs(offset) > 1e4:
            continue
        a = rows(seed, n, spread, offset, dtype)
        softmax, log, total = [result.astype(np.float64) for result in call(a)]
        for row in (0, 7) if n < 200 else (0,):
            with mpmath.workprec(120):
                values = [mpmath.mpf(float(v)) for v in a[row]]
                top = max(values)
                first = values.index(top)
                others = mpmath.fsum(mpmath.exp(v - top) for i, v in enumerate(values) if i != first)
                logarithm = mpmath.log1p(others)
                for v, s, g in zip(values, softmax[row], log[row], strict=True):
                    exact = mpmath.exp(v - top) / (1 + others)
                    tiny = float(kind.smallest_subnormal)
                    assert abs(s - exact) <= ((n + 12) * unit + once_more) * exact + tiny, (n, float(v))
                    if dtype == "float32":  # what is measured, far below the bound for many elements
                        assert abs(s - exact) <= 14 * unit * exact + tiny, (n, float(v))
                    exact = v - top - logarithm
                    assert abs(g - exact) <= ((n + 16) * unit + once_more) * abs(exact) + tiny, (n, float(v))
                exact = top + logarithm
                bound = (n + 16) * 2 * unit * (1 + float(max(abs(v) for v in values))) + once_more * abs(exact)
                assert abs(total[row] - exact) <= bound, n


def test_softmax_of_rows_with_infinities_and_nan() -> None:
    inf, nan = np.inf, np.nan
    special = [[0, -inf, 1], [-inf, -inf, -inf], [inf, 0, 1], [nan, 0, 1], [3e38, -3e38, 0], [-3e38, -inf, -3e38]]
    a = np.array(special, np.float32)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", a.shape, name="x")])
    graph.output(jn.softmax(graph.inputs[0]), jn.logsoftmax(graph.inputs[0]))
    expected = jn.evaluate(graph, a)
    low = 1 / (1 + np.e)
    np.testing.assert_allclose(expected[0][[0, 4, 5]], [[low, 0, 1 - low], [1, 0, 0], [0.5, 0, 0.5]], rtol=1e-6)
    assert np.isnan(expected[0][1:4]).all()
    for target in ("cpu", "ptxsim"):
        for ours, theirs in zip(jn.compile(graph, target, cache=False)(a), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
