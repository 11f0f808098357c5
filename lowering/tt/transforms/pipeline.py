"""The passes that a kernel from text goes through before it is lowered: a list, in order.

    inline ─ fast math ─ expand ─ canonicalize ─ cse ─ dce ─ expand descriptors ─ total ─ canonicalize ─ cse ─ dce ─
    softmax weights ─ contract ─ fix order ─ licm

A pass is a function that changes a `tt.func` in place. To add one, add a line to `PASSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ....promotion.errors import UserError
from ...gc_paused import gc_paused
from ..dialect.functions import FuncOp
from .cleanup.inline import inline_calls
from .expand.expand_arithmetic import expand_arithmetic
from .expand.expand_assembly import expand_inline_asm
from .expand.expand_control import expand_control
from .expand.expand_descriptors import expand_descriptors
from .expand.expand_library import expand_libdevice
from .expand.expand_maps import expand_map_elementwise
from .expand.expand_scaled_products import expand_dot_scaled
from .expand.legalize_division import legalize_division
from .folding import canonicalize, remove_dead, reuse_common
from .loops.licm import hoist_invariants
from .loops.mark_pipelined_loads import mark_loads
from .numerics.fast_math import allow_fast_math, contract_products
from .numerics.fix_order import fix_order
from .numerics.softmax_weights import mark_weights


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step; `summary` says in one line what it does."""

    name: str
    run: Callable[[FuncOp], None]
    summary: str


PASSES: tuple[Pass, ...] = (
    Pass("inline", inline_calls, "calls become the bodies of the functions they name"),
    Pass("fast-math", allow_fast_math, "with numerics='fast': float operations get the flags that allow what that allows"),
    Pass("expand-control", expand_control, "choices among many ways become choices between two, index numbers i64"),
    Pass("expand-arithmetic", expand_arithmetic, "sums with a carry, double products, integer powers become arithmetic"),
    Pass("expand-library", expand_libdevice, "library functions become arithmetic, as far as that goes"),
    Pass("expand-assembly", expand_inline_asm, "inline PTX becomes arithmetic"),
    Pass("expand-scaled-products", expand_dot_scaled, "tt.dot_scaled becomes scaled operands and tt.dot"),
    Pass("expand-maps", expand_map_elementwise, "tt.map_elementwise without branches becomes operations on blocks"),
    Pass("canonicalize", canonicalize, "constants are folded, operations with neutral operands removed"),
    Pass("cse", reuse_common, "equal values are computed once"),
    Pass("dce", remove_dead, "what nobody uses is removed"),
    Pass("expand-descriptors", expand_descriptors, "descriptors and block pointers become pointers, sizes and masks"),
    Pass("total", legalize_division, "integer operations that could trap are guarded"),
    Pass("canonicalize-expanded", canonicalize, "as canonicalize, for what the expansions wrote"),
    Pass("cse-expanded", reuse_common, "as cse"),
    Pass("dce-expanded", remove_dead, "as dce"),
    Pass("softmax-weights", mark_weights, "exponentials that are weights of an online softmax get a note that they are"),
    Pass("contract", contract_products, "products and sums that have the flag become fused multiply-adds"),
    Pass("fix-order", fix_order, "with numerics='reproducible': sums get a fixed order, functions a portable form"),
    Pass("licm", hoist_invariants, "what does not change in a loop is computed before it"),
    Pass("load-ahead", mark_loads, "loads that can be done turns before the products that read them get a note of it"),
)


_ONLY_FAST, _ONLY_REPRODUCIBLE = (allow_fast_math,), (fix_order,)
_NOT_REPRODUCIBLE = (mark_weights, contract_products)


def _applies(each: Pass, numerics: str) -> bool:
    if each.run in _ONLY_FAST:
        return numerics == "fast"
    if each.run in _ONLY_REPRODUCIBLE:
        return numerics == "reproducible"
    return numerics != "reproducible" or each.run not in _NOT_REPRODUCIBLE


BEFORE_DESCRIPTORS = "dce"
"""The pass after which `hoistable_descriptors` finds what `expand-descriptors` may keep."""


@gc_paused()
def run_passes(
    function: FuncOp,
    stop_after: str | None = None,
    watch: Callable[[Pass, FuncOp], object] | None = None,
    keep: Collection[int] = (),
    numerics: str = "strict",
    library: Collection[str] = (),
    along: Collection[int] = (),
) -> None:
    """Run the passes in order on a function, which is changed in place.

    Args:
        stop_after: the name of the last pass to run; None for all.
        watch: called after each pass.
        keep: numbers of descriptors that stay what they are, see `expand_descriptors`.
        along: numbers of descriptors of tensors whose last stride is 1, padded with zeros, see `expand_descriptors`.
        library: functions that stay calls of a device's library, see `expand_libdevice`.
        numerics: "fast" is what the pass "fast-math" is for. "reproducible" is what "fix-order" is for; it leaves out
            "softmax-weights" and "contract", which have different results on different targets.

    Raises `UserError` for a name that is no pass, and what the passes raise.
    """
    names = [each.name for each in PASSES]
    if stop_after is not None and stop_after not in names:
        raise UserError(f"no pass {stop_after!r}; the passes are {', '.join(names)}")
    for each in PASSES:
        if each.run is expand_descriptors:
            expand_descriptors(function, keep, along)
        elif each.run is expand_libdevice:
            expand_libdevice(function, library)
        elif _applies(each, numerics):
            each.run(function)
        if watch is not None:
            watch(each, function)
        if each.name == stop_after:
            break


__all__ = ["BEFORE_DESCRIPTORS", "PASSES", "Pass", "run_passes"]
