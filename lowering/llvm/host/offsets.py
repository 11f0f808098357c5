"""32-bit block offsets as affine forms.

Texts compute addresses in i32, which wraps. An affine form of i32 elements holds modulo 2^32; where it becomes an address or a
loop bound it must hold exactly. That is decided when all numbers are known, and checked once per block where they are not: a
program whose offsets pass 2^31 stops the launch instead of reading elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...tt.sources import source_place
from ..ir import V
from .nodes import Affine
from .scalars import is_constant
from .status import Site

if TYPE_CHECKING:
    from .kernel import KernelLowering

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def is_exact(k: KernelLowering, affine: Affine, op: Any, lowest: int = LOWEST) -> bool:
    """Whether the form gives its elements exactly, not only modulo 2^32: False if it is known not to; checked by the program
    where it is not known. `lowest`: 0 for elements that are read unsigned."""
    if affine.elem != "i32":
        return True
    numbers = [affine.base, *(c for c in affine.coefficients if c is not None)]
    if all(is_constant(v) for v in numbers):
        spans = [int(c.ref) * (n - 1) for c, n in zip(affine.coefficients, affine.shape, strict=True) if c is not None]
        base = int(affine.base.ref)
        low, high = base + sum(min(s, 0) for s in spans), base + sum(max(s, 0) for s in spans)
        return lowest <= low and high <= HIGHEST
    status = k.status
    if status is None:
        return False
    s = k.ev.s
    key = ("exact", str(lowest), affine.base.ref, *(c.ref if c else "-" for c in affine.coefficients), *map(str, affine.shape))
    if s.known(key) is not None:
        return True
    low_end, high_end = affine.base, affine.base
    below = lowest > LOWEST or affine.base.ref not in s.narrow
    for coefficient, extent in zip(affine.coefficients, affine.shape, strict=True):
        if coefficient is None or extent == 1:
            continue
        span = s.mul(coefficient, s.constant(extent - 1))
        if is_constant(span):
            if int(span.ref) < 0:
                low_end, below = s.add(low_end, span), True
            else:
                high_end = s.add(high_end, span)
        else:
            low_end, below = s.add(low_end, s.min(span, s.constant(0))), True
            high_end = s.add(high_end, s.max(span, s.constant(0)))
    conditions = []
    if high_end.ref not in s.narrow:
        conditions.append(k.f.icmp("sle", high_end, s.constant(HIGHEST)))
    if below:
        conditions.append(k.f.icmp("sge", low_end, s.constant(lowest)))
    if conditions:
        holds = conditions[0] if len(conditions) == 1 else k.f.binary("and", *conditions)
        message = f"the 32-bit offsets that {op.name} uses pass 2**31; fix: compute them in i64"
        status.stop_unless(holds, Site("overflow", message, source_place(op)), k.program, V("-1", "i64"))
    s.remember(key, V("true", "i1"))
    return True
