"""Checks what an op demands beyond dtypes that promote and shapes that fit, now or at launch.

Builders and the verifier call the same functions, so that a graph read from text meets the demands on a built
one. A demand is (operand dtypes after casts, operand shapes, attributes, checks) → None and raises
`ShapeError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dtype import DType, bool_, int32, int64
from ...promotion.errors import UserError
from ...promotion.literals import check_literal, is_scalar
from ..checks import Checks, ShapeError
from ..dims.dim import Dim, Extent, maximum, minimum
from ..types import Shape
from .attributes import Attributes
from .opdef import accumulator


def cast(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require dtypes that can be converted.

    A cast to its own dtype, which makes a weak value strong, always can.
    """
    for side in (dtypes[0], attrs["dtype"]):
        if side.storage_only and attrs["dtype"] is not dtypes[0]:
            raise ShapeError(f"values of {side} can be stored, viewed and bit-cast, but not converted")


def bitcast(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    source, target = dtypes[0], attrs["dtype"]
    if target.itemsize != source.itemsize or (
        target.bits != source.bits and "bool" not in (target.kind, source.kind)
    ):
        raise ShapeError(
            f"{source} has {source.bits} bits, {target} has {target.bits}",
            "dtypes of equal width",
            f"bitcast to uint{source.bits} first" if source.bits >= 8 else "cast instead",
        )


def four(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require int32, whose four bytes are factors, and no more than four products."""
    if dtypes[0] is not int32 or not 1 <= attrs["k"] <= 4:
        raise ShapeError(f"{attrs['k']} products in {dtypes[0]}", "1 to 4 products in int32")


def bounded(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require the exponent of a float32."""
    if not -149 <= attrs["exponent"] <= 127:
        raise ShapeError(f"a bound of 2 ** {attrs['exponent']}", "an exponent from -149 to 127")


def elements(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require elements along the reduced axes, except of bools: `any` and `all` of nothing exist."""
    if dtypes[0] is not bool_:
        nonempty(shapes[0], attrs["axes"], "reduction", checks)


def positions(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require elements along the reduced axes, also of bools: there is no position in nothing."""
    nonempty(shapes[0], attrs["axes"], "reduction", checks)


def nonempty(shape: Shape, axes: Sequence[int], op: str, checks: Checks) -> None:
    """Require elements along each of these axes, now or at launch; the other axes may be empty."""
    for axis in axes:
        extent = shape[axis]
        if isinstance(extent, Dim):
            checks.add(minimum(extent, 1), 1, f"{op}: axis {axis} must not be empty")
        elif extent == 0 and not checks.is_final:
            raise ShapeError(
                f"axis {axis} is empty", "at least one element", "reduce a non-empty axis, or pad first"
            )


def fill(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require that the value `pad` adds is a number of its dtype."""
    if not is_scalar(attrs["value"]):
        raise ShapeError("the value must be a Python scalar", "a number", "value=0")
    if attrs["mode"] == "constant":
        try:
            check_literal(attrs["value"], dtypes[0], "pad")
        except UserError as error:
            raise ShapeError(str(error).removeprefix("pad: ")) from None


def product(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require the accumulator that promotion decides, and reduced precision of float32 only."""
    if attrs["precision"] == "tf32" and dtypes[0].name not in ("float32", "tensor_float32"):
        raise ShapeError(f'precision="tf32" of {dtypes[0]} operands', "float32 operands", 'precision="ieee"')
    narrow = dtypes[0] is bool_ or (dtypes[0].is_integer and dtypes[0].bits <= 8)
    wanted = accumulator(int32 if narrow else dtypes[0])
    if attrs["accumulate"] is not wanted:
        raise ShapeError(f"products of {dtypes[0]} are accumulated in {wanted}, not {attrs['accumulate']}", f"{wanted}")


def scattered(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require values that are computed with, where updates are combined with elements."""
    if attrs["reduction"] != "none" and not dtypes[0].has_arithmetic:
        problem = f'values of {dtypes[0]} cannot be combined (reduction="{attrs["reduction"]}")'
        raise ShapeError(problem, "numbers", 'reduction="none", or cast')


def orderable(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require values that have an order, and few enough of them."""
    dtype = dtypes[0]
    if dtype.storage_only or not (dtype.is_bool or dtype.is_integer or dtype.is_float):
        raise ShapeError(f"values of {dtype} have no order", "bools, integers or floats", "sort something that stands for them")
    _few(shapes[0][attrs["axis"]], checks)


def sortable(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require signed integers that registers hold, and lines of a known length."""
    if dtypes[0] not in (int32, int64):
        raise ShapeError(f"elements of {dtypes[0]} in one program", "int32 or int64")
    if not isinstance(shapes[0][attrs["axis"]], int):
        raise ShapeError("a line of unknown length in one program", "a known length")


def sortable_lines(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    """Require signed integers that registers hold, side by side along the last axis."""
    if dtypes[0] not in (int32, int64):
        raise ShapeError(f"elements of {dtypes[0]} that are sorted where they lie", "int32 or int64")
    if attrs["axis"] != len(shapes[0]) - 1:
        raise ShapeError(f"lines along axis {attrs['axis']} of {len(shapes[0])}", "lines along the last axis")


def keys(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    wide = (int64,) if "k" in attrs else ()
    if dtypes[0] not in (int32, *wide):
        raise ShapeError(f"keys of {dtypes[0]}", "keys of int32" + " or int64" * len(wide))
    if attrs.get("axis", len(shapes[0]) - 1) != len(shapes[0]) - 1:
        raise ShapeError(f"keys along axis {attrs['axis']} of {len(shapes[0])}", "keys along the last axis")
    _few(shapes[0][-1], checks)


def _few(extent: Extent, checks: Checks) -> None:
    """Require at most 2^32 elements: positions have 32 bits while they are put in order."""
    if isinstance(extent, Dim):
        checks.add(maximum(extent, 1 << 32), 1 << 32, "sort: at most 2^32 elements are put in order")
    elif extent > 1 << 32:
        raise ShapeError(f"{extent} elements to put in order", "at most 2^32")
