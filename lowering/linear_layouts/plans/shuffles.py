"""Plans conversions inside a warp as rounds of one shuffle each.

In a round every lane offers one of its registers and reads what another lane offers. That is right only if all lanes that read
from one lane want the same register of it; where they do not, lanes are made to fetch different destination registers in the
same round, or the round is done twice.
"""

from __future__ import annotations

from dataclasses import field
from itertools import product

from ....promotion.dataclass import dataclass
from ..f2 import Span, combine, kernel, log2, units
from ..layout import LANE, REGISTER, LinearLayout
from ..levels import Moves
from ..linear import Condition, ThreadMap, table

REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class ShuffleRound:
    """A round: a lane offers source word `offered`, reads lane `source_lane`, and has destination word `kept` if `keep` holds.

    `kind`: "none" (it reads itself), "xor" (shfl.bfly: the own lane XOR `source_lane` at lane 0) or "idx". All maps are
    functions of the lane that acts.
    """

    kind: str
    offered: ThreadMap
    source_lane: ThreadMap
    kept: ThreadMap
    keep: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ShufflePlan:
    """The way from source words through rounds to destination words.

    A word is 2^packed registers, moved by one shuffle of at most 32 bits. `source_registers` names the registers that
    the words of the source are made of, `destination_registers` says for each register of the result which one of the
    fetched values it is.
    """

    packed: int
    source_registers: tuple[int, ...]
    destination_registers: tuple[int, ...]
    rounds: tuple[ShuffleRound, ...]

    def shuffles(self, element_bits: int) -> int:
        """Counts the shuffle instructions: 64-bit elements take two in each round."""
        registers = max(1, element_bits // REGISTER_BITS)
        return registers * sum(each.kind != "none" for each in self.rounds)

    @property
    def selects(self) -> int:
        """The number of selects of what to offer and where to keep it, a stage for each independent lane bit."""
        stages = 0
        for maps in ([each.offered for each in self.rounds], [each.kept for each in self.rounds]):
            stages += max((Span(each.lane).rank for each in maps), default=0)
        return stages * len(self.rounds)


@dataclass(slots=True)
class _Problem:
    """A conversion to be solved. Source positions are integers: the register in the low bits, the lane above."""

    registers: int  # bits of a source register
    per_register: list[int]
    per_lane: list[int]
    per_warp: list[int]
    copies: list[int]
    keeps: list[int] = field(default_factory=list)  # per lane bit: change of the destination register
    doubled: dict[int, int] = field(default_factory=dict)
    """Maps a lane bit to the mask whose parity says in which of two rounds a lane acts."""

    def lane(self, lane_register: int) -> int:
        return lane_register >> self.registers

    def register(self, lane_register: int) -> int:
        return lane_register & ((1 << self.registers) - 1)


def plan_shuffles(src: LinearLayout, dst: LinearLayout, moves: Moves, element_bits: int) -> ShufflePlan:
    """Plans the rounds of a conversion at lane level. Both layouts have unique registers, `moves` belongs to them."""
    packed = _packable(moves, log2(max(1, REGISTER_BITS // max(8, element_bits))))
    problem = _problem(src, moves, packed)
    _resolve(problem)
    rounds = []
    for source_word in range(1 << len(problem.per_register)):
        for choice in product((0, 1), repeat=len(problem.doubled)):
            rounds.append(_round(problem, source_word, choice))
    return ShufflePlan(
        packed, table(units(len(src[REGISTER]))), table(units(len(dst[REGISTER]))), tuple(rounds)
    )


def _packable(moves: Moves, limit: int) -> int:
    """Returns how many of the lowest register bits map to themselves and are touched by nothing else."""
    packed = 0
    while packed < min(limit, len(moves.register)):
        low = 1 << packed
        if moves.register[packed] != (low, 0, 0):
            break
        others = [*moves.register[packed + 1 :], *moves.lane, *moves.warp]
        if any(register & low for register, _, _ in others):
            break
        packed += 1
    return packed


def _problem(src: LinearLayout, moves: Moves, packed: int) -> _Problem:
    count = len(src[REGISTER]) - packed

    def pack(move: tuple[int, int, int]) -> int:
        return move[0] >> packed | move[1] << count

    columns = [*src[REGISTER][packed:], *src[LANE]]
    return _Problem(
        count,
        [pack(each) for each in moves.register[packed:]],
        [pack(each) for each in moves.lane],
        [pack(each) for each in moves.warp],
        kernel(columns),
        [0] * len(moves.lane),
    )


def _resolve(problem: _Problem) -> None:
    """Changes the map of lanes until lanes that read the same lane want the same register, or doubles the rounds."""
    lanes = Span(problem.lane(each) for each in problem.per_lane)
    clashes = list(lanes.free)
    resources = [*problem.per_register, *problem.copies]
    seen = Span()
    changes: list[tuple[int, int]] = []
    for index, (column, combination) in enumerate(clashes):
        if seen.add(problem.register(combine(problem.per_lane, combination))):
            change = (0, 0)
            for which, lane_register in enumerate(resources):
                if problem.lane(lane_register) not in lanes:
                    lanes.add(problem.lane(lane_register))
                    change = (lane_register, 1 << which if which < len(problem.per_register) else 0)
                    break
            else:
                problem.doubled[column] = 1 << column
            changes.append(change)
            continue
        # The same register as a combination of earlier columns: change it as they were, so that pure copies stay pure.
        earlier = seen.free[-1][1] ^ 1 << index
        lane_register = keep = 0
        for other in range(index):
            if earlier >> other & 1:
                lane_register, keep = lane_register ^ changes[other][0], keep ^ changes[other][1]
                if clashes[other][0] in problem.doubled:
                    problem.doubled[clashes[other][0]] |= 1 << column
        changes.append((lane_register, keep))
    for (column, _), (lane_register, keep) in zip(clashes, changes, strict=True):
        problem.per_lane[column] ^= lane_register
        problem.keeps[column] ^= keep


def _round(problem: _Problem, source_word: int, choice: tuple[int, ...]) -> ShuffleRound:
    # In a doubled round a lane that does not act follows the one that does, which differs from it in bit `column`.
    acting = [1 << bit for bit in range(len(problem.per_lane))]
    constant = 0
    for (column, mask), value in zip(problem.doubled.items(), choice, strict=True):
        constant ^= value << column
        for bit in range(len(acting)):
            if mask >> bit & 1:
                acting[bit] ^= 1 << column
    per_lane = [combine(problem.per_lane, each) for each in acting]
    start = combine(problem.per_lane, constant) ^ combine(problem.per_register, source_word)
    reads = tuple(problem.lane(each) for each in per_lane)
    offer = _offer(problem, per_lane)

    def offered(lane_register: int) -> int:
        return problem.register(lane_register) ^ combine(offer, problem.lane(lane_register))

    source = ThreadMap(problem.lane(start), reads, tuple(problem.lane(each) for each in problem.per_warp))
    identity = list(reads) == units(len(reads))
    still = identity and not source.constant and not any(source.warp)
    return ShuffleRound(
        "none" if still else "xor" if identity else "idx",
        ThreadMap(offered(start), tuple(offer), tuple(offered(each) for each in problem.per_warp)),
        source,
        ThreadMap(source_word, tuple(problem.keeps), (0,) * len(problem.per_warp)),
        tuple(
            Condition(value, lane=mask) for mask, value in zip(problem.doubled.values(), choice, strict=True)
        ),
    )


def _offer(problem: _Problem, per_lane: list[int]) -> list[int]:
    """Returns a linear map from lanes to registers that takes the lane of every position read to its register."""
    count = len(per_lane)
    span = Span([*(problem.lane(each) for each in per_lane), *units(count)])
    wanted = [problem.register(each) for each in per_lane] + [0] * count
    return [combine(wanted, span.coordinates(unit)) for unit in units(count)]
