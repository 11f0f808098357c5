"""Encodes tensor maps, the descriptors that TMA copies read, from a kernel's `TensorMap` and the sizes of a launch.

Every tensor that the driver would reject is found here first, with an error that says what is wrong. Source: NVIDIA, "CUDA
Driver API", "Tensor Map Object Management".
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lowering.artifact import TensorMap
from ...promotion.dtype import BY_MLIR_NAME
from ...promotion.errors import InternalError, UserError
from .driver import Driver

MULTIPLE = 16
"""Addresses and strides must be multiples of this many bytes."""
MAX_STRIDE = 1 << 40
MAX_EXTENT = 1 << 32
MAX_BOX = 256
FIRST_CAPABILITY = 90

# CUtensorMapDataType
_TYPES = {"i8": 0, "i16": 1, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2_128_BYTES = 2
_FILL_ZERO, _FILL_NAN = 0, 1


def encode_map(
    driver: Driver, spec: TensorMap, address: int, extents: Sequence[int], strides: Sequence[int], pads_with_nan: bool
) -> int:
    """Returns the 128 bytes of a map as a little-endian integer. Extents and strides (in elements) are
    outermost first.

    Raises `UserError` for tensors that no map can describe; the error says what would have to be different.
    """
    element = "i8" if spec.element.startswith("f8") else spec.element
    fits = len(extents) == len(strides) == spec.rank == len(spec.box)
    if element not in _TYPES or spec.swizzle not in _SWIZZLES or not fits:
        raise InternalError(f"a tensor map of {spec} for extents {tuple(extents)} and strides {tuple(strides)}")
    size = BY_MLIR_NAME[element].itemsize
    problem = _problem(spec, size, element, address, extents, [stride * size for stride in strides], pads_with_nan)
    if problem:
        raise UserError(
            f"a tensor of shape {tuple(extents)} with strides {tuple(strides)} at {address:#x} has no tensor map: {problem}"
        )
    octets = driver.cuTensorMapEncodeTiled(
        _TYPES[element],
        address,
        list(reversed(extents)),
        [stride * size for stride in reversed(strides[:-1])],
        list(reversed(spec.box)),
        _SWIZZLES[spec.swizzle],
        _L2_128_BYTES,
        _FILL_NAN if pads_with_nan else _FILL_ZERO,
    )
    return int.from_bytes(octets, "little")


def _problem(
    spec: TensorMap,
    size: int,
    element: str,
    address: int,
    extents: Sequence[int],
    strides: Sequence[int],
    pads_with_nan: bool,
) -> str:
    """Returns why the driver would reject the tensor; empty if it would not. Strides are in bytes."""
    row = spec.box[-1] * size
    checks = [
        (not 1 <= spec.rank <= 5, f"{spec.rank} axes; fix: 1 to 5"),
        (address <= 0 or address % MULTIPLE != 0, f"its address is no multiple of {MULTIPLE}; fix: start it at one that is"),
        (strides[-1] != size, "its last stride is not 1; fix: a copy of it in row-major order"),
        (
            any(stride % MULTIPLE for stride in strides[:-1]),
            f"strides of {tuple(strides[:-1])} bytes are not all multiples of {MULTIPLE}; fix: pad its rows",
        ),
        (
            not all(0 < stride < MAX_STRIDE for stride in strides[:-1]),
            f"strides of {tuple(strides[:-1])} bytes; fix: above 0 and below 2**40",
        ),
        (not all(0 < extent <= MAX_EXTENT for extent in extents), "its extents; fix: from 1 to 2**32"),
        (not all(0 < extent <= MAX_BOX for extent in spec.box), f"boxes of {spec.box}; fix: extents of at most {MAX_BOX}"),
        (row % MULTIPLE != 0, f"boxes of {row} bytes along the last axis; fix: a multiple of {MULTIPLE}"),
        (spec.swizzle and row > spec.swizzle, f"boxes of {row} bytes along the last axis, swizzled by {spec.swizzle}"),
        (pads_with_nan and element[0] == "i", f"padding with NaN of {spec.element} elements; fix: zeros"),
    ]
    return next((text for is_wrong, text in checks if is_wrong), "")
