"""Defines the tt operations that compute: the matrix product, float casts, and arithmetic that `arith` and
`math` lack."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from .. import types as t
from ..checks import BlockSizes, expect_axis, expect_block, expect_kind, expect_shape, expect_type, fail
from .attributes import (
    INPUT_PRECISIONS,
    NAN_PROPAGATION,
    ROUNDING_MODES,
    InputPrecision,
    NanPropagation,
    Rounding,
    enum_attr,
    enum_name,
)
from .constraints import MASK, SAME, written

IEEE = enum_attr(INPUT_PRECISIONS["ieee"])
NO_IMPRECISE_ACCUMULATION = enum_attr(0)


@irdl_op_definition
class DotOp(IRDLOperation):
    """d = a · b + c: (M, K) · (K, N), or a batch of such products along the first of three axes.

    `inputPrecision` says how f32 inputs may be narrowed. The sum is formed in the type of `c`, f32 at least.
    """

    name = "tt.dot"

    a = operand_def()
    b = operand_def()
    c = operand_def(SAME)
    d = result_def(written())
    inputPrecision = prop_def(IntegerAttr, default_value=IEEE)
    maxNumImpreciseAcc = prop_def(IntegerAttr, default_value=NO_IMPRECISE_ACCUMULATION)

    custom_directives = (InputPrecision,)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b `,` $c custom<InputPrecision>($inputPrecision) attr-dict "
        "`:` type($a) `*` type($b) `->` type($d)"
    )
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        a, b = expect_block(self, "a", self.a), expect_block(self, "b", self.b)
        if len(a) not in (2, 3):
            fail(self, f"a is {self.a.type}, expected rank 2, or 3 for a batch")
        if len(b) != len(a):
            fail(self, f"a has rank {len(a)} and b rank {len(b)}")
        if a[-1] != b[-2]:
            fail(
                self, f"a is {self.a.type} with K = {a[-1]} columns, b is {self.b.type} with K = {b[-2]} rows"
            )
        if a[:-2] != b[:-2]:
            fail(self, f"a has batch extent {a[0]} and b {b[0]}")
        expect_shape(self, "c", self.c.type, (*a[:-1], b[-1]), "rows of a, columns of b")
        expect_type(self, "result", self.d.type, self.c.type, "the type of c")
        self._verify_elements()
        if enum_name(INPUT_PRECISIONS, self.inputPrecision) is None:
            fail(self, f"unknown inputPrecision {self.inputPrecision.value.data}")

    def _verify_elements(self) -> None:
        a, b, c = (t.elem(value.type) for value in (self.a, self.b, self.c))
        if t.is_integer(a) != t.is_integer(c) or t.is_float(a) != t.is_float(c):
            fail(self, f"a has elements {a} and c {c}; both are integers or both are floats")
        if t.is_integer(a) != t.is_integer(b) or t.bit_width(a) != t.bit_width(b):
            fail(self, f"a has elements {a} and b {b}, expected the same kind and width")
        if t.bit_width(c) < t.bit_width(a):
            fail(self, f"c has elements {c}, narrower than those of a ({a})")


@irdl_op_definition
class FpToFpOp(IRDLOperation):
    """Converts between float types. A conversion to fewer bits names its rounding."""

    name = "tt.fp_to_fp"

    src = operand_def()
    result = result_def()
    rounding = opt_prop_def(IntegerAttr)

    custom_directives = (Rounding,)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src attr-dict custom<Rounding>($rounding) `:` type($src) `->` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_kind(self, "src", self.src.type, "float")
        expect_kind(self, "result", self.result.type, "float")
        expect_shape(self, "result", self.result.type, t.shape_of(self.src.type), "the shape of src")
        if self.rounding is None:
            if t.bit_width(self.result.type) < t.bit_width(self.src.type):
                fail(
                    self,
                    f"{t.elem(self.src.type)} to {t.elem(self.result.type)} loses bits and needs a rounding",
                )
        elif enum_name(ROUNDING_MODES, self.rounding) is None:
            fail(self, f"unknown rounding {self.rounding.value.data}")


class _BinaryOp(IRDLOperation):
    """Two operands and a result of one type."""

    x = operand_def(written())
    y = operand_def(SAME)
    result = result_def(SAME)

    assembly_format = "$x `,` $y attr-dict `:` type($x)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_kind(self, "x", self.x.type, "integer" if isinstance(self, MulhiUIOp) else "float")
        expect_type(self, "y", self.y.type, self.x.type, "the type of x")
        expect_type(self, "result", self.result.type, self.x.type, "the type of x")


@irdl_op_definition
class MulhiUIOp(_BinaryOp):
    """The upper half of the product of two unsigned integers."""

    name = "tt.mulhiui"


@irdl_op_definition
class ApproxDivFOp(_BinaryOp):
    """A quotient with an error of at most 2 ulp; the correctly rounded one will do."""

    name = "tt.approx_divf"


@irdl_op_definition
class PreciseDivFOp(_BinaryOp):
    """The correctly rounded quotient."""

    name = "tt.precise_divf"


@irdl_op_definition
class PreciseSqrtOp(IRDLOperation):
    """The correctly rounded square root."""

    name = "tt.precise_sqrt"

    x = operand_def(written())
    result = result_def(SAME)

    assembly_format = "$x attr-dict `:` type($x)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_kind(self, "x", self.x.type, "float")
        expect_type(self, "result", self.result.type, self.x.type, "the type of x")


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """min(max(x, lowest), highest). A NaN in x passes with `all`, and is replaced by `min` with `none`."""

    name = "tt.clampf"

    x = operand_def(SAME)
    min = operand_def(SAME)
    max = operand_def(SAME)
    propagateNan = prop_def(IntegerAttr)
    result = result_def(written())

    custom_directives = (NanPropagation,)
    assembly_format = (
        "$x `,` $min `,` $max `,` `propagateNan` `=` custom<NanPropagation>($propagateNan) attr-dict "
        "`:` type($result)"
    )
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        expect_kind(self, "x", self.x.type, "float")
        expect_type(self, "min", self.min.type, self.x.type, "the type of x")
        expect_type(self, "max", self.max.type, self.x.type, "the type of x")
        expect_type(self, "result", self.result.type, self.x.type, "the type of x")
        if enum_name(NAN_PROPAGATION, self.propagateNan) is None:
            fail(self, f"unknown propagateNan {self.propagateNan.value.data}")


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """How often each of the values 0 … bins - 1 occurs in a block; masked elements and other values are not counted."""

    name = "tt.histogram"

    src = operand_def(written())
    mask = opt_operand_def(MASK)
    result = result_def()

    assembly_format = "$src (`,` $mask^)? attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        expect_kind(self, "src", self.src.type, "integer")
        expect_kind(self, "result", self.result.type, "integer")
        if len(shape) != 1 or len(t.shape_of(self.result.type)) != 1:
            fail(self, f"src is {self.src.type} and result {self.result.type}; expected blocks of rank 1")
        if self.mask is not None:
            expect_type(self, "mask", self.mask.type, t.mask_type(self.src.type), "i1 of src's shape")


@irdl_op_definition
class SortOp(IRDLOperation):
    """The elements of a block along one axis in ascending order, as signed integers.

    Triton has no such operation, and sorts by shuffling; the host sorts lines by registers of them.
    """

    name = "tt.sort"

    src = operand_def(SAME)
    result = result_def(written())
    axis = prop_def(IntegerAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src attr-dict `:` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        expect_kind(self, "src", self.src.type, "integer")
        if t.bit_width(self.src.type) == 1:
            fail(self, f"src is {self.src.type}, of one bit; expected integers of 8 bits or more")
        expect_axis(self, self.axis.value.data, len(shape))
        expect_type(self, "result", self.result.type, self.src.type, "the type of src")


MAX_PRIME = 31
"""The largest prime factor of a length that is transformed: its steps are as many as it has pairs of numbers."""
TRANSFORMS = ("forward", "inverse", "real", "real_inverse")
"""The kinds of Fourier transforms: of complex numbers, and between real ones, as pairs, and half their transform."""


@irdl_op_definition
class FftOp(IRDLOperation):
    """The Fourier transforms of lines of complex numbers along one axis, with the sign of `kind`, divided by nothing.

    An element of i64 is the bits of a complex64, its real part the low ones; of f64, elements are real and imaginary parts by
    turns along the axis. `length` numbers are transformed. Where numbers are real, these are their pairs: "real" puts half
    their transform, length + 1 numbers, in their place, and "real_inverse" makes the pairs, times 2 · length, of such a half,
    of which the imaginary parts of both ends count for nothing. Elements beyond the results are undefined. Triton has no such
    operation.
    """

    name = "tt.fft"

    src = operand_def(SAME)
    result = result_def(written())
    axis = prop_def(IntegerAttr)
    kind = prop_def(StringAttr)
    length = prop_def(IntegerAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src attr-dict `:` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    @property
    def is_of_parts(self) -> bool:
        """Whether elements are the parts of numbers."""
        return t.elem(self.src.type) == t.F64

    @property
    def counts(self) -> tuple[int, int]:
        """How many elements of a line are read, and how many are defined in the result."""
        kind, length, size = self.kind.data, self.length.value.data, 1 + self.is_of_parts
        return (length + (kind == "real_inverse")) * size, (length + (kind == "real")) * size

    def verify_(self) -> None:
        shape, axis = expect_block(self, "src", self.src), self.axis.value.data
        if t.elem(self.src.type) not in (t.I64, t.F64):
            fail(self, f"src is {self.src.type}, expected a block of i64, each the bits of a complex64, or of f64")
        expect_axis(self, axis, len(shape))
        expect_type(self, "result", self.result.type, self.src.type, "the type of src")
        kind, length = self.kind.data, self.length.value.data
        if kind not in TRANSFORMS:
            fail(self, f"kind is {kind!r:.60}, expected one of {', '.join(TRANSFORMS)}")
        if not 1 <= length <= shape[axis] // (1 + self.is_of_parts) - kind.startswith("real"):
            fail(self, f"a transform of {length} numbers, of kind {kind}, along an axis of {shape[axis]} elements")
        rest = length
        for factor in range(2, MAX_PRIME + 1):
            while rest % factor == 0:
                rest //= factor
        if rest > 1:
            fail(self, f"a transform of {length} numbers; expected prime factors up to {MAX_PRIME}")


OPERATIONS: Sequence[type[Operation]] = (
    DotOp,
    FpToFpOp,
    MulhiUIOp,
    ApproxDivFOp, PreciseDivFOp,
    PreciseSqrtOp,
    ClampFOp,
    HistogramOp,
    SortOp,
    FftOp,
)
