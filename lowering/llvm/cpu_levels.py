"""Kinds of x86-64 processors that code can be made for on any of them: the levels of the System V ABI.

A level names the least that a processor has. Sizes of caches, by which blocks are cut, are fixed for a level: its code, and so
the last bit of its results, is the same wherever it is compiled and run.
"""

from __future__ import annotations

from ...promotion.errors import UserError
from ..target import HostTarget
from .compile import host_target

_SECOND = frozenset({
    "64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87", "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3",
})  # fmt: skip
_THIRD = _SECOND | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_FOURTH = _THIRD | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v3": (_THIRD, 32), "x86-64-v4": (_FOURTH, 64)}
"""Features and bytes of a vector, by name. Below the third level there are no fused multiply-adds, which code needs."""


def level_target(name: str, what: str) -> HostTarget:
    """Returns the target of a level, for a system such as this one. Raises `UserError` for no level, and off x86-64."""
    here = host_target()
    if name not in LEVELS or not here.triple.startswith("x86_64"):
        expected = f"{', '.join(LEVELS)} or none" if here.triple.startswith("x86_64") else "none: levels are those of x86-64"
        fix = "fix: one of these, or a GPU such as 'sm_80' for its device"
        raise UserError(f"{what}: target {name!r:.80} for a CPU; expected {expected}; {fix}")
    features, vector_bytes = LEVELS[name]
    return HostTarget(here.triple, name, features, vector_bytes)


def runs_level(target: HostTarget, here: HostTarget) -> bool:
    """Returns whether a processor runs the code of a level."""
    return target.triple == here.triple and target.features - _SECOND <= here.features


def fits(key: str, here: HostTarget) -> bool:
    """Returns whether code for a target's key is that of a level which a processor has."""
    named = key.split("|")[1] if key.count("|") == 3 else ""
    if named not in LEVELS or not here.triple.startswith("x86_64"):
        return False
    target = level_target(named, "load")
    return key == target.key and runs_level(target, here)
