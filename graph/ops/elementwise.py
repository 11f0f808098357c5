"""Holds the rows of the op table that are maps: one scalar function per element.

`emit` names an op of the block IR where one op is the whole meaning: "arith.addf", or with a predicate "arith.cmpi slt".
Otherwise it names an emitter of `lowering/tile/elements/scalar.py`:

    @identity      the operand itself (bool, int, uint, float)
    @false         false everywhere: no integer is NaN (bool, int, uint)
    @not           all bits flipped (bool, int, uint)
    @negate        0 - x, wrapping (int, uint)
    @sign          -1, 0 or 1; NaN stays NaN, zeros keep their sign (int, uint, float)
    @relu          x where x > 0 or x is NaN, else 0 (int, float)
    @sigmoid       1 / (1 + exp(-x)), without overflow (float)
    @is_nan        x != x (float)
    @floor_div     quotient rounded down; x // 0 = 0 for integers (int, uint, float)
    @mod           x - floor(x / y) * y, with the divisor's sign; x % 0 = x for integers (int, uint, float)
    @trunc_div     quotient rounded towards zero; x / 0 = 0 for integers (int, uint, float)
    @rem           remainder with the dividend's sign; x rem 0 = x for integers (int, uint)
    @pow           x ** y; integers by repeated squaring, wrapping, negative exponents truncate (int, uint, float)
    @cbrt          the cube root (float)
    @shift_left    0 when y is negative or not below the width (int, uint)
    @shift_right   arithmetic for int, logical for uint; beyond the width 0, or -1 for negative x (int, uint)
    @cast          conversion to the result dtype, by attrs rounding and saturate (bool, int, uint, float)
    @bitcast       the same bits as the result dtype (bool, int, uint, float)

Rows with the trait "internal" serve the expansions of composites where the composite's own tolerance allows them; they have
no public function:

    @exp_shifted  @exp_shifted_unchecked  @where_below  @one_unless_below  @x_phi  @x_sigmoid  @x_sigmoid_quick  @x_sigmoid_tanh
    @div_approximate  @atan_ratio   (float)
    @sum_of_four   four products with the bytes of an int32 (int)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...promotion.result_rules import (
    BOOL_ONLY,
    EXPLICIT,
    INTEGER_JOIN,
    JOIN,
    JOIN_FLOAT,
    JOIN_QUOTIENT,
    JOIN_TO_BOOL,
    SELECT,
    ResultRule,
)
from . import demands, shape
from .opdef import Demand, OpDef

_ONE_ULP = 2.0
STORED = 65
"""The cost of what is stored, not computed at two places: more than the scheduler repeats (`lowering/schedule/body.py`)."""


def _emit(**texts: str) -> Mapping[str, str]:
    return MappingProxyType({name.rstrip("_"): text for name, text in texts.items()})


def _row(
    name: str,
    arity: int,
    doc: str,
    promote: ResultRule,
    emit: Mapping[str, str],
    *,
    dunder: str = "",
    traits: str = "",
    ulp: float = 0.5,
    onnx: tuple[str, int] | None = None,
    attrs: tuple[str, ...] = (),
    demand: Demand | None = None,
    cost: int = 1,
    numpy: str = "",
) -> OpDef:
    return OpDef(
        name, "map", arity, doc, promote, shape.elementwise, attrs=attrs, demand=demand, dunder=dunder, emit=emit,
        traits=frozenset(traits.split()), ulp=ulp, onnx=onnx, cost=cost, numpy=numpy,
    )  # fmt: skip


def _numbers(integer: str, real: str, unsigned: str = "", boolean: str = "") -> Mapping[str, str]:
    texts = {"int": integer, "uint": unsigned or integer, "float": real}
    return MappingProxyType({"bool": boolean, **texts} if boolean else texts)


def _bits(text: str) -> Mapping[str, str]:
    return _emit(bool=text, int=text, uint=text)


def _comparison(signed: str, unsigned: str, ordered: str) -> Mapping[str, str]:
    return _emit(
        bool=f"arith.cmpi {unsigned}",
        int=f"arith.cmpi {signed}",
        uint=f"arith.cmpi {unsigned}",
        float=f"arith.cmpf {ordered}",
    )


def _math(
    name: str,
    doc: str,
    onnx: tuple[str, int] | None = None,
    ulp: float = _ONE_ULP,
    emit: str = "",
    traits: str = "",
    cost: int = 1,
    numpy: str = "",
) -> OpDef:
    doc += " Bools and integers are first cast to the rule set's default float."
    return _row(
        name, 1, doc, JOIN_FLOAT, _emit(float=emit or f"math.{name}"), ulp=ulp, onnx=onnx, traits=traits, cost=cost, numpy=numpy
    )


def _rounding(name: str, doc: str, text: str, onnx: tuple[str, int] | None) -> OpDef:
    return _row(
        name, 1, doc, JOIN, _numbers("@identity", text, boolean="@identity"), onnx=onnx, traits="idempotent"
    )


ARITHMETIC = (
    _row("add", 2, "x + y. Integers wrap; of bools it is `or`.", JOIN,
         _numbers("arith.addi", "arith.addf", boolean="arith.ori"),
         dunder="add", traits="commutative associative", onnx=("Add", 7), numpy="add"),
    _row("sub", 2, "x - y. Integers wrap; bools are refused.", JOIN, _numbers("arith.subi", "arith.subf"),
         dunder="sub", onnx=("Sub", 7), numpy="subtract"),
    _row("mul", 2, "x * y. Integers wrap; of bools it is `and`.", JOIN,
         _numbers("arith.muli", "arith.mulf", boolean="arith.andi"),
         dunder="mul", traits="commutative associative", onnx=("Mul", 7), numpy="multiply"),
    _row("div", 2, "x / y, true division: bools and integers are first cast to the rule set's float of quotients.",
         JOIN_QUOTIENT, _emit(float="arith.divf"), dunder="truediv", onnx=("Div", 7), cost=3),
    _row("floor_div", 2, "floor(x / y), as Python's `//`. For integers x // 0 = 0. Floats as NumPy: (x - mod(x, y)) / y, "
         "rounded, which beyond 2 ** 22 in float32 may be an integer beside that floor.", JOIN,
         _numbers("@floor_div", "@floor_div"), ulp=2, dunder="floordiv", cost=6),
    _row("mod", 2, "x - floor_div(x, y) * y, as Python's `%`: it has the divisor's sign. For integers x % 0 = x.", JOIN,
         _numbers("@mod", "@mod"), dunder="mod", onnx=("Mod", 10), cost=6),
    _row("trunc_div", 2, "x / y rounded towards zero, as C's `/` of integers. For integers x / 0 = 0.", JOIN,
         _numbers("@trunc_div", "@trunc_div"), cost=6),
    _row("rem", 2, "The remainder with the dividend's sign, as C's `%` and fmod. For integers the remainder by 0 is x.", JOIN,
         _numbers("@rem", "arith.remf"), cost=6),
    _row("pow", 2, "x ** y. Integers wrap; integer powers with a negative exponent are truncated towards zero.", JOIN,
         _numbers("@pow", "@pow"), dunder="pow", ulp=_ONE_ULP, onnx=("Pow", 15), cost=24),
    _row("minimum", 2, "The smaller of x and y; NaN if either is NaN; -0.0 is smaller than 0.0.", JOIN,
         _numbers("arith.minsi", "arith.minimumf", "arith.minui", "arith.andi"),
         traits="commutative associative idempotent", onnx=("Min", 13)),
    _row("maximum", 2, "The larger of x and y; NaN if either is NaN; 0.0 is larger than -0.0.", JOIN,
         _numbers("arith.maxsi", "arith.maximumf", "arith.maxui", "arith.ori"),
         traits="commutative associative idempotent", onnx=("Max", 13)),
)  # fmt: skip

COMPARISONS = (
    _row("equal", 2, "x == y, bool.", JOIN_TO_BOOL, _comparison("eq", "eq", "oeq"),
         dunder="eq", traits="commutative", onnx=("Equal", 13), numpy="equal"),
    _row("not_equal", 2, "x != y, bool; true for NaN.", JOIN_TO_BOOL, _comparison("ne", "ne", "une"),
         dunder="ne", traits="commutative", numpy="not_equal"),
    _row("less", 2, "x < y, bool.", JOIN_TO_BOOL, _comparison("slt", "ult", "olt"), dunder="lt", onnx=("Less", 13),
         numpy="less"),
    _row("less_equal", 2, "x <= y, bool.", JOIN_TO_BOOL, _comparison("sle", "ule", "ole"),
         dunder="le", onnx=("LessOrEqual", 16), numpy="less_equal"),
    _row("greater", 2, "x > y, bool.", JOIN_TO_BOOL, _comparison("sgt", "ugt", "ogt"), dunder="gt", onnx=("Greater", 13),
         numpy="greater"),
    _row("greater_equal", 2, "x >= y, bool.", JOIN_TO_BOOL, _comparison("sge", "uge", "oge"),
         dunder="ge", onnx=("GreaterOrEqual", 16), numpy="greater_equal"),
)  # fmt: skip

LOGIC = (
    _row("logical_and", 2, "x and y, of bools.", BOOL_ONLY, _emit(bool="arith.andi"),
         traits="commutative associative idempotent", onnx=("And", 7), numpy="logical_and"),
    _row("logical_or", 2, "x or y, of bools.", BOOL_ONLY, _emit(bool="arith.ori"),
         traits="commutative associative idempotent", onnx=("Or", 7), numpy="logical_or"),
    _row("logical_xor", 2, "x != y, of bools.", BOOL_ONLY, _emit(bool="arith.xori"),
         traits="commutative associative", onnx=("Xor", 7), numpy="logical_xor"),
    _row("logical_not", 1, "not x, of bools.", BOOL_ONLY, _emit(bool="@not"), onnx=("Not", 1), numpy="logical_not"),
    _row("bitwise_and", 2, "x & y, bit by bit, of bools or integers.", INTEGER_JOIN, _bits("arith.andi"),
         dunder="and", traits="commutative associative idempotent", onnx=("BitwiseAnd", 18), numpy="bitwise_and"),
    _row("bitwise_or", 2, "x | y, bit by bit, of bools or integers.", INTEGER_JOIN, _bits("arith.ori"),
         dunder="or", traits="commutative associative idempotent", onnx=("BitwiseOr", 18), numpy="bitwise_or"),
    _row("bitwise_xor", 2, "x ^ y, bit by bit, of bools or integers.", INTEGER_JOIN, _bits("arith.xori"),
         dunder="xor", traits="commutative associative", onnx=("BitwiseXor", 18), numpy="bitwise_xor"),
    _row("bitwise_not", 1, "~x: all bits flipped, of bools or integers.", INTEGER_JOIN, _bits("@not"),
         dunder="invert", onnx=("BitwiseNot", 18)),
    _row("shift_left", 2, "x << y, of integers; 0 when y is negative or at least the width.", INTEGER_JOIN,
         _emit(int="@shift_left", uint="@shift_left"), dunder="lshift"),
    _row("shift_right", 2, "x >> y, of integers, with the sign kept for signed ones; beyond the width 0 (negative x: -1).",
         INTEGER_JOIN, _emit(int="@shift_right", uint="@shift_right"), dunder="rshift"),
    _row("popcount", 1, "How many bits of x are set, in the dtype of x; of a bool it is x.", INTEGER_JOIN,
         _emit(bool="@identity", int="math.ctpop", uint="math.ctpop")),
    _row("where", 3, "x where the bool condition holds, else y.", SELECT,
         _emit(bool="arith.select", int="arith.select", uint="arith.select", float="arith.select"), traits="any_dtype",
         onnx=("Where", 16)),
)  # fmt: skip

UNARY = (
    _row("negate", 1, "-x. Integers wrap; bools are refused.", JOIN, _numbers("@negate", "arith.negf"),
         dunder="neg", onnx=("Neg", 13), numpy="negative"),
    _row("abs", 1, "|x|. The smallest signed integer stays itself.", JOIN,
         _numbers("math.absi", "math.absf", "@identity", "@identity"), dunder="abs", traits="idempotent", onnx=("Abs", 13),
         numpy="abs"),
    _row("sign", 1, "-1, 0 or 1 by the sign of x; NaN stays NaN.", JOIN, _numbers("@sign", "@sign", boolean="@identity"),
         traits="idempotent", onnx=("Sign", 13)),
    _math("sqrt", "√x.", ("Sqrt", 13), ulp=0.5, cost=3),
    _math("rsqrt", "1 / √x, rounded once.", cost=4),
    _math("exp", "e ** x.", ("Exp", 13), cost=8),
    _math("exp2", "2 ** x.", cost=8),
    _math("expm1", "e ** x - 1, accurate near 0.", cost=10),
    _math("log", "The natural logarithm of x.", ("Log", 13), cost=10),
    _math("log2", "The logarithm of x to base 2.", cost=10),
    _math("log10", "The logarithm of x to base 10.", cost=10),
    _math("log1p", "log(1 + x), accurate near 0.", cost=12),
    _math("cbrt", "The real cube root of x, also of negative x.", emit="@cbrt", cost=16),
    _math("sin", "The sine of x (radians).", ("Sin", 7), cost=12),
    _math("cos", "The cosine of x (radians).", ("Cos", 7), cost=12),
    _math("asin", "The arcsine of x, in [-π/2, π/2].", ("Asin", 7), cost=12),
    _math("acos", "The arccosine of x, in [0, π].", ("Acos", 7), cost=12),
    _math("atan", "The arctangent of x, in [-π/2, π/2].", ("Atan", 7), cost=12),
    _math("tanh", "The hyperbolic tangent of x.", ("Tanh", 13), cost=10),
    _math("erf", "The error function, 2/√π ∫₀ˣ exp(-t²) dt.", ("Erf", 13), cost=12),
    _rounding("floor", "x rounded down to an integral value of the same dtype.", "math.floor", ("Floor", 13)),
    _rounding("ceil", "x rounded up to an integral value of the same dtype.", "math.ceil", ("Ceil", 13)),
    _rounding("round", "x rounded to the nearest integral value, halves to even.", "math.roundeven", ("Round", 11)),
    _rounding("trunc", "x rounded towards zero to an integral value.", "math.trunc", None),
    _row("is_nan", 1, "Whether x is NaN, bool; false for integers.", JOIN_TO_BOOL,
         _numbers("@false", "@is_nan", boolean="@false"), onnx=("IsNaN", 13)),
)  # fmt: skip

_ANY_KIND = {kind: "" for kind in ("bool", "int", "uint", "float")}

TYPE_CHANGES = (
    _row("cast", 1,
         "x converted to `dtype`. Integers wrap; float to integer truncates, saturates, and NaN becomes 0; to float rounds to "
         'nearest even, or towards zero with rounding="toward_zero"; to bool is x != 0. `saturate` applies to 8-bit floats: '
         "values beyond the largest finite one become that one, else infinity or NaN.",
         EXPLICIT, MappingProxyType(dict.fromkeys(_ANY_KIND, "@cast")),
         attrs=("dtype", "rounding", "saturate"), demand=demands.cast, traits="any_dtype", onnx=("Cast", 19)),
    _row("bitcast", 1, "The bits of x as another dtype of the same size.", EXPLICIT,
         MappingProxyType(dict.fromkeys(_ANY_KIND, "@bitcast")), attrs=("dtype",), demand=demands.bitcast,
         traits="any_dtype", cost=0),
)  # fmt: skip

ACTIVATIONS = (
    _row("relu", 1, "max(x, 0); NaN stays NaN, -0.0 becomes 0.0.", JOIN, _numbers("@relu", "@relu", "@identity", "@identity"),
         traits="idempotent", onnx=("Relu", 14)),
    _math("sigmoid", "1 / (1 + exp(-x)).", ("Sigmoid", 13), emit="@sigmoid", ulp=3, cost=10),
)  # fmt: skip

_END = "; -0 for large negative x, where it is denormal."

PARTS = (
    _row("exp_shifted", 2, "e ** (x - y) times a number that depends on y alone, for x <= y: in float32 up to |y| = 2 ** 20 "
         "2 ** 64 e ** x / 2 ** round(y log2 e), so that no difference is rounded. Softmax divides such numbers by their sum.",
         JOIN_FLOAT, _emit(float="@exp_shifted"), ulp=2, traits="internal", cost=8),
    _row("exp_shifted_unchecked", 2, "exp_shifted, but any number where y is NaN.", JOIN_FLOAT,
         _emit(float="@exp_shifted_unchecked"), ulp=2, traits="internal", cost=8),
    _row("one_unless_below", 2, "1 where x = y, 0 where x < y; either where x - y is NaN.", JOIN_FLOAT,
         _emit(float="@one_unless_below"), traits="internal"),
    _row("where_below", 3, "x where y < z, 0 where y = z; either where y - z is NaN.", JOIN_FLOAT, _emit(float="@where_below"),
         traits="internal"),
    _math("x_phi", "x · Φ(x), Φ the normal distribution function" + _END, emit="@x_phi", ulp=12,
          traits="internal", cost=20),
    _math("x_sigmoid", "x · sigmoid(x)" + _END, emit="@x_sigmoid", ulp=4, traits="internal", cost=16),
    _math("x_sigmoid_quick", "x · sigmoid(1.702 x)" + _END, emit="@x_sigmoid_quick", ulp=4,
          traits="internal", cost=16),
    _math("x_sigmoid_tanh", "x · sigmoid(2 √(2/π) (x + 0.044715 x³))" + _END, emit="@x_sigmoid_tanh",
          ulp=5, traits="internal", cost=24),
    _math("atan_ratio", "The arctangent of x from 0 to 1, within 2 ulp; elsewhere any number, but NaN of NaN.",
          emit="@atan_ratio", ulp=2, traits="internal", cost=8),
    _row("div_approximate", 2, "x * (1 / y), within 2 ulp of x / y: cheap where y varies less than x. Composites use it.",
         JOIN_FLOAT, _emit(float="@div_approximate"), ulp=2, traits="internal", cost=3),
    _row("mul_bounded", 2, "x * y, where no product is NaN or infinite, and none larger than 2 ** exponent: a pass has found "
         "that out.", JOIN_FLOAT, _emit(float="arith.mulf"), traits="internal", attrs=("exponent",),
         demand=demands.bounded),
    _row("multiply_add", 3, "x * y + z, rounded once, as in products of matrices. Convolutions of single channels are made of "
         "it.", JOIN_FLOAT, _emit(float="math.fma"), ulp=1, traits="internal"),
    _row("contiguous", 1, "x, stored side by side: what reads it at several places, one after the other, reads memory.", JOIN,
         _numbers("@identity", "@identity", boolean="@identity"), traits="internal", cost=STORED),
    _row("sum_of_four", 5, "The first k products of a · w0 + b · w1 + c · w2 + d · w3, summed in int32: w0 … w3 are the bytes "
         "of the last operand, signed, from the lowest. Convolutions of single channels are sums of these.", JOIN,
         _emit(int="@sum_of_four"), traits="internal", attrs=("k",), demand=demands.four, cost=8),
)  # fmt: skip

ROWS = (*ARITHMETIC, *COMPARISONS, *LOGIC, *UNARY, *TYPE_CHANGES, *ACTIVATIONS, *PARTS)
