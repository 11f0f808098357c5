"""Which code runs on which device, and which driver takes which PTX."""

from __future__ import annotations

import importlib.util

import joinery as jn
import pytest
from joinery.lowering.llvm.nvptx import targets as made
from joinery.lowering.ptx.targets import PTX_VERSIONS
from joinery.runtime.cuda import driver
from joinery.runtime.cuda.targets import choose_target, runs_on


def test_the_targets_are_those_code_is_made_for() -> None:
    assert {name: target.ptx for name, target in made.TARGETS.items()} == PTX_VERSIONS
    assert all(version in driver.DRIVERS for version in PTX_VERSIONS.values())
    capabilities = [target.capability for target in made.TARGETS.values()]
    assert capabilities == sorted(capabilities)
    assert all(runs_on(name, target.capability) for name, target in made.TARGETS.items())


@pytest.mark.parametrize(
    ("capability", "target"),
    [(80, "sm_80"), (86, "sm_86"), (87, "sm_86"), (88, "sm_86"), (89, "sm_89"), (90, "sm_90a"), (100, "sm_100a"),
     (101, "sm_89"), (103, "sm_89"), (110, "sm_89"), (120, "sm_120a"), (121, "sm_89")],
)  # fmt: skip
def test_the_newest_target_that_runs(capability: int, target: str) -> None:
    assert choose_target(capability, 13000, "cuda") == target


def test_an_older_driver_gets_an_older_target() -> None:
    assert choose_target(89, 12030, "cuda") == "sm_86"  # sm_89's code is PTX 8.4
    assert choose_target(100, 12040, "cuda") == "sm_89"
    assert choose_target(90, 11080, "cuda") == "sm_86"


def test_devices_and_drivers_that_are_too_old() -> None:
    with pytest.raises(jn.DeviceError, match=r"cuda \(T4\) has compute capability 7\.5; joinery makes code for 8\.0 and newer"):
        choose_target(75, 13000, "cuda (T4)")
    with pytest.raises(jn.DeviceError, match=r"the driver is for CUDA 10\.2, code for this device takes 11\.0 or newer; fix: "):
        choose_target(80, 10020, "cuda")


@pytest.mark.parametrize(
    ("version", "ptx"), [(10020, 0), (11000, 70), (11080, 78), (12050, 85), (12060, 85), (12080, 87), (13000, 90)]
)
def test_the_highest_ptx_of_a_driver(version: int, ptx: int) -> None:
    assert driver.highest_ptx(version) == ptx


def test_unknown_ptx_is_refused() -> None:
    with pytest.raises(jn.DeviceError, match=r"@k is PTX 12\.3; no driver that this version of joinery knows takes it"):
        driver.check_ptx(123, 13000, "@k")
    with pytest.raises(jn.UserError, match="no GPU target 'gfx90a'"):
        runs_on("gfx90a", 90)


def test_the_bindings_agree_about_drivers() -> None:
    if importlib.util.find_spec("cuda") is None:
        pytest.skip("cuda-python is not installed")
    utils = importlib.import_module("cuda.bindings.utils")
    for ptx, version in driver.DRIVERS.items():
        try:
            assert utils.get_minimal_required_cuda_ver_from_ptx_ver(driver.ptx_text(ptx)) == version
        except ValueError:  # bindings older than that PTX
            assert ptx > 88
