"""Functions of NVIDIA's libdevice in PTX, run by the simulator, against the definitions in NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from joinery.lowering.libdevice.reference import evaluate
from joinery.lowering.libdevice.signatures import CALLS, SIGNATURES, Signature
from joinery.lowering.llvm.nvptx.targets import TARGETS
from joinery.runtime.toolchain.libdevice import find_libdevice
from joinery.runtime.toolchain.ptxas import find_assembler, resources

from ...support.kernels.library_functions import DTYPES, LANES, VALUES, groups, kernel, run
from ...support.tiers import each

pytestmark = pytest.mark.skipif(find_libdevice() is None, reason="no libdevice.10.bc here, or JOINERY_LIBDEVICE=none")

BOUNDS: dict[str, tuple[int, int]] = {
    "acos": (2, 2), "acosh": (4, 3), "asin": (2, 2), "asinh": (3, 3), "atan": (2, 2), "atan2": (3, 2), "atanh": (3, 2),
    "cbrt": (1, 1), "cos": (2, 2), "cosh": (2, 1), "cospi": (1, 2), "cyl_bessel_i0": (6, 6), "cyl_bessel_i1": (6, 6),
    "erf": (2, 2), "erfc": (4, 5), "erfcinv": (4, 6), "erfcx": (4, 4), "erfinv": (2, 5), "exp": (2, 1), "exp10": (2, 1),
    "exp2": (2, 1), "expm1": (1, 1), "hypot": (3, 2), "log": (1, 1), "log10": (2, 1), "log1p": (1, 1), "log2": (1, 1),
    "norm": (3, 2), "normcdf": (5, 5), "normcdfinv": (5, 8), "pow": (4, 2), "rcbrt": (2, 1), "rhypot": (2, 1), "rnorm": (2, 2),
    "rsqrt": (2, 1), "sin": (2, 2), "sinh": (3, 2), "sinpi": (1, 2), "tan": (4, 2), "tanh": (2, 1), "tgamma": (5, 10),
    "lgamma": (6, 4),
}  # fmt: skip
"""Units in the last place, float32 and float64: the maxima that NVIDIA states (CUDA C++ Programming Guide, mathematical
functions), which are found by trying. Everything that is not listed is exact, or has a test of its own."""
REFERENCE = 2
"""Units that the definitions may be off by in float64. For float32 they are rounded once."""
OWN = {"powi", "j0", "j1", "jn", "y0", "y1", "yn"}


def is_fast(signature: Signature) -> bool:
    return "fast" in signature.symbol


def plain(signature: Signature) -> bool:
    return signature.function not in OWN and not is_fast(signature)


def plain_groups() -> list[Any]:
    found = [(group.id, [signature for signature in group.values[0] if plain(signature)]) for group in groups()]
    return [pytest.param(members, id=name) for name, members in found if members]


def every_fourth_group() -> list[Any]:
    """The groups of functions; all but every fourth are slow. Hosts and the interpreter try all functions in the fast tier."""
    return [
        pytest.param(*group.values, id=group.id, marks=pytest.mark.slow if number % 4 else ())
        for number, group in enumerate(plain_groups())
    ]


def columns_of(signatures: list[Signature], seed: int) -> list[np.ndarray]:
    """Special values, all pairs of them, or random ones of them; and numbers of all sizes to a multiple of the lanes."""
    rng = np.random.default_rng(seed)
    arguments = signatures[0].arguments
    chosen = [VALUES[elem] for elem in arguments]
    if len(arguments) == 1:
        special = [list(chosen[0])]
    elif len(arguments) == 2:
        pairs = list(itertools.product(*chosen))
        special = [list(each) for each in zip(*(pairs[i] for i in rng.permutation(len(pairs))[: LANES // 2]), strict=True)]
    else:
        special = [[values[i] for i in rng.integers(0, len(values), LANES // 2)] for values in chosen]
    count = LANES - len(special[0])
    return [column(elem, values, rng, count) for elem, values in zip(arguments, special, strict=True)]


def column(elem: str, special: list[Any], rng: Any, count: int) -> np.ndarray:
    if elem[0] == "f":
        wide = rng.choice([-1.0, 1.0], count) * 2.0 ** rng.uniform(-30, 30, count)
        more = np.where(rng.random(count) < 0.6, rng.normal(0, 4, count), wide).tolist()
    else:
        high = 1 << (15 if elem == "i16" else 30)
        more = rng.integers(-high, high, count).tolist()
    with np.errstate(all="ignore"):
        return np.array(special + more, np.float64 if elem[0] == "f" else np.int64).astype(DTYPES[elem])


def distance(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """In units of the last place of the expected number; 0 for NaN and NaN, infinite for what is of another kind or sign."""
    if found.dtype.kind == "i":
        return np.where(found == expected, 0, np.inf)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.where(np.isfinite(expected), np.abs(expected), 1)).astype(np.float64)
        far = np.abs(found.astype(np.float64) - expected.astype(np.float64)) / unit
    far = np.where((found == expected) | (np.isnan(found) & np.isnan(expected)), 0, np.where(np.isnan(far), np.inf, far))
    return np.where((np.signbit(found) != np.signbit(expected)) & ~np.isnan(expected) & (expected == 0), np.inf, far)


def check(signatures: list[Signature], columns: list[np.ndarray], target: str, **options: Any) -> None:
    results = run(signatures, columns, "launch", device="ptxsim", target=target, **options)
    for signature, found in zip(signatures, results, strict=True):
        with np.errstate(all="ignore"):
            expected = evaluate(signature, columns)
        wide = signature.result == "f64"
        bound = BOUNDS.get(signature.function, (0, 0))[wide]
        far = distance(found, expected)
        far[left_out(signature, columns, found, expected)] = 0
        worst = int(np.argmax(far))
        operands = tuple(column[worst] for column in columns)
        limit = bound + REFERENCE if bound and wide else bound
        assert far[worst] <= limit, f"{signature.symbol}{operands}: {found[worst]!r}, expected {expected[worst]!r}"


def left_out(signature: Signature, columns: list[np.ndarray], found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Lanes without a bound: zeros of lgamma, where NVIDIA states none; NaN as an integer, which has many forms; where the
    definition of erfcx gives up denormals; and rcp64h within 20 bits, of which a device has no more (`rcp.approx.ftz.f64`)."""
    x = columns[0]
    match signature.function:
        case "lgamma":
            return (x > -10.001) & (x < -2.264)
        case "float2half":
            return ((found & 0x7FFF) > 0x7C00) & ((expected & 0x7FFF) > 0x7C00)
        case "rcp64h":
            with np.errstate(all="ignore"):
                return np.abs(found - expected) <= 2.0**-20 * np.abs(expected)
        case "erfcx":
            return (expected == 0) & (np.abs(found) < np.finfo(found.dtype).tiny)
    return np.zeros(x.shape, np.bool_)


@pytest.mark.slow
@pytest.mark.parametrize("signatures", every_fourth_group())
def test_all_functions(signatures: list[Signature]) -> None:
    check(signatures, columns_of(signatures, 1), "sm_80")


@pytest.mark.slow
@pytest.mark.parametrize("signatures", plain_groups()[::6])
def test_the_assembler_takes_some_of_them(signatures: list[Signature]) -> None:
    assert_assembled(signatures, "sm_80")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("signatures", plain_groups())
def test_all_functions_at_many_values_under_all_checks(signatures: list[Signature], target: str) -> None:
    """Bounds, undefined values, races; and the assembler takes it without spilling."""
    drawn = [columns_of(signatures, seed) for seed in range(2, 6)]
    columns = [np.concatenate(parts) for parts in zip(*drawn, strict=True)]
    check(signatures, columns, target, sanitize=True)
    assert_assembled(signatures, target)


def assert_assembled(signatures: list[Signature], target: str) -> None:
    code = kernel(signatures).gpu_code(target).kernel
    assert ".extern" not in code.ptx
    used = resources(code)
    if used is not None:
        assert used.spill_store_bytes == 0


@pytest.mark.slow
@pytest.mark.skipif(find_assembler() is None, reason="no ptxas on this machine")
@pytest.mark.parametrize("signatures", groups())
def test_the_assembler_takes_them(signatures: list[Signature]) -> None:
    assert_assembled(signatures, "sm_80")


# -- what has no bound in units of the last place


@pytest.mark.slow
@pytest.mark.parametrize(("name", "end"), each(["j0", "j1", "jn", "y0", "y1", "yn"], ["f", ""]))
def test_bessel_functions(name: str, end: str) -> None:
    """NVIDIA states 2.2e-6 and 5e-12, absolute, away from the origin."""
    signature = SIGNATURES[f"__nv_{name}{end}"]
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.uniform(0.05, 60, LANES - 4), [1e3, 1e5, np.inf, np.nan]]).astype(DTYPES[signature.result])
    columns = [rng.integers(0, 7, LANES).astype(np.int32), x] if name[1] == "n" else [x]
    (found,) = run([signature], columns, "launch", device="ptxsim")
    expected = evaluate(signature, columns).astype(np.float64)
    bound = 5e-12 if signature.result == "f64" else 2.2e-6
    far = np.abs(found - expected) / np.maximum(1, 4 * np.abs(expected))
    assert np.isnan(found[-1])
    assert far[:-1].max() <= bound, signature.symbol


@pytest.mark.one_in(4)
@pytest.mark.parametrize("type_", ["", "f"])
@pytest.mark.parametrize("kind", ["jn", "yn"])
def test_negative_orders_are_not_a_number(kind: str, type_: str) -> None:
    """As NVIDIA documents it; the C library mirrors them."""
    (found,) = run([SIGNATURES[f"__nv_{kind}{type_}"]], [[-1, -2, 2], [1.5, 2.5, 3.5]], "launch", device="ptxsim")
    assert np.isnan(found[:2]).all()
    assert np.isfinite(found[2])


def test_small_integer_powers() -> None:
    """A product of squares: an error for every factor."""
    rng = np.random.default_rng(8)
    columns: list[Any] = [rng.uniform(-3, 3, LANES), rng.integers(-20, 21, LANES).astype(np.int32)]
    for symbol in ("__nv_powif", "__nv_powi"):
        signature = SIGNATURES[symbol]
        x = columns[0].astype(DTYPES[signature.result])
        (found,) = run([signature], [x, columns[1]], "launch", device="ptxsim")
        assert distance(found, evaluate(signature, [x, columns[1]])).max() <= 20


FAST: dict[str, tuple[float, float, float]] = {
    "sinf": (-3.1, 3.1, 2.0**-21), "cosf": (-3.1, 3.1, 2.0**-21), "tanf": (-1.2, 1.2, 2.0**-18), "expf": (-10, 2, 1e-5),
    "exp10f": (-5, 1, 1e-5), "logf": (0.5, 2, 2.0**-21), "log2f": (0.5, 2, 2.0**-21), "log10f": (0.5, 2, 2.0**-21),
}  # fmt: skip
"""Where from and to, and the absolute error."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FAST)
def test_fast_functions_are_approximations(name: str) -> None:
    low, high, bound = FAST[name]
    signature = SIGNATURES[f"__nv_fast_{name}"]
    x = np.linspace(low, high, LANES).astype(np.float32)
    (found,) = run([signature], [x], "launch", device="ptxsim")
    assert np.abs(found - evaluate(signature, [x])).max() <= bound


def test_fast_functions_of_two() -> None:
    rng = np.random.default_rng(9)
    x, y = rng.uniform(0.1, 5, LANES).astype(np.float32), rng.uniform(-3, 3, LANES).astype(np.float32)
    for symbol, bound in (("__nv_fast_powf", 2e-5), ("__nv_fast_fdividef", 3e-7)):
        (found,) = run([SIGNATURES[symbol]], [x, y], "launch", device="ptxsim")
        expected = evaluate(SIGNATURES[symbol], [x, y])
        assert (np.abs(found - expected) <= bound * np.abs(expected)).all()


def test_every_function_is_tried() -> None:
    tried = {s.function for s in SIGNATURES.values() if plain(s)} | OWN
    assert tried == {s.function for s in SIGNATURES.values()}
    assert set(BOUNDS) <= tried
    assert tried >= CALLS
