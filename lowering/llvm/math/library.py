"""Elementary functions of float32 and float64 lanes as inline LLVM IR.

They call no library, and have no tables in memory on the common path. `emit_math(fn, "exp", x)` appends the
instructions and returns the value; `x` is a scalar or a vector of any number of lanes of `float` or `double` (16-bit
floats are widened by the caller). Results are within 2 ulp for every input, with IEEE 754 specials and denormals; no
fast-math flags. sin, cos, tan and fmod branch to a slower path when some lane is large, so they end in another basic
block than they began in.

On x86 FMA is required, and F16C for float16 conversions (`REQUIRED_X86_FEATURES`, `check_target`): without
them LLVM would call a library for each.
"""

from __future__ import annotations

from ....promotion.errors import InternalError, UnsupportedError
from ...target import HostTarget
from ..ir import Function
from ..values import V, element
from . import approximate, avx512, float32, float64, fmod
from .lanes import Lanes
from .recipes import FUNCTIONS, Form, Recipe, instructions_by_op, names_with, recipe, recipe_of

REQUIRED_X86_FEATURES = ("f16c", "fma", "sse4.1")


@recipe("rsqrt", "float", "double", instructions=10)
def _rsqrt(lane: Lanes, x: V) -> V:
    """Computes 1/√x; on GPUs by rsqrt.approx (relative error 2^-22.9: PTX ISA) and a Newton step, together within 1.1 ulp.

    0 and infinity have no step.
    """
    if lane.is_ptx and lane.type == "float":
        start = lane.fn.target_intrinsic("llvm.nvvm.rsqrt.approx.f", [x], lane.type)
        rest = lane.fma(lane.neg(lane.mul(x, start)), start, 1.0)
        better = lane.fma(lane.mul(start, 0.5), rest, start)
        return lane.select(lane.cmp("uno", better, better), start, better)
    return lane.div(1.0, avx512.square_root(lane, x))


def _intrinsic(name: str) -> Recipe:
    return lambda lane, x: lane.fn.intrinsic(name, [x])


@recipe("sqrt", "float", "double", ops=("math.sqrt", "tt.precise_sqrt"), instructions=6)
def _sqrt(lane: Lanes, x: V) -> V:
    return avx512.square_root(lane, x)


recipe("round", "float", "double", ops=("math.roundeven",))(_intrinsic("roundeven"))  # halves to even, as in NumPy
recipe("abs", "float", "double", ops=("math.absf",))(_intrinsic("fabs"))
for _name in ("floor", "ceil", "trunc"):
    recipe(_name, "float", "double")(_intrinsic(_name))
recipe("fma", "float", "double", operands=3)(Lanes.fma)
recipe("copysign", "float", "double", operands=2)(Lanes.copysign)

FILLED_BY = (approximate, float32, float64, fmod)
"""The modules whose recipes are in the table."""
MATH_NAMES = frozenset(FUNCTIONS)
SHORT_NAMES = names_with("short")
MATH = {op: name for name, each in FUNCTIONS.items() for op in each.ops}
"""Maps operations of the block IR to functions."""
INSTRUCTIONS = instructions_by_op()


def check_target(target: HostTarget) -> None:
    """Raises UnsupportedError if the target needs library calls for inline math or float16 conversions."""
    missing = [name for name in REQUIRED_X86_FEATURES if not target.has(name)] if target.is_x86 else []
    if missing:
        raise UnsupportedError(f"host code for {target.cpu}: inline math needs {', '.join(missing)}")


def emit_math(fn: Function, name: str, x: V, *more: V, form: Form = "accurate", not_positive: bool = False) -> V:
    """Emits `name(x, *more)`; the result has x's type.

    Names: `MATH_NAMES` (pow(x, y), fmod(x, y), copysign(magnitude, sign) and fma(a, b, c) take more operands, all of
    one type). `form` picks cheaper float32 forms where there is one, and is ignored elsewhere. NaN stays NaN in all
    of them:
    - "approximate" is for what users allow, see `approximate`.
    - "short" (`SHORT_NAMES`) is for use inside composites: erf: absolute error below 5e-7, exactly +-1 from 3.72 on;
      tanh: 6 ulp, exactly +-1 from 9.01 on; exp: relative error 3e-7 on [-87.33, 88], 0 below, exp(88) above (GPUs:
      accurate); sigmoid: relative error 6e-7 from -87.33 on, 0 below -88.
    - "weight" is "short" but for exp on GPUs, which has a relative error of 2^-22 + |x| 2^-23 up to 0.
    - "reduced" is exp2 on [-0.5005, 0.5005]: a polynomial or the instruction alone, within 2 ulp.
    - "portable" is "accurate" without the instructions that only some targets have: the same bits on all of them.

    not_positive: the operand of an exponential is at most 0, but for rounding, or NaN.

    Raises InternalError for operands of other types or another number, UnsupportedError for an unknown name.
    """
    kind = element(x.type)
    if kind not in ("float", "double"):
        raise InternalError(
            f"emit_math({name!r}) takes float or double lanes, got {x.type}: widen 16-bit floats first"
        )
    function = FUNCTIONS.get(name)
    operands = 1 if function is None else function.operands
    if len(more) != operands - 1 or any(v.type != x.type for v in more):
        types = ", ".join(v.type for v in (x, *more))
        raise InternalError(f"emit_math({name!r}) takes {operands} operands of one type, got ({types})")
    return recipe_of(name, kind, form)(Lanes(fn, x.type, form == "portable", not_positive), x, *more)
