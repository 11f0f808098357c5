"""The options of a launch as Triton's front end, hooks and caches read them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ...lowering.llvm.nvptx.targets import gpu_target
from ...lowering.numerics import checked_numerics
from ...promotion.errors import UserError
from .settings import Settings, current

IGNORED = frozenset({
    # of CUDA's back end
    "maxnreg", "ptx_version", "ptx_options", "sched4reg", "enable_reflect_ftz", "launch_pdl", "clc", "min_shared_mem",
    # of Triton 3.3
    "num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer", "reg_inc_consumer",
    # of HIP's
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "allow_flush_denorm",
})  # fmt: skip
"""Options that other back ends have and that say nothing here: a kernel that gives them runs all the same."""


DEFAULTS: Mapping[str, Any] = {
    # what Triton's front end, its hooks and its launcher read
    "num_warps": 4,
    "num_ctas": 1,
    "cluster_dims": (1, 1, 1),
    "num_stages": 3,
    "warp_size": 32,
    "enable_fp_fusion": False,
    "launch_cooperative_grid": False,
    "supported_fp8_dtypes": ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16"),
    "deprecated_fp8_dot_operand_dtypes": (),
    "deprecated_fp8_dtypes": (),
    "default_dot_input_precision": "ieee",
    "allowed_dot_input_precisions": ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"),
    "max_num_imprecise_acc_default": 0,
    "extern_libs": (),
    "debug": False,
    "backend_name": "cpu",
    "sanitize_overflow": True,
    "arch": None,
    "instrumentation_mode": "",
    "fpsan_homomorphic_casts": False,
    "ir_override": None,
    # how launches run; None: as enabled
    "sanitize": None,
    "interpret": None,
    "device": None,
    "threads": None,
    "numerics": None,
    "gpu": None,
    "check_bounds": None,
}


class Options:
    """The options of a compilation. Attributes: `DEFAULTS`, and those of `IGNORED` that were given.

    sanitize, interpret, device: the mode.  threads, numerics, check_bounds: as `joinery.triton.enable` takes them.
    gpu: its `target`.

    Raises `UserError` for values that say nothing, `AssertionError`, as CUDA's do, for `num_warps` that are no power of two.
    """

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(DEFAULTS)
        self.__dict__.update(given)
        named = self.__dict__
        for name, value in named.items():
            if isinstance(value, list):  # as JSON keeps tuples
                named[name] = tuple(tuple(each) if isinstance(each, list) else each for each in value)
        warps, blocks, threads = named["num_warps"], named["num_ctas"], named["threads"]
        is_power = isinstance(warps, int) and warps > 0 and not warps & (warps - 1)
        assert is_power, "num_warps must be a power of 2"
        if not isinstance(blocks, int) or blocks < 1 or blocks & (blocks - 1):  # others end in Triton's compiler for CUDA
            raise UserError(f"num_ctas={blocks!r}; expected a power of 2")
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 1024):
            raise UserError(f"threads={threads!r}; expected a number from 1 to 1024")
        if named["numerics"] is not None:
            checked_numerics(named["numerics"], "numerics")
        if named["gpu"] is not None:
            gpu_target(named["gpu"])
        for name in ("sanitize", "interpret", "check_bounds"):
            if named[name] not in (None, True, False):
                raise UserError(f"{name}={named[name]!r}; expected True or False")
        if named["sanitize"] and named["interpret"]:
            raise UserError("a launch with sanitize=True and interpret=True; fix: give one, sanitize=True checks more")
        if named["device"] == "ptxsim" and (named["sanitize"] or named["interpret"]):
            which = "sanitize" if named["sanitize"] else "interpret"
            raise UserError(f"a launch with {which}=True and device='ptxsim'; fix: give one; the simulator checks memory")
        mode_of(named["sanitize"], named["interpret"], named["device"])

    def hash(self) -> str:
        """A digest of all options, for Triton's caches."""
        text = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def mode_of(sanitize: bool | None, interpret: bool | None, device: str | None) -> str | None:
    """The mode that a launch with these options asks for; None: none. Raises `UserError` for a device that there is not."""
    if device is not None and device not in ("cpu", "ptxsim"):
        raise UserError(f"device={device!r}; kernels run on device='cpu' or 'ptxsim'")
    if device == "ptxsim":
        return "ptxsim"
    if sanitize:
        return "sanitize"
    if interpret:
        return "interpret"
    return "native" if device == "cpu" or sanitize is False or interpret is False else None


def parse_options(given: dict[str, Any]) -> Options:
    """The options among the keywords of a launch; names that are none are left to Triton, which refuses them.

    Triton asserts that no launch names a device, in the same dictionary: ours is taken out of it.
    """
    is_parsed = "backend_name" in given
    known = {name: value for name, value in given.items() if name in DEFAULTS and value is not None}
    ignored = {name: value for name, value in given.items() if name in IGNORED}
    if not is_parsed:
        given.pop("device", None)
    if isinstance(extern := known.get("extern_libs"), Mapping):
        known["extern_libs"] = tuple((str(name), str(path)) for name, path in extern.items())
    return Options(**ignored, **known)


def settings_of(options: Any) -> Settings:
    """How launches with these options run: what they say themselves, and what is enabled for the rest."""
    ambient = current()
    mode = mode_of(options.sanitize, options.interpret, options.device)
    threads = options.threads if options.threads is not None else ambient.threads
    checks = ambient.check_bounds if options.check_bounds is None else bool(options.check_bounds)
    return Settings(
        mode or ambient.mode, threads, options.gpu or ambient.target, options.numerics or ambient.numerics, checks
    )
