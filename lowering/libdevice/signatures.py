"""The functions of libdevice that apply to single elements: symbol, types, and the row that defines them.

`function` names a row of `expand.EXPANSIONS` (block operations) or of `CALLS` (the C library), and of `reference.REFERENCE`
(NumPy). Rounded variants share a row; their mode is `rounding`. Functions with results behind pointers (sincos, modf, frexp,
remquo, nan) cannot be called element by element and are left out.
Source: NVIDIA, "Libdevice User's Guide".
"""

from __future__ import annotations

from collections.abc import Iterator

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError, close_names


@dataclass(frozen=True, slots=True)
class Signature:
    """A symbol of libdevice. `rounding` is "" or one of rn, rz, rm, rp."""

    symbol: str
    function: str
    arguments: tuple[str, ...]
    result: str
    rounding: str = ""


CALLS = frozenset(["lgamma", "tgamma", "j0", "j1", "jn", "y0", "y1", "yn"])
"""The functions of the C library, called in float64."""

MAX_ORDER = 1 << 16
"""The largest order of jn and yn; beyond it they are NaN, as the C library's recurrences take time in proportion to it."""

_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "cospi", "cyl_bessel_i0",
    "cyl_bessel_i1", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp10", "exp2", "expm1", "floor", "j0", "j1",
    "lgamma", "log", "log10", "log1p", "log2", "logb", "nearbyint", "normcdf", "normcdfinv", "rcbrt", "rint", "round",
    "rsqrt", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "tgamma", "trunc", "y0", "y1",
)  # fmt: skip
_BINARY = ["atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow", "remainder", "rhypot"]
_FAST = ["cosf", "exp10f", "expf", "log10f", "log2f", "logf", "sinf", "tanf"]
_DIRECTIONS = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}
_INTEGERS = {"int": ("i32", "to_int"), "uint": ("i32", "to_uint"), "ll": ("i64", "to_ll"), "ull": ("i64", "to_ull")}


def _symbols() -> Iterator[Signature]:
    for elem, end in (("f32", "f"), ("f64", "")):
        for name in _UNARY:
            yield Signature(f"__nv_{name}{end}", name, (elem,), elem)
        for name in _BINARY:
            yield Signature(f"__nv_{name}{end}", name, (elem, elem), elem)
        yield Signature(f"__nv_fabs{end}", "fabs", (elem,), elem)
        yield Signature(f"__nv_fma{end}", "fma", (elem,) * 3, elem)
        for name in ("jn", "yn"):
            yield Signature(f"__nv_{name}{end}", name, ("i32", elem), elem)
        for name in ("ldexp", "scalbn", "powi"):
            yield Signature(f"__nv_{name}{end}", name if name == "powi" else "ldexp", (elem, "i32"), elem)
        for count in (3, 4):
            yield Signature(f"__nv_norm{count}d{end}", "norm", (elem,) * count, elem)
            yield Signature(f"__nv_rnorm{count}d{end}", "rnorm", (elem,) * count, elem)
        yield Signature(f"__nv_ilogb{end}", "ilogb", (elem,), "i32")
        for name in ("llrint", "llround"):
            yield Signature(f"__nv_{name}{end}", name, (elem,), "i64")
        letter = "f" if elem == "f32" else "d"
        for name in ("isinf", "isnan", "signbit"):
            yield Signature(f"__nv_{name}{letter}", name, (elem,), "i32")
        yield Signature("__nv_finitef" if elem == "f32" else "__nv_isfinited", "isfinite", (elem,), "i32")
        yield from _rounded(elem, letter)
    for name in _FAST:
        yield Signature(f"__nv_fast_{name}", name[:-1], ("f32",), "f32")
    yield Signature("__nv_fast_powf", "pow", ("f32", "f32"), "f32")
    yield Signature("__nv_fast_fdividef", "divide", ("f32", "f32"), "f32", "rn")
    yield Signature("__nv_saturatef", "saturate", ("f32",), "f32")
    yield Signature("__nv_frsqrt_rn", "rsqrt_rn", ("f32",), "f32")
    yield Signature("__nv_rcp64h", "rcp64h", ("f64",), "f64")
    yield from _conversions()
    yield from _integers()


def _rounded(elem: str, letter: str) -> Iterator[Signature]:
    for suffix, mode in _DIRECTIONS.items():
        for name, function in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("div", "divide")):
            yield Signature(f"__nv_{letter}{name}_{suffix}", function, (elem, elem), elem, mode)
        yield Signature(f"__nv_{letter}rcp_{suffix}", "reciprocal", (elem,), elem, mode)
        yield Signature(f"__nv_{letter}sqrt_{suffix}", "square_root", (elem,), elem, mode)
        if elem == "f32":
            yield Signature(f"__nv_fmaf_{suffix}", "fused", (elem,) * 3, elem, mode)
            yield Signature(f"__nv_fmaf_ieee_{suffix}", "fused", (elem,) * 3, elem, mode)
        else:
            yield Signature(f"__nv_fma_{suffix}", "fused", (elem,) * 3, elem, mode)


def _conversions() -> Iterator[Signature]:
    for suffix, mode in _DIRECTIONS.items():
        for source, elem in (("float", "f32"), ("double", "f64")):
            for name, (integer, function) in _INTEGERS.items():
                yield Signature(f"__nv_{source}2{name}_{suffix}", function, (elem,), integer, mode)
                if (source, name) != ("double", "int") and (source, name) != ("double", "uint"):
                    yield Signature(f"__nv_{name}2{source}_{suffix}", f"from_{name}", (integer,), elem, mode)
        yield Signature(f"__nv_double2float_{suffix}", "narrow", ("f64",), "f32", mode)
    yield Signature("__nv_int2double_rn", "from_int", ("i32",), "f64", "rn")
    yield Signature("__nv_uint2double_rn", "from_uint", ("i32",), "f64", "rn")
    yield Signature("__nv_float2half_rn", "float2half", ("f32",), "i16")
    yield Signature("__nv_half2float", "half2float", ("i16",), "f32")
    for name, source, target in (
        ("float_as_int", "f32", "i32"), ("float_as_uint", "f32", "i32"), ("int_as_float", "i32", "f32"),
        ("uint_as_float", "i32", "f32"), ("double_as_longlong", "f64", "i64"), ("longlong_as_double", "i64", "f64"),
    ):  # fmt: skip
        yield Signature(f"__nv_{name}", "reinterpret", (source,), target)
    yield Signature("__nv_double2hiint", "double2hiint", ("f64",), "i32")
    yield Signature("__nv_double2loint", "double2loint", ("f64",), "i32")
    yield Signature("__nv_hiloint2double", "hiloint2double", ("i32", "i32"), "f64")


def _integers() -> Iterator[Signature]:
    for elem, end, long in (("i32", "", ""), ("i64", "ll", "64")):
        for name in ("brev", "clz", "ffs", "popc"):
            yield Signature(f"__nv_{name}{end}", name, (elem,), elem if name == "brev" else "i32")
        yield Signature(f"__nv_{end}abs", "abs", (elem,), elem)
        for name in ("max", "min"):
            yield Signature(f"__nv_{end}{name}", name, (elem, elem), elem)
            yield Signature(f"__nv_u{end}{name}", f"u{name}", (elem, elem), elem)
        yield Signature(f"__nv_mul{long}hi", "mulhi", (elem, elem), elem)
        yield Signature(f"__nv_umul{long}hi", "umulhi", (elem, elem), elem)
    for name in ("mul24", "umul24", "hadd", "rhadd", "uhadd", "urhadd"):
        yield Signature(f"__nv_{name}", name, ("i32", "i32"), "i32")
    for name in ("sad", "usad", "byte_perm"):
        yield Signature(f"__nv_{name}", name, ("i32",) * 3, "i32")


SIGNATURES: dict[str, Signature] = {signature.symbol: signature for signature in _symbols()}


def known_signature(symbol: str) -> Signature:
    """Returns the signature of a symbol of libdevice. Raises `UnsupportedError` for an unknown one."""
    found = SIGNATURES.get(symbol)
    if found is None:
        near = close_names(symbol, SIGNATURES, 4)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise UnsupportedError(f"tt.extern_elementwise: libdevice has no function {symbol!r} that takes elements{hint}")
    return found
