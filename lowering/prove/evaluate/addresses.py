"""Has the rules of addresses as integers: what `tt.ptr_to_int` makes of a pointer, and `tt.int_to_ptr` of a number.

The address of a parameter's array is one unknown number for all programs, and one that is loaded is a number like others. A
pointer is known again where a number is, by its term, the address of an array and something in which no address has a part.
"""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from ...tt import types as t
from ..terms.formulas import Formula, equal, flags_of, polynomials_of
from ..terms.orders import Meaning
from ..terms.polynomials import Polynomial, variable
from .evaluator import Evaluator, Lanes, Rule
from .values import Integer, Pointer, Unknown, Value

_BITS = 64
_HALF = 1 << (_BITS - 1)


def _address(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns the address of a pointer, which is congruent to that of its array and the offset."""
    assert isinstance(ssa, OpResult)
    pointer = ev.value(ssa.op.operands[0], lanes)
    if not isinstance(pointer, Pointer) or pointer.base < 0 or t.bit_width(ssa.type) != _BITS:
        return None
    name = f"address({pointer.base})"  # no name of a parameter has parentheses
    begin = ev.terms.atom(("address", pointer.base), name, -_HALF, _HALF - 1, meaning=Meaning(target=pointer.base))
    return Integer(begin + pointer.offset, _BITS)


def _pointer(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value:
    """Returns the place behind an array that a number is the address of."""
    assert isinstance(ssa, OpResult)
    number = ev.value(ssa.op.operands[0], lanes)
    addresses = ev.terms.addresses
    if isinstance(number, Integer) and number.width == _BITS:
        for monomial, factor in number.value:
            if len(monomial) == 1 and monomial[0] in addresses and factor == 1:
                offset = number.value - variable(monomial[0])
                if not _has_address(ev, offset):
                    return Pointer(addresses[monomial[0]], offset)
    return Unknown("an address that is computed as an integer, or loaded")


def _has_address(ev: Evaluator, offset: Polynomial) -> bool:
    """Returns whether an address has a part in an offset, or in what defines it: it may lead into another array then."""
    terms = ev.terms
    atoms: set[int] = set()
    flags: set[int] = set()
    waiting: list[Formula] = [equal(offset, 0)]
    while waiting:
        formula = waiting.pop()
        new = {atom for found in polynomials_of((formula,)) for atom in found.atoms} - atoms
        if not new.isdisjoint(terms.addresses):
            return True
        atoms |= new
        waiting += [fact for atom in new for fact in terms.atoms[atom].facts]
        named = {*flags_of((formula,))} - flags
        flags |= named
        waiting += [fact for flag in named for fact in terms.flag_facts(flag)]
    return False


RULES: dict[str, Rule] = {"tt.ptr_to_int": _address, "tt.int_to_ptr": _pointer}
"""Rules by operation."""


__all__ = ["RULES"]
