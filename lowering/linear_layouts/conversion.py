"""Plans the conversion of a block from one distributed layout to another, as data.

The plan is the cheapest that reaches far enough: nothing, a renaming of registers, shuffles inside a warp, or shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError
from .f2 import Span
from .layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from .levels import Moves, find_moves
from .linear import ThreadMap, expand_unique, table, to_unique
from .plans.exchange import SharedExchange, plan_exchange, plan_warp_exchange
from .plans.shuffles import ShufflePlan, plan_shuffles


@dataclass(frozen=True, slots=True)
class Equal:
    """No conversion: the layouts are the same map."""

    @property
    def cost(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class RenamedRegisters:
    """Register r of the result is source register `sources[r]` XOR the bits that lane and warp flip (mostly none)."""

    sources: tuple[int, ...]
    flips: ThreadMap

    def source(self, register: int, lane: int = 0, warp: int = 0) -> int:
        return self.sources[register] ^ self.flips.at(lane, warp)

    @property
    def cost(self) -> int:
        """Number of selects: a stage over all registers for each independent flip."""
        return Span([*self.flips.lane, *self.flips.warp]).rank * len(self.sources)


Plan = Equal | RenamedRegisters | ShufflePlan | SharedExchange


@lru_cache(maxsize=1024)
def plan_conversion(src: LinearLayout, dst: LinearLayout, element_bits: int) -> Plan:
    """Plans how the values of a block in layout `src` get to where `dst` wants them.

    Shuffles need neither scratch nor a barrier; they are taken unless their number plus a quarter of their selects exceeds
    twice the memory instructions of an exchange through shared memory, plus 8 for its latency. UnsupportedError for a
    conversion between the blocks of a cluster.
    """
    if src.same_map(dst):
        return Equal()
    own, wanted = src.unique_registers(), dst.unique_registers()
    moves = find_moves(own, wanted)
    if moves.level == BLOCK or own[BLOCK] != wanted[BLOCK]:
        raise UnsupportedError("a layout conversion between the blocks of a cluster is not supported")
    if moves.level == REGISTER:
        return _rename(src, dst, moves)
    if moves.level == WARP:
        return plan_exchange(src, dst, element_bits)
    shuffles = plan_shuffles(own, wanted, moves, element_bits)
    shuffles = replace(
        shuffles,
        source_registers=tuple(expand_unique(src)[each] for each in shuffles.source_registers),
        destination_registers=to_unique(dst),
    )
    exchange = plan_warp_exchange(src, dst, element_bits)
    effort = shuffles.shuffles(element_bits) + shuffles.selects // 4
    return shuffles if effort <= 2 * exchange.instructions + 8 else exchange


def cost(plan: Plan, element_bits: int) -> int:
    """Returns a relative cost for choosing layouts: about the instructions issued, 25 for a barrier of the whole block."""
    if isinstance(plan, ShufflePlan):
        return plan.shuffles(element_bits) + plan.selects // 4
    if isinstance(plan, SharedExchange):
        return plan.instructions + (4 if plan.is_warp_local else 25)
    return plan.cost


def _rename(src: LinearLayout, dst: LinearLayout, moves: Moves) -> RenamedRegisters:
    expand = expand_unique(src)
    columns = [expand[register] for register, _, _ in moves.register]
    unique = table(columns)
    flips = ThreadMap(
        0,
        tuple(expand[register] for register, _, _ in moves.lane),
        tuple(expand[register] for register, _, _ in moves.warp),
    )
    return RenamedRegisters(tuple(unique[each] for each in to_unique(dst)), flips)


def is_warp_local(src: LinearLayout, dst: LinearLayout) -> bool:
    """Whether no value leaves its warp."""
    return find_moves(src, dst).level in (REGISTER, LANE)
