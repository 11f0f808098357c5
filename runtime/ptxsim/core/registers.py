"""Defines register files: one row of bits per register, over all lanes of a block."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....lowering.ptx.instructions import WIDTHS
from ....promotion.arrays import Array
from .types import UNSIGNED

_POISON = 0x5A5A5A5A5A5A5A5A
"""The bits of registers that nothing has written."""


class RegisterFile:
    """The registers of all functions of a kernel. `arrays` holds all arrays that belong to the current block."""

    def __init__(self, names: Iterable[tuple[tuple[str, str], str]], lanes: int) -> None:
        self.lanes = lanes
        groups: dict[int, list[tuple[str, str]]] = {}
        for key, type_ in names:
            groups.setdefault(WIDTHS[type_], []).append(key)
        self.rows: dict[tuple[str, str], Array] = {}
        self.arrays: list[Array] = []
        for width, keys in sorted(groups.items()):
            block = np.empty((len(keys), lanes * (width // 64 if width > 64 else 1)), UNSIGNED[min(width, 64)])
            self.arrays.append(block)
            self.rows.update(zip(keys, block, strict=True))
        self.carry = np.zeros(lanes, np.bool_)
        self.arrays.append(self.carry)

    def clear(self) -> None:
        for block in self.arrays:
            block.fill(
                False if block.dtype == np.bool_ else _POISON & ((1 << (8 * block.dtype.itemsize)) - 1)
            )
