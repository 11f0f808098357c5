"""Texts that were tampered with: they are refused, by the reader or by the checks it derives, or compute what the evaluator
says without an access outside of any buffer.

A forged graph is made from a sound one: one attribute of one op gets another value, every shape below follows from the ops'
own rules, and all `check` lines are left out or changed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.checks import Checks
from joinery.graph.dims.dim import Dim
from joinery.graph.functions.host.data_sized import host
from joinery.graph.ops.building import apply
from joinery.graph.ops.table import OPS
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text
from joinery.graph.types import TensorType

from ...support.tiers import both_tiers, share

N, M = jn.dim("n"), jn.dim("m")
SIZES = [(3, 3), (0, 2), (7, 1), (66, 5)]

Build = Callable[..., Any]
CASES: dict[str, Build] = {
    "slice": lambda x, y, i: (x[1:-1], x[:M]),
    "steps": lambda x, y, i: (x[::-2],),
    "index": lambda x, y, i: (x[N - 2], x[3]),
    "pad": lambda x, y, i: (jn.pad(x, [(1, M), (0, 2)], value=7.0), jn.pad(x, [(0, 1), (1, 0)], "edge")),
    "reflect": lambda x, y, i: (jn.pad(x, [(2, 1), (0, 0)], "reflect"),),
    "gather": lambda x, y, i: (jn.gather(x, i), jn.take_along_axis(x, i[:, None], 0)),
    "reshape": lambda x, y, i: (x.reshape(2, -1), x.reshape(N, 2, 2), jn.flatten(x)),
    "broadcast": lambda x, y, i: (jn.broadcast_to(x, (2, N, 4)), jn.broadcast_to(x[:1], (M, 4))),
    "split": lambda x, y, i: (*jn.split(jn.concat([x, x]), 2), *jn.chunk(x, 2, 1)),
    "concat": lambda x, y, i: (jn.concat([x, y[:, :4]]), jn.stack([x, x], 1)),
    "flip": lambda x, y, i: (jn.flip(x), jn.flip(x, 1)),
    "squeeze": lambda x, y, i: (jn.squeeze(x[:, :1], 1), jn.squeeze(x[None], 0)),
    "permute": lambda x, y, i: (x.T + 1, jn.transpose(y)),
    "matmul": lambda x, y, i: (x @ y.T[:4], jn.rebind(x, ("m", 4)).T @ y),
    "add": lambda x, y, i: (jn.rebind(x, ("m", 4)) + y[:, :4], x + 1),
    "max": lambda x, y, i: (jn.max(x, axis=0), jn.argmax(x, axis=0), jn.argmin(x, axis=0), jn.min(x), jn.any(x > 0, axis=0)),
    "sum": lambda x, y, i: (jn.sum(x, axis=0), jn.prod(x, axis=1, keepdims=True), jn.mean(x, axis=0)),
    "cumsum": lambda x, y, i: (jn.cumsum(x, 0), jn.cumsum(i, 0, exclusive=True, reverse=True)),
    "order": lambda x, y, i: (jn.argsort(x, 0), jn.sort(x, 1, True), *jn.top_k(x, 2), *jn.bottom_k(i.cast("int32"), 1, 0)),
    "keys": lambda x, y, i: (
        apply("sorted_positions", x.cast("int32"), axis=1), apply("least_positions", x.cast("int32"), axis=1, k=2),
        apply("sort_lines", x.cast("int32"), axis=1), apply("sort_lines", i[:, None], axis=1),
        apply("sort_block", i[:, None].cast("int32") + np.arange(4, dtype=np.int32), axis=1),
    ),
    "transforms": lambda x, y, i: (
        jn.real(apply("fft_lines", jn.complex(x, x), inverse=False)), apply("irfft_lines", jn.complex(x, x), length=6),
        apply("fft_pairs", y.cast("float64"), kind="forward"),
        jn.real(apply("fft_block", jn.complex(x, x), axis=1, kind="inverse")),
    ),
    "scatter": lambda x, y, i: (
        jn.scatter_add(x, y[:, :4], jn.broadcast_to(i[:, None], (M, 4)), 0), jn.put_along_axis(x, i[:, None], y[:, :1], 0),
    ),
    "running": lambda x, y, i: (jn.cumprod(x, 0), jn.cummax(x, 1), jn.cummin(i, reverse=True)),
    "softmax": lambda x, y, i: (jn.softmax(x),),
    "logsoftmax": lambda x, y, i: (jn.logsoftmax(x, 0),),
    "var": lambda x, y, i: (jn.var(x, axis=0),),
    "logsumexp": lambda x, y, i: (jn.logsumexp(x, axis=0),),
    "norm": lambda x, y, i: (jn.layer_norm(x, y[0, :4]), jn.rms_norm(x), jn.gelu(x), jn.silu(x)),
    "windows": lambda x, y, i: (jn.windows(x, 2, 0), jn.windows(y, (3, 2), (0, 1), (2, 1)), jn.max(jn.windows(x, 2), axis=2)),
    "cast": lambda x, y, i: (x.cast("int8"), x.bitcast("int32"), x.cast("float16") + 1),
    "size": lambda x, y, i: (jn.size(x), jn.shape_to_tensor(x), x * (N + 1)),
    "tile": lambda x, y, i: (jn.tile(x, (2, 1)), jn.repeat_interleave(x, M, 0), jn.where(x > 0, x, -x)),
    "looked up": lambda x, y, i: (jn.gather_nd(x, i[:, None]), jn.searchsorted(jn.sort(y[0]), x, "right")),
    "codes": lambda x, y, i: (
        jn.dequantize(jn.quantize(x, 0.5, dtype="int8"), y[0, :4]),
        jn.quantize(x, y[0, :1] * jn.ones(x, (N, 1)), None, "uint8", 1, 4),
    ),
}  # fmt: skip
HOST_CASES: dict[str, Build] = {
    "nonzero": lambda x, y, i: (jn.nonzero(x),),
    "unique": lambda x, y, i: (*jn.unique(i), *jn.unique(x, 0)),
    "boxes": lambda x, y, i: (jn.non_max_suppression(x[None], x.T[None, :1], 2, 0.5, 0.1),),
    "rows": lambda x, y, i: (x.graph.apply("empty_rows", (jn.sum(i),), {"extents": (jn.dim("rows"),)}),),
    "positions": lambda x, y, i: (jn.gather(x, i % 3, mode="error"),),
    "pictures": lambda x, y, i: (jn.image_decode(i.cast("uint8")),),
    "strings": lambda x, y, i: (
        *jn.string_split(jn.print_numbers(x), "."), jn.string_normalize(jn.print_numbers(i), "upper", stopwords=("1",)),
        host("string_hash", jn.print_numbers(i), seed=7),
        jn.regex_full_match(jn.print_numbers(x), "[0-9]+"), jn.parse_numbers(jn.print_numbers(x), "float32"),
    ),
    "required": lambda x, y, i: (host("require", x, jn.sum(i) > 0, problem="no"),),
    "tokens": lambda x, y, i: (
        host("tokens", jn.print_numbers(x), sizes=(jn.dim("tokens"),), pattern="[0-9]+", least=1, pad="", marks=True),
    ),
    "labels": lambda x, y, i: (jn.encode_labels(i, (1, 2), (0.5, 1.5), 0.0, "float32"), jn.tf_idf(i, [[1], [2, 3]], (1, 2))),
}  # fmt: skip
"""Operations of the host, which the evaluator computes in every model."""
CONTROL_CASES: dict[str, Build] = {
    "loops": lambda x, y, i: (
        *jn.scan(lambda c, r: (c + jn.sum(r), r * c), jn.sum(y), x),
        jn.fori_loop(0, 3, lambda k, v: v + y[0, :4], x[0]), jn.fori_loop(0, jn.max(i) % 5, lambda k, v: v + 1.0, x),
    ),
    "branches": lambda x, y, i: (*jn.cond(jn.sum(x) > 0.0, lambda: (x, y * 2.0), lambda: (x - 1.0, y)),),
}  # fmt: skip
"""Loops and branches: the driver of a model runs their regions."""
_ELSEWHERE = {"host_loop", "host_branch", "host_result", "mul_bounded", "sum_of_four"}


def built(name: str) -> Any:
    types = [TensorType("float32", (N, 4), "x"), TensorType("float32", (M, 6), "y"), TensorType("int64", (M,), "i")]
    graph = jn.Graph("g", types)
    outputs = {**CASES, **HOST_CASES, **CONTROL_CASES}[name](*graph.inputs)
    graph.output(*outputs)
    return graph


def others(value: Any) -> list[Any]:
    """Values that an attacker would try in place of this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, Dim)):
        return [value + 1, value - 64, N - 64, -1, (1 << 62) * N + value]
    if isinstance(value, tuple):
        found = [value[:-1], (*value, 1)]
        for position, entry in enumerate(value):
            found += [(*value[:position], other, *value[position + 1 :]) for other in others(entry)]
        return found
    if isinstance(value, str):
        return [other for other in ("edge", "reflect", "constant", "tf32", "toward_zero", "none") if other != value]
    if isinstance(value, float):
        return [float("nan"), -1.0, 3]
    if isinstance(value, jn.DType):
        return [jn.float16, jn.int64, jn.DType("bool"), jn.DType("float4_e2m1fn")]
    return []


def forged(graph: Any, target: int, attribute: str, value: Any) -> str | None:
    """The graph's text with one attribute changed, the shapes that follow, and without checks; None where no shape follows."""
    copy = jn.Graph("g")
    made: list[Any] = []
    for symbol in graph.symbols:
        attrs = dict(symbol.attrs)
        if symbol.id == target:
            attrs[attribute] = value
        inputs = [made[operand.id] for operand in symbol.inputs]
        shape, dtype = symbol.shape, symbol.dtype
        if symbol.op.kind != "source":
            try:
                shape = symbol.op.shape([operand.shape for operand in inputs], attrs, Checks())
            except Exception:
                return None
            if symbol.id == target and attribute == "dtype":
                dtype = value
        made.append(copy.restore(symbol.op, inputs, MappingProxyType(attrs), dtype, shape, symbol.location))
    copy._outputs = tuple([made[symbol.id] for symbol in graph.outputs])
    copy.output_names = graph.output_names
    lines = to_text(copy)[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("  check"))


def forgeries(name: str) -> Iterator[str]:
    graph = built(name)
    text = to_text(graph)[0]
    lines = text.splitlines()
    marked = [number for number, line in enumerate(lines) if line.startswith("  check")]
    yield "\n".join(line for number, line in enumerate(lines) if number not in marked)
    for number in marked:
        yield "\n".join([*lines[:number], *lines[number + 1 :]])
        yield "\n".join([*lines[:number], '  check [n, n] "anything"', *lines[number + 1 :]])
        yield "\n".join([*lines[:number], '  check [n, m] "anything"', *lines[number + 1 :]])
    for symbol in graph.symbols:
        if symbol.op.kind == "source" and symbol.op.name != "dim_value":
            continue
        for attribute, value in symbol.attrs.items():
            if attribute == "regions":
                continue
            for other in others(value):
                found = forged(graph, symbol.id, attribute, other)
                if found is not None:
                    yield found


def arrays(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n)
    ints = rng.integers(-80, 80, m)
    return [rng.standard_normal((n, 4)).astype(np.float32), rng.standard_normal((m, 6)).astype(np.float32), ints]


@pytest.mark.one_in(34)
@both_tiers
@pytest.mark.parametrize("name", CASES)
def test_forged_graphs_are_refused_or_right(name: str, in_full: bool, harness: Any) -> None:
    accepted = 0
    for number, text in enumerate(dict.fromkeys(forgeries(name))):
        try:
            graph = from_text(text)
        except (jn.UserError, jn.UnsupportedError):
            continue
        plan = None
        for n, m in share(SIZES, number, 2, in_full):
            if name in ("softmax", "logsoftmax", "logsumexp") and not n:
                continue  # the interpreter of nests has no maximum of nothing
            given = arrays(n, m)
            try:
                jn.evaluate(graph, *given)
            except jn.UserError as error:
                if "built at" in str(error):
                    pytest.fail(f"the evaluator found what no check said: {error}\n{text}")
                continue
            if plan is None:
                try:
                    plan = harness.plan(graph)
                except jn.UnsupportedError:
                    break
            accepted += 1
            harness.check(graph, *given, tolerance=1e-4, plan=plan)
    assert accepted


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", HOST_CASES)
def test_forged_operations_of_the_host_are_refused_or_computed(name: str) -> None:
    accepted = 0
    for text in dict.fromkeys([to_text(built(name))[0], *forgeries(name)]):
        try:
            graph = from_text(text)
        except (jn.UserError, jn.UnsupportedError):
            continue
        accepted += 1
        for n, m in SIZES:
            with contextlib.suppress(jn.UserError, jn.UnsupportedError):
                jn.evaluate(graph, *arrays(n, m))
    assert accepted


@pytest.mark.parametrize("name", [pytest.param("loops", marks=pytest.mark.slow), "branches"])
def test_forged_loops_and_branches_are_refused_or_right(name: str) -> None:
    accepted = 0
    for text in dict.fromkeys([to_text(built(name))[0], *forgeries(name)]):
        text = text.replace("length = -1", "length = 9")  # no budget bounds how often values repeat a loop
        try:
            graph = from_text(text)
        except (jn.UserError, jn.UnsupportedError):
            continue
        model = jn.compile(graph, "cpu")
        for n, m in SIZES:
            given = arrays(n, m)
            try:
                expected = jn.evaluate(graph, *given)
            except jn.UserError as error:
                if "built at" in str(error):
                    pytest.fail(f"the evaluator found what no check said: {error}\n{text}")
                with pytest.raises(jn.UserError):
                    model(*given)
                continue
            accepted += 1
            for found, wanted in zip(model(*given), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert accepted


def test_every_op_with_attributes_is_forged() -> None:
    """Loops and branches of the host are in `tests/graph/ops/test_host_control.py`, products of codes below."""
    used = {symbol.op.name for name in (*CASES, *HOST_CASES, *CONTROL_CASES) for symbol in built(name).symbols}
    assert {row.name for row in OPS.values() if row.attrs and row.kind != "source"} - _ELSEWHERE <= used
    assert {"gather", "matmul", "broadcast_to"} <= used


@pytest.mark.parametrize("exponent", [-1000, -150, -149, 0, 3, 127, 128, 1 << 40])
def test_a_forged_bound_of_products_gives_codes_and_nothing_else(exponent: int) -> None:
    """Who writes a bound that does not hold gets other codes beyond it, and those of the evaluator below it."""
    graph = jn.Graph("g", [TensorType("float32", (N,), "x")])
    (x,) = graph.inputs
    scaled = graph.apply("mul_bounded", [x, graph.constant(np.float32(2.0))], {"exponent": 3})
    graph.output(jn.quantize(scaled, graph.constant(np.float32(0.5)), graph.constant(np.int8(3))))
    text = to_text(graph)[0].replace("exponent = 3", f"exponent = {exponent}")
    if not -149 <= exponent <= 127:
        with pytest.raises(jn.UserError, match="a bound of 2 "):
            from_text(text)
        return
    forged = from_text(text)
    model = jn.compile(forged, "cpu")
    within = np.linspace(-1, 1, 101, dtype=np.float32) * np.float32(min(2.0 ** max(exponent, -100), 2.0**100) / 2)
    np.testing.assert_array_equal(model(within), jn.evaluate(forged, within))
    beyond = np.array([1e38, -1e38, np.inf, -np.inf, np.nan, 3e9, 1e-45], np.float32)
    assert model(beyond).dtype == np.int8


@pytest.mark.parametrize("k", [-1, 0, 1, 3, 4, 5, 1 << 40])
def test_a_forged_number_of_products_is_refused_or_right(k: int) -> None:
    graph = jn.Graph("g", [TensorType("int32", (N,), name) for name in "abcdw"])
    graph.output(graph.apply("sum_of_four", list(graph.inputs), {"k": 4}))
    text = to_text(graph)[0].replace("k = 4", f"k = {k}")
    if not 1 <= k <= 4:
        with pytest.raises(jn.UserError, match=r"products in int32|0 or more"):
            from_text(text)
        return
    forged = from_text(text)
    given = [np.random.default_rng(k).integers(-(2**31), 2**31 - 1, 77).astype(np.int32) for _ in range(5)]
    np.testing.assert_array_equal(jn.compile(forged, "cpu")(*given), jn.evaluate(forged, *given))


@pytest.mark.slow
def test_pairs_of_bounds() -> None:
    """Every slice of a symbolic axis reads inside it or is refused, whatever its bounds are."""
    bounds = [0, 1, 7, -1, N, N - 1, N - 64, N + 1, 2 * N, M, -N]
    for start, stop, step in itertools.product(bounds, bounds, (1, -1, 2, -3)):
        copy = jn.Graph("g")
        attrs = {"starts": (start,), "stops": (stop,), "steps": (step,)}
        i = copy.input("int64", (N,), "i")
        j = copy.input("int64", (M,), "j")
        try:
            shape = OPS["slice"].shape([i.shape], attrs, Checks())
        except jn.UserError:
            continue
        piece = copy.restore(OPS["slice"], [i], MappingProxyType(attrs), jn.int64, shape, i.location)
        copy._outputs, copy.output_names = (piece, j), ("a", "b")
        text = "\n".join(line for line in to_text(copy)[0].splitlines() if "check" not in line)
        try:
            graph = from_text(text)
        except jn.UserError:
            continue
        for n, m in SIZES:
            try:
                found = jn.evaluate(graph, np.arange(n), np.arange(m))[0]
            except jn.UserError:
                continue
            at = [bound.evaluate({"n": n, "m": m}) if isinstance(bound, Dim) else bound for bound in (start, stop)]
            assert found.tolist() == list(range(*at, step)), text
            assert all(0 <= position < n for position in found), text
