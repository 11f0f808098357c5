"""Measures the errors of functions of one float and writes them to docs/accuracy.json, from which docs/ops.md is generated.

python docs/accuracy.py                        a sample of every function, dtype and target; all values of 16-bit floats
python docs/accuracy.py --every gelu tanh      all 2^32 float32 values on the host, for some functions (minutes each)
python docs/accuracy.py --every                the same for all functions that are operations of their own

An error is |y - f(x)| in units in the last place of f(x): 2^(e - mantissa bits) with e the exponent of f(x), at least that of
the smallest normal number. Infinity counts as the power of two after the largest number; NaN on one side only as an infinite
error. Candidates for the largest error are found with float64 functions, of NumPy and SciPy or, for every value, of the host
itself; mpmath computes the error. float64 is measured with mpmath alone. "ptxsim" computes instructions like ex2.approx
exactly; a GPU may add the errors that the PTX ISA allows.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joinery as jn
import mpmath
import numpy as np
import scipy.special

DATA = Path(__file__).resolve().parent / "accuracy.json"
DTYPES = ("float32", "float16", "bfloat16", "float64")
TARGETS = ("cpu", "ptxsim", "evaluate")
KEPT = 4
"""How many inputs are recorded for a function, dtype and target: those with the largest errors."""
CHUNK = 1 << 19
Array = Any


@dataclass(frozen=True, slots=True)
class Function:
    """A function to measure: how to build it, its float64 witness, and its definition for mpmath (finite
    operands in its domain)."""

    build: Callable[[Any], Any]
    wide: Callable[[Array], Array]
    exact: Callable[[Any], Any]
    own: bool = True
    """Whether it is an operation of its own, for which --every measures all float32 values."""
    has_denormals: bool = True
    """Whether large negative operands may have denormal results in the dtype that it is computed in; otherwise these are -0."""


def _tanh_gelu(x: Array) -> Array:
    x = np.maximum(x, -1e4)
    return x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x))


def _tail(slope: float) -> Callable[[Array], Array]:
    return lambda x: np.maximum(x, -1e4) * scipy.special.expit(slope * x)


def _near(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Limits the argument of functions that are 0, infinite or constant in every dtype beyond 4000, where
    mpmath takes too long."""
    return lambda x: function(max(mpmath.mpf(-4000), min(mpmath.mpf(4000), x)))


@_near
def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


@_near
def _phi(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


@_near
def _far_softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x))


def _softplus(x: Any) -> Any:
    return x if x > 3000 else _far_softplus(x)


_ROOT = mpmath.sqrt
_expm1 = _near(mpmath.expm1)
_SELU = (1.6732632423543772, 1.0507009873554805)

FUNCTIONS: dict[str, Function] = {
    **{
        name: Function(getattr(jn, name), getattr(np, numpy), getattr(mpmath, name))
        for name, numpy in (("sqrt", "sqrt"), ("log", "log"), ("log1p", "log1p"), ("sin", "sin"), ("cos", "cos"),
                            ("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"))
    },
    **{
        name: Function(getattr(jn, name), getattr(np, name), _near(getattr(mpmath, name)))
        for name in ("exp", "expm1", "tanh")
    },
    "exp2": Function(jn.exp2, np.exp2, _near(lambda x: mpmath.mpf(2) ** x)),
    "log2": Function(jn.log2, np.log2, lambda x: mpmath.log(x) / mpmath.log(2)),
    "rsqrt": Function(jn.rsqrt, lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x)),
    "erf": Function(jn.erf, scipy.special.erf, _near(mpmath.erf)),
    "sigmoid": Function(jn.sigmoid, scipy.special.expit, _logistic),
    "silu": Function(jn.silu, _tail(1.0), lambda x: x * _logistic(x), has_denormals=False),
    "gelu": Function(jn.gelu, lambda x: np.maximum(x, -1e4) * scipy.special.ndtr(x),
                     lambda x: x * _phi(x), has_denormals=False),
    "gelu tanh": Function(lambda x: jn.gelu(x, "tanh"), _tanh_gelu,
                          lambda x: x * _logistic(2 * _ROOT(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)),
                          has_denormals=False),
    "gelu quick": Function(lambda x: jn.gelu(x, "quick"), _tail(1.702), lambda x: x * _logistic(mpmath.mpf("1.702") * x),
                           has_denormals=False),
    **{
        name: Function(getattr(jn, name), getattr(np, numpy), getattr(mpmath, name), False)
        for name, numpy in (("tan", "tan"), ("asinh", "arcsinh"), ("acosh", "arccosh"), ("atanh", "arctanh"),
                            ("log10", "log10"))
    },
    **{
        name: Function(getattr(jn, name), getattr(np, name), _near(getattr(mpmath, name)), False) for name in ("sinh", "cosh")
    },
    "cbrt": Function(jn.cbrt, np.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), False),
    "erfc": Function(jn.erfc, scipy.special.erfc, _near(mpmath.erfc), False),
    "softplus": Function(jn.softplus, lambda x: np.logaddexp(x, 0), _softplus, False),
    "mish": Function(jn.mish, lambda x: np.maximum(x, -1e4) * np.tanh(np.logaddexp(x, 0)),
                     lambda x: x * _near(mpmath.tanh)(_softplus(x)), False, has_denormals=False),
    "elu": Function(jn.elu, lambda x: np.where(x > 0, x, np.expm1(x)), lambda x: x if x > 0 else _expm1(x), False),
    "selu": Function(jn.selu, lambda x: _SELU[1] * np.where(x > 0, x, _SELU[0] * np.expm1(x)),
                     lambda x: _SELU[1] * (x if x > 0 else _SELU[0] * _expm1(x)), False),
    "celu": Function(jn.celu, lambda x: np.where(x > 0, x, np.expm1(x)), lambda x: x if x > 0 else _expm1(x), False),
    "softsign": Function(jn.softsign, lambda x: x / (1 + np.abs(x)), lambda x: x / (1 + abs(x)), False),
}  # fmt: skip


# -- errors ---------------------------------------------------------------------------------------------------------------


def _limit(dtype: jn.DType) -> float:
    return float(2.0 ** (np.frexp(float(dtype.max_value))[1])) if dtype.name != "float64" else float("inf")


def _is_zero_for_denormal(found: Array, exact: Array, dtype: jn.DType) -> Array:
    """Returns where a result is -0, and would be negative and denormal in the dtype that it is computed in."""
    least = 2.0**-1022 if dtype.name == "float64" else 2.0**-126
    return (found == 0) & np.signbit(found) & (exact <= 0) & (exact > -least)


def errors(found: Array, exact: Array, dtype: jn.DType, has_denormals: bool = True) -> Array:
    """Returns the errors of results of at most 32 bits, by float64 values of the function. has_denormals: as in `Function`."""
    limit = _limit(dtype)
    y, r = np.clip(found.astype(np.float64), -limit, limit), np.clip(exact, -limit, limit)
    exponent = np.maximum(((r.view(np.int64) >> 52) & 0x7FF) - 1023, dtype.min_exponent)
    scale = ((1023 + dtype.mantissa_bits - exponent) << 52).view(np.float64)
    distance = np.abs(y - r) * scale
    undefined = np.isnan(distance)
    if undefined.any():
        distance[undefined] = np.where(np.isnan(y[undefined]) & np.isnan(r[undefined]), 0.0, np.inf)
    return distance if has_denormals else np.where(_is_zero_for_denormal(y, r, dtype), 0.0, distance)


def exact_error(name: str, x: float, found: float, dtype: jn.DType, wide: float | None = None, bits: int = 400) -> float:
    """Returns the error at one operand, by mpmath; for infinite and undefined values by the float64 witness
    (`wide`, if it is known)."""
    if wide is None:
        with np.errstate(all="ignore"):
            wide = float(FUNCTIONS[name].wide(np.array([x], np.float64))[0])
    if wide != wide or found != found or math.isinf(x) or (x == 0 and math.isinf(wide)):
        return 0.0 if wide == found or (wide != wide and found != found) else float("inf")
    if not FUNCTIONS[name].has_denormals and _is_zero_for_denormal(np.float64(found), np.float64(wide), dtype):
        return 0.0
    with mpmath.workprec(bits):
        value = FUNCTIONS[name].exact(mpmath.mpf(x))
        top = mpmath.mpf(2) ** (int(np.frexp(float(dtype.max_value))[1]))
        value, y = max(-top, min(top, value)), max(-top, min(top, mpmath.mpf(found)))
        exponent = dtype.min_exponent if value == 0 else max(mpmath.frexp(value)[1] - 1, dtype.min_exponent)
        return float(abs(y - value) / mpmath.mpf(2) ** int(exponent - dtype.mantissa_bits))


# -- programs -------------------------------------------------------------------------------------------------------------


def graph_of(names: Sequence[str], dtype: str) -> jn.Graph:
    graph = jn.Graph("accuracy", inputs=[jn.TensorType(dtype, ("n",), name="x")])
    graph.output(*[FUNCTIONS[name].build(graph.inputs[0]) for name in names])
    return graph


def runner(names: Sequence[str], dtype: str, target: str) -> Callable[[Array], list[Array]]:
    """Returns a function that computes the results, one array for each function, by a compiled model or the
    evaluator."""
    graph = graph_of(names, dtype)
    call = (lambda x: jn.evaluate(graph, x)) if target == "evaluate" else jn.compile(graph, target, cache=False)

    def run(x: Array) -> list[Array]:
        with np.errstate(all="ignore"):
            results = call(x)
        return list(results) if isinstance(results, tuple) else [results]

    return run


def values(dtype: str, count: int, seed: int = 0) -> Array:
    """Returns bit patterns at equal distances, from a random start, and numbers around 0; all patterns if
    `count` is that large."""
    kind = jn.DType(dtype)
    total = 1 << kind.bits
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[kind.bits]
    if count >= total:
        return np.arange(total, dtype=np.uint64).astype(unsigned).view(kind.numpy)
    step = total // count
    start = int(np.random.default_rng(seed).integers(step))
    bits = np.arange(count, dtype=np.uint64) * np.uint64(step) + np.uint64(start)
    rng = np.random.default_rng(seed + 1)
    middle = [rng.standard_normal(count // 4) * 4, rng.standard_normal(count // 4) * 40]
    if kind.bits == 64:  # few patterns at equal distances are between 2^-12 and 2^12, where most functions vary
        signs = rng.choice([-1.0, 1.0], count)
        middle += [signs * 2.0 ** rng.uniform(-12, 12, count), 1 + signs * 2.0 ** rng.uniform(-50, 0, count)]
    return np.concatenate([bits.astype(unsigned).view(kind.numpy), *[part.astype(kind.numpy) for part in middle]])


Record = dict[str, Any]


def _record(name: str, dtype: jn.DType, pairs: Sequence[tuple[float, float]], tried: int) -> Record:
    """Records the largest errors among (operand, result) candidates."""
    found = sorted({x: exact_error(name, x, y, dtype) for x, y in pairs}.items(), key=lambda item: -item[1])[:KEPT]
    return {"ulp": round(found[0][1], 4), "at": [x.hex() for x, _ in found], "tried": tried}


def measure(name: str, dtype: str, target: str, x: Array, found: Array) -> Record:
    kind = jn.DType(dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = FUNCTIONS[name].wide(wide)
        if dtype == "float64":  # a precision of 100 bits suffices to find the candidates
            operands = zip(wide.tolist(), found.tolist(), exact.tolist(), strict=True)
            distance = np.array([0.0 if x != x else exact_error(name, x, y, kind, r, 100) for x, y, r in operands])
        else:
            distance = errors(found, exact, kind, FUNCTIONS[name].has_denormals)
    inside = np.argsort(distance)[-4 * KEPT :].tolist()
    pairs = [(float(wide[i]), float(found[i])) for i in inside if not np.isnan(wide[i])]
    return _record(name, kind, pairs, len(x))


def sample(names: Sequence[str], dtypes: Sequence[str], targets: Sequence[str], data: dict[str, Any]) -> None:
    counts = {"float32": 1 << 17, "float16": 1 << 16, "bfloat16": 1 << 16, "float64": 1 << 14}
    for dtype in dtypes:
        for target in targets:
            x = values(dtype, counts[dtype] if (target, dtype) != ("ptxsim", "float64") else 1 << 10)
            for name, found in zip(names, runner(names, dtype, target)(x), strict=True):
                new = measure(name, dtype, target, x, found)
                old = data.setdefault(name, {}).setdefault(dtype, {}).get(target, {"tried": 0})
                if old["tried"] <= new["tried"]:
                    data[name][dtype][target] = new
            print(f"{dtype} on {target}: done", flush=True)


def against_float64(name: str) -> jn.Graph:
    """Builds a graph of the errors of float32 results, by the float64 results of the same function, and those float32
    results, for the operands with the bit patterns `pattern` + `start`, all on the host: half a second for 10^8 values."""
    graph = jn.Graph("every", inputs=[jn.TensorType("int32", (CHUNK,), "pattern"), jn.TensorType("int32", (), "start")])
    kind = jn.DType("float32")
    x = (graph.inputs[0] + graph.inputs[1]).bitcast("float32")
    found = FUNCTIONS[name].build(x)
    results = (found.cast("float64"), FUNCTIONS[name].build(x.cast("float64")))
    y, r = [jn.clip(value, -_limit(kind), _limit(kind)) for value in results]
    exponent = jn.maximum((r.bitcast("int64") >> 52) & 0x7FF, kind.min_exponent + 1023)
    scale = ((2046 + kind.mantissa_bits - exponent) << 52).bitcast("float64")
    apart = jn.where(jn.is_nan(y) | jn.is_nan(r), float("inf"), jn.abs(y - r) * scale)
    apart = jn.where(jn.is_nan(y) & jn.is_nan(r), 0.0, apart)
    if not FUNCTIONS[name].has_denormals:
        apart = jn.where((y == 0.0) & (r <= 0.0) & (r > -(2.0**-126)), 0.0, apart)
    graph.output(apart.cast("float32"), found)
    return graph


def every(name: str) -> Record:
    """Measures all float32 values on the host. Candidates are those farthest from the float64 function, which
    is measured by itself; mpmath computes their errors."""
    model = jn.compile(against_float64(name), "cpu", cache=False)
    pattern = np.arange(CHUNK, dtype=np.int32)
    candidates: list[tuple[float, float, float]] = []
    for start in range(-(1 << 31), 1 << 31, CHUNK):
        distance, found = model(pattern, np.int32(start))
        least = candidates[-1][0] if len(candidates) >= 4 * KEPT else -1.0
        if distance.max() > least:
            worst = np.argpartition(distance, -4 * KEPT)[-4 * KEPT :]
            x = (pattern[worst] + np.int32(start)).view(np.float32)
            candidates += zip(distance[worst].tolist(), x.tolist(), found[worst].tolist(), strict=True)
            candidates = sorted(candidates, key=lambda one: -one[0])[: 4 * KEPT]
    return _record(name, jn.DType("float32"), [(x, y) for _, x, y in candidates if not np.isnan(x)], 1 << 32)


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def write(data: dict[str, Any]) -> None:
    """Writes the data, with one line per record."""
    lines = []
    for name in FUNCTIONS:
        inner = [
            f'  "{dtype}": {{\n' + ",\n".join(f'   "{t}": {json.dumps(r)}' for t, r in data[name][dtype].items()) + "}"
            for dtype in data[name]
        ]
        lines.append(f' "{name}": {{\n' + ",\n".join(inner) + "}")
    DATA.write_text("{\n" + ",\n".join(lines) + "}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure errors in ulp.")
    parser.add_argument("functions", nargs="*", help="names of functions; all if none are given")
    parser.add_argument("--every", action="store_true", help="all float32 values on the host")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    arguments = parser.parse_args()
    names = arguments.functions or list(FUNCTIONS)
    if unknown := [name for name in names if name not in FUNCTIONS]:
        raise SystemExit(f"docs/accuracy.py: no function {', '.join(unknown)}; known: {', '.join(FUNCTIONS)}")
    data = read() if DATA.exists() else {}
    if not arguments.every:
        sample(names, arguments.dtypes.split(","), arguments.targets.split(","), data)
        write(data)
        return
    for name in names:
        if FUNCTIONS[name].own or arguments.functions:
            found = every(name)
            data = read()
            data[name]["float32"]["cpu"] = found
            write(data)
            print(f"{name}: {found['ulp']} ulp at {found['at'][0]}", flush=True)


if __name__ == "__main__":
    main()
