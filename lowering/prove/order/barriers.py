"""Says which barriers of a function order its accesses in what Triton makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from ...tt.dialect.functions import FuncOp, called_functions
from ...tt.dialect.hints import OLD_SPELLING
from ..preparation import PreparedFunction
from ..races.locks import is_barrier

_APART = ("tt.descriptor_", "tt.experimental_descriptor_", "ttng.")
"""Operations that other units than the program's threads carry out, for which these do not wait at a barrier."""
_DIVIDED = "tt.warp_specialize"
"""The attribute of a loop whose operations are divided among warps."""
_FLATTENED = "tt.flatten"
"""The attribute of a loop that becomes one with those inside, in whose body no barrier stands by itself then."""
_SCHEDULED = ("loop.", "tt.scheduled_")
"""The beginnings of attributes that give operations of a loop stages of their own: its iterations overlap, barriers or not."""
COUNTED = "scf.for"
"""The loops whose iterations overlap, where the compiler makes them so."""
_BLOCKS = "num-ctas"
"""The end of the attribute that says of how many blocks of threads a program is."""


def barriers_of(prepared: PreparedFunction) -> frozenset[Operation]:
    """Returns the barriers that accesses of one program do not pass, whichever way they are compiled.

    Loads of a loop that counts may be fetched iterations ahead, before barriers of the loop, too, wherever these stand in
    it; only loops that are compiled as they are written keep them back. So a barrier counts only if that is so of each such
    loop around it that has loads; of each one, where the text has a schedule.
    """
    if is_divided(prepared.original):
        return frozenset()
    written, any_loop = loops_as_written(prepared), _is_scheduled(prepared.original)
    return frozenset([
        op for op in prepared.function.walk()
        if is_barrier(op) and all(loop in written for loop in _counted_around(op, any_loop))
    ])  # fmt: skip


def loops_as_written(prepared: PreparedFunction) -> frozenset[Operation]:
    """Returns the loops that count of which no iteration's operations are done before those of an earlier one.

    These have a barrier in their own body. It is not known of barriers in functions that are called, nor of those in the
    spelling of versions whose loops were not looked at, nor of texts that say themselves which iterations overlap.
    """
    calls_one = any(is_barrier(op) for each in called_functions(prepared.original) for op in each.walk())
    is_flattened = any(_FLATTENED in op.attributes for op in _all_of(prepared.original))
    if calls_one or is_flattened or is_divided(prepared.original) or _is_scheduled(prepared.original):
        return frozenset()
    return frozenset([op for op in prepared.function.walk() if op.name == COUNTED and _stays(op)])


def is_divided(original: FuncOp) -> bool:
    """Returns whether other units than the threads, or some threads alone, carry out operations of a function."""
    return any(op.name.startswith(_APART) or _DIVIDED in op.attributes for op in _all_of(original))


def _is_scheduled(original: FuncOp) -> bool:
    """Returns whether a text says when operations of its loops are done."""
    return any(name.startswith(_SCHEDULED) for op in _all_of(original) for name in op.attributes)


def has_several_blocks(original: FuncOp) -> bool:
    """Returns whether a text says that a program is several blocks of threads, of which a barrier is one each."""
    around: Operation | None = original
    while around is not None:
        for name, value in around.attributes.items():
            is_one = isinstance(value, IntegerAttr) and value.value.data == 1
            if name.endswith(_BLOCKS) and not is_one:
                return True
        around = around.parent_op()
    return False


def _all_of(original: FuncOp) -> Iterator[Operation]:
    for function in (original, *called_functions(original)):
        yield from function.walk()


def _counted_around(op: Operation, without_loads: bool) -> Iterator[Operation]:
    """Yields the loops that count around an operation: those that load anything, or all."""
    around = op.parent_op()
    while around is not None:
        if around.name == COUNTED and (without_loads or any(each.name == "tt.load" for each in around.walk())):
            yield around
        around = around.parent_op()


def _stays(loop: Operation) -> bool:
    """Returns whether a barrier stands in the body of a loop itself."""
    return any(is_barrier(op) and OLD_SPELLING not in op.attributes for op in loop.regions[0].block.ops)


__all__ = ["COUNTED", "barriers_of", "has_several_blocks", "is_divided", "loops_as_written"]
