"""Defines the attributes by which front ends and passes tell back ends what a function's text alone does not
say.

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
"""Attribute of a function. False: no access of a launch touches memory that another one writes, unless one
program does both at the same elements in the order of the text, so that loads may be delayed. Absent means
true."""
INDEX_BITS = "joinery.index_bits"
"""Attribute of a function: bits of the narrowest integers in which addresses and bounds are computed. 64:
they are i64, which wraps in no launch, and narrower integers are data. Absent means 32: i32 may hold
addresses, and may wrap."""
STOPPABLE = "joinery.stoppable"
"""Attribute of a function. False: it terminates by itself and asserts nothing, so that it takes no address of
status words. Absent means true."""
NOALIAS = "joinery.noalias"
"""Unit attribute of a pointer parameter: memory behind it that a launch writes is reached through no other parameter."""
DIVISIBILITY = "tt.divisibility"
"""Attribute of a parameter: a power of two that divides its address (in bytes) or its value."""
MAX_DIVISIBILITY = 1 << 30
"""The largest divisor that is told apart: nothing is made of larger ones."""
LARGEST = "joinery.largest"
"""Attribute of an operation whose results are floats: n, where none is NaN, and none larger than 2^n."""
FACTS = (PROGRAM_ORDER, INDEX_BITS, STOPPABLE, NOALIAS, LARGEST)
"""Attributes that must be true, and that nothing checks."""

# Results of passes

PIPELINED = "joinery.pipelined"
"""Unit attribute of loads that can be done iterations before their uses (`mark-pipelined-loads`)."""
NON_NEGATIVE = "joinery.known_non_negative"
"""Unit attribute of divisions of blocks whose dividends are never negative (`non-negative-dividends`)."""
FEW_POINTERS = "joinery.few_pointers"
"""Attribute of an scf.for: numbers of the carried blocks of pointers that remain loop-carried
(`mark-few-pointers`)."""
RESULTS = (PIPELINED, NON_NEGATIVE, FEW_POINTERS)
"""Attributes that only passes set."""

# Permissions

APPROXIMATE, CONTRACT, RECIPROCAL = FastMathFlag.APPROX_FUNC, FastMathFlag.ALLOW_CONTRACT, FastMathFlag.ALLOW_RECIP
SHORT = "joinery.short"
"""Unit attribute of functions inside composites: a form with a small relative error, which strict numerics
uses too."""
WEIGHT = "joinery.weight"
"""Unit attribute, besides `joinery.short`, of exponentials that weight a sum and are divided by their own
sum: only their absolute error matters."""
IN_RANGE = "joinery.in_range"
"""Unit attribute of quotients of numbers from 0 to 2 by numbers from 1 to 2^24, and of 1 by numbers from
2^-40 to 2^120; either operand may be NaN."""
NOT_POSITIVE = "joinery.not_positive"
"""Unit attribute of exponentials of numbers that are at most 0, but for rounding, or NaN."""
REDUCED = "joinery.reduced"
"""Unit attribute of `math.exp2` of float32 numbers in [-0.55, 0.55] (or NaN): the remainder of an exponent
after rounding."""
ORDERED = "joinery.ordered"
"""Unit attribute of reductions, scans and products whose order is that of the pass `fix-order`."""
PORTABLE = "joinery.portable"
"""Unit attribute of functions whose form is the same on all targets."""
EXACT = "joinery.exact"
"""Attribute of a `tt.dot` of float32: a type, "bf16" or "tf32", that represents its operands exactly,
denormals aside."""
PERMISSIONS = (SHORT, WEIGHT, IN_RANGE, NOT_POSITIVE, REDUCED, ORDERED, PORTABLE, EXACT)
"""Attributes that are part of what an operation means."""


def allows(attrs: Mapping[str, Any], flag: FastMathFlag) -> bool:
    """Return whether an operation with these attributes (`syntax.attributes`) has a flag."""
    return flag in attrs.get("fastmath", ())


def is_in_program_order(function: FuncOp) -> bool:
    """Return whether the order of a function's accesses can be observed."""
    return _is_true(function.attributes.get(PROGRAM_ORDER))


def is_stoppable(function: FuncOp) -> bool:
    """Return whether launches of a function can be stopped, and so have status words."""
    return _is_true(function.attributes.get(STOPPABLE))


def index_bits(function: FuncOp) -> int:
    """Return the bits of the narrowest integers that may be addresses or bounds."""
    found = function.attributes.get(INDEX_BITS)
    return int(found.value.data) if isinstance(found, IntegerAttr) else 32


def alias_groups(function: FuncOp) -> tuple[tuple[int, int], ...]:
    """Return (parameter, group) pairs of the pointers that may lead to the same memory: all that are not
    `NOALIAS`."""
    shared = [
        number
        for number, argument in enumerate(function.body.blocks[0].args)
        if is_pointer(argument.type) and NOALIAS not in parameter_attributes(function, number)
    ]
    return tuple([(number, shared[0]) for number in shared]) if len(shared) > 1 else ()


def state_facts_of_graphs(function: FuncOp) -> None:
    """State the facts of every block function that a graph is tiled into: nothing is read that the launch
    writes, indices are i64 and bounded by the sizes of buffers, and all loops end."""
    own = {PROGRAM_ORDER: BoolAttr.from_bool(False), INDEX_BITS: IntegerAttr(64, i32), STOPPABLE: BoolAttr.from_bool(False)}
    function.attributes = {**function.attributes, **own}


def parameter_attributes(function: FuncOp, number: int) -> Mapping[str, Attribute]:
    """Return the attributes of a parameter."""
    details = function.arg_attrs
    return {} if details is None else details.data[number].data


def set_parameter_attributes(function: FuncOp, attributes: list[dict[str, Attribute]]) -> None:
    """Replace the attributes of a function's parameters, given one dictionary each."""
    if any(attributes):
        function.properties["arg_attrs"] = ArrayAttr(map(DictionaryAttr, attributes))
    else:
        function.properties.pop("arg_attrs", None)


def divisibility(function: FuncOp, number: int) -> int:
    """Returns a power of two, at most MAX_DIVISIBILITY, of which the address (in bytes) or the value of a
    parameter is a multiple, as the text states."""
    found = parameter_attributes(function, number).get(DIVISIBILITY)
    stated = int(found.value.data) if isinstance(found, IntegerAttr) else 1
    return min(stated & -stated, MAX_DIVISIBILITY) if stated > 0 else 1


def _is_true(attribute: Attribute | None) -> bool:
    """Return whether an i1 attribute is true, or absent."""
    return not isinstance(attribute, IntegerAttr) or bool(attribute.value.data)
