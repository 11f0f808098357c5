"""How kernels that Triton launches are run: natively, interpreted, sanitized, or as simulated PTX.

What a launch says (`kernel[grid](…, sanitize=True)`) goes before what `enable` said, and that before the environment.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace

from ...lowering.llvm.nvptx.targets import gpu_target
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError, close_names

MODES = ("native", "interpret", "sanitize", "ptxsim")
VARIABLE = "JOINERY_TRITON"
"""The environment variable that makes joinery Triton's back end: 1 or on, or one of `MODES`; 0, off or nothing for no."""
_OFF, _ON = ("", "0", "off", "false", "no"), ("1", "on", "true", "yes")
_INTERPRETER = "TRITON_INTERPRET"


@dataclass(frozen=True, slots=True)
class Settings:
    """How launches run that do not say it themselves.

    mode: one of `MODES`.
    threads: threads of the CPU for native code; None for the default.
    target: the GPU that PTX is made for.
    numerics: "strict", "fast" or "reproducible", as `joinery.kernel.from_ttir` takes it.
    check_bounds: whether native code compares accesses with the memory of their tensors.
    """

    mode: str = "native"
    threads: int | None = None
    target: str = "sm_90a"
    numerics: str = "strict"
    check_bounds: bool = False


def checked_mode(mode: str, where: str) -> str:
    """The mode. Raises `UserError` for what is none."""
    if mode not in MODES:
        close = close_names(str(mode), MODES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(MODES)}"
        raise UserError(f"{where}: unknown mode {mode!r}; {hint}")
    return mode


def is_asked_for(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the environment asks for joinery: by `JOINERY_TRITON`, or Triton's own `TRITON_DEFAULT_BACKEND=cpu`."""
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "").lower() not in _OFF
    return named or environment.get("TRITON_DEFAULT_BACKEND") == "cpu"


def warn_of_interpreter(environment: Mapping[str, str] | None = None) -> None:
    """Warn that Triton's own interpreter takes the kernels, if the environment asks for it.

    `@triton.jit` then makes functions that no back end sees.
    """
    environment = os.environ if environment is None else environment
    value = environment.get(_INTERPRETER, "")
    if value.lower() in (*_ON, "y"):
        message = f"{_INTERPRETER}={value}: Triton's own interpreter runs the kernels, not joinery; fix: unset it, or for "
        message += f"joinery's interpreter set {VARIABLE}=interpret in its place"
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings that the environment asks for.

    Variables: `JOINERY_TRITON` (a mode), `JOINERY_TRITON_THREADS`, `JOINERY_TRITON_TARGET`, `JOINERY_TRITON_CHECK_BOUNDS`.

    Raises `UserError` for values that say nothing.
    """
    environment = os.environ if environment is None else environment
    found = Settings()
    mode = environment.get(VARIABLE, "").lower()
    if mode not in _OFF and mode not in _ON:
        found = replace(found, mode=checked_mode(mode, f"the environment variable {VARIABLE}"))
    threads = environment.get("JOINERY_TRITON_THREADS", "")
    if threads:
        if not threads.isdecimal() or not 1 <= int(threads) <= 1024:
            raise UserError(f"the environment variable JOINERY_TRITON_THREADS is {threads!r}, expected a number from 1 to 1024")
        found = replace(found, threads=int(threads))
    target = environment.get("JOINERY_TRITON_TARGET", "")
    if target:
        _check_target(target)
        found = replace(found, target=target)
    checks = environment.get("JOINERY_TRITON_CHECK_BOUNDS", "").lower()
    if checks not in (*_ON, *_OFF):
        raise UserError(f"the environment variable JOINERY_TRITON_CHECK_BOUNDS is {checks!r}, expected 1 or 0")
    return replace(found, check_bounds=checks in _ON)


def _check_target(target: str) -> None:
    try:
        gpu_target(target)
    except UserError as error:
        raise UserError(f"the environment variable JOINERY_TRITON_TARGET: {error}") from None


_current: list[Settings] = []


def current() -> Settings:
    """The settings of launches that say nothing themselves."""
    if not _current:
        _current.append(from_environment())
    return _current[0]


def set_current(settings: Settings) -> None:
    """Make these the settings of launches that say nothing themselves."""
    _current[:] = [settings]
