"""Defines launch specializations: the facts about a launch that host code is specialized for. Kernels have few of them."""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ...tt.analysis.alias_sets import Groups

MULTIPLE = 16
"""Divisor looked for in addresses (bytes) and in numbers: the size of a short vector register."""


@dataclass(frozen=True, slots=True)
class LaunchSpecialization:
    """What a variant of the code may assume of its launches.

    groups: parameters that may alias.
    streaming: the launch moves more than the caches hold, so stores are nontemporal and loads are prefetched.
    multiples: parameters whose address or number is a multiple of 16; looked at for streaming only, where it pays.
    """

    groups: Groups = ()
    streaming: bool = False
    multiples: tuple[int, ...] = ()


GENERIC = LaunchSpecialization()
