"""The GPUs that PTX is generated for."""

from __future__ import annotations

PTX_VERSIONS: dict[str, int] = {"sm_80": 70, "sm_86": 71, "sm_89": 84, "sm_90a": 80, "sm_100a": 86, "sm_120a": 87}
"""Target → the lowest PTX version (times ten) that has it, which is the version of its code. Ordered by capability.

Source: NVIDIA, "PTX ISA", "Release notes".
"""

SHARED_BYTES: dict[str, int] = {
    name: kib << 10
    for name, kib in {"sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90a": 227, "sm_100a": 227, "sm_120a": 99}.items()
}
"""Target → the bytes of shared memory that a block of threads may have.

Source: NVIDIA, "CUDA C++ Programming Guide", "Compute capabilities".
"""
