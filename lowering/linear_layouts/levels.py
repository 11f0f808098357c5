"""Finds how far a conversion between two layouts has to reach, and the map from destination to source positions.

src(C(x)) = dst(x). The test is exact also where layouts hold copies: a conversion stays inside the inner dims iff every
destination basis, with the source basis of the same outer bit taken off, lies in the span of the source's inner bases.
"""

from __future__ import annotations

from ...promotion.dataclass import dataclass
from .f2 import Span
from .layout import BLOCK, HARDWARE, LANE, REGISTER, WARP, LinearLayout

LEVELS = HARDWARE


@dataclass(frozen=True, slots=True)
class Moves:
    """The map C at the level `level`: the source registers and lanes of each destination bit; outer bits map to themselves.

    `register`, `lane`, `warp`: one (source register, source lane, source warp) per destination bit.
    """

    level: str
    register: tuple[tuple[int, int, int], ...]
    lane: tuple[tuple[int, int, int], ...]
    warp: tuple[tuple[int, int, int], ...]


def find_moves(src: LinearLayout, dst: LinearLayout) -> Moves:
    """Finds the lowest level at which every destination position can read its value, and from where.

    ValueError when the destination needs elements that the source does not hold.
    """
    check_pair(src, dst)
    if Span(src.columns(HARDWARE)).rank < Span([*src.columns(HARDWARE), *dst.columns(HARDWARE)]).rank:
        raise ValueError("the destination needs elements that the source does not hold")
    for count, level in enumerate(LEVELS[:-1], start=1):
        found = _moves_within(src, dst, LEVELS[:count])
        if found is not None:
            return Moves(level, found[REGISTER], found[LANE], found[WARP])
    return Moves(BLOCK, (), (), ())


def _moves_within(
    src: LinearLayout, dst: LinearLayout, inner: tuple[str, ...]
) -> dict[str, tuple[tuple[int, int, int], ...]] | None:
    span = Span(src.columns(inner))
    registers = Span(src[REGISTER])
    input_bits = src.input_bits(inner)
    found: dict[str, tuple[tuple[int, int, int], ...]] = {}
    for name in HARDWARE:
        moves = []
        for bit, basis in enumerate(dst[name]):
            target = basis
            position = dict.fromkeys(HARDWARE, 0)
            if name not in inner:
                own = src[name][bit] if bit < len(src[name]) else 0
                target ^= own
                if bit < len(src[name]):
                    position[name] = 1 << bit
            elif name == LANE and inner == (REGISTER, LANE) and bit < len(src[LANE]):
                near = registers.solve(target ^ src[LANE][bit])  # stay in the lane when a register suffices
                if near is not None:
                    moves.append((near, 1 << bit, 0))
                    continue
            combination = span.solve(target)
            if combination is None:
                return None
            for index, (dim, which) in enumerate(input_bits):
                if combination >> index & 1:
                    position[dim] ^= 1 << which
            moves.append((position[REGISTER], position[LANE], position[WARP]))
        found[name] = tuple(moves)
    return found


def check_pair(src: LinearLayout, dst: LinearLayout) -> None:
    """Raises ValueError unless both are distributed layouts of the same block on the same threads."""
    if src.shape != dst.shape:
        raise ValueError(f"the shapes differ: {src.shape} and {dst.shape}")
    for layout in (src, dst):
        unknown = [name for name in layout.dims if name not in HARDWARE]
        if unknown:
            raise ValueError(f"{unknown[0]} is no dim of a distributed layout")
    for name in (LANE, WARP, BLOCK):
        if len(src[name]) != len(dst[name]):
            raise ValueError(f"the layouts have {src.size(name)} and {dst.size(name)} {name}s")
