"""How launches of Triton's kernels run: environment, options, modes. Triton is not needed."""

from __future__ import annotations

from typing import Any

import joinery as jn
import pytest
from joinery.interface.triton.options import DEFAULTS, Options, parse_options, settings_of
from joinery.interface.triton.settings import Settings, current, from_environment, is_asked_for, set_current


@pytest.mark.parametrize(
    ("environment", "asked", "mode"),
    [
        ({}, False, "native"),
        ({"JOINERY_TRITON": "0"}, False, "native"),
        ({"JOINERY_TRITON": "off"}, False, "native"),
        ({"JOINERY_TRITON": "1"}, True, "native"),
        ({"JOINERY_TRITON": "sanitize"}, True, "sanitize"),
        ({"JOINERY_TRITON": "PTXSIM"}, True, "ptxsim"),
        ({"TRITON_DEFAULT_BACKEND": "cpu"}, True, "native"),
        ({"TRITON_DEFAULT_BACKEND": "nvidia"}, False, "native"),
    ],
)
def test_the_environment_decides(environment: dict[str, str], asked: bool, mode: str) -> None:
    assert is_asked_for(environment) is asked
    assert from_environment(environment).mode == mode


def test_more_of_the_environment() -> None:
    found = from_environment({"JOINERY_TRITON": "1", "JOINERY_TRITON_THREADS": "3", "JOINERY_TRITON_TARGET": "sm_80"})
    assert (found.threads, found.target) == (3, "sm_80")
    assert not found.check_bounds
    assert from_environment({"JOINERY_TRITON_CHECK_BOUNDS": "1"}).check_bounds
    with pytest.raises(jn.UserError, match="JOINERY_TRITON_CHECK_BOUNDS is 'maybe'"):
        from_environment({"JOINERY_TRITON_CHECK_BOUNDS": "maybe"})
    with pytest.raises(jn.UserError, match=r"JOINERY_TRITON.*did you mean 'sanitize'"):
        from_environment({"JOINERY_TRITON": "sanitise"})
    for wrong in ("0", "-1", "many", "1025"):
        with pytest.raises(jn.UserError, match="JOINERY_TRITON_THREADS"):
            from_environment({"JOINERY_TRITON_THREADS": wrong})


def test_options_are_parsed_once_and_for_all() -> None:
    given: dict[str, Any] = {
        "num_warps": 8, "debug": True, "sanitize": True, "maxnreg": 64, "kpack": None, "BLOCK": 1024, "device": "cpu",
    }  # fmt: skip
    options = parse_options(given)
    assert (options.num_warps, options.debug, options.sanitize, options.device) == (8, True, True, "cpu")
    assert "device" not in given, "Triton asserts that launches name none"
    assert options.maxnreg == 64
    assert "BLOCK" not in options.__dict__, "Triton refuses what is no option and no parameter"
    again = parse_options(dict(options.__dict__))
    assert again.__dict__ == options.__dict__
    assert again.hash() == options.hash()
    assert parse_options({"num_warps": 4}).hash() == Options().hash() != options.hash()
    assert set(DEFAULTS) <= set(Options().__dict__)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_ctas": 0}, "num_ctas=0"),
        ({"num_ctas": 3}, "num_ctas=3; expected a power of 2"),
        ({"threads": 0}, "threads=0"),
        ({"threads": True}, "threads=True"),
        ({"device": "cuda"}, "device='cuda'"),
        ({"numerics": "loose"}, "numerics"),
        ({"sanitize": True, "interpret": True}, "give one"),
        ({"sanitize": True, "device": "ptxsim"}, "sanitize=True and device='ptxsim'; fix: give one"),
        ({"interpret": True, "device": "ptxsim"}, "interpret=True and device='ptxsim'; fix: give one"),
        ({"sanitize": "no"}, "sanitize='no'; expected True or False"),
    ],
)
def test_options_that_say_nothing(given: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        parse_options(given)


@pytest.mark.parametrize("warps", [0, 3, -4, 2.0, "4"])
def test_warps_are_powers_of_two_as_on_a_gpu(warps: Any) -> None:
    with pytest.raises(AssertionError, match="num_warps must be a power of 2"):
        parse_options({"num_warps": warps})


def test_launches_go_before_what_is_enabled() -> None:
    before = current()
    try:
        set_current(Settings("sanitize", 2, "sm_80", "fast"))
        assert settings_of(Options()) == Settings("sanitize", 2, "sm_80", "fast")
        assert settings_of(Options(interpret=True)).mode == "interpret"
        assert settings_of(Options(sanitize=False)).mode == "native"
        assert settings_of(Options(device="cpu")).mode == "native"
        assert settings_of(Options(device="ptxsim", gpu="sm_90a")) == Settings("ptxsim", 2, "sm_90a", "fast")
        assert settings_of(Options(threads=1, numerics="strict")) == Settings("sanitize", 1, "sm_80", "strict")
    finally:
        set_current(before)
