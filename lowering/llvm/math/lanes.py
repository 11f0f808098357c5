"""Arithmetic on float lanes: a thin notation over `ir.Function` for the inline math library.

`Lanes(fn, "<16 x float>")` has the matching integer and mask types; Python numbers become splat
constants, so an emitter reads like the formula it implements. It works for scalars and vectors of `float` and
`double`. Nothing here uses fast-math flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ....promotion.errors import InternalError
from .. import values
from ..ir import Function
from ..values import V, const, i32

Number = V | float
_X86 = frozenset({"sse2", "avx", "avx2", "avx512f"})


class Lanes:
    """Emits operations on values of one float type, and on integers and masks of the same number of lanes."""

    __slots__ = ("element", "fn", "integer", "mantissa_bits", "mask", "n", "not_positive", "portable", "type", "width")

    def __init__(self, fn: Function, type_: str, portable: bool = False, not_positive: bool = False) -> None:
        """Begins arithmetic on a lane type.

        portable: use no instruction that only some targets have, so that all of them give the same bits.
        not_positive: the operand of an exponential is at most 0, but for rounding, or NaN.
        """
        self.fn = fn
        self.portable = portable
        self.not_positive = not_positive
        self.type = type_
        self.element = values.element(type_)
        if self.element not in ("float", "double"):
            raise InternalError(f"lane arithmetic is defined for float and double, not {type_}")
        self.n = values.lanes(type_)
        self.width = 32 if self.element == "float" else 64
        self.mantissa_bits = 23 if self.element == "float" else 52
        self.integer = values.vector(f"i{self.width}", self.n)
        self.mask = values.vector("i1", self.n)

    # -- constants ----------------------------------------------------------

    def c(self, value: Number) -> V:
        """Returns a value of the lane type; a Python number becomes a constant."""
        return value if isinstance(value, V) else values.const(value, self.type)

    def ci(self, value: V | int) -> V:
        return value if isinstance(value, V) else values.const(value, self.integer)

    # -- float arithmetic ---------------------------------------------------

    def add(self, a: Number, b: Number) -> V:
        return self.fn.binary("fadd", self.c(a), self.c(b))

    def sub(self, a: Number, b: Number) -> V:
        return self.fn.binary("fsub", self.c(a), self.c(b))

    def mul(self, a: Number, b: Number) -> V:
        return self.fn.binary("fmul", self.c(a), self.c(b))

    def div(self, a: Number, b: Number) -> V:
        return self.fn.binary("fdiv", self.c(a), self.c(b))

    def fma(self, a: Number, b: Number, c: Number) -> V:
        """Computes a * b + c, rounded once."""
        return self.fn.fma(self.c(a), self.c(b), self.c(c))

    @property
    def scales(self) -> bool:
        """Whether the processor multiplies floats of this many lanes by powers of two in one instruction."""
        features = self.fn.module.features
        fits = self.element == "float" and self.n in (4, 8, 16, 32)
        return fits and not self.portable and {"avx512f", "avx512vl"} <= features

    @property
    def is_ptx(self) -> bool:
        """Whether the code is for one thread of a GPU, and may use its own instructions for functions."""
        return not self.portable and "ptx" in self.fn.module.features and self.element == "float" and self.n == 1

    def scalef(self, a: V, exponent: V, where: V) -> V:
        """Computes a · 2^⌊exponent⌋, rounded once, with overflow to infinity; 0 in lanes outside of the mask.

        Only where `scales`.
        """
        f, n = self.fn, self.n
        if n == 32:
            half = Lanes(f, values.vector("float", 16))
            parts = [[f.shuffle(v, v, part) for v in (a, exponent, where)] for part in (range(16), range(16, 32))]
            return f.shuffle(half.scalef(*parts[0]), half.scalef(*parts[1]), range(32))
        bits = max(n, 8)
        mask = f.bitcast(where if n == bits else f.shuffle(where, values.zero(where.type), range(bits)), f"i{bits}")
        rounding = [i32(4)] if n == 16 else []  # 4: the current rounding mode
        name = f"llvm.x86.avx512.mask.scalef.ps.{32 * n}"
        return f.target_intrinsic(name, [a, exponent, values.zero(self.type), mask, *rounding], self.type)

    def from_limit(self, x: V, lowest: float, power: Callable[[V], V]) -> V:
        """Computes a power of x that is 0 below the limit.

        A product that is denormal, or 0 for being too small, takes an x86 processor 150 cycles, in whichever lane it is: a
        row of which masks make half -inf took seven times as long.
        """
        if not self.fn.module.features & _X86:
            return power(self.at_least(x, lowest))
        counts = self.cmp("uge", x, lowest)  # NaN does
        return self.select(counts, power(self.select(counts, x, 0.0)), 0.0)

    def neg(self, a: V) -> V:
        return self.fn.fneg(a)

    def abs(self, a: V) -> V:
        return self.fn.intrinsic("fabs", [a])

    def sqrt(self, a: V) -> V:
        return self.fn.intrinsic("sqrt", [a])

    def floor(self, a: V) -> V:
        return self.fn.intrinsic("floor", [a])

    def copysign(self, magnitude: Number, sign: V) -> V:
        f = self.fn
        if "ptx" in f.module.features:
            return f.intrinsic("copysign", [self.c(magnitude), sign])
        # By bits: where the result is rounded to float16, LLVM would also round the number that gives the
        # sign, possibly a double, by a function of its runtime.
        integer, top = self.integer, self.width - 1
        value, other = f.bitcast(self.c(magnitude), integer), f.bitcast(sign, integer)
        high = const(-1 << top, integer)
        kept = f.binary("and", value, const((1 << top) - 1, integer))
        return f.bitcast(f.binary("or", kept, f.binary("and", other, high)), self.type)

    def poly(self, x: V, coefficients: Sequence[float]) -> V:
        """Evaluates a polynomial by Horner's scheme with fused steps; coefficients from the constant term up."""
        value = self.c(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fma(value, x, coefficient)
        return value

    def chains(self, x: V, coefficients: Sequence[float], square: V | None = None) -> V:
        """Evaluates a polynomial by its even and odd powers, one step more than `poly`, as two chains that overlap."""
        square = self.mul(x, x) if square is None else square
        return self.fma(self.poly(square, coefficients[1::2]), x, self.poly(square, coefficients[::2]))

    def at_most(self, x: V, limit: float) -> V:
        """Computes min(x, limit), where NaN stays; x86 makes it one instruction, unlike `llvm.minimum`."""
        if self.is_ptx and self.type == "float":
            return self.fn.intrinsic("minimum", [x, self.c(limit)])
        return self.select(self.cmp("ogt", x, limit), limit, x)

    def capped(self, x: V, limit: float) -> V:
        """Computes min(x, limit) for the operand of an exponential, where NaN stays."""
        return x if self.not_positive else self.at_most(x, limit)

    def at_least(self, x: V, limit: float) -> V:
        if self.is_ptx and self.type == "float":
            return self.fn.intrinsic("maximum", [x, self.c(limit)])
        return self.select(self.cmp("olt", x, limit), limit, x)

    # -- comparison ---------------------------------------------------------

    def cmp(
        self,
        predicate: Literal["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "uno", "une", "uge", "ult"],
        a: Number,
        b: Number,
    ) -> V:
        return self.fn.fcmp(predicate, self.c(a), self.c(b))

    def select(self, condition: V, a: Number, b: Number) -> V:
        return self.fn.select(condition, self.c(a), self.c(b))

    def both(self, a: V, b: V) -> V:
        return self.fn.binary("and", a, b)

    def either(self, a: V, b: V) -> V:
        return self.fn.binary("or", a, b)

    def any(self, mask: V) -> V:
        """Returns one i1: whether any lane of the mask is set."""
        return mask if self.n == 1 else self.fn.intrinsic("vector.reduce.or", [mask], "i1")

    # -- bits ---------------------------------------------------------------

    def bits(self, a: V) -> V:
        return self.fn.bitcast(a, self.integer)

    def float_of(self, bits: V) -> V:
        return self.fn.bitcast(bits, self.type)

    def iop(self, opcode: str, a: V | int, b: V | int) -> V:
        """Emits an integer instruction on lanes of the same width: add, sub, and, or, xor, shl, lshr, ashr."""
        return self.fn.binary(opcode, self.ci(a), self.ci(b))

    # -- error-free transformations (Dekker, Knuth; with FMA) ------------------

    def fast_two_sum(self, a: Number, b: Number) -> tuple[V, V]:
        """Returns (s, e) with s = fl(a + b) and s + e = a + b exactly; needs |a| >= |b| or a == 0."""
        s = self.add(a, b)
        return s, self.sub(b, self.sub(s, a))

    def two_sum(self, a: Number, b: Number) -> tuple[V, V]:
        s = self.add(a, b)
        t = self.sub(s, a)
        return s, self.add(self.sub(a, self.sub(s, t)), self.sub(b, t))

    def two_product(self, a: Number, b: Number) -> tuple[V, V]:
        p = self.mul(a, b)
        return p, self.fma(a, b, self.neg(p))

    # -- other types ----------------------------------------------------------

    def wide(self) -> Lanes:
        """Returns the same lanes in double."""
        return Lanes(self.fn, values.vector("double", self.n), self.portable)

    def widen(self, a: V) -> V:
        return self.fn.cast("fpext", a, values.vector("double", self.n))

    def narrow(self, a: V) -> V:
        """Rounds double to float, to nearest even."""
        return self.fn.cast("fptrunc", a, values.vector("float", self.n))
