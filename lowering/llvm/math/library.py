"""Elementary functions of float32 and float64 lanes as inline LLVM IR: no library calls, no tables in
memory on the common path.

`emit_math(fn, "exp", x)` appends the instructions and returns the value; `x` is a scalar or a vector of any
number of lanes of `float` or `double` (16-bit floats are widened by the caller). Results are within 2 ulp
for every input, with IEEE 754 specials and denormals; no fast-math flags. sin, cos, tan and fmod branch to a
slower path when some lane is large, so they end in another basic block than they began in.

On x86 FMA is required, and F16C for float16 conversions (`REQUIRED_X86_FEATURES`, `check_target`): without
them LLVM would call a library for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ....promotion.errors import InternalError, UnsupportedError
from ...target import HostTarget
from ..ir import Function, V, element
from . import approximate
from . import float32 as f32
from . import float64 as f64
from .fmod import fmod_f32, fmod_f64
from .lanes import Lanes

Unary = Callable[[Lanes, V], V]
Form = Literal["accurate", "short", "weight", "approximate", "reduced", "portable"]

REQUIRED_X86_FEATURES = ("f16c", "fma", "sse4.1")


def _rsqrt(lane: Lanes, x: V) -> V:
    """On GPUs rsqrt.approx (relative error 2^-22.9: PTX ISA) and a Newton step, together within 1.1 ulp; 0 and infinity have no
    step.
    """
    if lane.is_ptx and lane.type == "float":
        start = lane.fn.target_intrinsic("llvm.nvvm.rsqrt.approx.f", [x], lane.type)
        rest = lane.fma(lane.neg(lane.mul(x, start)), start, 1.0)
        better = lane.fma(lane.mul(start, 0.5), rest, start)
        return lane.select(lane.cmp("uno", better, better), start, better)
    return lane.div(1.0, lane.sqrt(x))


def _intrinsic(name: str) -> Unary:
    return lambda lane, x: lane.fn.intrinsic(name, [x])


# Single instructions, the same for both types; "round" rounds halves to even, as NumPy does.
_COMMON: dict[str, Unary] = {
    "sqrt": _intrinsic("sqrt"),
    "rsqrt": _rsqrt,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round": _intrinsic("roundeven"),
    "roundeven": _intrinsic("roundeven"),
    "trunc": _intrinsic("trunc"),
    "abs": _intrinsic("fabs"),
}

_FLOAT: dict[str, Unary] = {
    "exp": f32.exp,
    "exp2": f32.exp2,
    "expm1": f32.expm1,
    "log": f32.log,
    "log2": f32.log2,
    "log1p": f32.log1p,
    "sin": f32.sin,
    "cos": f32.cos,
    "tan": f32.tan,
    "asin": f32.asin,
    "acos": f32.acos,
    "atan": f32.atan,
    "tanh": f32.tanh,
    "erf": f32.erf,
    "sigmoid": f32.sigmoid,
}

_FLOAT_SHORT: dict[str, Unary] = {
    "exp": f32.exp_fast,
    "tanh": f32.tanh_fast,
    "erf": f32.erf_fast,
    "sigmoid": f32.sigmoid_fast,
}

_FLOAT_WEIGHT: dict[str, Unary] = {**_FLOAT_SHORT, "exp": approximate.exp_weight, "exp2": approximate.exp2}

_FLOAT_REDUCED: dict[str, Unary] = {"exp2": f32.exp2_reduced}

_FLOAT_APPROXIMATE: dict[str, Unary] = {
    "exp": approximate.exp,
    "exp2": approximate.exp2,
    "log": approximate.log,
    "log2": approximate.log2,
    "sqrt": approximate.sqrt,
    "rsqrt": approximate.rsqrt,
    "tanh": approximate.tanh,
    "erf": approximate.erf,
}

_DOUBLE: dict[str, Unary] = {
    "exp": f64.exp,
    "exp2": f64.exp2,
    "expm1": f64.expm1,
    "log": f64.log,
    "log2": f64.log2,
    "log1p": f64.log1p,
    "sin": f64.sin,
    "cos": f64.cos,
    "tan": f64.tan,
    "asin": f64.asin,
    "acos": f64.acos,
    "atan": f64.atan,
    "tanh": f64.tanh,
    "erf": f64.erf,
    "sigmoid": f64.sigmoid,
}

_NONE: dict[str, Unary] = {}
_CHEAPER = {
    "short": _FLOAT_SHORT,
    "weight": _FLOAT_WEIGHT,
    "approximate": _FLOAT_APPROXIMATE,
    "reduced": _FLOAT_REDUCED,
}
UNARY = frozenset({*_COMMON, *_FLOAT})
BINARY = frozenset({"pow", "copysign", "fmod"})
MATH_NAMES = UNARY | BINARY | {"fma"}
SHORT_NAMES = frozenset(_FLOAT_SHORT)
APPROXIMATE_NAMES = frozenset(_FLOAT_APPROXIMATE)


def check_target(target: HostTarget) -> None:
    """Raise UnsupportedError if the target cannot run inline math and float16 conversions without library
    calls.
    """
    missing = [name for name in REQUIRED_X86_FEATURES if not target.has(name)] if target.is_x86 else []
    if missing:
        raise UnsupportedError(f"host code for {target.cpu}: inline math needs {', '.join(missing)}")


def emit_math(fn: Function, name: str, x: V, *more: V, form: Form = "accurate") -> V:
    """Emit `name(x, *more)`; the result has x's type.

    Names: `MATH_NAMES` (pow(x, y), fmod(x, y), copysign(magnitude, sign) and fma(a, b, c) take more
    operands, all of one type). `form` picks cheaper float32 forms where there is one, and is ignored elsewhere.

    "approximate" (`APPROXIMATE_NAMES`) is for what users allow, see `approximate`. "short" (`SHORT_NAMES`) is for use inside
    composites: erf: absolute error below 5e-7, exactly +-1 from 3.72 on; tanh: 6
    ulp, exactly +-1 from 9.01 on; exp: relative error 3e-7 on [-87.33, 88], 0 below, exp(88) above (GPUs: accurate);
    sigmoid: relative error 6e-7 from -87.33 on, 0 below -88. NaN stays NaN in all. "weight" is "short" but for exp on GPUs,
    which has a relative error of 2^-22 + |x| 2^-23 up to 0. "reduced" is exp2 on [-0.5005, 0.5005]: a polynomial or the
    instruction alone, within 2 ulp.
    "portable" is "accurate" without the instructions that only some targets have: the same bits on all of them.
    """
    kind = element(x.type)
    if kind not in ("float", "double"):
        raise InternalError(
            f"emit_math({name!r}) takes float or double lanes, got {x.type}: widen 16-bit floats first"
        )
    operands = 3 if name == "fma" else 2 if name in BINARY else 1
    if len(more) != operands - 1 or any(v.type != x.type for v in more):
        types = ", ".join(v.type for v in (x, *more))
        raise InternalError(f"emit_math({name!r}) takes {operands} operands of one type, got ({types})")
    lanes = Lanes(fn, x.type, portable=form == "portable")
    if name == "fma":
        return lanes.fma(x, *more)
    if name == "copysign":
        return lanes.copysign(x, more[0])
    if name == "pow":
        return (f32.pow_ if kind == "float" else f64.pow_)(lanes, x, more[0])
    if name == "fmod":
        return (fmod_f32 if kind == "float" else fmod_f64)(lanes, x, more[0])
    own = _FLOAT if kind == "float" else _DOUBLE
    cheaper = _CHEAPER.get(form, _NONE)
    emit = (cheaper.get(name) if kind == "float" else None) or own.get(name) or _COMMON.get(name)
    if emit is None:
        raise UnsupportedError(
            f"the host back end has no function {name!r}; it has {', '.join(sorted(MATH_NAMES))}"
        )
    return emit(lanes, x)
