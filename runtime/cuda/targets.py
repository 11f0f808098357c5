"""Decides which code runs on which device.

PTX for sm_XY runs on that capability and all newer ones, as the driver assembles it. PTX for sm_XYa uses features that only
that very chip has. Source: NVIDIA, "PTX ISA", ".target"; "CUDA C++ Programming Guide", "Compute capabilities".
"""

from __future__ import annotations

from ...lowering.ptx.targets import PTX_VERSIONS
from ...promotion.errors import DeviceError, UserError
from .driver import DRIVERS, version_text


def capability_of(target: str) -> tuple[int, bool]:
    """Returns the capability of a target, and whether its code runs on no other: (90, True) for "sm_90a".
    Raises `UserError` for other names."""
    digits = target.removeprefix("sm_").rstrip("af")
    if not target.startswith("sm_") or not digits.isdigit():
        raise UserError(f"no GPU target {target!r}; targets: {', '.join(PTX_VERSIONS)}")
    return int(digits), target.endswith(("a", "f"))


def runs_on(target: str, capability: int) -> bool:
    """Returns whether code for the target runs on a device of this capability (90 for 9.0)."""
    first, is_exact = capability_of(target)
    return capability == first if is_exact else capability >= first


def choose_target(capability: int, driver_version: int, what: str) -> str:
    """Returns the newest target whose code runs on a device of this capability with this driver. Raises
    `DeviceError` if there is none."""
    fitting = [target for target in PTX_VERSIONS if runs_on(target, capability)]
    if not fitting:
        raise DeviceError(
            f"{what} has compute capability {capability // 10}.{capability % 10}; joinery makes code for 8.0 and newer"
        )
    taken = [target for target in fitting if DRIVERS[PTX_VERSIONS[target]] <= driver_version]
    if not taken:
        needed = min(DRIVERS[PTX_VERSIONS[target]] for target in fitting)
        raise DeviceError(
            f"{what}: the driver is for CUDA {version_text(driver_version)}, code for this device takes {version_text(needed)} "
            "or newer; fix: install a newer driver"
        )
    return taken[-1]
