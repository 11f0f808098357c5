"""Small kernels with stores, loads and barriers in one program, and an oracle that enumerates lanes and addresses.

A kernel is a tree of statements, which becomes a text and, by rules of its own, what every lane touches in a launch: neither
the interpreter nor the sanitizer has a part in it. Two touches without a barrier between break the order if they are of one
element and one of them writes, as any thread may have a lane; but one thread does all stores and updates of scalars, in
the order of the text if they are in no loop whose iterations may overlap: one that counts, with no barrier in its own body.
Barriers of such a loop that has loads are none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import joinery as jn
import numpy as np

LANES = 32
"""Elements of a block: as many as one warp has threads."""
_BASE = 200
_SIZE = 1024
_MOST = 4


@dataclass(frozen=True)
class Touch:
    """A load, store or atomic addition at `base + lane * step + i * stride + n * times`, in lanes from `low` to below `high`.

    kind: "load", "store", "add" (nobody uses its result), "take" (its result is used), or "update" (adds 1 in place, by a load
        and a store). high: None: below n.
    is_used: whether anything is made of what is loaded, besides what is stored in place.
    """

    number: int
    kind: str
    is_scalar: bool = False
    step: int = 1
    stride: int = 0
    base: int = 0
    times: int = 0
    low: int = 0
    high: int | None = LANES
    is_used: bool = True


@dataclass(frozen=True)
class Barrier:
    pass


@dataclass(frozen=True)
class Loop:
    body: tuple[Statement, ...]
    has_condition: bool = False


@dataclass(frozen=True)
class Choice:
    """What runs where n is at least a number, and what runs elsewhere."""

    least: int
    yes: tuple[Statement, ...]
    no: tuple[Statement, ...]


Statement = Touch | Barrier | Loop | Choice


# Text


@dataclass
class _Writer:
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def number(self, value: int) -> str:
        name = self.new()
        self.lines.append(f"{name} = arith.constant {value} : i32")
        return name

    def binary(self, op: str, one: str, two: str, type_: str = "i32") -> str:
        name = self.new()
        self.lines.append(f"{name} = arith.{op} {one}, {two} : {type_}")
        return name

    def statements(self, body: Sequence[Statement], i: str) -> None:
        for each in body:
            match each:
                case Barrier():
                    self.lines.append("ttg.barrier all")
                case Touch():
                    self.touch(each, i)
                case Loop(inner, False):
                    name = self.new()
                    self.lines.append(f"scf.for {name} = %zero to %n step %one : i32 {{")
                    self.statements(inner, name)
                    self.lines.append("}")
                case Loop(inner, True):
                    self._while(inner)
                case Choice(least, yes, no):
                    holds = self.new()
                    bound = self.number(least)
                    self.lines.append(f"{holds} = arith.cmpi sge, %n, {bound} : i32")
                    self.lines.append(f"scf.if {holds} {{")
                    self.statements(yes, i)
                    self.lines.append("} else {")
                    self.statements(no, i)
                    self.lines.append("}")

    def _while(self, inner: Sequence[Statement]) -> None:
        """Writes a loop that has its statements before the condition, and counts behind it: it runs n times, and once more."""
        name, holds, after = self.new(), self.new(), self.new()
        self.lines.append(f"%w{self.count} = scf.while ({name} = %zero) : (i32) -> i32 {{")
        self.statements(inner, name)
        self.lines.append(f"{holds} = arith.cmpi slt, {name}, %n : i32")
        self.lines.append(f"scf.condition({holds}) {name} : i32\n}} do {{\n^bb0({after}: i32):")
        following = self.binary("addi", after, "%one")
        self.lines.append(f"scf.yield {following} : i32\n}}")

    def touch(self, touch: Touch, i: str) -> None:
        at = self.binary("muli", i, self.number(touch.stride))
        at = self.binary("addi", at, self.binary("muli", "%n", self.number(touch.times)))
        at = self.binary("addi", at, self.number(_BASE + touch.base))
        loc = f'loc("k":{touch.number}:1)'
        pointer, value = self.new(), self.new()
        if touch.is_scalar:
            self.lines.append(f"{pointer} = tt.addptr %x, {at} : !tt.ptr<i32>, i32")
            self._access(touch.kind, pointer, "!tt.ptr<i32>", "i32", "i1", "%n", "%true", value, loc)
            if touch.kind in ("load", "update") and touch.is_used:  # a block of it is other threads'
                self.lines.append(f"{self.new()} = tt.splat {value} : i32 -> tensor<{LANES}xi32>")
            return
        block, mask = f"tensor<{LANES}xi32>", f"tensor<{LANES}xi1>"
        pointers = f"tensor<{LANES}x!tt.ptr<i32>>"
        steps, places, starts, low, high = [self.new() for _ in range(5)]
        self.lines += [
            f"{steps} = arith.constant dense<{touch.step}> : {block}",
            f"{places} = arith.muli %lanes, {steps} : {block}",
            f"{starts} = tt.splat {at} : i32 -> {block}",
        ]
        index = self.binary("addi", places, starts, block)
        self.lines += [f"{pointer} = tt.addptr %xs, {index} : {pointers}, {block}"]
        self.lines.append(f"{low} = arith.constant dense<{touch.low}> : {block}")
        bound = f"tt.splat %n : i32 -> {block}" if touch.high is None else f"arith.constant dense<{touch.high}> : {block}"
        self.lines.append(f"{high} = {bound}")
        one, two = self.new(), self.new()
        self.lines.append(f"{one} = arith.cmpi sge, %lanes, {low} : {block}")
        self.lines.append(f"{two} = arith.cmpi slt, %lanes, {high} : {block}")
        live = self.binary("andi", one, two, mask)
        self._access(touch.kind, pointer, pointers, block, mask, "%lanes", live, value, loc)
        if touch.kind in ("load", "update") and touch.is_used:
            self.lines.append(f"{self.new()} = tt.expand_dims {value} {{axis = 0 : i32}} : {block} -> tensor<1x{LANES}xi32>")

    def _access(
        self, kind: str, pointer: str, pointers: str, block: str, masks: str, stored: str, mask: str, result: str, loc: str
    ) -> None:  # fmt: skip
        match kind:
            case "update":
                one, more = self.new(), self.new()
                number, live, other = ("1", "", "") if masks == "i1" else ("dense<1>", f", {mask}", ", %lanes")
                self.lines.append(f"{result} = tt.load {pointer}{live}{other} : {pointers} {loc}")
                self.lines.append(f"{one} = arith.constant {number} : {block}")
                self.lines.append(f"{more} = arith.addi {result}, {one} : {block}")
                self.lines.append(f"tt.store {pointer}, {more}{live} : {pointers} {loc}")
            case "load" if masks == "i1":
                self.lines.append(f"{result} = tt.load {pointer} : {pointers} {loc}")
            case "load":
                self.lines.append(f"{result} = tt.load {pointer}, {mask}, %lanes : {pointers} {loc}")
            case "store" if masks == "i1":
                self.lines.append(f"tt.store {pointer}, {stored} : {pointers} {loc}")
            case "store":
                self.lines.append(f"tt.store {pointer}, {stored}, {mask} : {pointers} {loc}")
            case _:
                types = f"({pointers}, {block}, {masks}) -> {block}"
                text = f"tt.atomic_rmw add, acq_rel, gpu, {pointer}, {stored}, {mask} : {types}"
                self.lines.append(f"{result} = {text} {loc}")
                if kind == "take":
                    self.lines.append(f"%used{self.count} = arith.addi {result}, {result} : {block}")


def kernel_of(body: Sequence[Statement]) -> jn.kernel.Kernel:
    """Returns the kernel of statements."""
    writer = _Writer()
    writer.statements(body, "%zero")
    text = "\n".join(writer.lines)
    return jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i32>, %n: i32) {{
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%true = arith.constant true
%lanes = tt.make_range {{end = {LANES} : i32, start = 0 : i32}} : tensor<{LANES}xi32>
%xs = tt.splat %x : !tt.ptr<i32> -> tensor<{LANES}x!tt.ptr<i32>>
{text}
tt.return
}}
""")


def prove(body: Sequence[Statement]) -> jn.kernel.Proof:
    """Returns the proof of the order of statements, for n from 0 to 4."""
    return kernel_of(body).prove(["0 <= n", f"n <= {_MOST}"], {"x": _SIZE}, 1, ("order",))


# Oracle


@dataclass(frozen=True)
class _Event:
    touch: Touch
    addresses: np.ndarray
    lanes: np.ndarray
    ahead: frozenset[tuple[int, ...]] = frozenset()
    """The loops around it whose iterations may overlap, by their places in the tree."""


def _loads(body: Sequence[Statement]) -> bool:
    for each in body:
        match each:
            case Touch(kind=kind) if kind in ("load", "update"):
                return True
            case Loop(inner) if _loads(inner):
                return True
            case Choice(_, yes, no) if _loads(yes) or _loads(no):
                return True
    return False


def _events(
    body: Sequence[Statement], n: int, i: int, waits: bool = True, path: tuple[int, ...] = (),
    ahead: frozenset[tuple[int, ...]] = frozenset(),
) -> Iterator[_Event | None]:  # fmt: skip
    """Yields what is touched in order, and None at barriers. waits: whether these keep back loads that are fetched ahead."""
    for number, each in enumerate(body):
        here = (*path, number)
        match each:
            case Barrier():
                if waits:
                    yield None
            case Touch():
                lanes = np.arange(1 if each.is_scalar else LANES)
                if not each.is_scalar:
                    lanes = lanes[(lanes >= each.low) & (lanes < (n if each.high is None else each.high))]
                step = 0 if each.is_scalar else each.step
                yield _Event(each, _BASE + each.base + lanes * step + i * each.stride + n * each.times, lanes, ahead)
            case Loop(inner, has_condition):
                inside = waits and (has_condition or Barrier() in inner or not _loads(inner))
                overlap = ahead if has_condition or Barrier() in inner else ahead | {here}
                for iteration in range(n + has_condition):
                    yield from _events(inner, n, iteration, inside, here, overlap)
            case Choice(least, yes, no):
                yield from _events(yes if n >= least else no, n, i, waits, (*here, n >= least), ahead)


_PARTS = {"load": "r", "store": "w", "update": "rw", "add": "a", "take": "t"}


def _conflict(one: _Event, two: _Event) -> bool:
    """Returns whether two events touch one element by two threads, in a way that may be seen."""
    if not (one.addresses[:, None] == two.addresses[None, :]).any():
        return False
    are_scalars = one.touch.is_scalar and two.touch.is_scalar and not one.ahead & two.ahead
    pairs = [(first, second) for first in _PARTS[one.touch.kind] for second in _PARTS[two.touch.kind]]
    return any(_clash(first, second, are_scalars) for first, second in pairs)


def _clash(one: str, two: str, are_scalars: bool) -> bool:
    if "r" in (one, two):
        return one != two
    return not are_scalars and one + two != "aa"


def _breaks_itself(event: _Event) -> bool:
    """Returns whether lanes of one touch that loads and stores meet, or anybody sees too late what was loaded."""
    if event.touch.kind != "update" or not len(event.addresses):
        return False
    return event.touch.is_used or len({*event.addresses}) < len(event.addresses)


def broken(body: Sequence[Statement]) -> set[int]:
    """Returns the numbers of touches that meet others in no order, in a launch with n from 0 to 4."""
    found: set[int] = set()
    for n in range(_MOST + 1):
        pending: list[_Event] = []
        for event in _events(body, n, 0):
            if event is None:
                pending.clear()
                continue
            if _breaks_itself(event):
                found.add(event.touch.number)
            for earlier in pending:
                if not {earlier.touch.number, event.touch.number} <= found and _conflict(earlier, event):
                    found |= {earlier.touch.number, event.touch.number}
            pending.append(event)
    return found


# Random kernels


def random_body(rng: random.Random) -> tuple[Statement, ...]:
    """Returns statements in which lanes meet now and then, with barriers now and then."""
    numbers = iter(range(1, 40))

    def touch() -> Touch:
        kinds = ["load", "load", "store", "store", "store", "add", "take"]
        kind = rng.choice(kinds if rng.random() < 0.2 else ["load", "load", "store", "store", "update"])
        is_scalar = rng.random() < 0.2
        step = rng.choice([1, 1, 1, 1, -1, 2]) if kind != "load" else rng.choice([1, 1, 1, -1, 2, 0])
        low, high = rng.choice([(0, LANES), (0, LANES), (0, 16), (16, LANES), (0, None), (3, 5)])
        base = rng.choice([0, 0, 0, 1, 31 if step < 0 else 32, 16, 40])
        stride, times = rng.choice([0, 0, 1, 32, 16]), rng.choice([0, 0, 0, 1])
        return Touch(next(numbers), kind, is_scalar, step, stride, base, times, low, high, rng.random() < 0.4)

    def statements(depth: int) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for _ in range(rng.randint(1, 3)):
            which = rng.random()
            if which < 0.55 or depth == 0:
                found.append(touch())
            elif which < 0.75:
                found.append(Barrier())
            elif which < 0.9:
                found.append(Loop(statements(depth - 1), rng.random() < 0.3))
            else:
                found.append(Choice(rng.randint(0, 3), statements(depth - 1), statements(depth - 1)))
        return tuple(found)

    return statements(2)


def disagreement(body: Sequence[Statement]) -> tuple[str, int, int]:
    """Returns what a proof says and the oracle does not, "" if nothing; how many touches are right, and proven of these."""
    wrong = broken(body)
    proof = prove(body)
    verdicts: dict[int, list[str]] = {}  # an update is two accesses, of which one alone may break the order
    for access in proof.accesses:
        verdicts.setdefault(int(access.line.split(":")[1]), []).append(access.verdict)
    right = proven = 0
    for number, its in verdicts.items():
        is_proven = all(each in ("proven", "proven under", "never executed") for each in its)
        right += number not in wrong
        proven += number not in wrong and is_proven
        if is_proven and number in wrong:
            return f"k:{number} is proven: {proof}", 0, 0
        if "refuted" in its and number not in wrong:
            return f"k:{number} is refuted: {proof}", 0, 0
    return "", right, proven


__all__ = ["Barrier", "Choice", "Loop", "Statement", "Touch", "broken", "disagreement", "prove", "random_body"]
