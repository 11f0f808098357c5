"""Computes small kernels for nearly all sizes by NumPy, and holds what is proven of them against that.

A value is an array of one row for each pair of sizes, and one column for each lane. Nothing of the interpreter, of the
sanitizer or of the prover has a part in it.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import joinery as jn
import numpy as np
from joinery.lowering.prove.preparation import prepare
from joinery.lowering.prove.proof import AccessVerdict, Proof
from joinery.lowering.prove.prover import Prover
from joinery.lowering.prove.specify.expressions import evaluate, holds, parse_assumption
from joinery.lowering.prove.specify.specification import ParsedSpecification, Specification
from joinery.promotion.float_modes import default_modes
from numpy.typing import NDArray

from .differential import LIMIT, PROVED
from .makers.small_counting import small_counting_kernel
from .makers.small_kernels import (
    Access,
    Binary,
    Constant,
    For,
    If,
    Lanes,
    Node,
    Program,
    Select,
    SmallKernel,
    While,
    Widened,
    small_kernel,
)

Values = NDArray[np.int64]
Flags = NDArray[np.bool_]
_PROPERTIES = ("bounds", "races", "termination of loops")
_SECOND = (-128, -127, -100, -5, -2, -1, *range(9), 15, 16, 17, 33, 64, 100, 126, 127)
_GRIDS = 5
_ITERATIONS = (260, 24, 8, 6)
"""Most iterations of loops in no, one and more other ones; sizes that need more are left out from there on."""


def _wrapped(value: Values) -> Values:
    return ((value + 128) & 255) - 128


def _unsigned(value: Values) -> Values:
    return value & 255


def _quotient(x: Values, y: Values) -> Values:
    found = np.abs(x) // np.where(y == 0, 1, np.abs(y))
    return np.where(y == 0, 0, np.where((x < 0) != (y < 0), -found, found))


def _rest(x: Values, y: Values) -> Values:
    return np.where(y == 0, x, x - _quotient(x, y) * y)


_COMPUTED: dict[str, Callable[[Values, Values], Values]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "divsi": _quotient, "remsi": _rest,
    "divui": lambda x, y: _quotient(_unsigned(x), _unsigned(y)), "remui": lambda x, y: _rest(_unsigned(x), _unsigned(y)),
    "minsi": np.minimum, "maxsi": np.maximum, "minui": lambda x, y: np.where(_unsigned(x) <= _unsigned(y), x, y),
    "maxui": lambda x, y: np.where(_unsigned(x) >= _unsigned(y), x, y), "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "shli": lambda x, y: np.where(_unsigned(y) < 8, x << np.minimum(_unsigned(y), 7), 0),
    "shrsi": lambda x, y: x >> np.minimum(_unsigned(y), 7),
    "shrui": lambda x, y: np.where(_unsigned(y) < 8, _unsigned(x) >> np.minimum(_unsigned(y), 7), 0),
}  # fmt: skip
_COMPARED: dict[str, Callable[[Values, Values], Flags]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_FLAGS = {"andi": np.logical_and, "ori": np.logical_or, "xori": np.logical_xor}
_WIDE: dict[str, Callable[[Values, int], Values]] = {
    "addi": lambda x, by: x + by, "subi": lambda x, by: x - by, "muli": lambda x, by: x * by, "shrsi": lambda x, by: x >> by,
    "shrui": lambda x, by: (x & 65535) >> by, "divsi": lambda x, by: _quotient(x, np.full_like(x, by)),
}  # fmt: skip


def _binary(node: Binary, x: Values, y: Values) -> NDArray[np.generic]:
    name = node.operation
    if node.is_flags:
        return _FLAGS[name](x, y)
    if name in ("eq", "ne"):
        return (x == y) == (name == "eq")
    if name[1:] in _COMPARED and name[0] in "su":
        view = _unsigned if name[0] == "u" else _wrapped
        return _COMPARED[name[1:]](view(x), view(y))
    return _wrapped(_COMPUTED[name](x, y))


class _Touch:
    """What an access did: by program, whether each element was touched by a lane, by sizes."""

    def __init__(self, node: Access, rows: int) -> None:
        self.node = node
        self.ran, self.outside, self.lanes = [np.zeros(rows, bool) for _ in range(3)]
        self.elements: dict[int, Flags] = {}


class Machine:
    """Runs the programs of a kernel for many sizes at once. Elements are from -128 to 127.

    Attributes:
        touches: by line, what accesses did.
        endless: for which sizes a loop that counts, outside all others, did not come to its end.
    """

    def __init__(self, subject: SmallKernel, sizes: dict[str, Values], extents: dict[str, Values]) -> None:
        self._subject = subject
        self._rows = len(sizes["n"])
        self._sizes = {f"%{name}": value[:, None] for name, value in sizes.items()}
        self._extents = {name: value[:, None] for name, value in extents.items()}
        self._depth = 0
        self._program = 0
        self.touches: dict[int, _Touch] = {}
        self.endless = np.zeros(self._rows, bool)

    def run(self, program: int, live: Flags) -> None:
        """Runs one program for the sizes that have it."""
        self._program = program
        self._block(self._subject.body, dict(self._sizes), live)

    def _block(self, body: Sequence[Node], values: dict[str, NDArray[np.generic]], live: Flags) -> Flags:
        """Runs statements, and returns for which sizes the end of them is reached."""
        for node in body:
            if not live.any():
                return live
            match node:
                case Constant(name, value):
                    values[name] = np.full((self._rows, 1), value)
                case Program(name):
                    values[name] = np.full((self._rows, 1), self._program)
                case Lanes(name):
                    values[name] = np.tile(np.arange(self._subject.lanes), (self._rows, 1))
                case Binary(name, _, left, right):
                    values[name] = _binary(node, values[left], values[right])
                case Select(name, condition, yes, no):
                    values[name] = (
                        np.where(values[condition], values[yes], values[no]) if condition else values[yes]
                    )
                case Widened(name, cast, operation, by, source):
                    wide = values[source] if cast == "extsi" else _unsigned(values[source])
                    values[name] = _wrapped(_WIDE[operation](wide, by))
                case Access():
                    self._access(node, values, live)
                case If(condition, yes, no):
                    flag = values[condition][:, 0]
                    live = self._block(yes, dict(values), live & flag) | self._block(
                        no, dict(values), live & ~flag
                    )
                case For() | While():
                    self._depth += 1
                    live = (self._for if isinstance(node, For) else self._while)(node, values, live)
                    self._depth -= 1
        return live

    def _for(self, node: For, values: dict[str, NDArray[np.generic]], live: Flags) -> Flags:
        counter, carried = values[node.low].copy(), values[node.start].copy()
        end, step = values[node.end], values[node.step]
        for _ in range(_ITERATIONS[self._depth - 1]):
            runs = live & (counter < end)[:, 0]
            if not runs.any():
                break
            own = {**values, node.counter: counter, node.carried: carried}
            through = self._block(node.body, own, runs)
            live = live & (~runs | through)
            runs = runs & through
            if runs.any():
                carried = np.where(runs[:, None], own[node.following], carried)
                counter = np.where(runs[:, None], _wrapped(counter + step), counter)
        goes_on = live & (counter < end)[:, 0]
        if self._depth == 1:
            self.endless |= goes_on
        values[node.result] = carried
        return live & ~goes_on

    def _while(self, node: While, values: dict[str, NDArray[np.generic]], live: Flags) -> Flags:
        numbers = [values[start].copy() for start in node.starts]
        runs, ended = live, np.zeros(self._rows, bool)
        for _ in range(_ITERATIONS[self._depth - 1]):
            own = {**values, **dict(zip(node.numbers, numbers, strict=True))}
            runs = self._block(node.before, own, runs)
            if not runs.any():
                break
            condition = own[node.condition][:, 0]
            ended |= runs & ~condition
            runs = runs & condition
            own = {**values, **dict(zip(node.passed, numbers, strict=True))}
            runs = self._block(node.body, own, runs)
            if not runs.any():
                break
            numbers = [
                np.where(runs[:, None], own[each], number)
                for each, number in zip(node.following, numbers, strict=True)
            ]
        values.update(zip(node.results, numbers, strict=True))
        return ended

    def _access(self, node: Access, values: dict[str, NDArray[np.generic]], live: Flags) -> None:
        index = values[node.index]
        mask = live[:, None] & (values[node.mask] if node.mask else True)
        index, mask = np.broadcast_arrays(index, mask)
        touch = self.touches.setdefault(node.line, _Touch(node, self._rows))
        touch.ran |= mask.any(axis=1)
        touch.outside |= (mask & ((index < 0) | (index >= self._extents[node.array]))).any(axis=1)
        elements = touch.elements.setdefault(self._program, np.zeros((self._rows, 256), bool))
        row, lane = np.nonzero(mask)
        elements[row, index[row, lane] + 128] = True
        if node.value and index.shape[1] > 1:
            value = np.broadcast_to(values[node.value], index.shape)
            for one in range(index.shape[1]):
                for two in range(one):
                    meet = mask[:, one] & mask[:, two] & (index[:, one] == index[:, two])
                    touch.lanes |= meet & (value[:, one] != value[:, two])


def _sizes(parsed: ParsedSpecification, rng: random.Random) -> tuple[list[dict[str, int]], list[int]]:
    """Returns the pairs of sizes that the assumptions allow, with all numbers of 8 bits for n; and their grids."""
    kept, grids = [], []
    for n in range(-128, 128):
        for m in _SECOND:
            sizes = {"n": n, "m": m, "grid_x": rng.randrange(_GRIDS + 1)}
            if parsed.holds(sizes):
                kept.append(sizes)
                grids.append(min(_GRIDS, evaluate(parsed.grid[0], sizes)))
    return kept, grids


def check(seed: int, make: Callable[[random.Random], SmallKernel] = small_kernel) -> Counter[str]:
    """Proves a small kernel, and holds the verdicts against what it does for all sizes that are tried.

    Returns how many of what was held against how many sizes; an assertion fails for a wrong proof.
    """
    rng = random.Random(seed)
    subject = make(rng)
    own = subject.kernel
    specification = Specification.of(own.assume, own.extents, own.grid)
    parsed = specification.parsed()
    kernel = jn.kernel.from_ttir(own.text)
    try:
        with default_modes():
            proof = Prover(prepare(kernel._function), specification, None, LIMIT).prove(_PROPERTIES)
    except jn.UserError:
        return Counter(refused=1)
    proven = [each for each in proof.accesses if each.verdict in PROVED]
    kept, grids = _sizes(parsed, rng) if proven else ([], [])
    if not kept:
        return Counter(kernels=1)
    sizes = {name: np.array([each[name] for each in kept]) for name in ("n", "m")}
    extents = {
        name: np.array([evaluate(size, each) for each in kept]) for name, size in parsed.extents.items()
    }
    machine = Machine(subject, sizes, extents)
    for program in range(max(grids)):
        machine.run(program, np.array(grids) > program)
    _compare(machine, proof, kept, f"seed {seed}\n{specification}\n{own.text}")
    return Counter(
        kernels=1, sizes=len(kept), held=len(proven), races=sum(each.prop == "races" for each in proven)
    )


def _compare(machine: Machine, proof: Proof, kept: Sequence[dict[str, int]], text: str) -> None:
    loops = [
        each for each in proof.accesses if each.prop == "termination of loops" and each.operation == "scf.for"
    ]
    for each in proof.accesses:
        if each.verdict in PROVED and each.prop != "termination of loops":
            touch = machine.touches.get(int(each.line.split(":")[1]))
            if touch is not None:
                _refute(each, _faults(machine, each, touch), kept, text)
    if loops and all(each.verdict == "proven" for each in loops):
        _refute(loops[0], machine.endless, kept, text)


def _faults(machine: Machine, verdict: AccessVerdict, touch: _Touch) -> Flags:
    """Returns for which sizes a verdict is wrong."""
    if verdict.verdict == "never executed":
        return touch.ran
    if verdict.prop == "bounds":
        return touch.outside
    found = touch.lanes.copy()
    for other in machine.touches.values():
        if other.node.array == touch.node.array and (other.node.value or touch.node.value):
            for one, first in touch.elements.items():
                for two, second in other.elements.items():
                    if one != two:
                        found |= (first & second).any(axis=1)
    return found


def _refute(verdict: AccessVerdict, faults: Flags, kept: Sequence[dict[str, int]], text: str) -> None:
    conditions = [parse_assumption(each) for each in verdict.condition]
    for row in np.flatnonzero(faults):
        if all(holds(each, kept[row]) for each in conditions):
            raise AssertionError(f"{verdict}\nis wrong for {kept[row]}\n{text}")


def main() -> None:
    """Tries small kernels: the first seed, how many, and "counters" for those of counters."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    make = small_counting_kernel if sys.argv[3:] == ["counters"] else small_kernel
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found += check(seed, make)
        except AssertionError as error:
            print(str(error)[:6000], flush=True)
            found["FAULT"] += 1
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["Machine", "check"]
