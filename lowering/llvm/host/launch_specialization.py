"""What is known of a launch before its code is made. Kernels are compiled once per circumstances, which are few."""

from __future__ import annotations

from dataclasses import dataclass

from ...tt.analysis.aliasing import Groups

MULTIPLE = 16
"""Bytes that addresses, and numbers that sizes, are looked at for being multiples of: a short vector register's."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """groups: parameters that share memory.  streaming: the launch moves more than the caches hold, so stores go past them and
    loads are fetched ahead.  multiples: parameters whose address or number is a multiple of 16; looked at for streaming only,
    where it pays."""

    groups: Groups = ()
    streaming: bool = False
    multiples: tuple[int, ...] = ()


ORDINARY = Circumstances()
