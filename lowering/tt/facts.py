"""Attributes by which front ends and passes tell back ends what a function's text alone does not say.

docs/passes.md says what facts, results and permissions are; its tables are made from the texts below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DictionaryAttr, IntegerAttr, i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute

from .dialect.functions import FuncOp
from .types import is_pointer

# Facts of functions, and of parameters

PROGRAM_ORDER = "joinery.program_order"
"""On a function. False: no access of a launch touches memory that another one writes, unless one program does both at the same
elements in the order of the text, so that loads may be done late. True where it is absent."""
INDEX_BITS = "joinery.index_bits"
"""On a function: bits of the narrowest integers that addresses and bounds are computed in. 64: in i64, which no launch makes
wrap, and narrower integers are data. 32 where it is absent: i32 may be addresses, and may wrap."""
STOPPABLE = "joinery.stoppable"
"""On a function. False: it ends by itself and asserts nothing, so that it takes no address of status words. True where it is
absent."""
NOALIAS = "joinery.noalias"
"""Unit attribute of a pointer parameter: memory behind it that a launch writes is reached through no other parameter."""
DIVISIBILITY = "tt.divisibility"
"""Of a parameter: a power of two that divides its address (in bytes) or its value."""
FACTS = (PROGRAM_ORDER, INDEX_BITS, STOPPABLE, NOALIAS)
"""Attributes that must be true, and that nothing checks."""

# Results of passes

PIPELINED = "joinery.ahead"
"""Unit attribute of loads that can be done iterations before their uses (`mark-pipelined-loads`)."""
NON_NEGATIVE = "joinery.natural"
"""Unit attribute of divisions of blocks whose dividends are never negative (`non-negative-dividends`)."""
FEW_POINTERS = "joinery.few_pointers"
"""Of an scf.for: numbers of the carried blocks of pointers that stay what they are (`mark-few-pointers`)."""
RESULTS = (PIPELINED, NON_NEGATIVE, FEW_POINTERS)
"""Attributes that only passes set."""

# Permissions

APPROXIMATE, CONTRACT, RECIPROCAL = FastMathFlag.APPROX_FUNC, FastMathFlag.ALLOW_CONTRACT, FastMathFlag.ALLOW_RECIP
SHORT = "joinery.short"
"""Unit attribute of functions inside composites: a form with a small relative error, which strict numerics has too."""
WEIGHT = "joinery.weight"
"""Unit attribute beside it of exponentials that weight a sum and are divided out again: their absolute error counts."""
IN_RANGE = "joinery.tame"
"""Unit attribute of quotients of numbers from 0 to 2 by numbers from 1 to 2^24, and of 1 by numbers from 2^-40 to 2^120 (or of
and by NaN)."""
REDUCED = "joinery.reduced"
"""Unit attribute of `math.exp2` of float32 numbers in [-0.55, 0.55] (or NaN): what is left of an exponent after rounding it."""
ORDERED = "joinery.ordered"
"""Unit attribute of reductions, scans and products whose order is that of the pass `fix-order`."""
PORTABLE = "joinery.portable"
"""Unit attribute of functions whose form is the same on all targets."""
EXACT = "joinery.exact"
"""Of a `tt.dot` of float32: a type, "bf16" or "tf32", that has the significant bits and the exponents of its operands,
denormals aside."""
PERMISSIONS = (SHORT, WEIGHT, IN_RANGE, REDUCED, ORDERED, PORTABLE, EXACT)
"""Attributes that are part of what an operation means."""


def allows(attrs: Mapping[str, Any], flag: FastMathFlag) -> bool:
    """Whether an operation with these attributes (`syntax.attributes`) has a flag."""
    return flag in attrs.get("fastmath", ())


def is_in_program_order(function: FuncOp) -> bool:
    """Whether the order of a function's accesses can be observed."""
    return _is_true(function.attributes.get(PROGRAM_ORDER))


def is_stoppable(function: FuncOp) -> bool:
    """Whether launches of a function can be stopped, and so have status words."""
    return _is_true(function.attributes.get(STOPPABLE))


def index_bits(function: FuncOp) -> int:
    """Bits of the narrowest integers that may be addresses or bounds."""
    found = function.attributes.get(INDEX_BITS)
    return int(found.value.data) if isinstance(found, IntegerAttr) else 32


def alias_groups(function: FuncOp) -> tuple[tuple[int, int], ...]:
    """(parameter, group) pairs of the pointers that may lead to the same memory: all that do not say otherwise."""
    shared = [
        number
        for number, argument in enumerate(function.body.blocks[0].args)
        if is_pointer(argument.type) and NOALIAS not in parameter_attributes(function, number)
    ]
    return tuple([(number, shared[0]) for number in shared]) if len(shared) > 1 else ()


def state_facts_of_graphs(function: FuncOp) -> None:
    """State what holds of every block function that a graph is tiled into: nothing is read that the launch writes,
    indices are i64 and bounded by the sizes of buffers, and all loops end."""
    own = {PROGRAM_ORDER: BoolAttr.from_bool(False), INDEX_BITS: IntegerAttr(64, i32), STOPPABLE: BoolAttr.from_bool(False)}
    function.attributes = {**function.attributes, **own}


def parameter_attributes(function: FuncOp, number: int) -> Mapping[str, Attribute]:
    """The attributes of a parameter."""
    details = function.arg_attrs
    return {} if details is None else details.data[number].data


def set_parameter_attributes(function: FuncOp, attributes: list[dict[str, Attribute]]) -> None:
    """Give the parameters of a function these attributes in place of their own, one dictionary each."""
    if any(attributes):
        function.properties["arg_attrs"] = ArrayAttr(map(DictionaryAttr, attributes))
    else:
        function.properties.pop("arg_attrs", None)


def divisibility(function: FuncOp, number: int) -> int:
    """What the address or the value of a parameter is known to be a multiple of."""
    found = parameter_attributes(function, number).get(DIVISIBILITY)
    return max(1, int(found.value.data)) if isinstance(found, IntegerAttr) else 1


def _is_true(attribute: Attribute | None) -> bool:
    """Whether an i1 attribute is true, or absent."""
    return not isinstance(attribute, IntegerAttr) or bool(attribute.value.data)
