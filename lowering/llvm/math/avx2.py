"""Instructions of AVX2 that elementary functions of float32 are made of: tables in registers, for lanes that fill one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..values import V
from . import registers
from .lanes import Lanes

FEATURES = frozenset({"avx2", "fma"})


def serves(lane: Lanes) -> bool:
    """Returns whether functions may be made of these instructions, whose results are not those of other targets."""
    return lane.element == "float" and not lane.portable and lane.fn.module.features >= FEATURES


def by_register(lane: Lanes, emit: Callable[..., V], *operands: V) -> V:
    """Returns `emit(lanes of one register, *operands)` for vectors of any length."""
    return registers.by_register(lane, 256, emit, *operands)


def look_up(lane: Lanes, numbers: Sequence[float], index: V) -> V:
    """Returns the number at each index, of which the lowest three bits count, of eight numbers."""
    (register,) = registers.table(lane, numbers)
    return lane.fn.target_intrinsic("llvm.x86.avx2.permps", [register, index], lane.type)
