"""Holds verdicts against runs of single programs at sizes near the ends of their types."""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Any

import joinery as jn
from joinery.lowering.prove.preparation import PreparedFunction, prepare
from joinery.lowering.prove.proof import Proof
from joinery.lowering.prove.prover import Prover
from joinery.lowering.prove.specify.expressions import evaluate, holds, parse_assumption
from joinery.lowering.prove.specify.specification import ParsedSpecification, Specification
from joinery.lowering.tt import types as t
from joinery.promotion.float_modes import default_modes

from .differential import MAKERS
from .recorded import MAX_BYTES, Touch, base_of, record, slice_of
from .witness import Terms, allow

PROVED = ("proven", "proven under", "never executed")
_PROGRAMS = 7


def _sizes(
    prepared: PreparedFunction, parsed: ParsedSpecification, rng: random.Random
) -> dict[str, int] | None:
    """Sizes near powers of two and small ones, if the assumptions allow them."""
    found: dict[str, int] = {}
    for name in dict.fromkeys([*prepared.numbers, *parsed.names()]):
        position = prepared.numbers.get(name)
        bits = 32 if position is None else t.bit_width(prepared.parameters[position].type)
        power = rng.choice(
            [bits - 1, bits - 1, bits - 1, bits - 2, bits // 2, 7, 4, 3, 31 if bits > 32 else bits - 1]
        )
        value = (1 << power) - rng.choice(
            [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, rng.randrange(1 << power)]
        )
        if rng.random() < 0.3:
            value = rng.randrange(18)
        if rng.random() < 0.05:
            value = -value
        value = min(max(value, -(1 << (bits - 1))), (1 << (bits - 1)) - 1)
        divisor = 1 if position is None else prepared.parameters[position].divisor
        found[name] = value // divisor * divisor  # as the text promises
    found |= {name: low for name, (low, high) in parsed.ranges().items() if low is not None and low == high}
    for name, equation in parsed.equations(prepared.numbers).items():
        value, position = evaluate(equation, found), prepared.numbers.get(name)
        bits = 64 if position is None else t.bit_width(prepared.parameters[position].type)
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            found[name] = value
    return found if parsed.holds(found) else None


def check(
    prepared: PreparedFunction, specification: Specification, proof: Proof, rng: random.Random, launches: int, tries: int = 0,
    values: int = 0,
) -> int:  # fmt: skip
    """Runs programs of launches that a specification allows, and asserts that they keep what is proven. Returns how many.

    values: how many values of each launch are held against their terms besides.
    """
    terms = Terms(prepared, specification) if values else None
    parsed = specification.parsed()
    done = 0
    for _ in range(tries or 25 * launches):
        sizes = _sizes(prepared, parsed, rng)
        if sizes is None or done >= launches:
            continue
        extents = {prepared.arrays[name]: evaluate(each, sizes) for name, each in parsed.extents.items()}
        if any(
            extent * prepared.parameters[at].element_size >= MAX_BYTES // 4 for at, extent in extents.items()
        ):
            continue
        ranges: dict[int, tuple[int, int]] = {}
        for name, (low, high) in parsed.ranges_of_contents(sizes).items():
            bits = t.bit_width(prepared.parameters[prepared.arrays[name]].type.pointee)  # type: ignore[attr-defined]
            half = 1 << (bits - 1)
            ranges[prepared.arrays[name]] = (
                max(-half, -half if low is None else low),
                min(half - 1, half - 1 if high is None else high),
            )
        if any(low > high for low, high in ranges.values()):
            continue
        x, y, z = [evaluate(axis, sizes) for axis in parsed.grid]
        if min(x, y, z) < 1:
            continue
        numbers = [
            None if each.is_array else sizes.get(each.name, rng.choice([0, 1]))
            for each in prepared.parameters
        ]
        seen: list[tuple[Any, ...]] | None = [] if values else None
        found = record(prepared, (x, y, z), _programs((x, y, z), rng), numbers, ranges, rng, seen)
        if found is None:
            continue
        done += 1
        if terms is not None and seen:
            bases = [base_of(at + 1) for at in range(len(numbers))]
            for op, program, its in rng.sample(seen, min(values, len(seen))):
                allow(terms, op, program, its, bases, sizes, rng)
        _compare(proof, sizes, extents, prepared, *found)
    return done


def _programs(grid: tuple[int, int, int], rng: random.Random) -> list[tuple[int, int, int]]:
    found: dict[tuple[int, int, int], None] = {}
    for _ in range(_PROGRAMS):
        one = [
            rng.choice(
                [
                    0,
                    1,
                    2,
                    n - 1,
                    n - 2,
                    n - 3,
                    n // 2,
                    (1 << 29) - 1,
                    1 << 29,
                    (1 << 28) + 1,
                    rng.randrange(n),
                ]
            )
            % n
            for n in grid
        ]
        found[one[0], one[1], one[2]] = None
        near = [min(each + rng.choice([0, 1]), n - 1) for each, n in zip(one, grid, strict=True)]
        found[near[0], near[1], near[2]] = None
    return list(found)[: _PROGRAMS + 3]


def _compare(
    proof: Proof,
    sizes: dict[str, int],
    extents: dict[int, int],
    prepared: PreparedFunction,
    touches: list[Touch],
    wrapped: Any,
) -> None:
    verdicts: dict[tuple[str, str], str] = {}
    for each in proof.accesses:
        if each.verdict in PROVED and all(holds(parse_assumption(text), sizes) for text in each.condition):
            verdicts[each.prop, each.line] = each.verdict
    lines = [access.line for access in prepared.accesses]
    clear = {line for line in lines if lines.count(line) == 1}

    def fault(prop: str, line: str, what: str) -> None:
        if line in clear:
            assert (prop, line) not in verdicts, (
                f"{prop} at {line}: {verdicts[prop, line]}, but {what}\n{sizes}\n{proof}"
            )

    bytes_: dict[tuple[int, int], list[Touch]] = {}
    for touch in touches:
        access, size = touch.access, touch.access.size
        for prop in ("bounds", "races"):
            assert verdicts.get((prop, access.line)) != "never executed" or access.line not in clear, (
                f"{access.line} ran\n{sizes}\n{proof}"
            )
        extent = extents.get(touch.array)
        if extent is not None:
            limit = extent * prepared.parameters[touch.array].element_size
            for offset in touch.offsets:
                if not 0 <= offset <= limit - size:
                    fault("bounds", access.line, f"byte {offset} of {limit}")
                if offset % size:
                    fault("bounds", access.line, f"byte {offset} is no multiple of {size}")
        seen: dict[int, Any] = {}
        for at, offset in enumerate(touch.offsets):
            if access.stored is not None and not access.is_atomic:
                value = touch.values[at]
                if offset in seen and seen[offset] != value and value == value:
                    fault("races", access.line, f"two lanes store at byte {offset}")
                seen[offset] = value
            for byte in range(offset, offset + size):
                bytes_.setdefault((touch.array, byte), []).append(touch)
    for (array, byte), own in bytes_.items():
        for at, one in enumerate(own[:40]):
            for two in own[at + 1 : 40]:
                if one.program == two.program or not (one.access.writes or two.access.writes):
                    continue
                if one.access.is_ordered and two.access.is_ordered and one.access.size == two.access.size:
                    continue
                lines = f"{one.access.line}, {two.access.line}"
                what = f"programs {one.program} and {two.program} meet at byte {byte} of array {array}: {lines}"
                fault("races", one.access.line, what)
                fault("races", two.access.line, what)
    if wrapped:
        for access in prepared.accesses:
            if ("overflow", access.line) in verdicts and not access.is_gather:
                bad = slice_of(access) & wrapped
                if bad:
                    fault("overflow", access.line, f"{next(iter(bad))} wraps")


def check_random(kind: str, seed: int, launches: int, limit: int = 200_000, values: int = 6) -> Counter[str]:
    """Proves a random kernel, and holds what is proven against launches of large sizes."""
    rng = random.Random(seed)
    subject = MAKERS[kind](rng)
    found: Counter[str] = Counter()
    try:
        kernel = jn.kernel.from_ttir(subject.text)
        specification = Specification.of(subject.assume, subject.extents, subject.grid)
        with default_modes():
            prepared = prepare(kernel._function)
            proof = Prover(prepared, specification, None, limit).prove(("bounds", "races", "overflow"))
            found["launches"] = check(prepared, specification, proof, rng, launches, values=values)
    except jn.UserError:
        found["refused"] += 1
        return found
    except AssertionError as error:
        raise AssertionError(f"{kind} {seed}: {error}\n{specification}\n{subject.text}") from None
    found["kernels"] += 1
    found["proven"] += sum(each.verdict in PROVED for each in proof.accesses)
    return found


def main() -> None:
    """Tries random kernels: which kind, the first seed, how many, launches of each."""
    kind, first, count, launches = sys.argv[1], *map(int, sys.argv[2:5])
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found += check_random(kind, seed, launches)
        except AssertionError as error:
            print(str(error)[:5000], flush=True)
            found["FAULT"] += 1
    print(dict(found))


if __name__ == "__main__":
    main()

__all__ = ["check", "check_random"]
