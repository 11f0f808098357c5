"""Defines launch specializations: the facts about a launch that host code is specialized for. Kernels have few of them."""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ...tt.analysis.alias_sets import Groups

MULTIPLE = 16
"""The divisor that addresses (bytes) and numbers are tested for: the size of a short vector register."""


@dataclass(frozen=True, slots=True)
class LaunchSpecialization:
    """The facts that a variant of the code may assume of its launches.

    groups: parameters that may alias.
    streaming: the launch moves more than the caches hold, so stores are nontemporal and loads are prefetched.
    multiples: parameters whose address or number is a multiple of 16; tested for streaming only, where it pays.
    checked: every access is compared with the memory behind its parameter, which such launches pass along (`memory/bounds.py`).
    """

    groups: Groups = ()
    streaming: bool = False
    multiples: tuple[int, ...] = ()
    checked: bool = False


GENERIC = LaunchSpecialization()
CHECKED = LaunchSpecialization(checked=True)
