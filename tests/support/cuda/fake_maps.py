"""Encodes tensor maps for the fake driver: maps that the real driver accepts, in the simulator's own format
of 128 bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from joinery.runtime.ptxsim.async_copies.tensor_maps import set_field

BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}
"""CUtensorMapDataType → bytes of an element."""
SIMULATED = {8: 9, 9: 10}
"""CUtensorMapDataType → tensormap.replace's code, where they differ."""


def encoded_map(
    element: int,
    address: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: int,
    promotion: int,
    fill: int,
) -> bytes | None:
    """Encodes a map; returns None for maps that the driver's documentation rules out."""
    rank = len(extents)
    if rank not in range(1, 6) or len(strides) != rank - 1 or len(box) != rank:
        return None
    row, span = box[0] * BYTES[element], {0: 1 << 30, 1: 32, 2: 64, 3: 128}[swizzle]
    if address % 16 or row % 16 or row > span or (fill and element < 6) or promotion not in range(4):
        return None
    if not all(0 < extent <= 1 << 32 for extent in extents) or not all(0 < extent <= 256 for extent in box):
        return None
    if not all(stride % 16 == 0 and 0 < stride < 1 << 40 for stride in strides):
        return None
    octets = np.zeros(128, np.uint8)
    fields = {
        "global_address": [address], "rank": [rank - 1], "elemtype": [SIMULATED.get(element, element)],
        "swizzle_mode": [swizzle], "fill_mode": [fill], "global_dim": extents, "global_stride": strides, "box_dim": box,
        "element_stride": [1] * rank,
    }  # fmt: skip
    for name, values in fields.items():
        for index, value in enumerate(values):
            set_field(octets, name, index, value)
    return octets.tobytes()
