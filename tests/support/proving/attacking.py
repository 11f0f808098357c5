"""Writes kernels that try to make the prover wrong."""

from __future__ import annotations

from typing import Any

from .faulty import NUMBERS, Faulty, zeros

BLOCK = "tensor<4xi32>"
POINTERS = "tensor<4x!tt.ptr<i32>>"
LEAST, MOST = -(2**31), 2**31 - 1
PARAMETERS = "%x: !tt.ptr<i32>, %n: i32, %m: i32"
ATTACKS: dict[str, Faulty] = {}


def store(index: str, mask: str = "", value: str = "%c1", kind: str = "i32") -> str:
    """Stores at an index of %x."""
    more = f", {mask}" if mask else ""
    return f"\n  %at = tt.addptr %x, {index} : !tt.ptr<i32>, {kind}\n  tt.store %at, {value}{more} : !tt.ptr<i32>"


def store_lanes(index: str, mask: str = "", value: str = "%l") -> str:
    """Stores at a block of indices of %x."""
    more = f", {mask}" if mask else ""
    return (f"\n  %xs = tt.splat %x : !tt.ptr<i32> -> {POINTERS}\n  %at = tt.addptr %xs, {index} : {POINTERS}, {BLOCK}"
            f"\n  tt.store %at, {value}{more} : {POINTERS}")  # fmt: skip


def attack(
    name: str, body: str, extent: Any, n: int, m: int = 0, size: int | None = None, assume: tuple[str, ...] = (),
    prop: str = "bounds", grid: Any = 1, programs: int = 1, kind: str | None = None, parameters: str = PARAMETERS,
) -> None:  # fmt: skip
    """Adds a kernel with two numbers. extent: of %x; size: of the array in the launch, if extent is no number."""
    size = extent if size is None else size
    found = kind or {"bounds": "out-of-bounds", "races": "race"}[prop]
    launch = (programs, [zeros(size), n, m], found)
    ATTACKS[name] = Faulty(parameters, NUMBERS + "\n" + body, {"x": extent}, grid, prop, launch, assume)


def never(
    name: str, body: str, n: int, m: int = 0, assume: tuple[str, ...] = (), parameters: str = PARAMETERS
) -> None:
    """Adds a kernel whose %q seems never to hold; nothing is in the array that is then written."""
    attack(name, body + store("%c0", "%q"), 0, n, m, assume=assume, parameters=parameters)


def programs_meet(name: str, body: str, programs: int, kind: str = "race") -> None:
    """Adds a kernel in which two programs write to the element %i."""
    text = "  %p = tt.get_program_id x : i32\n" + body + store("%i", "", "%p")
    attack(name, text, 4096, 0, 0, 4096, (), "races", "grid_x", programs, kind)


__all__ = [
    "ATTACKS",
    "BLOCK",
    "LEAST",
    "MOST",
    "PARAMETERS",
    "POINTERS",
    "attack",
    "never",
    "programs_meet",
    "store",
    "store_lanes",
]
